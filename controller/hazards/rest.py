"""Sampling periods at rest: how seldom a device may be read while nothing happens, derived from what needs its readings.

`every` in the rig file is the period at full rate. At rest (:mod:`controller.readings.needs`) a device is read less often,
but never so seldom that one of these needs is missed:

- one lost reading must not count as a lost sensor, neither for an interlock, nor for the gate, nor for an alarm;
- a regulator must have two readings within the age that it accepts;
- a heater pulse must not be cut short by the age of the reading;
- no hazard of the table may be detected later than after half of its time to harm.

The periods are whole parts of the longest one, so that devices are read together and the controller rests in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil

from controller.hazards.table import hazards_of
from controller.hazards.terms import Hazard
from controller.hazards.timing import FOLLOWS_S, READINGS
from controller.regulation import oxygen, ph
from controller.regulation.temperature import WINDOW_S
from controller.rig.description import Rig
from controller.rig.families import FAMILIES, GAS, MASS, OXYGEN, PH, PRESSURE, PUMP, SWITCH, TEMPERATURE, PointKind
from controller.safety.limits import limits_of
from controller.safety.probe_rules import max_age_s
from controller.safety.terms import Limits

MAX_S = 10.0
"""Maximum period at rest (s). Medium, gas and temperature change over minutes: six readings a minute show it, and the
regulator of gas acts twice a minute."""
MARGIN = 0.5
"""Maximum share of the time to harm that detection may take at rest."""
KNOWN: frozenset[PointKind] = frozenset((GAS, MASS, OXYGEN, PH, PRESSURE, PUMP, SWITCH, TEMPERATURE))
"""Points whose needs are known here. A device with any other point is always read at its full rate."""


def rest_periods(rig: Rig) -> dict[str, float]:
    """Return the sampling period at rest of each device of `rig` (s), at least its `every`."""
    limits = limits_of(rig)
    periods = {
        name: max(spec.every_s, _whole_part(min(_needs(rig, limits, name)))) for name, spec in rig.devices.items()
    }
    full = {row.id: row for row in hazards_of(rig, limits)}
    while late := _late_devices(rig, limits, periods, full):
        periods |= {name: rig.devices[name].every_s for name in late}
    return periods


def _whole_part(period_s: float) -> float:
    """Return the longest period that is not longer than `period_s` and of which :data:`MAX_S` is a multiple (s)."""
    return MAX_S / ceil(MAX_S / period_s)


def at_rest(rig: Rig, periods: Mapping[str, float]) -> Rig:
    """Return `rig` with other sampling periods (s), by device."""
    devices = {name: spec.model_copy(update={"every_s": periods[name]}) for name, spec in rig.devices.items()}
    return rig.model_copy(update={"devices": devices})


def _late_devices(rig: Rig, limits: Limits, periods: Mapping[str, float], full: Mapping[str, Hazard]) -> set[str]:
    """Return the slowed devices of every hazard that would be detected too late with `periods`."""
    slowed = {name for name, spec in rig.devices.items() if periods[name] > spec.every_s}
    late: set[str] = set()
    for row in hazards_of(at_rest(rig, periods), limits):
        known = full[row.id]
        later = row.detection_s > known.detection_s and row.detection_s > MARGIN * row.harm_s
        if later or len(row.gaps) > len(known.gaps):
            named = {point.partition(".")[0] for point in (*row.sensor.split(", "), *row.actuators)}
            late |= named & slowed or slowed
    return late


def _needs(rig: Rig, limits: Limits, device: str) -> Iterator[float]:
    """Yield for each need of a device the period that it allows (s)."""
    spec = rig.devices[device]
    family = FAMILIES.get(spec.model)
    kinds = () if family is None else (*family.points.values(), family.channel)
    button = rig.safety.emergency_stop
    if not kinds or any(kind not in KNOWN for kind in kinds if kind is not None):
        yield spec.every_s
    if button is not None and button.input.partition(".")[0] == device:
        yield spec.every_s
    yield MAX_S
    yield max_age_s(spec.every_s) / READINGS
    for point, stale_s in _trusted_for(rig, limits):
        if point.partition(".")[0] == device:
            yield stale_s / READINGS
    skin = rig.organs.skin
    for rule in limits.interlocks:
        if skin is not None and rule.rise_per_s > 0.0 and rule.point.partition(".")[0] == device:
            yield (rule.ceiling - skin.setpoint_c) / rule.rise_per_s - WINDOW_S


def _trusted_for(rig: Rig, limits: Limits) -> Iterator[tuple[str, float]]:
    """Yield each point with the maximum age (s) at which an interlock, the gate, a regulator or an alarm trusts it."""
    for rule in limits.interlocks:
        yield rule.point, rule.stale_s
    yield from ((heart.pump, min(heart.stale_s, READINGS * FOLLOWS_S)) for heart in limits.hearts)
    yield from limits.switch_stale_s.items()
    lung = rig.organs.lung
    if lung is not None:
        yield lung.ph, ph.STALE_S
        yield lung.oxygen, oxygen.STALE_S
    if limits.mixture is not None:
        mixture = limits.mixture
        yield mixture.ph, mixture.ph_stale_s
        for gas in (mixture.air, mixture.co2, mixture.o2):
            yield gas, mixture.stale_s
