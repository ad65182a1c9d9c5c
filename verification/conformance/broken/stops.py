"""Defects of stops: outputs that do not come to rest, start again, or are left on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from drivers.commands import (
    Command,
    Dispense,
    Guarantee,
    Level,
    Run,
    Stop,
    Switch,
)
from drivers.conformance.bench import Bench
from drivers.device import Device, Identity
from drivers.errors import DeviceError, Refused
from verification.conformance.broken.making import (
    ActuatorLayer,
    Broken,
    Points,
    any_output,
    around_actuators,
    remade,
    several_outputs,
)
from verification.conformance.broken.outputs import LATE_S, Believing


class _DeafToStop(ActuatorLayer):
    async def apply(self, command: Command) -> None:
        if not isinstance(command, Stop):
            await self.inner.apply(command)


class _StoppingLate(ActuatorLayer):
    async def apply(self, command: Command) -> None:
        if isinstance(command, Stop):
            self.later = asyncio.ensure_future(self._later())
        else:
            await self.inner.apply(command)

    async def _later(self) -> None:
        await asyncio.sleep(LATE_S)
        try:
            await self.inner.apply(Stop())
        except DeviceError:
            return


class _StoppingInSoftware(Believing):
    async def apply(self, command: Command) -> None:
        if not isinstance(command, Stop):
            await self.inner.apply(command)
        self.last = command


class _StoppingItsOwn(ActuatorLayer):
    async def apply(self, command: Command) -> None:
        if not isinstance(command, Stop) or self.last is not None:
            await self.inner.apply(command)
        self.last = None if isinstance(command, Stop) else command


class _Resuming(ActuatorLayer):
    """Starts again by itself, some seconds after a stop."""

    async def apply(self, command: Command) -> None:
        await self.inner.apply(command)
        if isinstance(command, Stop) and self.last is not None:
            self.later = asyncio.ensure_future(self._again(self.last))
        self.last = None if isinstance(command, Stop) else command

    async def _again(self, command: Command) -> None:
        await asyncio.sleep(LATE_S)
        try:
            await self.inner.apply(replace(command, dose_id="again") if isinstance(command, Dispense) else command)
        except DeviceError:
            return


class _Shielded(ActuatorLayer):
    async def apply(self, command: Command) -> None:
        self.later = asyncio.ensure_future(self.inner.apply(command))
        await asyncio.shield(self.later)


class _OnInDoubt(ActuatorLayer):
    async def apply(self, command: Command) -> None:
        try:
            await self.inner.apply(command)
        except Refused:
            raise
        except DeviceError:
            if not isinstance(command, Stop):
                again = (
                    replace(command, dose_id=f"{command.dose_id} again") if isinstance(command, Dispense) else command
                )
                await self.inner.apply(again)
            raise


class _AlwaysDevice(ActuatorLayer):
    def guarantee_for(self, command: Command) -> Guarantee:
        return Guarantee.DEVICE


class _Untimed(ActuatorLayer):
    async def apply(self, command: Command) -> None:
        await self.inner.apply(Switch(True) if isinstance(command, Switch) and command.on else command)


async def _close_nothing(self: Device) -> None:
    return


async def _close_the_first(self: Device) -> None:
    await next(iter(self.actuators.values())).apply(Stop())


def _identifying(after: Callable[[Device], object]) -> Callable[[Bench], Bench]:
    """Return a function that adds an action to each verification."""

    def spoil(bench: Bench) -> Bench:
        async def _identify(self: Device) -> Identity:
            identity = await bench.driver._identify(self)
            for actuator in self.actuators.values():
                await actuator.apply(after(self) or Stop())  # type: ignore[arg-type]
            return identity

        return remade(bench, lambda device: None, _identify=_identify)

    return spoil


def _starting_again(bench: Bench) -> Bench:
    async def _identify(self: Device) -> Identity:
        identity = await bench.driver._identify(self)
        for actuator in self.actuators.values():
            last = getattr(actuator, "last", None)
            if isinstance(last, Run | Switch | Level):
                await actuator.apply(last)
        return identity

    def change(device: Device) -> None:
        for point, actuator in device.actuators.items():
            device.actuators[point] = _Remembering(actuator, point, device)

    return remade(bench, change, _identify=_identify)


class _Remembering(ActuatorLayer):
    async def apply(self, command: Command) -> None:
        await self.inner.apply(command)
        self.last = None if isinstance(command, Stop) else command


def _guarded(bench: Bench, points: Points) -> bool:
    """Return whether the outputs continue when the host dies, and say so."""
    return any(
        each.guarantee_for(command) is not Guarantee.DEVICE
        for each in points.actuators.values()
        for command in (Run(1.0), Switch(True), Level(1.0))
    )


def _timed(bench: Bench, points: Points) -> bool:
    return any(
        each.kind == "switch" and each.guarantee_for(Switch(True, for_s=1.0)) is Guarantee.DEVICE
        for each in points.actuators.values()
    )


STOPS: tuple[Broken, ...] = (
    Broken("deaf to stop", "a stop is confirmed and not sent", "stopped", around_actuators(_DeafToStop), any_output),
    Broken(
        "stops late",
        "a stop is carried out after three seconds",
        "stopped",
        around_actuators(_StoppingLate),
        any_output,
    ),
    Broken(
        "stops in software",
        "a stop changes the status and not the output",
        "stopped",
        around_actuators(_StoppingInSoftware),
        any_output,
    ),
    Broken(
        "starts again", "a stopped output starts again by itself", "stopped", around_actuators(_Resuming), any_output
    ),
    Broken(
        "stops its own only",
        "a stop is sent only for what this driver has started",
        "restarted",
        around_actuators(_StoppingItsOwn),
        any_output,
    ),
    Broken("resumes", "after a power cut it starts what was on before", "power-cut", _starting_again, any_output),
    Broken(
        "verifies by stopping",
        "each verification stops the output",
        "verified-first",
        _identifying(lambda device: Stop()),
        any_output,
    ),
    Broken("cannot be cancelled", "a cancelled command goes on", "cancelled", around_actuators(_Shielded), any_output),
    Broken(
        "on when in doubt",
        "a command that failed is sent again before the failure is reported",
        "lost-reply",
        around_actuators(_OnInDoubt),
        any_output,
    ),
    Broken(
        "closes nothing",
        "closing leaves outputs on",
        "closed",
        lambda b: remade(b, lambda d: None, close=_close_nothing),
        any_output,
    ),
    Broken(
        "closes the first",
        "closing turns only the first output off",
        "closed",
        lambda b: remade(b, lambda d: None, close=_close_the_first),
        several_outputs,
    ),
    Broken(
        "guarantee overstated",
        "it says that the device ends everything by itself",
        "ends-itself",
        around_actuators(_AlwaysDevice),
        _guarded,
    ),
    Broken(
        "time forgotten",
        "a switch that should go off by itself stays on",
        "ends-itself",
        around_actuators(_Untimed),
        _timed,
    ),
)
"""Defects in how an output comes to rest."""
