"""Rigs of other laboratories, and adversarial ones (tests/rigs): each is described, checked and planned, or refused by name.

The expected outcome of a rig is in the file next to it (`python -m tests.rigs.outcomes`).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from choroid.rig_file.check import check_rig
from controller.hazards.loading import load_checked_rig
from controller.rig.loading import load_rig
from controller.rig.problems import RigError
from controller.rig.schematic import describe
from drivers.registry import MODELS
from sim.lab import SimulatedLab
from sim.plant.columns import Content
from tests.rig.test_schema import refusals
from tests.rigs.outcomes import FOLDER, RIGS, expected, outcome
from tests.rigs.survey import survey, unexplained_ul

SOUND = [path for path in RIGS if "refused" not in json.loads(expected(path).read_text(encoding="utf-8"))]
REFUSED = [path for path in RIGS if path not in SOUND]


def test_there_are_twenty_and_more() -> None:
    assert len(RIGS) >= 20
    assert len(SOUND) >= 14
    assert len(REFUSED) >= 5


@pytest.mark.parametrize("path", RIGS, ids=[path.stem for path in RIGS])
def test_a_foreign_rig_is_described(path: Path) -> None:
    rig = load_rig(path, models=MODELS)
    assert rig.name == path.stem.replace("_", "-")
    assert refusals(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", RIGS, ids=[path.stem for path in RIGS])
def test_a_foreign_rig_has_its_expected_outcome(path: Path) -> None:
    assert outcome(path) == json.loads(expected(path).read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", REFUSED, ids=[path.stem for path in REFUSED])
def test_an_unsound_rig_is_refused_once_and_by_its_hazards(path: Path) -> None:
    with pytest.raises(RigError) as caught:
        load_checked_rig(path, models=MODELS)
    assert all(problem.fix and problem.line > 0 for problem in caught.value.problems)
    answer = check_rig(path)
    gaps = {gap["what"] for row in answer["hazards"] if row["verdict"] == "gap" for gap in row["gaps"]}
    assert {problem.what for problem in caught.value.problems} == gaps


@pytest.mark.parametrize("path", SOUND, ids=[path.stem for path in SOUND])
def test_a_sound_rig_is_planned_and_its_tissue_lives(path: Path) -> None:
    """A short sample; `python -m tests.rigs.survey` simulates two days of each rig."""
    found = survey(path, days=0.05, plan_h=0.25)
    assert found.plan_feasible, found.plan_problems
    assert found.violations == ()
    assert found.volume_error_ul < 0.01, "the plant conserves liquid"
    # In a chain the second and third chamber get what the first one left of the oxygen.
    assert min(found.viability.values()) > 0.93
    assert {alarm.partition(":")[0] for alarm in found.alarms} <= {"hazard_accepted"}
    assert "stand-by" in found.recipes


@pytest.mark.virtual_time
async def test_the_survey_finds_liquid_that_no_cause_explains() -> None:
    lab = SimulatedLab(load_rig(FOLDER / "two_plates.yaml", models=MODELS), seed=1)
    before_ul = unexplained_ul(lab.plant.truth())
    lab.plant.fill("bottle", 150_000.0)
    assert unexplained_ul(lab.plant.truth()) == pytest.approx(before_ul), "what a person does is a cause"
    lab.plant.fleet.vessels[0, 0, Content.LIQUID] -= 5.0
    assert unexplained_ul(lab.plant.truth()) == pytest.approx(before_ul - 5.0)


@pytest.mark.parametrize("path", SOUND, ids=[path.stem for path in SOUND])
def test_the_graph_of_a_sound_rig_names_all_that_it_has(path: Path) -> None:
    rig = load_rig(path)
    graph = describe(rig)
    assert [vessel["name"] for vessel in graph["vessels"]] == list(rig.vessels)
    assert {vessel["name"] for vessel in graph["vessels"] if vessel["organoid"]} == set(rig.tissue)
    places = {*rig.vessels, *rig.junctions, *rig.selectors}
    assert all({line["from"], line["to"]} <= places for line in graph["lines"])
