"""Defects of outputs: no effect, another effect, a late one; wrong statuses."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace

from drivers.commands import (
    Command,
    Dispense,
    Level,
    LevelStatus,
    PumpStatus,
    Run,
    Status,
    Stop,
    Switch,
    SwitchStatus,
)
from drivers.conformance.bench import Bench
from drivers.device import Device
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

LATE_S = 3.0


def status_of(command: Command | None, sound: Status) -> Status:
    """Return the status of a driver that trusts its last command."""
    match sound, command:
        case PumpStatus(), Run(flow_ul_min=flow) | Dispense(flow_ul_min=flow):
            return replace(sound, running=True, flow_ul_min=flow)
        case PumpStatus(), _:
            return replace(sound, running=False, flow_ul_min=0.0)
        case SwitchStatus(), Switch(on=on):
            return SwitchStatus(on)
        case SwitchStatus(), _:
            return SwitchStatus(False)
        case LevelStatus(), Level(value=value):
            return replace(sound, setpoint=value)
        case LevelStatus(), _:
            return replace(sound, setpoint=0.0)
    return sound


def scaled(command: Command, factor: float) -> Command:
    """Return the same command for `factor` times the amount."""
    match command:
        case Run(flow_ul_min=flow):
            return Run(factor * flow)
        case Dispense(volume_ul=volume):
            return replace(command, volume_ul=factor * volume)
        case Level(value=value):
            return Level(factor * value)
    return command


class Believing(ActuatorLayer):
    """Reports the last command as its status."""

    async def apply(self, command: Command) -> None:
        """See :class:`ActuatorLayer`."""
        await self.inner.apply(command)
        self.last = command

    async def status(self) -> Status:
        """See :class:`ActuatorLayer`."""
        return status_of(self.last, await self.inner.status())


class _NoEffect(Believing):
    async def apply(self, command: Command) -> None:
        if isinstance(command, Stop):
            await self.inner.apply(command)
        else:
            await self.inner.status()
        self.last = command


class _NothingDone(ActuatorLayer):
    async def apply(self, command: Command) -> None:
        await self.inner.apply(Stop())


class _Late(Believing):
    async def apply(self, command: Command) -> None:
        if isinstance(command, Stop):
            await self.inner.apply(command)
        else:
            self.later = asyncio.ensure_future(self._later(command))
        self.last = command

    async def _later(self, command: Command) -> None:
        await asyncio.sleep(LATE_S)
        if self.last is command:
            try:
                await self.inner.apply(command)
            except DeviceError:
                return


class _Scaled(ActuatorLayer):
    factor = 1.0

    async def apply(self, command: Command) -> None:
        await self.inner.apply(scaled(command, self.factor))

    async def status(self) -> Status:
        match told := await self.inner.status():
            case PumpStatus():
                return replace(told, flow_ul_min=told.flow_ul_min / self.factor)
            case LevelStatus():
                return replace(told, setpoint=told.setpoint / self.factor)
        return told


class _TenthOf(_Scaled):
    factor = 0.1


class _Some(_Scaled):
    factor = 0.95


class _Clipping(Believing):
    async def apply(self, command: Command) -> None:
        try:
            await self.inner.apply(command)
        except Refused:
            if isinstance(command, Dispense | Switch) or not abs(_value(command)) > 1e-9:
                raise
            for share in (0.5, 0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6):  # the largest that it accepts
                try:
                    await self.inner.apply(scaled(command, share))
                    break
                except Refused:
                    continue
        self.last = command


class _RoundingToNone(Believing):
    async def apply(self, command: Command) -> None:
        try:
            await self.inner.apply(command)
        except Refused:
            if not 0.0 < abs(_value(command)) < 0.1:
                raise
            await self.inner.apply(Stop())
        self.last = command


class _Swallowing(ActuatorLayer):
    async def apply(self, command: Command) -> None:
        try:
            await self.inner.apply(command)
        except Refused:
            return


class _SwallowingAll(ActuatorLayer):
    async def apply(self, command: Command) -> None:
        try:
            await self.inner.apply(command)
        except DeviceError:
            return


class _Toggling(ActuatorLayer):
    async def apply(self, command: Command) -> None:
        twice = command == self.last
        await self.inner.apply(Stop() if twice else command)
        self.last = None if twice else command


class _Off(ActuatorLayer):
    async def status(self) -> Status:
        return status_of(None, await self.inner.status())


class _AboveLimit(ActuatorLayer):
    def nearest(self, command: Command, max_value: float = math.inf) -> Command:
        return scaled(self.inner.nearest(command), 1.01) if isinstance(command, Run | Level) else command


class _Creeping(ActuatorLayer):
    def nearest(self, command: Command, max_value: float = math.inf) -> Command:
        return scaled(self.inner.nearest(command, max_value), 0.9) if isinstance(command, Run | Level) else command


class _Inverted(ActuatorLayer):
    async def apply(self, command: Command) -> None:
        await self.inner.apply(Switch(not command.on) if isinstance(command, Switch) else command)

    async def status(self) -> Status:
        told = await self.inner.status()
        return SwitchStatus(not told.on) if isinstance(told, SwitchStatus) else told


class _WholeDegrees(ActuatorLayer):
    async def apply(self, command: Command) -> None:
        await self.inner.apply(Level(float(round(command.value))) if _finite(command) else command)  # type: ignore[union-attr]


class _ToldInWholeDegrees(ActuatorLayer):
    async def status(self) -> Status:
        told = await self.inner.status()
        return replace(told, setpoint=float(round(told.setpoint))) if isinstance(told, LevelStatus) else told


class _MeasuredIsCommanded(ActuatorLayer):
    async def status(self) -> Status:
        told = await self.inner.status()
        return replace(told, measured=told.setpoint) if isinstance(told, LevelStatus) else told


class _CommandedIsMeasured(ActuatorLayer):
    async def status(self) -> Status:
        told = await self.inner.status()
        return replace(told, setpoint=told.measured) if isinstance(told, LevelStatus) else told


def _value(command: Command) -> float:
    match command:
        case Run(flow_ul_min=flow) | Dispense(flow_ul_min=flow):
            return flow
        case Level(value=value):
            return value
    return 0.0


def _finite(command: Command) -> bool:
    return isinstance(command, Level) and math.isfinite(command.value)


def _degrees(bench: Bench, points: Points) -> bool:
    return any(each.unit == "degC" for each in points.actuators.values())


def _exchanged(device: Device) -> None:
    points = list(device.actuators)
    actuators = [device.actuators[point] for point in points]
    device.actuators.update(zip(points, [*actuators[1:], actuators[0]], strict=True))


def _together(device: Device) -> None:
    inner = list(device.actuators.values())

    class Together(ActuatorLayer):
        async def apply(self, command: Command) -> None:
            for each in inner:
                await each.apply(command)

    for point, actuator in device.actuators.items():
        device.actuators[point] = Together(actuator, point, device)


def _gradual(bench: Bench, points: Points) -> bool:
    """Return whether the outputs are gradual; a valve has positions."""
    return bool(points.kinds & {"pump", "level"}) and all(each.unit != "position" for each in points.actuators.values())


def _kind(kind: str) -> Callable[[Bench, Points], bool]:
    return lambda bench, points: kind in points.kinds


def _measuring(bench: Bench, points: Points) -> bool:
    return any(
        each.kind == "level" and point in bench.senses and bench.senses[point].values
        for point, each in points.actuators.items()
    )


OUTPUTS: tuple[Broken, ...] = (
    Broken(
        "whole degrees", "a set-point is rounded to whole degrees", "effect", around_actuators(_WholeDegrees), _degrees
    ),
    Broken(
        "told in whole degrees",
        "the reported set-point is rounded to whole degrees",
        "effect",
        around_actuators(_ToldInWholeDegrees),
        _degrees,
    ),
    Broken(
        "no effect",
        "a command sends nothing, and the status says that it was done",
        "effect",
        around_actuators(_NoEffect),
        any_output,
    ),
    Broken(
        "nothing done",
        "a command is confirmed and only stops the output",
        "effect",
        around_actuators(_NothingDone),
        any_output,
    ),
    Broken(
        "late",
        "a command is confirmed at once and carried out three seconds later",
        "effect",
        around_actuators(_Late),
        any_output,
    ),
    Broken(
        "a tenth of it",
        "the output does a tenth of what was commanded, and the status hides it",
        "effect",
        around_actuators(_TenthOf),
        _gradual,
    ),
    Broken(
        "5 % too little",
        "the output does 5 % less than was commanded, and the status hides it",
        "effect",
        around_actuators(_Some),
        _gradual,
    ),
    Broken(
        "clips in silence",
        "what is beyond its range is done as far as possible, without a word",
        "effect",
        around_actuators(_Clipping),
        _gradual,
    ),
    Broken(
        "rounds to none",
        "what is too little for it is none, without a word",
        "effect",
        around_actuators(_RoundingToNone),
        _gradual,
    ),
    Broken(
        "outputs exchanged",
        "a command to one output reaches its neighbour",
        "effect",
        lambda b: remade(b, _exchanged),
        several_outputs,
    ),
    Broken(
        "outputs together",
        "a command to one output reaches all",
        "effect",
        lambda b: remade(b, _together),
        several_outputs,
    ),
    Broken(
        "refusal swallowed", "what the device refuses is confirmed", "ranges", around_actuators(_Swallowing), any_output
    ),
    Broken(
        "failure swallowed",
        "a command that failed is confirmed",
        "silence",
        around_actuators(_SwallowingAll),
        any_output,
    ),
    Broken(
        "believes itself", "the status is what was commanded last", "restarted", around_actuators(Believing), any_output
    ),
    Broken(
        "toggles", "the same command twice turns the output off", "idempotent", around_actuators(_Toggling), any_output
    ),
    Broken(
        "always off", "the status never tells of an output that is on", "status", around_actuators(_Off), any_output
    ),
    Broken(
        "nearest is more",
        "the nearest command is 1 % above what is allowed",
        "nearest",
        around_actuators(_AboveLimit),
        _gradual,
    ),
    Broken(
        "nearest creeps",
        "the nearest command to the nearest command is another one",
        "nearest",
        around_actuators(_Creeping),
        _gradual,
    ),
    Broken("inverted", "on is off, and the status agrees", "effect", around_actuators(_Inverted), _kind("switch")),
    Broken(
        "measured is commanded",
        "the measured value of a level is its set-point",
        "measured",
        around_actuators(_MeasuredIsCommanded),
        _measuring,
    ),
    Broken(
        "commanded is measured",
        "the set-point of a level is its measured value",
        "status",
        around_actuators(_CommandedIsMeasured),
        _measuring,
    ),
)
"""Defects in the effect and status of an output."""
