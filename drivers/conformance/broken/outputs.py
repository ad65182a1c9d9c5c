"""Broken outputs of any kind: no effect, another effect, a late one; stops that do not stop; statuses that are not true."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace

from drivers.commands import (
    Command,
    Dispense,
    Guarantee,
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
from drivers.conformance.broken.making import ActuatorLayer, Broken, Points, around_actuators, remade
from drivers.device import Device, Identity
from drivers.errors import DeviceError, Refused

LATE_S = 3.0


def status_of(command: Command | None, sound: Status) -> Status:
    """What a driver would say that believes in its last command."""
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
    """The same command for `factor` times as much."""
    match command:
        case Run(flow_ul_min=flow):
            return Run(factor * flow)
        case Dispense(volume_ul=volume):
            return replace(command, volume_ul=factor * volume)
        case Level(value=value):
            return Level(factor * value)
    return command


class Believing(ActuatorLayer):
    """Its status is what was commanded last."""

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
            for share in (0.5, 0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6):  # the greatest that it takes
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


class _Toggling(ActuatorLayer):
    async def apply(self, command: Command) -> None:
        twice = command == self.last
        await self.inner.apply(Stop() if twice else command)
        self.last = None if twice else command


class _Off(ActuatorLayer):
    async def status(self) -> Status:
        return status_of(None, await self.inner.status())


class _WrongMost(ActuatorLayer):
    def nearest(self, command: Command, most: float = math.inf) -> Command:
        return scaled(self.inner.nearest(command), 1.01) if isinstance(command, Run | Level) else command


class _Creeping(ActuatorLayer):
    def nearest(self, command: Command, most: float = math.inf) -> Command:
        return scaled(self.inner.nearest(command, most), 0.9) if isinstance(command, Run | Level) else command


class _AlwaysDevice(ActuatorLayer):
    def guarantee_for(self, command: Command) -> Guarantee:
        return Guarantee.DEVICE


class _Inverted(ActuatorLayer):
    async def apply(self, command: Command) -> None:
        await self.inner.apply(Switch(not command.on) if isinstance(command, Switch) else command)

    async def status(self) -> Status:
        told = await self.inner.status()
        return SwitchStatus(not told.on) if isinstance(told, SwitchStatus) else told


class _Untimed(ActuatorLayer):
    async def apply(self, command: Command) -> None:
        await self.inner.apply(Switch(True) if isinstance(command, Switch) and command.on else command)


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


async def _close_nothing(self: Device) -> None:
    return


async def _close_the_first(self: Device) -> None:
    await next(iter(self.actuators.values())).apply(Stop())


def _identifying(after: Callable[[Device], object]) -> Callable[[Bench], Bench]:
    """Have the driver do something more at each verification."""

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


def _any(bench: Bench, points: Points) -> bool:
    return bool(points.actuators)


def _gradual(bench: Bench, points: Points) -> bool:
    """Outputs of which there may be more or less; a valve has positions."""
    return bool(points.kinds & {"pump", "level"}) and all(each.unit != "position" for each in points.actuators.values())


def _several(bench: Bench, points: Points) -> bool:
    return len(points.actuators) > 1


def _kind(kind: str) -> Callable[[Bench, Points], bool]:
    return lambda bench, points: kind in points.kinds


def _guarded(bench: Bench, points: Points) -> bool:
    """Outputs that go on when the host dies, and say so."""
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


def _measuring(bench: Bench, points: Points) -> bool:
    return any(
        each.kind == "level" and point in bench.senses and bench.senses[point].values
        for point, each in points.actuators.items()
    )


def _all(layer: type[ActuatorLayer]) -> Callable[[Bench], Bench]:
    return around_actuators(layer)


OUTPUTS: tuple[Broken, ...] = (
    Broken("whole degrees", "a set-point is rounded to whole degrees", "effect", _all(_WholeDegrees), _degrees),
    Broken(
        "told in whole degrees",
        "the set-point that is told is rounded to whole degrees",
        "effect",
        _all(_ToldInWholeDegrees),
        _degrees,
    ),
    Broken(
        "no effect", "a command sends nothing, and the status says that it was done", "effect", _all(_NoEffect), _any
    ),
    Broken("nothing done", "a command is confirmed and only stops the output", "effect", _all(_NothingDone), _any),
    Broken("late", "a command is confirmed at once and carried out three seconds later", "effect", _all(_Late), _any),
    Broken(
        "a tenth of it",
        "the output does a tenth of what it is told, and the status hides it",
        "effect",
        _all(_TenthOf),
        _gradual,
    ),
    Broken(
        "5 % too little",
        "the output does 5 % less than it is told, and the status hides it",
        "effect",
        _all(_Some),
        _gradual,
    ),
    Broken(
        "clips in silence",
        "what is beyond its range is done as far as possible, without a word",
        "effect",
        _all(_Clipping),
        _gradual,
    ),
    Broken(
        "rounds to none", "what is too little for it is none, without a word", "effect", _all(_RoundingToNone), _gradual
    ),
    Broken(
        "outputs exchanged",
        "a command to one output reaches its neighbour",
        "effect",
        lambda b: remade(b, _exchanged),
        _several,
    ),
    Broken(
        "outputs together", "a command to one output reaches all", "effect", lambda b: remade(b, _together), _several
    ),
    Broken("refusal swallowed", "what the device refuses is confirmed", "ranges", _all(_Swallowing), _any),
    Broken("failure swallowed", "a command that failed is confirmed", "silence", _all(_SwallowingAll), _any),
    Broken("deaf to stop", "a stop is confirmed and not sent", "stopped", _all(_DeafToStop), _any),
    Broken("stops late", "a stop is carried out after three seconds", "stopped", _all(_StoppingLate), _any),
    Broken(
        "stops in software", "a stop changes the status and not the output", "stopped", _all(_StoppingInSoftware), _any
    ),
    Broken("starts again", "a stopped output starts again by itself", "stopped", _all(_Resuming), _any),
    Broken(
        "stops its own only",
        "a stop is sent only for what this driver has started",
        "restarted",
        _all(_StoppingItsOwn),
        _any,
    ),
    Broken("believes itself", "the status is what was commanded last", "restarted", _all(Believing), _any),
    Broken("resumes", "after a power cut it starts what was on before", "power-cut", _starting_again, _any),
    Broken(
        "verifies by stopping",
        "each verification stops the output",
        "verified-first",
        _identifying(lambda device: Stop()),
        _any,
    ),
    Broken("cannot be cancelled", "a cancelled command goes on", "cancelled", _all(_Shielded), _any),
    Broken(
        "on when in doubt",
        "a command that failed is sent again before the failure is told",
        "lost-reply",
        _all(_OnInDoubt),
        _any,
    ),
    Broken("toggles", "the same command twice turns the output off", "idempotent", _all(_Toggling), _any),
    Broken("always off", "the status never tells of an output that is on", "status", _all(_Off), _any),
    Broken(
        "closes nothing",
        "closing leaves outputs on",
        "closed",
        lambda b: remade(b, lambda d: None, close=_close_nothing),
        _any,
    ),
    Broken(
        "closes the first",
        "closing turns only the first output off",
        "closed",
        lambda b: remade(b, lambda d: None, close=_close_the_first),
        _several,
    ),
    Broken(
        "nearest is more", "the nearest command is 1 % above what is allowed", "nearest", _all(_WrongMost), _gradual
    ),
    Broken(
        "nearest creeps",
        "the nearest command to the nearest command is another one",
        "nearest",
        _all(_Creeping),
        _gradual,
    ),
    Broken(
        "guarantee overstated",
        "it says that the device ends everything by itself",
        "ends-itself",
        _all(_AlwaysDevice),
        _guarded,
    ),
    Broken("inverted", "on is off, and the status agrees", "effect", _all(_Inverted), _kind("switch")),
    Broken("time forgotten", "a switch that should go off by itself stays on", "ends-itself", _all(_Untimed), _timed),
    Broken(
        "measured is commanded",
        "the measured value of a level is its set-point",
        "measured",
        _all(_MeasuredIsCommanded),
        _measuring,
    ),
    Broken(
        "commanded is measured",
        "the set-point of a level is its measured value",
        "status",
        _all(_CommandedIsMeasured),
        _measuring,
    ),
)
"""What can be wrong with any output."""
