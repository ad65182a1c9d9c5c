"""Mutants of the shipped rigs that are unsafe, and what becomes of each: `python -m tests.rigs.unsafe` prints the table.

A mutant is refused by the check, warned of (a row of the hazard table that the shipped rig has not, or a warning), or it is
simulated: harmless if the tissue lives as in the shipped rig and nothing runs over or dry, else harmful. None may be harmful.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from choroid.rig_file.check import check_rig
from choroid.simulation.simulate import simulate
from controller.rig.described import seen_from_anywhere
from controller.rig.document import read_document

RIGS = Path(__file__).parents[2] / "examples" / "rigs"
SHIPPED = tuple(sorted(RIGS.glob("*.yaml")))
DAYS = 0.25
"""Simulated time of a mutant that the check calls sound (d): 900 mOsm/kg cost half of the viability in three hours."""
MAX_LOSS = 0.02
"""Loss of true viability against the shipped rig that is within the noise of another course."""

Data = dict[str, Any]
Outcome = Literal["refused", "warned", "harmless", "harmful"]
OUTCOMES: tuple[Outcome, ...] = ("refused", "warned", "harmless", "harmful")


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


def judge(mutant: UnsafeRig, folder: Path, *, days: float = DAYS) -> tuple[Outcome, str]:
    """Return what becomes of a mutant, and why."""
    file = folder / "rig.yaml"
    file.write_text(json.dumps(mutant.data, indent=1), encoding="utf-8")
    answer = check_rig(file)
    if not answer["ok"]:
        problem = answer["problems"][0]
        return "refused", f"{problem['key']}: {problem['what']}"
    shipped = _shipped(mutant.rig, days)
    new = [row["hazard"] for row in answer["hazards"] if (row["hazard"], row["verdict"]) not in shipped.rows]
    if new or len(answer["warnings"]) > shipped.warnings:
        return "warned", ", ".join(new) or answer["warnings"][-1]
    course = simulate(file, days=days)
    loss = shipped.viability - course["viability_true"]
    if loss > MAX_LOSS or len(course["violations"]) > shipped.violations:
        return (
            "harmful",
            f"viability {course['viability_true']:.3f} (shipped {shipped.viability:.3f}); {course['violations']}",
        )
    return "harmless", f"viability {course['viability_true']:.3f} (shipped {shipped.viability:.3f})"


@dataclass(frozen=True, slots=True)
class _Shipped:
    """What the check and a simulation tell of a shipped rig."""

    rows: frozenset[tuple[str, str]]
    warnings: int
    viability: float
    violations: int


@lru_cache(maxsize=32)
def _shipped(path: Path, days: float) -> _Shipped:
    answer = check_rig(path)
    rows = frozenset((row["hazard"], row["verdict"]) for row in answer["hazards"])
    course = simulate(path, days=days)
    return _Shipped(rows, len(answer["warnings"]), course["viability_true"], len(course["violations"]))


def main(rigs: Sequence[Path] = SHIPPED) -> int:
    """Print each mutant that is not refused, and the table by kind and outcome; return 1 if one is harmful."""
    counts: Counter[tuple[str, str]] = Counter()
    with TemporaryDirectory() as folder:
        for path in rigs:
            for mutant in unsafe_rigs(path):
                outcome, why = judge(mutant, Path(folder))
                counts[mutant.kind, outcome] += 1
                if outcome != "refused":
                    print(f"{outcome:<9} {path.stem}: {mutant.name}: {why}", flush=True)
    kinds = list(dict.fromkeys(kind for kind, _ in counts))
    print(f"{'kind':<12}" + "".join(f"{outcome:>10}" for outcome in OUTCOMES))
    for kind in kinds:
        print(f"{kind:<12}" + "".join(f"{counts[kind, outcome]:>10}" for outcome in OUTCOMES))
    totals = [sum(counts[kind, outcome] for kind in kinds) for outcome in OUTCOMES]
    print(f"{'all':<12}" + "".join(f"{total:>10}" for total in totals) + f"{sum(totals):>10}")
    return int(totals[-1] > 0)


if __name__ == "__main__":
    sys.exit(main([RIGS / f"{name}.yaml" for name in sys.argv[1:]] or SHIPPED))
