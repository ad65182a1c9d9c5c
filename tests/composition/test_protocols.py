"""Protocols on rigs of other shapes: which are available, why not the others, rehearsals, readings of several hearts."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from controller.core.state import Volume
from controller.recipes.catalogue import find, shipped
from controller.recipes.file import RecipeError, read_recipe
from controller.recipes.on_rig import UnavailableError, check_on, lacking
from controller.rig.description import Rig
from controller.runs.paper import Rehearsed
from controller.runs.rehearsal import rehearse
from controller.transfers.routes import routes_of
from protocols.parameters import complete
from protocols.registry import Recipe
from tests.composed_rigs import dishes, single_pass, two_hearts, two_plates

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
MANUAL = """
  - wait: 2 h
  - ask_operator: "Replace half of the medium in each dish, then resume."
  - measure: {point: POINT, as: seen}
  - note: {kind: fed, values: {seen: seen}}
"""


def recipe_of(folder: Path, steps: str) -> Recipe:
    path = folder / "mine.yaml"
    path.write_text(f"recipe: 1\nname: mine\ntitle: A test\nsteps:{steps}", encoding="utf-8")
    return read_recipe(path, find=find)


def rehearsed(recipe: Recipe, rig: Rig, **params: float) -> Rehearsed:
    volumes = {name: Volume(vessel.volume_ul, 50.0) for name, vessel in rig.vessels.items()}
    values = complete(recipe.params, params)
    return asyncio.run(rehearse(recipe, rig, values, volumes=volumes, now=NOW))


def measured(out: Rehearsed) -> list[str]:
    return [event.text for event in out.events if event.verb == "measure"]


@pytest.mark.parametrize("rig", [two_plates(), single_pass(), dishes()], ids=lambda rig: rig.name)
def test_there_are_routes_for_lines_that_exist_only(rig: Rig) -> None:
    assert routes_of(rig) == {}


@pytest.mark.parametrize("rig", [two_plates(), two_hearts(), single_pass(), dishes()], ids=lambda rig: rig.name)
def test_a_rig_without_a_kidney_says_what_the_shipped_protocols_lack(rig: Rig) -> None:
    lacks = {name: lacking(recipe, rig) for name, recipe in shipped().items()}
    assert lacks["circulate"][-1] == {
        "dishes": "no probe for lung.ph",
        "two-plates": "no probe for lung.oxygen",
    }.get(rig.name, "no probe for lung.ph")
    assert ("no organs.heart" in lacks["circulate"]) == (rig.name == "dishes")
    assert "no kidney (organs.kidney)" in lacks["recycle"]
    for name in ("recycle", "exchange", "feed", "pump-calibration", "dialyse", "prime"):
        assert lacks[name]
        with pytest.raises((UnavailableError, RecipeError), match="the rig has no"):
            check_on(shipped()[name], rig, complete(shipped()[name].params, {}))


def test_a_name_of_an_absent_part_is_a_need(tmp_path: Path) -> None:
    recipe = recipe_of(
        tmp_path, '\n  - note: {kind: level, values: {ml: loop.volume}}\n  - wait: "spent.room / 1 mL/min"\n'
    )
    assert lacking(recipe, dishes()) == (
        "no loop that a heart draws from",
        "no kidney (organs.kidney)",
    )
    assert lacking(recipe, two_hearts()) == ("no kidney (organs.kidney)",)
    with pytest.raises(RecipeError, match=r"spent.room: the rig has no kidney"):
        check_on(recipe, two_hearts(), {})


@pytest.mark.parametrize(
    ("rig", "point"),
    [(dishes(), "thermometer.temperature"), (two_plates(), "ph.ph"), (single_pass(), "pump.flow")],
    ids=lambda value: value.name if isinstance(value, Rig) else "",
)
def test_a_recipe_that_waits_asks_and_measures_runs_anywhere(rig: Rig, point: str, tmp_path: Path) -> None:
    steps = MANUAL.replace("{point: POINT, as: seen}", f"{{point: {point}, unit: uL/min, as: seen}}")
    recipe = recipe_of(tmp_path, steps if point.endswith("flow") else MANUAL.replace("POINT", point))
    check_on(recipe, rig, {})
    out = rehearsed(recipe, rig)
    assert (out.breaches, out.ended) == ([], True)
    assert [event.verb for event in out.events] == ["sleep", "ask", "measure", "note"]


def test_every_heart_is_read_unless_one_is_named(tmp_path: Path) -> None:
    everything = recipe_of(
        tmp_path, "\n  - heart.flow: flow\n  - if: {condition: flow < 1 mL/min, then: [ask_operator: Low]}\n"
    )
    rig = two_hearts()
    check_on(everything, rig, {})
    out = rehearsed(everything, rig)
    assert (out.breaches, out.ended) == ([], True)
    assert measured(out) == ["icc.one.flow", "icc.two.flow"]
    one = recipe_of(
        tmp_path, "\n  - heart.flow: {heart: two, as: flow}\n  - heart.pressure: {heart: two, as: pressure}\n"
    )
    check_on(one, rig, {})
    assert measured(rehearsed(one, rig)) == ["icc.two.flow"]


def test_the_weakest_heart_counts(tmp_path: Path) -> None:
    hearts: dict[str, Any] = dict(two_hearts().organs.hearts)
    hearts["two"] = hearts["two"].model_copy(update={"flow_ul_min": 500.0})
    rig = two_hearts()
    rig = rig.model_copy(update={"organs": rig.organs.model_copy(update={"hearts": hearts})})
    recipe = recipe_of(
        tmp_path, "\n  - heart.flow: flow\n  - if: {condition: flow < 1 mL/min, then: [ask_operator: Low]}\n"
    )
    assert [event.verb for event in rehearsed(recipe, rig).events] == ["measure", "measure", "ask"]


def test_an_unknown_heart_is_found_before_anything_begins(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path, "\n  - heart.flow: {heart: tow, as: flow}\n")
    with pytest.raises(RecipeError, match=r"the rig has no heart “tow”.*two"):
        check_on(recipe, two_hearts(), {})
    with pytest.raises(RecipeError, match="is no name of a part"):
        recipe_of(tmp_path, '\n  - heart.flow: {heart: "a b", as: flow}\n')


def test_without_a_heart_its_flow_is_unknown(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path, "\n  - heart.flow: flow\n  - ask_operator: “Flow {flow}”\n")
    assert lacking(recipe, dishes()) == ("no organs.heart",)
    check_on(recipe, dishes(), {})  # the recipe itself decides about a missing value
    assert [(event.verb, event.text) for event in rehearsed(recipe, dishes()).events] == [("ask", "“Flow unknown”")]
