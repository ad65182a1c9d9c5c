"""A run as people, the API and protocols see it: plain, immutable, ready for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from controller.core.run_states import RunState
from controller.ledger.ledger import Ledger
from controller.rig.description import Rig
from controller.rig.places import roles_of
from controller.runs.questions import OpenQuestion
from controller.steps.branches import spoken
from controller.steps.steps import StepRecord

PROGRESS_STEPS = 200
"""How many of the latest steps a view carries; the journal has them all."""


@dataclass(frozen=True, slots=True)
class StepView:
    """One step for people: `state` is running, done or interrupted."""

    n: int
    verb: str
    args: Mapping[str, Any]
    state: str
    result: Any
    branch: str = ""
    """Name of the branch that it belongs to; empty for the protocol itself."""


@dataclass(frozen=True, slots=True)
class RunView:
    """A run for people: `step` is the number of the latest one, `progress` the latest steps, oldest first."""

    id: str
    protocol: str
    state: RunState
    step: int
    started_utc: str
    params: Mapping[str, float]
    progress: tuple[StepView, ...]
    messages: tuple[str, ...]
    question: OpenQuestion | None = None
    """The question that the held run waits for."""

    @property
    def ended(self) -> bool:
        """Whether the run has ended for good."""
        return self.state.ended

    def shortened(self, steps: int) -> RunView:
        """Return the run with its latest `steps` only."""
        return replace(self, progress=self.progress[-steps:])


def step_view(step: StepRecord, *, ended: bool) -> StepView:
    """Return the present state of one step; `ended` says whether its run has ended."""
    state = "done" if step.done else "interrupted" if ended else "running"
    return StepView(step.n, step.verb, step.args, state, step.result, spoken(step.at))


def volumes_view(rig: Rig, ledger: Ledger) -> dict[str, Any]:
    """Return volume and history of loop, spent and waste vessel as plain data, by role; a vessel that the rig has not is
    left out.

    Recorded with each step, so that a protocol sees the same when it runs again.
    """
    volumes, parcels = ledger.volumes(), ledger.parcels()
    return {
        role: {
            "ul": volumes[name].ul,
            "sd_ul": volumes[name].sd_ul,
            "passes": parcels[name].passes,
            "age_s": parcels[name].age_s,
            "insulin": parcels[name].insulin,
        }
        for role, name in roles_of(rig).items()
    }
