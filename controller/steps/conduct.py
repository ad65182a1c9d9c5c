"""What a transfer needs of the safety gate and of its run."""

from __future__ import annotations

from typing import Protocol

from controller.gate.probes import ProbeOutcome
from controller.safety.probe_rules import ProbeIntent
from controller.safety.terms import Intent
from controller.steps.recovery import StepProblem
from drivers.commands import Status


class Outcome(Protocol):
    """What is needed of the gate's answer."""

    @property
    def accepted(self) -> bool:
        """Whether the kernel let it pass."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why not."""

    @property
    def error(self) -> str | None:
        """What the device said, if it went wrong there."""


class ActuatorGate(Protocol):
    """What is needed of :class:`controller.gate.gate.Gate`."""

    async def submit(self, intent: Intent) -> Outcome:
        """Take an intent through the door."""

    async def stop(self, actuator: str, reason: str, *, requester: str = "gate") -> Outcome:
        """Stop one actuator."""

    async def status(self, actuator: str) -> Status:
        """Ask one device what it is doing now; raises DeviceError."""

    async def calibrate(self, intent: ProbeIntent) -> ProbeOutcome:
        """Set a probe's own calibration."""


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
