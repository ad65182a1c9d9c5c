"""Rigs of other laboratories, and adversarial ones (tests/rigs): each is described, checked and planned, or refused by name.

The expected outcome of a rig is in the file next to it (`python -m tests.rigs.outcomes`).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from choroid.rig_file.check import check_rig
from choroid.simulation.plan import plan
from controller.hazards.loading import load_checked_rig
from controller.rig.convert import convert
from controller.rig.loading import load_rig
from controller.rig.problems import RigError
from controller.rig.schematic import describe
from drivers.registry import MODELS
from tests.rig.test_schema import refusals
from tests.rigs.outcomes import RIGS, expected, outcome

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
    assert convert(path).changes == ()


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
def test_a_recipe_of_a_sound_rig_is_planned_without_a_refusal(path: Path) -> None:
    recipes = json.loads(expected(path).read_text(encoding="utf-8"))["recipes"]
    assert "stand-by" in recipes
    planned = plan(path, protocol="stand-by", params={}, hours=0.25, seed=1)
    assert planned["refusals"] == []
    assert planned["looked_h"] == 0.25


@pytest.mark.parametrize("path", SOUND, ids=[path.stem for path in SOUND])
def test_the_graph_of_a_sound_rig_names_all_that_it_has(path: Path) -> None:
    rig = load_rig(path)
    graph = describe(rig)
    assert [vessel["name"] for vessel in graph["vessels"]] == list(rig.vessels)
    assert {vessel["name"] for vessel in graph["vessels"] if vessel["organoid"]} == set(rig.tissue)
    places = {*rig.vessels, *rig.junctions}
    assert all({line["from"], line["to"]} <= places for line in graph["lines"])
