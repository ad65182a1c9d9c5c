"""The interface of a run that a transfer uses."""

from __future__ import annotations

from typing import Protocol

from controller.steps.recovery import StepProblem


class RunControl(Protocol):
    """A run as a transfer sees it: hold and abort interrupt the transfer, and the run handles its problems."""

    @property
    def id(self) -> str:
        """The run's identifier."""

    @property
    def interrupted(self) -> bool:
        """Whether everything has to come to rest now."""

    @property
    def aborted(self) -> bool:
        """Whether the run has ended for good, so that nothing of a dose is needed any more."""

    def answered(self, message: str) -> bool:
        """Return whether a person has resumed the run after `message`; this survives a restart."""

    async def wait(self, seconds: float) -> None:
        """Wait, but at most until the run is interrupted."""

    async def checkpoint(self) -> None:
        """Wait while the run is held. Raises RunEnded if it is to end."""

    async def trouble(self, problem: StepProblem, tries: int) -> None:
        """Wait as the policy says, or hold the run until a person resumes it."""
