"""The JSON schema of recipes, checked by an independent validator: editors accept what the reader accepts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from controller.recipes.file import RecipeError, read_recipe
from tests.protocols import make_schema

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "protocols" / "recipes").glob("*.yaml")) + sorted(
    (ROOT / "examples" / "protocols").glob("*.yaml")
)
VALIDATOR = jsonschema.Draft202012Validator(json.loads(make_schema.SCHEMA.read_text(encoding="utf-8")))
HEAD = "recipe: 1\nname: mine\ntitle: A test\nsteps:\n"


def sound(text: str) -> bool:
    data: Any = yaml.safe_load(text)
    return bool(VALIDATOR.is_valid(data))


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(VALIDATOR.schema)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_recipes_of_this_repository_are_sound(path: Path) -> None:
    assert sound(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "step",
    [
        "gut.flush: 2 mL",
        "lung.ph",
        "liver.calibrate: {place: mid, ph: 7.0, valid: 7 d, as: found}",
        "measure: {point: balance.mass, as: x}",
        "estimate",
        "set: {x: 1 mL, y: loop.volume}",
        "together: {one: [wait: 1 min], two: [estimate]}",
        'wait_for_clock: {at: "09:00", zone: Europe/Berlin, days: [mon, wed, fri], except: ["2026-12-25"]}',
        'wait_for_clock: {quiet: "20:00-07:00", zone: Europe/Berlin}',
        'repeat: {times: 3, daily_at: "09:00", zone: UTC, days: [mon], steps: [estimate]}',
        "ask_operator: Look",
        "ask_operator: {message: m, answer: number, unit: mL, min: 0 mL, max: 5 mL, default: 1 mL, as: x}",
        "ask_operator: {message: m, answer: number, min: 0, max: 14, as: ph}",
        "ask_operator: {message: m, answer: choice, choices: [clear, cloudy], default: clear, as: x}",
        "ask_operator: {message: m, answer: text, as: x}",
        'repeat: {daily_at: "09:00", zone: Europe/Berlin, steps: [estimate]}',
    ],
)
def test_schema_and_reader_take_the_same(step: str, tmp_path: Path) -> None:
    text = f"{HEAD}  - {step}\n"
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    read_recipe(tmp_path / "mine.yaml")
    assert sound(text)


@pytest.mark.parametrize(
    "step",
    [
        "kidney.drow: 2 mL",
        "gut.feed",
        "gut.feed: {as: fed}",
        "gut.feed: {volume: 2 mL, volumes: 2}",
        "liver.calibrate: {place: middle, ph: 7.0}",
        "liver.calibrate: 7.0",
        "ask_operator: {message: m, answer: picture}",
        'wait_for_clock: {at: "09:00"}',
        'wait_for_clock: {at: "09:00", zone: UTC, days: [monday]}',
        'wait_for_clock: {quiet: "20:00", zone: UTC}',
        "ask_operator: {message: m, answer: choice, choices: clear}",
        "ask_operator: {message: m, answer: choice, choices: [yes, no]}",
        "lung.oxygen: {as: Big Name}",
        "repeat: {times: 2, steps: []}",
        'repeat: {daily_at: "25:00", zone: UTC, steps: [estimate]}',
        "wait: {time: 1 min}\n    estimate: x",
    ],
)
def test_schema_and_reader_refuse_the_same(step: str, tmp_path: Path) -> None:
    text = f"{HEAD}  - {step}\n"
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(RecipeError):
        read_recipe(tmp_path / "mine.yaml")
    assert not sound(text)
