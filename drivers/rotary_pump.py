"""What pumps with one motor have in common: the order in which a command is carried out, and counting for those that
cannot count.

A driver of one model fulfils a handful of hooks; that a stop is never overtaken, a dose is given once, a failed start
ends off and a running pump is not re-aimed blindly is kept here.
"""

from __future__ import annotations

import asyncio
import math
from abc import abstractmethod
from collections.abc import Mapping

from drivers.commands import Command, Dispense, Guarantee, Run, Stop
from drivers.device import Actuator, DeviceConfig, on_or_off, refuse, run_to_end
from drivers.doses import DoseBook
from drivers.errors import BadReply, DeviceError, DeviceFault, NoReply, Refused
from drivers.flow_steps import FlowSteps
from drivers.settings import bad_setting, choice_of, number_of
from drivers.transport.conversation import Conversation
from drivers.transport.link import LinkState

MOST_DOSE_UL = 1e7
DOSE_TOLERANCE = 0.02
"""A dose that the pump's own steps would change by more than this is refused rather than given wrongly."""
AGAIN_S = 0.5
"""A dose that this driver has to end is ended as soon as the pump hears again: it is tried as often as this."""


class RotaryPump(Actuator):
    """One motor. `Run` is guarded by lease and guard process; a `Dispense` by `guarantee`.

    With `ends_doses = False` the pump only knows "run": the driver times the dose and stops it, and nobody does if the
    host dies (:attr:`Guarantee.HOST`), until the guard process brings the pump to rest.
    """

    kind = "pump"
    unit = "uL/min"
    ends_doses = True

    def __init__(self, where: str, conversation: Conversation, *, guarantee: Guarantee = Guarantee.DEVICE) -> None:
        self.where = where
        self.guarantee = guarantee
        self._conversation = conversation
        self._doses = DoseBook(where)
        self._least_flow_ul_min = 0.0
        self._max_flow_ul_min = 0.0
        self._steps: FlowSteps | None = None
        """The steps that a flow without end goes in; None where the pump's are too fine to matter, or not known."""
        self._one_at_a_time = asyncio.Lock()
        self._begun = 0
        """Grows whenever something else is commanded: a dose's end must not stop what came after it."""
        self._end: asyncio.TimerHandle | asyncio.Task[None] | None = None
        self._ul_per_rev = self._max_rpm = 0.0
        self._forward = True
        """Whether clockwise is forward."""

    def guarantee_for(self, command: Command) -> Guarantee:
        """A dose is ended by the pump where the pump can; a continuous flow never is."""
        return Guarantee.GUARD if isinstance(command, Run) else self.guarantee

    def nearest(self, command: Command, most: float = math.inf) -> Command:
        """See :meth:`drivers.device.Actuator.nearest`; `most` in µL/min."""
        if isinstance(command, Run) and self._steps is not None:
            return Run(self._steps.nearest(command.flow_ul_min, most))
        return command

    async def apply(self, command: Command) -> None:
        """Run, Dispense or Stop; see :meth:`drivers.device.Actuator.apply`."""
        self._conversation.require_verified()
        # A stop must never slip in between the settings of a start and the start itself.
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

    def _gear(self, config: DeviceConfig, *, step_rpm: float, most_rpm: float) -> None:
        """For a pump that knows revolutions and no volumes: take from the rig file what a revolution moves, how fast it may
        turn, and which way is forward; `step_rpm` is the drive's finest speed.
        """
        settings, where = config.settings, config.name
        self._ul_per_rev = needed_number(
            settings, "ul_per_rev", where, low=0.01, high=1e7, what="the volume of one revolution of the tubing, µL"
        )
        self._max_rpm = needed_number(
            settings, "max_rpm", where, low=0.1, high=most_rpm, what="the drive's greatest speed, rpm"
        )
        self._forward = choice_of(settings, "direction", where, default="cw", among=("cw", "ccw")) == "cw"
        self._least_flow_ul_min = step_rpm * self._ul_per_rev
        self._max_flow_ul_min = self._max_rpm * self._ul_per_rev
        self._steps = FlowSteps(step_rpm * self._ul_per_rev, self._max_flow_ul_min)
        self.revolution_ul = self._ul_per_rev

    # --- what a model fulfils -------------------------------------------------------------------------------

    @abstractmethod
    async def _running(self) -> bool:
        """Whether the motor turns, by the pump's own word."""

    @abstractmethod
    async def _halt(self) -> None:
        """Command the motor off; it is read back afterwards."""

    @abstractmethod
    async def _aim(self, flow_ul_min: float, volume_ul: float | None) -> None:
        """Set a resting pump for a flow (signed), without end or for a volume. Nothing moves."""

    @abstractmethod
    async def _go(self, dose: bool) -> None:
        """Start what was aimed at; raises :class:`Refused` only if the pump certainly did not start."""

    @abstractmethod
    async def _retune(self, flow_ul_min: float) -> bool:
        """Change the flow of a pump that runs without end; False if it must be stopped for that."""

    # --- commands -------------------------------------------------------------------------------------------

    async def _stop(self) -> None:
        """Stop, and see that it stopped; once more if the reply was lost (stopping twice is harmless)."""
        self._something_else()
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
                cause="somebody restarted it at the pump, it reads back in another form than the rig says,"
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
        self._something_else()
        await on_or_off(self._go(dose=False), self._stop)

    async def _retuned(self, flow_ul_min: float) -> bool:
        try:
            return await self._retune(flow_ul_min)
        except DeviceFault as fault:
            # It does other than it was told: nobody knows what it pumps. A lost reply is no reason to stop it.
            try:
                await run_to_end(self._stop())
            except DeviceError as second:
                fault.add_note(f"and it could not be commanded off afterwards: {second}")
            raise

    async def _dispense(self, dose: Dispense) -> None:
        if self._doses.given(dose.dose_id):
            return
        self._check_flow(dose.flow_ul_min)
        if not 0 < dose.volume_ul <= MOST_DOSE_UL:
            raise self._refusal(
                f"{dose.volume_ul:g} µL cannot be given at once", f"give more than 0 and up to {MOST_DOSE_UL:g} µL"
            )
        if await self._running():
            raise self._refusal("it is still running", "stop it, or wait until the dose before has ended")
        await self._aim(dose.flow_ul_min, dose.volume_ul)
        self._something_else()
        self._doses.begin(dose.dose_id)
        try:
            await on_or_off(self._go(dose=True), self._stop)
        except Refused:
            self._doses.not_begun(dose.dose_id)
            raise
        self._doses.accept(dose.dose_id)

    # --- doses that the driver ends -------------------------------------------------------------------------

    def _end_after(self, seconds: float) -> None:
        """Stop after `seconds` unless something else is commanded before."""
        loop = asyncio.get_running_loop()
        begun = self._begun

        def end() -> None:
            self._end = loop.create_task(self._end_dose(begun))

        self._end = loop.call_later(seconds, end)

    async def _end_dose(self, begun: int) -> None:
        while True:
            try:
                async with self._one_at_a_time:
                    if begun == self._begun:
                        begun += 1  # the stop counts as a command too; if it fails it is still ours to repeat
                        await self._stop()
                    return
            except DeviceError:
                if self._conversation.link.state is LinkState.CLOSED:
                    return  # closed for good: nobody is left to say it to, and the guard has taken over
                await asyncio.sleep(AGAIN_S)

    def _something_else(self) -> None:
        self._begun += 1
        if isinstance(self._end, asyncio.TimerHandle):
            self._end.cancel()
        self._end = None

    # --- errors ---------------------------------------------------------------------------------------------

    def _check_flow(self, flow_ul_min: float) -> None:
        if not self._least_flow_ul_min * (1 - 1e-9) <= flow_ul_min <= self._max_flow_ul_min * (1 + 1e-9):
            raise self._refusal(
                f"{flow_ul_min:g} µL/min cannot be pumped; it carries {self._least_flow_ul_min:g}"
                f" to {self._max_flow_ul_min:g}",
                "ask for a flow in between, or fit other tubing and enter it in the rig file",
            )

    def _check_dose(self, volume_ul: float, given_ul: float) -> None:
        """Refuse a dose that the steps of the pump would make `given_ul` instead of `volume_ul`."""
        if abs(given_ul - volume_ul) > DOSE_TOLERANCE * volume_ul:
            raise self._refusal(
                f"of {volume_ul:g} µL its own steps would make {given_ul:g}", "give more at a time, or more slowly"
            )

    def _refusal(self, what: str, action: str) -> Refused:
        return Refused(what, where=self.where, cause="the command does not fit the pump or its state", action=action)


class HostCount:
    """What a pump that cannot count has moved (µL): the speed it tells, times the time between looks at it.

    A change that nobody commanded may have come at any time since the last look: half of what it makes is counted, and
    the other half is doubt.
    """

    def __init__(self, latency_s: float) -> None:
        """`latency_s`: how long after a command was sent the motor may follow it (s)."""
        self._latency_s = latency_s
        self._at_s: float | None = None
        self._flow_ul_min = 0.0
        self._fastest_ul_min = 0.0
        self._doubt_ul = 0.0
        self.total_ul = 0.0

    @property
    def resolution_ul(self) -> float:
        """How far the count may be off (µL)."""
        return self._doubt_ul + self._fastest_ul_min * self._latency_s / 60.0

    def looked(self, flow_ul_min: float, *, commanded: bool = False) -> None:
        """The pump now moves `flow_ul_min` (of either sign, 0 at rest); `commanded` if it was told to just now."""
        now_s = asyncio.get_running_loop().time()
        before, after = self._flow_ul_min, abs(flow_ul_min)
        if self._at_s is not None:
            minutes = (now_s - self._at_s) / 60.0
            sure = commanded or abs(before - after) <= 1e-9 * before
            self.total_ul += before * minutes if sure else (before + after) / 2.0 * minutes
            self._doubt_ul += 0.0 if sure else abs(before - after) / 2.0 * minutes
        self._at_s = now_s
        self._flow_ul_min = after
        self._fastest_ul_min = max(self._fastest_ul_min, after)


def needed_number(
    settings: Mapping[str, float | str | bool], name: str, where: str, *, low: float, high: float, what: str
) -> float:
    """The number `name` among `settings`, which has no default; `what` says in words what to write."""
    if name not in settings:
        raise bad_setting(where, name, "is missing", f"write {what}, {low:g} to {high:g}")
    return number_of(settings, name, where, default=low, low=low, high=high)
