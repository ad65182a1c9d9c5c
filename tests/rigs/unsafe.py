"""Mutants of the shipped rigs that are unsafe, and what becomes of each: `python -m tests.rigs.unsafe` prints the table.

A mutant is refused by the check, warned of (a row of the hazard table that the shipped rig has not, or a warning), or it is
simulated by :mod:`tests.rigs.unsafe_lives`: harmless or harmful. None may be harmful. With `--without RULE` the rows of a
hazard are left out of the table: then its mutants have to come out as harmful. With `--sample N --seed S` every mutant is
checked, and N of those that the check calls sound are simulated: the seed draws them, evenly from all rigs and kinds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import combinations
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, Literal
from unittest import mock

from choroid.common.workers import workers
from choroid.rig_file.check import check_rig
from controller.hazards import table
from controller.hazards.terms import Hazard, Subject
from controller.rig.described import seen_from_anywhere
from controller.rig.document import read_document
from tests.rigs.unsafe_lives import HOURS, Course, course_of, real_rig

RIGS = Path(__file__).parents[2] / "examples" / "rigs"
SHIPPED = tuple(sorted(RIGS.glob("*.yaml")))
Data = dict[str, Any]
Outcome = Literal["refused", "warned", "sound", "harmless", "harmful"]
OUTCOMES: tuple[Outcome, ...] = ("refused", "warned", "sound", "harmless", "harmful")
"""A mutant is sound by the check until it is simulated."""


@dataclass(frozen=True, slots=True)
class UnsafeRig:
    """One mutant: the shipped rig, the kind of the change, its name, and the data of the file."""

    rig: Path
    kind: str
    name: str
    data: Data


def unsafe_rigs(path: Path) -> Iterator[UnsafeRig]:
    """Yield the mutants of one shipped rig."""
    for kind, part in (
        ("liquid", _liquids), ("exchanged", _exchanged), ("gas", _gas), ("filter", _filters), ("straw", _straws),
        ("heater", _heater), ("tare", _tares), ("tubing", _tubing), ("overflow", _overflows),
    ):  # fmt: skip
        for name, data in part(path):
            yield UnsafeRig(path, kind, name, data)


def _data(path: Path) -> Data:
    data: Data = json.loads(json.dumps(read_document(path).data, default=str))
    seen_from_anywhere(path, data)
    return data


def _liquids(path: Path) -> Iterator[tuple[str, Data]]:
    """Media that are no media: too much or too little of what they hold."""
    changes = (
        {"osmolality": "900 mOsm/kg"}, {"osmolality": "500 mOsm/kg"}, {"osmolality": "40 mOsm/kg"},
        {"glucose": "0 mM"}, {"bicarbonate": "0 mM"}, {"bicarbonate": "1000 mM", "osmolality": "290 mOsm/kg"},
        {"bicarbonate": "1000 mM", "osmolality": "500 mOsm/kg"},
        {"bicarbonate": "1000 mM", "osmolality": "2000 mOsm/kg"},
    )  # fmt: skip
    for medium in _data(path)["media"]:
        for change in changes:
            data = _data(path)
            if all(data["media"][medium][key] == value for key, value in change.items()):
                continue  # a base without glucose is one
            data["media"][medium] |= change
            yield f"{medium}: {', '.join(f'{key} {value}' for key, value in change.items())}", data


def _exchanged(path: Path) -> Iterator[tuple[str, Data]]:
    """Bottles with each other's content, and lines in each other's bottle."""
    data = _data(path)
    sources = [name for name, vessel in data.get("vessels", {}).items() if vessel["kind"] == "source"]
    for one, other in combinations(sources, 2):
        data = _data(path)
        vessels, lines = data["vessels"], data.get("lines", {})
        if vessels[one].get("contains") == vessels[other].get("contains"):
            continue
        vessels[one]["contains"], vessels[other]["contains"] = vessels[other]["contains"], vessels[one]["contains"]
        yield f"{one} and {other}: content exchanged", data
        data = _data(path)
        lines = data.get("lines", {})
        for line in lines.values():
            line["from"] = {one: other, other: one}.get(line["from"], line["from"])
        yield f"{one} and {other}: tubes exchanged", data


def _gas(path: Path) -> Iterator[tuple[str, Data]]:
    data = _data(path)
    lung = data.get("organs", {}).get("lung")
    for vessel in data["vessels"] if lung else ():
        if vessel != lung["vessel"]:
            data = _data(path)
            data["organs"]["lung"]["vessel"] = vessel
            yield f"gas into {vessel}", data


def _filters(path: Path) -> Iterator[tuple[str, Data]]:
    for name in _data(path).get("filters", {}):
        for pore in ("20 um", "0.8 um"):
            data = _data(path)
            data["filters"][name]["pore"] = pore
            yield f"{name} with pores of {pore}", data
        for line, spec in _data(path)["lines"].items():
            if "pump" in spec and "filter" not in spec:
                data = _data(path)
                data["lines"][line]["filter"] = name
                yield f"{name} in {line} as well", data


def _straws(path: Path) -> Iterator[tuple[str, Data]]:
    for line, spec in _data(path).get("lines", {}).items():
        data = _data(path)
        vessel = data.get("vessels", {}).get(spec["from"])
        if vessel is None or "pump" not in spec or vessel["kind"] in ("source", "process"):
            continue
        data["lines"][line]["draws_above"] = _between(vessel["volume"], vessel.get("ceiling", vessel["capacity"]))
        yield f"straw of {line} above the level", data


def _between(low: str, high: str) -> str:
    """Return the middle of two volumes."""
    numbers = [float(each.split()[0]) * {"mL": 1.0, "uL": 1e-3, "L": 1e3}[each.split()[1]] for each in (low, high)]
    return f"{sum(numbers) / 2:.6g} mL"


def _heater(path: Path) -> Iterator[tuple[str, Data]]:
    for power in ("15 mW", "50 mW") if "skin" in _data(path).get("organs", {}) else ():
        data = _data(path)
        data["organs"]["skin"]["power"] = power
        yield f"heater of {power}", data


def _tares(path: Path) -> Iterator[tuple[str, Data]]:
    for device, spec in _data(path)["devices"].items():
        for tare in (100.0, -100.0) if "tare_g" in spec.get("settings", {}) else ():
            data = _data(path)
            data["devices"][device]["settings"]["tare_g"] = tare
            yield f"{device} with a tare of {tare:g} g", data


def _tubing(path: Path) -> Iterator[tuple[str, Data]]:
    """Tubing of the pump head that is not that of its line; only lines that state their bore."""
    lines = _data(path).get("lines", {})
    for device, spec in _data(path)["devices"].items():
        for number, channel in spec.get("channels", {}).items():
            used = [line for line in lines.values() if line.get("pump") == f"{device}.{channel['point']}"]
            if "tubing" not in channel or not any("bore" in line for line in used):
                continue
            bore_mm = float(channel["tubing"].split()[0])
            for tubing in (f"{3.1 * bore_mm:.3g} mm", f"{0.25 * bore_mm:.3g} mm"):
                data = _data(path)
                data["devices"][device]["channels"][number]["tubing"] = tubing
                yield f"{device} {number} with tubing of {tubing}", data


def _overflows(path: Path) -> Iterator[tuple[str, Data]]:
    data = _data(path)
    drained = {line["from"] for line in data.get("lines", {}).values() if line.get("passive")}
    for vessel in sorted(drained & data.get("vessels", {}).keys()):
        data = _data(path)
        spec = data["vessels"][vessel]
        spec["overflow"] = f"{float(_between(spec['capacity'], spec['capacity']).split()[0]) - 0.01:.6g} mL"
        yield f"overflow of {vessel} 10 uL below the brim", data


@contextmanager
def lacking(rule: str | None) -> Iterator[None]:
    """Leave the rows of a hazard out of the table: those whose id is `rule` or begins with it."""

    def rows(part: Any, subject: Subject) -> Iterator[Hazard]:
        yield from (row for row in part.hazards(subject) if not row.id.startswith(rule or ""))

    if rule is None:
        yield
        return
    with mock.patch.object(
        table, "SUBJECTS", tuple(SimpleNamespace(hazards=partial(rows, part)) for part in table.SUBJECTS)
    ):
        yield


@contextmanager
def _written(mutant: UnsafeRig) -> Iterator[Path]:
    """Write the file of a mutant."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "rig.yaml"
        file.write_text(json.dumps(mutant.data, indent=1), encoding="utf-8")
        yield file


def judge(mutant: UnsafeRig, *, hours: float = HOURS, without: str | None = None) -> tuple[Outcome, str]:
    """Return what becomes of a mutant, and why; without a hazard of the table, if one is named."""
    checked = judge_by_check(mutant, without)
    return judge_by_life(mutant, hours, without) if checked[0] == "sound" else checked


def judge_by_check(mutant: UnsafeRig, without: str | None) -> tuple[Outcome, str]:
    """Return whether the check refuses a mutant, warns of it or calls it sound, and why."""
    with lacking(without), _written(mutant) as file:
        answer = check_rig(file)
        if not answer["ok"]:
            problem = answer["problems"][0]
            return "refused", f"{problem['key']}: {problem['what']}"
        shipped = _shipped(mutant.rig)
        new = [row["hazard"] for row in answer["hazards"] if (row["hazard"], row["verdict"]) not in shipped.rows]
        if new or len(answer["warnings"]) > shipped.warnings:
            return "warned", ", ".join(new) or answer["warnings"][-1]
    return "sound", "not simulated"


def judge_by_life(mutant: UnsafeRig, hours: float, without: str | None) -> tuple[Outcome, str]:
    """Simulate a mutant; return whether it is harmless, and why."""
    with lacking(without), _written(mutant) as file:
        infected = mutant.kind == "filter"
        course = course_of(file, mutant.rig, real_rig(mutant.kind, file, mutant.rig), hours, infected=infected)
    if harms := course.harms_against(_course_of_shipped(mutant.rig, hours, infected)):
        return "harmful", harms
    return "harmless", f"viability {course.viability:.3f}"


@dataclass(frozen=True, slots=True)
class _Shipped:
    """What the check tells of a shipped rig."""

    rows: frozenset[tuple[str, str]]
    warnings: int


@lru_cache(maxsize=32)
def _shipped(path: Path) -> _Shipped:
    answer = check_rig(path)
    return _Shipped(frozenset((row["hazard"], row["verdict"]) for row in answer["hazards"]), len(answer["warnings"]))


@lru_cache(maxsize=32)
def _course_of_shipped(path: Path, hours: float, infected: bool) -> Course:
    return course_of(path, path, real_rig("shipped", path, path), hours, infected=infected)


Judged = tuple[UnsafeRig, Outcome, str]


def check_all(path: Path, kinds: Sequence[str], without: str | None) -> list[Judged]:
    """Check the mutants of one shipped rig, of these kinds or of all."""
    chosen = [mutant for mutant in unsafe_rigs(path) if not kinds or mutant.kind in kinds]
    return [(mutant, *judge_by_check(mutant, without)) for mutant in chosen]


def simulate_all(mutants: Sequence[UnsafeRig], without: str | None) -> list[Judged]:
    """Simulate mutants of one shipped rig."""
    return [(mutant, *judge_by_life(mutant, HOURS, without)) for mutant in mutants]


def sample(mutants: Sequence[UnsafeRig], number: int, seed: int) -> list[UnsafeRig]:
    """Draw so many mutants: in turn one of each rig and kind that has one left, in an order that the seed gives."""
    drawn: Counter[tuple[Path, str]] = Counter()

    def turn(mutant: UnsafeRig) -> int:
        drawn[mutant.rig, mutant.kind] += 1
        return drawn[mutant.rig, mutant.kind]

    return sorted(Random(seed).sample(mutants, len(mutants)), key=turn)[:number]


def main(arguments: Sequence[str]) -> int:
    """Print each mutant that is not refused, and the table by kind and outcome; return 1 if one is harmful."""
    parser = argparse.ArgumentParser(prog="python -m tests.rigs.unsafe", description=__doc__.partition("\n")[0])
    parser.add_argument("rigs", nargs="*", default=[path.stem for path in SHIPPED], help="names of shipped rigs")
    parser.add_argument("--kind", action="append", default=[], help="mutants of this kind only")
    parser.add_argument("--without", metavar="RULE", help="leave out the rows of a hazard, such as liquid_reservoir")
    parser.add_argument("--sample", metavar="N", type=int, help="simulate so many of those that the check calls sound")
    parser.add_argument("--seed", metavar="S", type=int, default=0, help="which of them")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    asked = parser.parse_args(arguments)
    counts: Counter[tuple[str, str]] = Counter()

    def tell(judged: Iterable[Judged]) -> None:
        for mutant, outcome, why in judged:
            counts[mutant.kind, outcome] += 1
            if outcome != "refused":
                print(f"{outcome:<9} {mutant.rig.stem}: {mutant.name}: {why}", flush=True)
            if outcome == "harmful":
                print(
                    f"          again: python -m tests.rigs.unsafe {mutant.rig.stem} --kind {mutant.kind}", flush=True
                )

    with workers(asked.jobs) as pool:
        checks = [pool.submit(check_all, RIGS / f"{name}.yaml", asked.kind, asked.without) for name in asked.rigs]
        checked = [each for check in checks for each in check.result()]
        sound = [mutant for mutant, outcome, _ in checked if outcome == "sound"]
        chosen = sound if asked.sample is None else sample(sound, asked.sample, asked.seed)
        tell(each for each in checked if each[0] not in chosen)
        by_rig = [[each for each in chosen if each.rig == rig] for rig in {each.rig: None for each in chosen}]
        for life in [pool.submit(simulate_all, mutants, asked.without) for mutants in by_rig]:
            tell(life.result())
    kinds = list(dict.fromkeys(kind for kind, _ in counts))
    print(f"{'kind':<12}" + "".join(f"{outcome:>10}" for outcome in OUTCOMES))
    for kind in kinds:
        print(f"{kind:<12}" + "".join(f"{counts[kind, outcome]:>10}" for outcome in OUTCOMES))
    totals = [sum(counts[kind, outcome] for kind in kinds) for outcome in OUTCOMES]
    print(f"{'all':<12}" + "".join(f"{total:>10}" for total in totals) + f"{sum(totals):>10}")
    return int(totals[-1] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
