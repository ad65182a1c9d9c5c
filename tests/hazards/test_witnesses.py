"""Hazards of doses for which only the pump vouches: a row for each line that no weighing and no flow sensor proves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from choroid.common.examples import bench_rig
from controller.hazards.loading import load_checked_rig
from controller.hazards.table import hazards_of
from controller.hazards.terms import HazardVerdict
from controller.hazards.witnesses import unwitnessed_id
from tests.hazards.test_selectors import table
from tests.rig.test_selectors import wells

Data = dict[str, Any]


def _with_flow(data: Data, line: str, every: str) -> Data:
    data["devices"]["flow"] = {"model": "sensirion-slf3x", "link": "sim:flow", "at": line, "every": every}
    return data


def test_a_line_without_a_witness_leaves_a_hazard_that_names_what_is_unseen_and_the_remedy(tmp_path: Path) -> None:
    data = wells()
    data["devices"].pop("flow", None)
    rows = table(data, tmp_path)
    for line in ("dose", "take"):
        row = rows[unwitnessed_id(line)]
        assert (row.verdict, row.place, row.sensor) == (HazardVerdict.RESIDUAL, line, "none")
        assert (row.limits, row.actuators) == ("every dose", (f"reglo.{line}",))
        assert "air in the line, a motor that turns backwards, a valve between two ports" in row.note
        assert f"fit a flow sensor that tells of air (“at: {line}”)" in row.note
    assert "after many, balance.mass shows what they lack together" in rows["unwitnessed_take"].note


@pytest.mark.parametrize(("every", "limits"), [("1 s", ""), ("2 s", "doses under 83.3 uL")])
def test_a_flow_sensor_proves_the_doses_during_which_it_reads_twice(every: str, limits: str, tmp_path: Path) -> None:
    rows = table(_with_flow(wells(), "dose", every), tmp_path)
    assert "unwitnessed_take" in rows, "it stands in the other line"
    row = rows.get(unwitnessed_id("dose"))
    assert (row.limits if row else "") == limits
    if row is not None:
        assert (row.sensor, row.verdict) == ("flow.flow", HazardVerdict.RESIDUAL)
        assert "read flow.flow more often" in row.note


def test_lines_to_and_from_the_weighed_vessel_have_a_witness_and_that_of_dialysate_has_none() -> None:
    for name, expected in (("bench", []), ("bench_dialysis", ["dialyse"])):
        rig = load_checked_rig(bench_rig().with_name(f"{name}.yaml"))
        found = [row.place for row in hazards_of(rig) if row.id == unwitnessed_id(row.place)]
        assert found == expected, name
