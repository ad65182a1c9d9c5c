"""A pump with coarse steps of speed: `choroid check` says which flows of the file it cannot give, and the plant agrees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from choroid.rig_file.check import as_text, check_rig
from choroid.simulation.simulate import simulate
from sim.lab import SimulatedLab

RIGS = Path(__file__).resolve().parents[1] / "rigs"
COARSE = {"model": "watson-marlow-ascii", "link": "sim:pump", "every": "5 s"}
SETTINGS = {"series": "323", "max_rpm": 220, "ul_per_rev": 790}
"""Whole rpm of tubing with 3.2 mm: steps of 0.79 mL/min."""


def plates(folder: Path, **settings: Any) -> Path:
    data = yaml.safe_load((RIGS / "two_plates.yaml").read_text(encoding="utf-8"))
    data["devices"]["pump"] = COARSE | {"settings": SETTINGS | settings}
    data["lines"]["heart"]["bore"] = "3.2 mm"
    path = folder / "rig.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    return path


def test_a_flow_between_two_steps_is_a_warning_with_the_flow_that_the_pump_gives(tmp_path: Path) -> None:
    answer = check_rig(plates(tmp_path))
    assert answer["ok"], answer["problems"]
    found = {text.partition(":")[0]: text for text in answer["warnings"]}
    assert "gives 2.37 mL/min instead of 2 mL/min (+19%)" in found["organs.hearts.heart.flow"]
    assert "gives 0.79 mL/min instead of 1 mL/min (-21%)" in found["organs.hearts.heart.basal"]
    assert "organs.hearts.heart.max" not in found, "3.95 mL/min are near enough to 4"
    assert "WARNING: organs.hearts.heart.flow" in as_text(answer)


def test_a_fine_pump_has_no_warning(tmp_path: Path) -> None:
    assert check_rig(RIGS / "two_plates.yaml")["warnings"] == []
    assert check_rig(plates(tmp_path, series="530", ul_per_rev=215))["warnings"] == []


def test_the_pump_runs_at_the_flow_that_the_warning_names(tmp_path: Path) -> None:
    flows: list[float] = []

    def watch(_: float, lab: SimulatedLab, __: object) -> None:
        flows.append(lab.plant.truth().flows_ul_min["heart"])

    simulate(plates(tmp_path), days=0.01, seed=1, watch=watch)
    assert flows[-1] == pytest.approx(2370.0, rel=0.08), "within what the tubing's revolution is known"
