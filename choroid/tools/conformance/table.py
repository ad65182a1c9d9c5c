"""`choroid driver test`: table of every driver and every property."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from choroid.common.progress import counted
from choroid.tools.conformance.benches import all_benches
from drivers.conformance.examine import examine
from drivers.conformance.properties import PROPERTIES
from sim.virtual_time import run_virtual

SIGNS = {"pass": "✓", "fail": "✗", "n/a": "·"}


def in_virtual_time(work: Coroutine[Any, Any, None]) -> None:
    """Run one trial on a fresh virtual-time loop."""
    run_virtual(work)


def conformance(models: list[str]) -> dict[str, Any]:
    """Try `models` (all if empty); return `{"properties": {name: meaning}, "drivers": {model: {name: …}},
    "failures": n}`.
    """
    drivers: dict[str, dict[str, dict[str, str]]] = {}
    for bench in counted(all_benches(models or None), lambda bench: bench.model):
        verdicts = examine(bench, in_virtual_time)
        drivers[bench.model] = {each.property: {"outcome": each.outcome, "told": each.told} for each in verdicts}
    failures = sum(each["outcome"] == "fail" for row in drivers.values() for each in row.values())
    return {
        "properties": {name: one.meaning for name, one in PROPERTIES.items()},
        "drivers": drivers,
        "failures": failures,
    }


def as_text(answer: dict[str, Any]) -> str:
    """Return the table as text, then each failure."""
    names = list(answer["properties"])
    width = max((len(model) for model in answer["drivers"]), default=5) + 2
    lines = [f"{n:>{width}}  {name}: the driver {answer['properties'][name]}" for n, name in enumerate(names, 1)]
    lines += ["", " " * width + "".join(f"{n:>3}" for n in range(1, len(names) + 1))]
    for model, row in answer["drivers"].items():
        lines.append(f"{model:<{width}}" + "".join(f"{SIGNS[row[name]['outcome']]:>3}" for name in names))
    lines += ["", "✓ holds   ✗ fails   · says nothing of this driver"]
    for model, row in answer["drivers"].items():
        lines += [f"✗ {model} {name}: {each['told']}" for name, each in row.items() if each["outcome"] == "fail"]
    count = len(answer["drivers"])
    lines.append(f"{count} driver{'s' * (count != 1)}, {answer['failures']} failure{'s' * (answer['failures'] != 1)}")
    return "\n".join(lines)
