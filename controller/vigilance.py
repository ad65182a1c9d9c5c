"""What readings alone give reason to tell: devices that do not answer, probes that are stuck, medium that turns."""

from __future__ import annotations

from controller.regulation.trust import trusted
from controller.rig.description import Rig
from controller.state import State
from drivers.commands import PumpStatus, Quality

PH_BEYOND = 0.3
"""So far from its set-point the regulator has lost the pH: within its range it holds it to some hundredths."""
PH_STALE_S = 60.0
SUCTION_KPA = -0.2
"""Below the zero error of gauges (a twentieth of a kilopascal), above what a heart at its basal flow sucks."""
PRESSURE_STALE_S = 15.0


def reading_causes(rig: Rig, state: State) -> dict[tuple[str, str], str]:
    """(alarm kind, source) → detail, as :meth:`controller.alarms.Alarms.levels` takes them."""
    causes: dict[tuple[str, str], str] = {}
    for point, reading in state.readings.items():
        if reading.stuck:
            causes["sensor_flat", point] = reading.detail
        elif reading.quality is Quality.BAD:
            causes["device_lost", point.partition(".")[0]] = reading.detail
    lung = rig.organs.lung
    ph = trusted(state, lung.ph, PH_STALE_S)
    if ph is not None and abs(ph - lung.ph_setpoint) > PH_BEYOND:
        causes["acidity", lung.ph] = f"pH {ph:.2f}, set-point {lung.ph_setpoint:g}"
    causes.update(_backwards(rig, state))
    return causes


def _backwards(rig: Rig, state: State) -> dict[tuple[str, str], str]:
    """A heart that says that it runs forwards, and sucks where it should press: its chamber is being drained."""
    gauge, pump = rig.organs.heart.pressure, rig.lines[rig.organs.heart.line].pump or ""
    view = state.actuators.get(pump)
    if gauge is None or view is None or not isinstance(view.status, PumpStatus) or not view.status.running:
        return {}
    kpa = trusted(state, gauge, PRESSURE_STALE_S)
    if kpa is None or kpa > SUCTION_KPA:
        return {}
    return {("heart_backwards", pump): f"it runs, and its gauge shows {kpa:.2f} kPa: suction where it should press"}
