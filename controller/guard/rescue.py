"""Bring the outputs of a rig to their basal states, with only the rig's own drivers.

The heart circulates at its basal flow, gas flows at its basal mixture, the heater and the valves are off. Doses end by
their devices and are left alone, so that they stay measurable; a pump that cannot end its dose is stopped, and so is one
that presses through a valve, before the valve closes. CO2 is never raised before air is seen to flow, and is shut if that
takes too long: in CO2 alone the medium turns acid within a minute. An output that cannot be reached is retried until it can.
A driver that fails affects only its own output. Nothing is commanded on a link before it is known to lead to this rig
(:mod:`controller.guard.trust`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from controller.gate.readback import mismatch
from controller.guard.identities import Identities
from controller.guard.plan import GuardPlan
from controller.guard.trust import CheckedLink, GuardedLinks
from drivers.commands import Command, Dispense, Guarantee, Level, LevelStatus, PumpStatus, Run, Status, Stop
from drivers.device import Actuator
from drivers.errors import DeviceError, LinkDown
from drivers.transport.opener import Opener

RETRY_FIRST_S, RETRY_MAX_S = 0.1, 10.0
"""Delay between two attempts to reach an output: at first, and at most (s)."""
RETRY_DOWN_S = 1.0
"""The same (s) at most while nothing can be sent to it yet."""
LOOK_S = 0.5
"""Time between two looks at the links (s)."""
COMPANY_S = 2.0
"""Time (s) from the guard's first command for which CO2 that flows already may go on while air is not seen to flow: a link
needs a moment to open, and closing and opening the gas would harm the medium too."""
FLOWS_OVER = 0.5
"""Share of its set-point that must be measured of a gas before another may flow with it: with half the air, the basal CO2 is
a ninth of the mixture, and an empty bottle shows no flow at all."""


@dataclass(frozen=True, slots=True)
class _Output:
    link: CheckedLink
    actuator: Actuator
    command: Command


class Rescue:
    """Opens the links of a plan and brings its outputs to rest, each as soon as its own link answers.

    `tell` takes log lines; it must return at once and never fail.
    """

    def __init__(
        self, plan: GuardPlan, opener: Opener, tell: Callable[[str], None], identities: Identities | None = None
    ) -> None:
        """Build every driver of the plan. Without `identities` nothing is known of who was verified before."""
        self._plan = plan
        self._tell = tell
        loop = asyncio.get_running_loop()
        self._trust = GuardedLinks(plan.devices, opener, identities or Identities(loop.time), tell)
        self._links = self._trust.links
        self._outputs = {
            name: _Output(link, actuator, command)
            for link in self._links.values()
            for device in link.devices.values()
            for name, actuator in ((f"{device.config.name}.{point}", each) for point, each in device.actuators.items())
            if (command := _rest_of(plan, name, actuator)) is not None
        }
        used = {output.link.name for output in self._outputs.values()}
        for name in self._links.keys() - used:
            del self._links[name]  # its pumps end their doses themselves, so it is never opened
        self._work: dict[str, asyncio.Task[None]] = {}
        self._at_rest: set[str] = set()
        self._settled = {name: asyncio.Event() for name in self._outputs}
        """Set when an output is at rest, or its link is left alone."""

    async def run(self, patience_s: float, taken_over: Callable[[], bool] = lambda: False) -> list[str]:
        """Bring the outputs to rest. Return those that could not be brought to rest within `patience_s`.

        Stops, or does not begin, when `taken_over` returns True.
        """
        if taken_over():
            return self._give_way()
        self._trust.check()
        begun_s = asyncio.get_running_loop().time()
        self._work = {name: asyncio.create_task(self._rest(name, begun_s), name=name) for name in self._outputs}
        leaving = [asyncio.create_task(self._leave(link)) for link in self._links.values()]
        if any(link.url.scheme != "sim" for link in self._links.values()):
            leaving.append(asyncio.create_task(self._look(), name="look at the links"))
        try:
            if not await self._finished(list(self._work.values()), begun_s + patience_s, taken_over):
                return self._give_way()
        finally:
            for task in (*self._work.values(), *leaving):
                task.cancel()
            await asyncio.gather(*self._work.values(), *leaving, return_exceptions=True)
            await asyncio.gather(*(link.close() for link in self._links.values()))
        return [name for name in self._outputs if name not in self._at_rest]

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            self._trust.check()

    async def _leave(self, link: CheckedLink) -> None:
        """Close `link` when it is given up: its outputs stay as they are."""
        await link.left.wait()
        for name, output in self._outputs.items():
            if output.link is link:
                self._work[name].cancel()
                self._settled[name].set()
        await link.close()

    async def _finished(self, work: Sequence[asyncio.Task[None]], end_s: float, taken_over: Callable[[], bool]) -> bool:
        """Wait for all tasks until `end_s` (loop time). Return False if another controller has taken over."""
        loop = asyncio.get_running_loop()
        pending = set(work)
        while pending and loop.time() < end_s:
            _, pending = await asyncio.wait(pending, timeout=min(RETRY_MAX_S, end_s - loop.time()))
            if pending and taken_over():
                return False
        return True

    def _give_way(self) -> list[str]:
        self._tell("another controller has taken over and handles the rest")
        return []

    async def _rest(self, name: str, begun_s: float) -> None:
        output = self._outputs[name]
        if output.link.left.is_set():
            return
        await output.link.start()
        for pump in self._plan.valves.get(name, ()):
            if pump in self._outputs and not await self._rests(pump):
                return  # a pump against a closed valve bursts the line
        company = self._plan.only_with.get(name)
        if company is not None and not await self._keep_company(name, company, begun_s + COMPANY_S):
            return
        status = await self._until_done(name, lambda: self._command(name, output.command))
        self._at_rest.add(name)
        self._settled[name].set()
        self._tell(f"{name} {_what(output.command)}: {status}")
        if all(each in self._at_rest for each, other in self._outputs.items() if other.link is output.link):
            await output.link.close()  # a serial port has one master: free it as soon as its outputs are at rest

    async def _rests(self, name: str) -> bool:
        """Return when an output is at rest, or left alone; return whether it is at rest."""
        await self._settled[name].wait()
        return name in self._at_rest

    async def _keep_company(self, name: str, other: str, until_s: float) -> bool:
        """Wait until the gas `other` flows. The gas `name` is lowered meanwhile, and shut at `until_s` (loop time).

        Return whether `other` flows; not if its link is left alone.
        """
        await self._until_done(name, lambda: self._lower(name))
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until_s):
                if await self._rests(other):
                    return True
        status = await self._until_done(name, lambda: self._command(name, Level(0.0)))
        self._tell(f"{name} is shut until {other} is seen to flow: {status}")
        return await self._rests(other)

    async def _lower(self, name: str) -> Status:
        """Lower a gas to its basal flow if it is above it; never raise it."""
        output = self._outputs[name]
        status = await output.actuator.status()
        match output.command, status:
            case Level(value=basal), LevelStatus(setpoint=setpoint) if setpoint > basal:
                return await self._command(name, output.command)
        return status

    async def _until_done(self, name: str, work: Callable[[], Awaitable[Status]]) -> Status:
        """Retry `work` on an output until it succeeds. Each new error is logged once."""
        pause_s = RETRY_FIRST_S
        reported = ""
        while True:
            try:
                return await work()
            except Exception as error:  # a driver may fail on what a device answers: that output is retried too
                text = str(error) if isinstance(error, DeviceError) else f"its driver fails: {error!r}"
                if text != reported:
                    reported = text
                    self._tell(f"{name}: not yet: {reported}")
                await asyncio.sleep(pause_s)
                # A line that is down costs nothing to try, and its device may be verified at any moment.
                pause_s = min(2 * pause_s, RETRY_DOWN_S if isinstance(error, LinkDown) else RETRY_MAX_S)

    async def _command(self, name: str, command: Command) -> Status:
        actuator = self._outputs[name].actuator
        if isinstance(command, Stop):
            status = await actuator.status()
            if isinstance(status, PumpStatus) and not status.running:
                return status
        command = actuator.nearest(command)
        await actuator.apply(command)
        status = await actuator.status()
        wrong = mismatch(command, status, 0.0)
        if wrong is not None:
            raise DeviceError(wrong, where="readback", cause="the output did not follow", action="look at the device")
        if name in self._plan.only_with.values():
            _require_flow(status)
        return status


def _rest_of(plan: GuardPlan, name: str, actuator: Actuator) -> Command | None:
    """Return the state that an output is brought to; None if it is left alone."""
    if name in plan.dosing and actuator.guarantee_for(Dispense(1.0, 1.0, "any")) is not Guarantee.DEVICE:
        return Stop()
    return plan.rest.get(name)


def _require_flow(status: Status) -> None:
    """Raise :class:`DeviceError` for a gas that is set and hardly flows."""
    if isinstance(status, LevelStatus) and status.measured < FLOWS_OVER * status.setpoint:
        raise DeviceError(
            f"{status.setpoint:g} mL/min are set, and less than half of it flows",
            where="readback",
            cause="the bottle is empty, its valve is shut, or the flow is still rising",
            action="look at the gas supply",
        )


def _what(command: Command) -> str:
    return "circulates at its basal flow" if isinstance(command, Run) else "is at its basal state"
