"""A dose that is being watched, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.ledger.witnesses import Moved
from controller.steps.recovery import StepProblem, Trouble
from controller.steps.steps import PORTION, Act, StepRecord
from controller.transfers.judgement import between
from controller.transfers.routes import Route
from drivers.commands import Dispense


@dataclass(slots=True)
class DoseUnderway:
    """A dose that this process watches. `begun_s` is its start (loop s), `last` whether it completes its step."""

    step: StepRecord
    route: Route
    act: Act
    dose: Dispense
    who: str
    why: str
    last: bool
    begun_s: float
    overtime: bool = False
    seen_ul_min: dict[tuple[str, float], float] = field(default_factory=dict)
    """Flows that the sensors in its lines have read, by point and time (loop s)."""
    air: str = ""
    """The point that has seen air in its lines; empty if none has."""

    @property
    def nominal_s(self) -> float:
        """Duration of the dose by its flow (s)."""
        return self.dose.volume_ul / self.dose.flow_ul_min * 60.0


def end_of(dose: DoseUnderway, moved: Moved, *, short: bool, stopped: bool) -> str:
    """Return how a dose ended, as its row `moved` says it."""
    if stopped:
        return "stopped"
    if dose.overtime:
        return "overtime"
    if short:
        return "short"
    if not moved.certain:
        return "unknown"
    return "done" if dose.last else PORTION


def problem_after(dose: DoseUnderway, moved: Moved, *, short: bool) -> StepProblem | None:
    """Return the problem of a dose that is booked: overtime, or short."""
    if not moved.certain:
        return None
    if dose.overtime:
        return StepProblem(Trouble.OVERTIME, dose.route.pump)
    return StepProblem(Trouble.SHORT, dose.route.pump, (between(moved),)) if short else None
