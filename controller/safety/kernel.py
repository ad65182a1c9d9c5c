"""The safety kernel: pure decisions about what an actuator may do.

No input or output, no clock of its own, nothing third-party. Constraints only tighten a command, and each gives its
reason (I3); interlocks look at levels, never at edges (I1); input that is missing, stale, flat, from the future or out of
range counts as unsafe (I2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Literal, Protocol

from drivers.commands import Command, Dispense, Level, Quality, Run, Stop, Switch

SIGMAS = 3.0
"""How many standard deviations of a volume are kept from a vessel's bounds (I4)."""
FUTURE_S = 1.0
"""A reading that is from later than this after now is not believed."""
MAX_TRANSFER_S = 1800.0
"""No transfer lasts longer (A5)."""
SLACK = 1.5
"""A transfer may last this many times its nominal duration, and `SLACK_S` more, before it is stopped."""
SLACK_S = 30.0
MAX_PULSE_S = 60.0
"""The longest pulse of a heater."""


class ReadingView(Protocol):
    """What the kernel needs of a reading."""

    @property
    def value(self) -> float:
        """The value in its point's unit."""

    @property
    def quality(self) -> Quality:
        """How far it may be trusted."""

    @property
    def at_s(self) -> float:
        """When it was taken (loop seconds)."""

    @property
    def same_since_s(self) -> float:
        """Since when it has been exactly the same."""


class VolumeView(Protocol):
    """What the kernel needs of a volume."""

    @property
    def ul(self) -> float:
        """Estimate (µL)."""

    @property
    def sd_ul(self) -> float:
        """Standard deviation (µL)."""


@dataclass(frozen=True, slots=True)
class Intent:
    """What somebody wants of an actuator, who, and why."""

    actuator: str
    command: Command
    requester: str
    reason: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision: the command as it may go out (perhaps tightened), every reason, and the most limiting one."""

    accepted: bool
    command: Command | None
    reasons: tuple[str, ...] = ()
    limiting: str | None = None


@dataclass(frozen=True, slots=True)
class Trip:
    """An interlock that is not content: what it looks at, what it saw, since when, whom it stops."""

    interlock: str
    point: str
    detail: str
    since_s: float
    actuators: tuple[str, ...]
    latched: bool = False


@dataclass(frozen=True, slots=True)
class Interlock:
    """A level on one point; outside it, or when the point cannot be trusted, its actuators go to their basal state."""

    name: str
    point: str
    high: float
    low: float
    valid_low: float
    valid_high: float
    stale_s: float
    flat_s: float
    trips: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VesselLimits:
    """Bounds of a vessel (µL)."""

    floor_ul: float
    ceiling_ul: float


@dataclass(frozen=True, slots=True)
class PumpLimits:
    """A pump: continuous (the heart) or finite transfers from `source` to `target`."""

    role: Literal["heart", "transfer"]
    source: str
    target: str
    min_ul_min: float
    max_ul_min: float
    valve: str | None = None
    excludes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """Everything that bounds one rig."""

    pumps: Mapping[str, PumpLimits]
    vessels: Mapping[str, VesselLimits]
    heaters: tuple[str, ...]
    switches: tuple[str, ...]
    levels: Mapping[str, tuple[float, float]]
    interlocks: tuple[Interlock, ...]
    heart: str
    draw: str | None = None


@dataclass(frozen=True, slots=True)
class Underway:
    """A transfer that is running: what may still come of it (µL)."""

    actuator: str
    remaining_ul: float


@dataclass(frozen=True, slots=True)
class View:
    """What the kernel looks at when it decides."""

    now_s: float
    readings: Mapping[str, ReadingView]
    volumes: Mapping[str, VolumeView]
    underway: tuple[Underway, ...] = ()
    switched_on: frozenset[str] = frozenset()
    heart_standing: bool = False
    emergency: str | None = None
    trips: tuple[Trip, ...] = field(default=())


def doubt(reading: ReadingView | None, now_s: float, rule: Interlock) -> str | None:
    """Why a reading cannot be trusted, or None when it can (I2)."""
    if reading is None:
        return "never read"
    if reading.quality is Quality.BAD:
        return "the last reading failed"
    if not isfinite(reading.value):
        return "not a number"
    age_s = now_s - reading.at_s
    if age_s > rule.stale_s:
        return f"stale: {age_s:.0f} s old"
    if age_s < -FUTURE_S:
        return f"from the future: {-age_s:.0f} s ahead"
    if not rule.valid_low <= reading.value <= rule.valid_high:
        return f"out of range: {reading.value:g}"
    if rule.flat_s and now_s - reading.same_since_s > rule.flat_s:
        return f"flat: exactly {reading.value:g} for {now_s - reading.same_since_s:.0f} s"
    return None


def evaluate(view: View, limits: Limits, before: tuple[Trip, ...] = ()) -> tuple[Trip, ...]:
    """Every interlock that is not content now; one that was already tripped keeps its time."""
    since = {trip.interlock: trip.since_s for trip in before}
    trips = []
    for rule in limits.interlocks:
        reading = view.readings.get(rule.point)
        why = doubt(reading, view.now_s, rule)
        if why is None and reading is not None:
            if reading.value > rule.high:
                why = f"{reading.value:g} is above {rule.high:g}"
            elif reading.value < rule.low:
                why = f"{reading.value:g} is below {rule.low:g}"
        if why is not None:
            begun_s = since.get(rule.name, view.now_s)
            trips.append(Trip(rule.name, rule.point, why, begun_s, rule.trips))
    if view.heart_standing:
        begun_s = since.get("no_heart_flow", view.now_s)
        trips.append(Trip("no_heart_flow", limits.heart, "the heart is commanded and stands", begun_s, ()))
    return tuple(trips)


def decide(intent: Intent, view: View, limits: Limits) -> Verdict:
    """Whether `intent` may go out, and how far it is tightened.

    A stop always may. A dose is accepted whole or refused; a flow or a level is brought within its bounds.
    """
    command = intent.command
    if isinstance(command, Stop) or (isinstance(command, Switch) and not command.on):
        return Verdict(True, command)
    refusals: list[str] = []
    if view.emergency is not None:
        refusals.append(f"emergency stop: {view.emergency}; reset it with a reason first")
    heaters = {name for name in limits.heaters if name == intent.actuator}
    for trip in view.trips:
        # A low temperature is what a heater is for: only heat and doubt stop it.
        cold = trip.detail.find("is below") >= 0
        if intent.actuator in trip.actuators and not (heaters and cold):
            refusals.append(f"interlock {trip.interlock}: {trip.point} {trip.detail}")
    if intent.actuator in limits.pumps:
        verdict = _pump(intent, view, limits, limits.pumps[intent.actuator], refusals)
    elif intent.actuator in limits.levels:
        verdict = _level(command, limits.levels[intent.actuator], refusals)
    elif intent.actuator in limits.switches:
        verdict = _switch(command, bool(heaters), refusals)
    else:
        verdict = _refused([*refusals, f"no actuator is called {intent.actuator}"])
    return verdict


def transfer_limit_s(dose: Dispense) -> float:
    """How long a dose may run before it is stopped (A5)."""
    return min(dose.volume_ul / dose.flow_ul_min * 60.0 * SLACK + SLACK_S, MAX_TRANSFER_S)


def _refused(reasons: list[str]) -> Verdict:
    return Verdict(False, None, tuple(reasons), reasons[0])


def _level(command: Command, bounds: tuple[float, float], refusals: list[str]) -> Verdict:
    if not isinstance(command, Level) or not isfinite(command.value):
        refusals.append("a level needs a finite value")
    if refusals or not isinstance(command, Level):
        return _refused(refusals)
    low, high = bounds
    if low <= command.value <= high:
        return Verdict(True, command)
    reason = f"{command.value:g} is outside {low:g} to {high:g}"
    return Verdict(True, Level(min(max(command.value, low), high)), (reason,), reason)


def _switch(command: Command, heater: bool, refusals: list[str]) -> Verdict:
    if not isinstance(command, Switch):
        refusals.append("a switch is only switched")
    elif command.for_s is not None and not (isfinite(command.for_s) and command.for_s > 0):
        refusals.append("a pulse needs a finite duration above zero")
    elif heater and command.for_s is None:
        refusals.append("a heater is only ever switched on for a finite time")
    if refusals or not isinstance(command, Switch):
        return _refused(refusals)
    if heater and command.for_s is not None and command.for_s > MAX_PULSE_S:
        reason = f"a heater pulse of {command.for_s:g} s is longer than {MAX_PULSE_S:g} s"
        return Verdict(True, Switch(True, MAX_PULSE_S), (reason,), reason)
    return Verdict(True, command)


def _pump(intent: Intent, view: View, limits: Limits, pump: PumpLimits, refusals: list[str]) -> Verdict:
    command = intent.command
    if isinstance(command, Run) and pump.role == "heart":
        return _flow(command, pump, refusals)
    if not isinstance(command, Dispense):
        return _refused([*refusals, "a transfer pump only ever gets a finite volume"])
    numbers = (command.volume_ul, command.flow_ul_min)
    if pump.role == "heart":
        refusals.append("the heart circulates; it does not dose")
    elif not all(isfinite(number) and number > 0 for number in numbers):
        refusals.append("a dose needs a finite volume and flow above zero")
    else:
        if command.flow_ul_min > pump.max_ul_min:
            refusals.append(f"flow {command.flow_ul_min:g} µL/min is above the line's {pump.max_ul_min:g}")
        nominal_s = command.volume_ul / command.flow_ul_min * 60.0
        if nominal_s > MAX_TRANSFER_S:
            refusals.append(f"it would last {nominal_s:.0f} s, longer than {MAX_TRANSFER_S:.0f} s at most")
        refusals += _room(intent.actuator, command.volume_ul, view, limits, pump)
        if pump.valve is not None and pump.valve not in view.switched_on:
            refusals.append(f"the valve {pump.valve} is closed")
        for other in view.underway:
            if other.actuator in pump.excludes:
                refusals.append(f"{other.actuator} is running on the same vessel")
        if intent.actuator == limits.draw and view.heart_standing:
            refusals.append("interlock no_heart_flow: nothing is drawn while the heart stands")
    return _refused(refusals) if refusals else Verdict(True, command)


def _flow(command: Run, pump: PumpLimits, refusals: list[str]) -> Verdict:
    if not isfinite(command.flow_ul_min) or command.flow_ul_min <= 0:
        refusals.append("the heart needs a finite flow above zero; stop it with a stop")
    if refusals:
        return _refused(refusals)
    bounded = min(max(command.flow_ul_min, pump.min_ul_min), pump.max_ul_min)
    if bounded == command.flow_ul_min:
        return Verdict(True, command)
    reason = f"{command.flow_ul_min:g} µL/min is outside {pump.min_ul_min:g} to {pump.max_ul_min:g}"
    return Verdict(True, Run(bounded), (reason,), reason)


def _room(actuator: str, volume_ul: float, view: View, limits: Limits, pump: PumpLimits) -> list[str]:
    """Reasons why the volume does not fit, counting what is underway and three standard deviations (I4)."""
    reasons = []
    incoming: dict[str, float] = {}
    outgoing: dict[str, float] = {}
    for other in view.underway:
        moving = limits.pumps.get(other.actuator)
        if moving is not None and other.actuator != actuator:
            outgoing[moving.source] = outgoing.get(moving.source, 0.0) + other.remaining_ul
            incoming[moving.target] = incoming.get(moving.target, 0.0) + other.remaining_ul
    source, target = view.volumes.get(pump.source), view.volumes.get(pump.target)
    if source is None or target is None:
        return [f"the volume of {pump.source if source is None else pump.target} is not known"]
    floor = limits.vessels[pump.source].floor_ul
    lowest = source.ul - SIGMAS * source.sd_ul - outgoing.get(pump.source, 0.0) - volume_ul
    if not lowest >= floor:
        reasons.append(f"{pump.source} could fall to {lowest / 1000:.2f} mL, below its floor of {floor / 1000:g} mL")
    ceiling = limits.vessels[pump.target].ceiling_ul
    highest = target.ul + SIGMAS * target.sd_ul + incoming.get(pump.target, 0.0) + volume_ul
    if not highest <= ceiling:
        reasons.append(
            f"{pump.target} could rise to {highest / 1000:.2f} mL, above its ceiling of {ceiling / 1000:g} mL"
        )
    return reasons
