"""What readings alone give reason to tell: devices that do not answer, probes that are stuck, medium that turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from controller.core.state import State
from controller.regulation.trust import trusted
from controller.rig.description import Rig
from controller.safety.limits import stale_s
from controller.safety.probe_rules import oldest_s
from drivers.commands import PumpStatus, Quality

PH_BEYOND = 0.3
"""So far from its set-point the regulator has lost the pH: within its range it holds it to some hundredths."""
PH_STALE_S = 60.0
SUCTION_KPA = -0.2
"""Below the zero error of gauges (a twentieth of a kilopascal), above what a heart at its basal flow sucks."""
PRESSURE_STALE_S = 15.0
TURN_S = 2.0
"""So long may a device that shares its link keep the others waiting, time-outs and all, and be well."""


Cause = tuple[str, str]
"""Kind of alarm and source."""


def oldest_answers(rig: Rig) -> dict[str, float]:
    """Device → how old (s) what was last heard of it may be, before it counts as lost although nothing failed."""
    shared = Counter(spec.link for spec in rig.devices.values())
    return {name: oldest_s(max(spec.every_s, TURN_S * shared[spec.link])) for name, spec in rig.devices.items()}


def reading_causes(rig: Rig, state: State, oldest: Mapping[str, float]) -> tuple[dict[Cause, str], list[Cause]]:
    """(alarm kind, source) → detail, and those of which nobody can say whether they are there, as
    :meth:`controller.alarms.Alarms.levels` takes them: medium that was sour when a cable was pulled is not well for it.
    `oldest` is what :func:`oldest_answers` says of the rig.
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
        causes["air_lost", lung.air] = f"it is not heard: {air.detail or 'stale'}"
    ph = trusted(state, lung.ph, PH_STALE_S)
    if ph is None:
        unseen.append(("acidity", lung.ph))
    elif abs(ph - lung.ph_setpoint) > PH_BEYOND:
        causes["acidity", lung.ph] = f"pH {ph:.2f}, set-point {lung.ph_setpoint:g}"
    _look_for_suction(rig, state, causes, unseen)
    return causes, unseen


def _look_for_suction(rig: Rig, state: State, causes: dict[Cause, str], unseen: list[Cause]) -> None:
    """A heart that says that it runs forwards, and sucks where it should press: its chamber is being drained."""
    gauge, pump = rig.organs.heart.pressure, rig.lines[rig.organs.heart.line].pump or ""
    if gauge is None:
        return
    kpa, view = trusted(state, gauge, PRESSURE_STALE_S), state.actuators.get(pump)
    if kpa is None or view is None or not isinstance(view.status, PumpStatus):
        unseen.append(("heart_backwards", pump))
    elif view.status.running and kpa <= SUCTION_KPA:
        causes["heart_backwards", pump] = f"it runs, and its gauge shows {kpa:.2f} kPa: suction where it should press"


def _look_for_silence(state: State, oldest: Mapping[str, float], causes: dict[Cause, str]) -> None:
    """A link that hangs neither answers nor fails. What it has said last looks as good as ever, and only grows old."""
    for seen in (state.readings, state.actuators):
        for point, last in seen.items():
            device = point.partition(".")[0]
            most_s = oldest.get(device)  # the nerves are no device: they are asked elsewhere
            if most_s is not None and state.at_s - last.at_s > most_s:
                causes.setdefault(
                    ("device_lost", device), f"{point} has not answered for more than {most_s:g} s, and no error came"
                )
