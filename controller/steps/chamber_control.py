"""Control of a dose of one chamber: a problem that concerns this chamber alone gives the dose up, and the run goes on."""

from __future__ import annotations

from controller.steps.recovery import StepProblem, Trouble, advise
from controller.steps.run_control import RunControl
from controller.steps.steps import StepRecord

OWN = (Trouble.SHORT, Trouble.SHORTFALL, Trouble.EXCESS, Trouble.UNKNOWN)
"""Problems of a dose that is over and booked, with its doubt: the pump stands, and the next chamber can be dosed."""
SHORT_AGAIN = 1
"""Number of further tries of a dose that was cut short. A blocked port trips the pressure interlock, which latches at the
third trip; that would stop the whole plate."""
OF_VOLUME = "volume:"
"""Beginning of the reasons of a refusal for want of room or medium."""


class GivenUp(Exception):
    """The dose of one chamber was given up: `why`, for people."""

    def __init__(self, chamber: str, why: str) -> None:
        super().__init__(f"{chamber}: {why}")
        self.chamber = chamber
        self.why = why


class ChamberControl:
    """A run as a dose of one chamber sees it. What holds a run for the chamber's sake alone raises :class:`GivenUp`."""

    def __init__(self, run: RunControl, step: StepRecord, chamber: str) -> None:
        self._run = run
        self._step = step
        self._chamber = chamber
        self.id = run.id

    @property
    def interrupted(self) -> bool:
        """See :class:`RunControl`."""
        return self._run.interrupted

    @property
    def aborted(self) -> bool:
        """See :class:`RunControl`."""
        return self._run.aborted

    async def checkpoint(self) -> None:
        """See :class:`RunControl`."""
        await self._run.checkpoint()

    async def wait(self, seconds: float) -> None:
        """See :class:`RunControl`."""
        await self._run.wait(seconds)

    def answered(self, message: str) -> bool:
        """See :class:`RunControl`."""
        return self._run.answered(message)

    async def trouble(self, problem: StepProblem, tries: int) -> None:
        """Give the dose up where the run would be held for this chamber alone; else let the run decide."""
        advice = advise(problem, tries)
        again = problem.trouble is Trouble.SHORT and tries < SHORT_AGAIN
        if (advice.after_s is None or not again) and self._concerns_chamber(problem):
            raise GivenUp(self._chamber, advice.message)
        await self._run.trouble(problem, tries)

    def _concerns_chamber(self, problem: StepProblem) -> bool:
        """Return whether other chambers can be dosed although this problem stands."""
        if problem.trouble in OWN:
            return self._step.open_act is None
        if problem.trouble is not Trouble.REFUSED:
            return False
        named = f"{OF_VOLUME} {self._chamber} "
        return bool(problem.reasons) and all(reason.startswith(named) for reason in problem.reasons)
