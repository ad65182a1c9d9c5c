"""The guard: a second, small process that outlives the controller and brings its outputs to rest.

`choroid run` starts it with one end of a pipe. The controller writes a byte a few times a second, as long as it ticks.
When the pipe closes (the controller is dead) or falls silent (it hangs), the guard opens the links itself, with the same
drivers, and commands the basal states: the heart circulates at its basal flow, gas flows at its basal mixture, the heater
and the valves are off. Doses end by their devices and are left alone, so that they stay measurable; a pump that cannot end
its dose is stopped, and so is one that presses through a valve, before the valve closes. CO2 is never raised before air is
seen to flow, and is shut when that takes too long: in CO2 alone the medium turns acid within a minute. A controller that
hangs is killed first, because two masters on one line are worse than none. What cannot be reached is tried again until it
is, or until another controller has taken over. Whatever a driver trips over, and whether or not the disk takes the log,
the rest of it goes on.

    python -m controller.guard PLAN PID FD LOG [SILENCE_S]

PLAN is the file that :class:`controller.guard_plan.GuardPlan` was written to. Ends with 0 when the controller ended in
order, 1 when the outputs were brought to rest or another controller has taken over, 2 when not all could be.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from controller.clock import Clock
from controller.guard_log import GuardLog
from controller.guard_plan import GuardPlan
from controller.ownership import OWNER, holders
from controller.safety.readback import mismatch
from drivers.commands import Dispense, Guarantee, LevelStatus
from drivers.device import Actuator, Command, DeviceError, Level, PumpStatus, Run, Status, Stop
from drivers.registry import build, load_third_party, open_link
from drivers.transport.opener import Opener, open_real

if TYPE_CHECKING:
    from drivers.transport.link import Link

ALIVE, GOODBYE = b".", b"q"
"""What the guard hears: that the controller lives; that it has ended in order, with nothing left to guard."""
SILENCE_S = 5.0
"""A controller that has been silent for so long hangs. A disk that is slow for a second is no reason to kill it: what it
has commanded is safe by itself meanwhile (design §4.5)."""
PATIENCE_S = 3600.0
RETRY_FIRST_S, RETRY_MOST_S = 0.1, 10.0
"""An output that cannot be reached is tried for so long, this often at first and at last."""
COMPANY_S = 2.0
"""So long, from the guard's first command on, CO2 that flows already may go on while air is not seen to: a line needs a
moment to open, and gas that is shut and opened again does the medium no good either."""
FLOWS_OVER = 0.5
"""The share of its set-point that must be measured of a gas before another may flow beside it: with half the air, the basal
CO2 is a ninth of the mixture, and an empty bottle shows nothing at all."""
LAST_WORDS_S = 5.0
"""How long the guard waits at its end for a disk that does not take its log."""


def guard_main(
    plan_path: Path, pid: int, pipe: int, log_path: Path, silence_s: float = SILENCE_S, patience_s: float = PATIENCE_S
) -> int:
    """Watch the controller `pid` through `pipe`; returns the exit status when there is nothing left to do."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the controller; the guard sees how it ends
    plan = GuardPlan.from_json(plan_path.read_text(encoding="utf-8"))  # now: the file may be gone by then
    load_third_party()
    log = GuardLog(log_path)
    why = watch(pipe, silence_s)
    if why is None:
        return 0
    if why == SILENT:
        _kill(pid)
    logging.disable(logging.CRITICAL)  # its own log tells it all, and nobody reads standard error any more
    owner = log_path.with_name(OWNER)
    status = asyncio.run(_bring_to_rest(plan, why, log, patience_s, lambda: _taken_over(owner, pid)))
    log.close(LAST_WORDS_S)
    return status


DEAD, SILENT = "dead", "silent"


def watch(pipe: int, silence_s: float) -> str | None:
    """Wait for the end: None when it was in order, else whether the controller is dead or only silent.

    Silence counts from the first sign of life on: until then the controller is still connecting.
    """
    lives = False
    while True:
        ready, _, _ = select.select([pipe], [], [], silence_s if lives else None)
        if not ready:
            return SILENT
        data = os.read(pipe, 4096)
        if not data:
            return DEAD
        if GOODBYE in data:
            return None
        lives = True


async def _bring_to_rest(
    plan: GuardPlan, why: str, log: GuardLog, patience_s: float, taken_over: Callable[[], bool]
) -> int:
    clock = Clock(follow_system=True)

    def tell(text: str) -> None:
        log.add(f"{clock.utc_text()} guard: {text}")

    begun_s = clock.now_s()
    tell(f"the controller is {why}; bringing rig {plan.rig} to its basal state")
    rescue = Rescue(plan, open_real, tell)
    left = await rescue.run(patience_s, taken_over)
    for name in left:
        tell(f"{name}: FAILED, not at rest; look at it yourself")
    tell(f"done after {clock.now_s() - begun_s:.2f} s")
    return 2 if left else 1


@dataclass(frozen=True, slots=True)
class _Output:
    link: Link
    actuator: Actuator
    command: Command


class Rescue:
    """Opens the links of a plan and brings its outputs to rest, each as soon as its own link answers.

    `tell` takes what there is to say; it must return at once and never fail.
    """

    def __init__(self, plan: GuardPlan, opener: Opener, tell: Callable[[str], None]) -> None:
        self._plan = plan
        self._tell = tell
        models: dict[str, list[str]] = {}
        for device in plan.devices:
            models.setdefault(device.link, []).append(device.model)
        self._links = {name: open_link(name, of, opener) for name, of in models.items()}
        self._outputs = {
            f"{device.name}.{point}": _Output(self._links[device.link], actuator, command)
            for device in plan.devices
            for point, actuator in build(device.model, self._links[device.link], device.config).actuators.items()
            if (command := _rest_of(plan, f"{device.name}.{point}", actuator)) is not None
        }
        self._at_rest = {name: asyncio.Event() for name in self._outputs}

    async def run(self, patience_s: float, taken_over: Callable[[], bool] = lambda: False) -> list[str]:
        """Returns the outputs that could not be brought to rest within `patience_s`.

        Nothing is done when `taken_over`, and no more once it is.
        """
        if taken_over():
            return self._give_way()
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        end_s = begun_s + patience_s
        work = [asyncio.create_task(self._rest(name, begun_s), name=name) for name in self._outputs]
        try:
            pending = set(work)
            while pending and loop.time() < end_s:
                _, pending = await asyncio.wait(pending, timeout=min(RETRY_MOST_S, end_s - loop.time()))
                if pending and taken_over():
                    return self._give_way()
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)
            await asyncio.gather(*(link.close() for link in self._links.values()))
        return [name for name, event in self._at_rest.items() if not event.is_set()]

    def _give_way(self) -> list[str]:
        self._tell("another controller has taken over; the rest is its business")
        return []

    async def _rest(self, name: str, begun_s: float) -> None:
        output = self._outputs[name]
        await output.link.start()
        for pump in self._plan.valves.get(name, ()):
            if pump in self._at_rest:
                await self._at_rest[pump].wait()  # a pump against a closed valve bursts the line
        if (company := self._plan.beside.get(name)) is not None:
            await self._keep_company(name, company, begun_s + COMPANY_S)
        status = await self._until_done(name, lambda: self._command(name, output.command))
        self._at_rest[name].set()
        self._tell(f"{name} {_what(output.command)}: {status}")
        if all(self._at_rest[each].is_set() for each, other in self._outputs.items() if other.link is output.link):
            await output.link.close()  # a serial port has one master: whoever comes to look must not wait for the rest

    async def _keep_company(self, name: str, other: str, until_s: float) -> None:
        """Wait until the gas `other` flows; the gas `name` is lowered meanwhile, and shut from `until_s` (loop time) on."""
        await self._until_done(name, lambda: self._lower(name))
        flows = self._at_rest[other]
        try:
            async with asyncio.timeout_at(until_s):
                await flows.wait()
        except TimeoutError:
            status = await self._until_done(name, lambda: self._command(name, Level(0.0)))
            self._tell(f"{name} is shut until {other} is seen to flow: {status}")
            await flows.wait()

    async def _lower(self, name: str) -> Status:
        """Bring a gas down to its basal flow if it is above; never up."""
        output = self._outputs[name]
        status = await output.actuator.status()
        match output.command, status:
            case Level(value=basal), LevelStatus(setpoint=setpoint) if setpoint > basal:
                return await self._command(name, output.command)
        return status

    async def _until_done(self, name: str, work: Callable[[], Awaitable[Status]]) -> Status:
        """Try `work` on an output until it succeeds; what goes wrong is told once."""
        pause_s = RETRY_FIRST_S
        told = ""
        while True:
            try:
                return await work()
            except Exception as error:  # a driver may trip over what a device says: that output is tried again as well
                text = str(error) if isinstance(error, DeviceError) else f"its driver fails: {error!r}"
                if text != told:
                    told = text
                    self._tell(f"{name}: not yet: {told}")
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_MOST_S)

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
        if name in self._plan.beside.values():
            _require_flow(status)
        return status


def _rest_of(plan: GuardPlan, name: str, actuator: Actuator) -> Command | None:
    """What an output is to be brought to; None for one that is left alone."""
    if name in plan.dosing and actuator.guarantee_for(Dispense(1.0, 1.0, "any")) is not Guarantee.DEVICE:
        return Stop()
    return plan.rest.get(name)


def _require_flow(status: Status) -> None:
    """Raises :class:`DeviceError` for a gas that is set and hardly flows."""
    if isinstance(status, LevelStatus) and status.measured < FLOWS_OVER * status.setpoint:
        raise DeviceError(
            f"{status.setpoint:g} mL/min are set, and less than half of it flows",
            where="readback",
            cause="the bottle is empty, its valve is shut, or the flow is still rising",
            action="look at the gas supply",
        )


def _what(command: Command) -> str:
    return "circulates at its basal flow" if isinstance(command, Run) else "is at its basal state"


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # it died by itself in between


def _taken_over(owner: Path, dead_pid: int) -> bool:
    """Whether a controller other than the dead one holds the journal."""
    return any(pid != dead_pid for pid in holders(owner))


if __name__ == "__main__":
    plan_file, controller_pid, pipe_fd, log_file = sys.argv[1:5]
    quiet_s = float(sys.argv[5]) if len(sys.argv) > 5 else SILENCE_S
    sys.exit(guard_main(Path(plan_file), int(controller_pid), int(pipe_fd), Path(log_file), quiet_s))
