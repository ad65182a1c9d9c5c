"""Checks of every interlock: is its sensor in the right place, does it act on the right actuator, and in time?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import floor, log10

from controller.hazards.terms import Hazard, Subject
from controller.hazards.timing import ACTUATION_S, READINGS, TICK_S
from controller.rig.description import PressureLimit, TemperatureLimit
from controller.rig.families import may_be_point, points_of
from controller.rig.problems import Finding, Place

OVERHEAD_S = TICK_S + ACTUATION_S


def missing(hazard: str, where: str, place: Place, fix: str) -> Hazard:
    """Return the row of a hazard without an interlock."""
    gap = Finding(place, f"no interlock answers the hazard {hazard} at “{where}”", fix)
    return Hazard(hazard, where, "none", "none", (), "", 0.0, 0.0, "", (gap,))


def place_gap(subject: Subject, point: str, wanted: Collection[str], place: Place, what: str) -> Iterator[Finding]:
    """Yield a finding unless the probe of `point` sits at one of the `wanted` places."""
    at = subject.at(point)
    if at in wanted:
        return
    fitting = [
        other
        for other, kind in points_of(subject.rig).items()
        if kind == points_of(subject.rig).get(point) and subject.at(other) in wanted
    ]
    names = " or ".join(f"“{name}”" for name in sorted(wanted))
    device = point.partition(".")[0]
    fix = (
        f"Name {' or '.join(fitting)}" if fitting else f"Put the probe there and write “at:” of “{device}” accordingly"
    )
    where = "nowhere (no “at:”)" if at is None else f"at “{at}”"
    yield Finding(place, f"{what} “{point}” sits {where}, and the hazard is at {names}", fix)


def trips_gaps(subject: Subject, trips: Sequence[str], wanted: str, place: Place) -> Iterator[Finding]:
    """Yield findings unless `trips` holds the actuator that removes the hazard, and no other whose rest is a hazard.

    To stop a transfer pump is harmless: its dose stays short and its run is held. To stop the heart, the heater or a gas is
    not.
    """
    if wanted not in trips:
        what = f"the interlock trips {', '.join(trips) or 'nothing'}, and “{wanted}” causes the hazard"
        yield Finding(place, what, f"Write [{wanted}]")
        return
    yield from rest_gaps(subject, trips, place, wanted=wanted)


def rest_gaps(subject: Subject, trips: Sequence[str], place: Place, *, wanted: str | None = None) -> Iterator[Finding]:
    """Yield a finding for each tripped actuator whose rest is a hazard; `wanted` is the one that causes the hazard."""
    pumps = subject.limits.pumps
    for index, name in enumerate(trips):
        pump = pumps.get(name)
        if name == wanted or (pump is not None and pump.role == "transfer") or may_be_point(subject.rig, name):
            continue
        what = f"the interlock also trips “{name}”, which does not cause the hazard and whose rest is one"
        yield Finding((*place, index), what, f"Remove it; write [{wanted or ''}]")


def stale_gap(subject: Subject, limit: TemperatureLimit | PressureLimit, place: Place) -> Iterator[Finding]:
    """Yield a finding if a reading that is late by one period already counts as lost."""
    every_s = subject.every_s(limit.point)
    if limit.stale_s >= READINGS * every_s:
        return
    device = limit.point.partition(".")[0]
    what = f"it is read every {every_s:g} s and counts as lost after {limit.stale_s:g} s: one late reading trips it"
    shorter = (
        f"Write “every: {limit.stale_s / READINGS:g} s” or less, or a longer “stale” under {'.'.join(map(str, place))}"
    )
    yield Finding(("devices", device, "every"), what, shorter)


def time_gap(
    subject: Subject,
    point: str,
    takes_s: float,
    harm_s: float,
    harm: str,
    key: str = "every",
    place: Place | None = None,
) -> Iterator[Finding]:
    """Yield a finding if an action after `takes_s` is later than the harm; `key` at `place` is the setting to shorten."""
    if takes_s <= harm_s:
        return
    device = point.partition(".")[0]
    what = f"“{point}” is acted on within {takes_s:.0f} s, and {harm} within {harm_s:.0f} s"
    allowed_s = harm_s - OVERHEAD_S
    if key == "every":
        allowed_s *= subject.every_s(point) / takes_s
    fix = (
        f"Write “{key}: {_rounded_down(allowed_s):g} s” or less"
        if allowed_s > 0
        else "Widen the margin between limit and harm"
    )
    yield Finding((*(place or ("devices", device)), key), what, fix)


def _rounded_down(value: float) -> float:
    """Round a positive value down to two digits."""
    digits = 1 - floor(log10(value))
    return floor(value * 10.0**digits) / 10.0**digits
