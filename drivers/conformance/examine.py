"""Try properties on benches, each on a loop of its own, and say what came out."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from drivers.conformance.bench import Bench
from drivers.conformance.properties import PROPERTIES, NotApplicable, Property

Runner = Callable[[Coroutine[Any, Any, None]], object]
"""Runs one coroutine on a fresh loop to its end: asyncio.run, or a loop in virtual time."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came out for one driver and one property; `told` says why when it did not simply pass."""

    model: str
    property: str
    outcome: Literal["pass", "fail", "n/a"]
    told: str = ""


def examine(bench: Bench, run: Runner, properties: Mapping[str, Property] = PROPERTIES) -> list[Verdict]:
    """Every property on one bench. Whatever a driver raises where it must not is a failure, never an error of ours."""
    return [_verdict(bench, name, one, run) for name, one in properties.items()]


def _verdict(bench: Bench, name: str, one: Property, run: Runner) -> Verdict:
    try:
        run(one.holds(bench))
    except NotApplicable as why:
        return Verdict(bench.model, name, "n/a", str(why))
    except Exception as error:  # an assertion of ours or anything that the driver let out
        told = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
        return Verdict(bench.model, name, "fail", told)
    return Verdict(bench.model, name, "pass")
