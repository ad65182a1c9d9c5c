"""When a rig has to be sampled at its full rate, and when the periods at rest suffice.

A rig is at rest when nothing moves but the circulation, every output follows its command, every reading is good and none
could pass a limit before the next one is taken. How far a reading can move meanwhile follows from the maximum rate of its
quantity (:mod:`controller.readings.plausibility`), so a limit is approached at full rate. Anything else is a need.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf

from controller.core.state import ActuatorView, Reading, State
from controller.readings.plausibility import PlausibleRange, bounds_of
from controller.readings.vigilance import PH_BEYOND
from controller.rig.description import Rig
from controller.rig.probes import culture_ph
from controller.safety.terms import Limits
from drivers.commands import Quality

REST_AFTER_S = 30.0
"""Time (s) without a need until the rig counts as at rest: what a transfer has moved settles at full rate."""
LATE_S = 2.0
"""Maximum delay of a reading (s): one tick, and the turn of another device on its link."""


class SamplingNeeds:
    """Judges at each tick whether a rig is at rest. `reason` is why it is not, for people; empty at rest."""

    def __init__(self, rig: Rig, limits: Limits, rest_s: Mapping[str, float]) -> None:
        """`rest_s` is the sampling period at rest of each device (s)."""
        self._devices = frozenset(rig.devices)
        self._inner = inner_ranges(rig, limits, rest_s)
        self._readings: Mapping[str, Reading] = {}
        self._actuators: Mapping[str, ActuatorView] = {}
        """The mappings of the last state: the same objects again are the same content."""
        self._known: dict[str, Reading] = {}
        self._views: dict[str, ActuatorView] = {}
        self._needy: dict[str, str] = {}
        """By point: why its last reading needs another one soon."""
        self._rest_from_s: float | None = None
        self.reason = "sampling begins"

    def at_rest(self, state: State, busy: str) -> bool:
        """Take in the state of a tick. Return whether the periods at rest suffice.

        Args:
            state: the snapshot.
            busy: what else needs full rate (a transfer, an emergency stop, a measurement); empty if nothing does.
        """
        self._take_in(state)
        if busy or self._needy or state.trips:
            self._rest_from_s = None
            self.reason = busy or next(iter(self._needy.values()), "an interlock has tripped")
            return False
        if self._rest_from_s is None:
            self._rest_from_s = state.at_s + REST_AFTER_S
        if state.at_s < self._rest_from_s:
            return False
        self.reason = ""
        return True

    def _take_in(self, state: State) -> None:
        """Judge the readings and views that are new since the last tick."""
        if state.readings is not self._readings:
            self._readings = state.readings
            known = self._known
            for point, reading in state.readings.items():
                if known.get(point) is not reading:
                    known[point] = reading
                    if point.partition(".")[0] in self._devices:
                        self._note(point, self._why(point, reading))
        if state.actuators is not self._actuators:
            self._actuators = state.actuators
            for name, view in state.actuators.items():
                if self._views.get(name) is not view:
                    self._views[name] = view
                    self._note(f"{name} status", view.fault)

    def _note(self, point: str, why: str) -> None:
        if why:
            self._needy[point] = f"{point}: {why}"
        else:
            self._needy.pop(point, None)

    def _why(self, point: str, reading: Reading) -> str:
        """Return why a reading needs another one soon, or an empty text."""
        if reading.quality is not Quality.GOOD:
            return f"{reading.quality.value} {reading.detail}"
        low, high = self._inner.get(point, (-inf, inf))
        return "" if low <= reading.value <= high else f"{reading.value:g} is near a limit"


def inner_ranges(rig: Rig, limits: Limits, rest_s: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """Return the range of each limited point from which no limit can be passed before the next reading at rest.

    An empty range (low above high) means that the point is always read at full rate.
    """
    bounds = bounds_of(rig)
    ranges: dict[str, tuple[float, float]] = {}
    for point, low, high in _limits(rig, limits):
        reach = reach_of(bounds.get(point), rest_s[point.partition(".")[0]])
        inner_low, inner_high = ranges.get(point, (-inf, inf))
        ranges[point] = max(inner_low, low + reach), min(inner_high, high - reach)
    return ranges


def reach_of(bounds: PlausibleRange | None, period_s: float) -> float:
    """Return how far a quantity can move until the next reading (its unit); infinite if its rate is unknown."""
    return inf if bounds is None else bounds.grain + bounds.per_s * (period_s + LATE_S)


def _limits(rig: Rig, limits: Limits) -> Iterator[tuple[str, float, float]]:
    """Yield each limited point with its limits: those of the interlocks, and those of the alarm of pH."""
    for rule in limits.interlocks:
        yield rule.point, rule.low, rule.high
    for ph, target in culture_ph(rig).items():
        yield ph, target - PH_BEYOND, target + PH_BEYOND
