"""The safety kernel: pure decisions about what an actuator may do.

No input or output, no clock, no third-party imports. Constraints only tighten a command, and each gives its reason (I3).
The data types are in :mod:`controller.safety.terms`, the interlocks in :mod:`controller.safety.interlocks`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite

from controller.safety.heat import heat_bounds
from controller.safety.interlocks import fresh_flow, is_open, unconfirmed, watch
from controller.safety.selectors import refusal_to_turn, selected
from controller.safety.terms import (
    Intent,
    Limits,
    Mixture,
    PumpLimits,
    PumpTrust,
    Response,
    Trip,
    Verdict,
    View,
)
from drivers.commands import Command, Dispense, Level, Run, Stop, Switch

SIGMAS = 3.0
"""Margin to a vessel's bounds, in standard deviations of its volume (I4)."""
MAX_TRANSFER_S = 1800.0
"""Maximum duration of a transfer (s) (A5)."""
SLACK = 1.5
"""A transfer is stopped after its nominal duration times `SLACK`, plus `SLACK_S`."""
SLACK_S = 30.0
MAX_PULSE_S = 60.0
"""Maximum duration of a heater pulse (s)."""
UNCALIBRATED = PumpTrust()
MIXTURE_GRAIN = 0.001
"""Tolerance on a gas share (0..1): set-points are rounded to the resolution of the gas controllers."""


def decide(intent: Intent, view: View, limits: Limits) -> Verdict:
    """Decide whether `intent` may be carried out, and how far its command is tightened.

    A command to come to rest is always accepted. A dose is accepted whole or refused; a flow or a level is clipped to its
    bounds.
    """
    command = intent.command
    if intent.actuator not in limits.basal:
        reason = f"no actuator is called {intent.actuator}"
        return Verdict(False, None, (reason,), reason)
    if comes_to_rest(command):
        return Verdict(True, command)
    narrowing = _Narrowing(command)
    _emergency(narrowing, intent, view, limits)
    _interlocks(narrowing, intent, view, limits)
    if (pump := limits.pumps.get(intent.actuator)) is not None:
        if pump.role == "heart":
            _heart(narrowing, pump)
        else:
            _transfer(narrowing, intent, view, limits, pump)
    elif intent.actuator in limits.selectors:
        if (refusal := refusal_to_turn(intent.actuator, command, view, limits)) is not None:
            narrowing.refuse(refusal)
    elif intent.actuator in limits.levels:
        _level(narrowing, intent.actuator, view, limits)
    else:
        _switch(narrowing, intent.actuator, view, limits)
    return narrowing.verdict()


def comes_to_rest(command: Command) -> bool:
    """Return whether a command only stops or switches off."""
    return isinstance(command, Stop) or (isinstance(command, Switch) and not command.on)


def emergency_holds(actuator: str, limits: Limits, *, known: bool) -> bool:
    """Return whether an emergency stop holds an actuator at its basal state.

    One that may stand (not `known`) holds pumps, their valves and selectors: temperature and gas go on.
    """
    if known or actuator in limits.pumps or actuator in limits.selectors:
        return True
    return any(pump.valve == actuator for pump in limits.pumps.values())


def transfer_limit_s(dose: Dispense) -> float:
    """Return the duration (s) after which a dose is stopped (A5)."""
    return min(dose.volume_ul / dose.flow_ul_min * 60.0 * SLACK + SLACK_S, MAX_TRANSFER_S)


class _Narrowing:
    """A command on its way through the constraints. It can only be tightened or refused."""

    __slots__ = ("_clips", "_refusals", "command")

    def __init__(self, command: Command) -> None:
        self.command = command
        self._refusals: list[str] = []
        self._clips: list[str] = []

    @property
    def refused(self) -> bool:
        """Whether a constraint has refused the command."""
        return bool(self._refusals)

    def refuse(self, reason: str) -> None:
        """Refuse the command. The first refusal is named as the most limiting."""
        self._refusals.append(reason)

    def clip(self, command: Command, reason: str) -> None:
        """Replace the command by a tighter one. The last clip is named as the most limiting."""
        self.command = command
        self._clips.append(reason)

    def verdict(self) -> Verdict:
        """Return the verdict of all constraints together."""
        if self._refusals:
            return Verdict(False, None, tuple(self._refusals), self._refusals[0])
        return Verdict(True, self.command, tuple(self._clips), self._clips[-1] if self._clips else None)


# --- for every actuator -----------------------------------------------------------------------------------


def _emergency(narrowing: _Narrowing, intent: Intent, view: View, limits: Limits) -> None:
    """Allow only basal states during an emergency stop, until a person resets it (I5)."""
    if view.emergency is None or not emergency_holds(intent.actuator, limits, known=view.emergency_known):
        return
    if intent.command != limits.basal[intent.actuator]:
        narrowing.refuse(f"emergency stop: {view.emergency}; reset it with a reason first")


def _interlocks(narrowing: _Narrowing, intent: Intent, view: View, limits: Limits) -> None:
    """Apply the interlocks, evaluated again for each decision (I1)."""
    basal = limits.basal[intent.actuator]
    now = watch(view, limits)
    for trip in (*now.trips, *unconfirmed(now, limits, view.now_s)):
        if intent.actuator not in trip.actuators or trip.response is Response.ALARM:
            continue
        stays = "; it is latched: reset it with a reason" if trip.latched else "" if trip.present else "; held a while"
        why = f"interlock {trip.interlock}: {trip.point} {trip.detail}{stays}"
        _respond(narrowing, trip, basal, why)


def _respond(narrowing: _Narrowing, trip: Trip, basal: Command, why: str) -> None:
    """Refuse the command, or clip a flow to the basal one, as the trip's response demands."""
    command = narrowing.command
    if trip.response is Response.OFF:
        narrowing.refuse(why)
    elif isinstance(command, Run) and isinstance(basal, Run):
        if command.flow_ul_min > basal.flow_ul_min:
            narrowing.clip(basal, why)
    elif command != basal:
        narrowing.refuse(why)


# --- kind by kind -----------------------------------------------------------------------------------------


def _heart(narrowing: _Narrowing, pump: PumpLimits) -> None:
    command = narrowing.command
    if not isinstance(command, Run):
        narrowing.refuse("the heart circulates; it does not dose")
    elif not isfinite(command.flow_ul_min) or command.flow_ul_min <= 0:
        narrowing.refuse("the heart needs a finite flow above zero; stop it with a stop")
    elif not pump.min_ul_min <= command.flow_ul_min <= pump.max_ul_min:
        bounded = min(max(command.flow_ul_min, pump.min_ul_min), pump.max_ul_min)
        span = f"{pump.min_ul_min:g} to {pump.max_ul_min:g}"
        narrowing.clip(Run(bounded), f"bounds: {command.flow_ul_min:g} µL/min is outside {span}")


def _transfer(narrowing: _Narrowing, intent: Intent, view: View, limits: Limits, pump: PumpLimits) -> None:
    dose, actuator = narrowing.command, intent.actuator
    if not isinstance(dose, Dispense):
        narrowing.refuse("a transfer pump only ever gets a finite volume")
        return
    if not all(isfinite(number) and number > 0 for number in (dose.volume_ul, dose.flow_ul_min)):
        narrowing.refuse("a dose needs a finite volume and flow above zero")
        return
    if (refusal := view.pumps.get(actuator, UNCALIBRATED).refusal) is not None:
        narrowing.refuse(f"calibration: {refusal}")
    _pace(narrowing, dose, pump)
    _one_at_a_time(narrowing, actuator, dose, view, pump)
    way = selected(intent, pump, view, limits)
    for reason in (way,) if isinstance(way, str) else _no_room(actuator, dose, view, limits, way):
        narrowing.refuse(reason)
    if pump.valve is not None and not is_open(pump.valve, view, limits):
        narrowing.refuse(f"valve: {pump.valve} is not known to be open")


def _pace(narrowing: _Narrowing, dose: Dispense, pump: PumpLimits) -> None:
    """Refuse a dose above the line's maximum flow, or one that could last too long."""
    if dose.flow_ul_min > pump.max_ul_min:
        narrowing.refuse(f"flow: {dose.flow_ul_min:g} µL/min is above the line's {pump.max_ul_min:g}")
    longest_s = dose.volume_ul / dose.flow_ul_min * 60.0 * SLACK + SLACK_S
    if longest_s > MAX_TRANSFER_S:
        narrowing.refuse(f"duration: it could last {longest_s:.0f} s, longer than {MAX_TRANSFER_S:.0f} s at most")


def _one_at_a_time(narrowing: _Narrowing, actuator: str, dose: Dispense, view: View, pump: PumpLimits) -> None:
    """Refuse a dose while its pump gives another one, or while an excluded pump runs."""
    for other in view.underway:
        if not other.running:
            continue
        if other.actuator == actuator and other.dose_id != dose.dose_id:
            narrowing.refuse("one at a time: the pump is still giving another dose")
        elif other.actuator in pump.excludes:
            narrowing.refuse(f"one at a time: {other.actuator} is running on the same vessel")


def _no_room(actuator: str, dose: Dispense, view: View, limits: Limits, pump: PumpLimits) -> list[str]:
    """Return why the volume does not fit, with everything underway and three standard deviations of margin (I4)."""
    # A calibrated pump is asked for more or less than it is to move; what it really moves counts.
    volume_ul = dose.volume_ul * view.pumps.get(actuator, UNCALIBRATED).gain
    others = list(_underway_ul(actuator, dose, view, limits))
    reasons = _below_floor(pump, volume_ul, others, view, limits)
    for vessel in pump.fills or (pump.target,):
        reasons += _above_ceiling(vessel, pump, volume_ul, others, view, limits)
    return reasons


Moving = Sequence[tuple[float, PumpLimits]]
"""What transfers may still move (µL), with their pumps."""


def _below_floor(pump: PumpLimits, volume_ul: float, others: Moving, view: View, limits: Limits) -> list[str]:
    """Return why the source of a pump could fall below its floor, or cannot hold as much.

    An inlet at the floor or above it (straw, skimmer) draws air before that, and may be asked for more than stands above it.
    """
    source = view.volumes.get(pump.source)
    if source is None:
        return [f"volume: that of {pump.source} is not known"]
    floor, ceiling = limits.vessels[pump.source].floor_ul, limits.vessels[pump.source].ceiling_ul
    if pump.draws_above_ul > 0.0 and pump.draws_above_ul >= floor:
        above = f"volume: {volume_ul / 1000:g} mL are more than {pump.source} can hold, {ceiling / 1000:g} mL"
        return [above] if volume_ul > ceiling else []
    outgoing = sum(ul for ul, other in others if other.source == pump.source)
    lowest = source.ul - SIGMAS * source.sd_ul - outgoing - volume_ul
    if lowest >= floor:
        return []
    return [f"volume: {pump.source} could fall to {lowest / 1000:.2f} mL, below its floor, {floor / 1000:g} mL"]


def _above_ceiling(
    vessel: str, pump: PumpLimits, volume_ul: float, others: Moving, view: View, limits: Limits
) -> list[str]:
    """Return why a vessel could rise above its ceiling.

    What its passive outlet carries away makes no room, because the outlet may be blocked.
    """
    volume = view.volumes.get(vessel)
    if volume is None:
        return [f"volume: that of {vessel} is not known"]
    ceiling = limits.vessels[vessel].ceiling_ul
    incoming = sum(ul * other.share_into(vessel) for ul, other in others)
    highest = volume.ul + SIGMAS * volume.sd_ul + incoming + volume_ul * pump.share_into(vessel)
    if highest <= ceiling:
        return []
    return [f"volume: {vessel} could rise to {highest / 1000:.2f} mL, above its ceiling of {ceiling / 1000:g} mL"]


def _underway_ul(actuator: str, dose: Dispense, view: View, limits: Limits) -> Iterator[tuple[float, PumpLimits]]:
    """Yield what the other transfers may still move (µL), with their pump.

    What still leaves a vessel to be filled, or enters one to be drawn from, might not come: it makes no room.
    """
    for other in view.underway:
        pump = limits.pumps.get(other.actuator)
        pump = None if pump is None else pump.on_way(other.positions)
        if pump is not None and not (other.actuator == actuator and other.dose_id == dose.dose_id):
            yield other.remaining_ul * view.pumps.get(other.actuator, UNCALIBRATED).gain, pump


def _level(narrowing: _Narrowing, actuator: str, view: View, limits: Limits) -> None:
    """Bound the flow of a gas, the set-point of a thermostat's bath, or the speed of an agitator."""
    command = narrowing.command
    if not isinstance(command, Level) or not isfinite(command.value):
        narrowing.refuse("a level needs a finite value")
        return
    low, high = limits.levels[actuator]
    if not low <= command.value <= high:
        bounded = min(max(command.value, low), high)
        unit = "degC" if actuator in limits.heaters else "mL/min" if _is_gas(actuator, limits) else "rpm"
        narrowing.clip(Level(bounded), f"bounds: {command.value:g} {unit} is outside {low:g} to {high:g}")
    if limits.mixture is not None and _is_gas(actuator, limits):
        _mixture(narrowing, actuator, view, limits.mixture, high)


def _is_gas(actuator: str, limits: Limits) -> bool:
    """Return whether an actuator is a gas of the mixture."""
    gases = limits.mixture
    return gases is not None and actuator in (gases.air, gases.co2, gases.o2)


def _mixture(narrowing: _Narrowing, actuator: str, view: View, mixture: Mixture, high: float) -> None:
    """Keep CO2 below its share of the gas: CO2 alone would acidify the medium within minutes.

    CO2 is clipped to what the other gases permit. A reduction of another gas is clipped, or refused until CO2 is lowered.
    """
    command = narrowing.command
    if not isinstance(command, Level):
        return
    flows = _gas_flows(view, mixture)
    share = mixture.airless_co2 if view.watch.no_air and actuator == mixture.co2 else mixture.max_co2
    if actuator != mixture.co2 and command.value >= flows.get(actuator, 0.0):
        return  # an increase of another gas never raises the share of CO2
    flows[actuator] = command.value
    co2 = flows.get(mixture.co2, 0.0)
    others = flows.get(mixture.air, 0.0) + flows.get(mixture.o2, 0.0)
    if co2 <= (share + MIXTURE_GRAIN) * (co2 + others):
        return
    why = f"mixture: {co2:g} mL/min of CO2 over {others:g} of other gas is more than {share:.1%}"
    if actuator == mixture.co2:
        narrowing.clip(Level(others * share / (1.0 - share)), why)
        return
    needed = co2 * (1.0 - mixture.max_co2) / mixture.max_co2 - (others - command.value)
    if actuator == mixture.air and needed <= high:
        narrowing.clip(Level(needed), why)
    else:
        narrowing.refuse(f"{why}; lower CO2 first")


def _gas_flows(view: View, mixture: Mixture) -> dict[str, float]:
    """Return the set-points of the three gases (mL/min). While air counts as closed, only measured flows count."""
    flows = {gas: seen.level for gas in (mixture.air, mixture.co2, mixture.o2) if (seen := view.seen.get(gas))}
    if view.watch.no_air:
        flows[mixture.air] = 0.0
        flows[mixture.o2] = min(flows.get(mixture.o2, 0.0), fresh_flow(view, mixture.o2, mixture) or 0.0)
    return flows


def _switch(narrowing: _Narrowing, actuator: str, view: View, limits: Limits) -> None:
    command, heater = narrowing.command, actuator in limits.heaters
    if not isinstance(command, Switch):
        narrowing.refuse("a switch is only switched")
    elif command.for_s is not None and not (isfinite(command.for_s) and command.for_s > 0):
        narrowing.refuse("a pulse needs a finite duration above zero")
    elif heater and command.for_s is None:
        narrowing.refuse("a heater is only ever switched on for a finite time")
    elif heater and command.for_s is not None:
        _heater_pulse(narrowing, actuator, command.for_s, view, limits)


def _heater_pulse(narrowing: _Narrowing, actuator: str, pulse_s: float, view: View, limits: Limits) -> None:
    """Clip a heater pulse to its maximum duration and to what a stuck probe could hide."""
    if pulse_s > MAX_PULSE_S:
        why = f"bounds: a heater pulse of {pulse_s:g} s is longer than {MAX_PULSE_S:g} s"
        narrowing.clip(Switch(True, pulse_s := MAX_PULSE_S), why)
    for room_s, why in heat_bounds(actuator, pulse_s, view, limits):
        if room_s > 0.0:
            narrowing.clip(Switch(True, pulse_s := min(pulse_s, room_s)), why)
        else:
            narrowing.refuse(why)
