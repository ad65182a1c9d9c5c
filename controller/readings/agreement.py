"""Compare probes that must agree, and probes with balances; a disagreement is an alarm that names the suspects (I10).

A probe that drifts alone looks sound: its readings are live, in range and smooth. What shows it is another probe in the same
medium, the power that holds a temperature, the CO2 that holds a pH, the oxygen in the gas.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from controller.core.state import State
from controller.readings.vigilance import Cause
from controller.regulation.heat_balance import HeatBalance
from controller.regulation.references import Learner, Memory
from controller.regulation.trust import trusted
from controller.rig.agreement import BalancedProbe, SameMedium, balanced, same_medium
from controller.rig.description import Rig
from controller.rig.families import by_thermostat
from controller.rig.organs import LungConfig, SkinConfig
from controller.rig.surroundings import bicarbonate_mm, ph_at
from drivers.commands import LevelStatus

KIND = "probe_disagreement"
EVERY_S = 60.0
"""Time between two comparisons (s)."""
STALE_S = 120.0
"""Maximum age of a reading that is compared (s)."""
AIR_OXYGEN = 0.209
USED_BICARBONATE_MM = 10.0
"""Bicarbonate that lactic acid of the tissue may have used up (mmol/L); base brings it back."""
MIN_BICARBONATE_MM = 5.0
ADVICE = "Next: compare with an instrument of your own, then clean, calibrate or replace the one that is wrong"


@dataclass(slots=True)
class _Check:
    """One comparison under observation."""

    name: str
    difference: Callable[[State], float | None]
    """Returns by how much the two sides differ; None while one is not known."""
    tolerance: float
    for_s: float
    learner: Learner | None
    said: Callable[[State, float], str]
    """Returns the detail of the alarm."""
    since_s: float | None = None


class Agreement:
    """The comparisons of one rig; :meth:`causes` is called at each tick."""

    def __init__(self, rig: Rig, memory: Memory, heat: HeatBalance | None) -> None:
        self._rig = rig
        self._heat = heat
        self._next_s = float("-inf")
        self._found: tuple[dict[Cause, str], list[Cause]] = {}, []
        skin, groups = rig.organs.skin, same_medium(rig)
        same = [self._same(group, memory) for group in groups]
        holds = [skin is not None and skin.temperature in group.points for group in groups]
        self._second = next((check for check, held in zip(same, holds, strict=True) if held), None)
        """The comparison of the thermometer that the heater follows with others."""
        self._checks = [*same, *(self._balance(each, memory) for each in balanced(rig))]

    def causes(self, state: State) -> tuple[dict[Cause, str], list[Cause]]:
        """Return the disagreements, in the form of :meth:`controller.readings.vigilance.Vigilance.causes`."""
        if state.at_s < self._next_s:
            return self._found
        self._next_s = state.at_s + EVERY_S
        causes: dict[Cause, str] = {}
        unseen: list[Cause] = []
        for check in self._checks:
            agree = _look(check, state, causes, unseen)
            if self._heat is not None and check is self._second:
                self._heat.confirmed = agree
        self._found = causes, unseen
        return self._found

    def _same(self, group: SameMedium, memory: Memory) -> _Check:
        """Return the comparison of a group: the probe that is farthest from the others, less what it was at first."""
        of = " ".join(f"{point} {self._rig.devices[point.partition('.')[0]].model}" for point in group.points)
        own = (
            {point: Learner(memory, f"{group.quantity} {point}", of) for point in group.points} if group.learnt else {}
        )
        worst: dict[str, float] = {}

        def difference(state: State) -> float | None:
            values = {point: trusted(state, point, STALE_S) for point in group.points}
            known = {point: value for point, value in values.items() if value is not None}
            worst.clear()
            for point, value in known.items():
                others = [each for other, each in known.items() if other != point]
                apart = None if len(known) < len(values) else value - sum(others) / len(others)
                learner = own.get(point)
                if learner is not None:
                    learner.note(apart, state.at_s)
                if apart is not None and (learner is None or learner.value is not None):
                    worst[point] = apart - (0.0 if learner is None or learner.value is None else learner.value)
            return max(worst.values(), key=abs, default=None)

        def said(state: State, off: float) -> str:
            first = max(worst, key=lambda point: abs(worst[point]))
            read = ", ".join(f"{point} {trusted(state, point, STALE_S):.2f}" for point in group.points)
            since = "more than at first" if group.learnt else "in the same medium"
            suspect = f"; most likely {first}" if len(group.points) > 2 else ""
            return f"{read} {group.unit} differ by {abs(off):.2f} {since}: one of them is wrong{suspect}. {ADVICE}"

        return _Check(
            f"{group.quantity}: {', '.join(group.points)}", difference, group.tolerance, group.for_s, None, said
        )

    def _balance(self, probe: BalancedProbe, memory: Memory) -> _Check:
        skin, lung = self._rig.organs.skin, self._rig.organs.lung
        difference: Callable[[State], float | None] = self._power
        if skin is not None and probe.name == "heat" and by_thermostat(self._rig):
            difference = _bath(skin)
        elif lung is not None and probe.name != "heat":
            difference = self._acid(lung) if probe.name == "acid" else _oxygen(lung)
        own = probe.learnt and difference != self._power  # the power's own reference is that of the heater
        learner = Learner(memory, probe.name, " ".join(probe.suspects)) if own else None

        def said(state: State, off: float) -> str:
            value = trusted(state, probe.point, STALE_S)
            shown = "nothing" if value is None else f"{value:.2f} {probe.unit}"
            side = "higher" if off > 0.0 else "lower"
            return (
                f"{probe.point} shows {shown}; by {probe.by} it is {abs(off):.2f} {probe.unit} {side}. Suspects:"
                f" {', '.join(probe.suspects)}, or the surroundings have changed. {ADVICE}"
            )

        return _Check(probe.point, difference, probe.tolerance, probe.for_s, learner, said)

    def _power(self, _: State) -> float | None:
        return None if self._heat is None else self._heat.difference_k

    def _acid(self, lung: LungConfig) -> Callable[[State], float | None]:
        """Return by how much pH lies outside what the CO2 of the gas and any bicarbonate of this medium explain."""
        fresh = bicarbonate_mm(self._rig)
        used = max(fresh - USED_BICARBONATE_MM, MIN_BICARBONATE_MM)

        def difference(state: State) -> float | None:
            flows, ph = _flows(lung, state), trusted(state, lung.ph, STALE_S)
            if flows is None or ph is None:
                return None
            pct = 100.0 * flows[1] / sum(flows)
            low, high = ph_at(used, pct), ph_at(fresh, pct)
            return low - ph if ph < low else high - ph if ph > high else 0.0

        return difference


def _bath(skin: SkinConfig) -> Callable[[State], float | None]:
    """Return by how much a bath's set-point exceeds what the chamber's thermometer shows (K)."""

    def difference(state: State) -> float | None:
        view, shown = state.actuators.get(skin.heater), trusted(state, skin.temperature, STALE_S)
        if shown is None or view is None or not isinstance(view.status, LevelStatus):
            return None
        return view.status.setpoint - shown

    return difference


def _oxygen(lung: LungConfig) -> Callable[[State], float | None]:
    """Return by how much oxygen in the gas exceeds what the probe shows (% of air saturation); the tissue's use is learnt."""

    def difference(state: State) -> float | None:
        flows, shown = _flows(lung, state), trusted(state, lung.oxygen, STALE_S)
        if flows is None or shown is None:
            return None
        air, _, o2 = flows
        return 100.0 * (AIR_OXYGEN * air + o2) / (AIR_OXYGEN * sum(flows)) - shown

    return difference


def _flows(lung: LungConfig, state: State) -> tuple[float, float, float] | None:
    """Return the flows of air, CO2 and oxygen (mL/min); None unless all are known and some air flows."""
    air, co2, o2 = (trusted(state, gas, STALE_S) for gas in (lung.air, lung.co2, lung.o2))
    if air is None or co2 is None or o2 is None or air + o2 < 0.5 * lung.total_ml_min:
        return None
    return air, max(co2, 0.0), max(o2, 0.0)


def _look(check: _Check, state: State, causes: dict[Cause, str], unseen: list[Cause]) -> bool:
    """Add what a comparison finds to `causes` or `unseen`; return whether its two sides agree now."""
    cause = (KIND, check.name)
    difference = check.difference(state)
    if check.learner is not None:
        check.learner.note(difference, state.at_s)
        reference = check.learner.value
        difference = None if difference is None or reference is None else difference - reference
    if difference is None:
        unseen.append(cause)
    elif abs(difference) <= check.tolerance:
        check.since_s = None
    else:
        check.since_s = state.at_s if check.since_s is None else check.since_s
        if state.at_s - check.since_s >= check.for_s:
            causes[cause] = check.said(state, difference)
    return difference is not None and abs(difference) <= check.tolerance
