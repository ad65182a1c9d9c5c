"""Causes of alarms in the controller's own state: interlocks, devices, nerves, control loop, records and sinks.

Each function returns alarm details by (alarm kind, source). Causes in readings alone: :mod:`controller.readings.vigilance`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Protocol

from controller.alarms.definitions import alarm_kind
from controller.core.state import ActuatorView
from controller.gate.bypass import Bypass
from controller.gate.emergency import Stimulator
from controller.journal.journal import Journal
from controller.memory.history import History
from controller.process.load import ProcessLoad
from controller.process.sink import Sink
from controller.safety.terms import Trip

Causes = dict[tuple[str, str], str]


class CauseSource(Protocol):
    """A part outside the controller that raises alarms."""

    @property
    def causes(self) -> Mapping[tuple[str, str], str]:
        """The present causes: details by (alarm kind, source)."""


def interlock_causes(trips: Iterable[Trip], bypasses: Iterable[Bypass]) -> Causes:
    """Return the causes in tripped and bypassed interlocks."""
    causes = {(kind, trip.point): trip.detail for trip in trips if (kind := alarm_kind(trip.interlock))}
    for bypass in bypasses:
        causes["interlock_bypassed", bypass.interlock] = f"by {bypass.user} until {bypass.until_utc}: {bypass.reason}"
    return causes


def actuator_causes(actuators: Mapping[str, ActuatorView]) -> Causes:
    """Return the causes in actuators that report a fault; the source is the device."""
    return {("device_lost", name.partition(".")[0]): view.fault for name, view in actuators.items() if view.fault}


def shortfall_causes(shortfalls: Mapping[str, str], hearts: Container[str]) -> Causes:
    """Return the causes in outputs that give less than commanded; `hearts` are the pumps of the hearts."""
    return {("heart_short" if name in hearts else "output_short", name): why for name, why in shortfalls.items()}


def nerves_causes(stimulator: Stimulator | None) -> Causes:
    """Return the causes in the stimulator."""
    causes: Causes = {}
    if stimulator is not None and stimulator.ledger_problem:
        causes["stimulation_ledger_lost", "stimulation ledger"] = stimulator.ledger_problem
    if stimulator is not None and stimulator.card_problem:
        causes["device_lost", "electrode card"] = stimulator.card_problem
    if stimulator is not None and stimulator.recording_problem:
        causes["recording_incomplete", "electrode array"] = stimulator.recording_problem
    return causes


def loop_causes(late_s: float, max_late_s: float, load: ProcessLoad) -> Causes:
    """Return the cause in a control loop that ticks late, or whose process is overloaded."""
    if late_s > max_late_s:
        return {("slow_loop", "controller"): f"a tick came {late_s:.1f} s late"}
    lag = load.problem
    return {} if lag is None else {("slow_loop", "controller"): lag}


def record_causes(journal: Journal, history: History) -> Causes:
    """Return the causes in a journal or a history that cannot be written."""
    causes: Causes = {}
    if (problem := journal.problem) is not None:
        causes["journal_unwritten" if journal.lost is None else "journal_lost", "journal"] = problem
    if history.problem is not None:
        causes["history_lost", "history"] = history.problem
    return causes


def sink_causes(sinks: Iterable[Sink]) -> Causes:
    """Return the causes in sinks of readings."""
    return {(kind, sink.name): detail for sink in sinks for kind, detail in sink.causes.items()}
