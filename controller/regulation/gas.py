"""Gas mixing: the flows that the regulators of pH and oxygen demand, with a constant sum."""

from __future__ import annotations

from controller.core.state import Reading, State
from controller.regulation.oxygen import OxygenRegulator
from controller.regulation.ph import STALE_S as PH_STALE_S
from controller.regulation.ph import PhRegulator
from controller.regulation.trust import trusted
from controller.rig.organs import LungConfig
from controller.safety.interlocks import GAS_MIXTURE
from controller.safety.limits import MAX_O2_FRACTION
from controller.safety.terms import Intent
from drivers.commands import Level, LevelStatus, Quality

PERIOD_S = 30.0
GRAIN_ML_MIN = 0.05
"""Minimum change of a set-point (mL/min): the probes' noise is not worth a command."""
AGAIN_S = 5.0
"""Time (s) until a set-point that did not arrive is requested again: an unstable link loses commands."""
SILENT_S = 60.0
"""Time (s) without a good reading of air after which it counts as silent if pH is unknown."""
BACK_S = 60.0
"""Time (s) for which air must be read without a gap before it counts as back: oxygen must not swing with an unstable link."""


class GasMixer:
    """The three gases over the loop.

    While air cannot be read it may be closed, and then nothing carries CO2 away. Oxygen then takes its place, up to its
    maximum, until air is read again: with the CO2 of the pH regulator that is carbogen, in which brain slices are kept for
    hours. If air flows unread, the oxygen is a little more than needed, and pH is regulated as before.

    While pH can be read, it decides. Air that is really closed leaves CO2 alone, pH falls by 0.3 in ten seconds, and the gas
    interlock shuts CO2: then air counts as silent at once. While pH holds, air flows, read or not. Without a trusted pH, air
    counts as silent `SILENT_S` after its last good reading. Silence ends when air has been read for `BACK_S` without a gap,
    so that the mixture does not swing with an unstable link.
    """

    def __init__(self, lung: LungConfig, *, air_every_s: float) -> None:
        """Regulate the gases of `lung`; `air_every_s` is the sampling period of air (s)."""
        self._lung = lung
        self.ph = PhRegulator(lung)
        self.oxygen = OxygenRegulator(lung)
        self._air_gap_s = max(SILENT_S, 3.0 * air_every_s)
        self._next_s = float("-inf")
        self._again_s = float("-inf")
        self._carbogen = False
        self._back_since_s: float | None = None
        self._wanted: dict[str, float] = {}
        self._why = ""
        self._read: Reading | None = None
        """The last reading of air, while it is good and air does not count as silent."""

    def intents(self, state: State) -> tuple[Intent, ...]:
        """Return the three flows, every half minute or when air falls silent, if one of them has to move."""
        silent = self._silent(state)
        if state.at_s < self._next_s and silent <= self._carbogen:
            return self._again(state)
        self._carbogen = silent
        self._next_s = state.at_s + PERIOD_S
        self._want(state, silent)
        self._again_s = state.at_s + AGAIN_S
        return self._asks(state)

    def _silent(self, state: State) -> bool:
        """Return whether air counts as silent, with the hysteresis against an unstable link."""
        air = state.readings.get(self._lung.air)
        if air is None:
            return False  # not read so far
        if air is self._read and state.at_s - air.at_s <= self._air_gap_s:
            return False
        silent = self._judged(state, air)
        read = (
            not silent and air.quality is Quality.GOOD and trusted(state, self._lung.air, self._air_gap_s) is not None
        )
        self._read = air if read else None
        return silent

    def _judged(self, state: State, air: Reading) -> bool:
        lost = air.quality is Quality.MISSING
        if self._air_failed(state, lost):
            self._back_since_s = None
            return True
        if not self._carbogen:
            return False
        if lost:
            self._back_since_s = None
        elif self._back_since_s is None:
            self._back_since_s = state.at_s
        return self._back_since_s is None or state.at_s - self._back_since_s < BACK_S

    def _air_failed(self, state: State, lost: bool) -> bool:
        """Return whether air must count as silent: the gas interlock acts on it, or neither air nor pH is known."""
        if lost and any(trip.interlock == GAS_MIXTURE and trip.present for trip in state.trips):
            return True
        unknown = trusted(state, self._lung.air, self._air_gap_s) is None
        return unknown and trusted(state, self._lung.ph, PH_STALE_S) is None

    def _again(self, state: State) -> tuple[Intent, ...]:
        """Request again what did not arrive, without a new step of the regulators."""
        if state.at_s < self._again_s or not self._wanted:
            return ()
        self._again_s = state.at_s + AGAIN_S
        return self._asks(state)

    def _want(self, state: State, silent: bool) -> None:
        """Step the regulators and store the resulting flows."""
        lung, total = self._lung, self._lung.total_ml_min
        co2_pct, o2_pct = self.ph.step(state, PERIOD_S), self.oxygen.step(state, PERIOD_S)
        if silent:
            o2_pct = 100.0 * MAX_O2_FRACTION
        co2, o2 = round(total * co2_pct / 100.0, 2), round(total * o2_pct / 100.0, 2)
        self._wanted = {lung.co2: co2, lung.o2: o2, lung.air: round(total - co2 - o2, 2)}
        self._why = f"CO2 {co2_pct:.2f} %, O2 {o2_pct:.2f} %"

    def _asks(self, state: State) -> tuple[Intent, ...]:
        """Return the three flows in the order in which they may move; empty if none has to move."""
        lung, wanted = self._lung, self._wanted
        flows = {point: _setpoint(state, point) for point in wanted}
        if all(flow is not None and abs(flow - wanted[point]) < GRAIN_ML_MIN for point, flow in flows.items()):
            return ()
        # CO2 rises last and falls first: it never exceeds its share, not even for a moment.
        rises = wanted[lung.co2] > (flows[lung.co2] or 0.0)
        order = (lung.air, lung.o2, lung.co2) if rises else (lung.co2, lung.o2, lung.air)
        if self._carbogen:
            order = (lung.o2, lung.co2, lung.air)  # a device that does not answer delays no other
        return tuple(Intent(point, Level(wanted[point]), "regulator:gas", self._why) for point in order)


def _setpoint(state: State, point: str) -> float | None:
    view = state.actuators.get(point)
    return view.status.setpoint if view is not None and isinstance(view.status, LevelStatus) else None
