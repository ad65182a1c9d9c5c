"""The recipes that go with the shipped rigs: planned on the simulated laboratory, with nothing refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from choroid.simulation.plan import plan

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def planned(name: str, hours: float, **params: str) -> dict[str, Any]:
    rig, recipe = EXAMPLES / "rigs" / f"{name}.yaml", EXAMPLES / "protocols" / f"{name}.yaml"
    answer = plan(rig, protocol=str(recipe), params=params, hours=hours, seed=1)
    assert answer["feasible"], answer["refusals"]
    assert answer["refusals"] == []
    return answer


def test_the_straw_keeps_the_vial_at_its_level(tmp_path: Path) -> None:
    volumes = planned("straw_vial", 3.0)["volumes"]
    assert volumes["vial"]["end_ml"] == pytest.approx(20.0, abs=0.1)
    assert volumes["vial"]["start_ml"] == pytest.approx(20.0, abs=0.15)
    fed_ml = volumes["bottle"]["out_ml"]
    assert fed_ml == pytest.approx(3.0, abs=0.6)
    assert volumes["carboy"]["in_ml"] == pytest.approx(fed_ml, abs=0.1), (
        "what comes in leaves through the straw; the rest is air"
    )


def test_both_plates_are_skimmed_and_the_second_medium_follows_the_first(tmp_path: Path) -> None:
    answer = planned("skimmed_plates", 2.5, growth_time="1 h", maturation_time="1 h")
    volumes = answer["volumes"]
    for plate in ("plate_a", "plate_b"):
        assert volumes[plate]["end_ml"] == pytest.approx(10.0, abs=0.4)
        assert volumes[plate]["in_ml"] == pytest.approx(6.0, abs=0.1)
    assert volumes["growth_bottle"]["out_ml"] == pytest.approx(6.0, abs=0.1)
    assert volumes["maturation_bottle"]["out_ml"] == pytest.approx(7.5, abs=0.1), "two plates, and the rinse"


@pytest.mark.parametrize(("name", "hours"), [("selector_wells", 1.0)])
def test_each_well_gives_and_receives_the_same(name: str, hours: float) -> None:
    volumes = planned(name, hours)["volumes"]
    wells = [name for name in volumes if name.startswith("w") and name != "waste"]
    assert len(wells) == 12
    for well in wells:
        assert volumes[well]["in_ml"] == pytest.approx(volumes[well]["out_ml"], abs=0.01)
        assert volumes[well]["in_ml"] == pytest.approx(0.15, abs=0.01)
