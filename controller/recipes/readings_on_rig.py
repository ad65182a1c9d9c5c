"""The sensors that a recipe names, against a rig: each must be there, and report in the unit that the recipe states (Q1).

The conditions of a recipe are checked against the units that its readings state. Here these are compared with what the
drivers report, before anything moves.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from controller.links.settings import built_devices
from controller.recipes.file import RecipeError
from controller.rig.description import Rig
from controller.rig.problems import Problem, nearest
from drivers.device import Sensor
from protocols.expression import PLAIN
from protocols.program import Program, Step
from protocols.registry import Recipe
from protocols.steps import Read, WaitUntil
from protocols.verbs import READING_UNITS


def refuse_wrong_readings(recipe: Recipe, rig: Rig) -> None:
    """Raise :class:`RecipeError` for each reading of a sensor that the rig lacks, or that is in another unit."""
    made = recipe.program
    if made is not None and (problems := reading_problems(made, rig)):
        raise RecipeError(recipe.watched[0][0], problems)


def reading_problems(made: Program, rig: Rig) -> list[Problem]:
    """Return what is wrong with the readings of a program on a rig, by line."""
    reads = [(step.where, read) for step in made.all_steps() if (read := _reading(step)) is not None]
    named = [(where, read, read.point) for where, read in reads if read.point is not None]
    if not named:
        return []
    units = {name: _units(device.sensors) for name, device in built_devices(rig)[0].items()}
    problems = []
    for where, read, point in named:
        if (wrong := _wrong(read.unit, point, rig, units)) is not None:
            file, _, line = where.rpartition(":")
            problems.append(Problem(Path(file), int(line), read.verb.name, *wrong))
    return problems


def _reading(step: Step) -> Read | None:
    if isinstance(step, WaitUntil):
        return step.read
    return step if isinstance(step, Read) else None


def _wrong(unit: str, point: str, rig: Rig, units: Mapping[str, Mapping[str, str]]) -> tuple[str, str] | None:
    """Return what is wrong with reading `point` in `unit`, and the fix."""
    device, _, name = point.partition(".")
    if device not in rig.devices:
        return f"the rig has no device “{device}”", nearest(device, rig.devices, "devices")
    if device not in units:
        return None  # its driver is not installed: no rig with it starts
    reported = units[device].get(name)
    if reported is None:
        return f"“{device}” has no sensor “{name}”", nearest(
            point, [f"{device}.{each}" for each in units[device]], "sensors"
        )
    if reported == unit:
        return None
    what = f"“{point}” is {_in(reported)}, and the recipe reads and compares it {_in(unit)}"
    if reported in READING_UNITS or not reported:
        return what, f"Write unit: {reported or 'pH'} here, and the same unit in its conditions"
    return what, f"Let the device report it {_in(unit)}; a recipe has {', '.join(READING_UNITS)}"


def _units(sensors: Mapping[str, Sensor]) -> dict[str, str]:
    return {name: PLAIN if sensor.unit == "pH" else sensor.unit for name, sensor in sensors.items()}


def _in(unit: str) -> str:
    return f"in {unit}" if unit else "as pH or a plain number"
