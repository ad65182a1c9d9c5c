"""The syringe of a Tecan Cavro pump as a dosing pump: fill from one port, dispense to another, count by the plunger.

A stroke is two strings of the pump, one to fill and one to dispense, and the second is sent only after the pump has
reported the end of the first and the plunger is where it should be. The pump ends each by itself. A dose of several
strokes is continued by a task of this driver, stroke by stroke: if the host dies, it ends with the present stroke.

The volume is counted from plunger positions. A position that no command explains is a fault that holds, and so is every
error after which a position is unknown: the driver never initialises, because that empties the syringe into the outlet.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum, auto

from drivers.commands import Command, Dispense, Guarantee, PumpStatus, Run, Stop
from drivers.device import Actuator, on_or_off, refuse
from drivers.doses import DoseBook
from drivers.errors import BadReply, DeviceError, DeviceFault, LinkDown, NoReply, Refused
from drivers.flow_steps import FlowSteps
from drivers.tecan_cavro_wire import MISTAKES, OVERLOADS, CavroLine, Reply, lost, position_lost
from drivers.transport.link import LinkState

MIN_PULSES, MAX_PULSES = 5, 1000
"""Speed of a dispensing stroke (pulses/s). Up to the start speed there is no ramp, so the flow is that of the speed."""
MAX_STROKES = 50
DOSE_TOLERANCE = 0.02
"""Relative change of a dose by whole increments above which it is refused."""
POLL_S = 0.2
GRACE_S = 3.0
"""Time that a move may last longer than by its speed: the valve turns first."""
SILENCE_S = 60.0
"""Time without an answer after which a dose of several strokes is not continued."""
START_POLL_S = 0.05
STOP_POLLS = 20
"""`T` does not end a move of the valve: this many polls until the pump is ready."""
TOO_FAST = 1.05
SLACK_INCREMENTS = 30
"""A stroke may be this far ahead of its speed: rounding, and the time of the answers."""
OVERTRAVEL = 0.05
"""Share of a stroke by which the plunger may exceed it (backlash compensation)."""


@dataclass(frozen=True, slots=True)
class Syringe:
    """A syringe on its pump: geometry, ports, and the commands that depend on them."""

    volume_ul: float
    increments: int
    """Positions of a full stroke."""
    pulses: int
    """Pulses of the speed commands per increment."""
    prefix: bytes
    """Command that selects these increments; empty where a pump knows no others."""
    turn_in: bytes
    turn_out: bytes
    valve_out: bytes
    """Answer to `?6` when the valve stands at the outlet."""
    fill_pulses: int

    @property
    def increment_ul(self) -> float:
        """Volume of one increment (µL)."""
        return self.volume_ul / self.increments

    @property
    def pulse_ul_min(self) -> float:
        """Flow of a speed of one pulse per second (µL/min)."""
        return 60.0 * self.increment_ul / self.pulses

    def seconds(self, increments: int, pulses: int) -> float:
        """Return the duration of a move (s)."""
        return abs(increments) * self.pulses / pulses


class PlungerPhase(Enum):
    """Says what the driver knows of the plunger's movement."""

    UNKNOWN = auto()
    """Nothing was commanded yet: a stroke of an earlier process may be under way."""
    REST = auto()
    FILL = auto()
    DISPENSE = auto()


class SyringePump(Actuator):
    """The pump. It gives doses only: a syringe has no continuous flow."""

    kind = "pump"
    unit = "uL/min"
    guarantee = Guarantee.DEVICE

    def __init__(self, line: CavroLine, where: str, syringe: Syringe, *, counts_initialisations: bool) -> None:
        self.where = where
        self._line = line
        self._syringe = syringe
        self._counts_initialisations = counts_initialisations
        self._steps = FlowSteps(syringe.pulse_ul_min, MAX_PULSES * syringe.pulse_ul_min)
        self._doses = DoseBook(where)
        self._sending = asyncio.Lock()
        """Held for the few exchanges that belong together, never during a move: a stop must not wait for one."""
        self._commands = 0
        """Incremented by every dose, stop and initialisation; what an older dose still wants to send is dropped."""
        self._stops = 0
        self._more_strokes = False
        self._held: tuple[str, str] | None = None
        """What happened to a position, and its likely cause; raised until a person has initialised the pump."""
        self._initialisations: int | None = None
        self._phase = PlungerPhase.UNKNOWN
        self._last: int | None = None
        """Position at the last reading."""
        self._target = self._start = 0
        self._start_s = 0.0
        self._pulses = 0
        self._counted = 0
        """Increments dispensed since the start of this process."""
        self._task: asyncio.Task[None] | None = None

    async def prepare(self) -> None:
        """Check the plunger's range and who has initialised the pump; part of verification. Nothing is set."""
        if self._counts_initialisations:
            self._note_initialisations(await self._line.number(b"?15"))

    async def position(self) -> int:
        """Return the plunger's position as the pump reports it."""
        return await self._line.number(b"?")

    async def apply(self, command: Command) -> None:
        """Execute Dispense or Stop; see :meth:`drivers.device.Actuator.apply`."""
        self._line.conversation.require_verified()
        match command:
            case Stop() | Run(flow_ul_min=0.0):
                await self._stop()
            case Dispense():
                await self._dispense(command)
            case _:
                raise refuse(self, self.where, command)

    async def status(self) -> PumpStatus:
        """Return what the pump reports; the total is counted from plunger positions since this process started.

        While a syringe is filled within a dose, the pump runs with a flow of 0.

        Raises:
            DeviceFault: The plunger's position is lost.
        """
        async with self._sending:
            ready = (await self._checked_state()).ready
            await self._count(busy=not ready)
            flow_ul_min = 0.0 if ready else await self._flow_ul_min()
        running = not ready or self._more_strokes
        resolution_ul = self._syringe.increment_ul
        return PumpStatus(running, flow_ul_min, self._counted * resolution_ul, resolution_ul, host_counted=True)

    # --- commands -------------------------------------------------------------------------------------------

    async def _stop(self) -> None:
        self._stops += 1
        self._commands += 1  # before waiting for the line: what an older command still wants to send is dropped
        self._more_strokes = False
        async with self._sending:
            try:
                await self._stop_once()
            except (NoReply, BadReply, DeviceFault):
                await self._stop_once()

    async def _stop_once(self) -> None:
        await self._line.terminate()
        for _ in range(STOP_POLLS):
            reply = await self._line.state()
            await self._note_error(reply.error)
            if reply.ready:
                return
            await asyncio.sleep(POLL_S)
        raise DeviceFault(
            "the pump is still busy after it was stopped",
            where=self.where,
            cause="another program commands it, or its electronics failed",
            action="switch its supply off by hand",
        )

    async def _dispense(self, dose: Dispense) -> None:
        if self._doses.given(dose.dose_id):
            return
        pulses = self._speed(dose.flow_ul_min)
        strokes = self._strokes(dose.volume_ul)
        stops = self._stops
        async with self._sending:
            busy = not (await self._checked_state()).ready or self._more_strokes
            if busy:
                raise self._refusal("it is still running", "stop it, or wait until the dose before has ended")
            await self._count(busy=False)
            if stops != self._stops:
                raise self._stopped()
            self._commands += 1
            mine = self._commands
            self._more_strokes = len(strokes) > 1
        await on_or_off(self._begin(dose, mine, strokes[0], pulses), self._stop)
        if len(strokes) > 1:
            self._task = asyncio.get_running_loop().create_task(self._continue(mine, strokes[1:], pulses))

    async def _begin(self, dose: Dispense, mine: int, increments: int, pulses: int) -> None:
        """Fill, and start the first stroke. Until then nothing has left the pump, and the dose can be asked again."""
        target = await self._fill(mine, increments)
        self._doses.begin(dose.dose_id)
        try:
            await self._move(mine, PlungerPhase.DISPENSE, target, pulses)
        except Refused:
            self._doses.not_begun(dose.dose_id)
            raise
        await self._check_started(mine, target)
        self._doses.accept(dose.dose_id)

    async def _continue(self, mine: int, strokes: list[int], pulses: int) -> None:
        """Give the other strokes of a dose, each after the pump has reported the end of the one before."""
        try:
            for increments in strokes:
                await self._arrive(mine, patient=True)
                target = await self._fill(mine, increments, patient=True)
                await self._move(mine, PlungerPhase.DISPENSE, target, pulses)
                await self._check_started(mine, target)
        except DeviceError:
            if mine == self._commands and self._line.conversation.link.state is not LinkState.CLOSED:
                await self._stop_after_failure()
        finally:
            if mine == self._commands:
                self._more_strokes = False

    async def _stop_after_failure(self) -> None:
        try:
            await self._stop()
        except DeviceError:
            self._more_strokes = False  # the present stroke ends by itself, and no other follows

    # --- moves ----------------------------------------------------------------------------------------------

    async def _fill(self, mine: int, increments: int, *, patient: bool = False) -> int:
        """Fill for a stroke of `increments`, unless enough is left; return where the stroke will end."""
        position = await self._position()
        if position < increments:
            await self._move(mine, PlungerPhase.FILL, increments, self._syringe.fill_pulses)
            await self._arrive(mine, patient=patient)
            position = increments
        return position - increments

    async def _move(self, mine: int, phase: PlungerPhase, target: int, pulses: int) -> None:
        """Turn the valve and start the plunger towards `target`, an absolute position: sent twice it moves once."""
        syringe = self._syringe
        turn = syringe.turn_in if phase is PlungerPhase.FILL else syringe.turn_out
        async with self._sending:
            self._check_current(mine)
            self._start = await self._position()
            self._phase, self._target, self._pulses = phase, target, pulses
            self._start_s = asyncio.get_running_loop().time()
            try:
                reply = await self._line.order(syringe.prefix + b"V%d" % pulses + turn + b"A%d" % target)
            except Refused:
                self._phase = PlungerPhase.REST
                raise
            if reply.error:
                raise self._hold(*lost(reply.error))

    async def _arrive(self, mine: int, *, patient: bool) -> None:
        """Wait until the pump reports the end of the present move, and check where the plunger is.

        `patient`: continue after lost answers, up to `SILENCE_S` after the last one.
        """
        loop = asyncio.get_running_loop()
        end_s = self._start_s + self._syringe.seconds(self._start - self._target, self._pulses) * TOO_FAST + GRACE_S
        answered_s = loop.time()
        while True:
            await asyncio.sleep(POLL_S)
            try:
                async with self._sending:
                    self._check_current(mine)
                    ready = (await self._checked_state()).ready
                    await self._count(busy=not ready)
            except (NoReply, BadReply, LinkDown):
                if not patient or loop.time() - answered_s > SILENCE_S:
                    raise
                continue
            if ready:
                return self._check_arrived()
            answered_s = loop.time()
            if answered_s > end_s:
                raise DeviceFault(
                    f"a move to position {self._target} lasts longer than by its speed",
                    where=self.where,
                    cause="speeds are counted otherwise than by the series in the rig file",
                    action="compare the series in the rig file with the pump",
                )

    def _check_arrived(self) -> None:
        if self._last != self._target:
            raise DeviceFault(
                f"the move has ended, and the plunger stands at {self._last} instead of {self._target}",
                where=self.where,
                cause="another program stopped it, or its electronics failed",
                action="look at the pump; see the ledger for what was moved",
            )

    async def _check_started(self, mine: int, target: int) -> None:
        """Wait until the plunger of a dispensing stroke has left its start, after the valve has turned (A7)."""
        end_s = self._start_s + GRACE_S
        while True:
            async with self._sending:
                self._check_current(mine)
                ready = (await self._checked_state()).ready
                position = await self._count(busy=not ready)
            if position == target or (position != self._start and not ready):
                return
            if ready or asyncio.get_running_loop().time() > end_s:
                raise DeviceFault(
                    f"it has accepted a stroke and stands at {position} instead of {target}",
                    where=self.where,
                    cause="its electronics failed, or another program stopped it",
                    action="look at the pump; see the ledger for what was moved",
                )
            await asyncio.sleep(START_POLL_S)

    def _check_current(self, mine: int) -> None:
        if mine != self._commands:
            raise self._stopped()

    def _stopped(self) -> Refused:
        return self._refusal("it was stopped while the dose was being prepared", "ask for the dose again")

    # --- what the pump reports ------------------------------------------------------------------------------

    async def _checked_state(self) -> Reply:
        """Return the answer to `Q`; raise the fault that holds, or the one that the pump reports."""
        reply = await self._line.state()
        await self._note_error(reply.error)
        if self._held is not None:
            if self._counts_initialisations and not reply.error and reply.ready:
                self._note_initialisations(await self._line.number(b"?15"))
            if self._held is not None:
                raise position_lost(*self._held, self.where)
        if reply.error in MISTAKES and self._phase in (PlungerPhase.FILL, PlungerPhase.DISPENSE):
            raise self._line.mistake(reply.error)
        return reply

    async def _note_error(self, error: int) -> None:
        if error and error not in MISTAKES:
            first = self._held is None
            self._hold(*lost(error))
            if first and error in OVERLOADS and self._phase is PlungerPhase.DISPENSE:
                await self._count_until_overload()

    async def _count_until_overload(self) -> None:
        """Count what has left the syringe since the last reading; the counter may be ahead of a blocked plunger."""
        before, position = self._last, await self.position()
        if before is not None and self._explained(before - position, position):
            self._counted += before - position
        self._last = position

    def _hold(self, what: str, cause: str) -> DeviceFault:
        """Return the fault for a lost position, which is kept until a person has initialised the pump."""
        if self._held is None:
            self._held = what, cause
        self._more_strokes = False
        return position_lost(what, cause, self.where)

    def _note_initialisations(self, count: int) -> None:
        """Begin a new count of positions if the pump was initialised, which only a person does."""
        if self._initialisations is not None and count != self._initialisations:
            self._held, self._last, self._phase = None, None, PlungerPhase.UNKNOWN
            self._commands += 1
            self._more_strokes = False
        self._initialisations = count

    async def _position(self) -> int:
        """Read the plunger's position and count with it; the pump is at rest."""
        return await self._count(busy=False)

    async def _count(self, *, busy: bool) -> int:
        """Read the plunger's position, and add what has left the syringe to the total; return the position."""
        position = await self.position()
        before, self._last = self._last, position
        if before is None or self._phase is PlungerPhase.UNKNOWN:
            await self._count_unknown(before, position, busy=busy)
            return position
        dispensed = before - position
        if not self._explained(dispensed, position):
            raise self._hold(
                f"the plunger went from {before} to {position}, which no command explains",
                "its power failed for a moment, another program commands it, or series is wrong in the rig file",
            )
        if self._phase is PlungerPhase.DISPENSE:
            self._counted += dispensed
        if not busy:
            self._phase = PlungerPhase.REST
        return position

    async def _count_unknown(self, before: int | None, position: int, *, busy: bool) -> None:
        """Count a stroke that an earlier process has started: only the valve says whether it dispenses."""
        if before is not None and position < before and await self._line.valve() == self._syringe.valve_out:
            self._counted += before - position
        if not busy:
            self._phase = PlungerPhase.REST

    def _explained(self, dispensed: int, position: int) -> bool:
        """Return whether the last command explains that the plunger is at `position`, `dispensed` further up."""
        match self._phase:
            case PlungerPhase.DISPENSE:
                elapsed_s = asyncio.get_running_loop().time() - self._start_s
                max_moved = elapsed_s * self._pulses / self._syringe.pulses * TOO_FAST + SLACK_INCREMENTS
                return dispensed >= 0 and position >= self._target and self._start - position <= max_moved
            case PlungerPhase.FILL:
                over = OVERTRAVEL * self._syringe.increments
                return self._start <= position <= self._target + over
        return dispensed == 0

    async def _flow_ul_min(self) -> float:
        """Return the flow of the busy pump out of the syringe (µL/min); 0 while it fills."""
        dispenses = self._phase is PlungerPhase.DISPENSE
        if self._phase is PlungerPhase.UNKNOWN:
            dispenses = await self._line.valve() == self._syringe.valve_out
        return await self._line.number(b"?2") * self._syringe.pulse_ul_min if dispenses else 0.0

    # --- limits ---------------------------------------------------------------------------------------------

    def _speed(self, flow_ul_min: float) -> int:
        """Return the speed for a flow (pulses/s)."""
        low, high = MIN_PULSES * self._syringe.pulse_ul_min, self._steps.max_ul_min
        if not low * (1 - 1e-9) <= flow_ul_min <= high * (1 + 1e-9):
            raise self._refusal(
                f"{flow_ul_min:g} µL/min cannot be pumped; this syringe carries {low:g} to {high:g}",
                "ask for a flow in between, or fit another syringe and enter it in the rig file",
            )
        if (coarse := self._steps.too_coarse(flow_ul_min)) is not None:
            raise self._refusal(*coarse)
        return self._steps.count(flow_ul_min)

    def _strokes(self, volume_ul: float) -> list[int]:
        """Return the strokes of a dose (increments each), all about equal."""
        syringe = self._syringe
        max_ul = MAX_STROKES * syringe.volume_ul
        if not 0.0 < volume_ul <= max_ul:
            raise self._refusal(
                f"{volume_ul:g} µL cannot be given at once", f"give more than 0 and up to {max_ul:g} µL"
            )
        increments = round(volume_ul / syringe.increment_ul)
        given_ul = increments * syringe.increment_ul
        if abs(given_ul - volume_ul) > DOSE_TOLERANCE * volume_ul:
            raise self._refusal(
                f"of {volume_ul:g} µL its increments would make {given_ul:g}", "give more, or fit a smaller syringe"
            )
        count = -(-increments // syringe.increments)
        return [increments // count + (number < increments % count) for number in range(count)]

    def _refusal(self, what: str, action: str) -> Refused:
        return Refused(what, where=self.where, cause="the command does not fit the pump or its state", action=action)
