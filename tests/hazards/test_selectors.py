"""Hazards of selectors: each is covered by what the rig has, or is a gap that names what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.hazards.table import hazards_of
from controller.hazards.terms import Hazard, HazardVerdict
from controller.rig.loading import load_rig
from tests.rig.test_selectors import cascade, wells

Data = dict[str, Any]
COVERED, GAP, RESIDUAL = HazardVerdict.COVERED, HazardVerdict.GAP, HazardVerdict.RESIDUAL


def table(data: Data, folder: Path) -> dict[str, Hazard]:
    path = folder / "rig.yaml"
    path.write_text(yaml.safe_dump(json.loads(json.dumps(data)), sort_keys=False), encoding="utf-8")
    return {row.id: row for row in hazards_of(load_rig(path))}


def test_two_selectors_are_covered_but_for_a_slipped_rotor(tmp_path: Path) -> None:
    rows = table(wells(), tmp_path)
    assert rows["wrong_port_supply"].verdict is RESIDUAL
    assert rows["wrong_port_supply"].sensor == "giver.position"
    assert rows["blocked_port_supply"].verdict is COVERED
    assert rows["blocked_port_supply"].sensor == "gauge.pressure"
    assert rows["blocked_port_takeoff"].verdict is COVERED
    assert rows["blocked_port_takeoff"].sensor == "balance.mass"
    assert not any(name.startswith(("carry_over", "harmful")) for name in rows), "one medium"


def test_a_well_behind_a_selector_may_be_overfilled_and_emptied(tmp_path: Path) -> None:
    data = wells()
    data["vessels"]["w03"] |= {"floor": "0 mL"}
    data["vessels"]["w04"] |= {"ceiling": "2 mL"}
    rows = table(data, tmp_path)
    assert (rows["dry_w02"].verdict, rows["overflow_w02"].verdict) == (COVERED, COVERED)
    assert rows["dry_w02"].actuators == ("reglo.take",)
    assert rows["dry_w03"].verdict is GAP
    assert rows["overflow_w04"].verdict is GAP


@pytest.mark.parametrize(
    ("device", "row", "said"),
    [
        ("gauge", "blocked_port_supply", "a dose that goes nowhere counts as given"),
        ("balance", "blocked_port_takeoff", "takes nothing out of a chamber, which the next doses fill up"),
    ],
)
def test_a_blocked_port_that_nothing_shows_is_a_gap(device: str, row: str, said: str, tmp_path: Path) -> None:
    data = wells()
    del data["devices"][device]
    if device == "gauge":
        del data["safety"]["over_pressure"]
    found = table(data, tmp_path)[row]
    assert found.verdict is GAP
    assert said in found.gaps[0].what
    data["safety"]["accepted"] = {
        "blocked_ports": {"reason": "a person looks at every well each day", "by": "R. Franklin"}
    }
    assert table(data, tmp_path)[row].verdict is HazardVerdict.ACCEPTED


def two_media() -> Data:
    data = cascade()
    data["media"]["other"] = {**data["media"]["fresh"], "glucose": "5 mM"}
    data["vessels"]["rinse"]["contains"] = "other"
    return data


def test_a_line_that_two_media_share_needs_a_port_to_waste(tmp_path: Path) -> None:
    data = two_media()
    assert table(data, tmp_path)["carry_over_dose"].verdict is COVERED
    del data["lines"]["flush"]
    gap = table(data, tmp_path)["carry_over_dose"].gaps[0]
    assert "medium, rinse share line “dose”" in gap.what
    assert "from: supply" in gap.fix


def test_a_liquid_that_kills_tissue_must_be_forbidden(tmp_path: Path) -> None:
    data = two_media()
    data["media"]["other"]["osmolality"] = "2000 mOsm/kg"
    row = table(data, tmp_path)["harmful_rinse"]
    assert row.verdict is GAP
    assert "“other” (2000 mOsm/kg) kills tissue, and may be dosed into w01 to w12 (12)" in row.gaps[0].what
    data["safety"]["never"] = [["other", "chamber"]]
    row = table(data, tmp_path)["harmful_rinse"]
    assert row.verdict is RESIDUAL
    assert row.sensor == "chooser.position, giver.position, far.position"


def test_a_choice_of_medium_names_what_shows_a_blocked_bottle(tmp_path: Path) -> None:
    row = table(two_media(), tmp_path)["blocked_port_chooser"]
    assert (row.verdict, row.sensor) == (RESIDUAL, "flow.flow")
