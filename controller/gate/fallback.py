"""Bring outputs to their pending states: after a stop, a trip, a lost lease or a failed command, and at the end.

A pending state is commanded until it is reached, with growing pauses. The first try and the last outcome are rows of the
journal. A valve comes to rest only when its pumps are known to stand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Coroutine, Mapping
from contextlib import suppress
from typing import Any

from controller.gate.actuation import Actuation
from controller.gate.outputs import GatedOutput
from controller.gate.readback import command_text
from controller.gate.recording import Recorder, act_row
from controller.gate.valves import Valves
from controller.safety.kernel import comes_to_rest
from controller.safety.terms import Intent, Limits, Response, Trip, Verdict
from drivers.commands import Command, PumpStatus
from drivers.errors import DeviceError

END_POLL_S = 0.5
END_GRACE_S = 2.0
"""How much longer than it should a dose may take to end (s)."""


class Fallback:
    """Commands pending states.

    Args:
        outputs: the outputs by name.
        limits: the kernel's limits.
        actuation: sends the commands.
        record: writes the journal's rows.
        alarm: called as `alarm(kind, source, detail)`.
        now_s: loop time (s).
        trips: returns the trips of the interlocks at this moment.
    """

    def __init__(
        self,
        outputs: Mapping[str, GatedOutput],
        limits: Limits,
        actuation: Actuation,
        record: Recorder,
        alarm: Callable[[str, str, str], None],
        now_s: Callable[[], float],
        trips: Callable[[], tuple[Trip, ...]],
    ) -> None:
        self._outputs = outputs
        self._actuation = actuation
        self._record = record
        self._alarm = alarm
        self._now_s = now_s
        self._trips = trips
        self.unanswered: set[str] = set()
        """Outputs that an emergency stop has commanded and that have not answered yet."""
        self.valves = Valves(outputs, limits, now_s, self.pay, alarm)

    def state_of(self, output: GatedOutput) -> Command:
        """Return the basal state, or rest if an interlock forbids the basal state."""
        return output.rest if self._tripped(output) else output.basal

    def _tripped(self, output: GatedOutput) -> bool:
        return any(trip.response is Response.OFF and output.name in trip.actuators for trip in self._trips())

    async def everything_now(self) -> None:
        """Command every output to its basal state at once, without waiting for the journal or a lock."""
        await self._in_order(self._rest_now)

    def ending(self, min_doses_ul: Mapping[str, float]) -> dict[str, float]:
        """Return the pumps whose dose should end by itself, with the remaining time (s).

        `min_doses_ul` holds the permitted pumps with their minimum dose (µL). A pump that an interlock holds at rest is not
        permitted.
        """
        now_s, found = self._now_s(), {}
        for name, min_ul in min_doses_ul.items():
            output = self._outputs.get(name)
            left_s = None if output is None else output.ends_dose_in_s(now_s, min_ul)
            if output is not None and left_s is not None and not self._tripped(output):
                found[name] = left_s
        return found

    async def everything(
        self, reason: str, ending: Mapping[str, float], without: Container[str] = ()
    ) -> tuple[str, ...]:
        """Bring every output except `without` to its basal state. Return those that failed.

        The pumps of `ending` (see :meth:`ending`) are awaited first. All others come to rest meanwhile.
        """

        async def fall(output: GatedOutput) -> None:
            if output.name in ending:
                await self._end_of_dose(output, ending[output.name])
            async with output.lock:
                output.owe(self.state_of(output), reason, self._now_s())
                await self.pay(output)

        async with asyncio.TaskGroup() as group:
            for name in ending:
                group.create_task(fall(self._outputs[name]))
            await self._in_order(fall, without={*ending, *(name for name in self._outputs if name in without)})
        await self._in_order(self._once_more, without)  # one lost reply is no reason to leave an output to the guard
        return tuple(name for name, output in self._outputs.items() if output.debt is not None)

    async def settle(self) -> None:
        """Command the pending state of every output that is due, all at the same time."""
        now_s = self._now_s()
        due = [output for output in self._outputs.values() if output.due(now_s) and not output.lock.locked()]
        await asyncio.gather(*(self._settle(output) for output in due))

    async def pay(self, output: GatedOutput) -> None:
        """Try to command the pending state of an output. The caller holds its lock."""
        debt = output.debt
        if debt is None:
            return
        if comes_to_rest(debt.command) and (pressing := await self.valves.stilled(output)) is not None:
            self.valves.wait(output, pressing)
            return
        if debt.tries == 0:
            pending = self._actuation.with_shortfall(output, Verdict(True, debt.command))
            self._record.write("act", act_row(Intent(output.name, debt.command, "gate", debt.why), pending))
        error = await self._actuation.bring(output, debt.command)
        if error is None:
            if debt.tries:
                body = {"actuator": output.name, "pending": command_text(debt.command), "ok": True}
                self._record.write("act.outcome", body)
            output.debt = None
            output.lease_until_s = None
            self._actuation.show(output)
            return
        if debt.tries == 0:
            self._record.write("act.outcome", {"actuator": output.name, "error": error})
            self._alarm("command_failed", output.name, f"it could not be brought to its basal state: {error}")
        debt.put_off(self._now_s())

    async def _rest_now(self, output: GatedOutput) -> None:
        busy = output.lock.locked()
        rest = self.state_of(output)
        pressed = comes_to_rest(rest) and self.valves.pressing(output) is not None
        self.unanswered.add(output.name)
        try:
            error = None if pressed else await self._actuation.bring(output, rest)
        finally:
            self.unanswered.discard(output.name)
        output.lease_until_s = output.announced = None
        output.debt = None
        if busy or pressed or error is not None:
            # A command on its way may have arrived after this one: command the state again when that one is through. A valve
            # closes when its pump is known to stand.
            output.owe(rest, "emergency stop", self._now_s())
        self._actuation.show(output)

    async def _end_of_dose(self, output: GatedOutput, left_s: float) -> None:
        """Wait until a pump says that it stands, for a little longer than its dose takes."""
        until_s = self._now_s() + left_s + END_GRACE_S
        while self._now_s() < until_s:
            await asyncio.sleep(min(END_POLL_S, until_s - self._now_s()))
            with suppress(DeviceError):
                status = await output.actuator.status()
                if isinstance(status, PumpStatus) and not status.running:
                    return

    async def _once_more(self, output: GatedOutput) -> None:
        if output.debt is not None:
            async with output.lock:
                await self.pay(output)

    async def _settle(self, output: GatedOutput) -> None:
        if output.debt is None and output.ends_s is not None:
            await asyncio.sleep(max(0.0, output.ends_s - self._now_s()))
        async with output.lock:
            # Another pulse may have begun meanwhile and end later.
            if output.ends_s is not None and self._now_s() >= output.ends_s:
                output.owe(output.rest, "the pulse is over, and the device does not end it", self._now_s())
            await self.pay(output)

    async def _in_order(
        self, work: Callable[[GatedOutput], Coroutine[Any, Any, None]], without: Container[str] = ()
    ) -> None:
        """Run `work` on all outputs except `without` at once, but on valves only after the pumps."""
        outputs = [output for name, output in self._outputs.items() if name not in without]
        await asyncio.gather(*(work(output) for output in outputs if output.name not in self.valves))
        await asyncio.gather(*(work(output) for output in outputs if output.name in self.valves))
