"""Try properties on benches, each on a loop of its own, and say what came out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from drivers.conformance.bench import Bench
from drivers.conformance.properties import PROPERTIES
from drivers.conformance.trying import NotApplicable, Property
from drivers.conformance.watchdog import GaveUp, watchdog

Runner = Callable[[Coroutine[Any, Any, None]], object]
"""Runs one coroutine on a fresh loop to its end: asyncio.run, or a loop in virtual time."""


@dataclass(frozen=True, slots=True)
class PropertyVerdict:
    """What came out for one driver and one property; `told` says why when it did not simply pass."""

    model: str
    property: str
    outcome: Literal["pass", "fail", "n/a"]
    told: str = ""


REAL_MOST_S = 120.0
"""A property on one driver takes about a second; a hanging driver is given up after so long (s of real time)."""
LOOP_MOST_S = 200_000.0
"""The same in loop time (s)."""


def examine(
    bench: Bench, run: Runner, properties: Mapping[str, Property] = PROPERTIES, *, most_s: float = REAL_MOST_S
) -> list[PropertyVerdict]:
    """Every property on one bench. Whatever a driver raises where it must not is a failure, never an error of ours.

    A property that has not ended after `most_s` seconds of real time fails too, and the next one is tried.
    """
    return [_verdict(bench, name, one, run, most_s) for name, one in properties.items()]


def _verdict(bench: Bench, name: str, one: Property, run: Runner, most_s: float) -> PropertyVerdict:
    async def bounded() -> None:
        async with asyncio.timeout(LOOP_MOST_S):
            await one.holds(bench)

    try:
        with watchdog(most_s):
            run(bounded())
    except NotApplicable as why:
        return PropertyVerdict(bench.model, name, "n/a", str(why))
    except (Exception, GaveUp) as error:  # an assertion of ours or anything that the driver let out
        told = str(error) if isinstance(error, AssertionError | GaveUp) else f"{type(error).__name__}: {error}"
        return PropertyVerdict(bench.model, name, "fail", told)
    return PropertyVerdict(bench.model, name, "pass")
