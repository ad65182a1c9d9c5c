"""Alarms: at each tick the causes in the snapshot, in the control loop, in the records and in every other part."""

from __future__ import annotations

from collections.abc import Mapping

from controller.alarms.definitions import DEFINITIONS, alarm_kind
from controller.alarms.lines import merge_lost_lines, shared_lines
from controller.core.state import State
from controller.hazards.timing import TICK_S
from controller.process.core import ControllerCore
from controller.process.part import Causes, Part, TickStage
from controller.process.registry import part
from controller.readings.agreement import Agreement
from controller.readings.vigilance import Vigilance
from controller.regulation.heat_balance import HeatBalance
from controller.regulation.references import References


class AlarmLevels:
    """Collects the present causes of alarms and hands them to the alarm states."""

    def __init__(self, core: ControllerCore) -> None:
        self._core = core
        self._vigilance = Vigilance(core.rig)
        self._lines = shared_lines(core.rig)
        self._hearts = frozenset(heart.pump for heart in core.limits.hearts)
        references = core.find(References)
        self._agreement = (
            Agreement(core.rig, references, core.find(HeatBalance))
            if core.limits.compared and references is not None
            else None
        )
        self._of_parts: dict[str, Causes] = {}
        """The causes that each part last returned."""

    def update(self, state: State) -> None:
        """Raise, return and clear alarms by the causes of this tick."""
        causes, unseen = self._vigilance.causes(state)
        if self._agreement is not None:
            differing, unknown = self._agreement.causes(state)
            causes, unseen = causes | differing, [*unseen, *unknown]
        causes = causes | self.causes(state)
        alarms = self._core.alarms
        silent = {alarm.id for alarm in alarms.suppressed()}
        alarms.levels(causes, state.at_s, merge_lost_lines(self._lines, causes, unseen, silent))

    def causes(self, state: State) -> dict[tuple[str, str], str]:
        """Return the present causes of alarms other than those in readings: detail by (alarm kind, source)."""
        found = {
            **self._interlocks(state),
            **{("device_lost", of.partition(".")[0]): view.fault for of, view in state.actuators.items() if view.fault},
            **self._shortfalls(),
        }
        for each in self._core.parts:
            if each.causes is not None:
                self._core.tasks.isolate(each.name, self._ask, each)
                found.update(self._of_parts.get(each.name, {}))
        return found

    def _ask(self, of: Part) -> None:
        if of.causes is None:
            return
        if (present := of.causes()) == {}:
            self._of_parts.pop(of.name, None)
            return
        causes = {(str(kind), str(source)): str(detail) for (kind, source), detail in present.items()}
        if unknown := sorted({kind for kind, _ in causes} - DEFINITIONS.keys()):
            raise ValueError(
                f"no alarm is called {', '.join(unknown)}. Next: define it in controller/alarms/definitions.py"
            )
        self._of_parts[of.name] = causes

    def _interlocks(self, state: State) -> Causes:
        """Return the causes in tripped and bypassed interlocks."""
        causes = {(kind, trip.point): trip.detail for trip in state.trips if (kind := alarm_kind(trip.interlock))}
        for bypass in self._core.gate.bypasses.active():
            detail = f"by {bypass.user} until {bypass.until_utc}: {bypass.reason}"
            causes["interlock_bypassed", bypass.interlock] = detail
        return causes

    def _shortfalls(self) -> Mapping[tuple[str, str], str]:
        """Return the causes in outputs that give less than commanded."""
        shortfalls = self._core.gate.shortfalls
        return {("heart_short" if of in self._hearts else "output_short", of): why for of, why in shortfalls.items()}


@part(TickStage.ALARM)
def alarms(core: ControllerCore) -> Part:
    """Make the collection of causes."""
    return Part("alarms", update=core.provide(AlarmLevels(core)).update)


@part(TickStage.RECORD)
def loop(core: ControllerCore) -> Part:
    """Make the alarm about a control loop that ticks late, or whose process is overloaded."""

    def causes() -> Causes:
        if core.late_s > TICK_S:
            return {("slow_loop", "controller"): f"a tick came {core.late_s:.1f} s late"}
        lag = core.load.problem
        return {} if lag is None else {("slow_loop", "controller"): lag}

    return Part("loop", causes=causes)


@part(TickStage.REPORT)
def edges(core: ControllerCore) -> Part:
    """Make the alarms of the edges."""
    return Part("edges", causes=lambda: core.edges.causes)
