"""Score of the kit: every broken driver must be caught by the property that is meant for it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from drivers.conformance.bench import Bench
from drivers.conformance.broken.making import Broken, points_of
from drivers.conformance.examine import Runner, examine
from drivers.conformance.properties import PROPERTIES

MAX_TRIAL_S = 60.0
SLIP = re.compile(r"(AttributeError|NameError|TypeError|SyntaxError|ImportError|IndexError)\b")
"""A broken driver that fails by a programming error proves nothing."""


@dataclass(frozen=True, slots=True)
class Caught:
    """Verdict on one broken driver; `others` are properties that caught it instead of the expected one."""

    name: str
    what: str
    model: str
    property: str
    outcome: Literal["caught", "missed"]
    told: str = ""
    others: tuple[str, ...] = ()


def pairs(benches: Sequence[Bench], broken: Sequence[Broken], *, every: bool) -> Iterator[tuple[Broken, Bench]]:
    """Yield each broken driver with one bench that it fits, another one each time; with `every`, with all that it
    fits.
    """
    points = {id(bench): points_of(bench) for bench in benches}
    for number, one in enumerate(broken):
        fitting = [bench for bench in benches if one.name not in bench.no_worse and one.fits(bench, points[id(bench)])]
        if every:
            yield from ((one, bench) for bench in fitting)
        elif fitting:
            yield one, fitting[number % len(fitting)]


def try_broken(one: Broken, bench: Bench, run: Runner) -> Caught:
    """Break a sound driver in one way and return whether the property that is meant for the defect catches it."""
    spoilt = one.spoil(bench)
    (verdict,) = examine(spoilt, run, {one.property: PROPERTIES[one.property]}, max_s=MAX_TRIAL_S)
    told = verdict.told
    if verdict.outcome == "fail" and not SLIP.match(told):
        return Caught(one.name, one.what, bench.model, one.property, "caught", told)
    rest = {name: each for name, each in PROPERTIES.items() if name != one.property}
    others = tuple(each.property for each in examine(spoilt, run, rest, max_s=MAX_TRIAL_S) if each.outcome == "fail")
    return Caught(one.name, one.what, bench.model, one.property, "missed", told, others)
