"""Breath: what the regulators of pH and oxygen want, as three flows whose sum stays what the rig says."""

from __future__ import annotations

from controller.core.state import State
from controller.regulation.oxygen import OxygenRegulator
from controller.regulation.ph import STALE_S as PH_STALE_S
from controller.regulation.ph import PhRegulator
from controller.regulation.trust import trusted
from controller.rig.description import Rig
from controller.safety.interlocks import GAS_MIXTURE
from controller.safety.limits import MOST_O2_FRACTION
from controller.safety.terms import Intent
from drivers.commands import Level, LevelStatus, Quality

PERIOD_S = 30.0
GRAIN_ML_MIN = 0.05
"""A set-point moves only by so much or more: the probes' noise is not worth a command."""
AGAIN_S = 5.0
"""How soon a set-point that did not arrive is asked for again: a link that comes and goes loses commands."""
SILENT_S = 60.0
"""So long without a good reading of air counts as silence where pH cannot tell."""
BACK_S = 60.0
"""So long must air be heard without a gap before silence has ended: oxygen does not swing with a link that flaps."""


class GasMixer:
    """The three gases over the loop.

    While air is not heard it may be closed, and then nothing carries CO2 away. Oxygen takes its place, as much as there may
    be, until air is heard again: with the CO2 of the pH regulator that is carbogen, in which slices of brain are kept for
    hours. If air flows unheard it is a little more oxygen than needed, and pH is held as ever.

    While pH can be read it decides. Air that is really closed leaves CO2 alone, pH falls by 0.3 in ten seconds, and the gas
    interlock shuts CO2: then air is silent at once. As long as pH holds, air flows, heard or not. Without a pH to trust air
    is silent `SILENT_S` after its last good reading. Silence ends when air has been heard for `BACK_S` without a gap: the
    mixture does not swing with a link that comes and goes.
    """

    def __init__(self, rig: Rig) -> None:
        self._lung = rig.organs.lung
        self.ph = PhRegulator(rig)
        self.oxygen = OxygenRegulator(rig)
        self._air_gap_s = max(SILENT_S, 3.0 * rig.devices[rig.organs.lung.air.partition(".")[0]].every_s)
        self._next_s = float("-inf")
        self._again_s = float("-inf")
        self._carbogen = False
        self._back_since_s: float | None = None
        self._wanted: dict[str, float] = {}
        self._why = ""

    def intents(self, state: State) -> tuple[Intent, ...]:
        """Once a tick; every half minute, and when air falls silent, all three flows, when one of them is worth moving."""
        silent = self._silent(state)
        if state.at_s < self._next_s and silent <= self._carbogen:
            return self._again(state)
        self._carbogen = silent
        self._next_s = state.at_s + PERIOD_S
        self._want(state, silent)
        self._again_s = state.at_s + AGAIN_S
        return self._asks(state)

    def _silent(self, state: State) -> bool:
        """Whether air counts as silent, with the memory that keeps a flapping link from swinging it."""
        air = self._lung.air
        if air not in state.readings:
            return False  # never asked so far
        heard = trusted(state, air, self._air_gap_s) is not None
        shut = any(trip.interlock == GAS_MIXTURE and trip.present for trip in state.trips)
        unheard = state.readings[air].quality is Quality.MISSING
        blind = not heard and trusted(state, self._lung.ph, PH_STALE_S) is None
        if blind or (unheard and shut):
            self._back_since_s = None
            return True
        if not self._carbogen:
            return False
        if unheard:
            self._back_since_s = None
        elif self._back_since_s is None:
            self._back_since_s = state.at_s
        return self._back_since_s is None or state.at_s - self._back_since_s < BACK_S

    def _again(self, state: State) -> tuple[Intent, ...]:
        """Ask again for what did not arrive, without a new step of the regulators."""
        if state.at_s < self._again_s or not self._wanted:
            return ()
        self._again_s = state.at_s + AGAIN_S
        return self._asks(state)

    def _want(self, state: State, silent: bool) -> None:
        """Step the regulators and keep the three flows that come of it."""
        lung, total = self._lung, self._lung.total_ml_min
        co2_pct, o2_pct = self.ph.step(state, PERIOD_S), self.oxygen.step(state, PERIOD_S)
        if silent:
            o2_pct = 100.0 * MOST_O2_FRACTION
        co2, o2 = round(total * co2_pct / 100.0, 2), round(total * o2_pct / 100.0, 2)
        self._wanted = {lung.co2: co2, lung.o2: o2, lung.air: round(total - co2 - o2, 2)}
        self._why = f"CO2 {co2_pct:.2f} %, O2 {o2_pct:.2f} %"

    def _asks(self, state: State) -> tuple[Intent, ...]:
        """The three flows in the order in which they may move; nothing when none is worth moving."""
        lung, wanted = self._lung, self._wanted
        flows = {point: _setpoint(state, point) for point in wanted}
        if all(flow is not None and abs(flow - wanted[point]) < GRAIN_ML_MIN for point, flow in flows.items()):
            return ()
        # CO2 last when it rises and first when it falls: never, even for a moment, more of it than is meant.
        rises = wanted[lung.co2] > (flows[lung.co2] or 0.0)
        order = (lung.air, lung.o2, lung.co2) if rises else (lung.co2, lung.o2, lung.air)
        if self._carbogen:
            order = (lung.o2, lung.co2, lung.air)  # who does not answer keeps nobody waiting
        return tuple(Intent(point, Level(wanted[point]), "regulator:gas", self._why) for point in order)


def _setpoint(state: State, point: str) -> float | None:
    view = state.actuators.get(point)
    return view.status.setpoint if view is not None and isinstance(view.status, LevelStatus) else None
