"""Breath: what the regulators of pH and oxygen want, as three flows whose sum stays what the rig says."""

from __future__ import annotations

from controller.regulation.oxygen import OxygenRegulator
from controller.regulation.ph import PhRegulator
from controller.regulation.trust import trusted
from controller.rig.description import Rig
from controller.safety.limits import MOST_O2_FRACTION, stale_s
from controller.safety.terms import Intent
from controller.state import State
from drivers.commands import Level, LevelStatus

PERIOD_S = 30.0
GRAIN_ML_MIN = 0.05
"""A set-point moves only by so much or more: the probes' noise is not worth a command."""


class GasMixer:
    """The three gases over the loop.

    While air is not heard it may be closed, and then nothing carries CO2 away. Oxygen takes its place, as much as there may
    be, until air is heard again: with the CO2 of the pH regulator that is carbogen, in which slices of brain are kept for
    hours. If air flows unheard it is a little more oxygen than needed, and pH is held as ever.
    """

    def __init__(self, rig: Rig) -> None:
        self._lung = rig.organs.lung
        self.ph = PhRegulator(rig)
        self.oxygen = OxygenRegulator(rig)
        self._air_stale_s = stale_s(rig, rig.organs.lung.air)
        self._next_s = float("-inf")
        self._carbogen = False

    def intents(self, state: State) -> tuple[Intent, ...]:
        """Once a tick; every half minute, and when air falls silent, all three flows, when one of them is worth moving."""
        air = self._lung.air
        silent = air in state.readings and trusted(state, air, self._air_stale_s) is None  # not: never asked so far
        if state.at_s < self._next_s and silent <= self._carbogen:
            return ()
        self._carbogen = silent
        self._next_s = state.at_s + PERIOD_S
        lung, total = self._lung, self._lung.total_ml_min
        co2_pct, o2_pct = self.ph.step(state, PERIOD_S), self.oxygen.step(state, PERIOD_S)
        if silent:
            o2_pct = 100.0 * MOST_O2_FRACTION
        co2, o2 = round(total * co2_pct / 100.0, 2), round(total * o2_pct / 100.0, 2)
        wanted = {lung.co2: co2, lung.o2: o2, lung.air: round(total - co2 - o2, 2)}
        flows = {point: _setpoint(state, point) for point in wanted}
        if all(flow is not None and abs(flow - wanted[point]) < GRAIN_ML_MIN for point, flow in flows.items()):
            return ()
        # CO2 last when it rises and first when it falls: never, even for a moment, more of it than is meant.
        rises = co2 > (flows[lung.co2] or 0.0)
        order = (lung.air, lung.o2, lung.co2) if rises else (lung.co2, lung.o2, lung.air)
        if silent:
            order = (lung.o2, lung.co2, lung.air)  # who does not answer keeps nobody waiting
        why = f"CO2 {co2_pct:.2f} %, O2 {o2_pct:.2f} %"
        return tuple(Intent(point, Level(wanted[point]), "regulator:gas", why) for point in order)


def _setpoint(state: State, point: str) -> float | None:
    view = state.actuators.get(point)
    return view.status.setpoint if view is not None and isinstance(view.status, LevelStatus) else None
