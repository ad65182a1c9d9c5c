"""Recipe files and requests of earlier releases: their former names are read, and never mixed with the present ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeVar

import jsonschema
import pytest
import yaml

from controller.recipes.catalogue import find, of_file, shipped
from controller.recipes.file import RecipeError
from controller.recipes.form import schema
from controller.recipes.parameters import parse_params
from protocols import former
from protocols.blocks import Call, If
from protocols.language import Lab
from protocols.organs import Immune
from protocols.parameters import Param, ParamError, by_present_key
from protocols.program import NAMES, Step
from protocols.registry import Recipe
from protocols.results import Barrier
from protocols.steps import Move

S = TypeVar("S", bound=Step)

OLD = """recipe: 1
name: mine
title: A recipe of a laboratory, written for an earlier release
parameters:
  volume: {default: 2 mL, least: 1 mL, most: 4 mL, help: fresh medium}
  most_pressure: {default: 40 kPa, least: 1 kPa, most: 300 kPa, help: a name of its own}  # wording: former name
steps:
  - liver.acidity: {settle: 1 min, as: acidity}
  - gut.feed: {volume: "max(volume, least_dose)", as: fed}  # wording: former name
  - kidney.give_back: {volume: fed, as: passed}
  - if:
      condition: known(filter.least_pressure) and filter.least_pressure > 2 kPa and acidity < 7.2  # wording: former name
      then:
        - ask_operator: "The minimum is {filter.least_pressure}, the maximum {most_pressure}"  # wording: former name
  - call: {recipe: filter-integrity, with: {least_pressure: 1 kPa, most_pressure: 50 kPa}}  # wording: former name
"""
NEW = (
    OLD.replace("least:", "min:")
    .replace("most:", "max:")
    .replace("liver.acidity", "liver.ph")
    .replace("least_dose", "liver.min_dose")  # wording: former name
    .replace("filter.least_pressure", "filter.min_pressure")  # wording: former name
    .replace("{least_pressure: 1 kPa, most_pressure:", "{min_pressure: 1 kPa, max_pressure:")  # wording: former name
)
PARAMETERS = [
    (recipe.name, name, present)
    for recipe in shipped().values()
    for name, present in former.PARAMETERS.items()
    if present in {param.name for param in recipe.params}
]


def read(folder: Path, text: str) -> Recipe:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return of_file(path)


def the(recipe: Recipe, kind: type[S]) -> S:
    assert recipe.program is not None
    return next(step for step in recipe.program.steps if isinstance(step, kind))


def test_an_old_recipe_opens_and_means_the_same(tmp_path: Path) -> None:
    assert "least:" not in NEW
    old, new = read(tmp_path, OLD), read(tmp_path, NEW)
    assert old.params == new.params
    assert (old.params[0].low, old.params[0].high) == (1000.0, 4000.0)
    values = {"volume": 10.0, "liver.min_dose": 50.0, "filter.min_pressure": 3.0}
    values |= {"acidity": 7.0}
    for recipe in (old, new):
        volume = the(recipe, Move).volume
        assert volume.names == {"volume", "liver.min_dose"}
        assert volume.number(values.__getitem__) == 50.0
        condition = the(recipe, If).condition
        assert condition.names == {"filter.min_pressure", "acidity"}
        assert condition.evaluate(values.__getitem__) is True
        given = the(recipe, Call).given
        assert {name: value.number(lambda name: 0.0) for name, value in given.items()} == {
            "min_pressure": 1.0,
            "max_pressure": 50.0,
        }


def test_the_schema_takes_former_and_present_attributes_and_never_both() -> None:
    validator = jsonschema.Draft202012Validator(schema())
    for text, sound in (
        (OLD, True),
        (NEW, True),
        (OLD.replace("most: 4 mL", "max: 4 mL"), True),
        (OLD.replace("most: 4 mL", "most: 4 mL, max: 4 mL"), False),
        (OLD.replace(" most: 4 mL,", ""), False),
    ):
        assert validator.is_valid(yaml.safe_load(text)) is sound, text


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        (
            "most: 4 mL,",
            "most: 4 mL, max: 4 mL,",
            5,
            "“most” is the former name of “max”, and both are given. Keep max",
        ),
        (
            "with: {least_pressure: 1 kPa,",  # wording: former name
            "with: {min_pressure: 1 kPa, least_pressure: 1 kPa,",  # wording: former name
            15,
            "“least_pressure” is the former name of “min_pressure”, and both are given",  # wording: former name
        ),
        (
            "{default: 2 mL, least: 1 mL",
            "\n      default: 2 mL\n      least: 5 min",
            7,
            "volume.least: “5 min” is in minute",
        ),
        ("{default: 2 mL, least: 1 mL", "{default: 9 mL, least: 1 mL", 5, "the default is not between min and max"),
        ("least: 1 mL, ", "", 5, "a parameter has default, min, max and help"),
    ],
)
def test_what_is_wrong_is_reported_under_the_name_in_the_file(
    old: str, new: str, line: int, says: str, tmp_path: Path
) -> None:
    text = OLD.replace(old, new)
    if "\n      default" in new:
        text = text.replace(", most: 4 mL, help: fresh medium}", "\n      most: 4 mL\n      help: fresh medium")
    assert text != OLD
    with pytest.raises(RecipeError) as caught:
        read(tmp_path, text)
    assert [problem.line for problem in caught.value.problems] == [line], caught.value
    assert says in str(caught.value)


def test_a_name_of_the_recipe_itself_comes_first(tmp_path: Path) -> None:
    """A laboratory's parameter may be called as a predefined value once was."""
    text = OLD.replace("volume: {default: 2 mL", "least_dose: {default: 2 mL").replace(  # wording: former name
        "max(volume, least_dose)",  # wording: former name
        "least_dose",  # wording: former name
    )
    volume = the(read(tmp_path, text), Move).volume
    assert volume.names == {"least_dose"}  # wording: former name
    own = parse_params(read(tmp_path, OLD), {"most_pressure": "20 kPa"})  # wording: former name
    assert own["most_pressure_kpa"] == 20.0  # wording: former name


@pytest.mark.parametrize(("protocol", "name", "present"), PARAMETERS)
def test_an_old_request_starts_a_run(protocol: str, name: str, present: str) -> None:
    recipe = find(protocol)
    (param,) = (param for param in recipe.params if param.name == present)
    for value in (param.high, f"{param.high} {param.unit}"):
        assert parse_params(recipe, {name: value}) == parse_params(recipe, {present: value})
    assert parse_params(recipe, {name: param.high})[param.key] == param.high
    with pytest.raises(ParamError, match=f"“{name}” is the former name of “{present}”, and both are given") as caught:
        parse_params(recipe, {name: param.high, present: param.high})
    assert f"Next: keep {present} only" in str(caught.value)
    with pytest.raises(ParamError, match=f"{present} = "):
        parse_params(recipe, {name: 2.0 * param.high + 1.0})


def test_every_former_name_stands_for_a_present_one() -> None:
    assert {present for _, _, present in PARAMETERS} == set(former.PARAMETERS.values())
    assert set(former.EXPRESSIONS.values()) <= set(NAMES)
    assert not set(former.EXPRESSIONS) & set(NAMES)
    assert not {param.name for recipe in shipped().values() for param in recipe.params} & set(former.PARAMETERS)


def test_parameters_on_record_have_their_present_keys() -> None:
    params = (Param("min_batch", "uL", 0.0, 0.0, 9.0, ""), Param("max_pressure", "kPa", 1.0, 0.0, 9.0, ""))
    recorded = {"least_ul": 3.0, "most_pressure_kpa": 4.0}  # wording: former name
    assert by_present_key(params, recorded) == {"min_batch_ul": 3.0, "max_pressure_kpa": 4.0}
    own = (Param("least", "uL", 0.0, 0.0, 9.0, ""), *params)
    newer = Param("exceed", "%", 2.5, 0.0, 9.0, "")
    assert by_present_key((*params, newer), recorded)["exceed_pct"] == 2.5
    kept = {"least_ul": 3.0, "min_batch_ul": 5.0, "max_pressure_kpa": 4.0}  # wording: former name
    assert by_present_key(own, kept) == kept


def test_a_python_protocol_of_a_laboratory_may_use_the_former_names() -> None:
    assert Lab.least_ul is Lab.min_ul  # wording: former name
    assert Immune.least_pressure_kpa is Immune.min_pressure_kpa  # wording: former name
    recorded = {"sterile": True, "peak_kpa": 9.0, "detail": ""}
    old = Barrier.from_json({**recorded, "least_kpa": 2.5, "most_kpa": 80.0})  # wording: former name
    assert old == Barrier.from_json(json.loads(json.dumps({**recorded, "min_kpa": 2.5, "max_kpa": 80.0})))
    assert (old.least_kpa, old.most_kpa) == (old.min_kpa, old.max_kpa) == (2.5, 80.0)  # wording: former name
