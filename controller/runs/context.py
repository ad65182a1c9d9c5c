"""What a run of a rig uses, and what an action of one of its steps may do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from controller.core.clock import Clock
from controller.core.state import StateStore
from controller.estimator.estimator import Estimator
from controller.gate.gate import Gate
from controller.journal.journal import Journal
from controller.ledger.ledger import Alarm, Ledger
from controller.rig.description import Rig
from controller.rig.places import at
from controller.steps.barrier import FilterRecord
from controller.steps.branches import BRANCH, Claims
from controller.steps.run_control import RunControl
from controller.transfers.transfers import Transfers
from protocols.tissue_loss import TissueLoss


@dataclass(frozen=True, slots=True)
class RunContext:
    """Holds the parts of the controller that all runs of a rig use."""

    rig: Rig
    journal: Journal
    clock: Clock
    ledger: Ledger
    store: StateStore
    gate: Gate
    transfers: Transfers
    estimator: Estimator | None
    alarm: Alarm
    tissue_loss: Callable[[], TissueLoss | None]
    """Returns what the estimate of the tissue says of a loss; None where nothing estimates it."""


class DrivenRun(RunControl, Protocol):
    """Declares the methods of a run that the actions of its steps call."""

    @property
    def started_s(self) -> float:
        """Loop time at which it began."""

    async def hold(self, message: str) -> None:
        """Hold until a person resumes it."""

    async def wait_out(self, deadline_s: float) -> None:
        """Wait until a loop time, and hold in between when it is held."""

    def wake_branches(self) -> None:
        """Wake the branches that wait for each other."""


class LiveRun:
    """A run on the rig as the actions of its steps see it.

    Branches that would use the same vessel, pump or valve take turns.
    """

    def __init__(self, run: DrivenRun, bench: RunContext) -> None:
        self.run = run
        self.bench = bench
        self.filter_record = FilterRecord(bench.rig, bench.journal)
        self.batch: str | None = at(bench.rig, "kidney.vessel")
        """The vessel through which every batch passes: a reading in it waits until another branch's dose is over."""
        self._claims = Claims()

    @property
    def now_s(self) -> float:
        """The present loop time (s)."""
        return asyncio.get_running_loop().time()

    def claim(self, *names: str | None) -> contextlib.AbstractAsyncContextManager[None]:
        """Have vessels, pumps and valves to this branch alone."""
        return self._claims.hold(names, BRANCH.get(), self.run.wake_branches)
