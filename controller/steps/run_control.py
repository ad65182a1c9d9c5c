"""What a transfer needs of its run."""

from __future__ import annotations

from typing import Protocol

from controller.steps.recovery import StepProblem


class RunControl(Protocol):
    """How a transfer hears of its run: pause and abort interrupt it, trouble is the run's to deal with."""

    @property
    def id(self) -> str:
        """The run's name."""

    @property
    def interrupted(self) -> bool:
        """Whether everything has to come to rest now."""

    @property
    def aborted(self) -> bool:
        """Whether it has to come to rest for good: nothing of a dose is needed any more."""

    def answered(self, message: str) -> bool:
        """Whether a person has resumed the run after `message`; a restart does not forget it."""

    async def wait(self, seconds: float) -> None:
        """Wait, but no longer than until the run is interrupted."""

    async def checkpoint(self) -> None:
        """Hold here as long as the run is held; raises RunEnded when it is to end."""

    async def trouble(self, problem: StepProblem, tries: int) -> None:
        """Wait what the policy says, or hold the run until it is resumed."""
