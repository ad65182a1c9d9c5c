"""Conditions of a recipe compare a reading in the unit that its sensor reports, or the recipe is refused by line (Q1)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controller.core.clock import Clock
from controller.hazards.loading import load_checked_rig
from controller.journal.journal import Journal
from controller.recipes.file import RecipeError
from controller.recipes.on_rig import check_on
from controller.rig.description import Rig
from controller.rig.document import read_document
from controller.runs.library import ProtocolLibrary, VersionState
from controller.runs.people import Person
from drivers.registry import MODELS
from protocols.parameters import complete
from tests.execution.test_recipes import HEAD, recipe_of
from tests.execution.world import EPOCH
from tests.hazards.files import BENCH

MEASURE = (
    "steps:\n  - measure: {{point: {point}, as: p{unit}}}\n  - if:\n      condition: p > {limit}\n      then: [end]\n"
)
WAIT = "steps:\n  - wait_until: {{read: {point}{unit}, until: value > {limit}, timeout: 1 h}}\n"
STEPS = {"measure": MEASURE, "wait_until": WAIT}


def rig_with(folder: Path, unit: str) -> Rig:
    """Return the bench rig with a described gauge that reports in `unit`."""
    data = json.loads(json.dumps(read_document(BENCH).data))
    text = f"format: 1\nname: own\npoints:\n  pressure: {{function: 3, register: 0, type: f32, unit: '{unit}'}}\n"
    data["devices"]["own"] = {
        "model": "modbus-generic", "link": "sim:own", "every": "2 s", "at": "heart", "settings": {"description": text},
    }  # fmt: skip
    path = folder / "rig.yaml"
    path.write_text(json.dumps(data, indent=1), encoding="utf-8")
    return load_checked_rig(path, models=MODELS)


def refused(body: str, rig: Rig, folder: Path) -> str:
    recipe = recipe_of(folder, body)
    with pytest.raises(RecipeError) as error:
        check_on(recipe, rig, complete(recipe.params, {}))
    return str(error.value)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    ("point", "unit", "limit", "what"),
    [
        ("own.pressure", "", "20 kPa", "“own.pressure” is in bar, and the recipe reads and compares it in kPa"),
        ("own.pressure", "kPa", "20 kPa", "Let the device report it in kPa"),
        ("t_chamber.temperature", "kPa", "38 kPa", "Write unit: degC here, and the same unit in its conditions"),
        ("ph_loop.ph", "degC", "7 degC", "Write unit: pH here"),
        ("t_chamber.temprature", "degC", "38 degC", "“t_chamber” has no sensor “temprature”. Did you mean"),
        ("reglo.heart", "uL/min", "1 mL/min", "“reglo” has no sensor “heart”"),
    ],
)
def test_Q1_a_condition_on_a_reading_in_another_unit_is_refused_with_its_line(
    step: str, point: str, unit: str, limit: str, what: str, tmp_path: Path
) -> None:
    body = STEPS[step].format(point=point, unit=f", unit: {unit}" if unit else "", limit=limit)
    said = refused(body, rig_with(tmp_path, "bar"), tmp_path)
    assert what in said
    assert "mine.yaml:5: measure: " in said


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    ("point", "unit", "limit"),
    [
        ("own.pressure", "", "20 kPa"),
        ("ph_loop.ph", "", "7.2"),
        ("t_chamber.temperature", "degC", "38 degC"),
        ("balance.mass", "", "20 g"),
    ],
)
def test_Q1_the_unit_of_the_sensor_is_accepted(step: str, point: str, unit: str, limit: str, tmp_path: Path) -> None:
    body = STEPS[step].format(point=point, unit=f", unit: {unit}" if unit else "", limit=limit)
    recipe = recipe_of(tmp_path, body)
    check_on(recipe, rig_with(tmp_path, "kPa"), complete(recipe.params, {}))


async def test_Q1_such_a_recipe_is_not_released(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "l.db", Clock(follow_system=False, epoch=EPOCH), durable=False)
    try:
        books = ProtocolLibrary(tmp_path, rig=rig_with(tmp_path, "bar"), journal=journal)
        for limit, unit, state in (("20 kPa", "", VersionState.REVIEWED), ("7.2", "", VersionState.RELEASED)):
            point = "own.pressure" if state is VersionState.REVIEWED else "ph_loop.ph"
            text = HEAD + MEASURE.format(point=point, unit=unit, limit=limit)
            version = books.submit("mine.yaml", text.encode(), Person("anna", "operator"), "a test")
            books.review(version.sha256, accept=True, by=Person("ben", "engineer"), reason="")
            release = books.release(version.sha256, Person("cleo", "admin"), "a test")
            if state is VersionState.REVIEWED:
                with pytest.raises(RecipeError, match=r"own\.pressure” is in bar"):
                    await release
            else:
                await release
            assert books.version(version.sha256).state is state
    finally:
        journal.close()
