"""Base class of pumps with one motor: order of execution of commands, and counting for pumps that cannot count.

A driver of one model implements a few hooks. This module ensures that nothing overtakes a stop, that a dose is
given once, that a failed start ends off, and that a running pump is not reconfigured.
"""

from __future__ import annotations

import asyncio
import math
from abc import abstractmethod

from drivers.commands import Command, Dispense, Guarantee, Run, Stop
from drivers.device import Actuator, DeviceConfig, on_or_off, refuse, run_to_end
from drivers.doses import DoseBook
from drivers.errors import BadReply, DeviceError, DeviceFault, NoReply, Refused
from drivers.flow_steps import FlowSteps
from drivers.settings import ChoiceSetting, NumberSetting
from drivers.transport.conversation import Conversation
from drivers.transport.link import LinkState

MAX_DOSE_UL = 1e7
DOSE_TOLERANCE = 0.02
"""Relative change of a dose by the pump's own steps above which the dose is refused."""
RETRY_S = 0.5
"""Interval at which the driver retries to end a dose while the pump does not answer (s)."""

UL_PER_REV = NumberSetting(
    key="ul_per_rev", meaning="the measured volume of one revolution of the tubing", low=0.01, high=1e7, unit="µL"
)
MAX_RPM_SETTING = NumberSetting(
    key="max_rpm", meaning="the drive's maximum speed, from its rating plate", low=0.1, high=10_000.0, unit="rpm"
)
DIRECTION = ChoiceSetting(
    key="direction", meaning="turning direction of a positive flow", among=("cw", "ccw"), default="cw"
)


class RotaryPump(Actuator):
    """One motor. `Run` is covered by its lease and the guard process; a `Dispense` by `guarantee`.

    With `ends_doses = False` the pump only knows "run": the driver times the dose and stops it. If the host dies
    (:attr:`Guarantee.HOST`), the dose continues until the guard process brings the pump to rest.
    """

    kind = "pump"
    unit = "uL/min"
    ends_doses = True

    def __init__(self, where: str, conversation: Conversation, *, guarantee: Guarantee = Guarantee.DEVICE) -> None:
        self.where = where
        self.guarantee = guarantee
        self._conversation = conversation
        self._doses = DoseBook(where)
        self._min_flow_ul_min = 0.0
        self._max_flow_ul_min = 0.0
        self._steps: FlowSteps | None = None
        """Steps of a continuous flow; None where they are too fine to matter, or unknown."""
        self._one_at_a_time = asyncio.Lock()
        self._commands = 0
        """Incremented by every command: the end of a dose must not stop a later command."""
        self._end: asyncio.TimerHandle | asyncio.Task[None] | None = None
        self._ul_per_rev = self._max_rpm = 0.0
        self._forward = True
        """Whether clockwise is forward."""

    def guarantee_for(self, command: Command) -> Guarantee:
        """Return the pump's guarantee for a dose; a continuous flow is only ended by the guard."""
        return Guarantee.GUARD if isinstance(command, Run) else self.guarantee

    def nearest(self, command: Command, max_value: float = math.inf) -> Command:
        """Return the nearest possible command; see :meth:`drivers.device.Actuator.nearest`. `max_value` in µL/min."""
        if isinstance(command, Run) and self._steps is not None:
            return Run(self._steps.nearest(command.flow_ul_min, max_value))
        return command

    async def apply(self, command: Command) -> None:
        """Execute Run, Dispense or Stop; see :meth:`drivers.device.Actuator.apply`."""
        self._conversation.require_verified()
        # A stop must never be executed between the settings of a start and the start itself.
        async with self._one_at_a_time:
            match command:
                case Stop() | Run(flow_ul_min=0.0):
                    await self._stop()
                case Run():
                    await self._run(command.flow_ul_min)
                case Dispense():
                    await self._dispense(command)
                case _:
                    raise refuse(self, self.where, command)

    def _gear(self, config: DeviceConfig, *, step_rpm: float, max_rpm: float) -> None:
        """Read the settings of a pump that counts revolutions, not volumes: volume per revolution, maximum speed,
        direction.

        `step_rpm` is the resolution of the drive's speed.
        """
        settings, where = config.settings, config.name
        self._ul_per_rev = UL_PER_REV.of(settings, where)
        self._max_rpm = MAX_RPM_SETTING.of(settings, where, high=max_rpm)
        self._forward = DIRECTION.of(settings, where) == "cw"
        self._min_flow_ul_min = step_rpm * self._ul_per_rev
        self._max_flow_ul_min = self._max_rpm * self._ul_per_rev
        self._steps = FlowSteps(step_rpm * self._ul_per_rev, self._max_flow_ul_min)
        self.revolution_ul = self._ul_per_rev

    # --- implemented by each model ----------------------------------------------------------------------------

    @abstractmethod
    async def _running(self) -> bool:
        """Return whether the pump reports that its motor turns."""

    @abstractmethod
    async def _halt(self) -> None:
        """Command the motor off; the caller reads it back."""

    @abstractmethod
    async def _aim(self, flow_ul_min: float, volume_ul: float | None) -> None:
        """Prepare a resting pump for a flow (µL/min, signed), continuous or for a volume (µL). Nothing moves."""

    @abstractmethod
    async def _go(self, dose: bool) -> None:
        """Start what was prepared; raise :class:`Refused` only if the pump certainly did not start."""

    @abstractmethod
    async def _retune(self, flow_ul_min: float) -> bool:
        """Change the flow of a continuously running pump; return False if it must be stopped first."""

    # --- commands -------------------------------------------------------------------------------------------

    async def _stop(self) -> None:
        """Stop and verify by readback; retry once if the reply was lost (stopping twice is harmless)."""
        self._note_command()
        try:
            await self._stop_once()
        except (NoReply, BadReply, DeviceFault):
            await self._stop_once()

    async def _stop_once(self) -> None:
        await self._halt()
        if await self._running():
            raise DeviceFault(
                "the pump still runs after it was stopped",
                where=self.where,
                cause="it was restarted at the pump, it reads back in another form than the rig says,"
                " or its electronics failed",
                action="look whether it turns; if it does, switch it off by hand",
            )

    async def _run(self, flow_ul_min: float) -> None:
        self._check_flow(abs(flow_ul_min))
        if self._steps is not None and (coarse := self._steps.too_coarse(flow_ul_min)) is not None:
            raise self._refusal(*coarse)
        if await self._running():
            if self._end is None and await self._retuned(flow_ul_min):
                return
            await self._stop()
        await self._aim(flow_ul_min, None)
        self._note_command()
        await on_or_off(self._go(dose=False), self._stop)

    async def _retuned(self, flow_ul_min: float) -> bool:
        try:
            return await self._retune(flow_ul_min)
        except DeviceFault as fault:
            # The pump runs otherwise than commanded, so its flow is unknown: stop it. A lost reply is no reason to
            # stop.
            try:
                await run_to_end(self._stop())
            except DeviceError as second:
                fault.add_note(f"and it could not be commanded off afterwards: {second}")
            raise

    async def _dispense(self, dose: Dispense) -> None:
        if self._doses.given(dose.dose_id):
            return
        self._check_flow(dose.flow_ul_min)
        if not 0 < dose.volume_ul <= MAX_DOSE_UL:
            raise self._refusal(
                f"{dose.volume_ul:g} µL cannot be given at once", f"give more than 0 and up to {MAX_DOSE_UL:g} µL"
            )
        if await self._running():
            raise self._refusal("it is still running", "stop it, or wait until the dose before has ended")
        await self._aim(dose.flow_ul_min, dose.volume_ul)
        self._note_command()
        self._doses.begin(dose.dose_id)
        try:
            await on_or_off(self._go(dose=True), self._stop)
        except Refused:
            self._doses.not_begun(dose.dose_id)
            raise
        self._doses.accept(dose.dose_id)

    # --- doses that the driver ends -------------------------------------------------------------------------

    def _end_after(self, seconds: float) -> None:
        """Stop after `seconds` (s) unless another command comes first."""
        loop = asyncio.get_running_loop()
        command = self._commands

        def end() -> None:
            self._end = loop.create_task(self._end_dose(command))

        self._end = loop.call_later(seconds, end)

    async def _end_dose(self, command: int) -> None:
        while True:
            try:
                async with self._one_at_a_time:
                    if command == self._commands:
                        command += 1  # the stop counts as a command too; if it fails, this task must still repeat it
                        await self._stop()
                    return
            except DeviceError:
                if self._conversation.link.state is LinkState.CLOSED:
                    return  # closed for good: the guard has taken over
                await asyncio.sleep(RETRY_S)

    def _note_command(self) -> None:
        self._commands += 1
        if isinstance(self._end, asyncio.TimerHandle):
            self._end.cancel()
        self._end = None

    # --- errors ---------------------------------------------------------------------------------------------

    def _check_flow(self, flow_ul_min: float) -> None:
        if not self._min_flow_ul_min * (1 - 1e-9) <= flow_ul_min <= self._max_flow_ul_min * (1 + 1e-9):
            raise self._refusal(
                f"{flow_ul_min:g} µL/min cannot be pumped; it carries {self._min_flow_ul_min:g}"
                f" to {self._max_flow_ul_min:g}",
                "ask for a flow in between, or fit other tubing and enter it in the rig file",
            )

    def _check_dose(self, volume_ul: float, given_ul: float) -> None:
        """Refuse a dose that the pump's steps would change from `volume_ul` to `given_ul`, beyond the tolerance."""
        if abs(given_ul - volume_ul) > DOSE_TOLERANCE * volume_ul:
            raise self._refusal(
                f"of {volume_ul:g} µL its own steps would make {given_ul:g}", "give more at a time, or more slowly"
            )

    def _refusal(self, what: str, action: str) -> Refused:
        return Refused(what, where=self.where, cause="the command does not fit the pump or its state", action=action)


class HostCount:
    """Volume moved by a pump that cannot count (µL): its reported speed × time between two reports.

    A change that was not commanded may have happened at any time since the last report: half of its effect is
    counted, the other half is added to the uncertainty.
    """

    def __init__(self, latency_s: float) -> None:
        """`latency_s`: maximum delay between a command and the motor's reaction (s)."""
        self._latency_s = latency_s
        self._at_s: float | None = None
        self._flow_ul_min = 0.0
        self._fastest_ul_min = 0.0
        self._uncertain_ul = 0.0
        self.total_ul = 0.0

    @property
    def resolution_ul(self) -> float:
        """Uncertainty of the count (µL)."""
        return self._uncertain_ul + self._fastest_ul_min * self._latency_s / 60.0

    def update(self, flow_ul_min: float, *, commanded: bool = False) -> None:
        """Record that the pump now moves `flow_ul_min` (either sign, 0 at rest); `commanded` if a command just set
        it.
        """
        now_s = asyncio.get_running_loop().time()
        before, after = self._flow_ul_min, abs(flow_ul_min)
        if self._at_s is not None:
            minutes = (now_s - self._at_s) / 60.0
            sure = commanded or abs(before - after) <= 1e-9 * before
            self.total_ul += before * minutes if sure else (before + after) / 2.0 * minutes
            self._uncertain_ul += 0.0 if sure else abs(before - after) / 2.0 * minutes
        self._at_s = now_s
        self._flow_ul_min = after
        self._fastest_ul_min = max(self._fastest_ul_min, after)
