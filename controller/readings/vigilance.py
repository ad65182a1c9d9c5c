"""Alarm causes from readings alone: devices that do not answer, stuck probes, pH out of range, a reversed heart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from controller.core.state import State
from controller.regulation.trust import trusted
from controller.rig.description import Rig
from controller.safety.limits import stale_s
from controller.safety.probe_rules import max_age_s
from drivers.commands import PumpStatus, Quality

PH_BEYOND = 0.3
"""Maximum deviation of pH from its set-point; the regulator normally holds it to some hundredths."""
PH_STALE_S = 60.0
SUCTION_KPA = -0.2
"""Suction limit: below the zero error of gauges (a twentieth of a kilopascal), above the suction of a basal flow."""
PRESSURE_STALE_S = 15.0
TURN_S = 2.0
"""Maximum time (s) that another device on the same link may delay a reading, time-outs included."""


Cause = tuple[str, str]
"""Kind of alarm and its source."""


def oldest_answers(rig: Rig) -> dict[str, float]:
    """Return the maximum age (s) of the last answer of each device, beyond which it counts as lost without an error."""
    shared = Counter(spec.link for spec in rig.devices.values())
    return {name: max_age_s(max(spec.every_s, TURN_S * shared[spec.link])) for name, spec in rig.devices.items()}


def reading_causes(rig: Rig, state: State, oldest: Mapping[str, float]) -> tuple[dict[Cause, str], list[Cause]]:
    """Find the causes in the readings, in the form that :meth:`controller.alarms.Alarms.levels` takes.

    A cause without a trusted reading is unknown: medium that was sour when a cable was pulled has not recovered by that.

    Args:
        rig: the rig.
        state: the snapshot.
        oldest: the result of :func:`oldest_answers`.

    Returns:
        Detail by (alarm kind, source); and the causes whose presence is unknown.
    """
    causes: dict[Cause, str] = {}
    unseen: list[Cause] = []
    for point, reading in state.readings.items():
        if reading.stuck:
            causes["sensor_flat", point] = reading.detail
        elif reading.quality is Quality.MISSING:
            causes["device_lost", point.partition(".")[0]] = reading.detail
    _look_for_silence(state, oldest, causes)
    lung = rig.organs.lung
    air = state.readings.get(lung.air)
    if air is not None and trusted(state, lung.air, stale_s(rig, lung.air)) is None:
        causes["air_lost", lung.air] = f"it has no reading: {air.detail or 'stale'}"
    ph = trusted(state, lung.ph, PH_STALE_S)
    if ph is None:
        unseen.append(("acidity", lung.ph))
    elif abs(ph - lung.ph_setpoint) > PH_BEYOND:
        causes["acidity", lung.ph] = f"pH {ph:.2f}, set-point {lung.ph_setpoint:g}"
    _look_for_suction(rig, state, causes, unseen)
    return causes, unseen


def _look_for_suction(rig: Rig, state: State, causes: dict[Cause, str], unseen: list[Cause]) -> None:
    """Detect a heart that reports forward rotation but sucks where it should press: it drains its chamber."""
    gauge, pump = rig.organs.heart.pressure, rig.lines[rig.organs.heart.line].pump or ""
    if gauge is None:
        return
    kpa, view = trusted(state, gauge, PRESSURE_STALE_S), state.actuators.get(pump)
    if kpa is None or view is None or not isinstance(view.status, PumpStatus):
        unseen.append(("heart_backwards", pump))
    elif view.status.running and kpa <= SUCTION_KPA:
        causes["heart_backwards", pump] = f"it runs, and its gauge shows {kpa:.2f} kPa: suction where it should press"


def _look_for_silence(state: State, oldest: Mapping[str, float], causes: dict[Cause, str]) -> None:
    """Detect a hung link, which neither answers nor fails: its last readings look good and only age."""
    for seen in (state.readings, state.actuators):
        for point, last in seen.items():
            device = point.partition(".")[0]
            max_s = oldest.get(device)  # the nerves are no device and are checked elsewhere
            if max_s is not None and state.at_s - last.at_s > max_s:
                causes.setdefault(
                    ("device_lost", device), f"{point} has not answered for more than {max_s:g} s, and no error came"
                )
