"""Defects of pumps: wrong direction, wrong volume, doses given twice, wrong totals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from drivers.commands import Command, Dispense, Guarantee, PumpStatus, Run, Status, Stop
from drivers.conformance.bench import Bench
from drivers.device import Device, Identity
from drivers.errors import DeviceError, NoReply
from verification.conformance.broken.making import ActuatorLayer, Broken, Points, around_actuators, points_of, remade


class _Reversed(ActuatorLayer):
    """Reverses the sign of both command and status."""

    async def apply(self, command: Command) -> None:
        await self.inner.apply(Run(-command.flow_ul_min) if isinstance(command, Run) else command)

    async def status(self) -> Status:
        told = await self.inner.status()
        return replace(told, flow_ul_min=-told.flow_ul_min) if isinstance(told, PumpStatus) else told


class _OneWay(ActuatorLayer):
    async def apply(self, command: Command) -> None:
        await self.inner.apply(Run(abs(command.flow_ul_min)) if isinstance(command, Run) else command)


class _Ramped(ActuatorLayer):
    async def apply(self, command: Command) -> None:
        self.last = command
        if isinstance(command, Run) and abs(command.flow_ul_min) >= 10.0:
            await self.inner.apply(Run(command.flow_ul_min / 2.0))
            self.later = asyncio.ensure_future(self._more(command))
        else:
            await self.inner.apply(command)

    async def _more(self, command: Run) -> None:
        await asyncio.sleep(5.0)
        if self.last is command:
            try:
                await self.inner.apply(command)
            except DeviceError:
                return


class _Unsigned(ActuatorLayer):
    async def status(self) -> Status:
        told = await self.inner.status()
        return replace(told, flow_ul_min=abs(told.flow_ul_min)) if isinstance(told, PumpStatus) else told


class _TooMuch(ActuatorLayer):
    async def apply(self, command: Command) -> None:
        if isinstance(command, Dispense):
            command = replace(command, volume_ul=1.1 * command.volume_ul)
        await self.inner.apply(command)


class _FreshIds(ActuatorLayer):
    number = 0

    async def apply(self, command: Command) -> None:
        self.number += 1
        await self.inner.apply(replace(command, dose_id=f"{self.number}") if isinstance(command, Dispense) else command)


class _LastIdOnly(ActuatorLayer):
    number = 0

    async def apply(self, command: Command) -> None:
        if isinstance(command, Dispense):
            if self.last is None or command.dose_id != self.last.dose_id:  # type: ignore[union-attr]
                self.number += 1
            self.last = command
            await self.inner.apply(replace(command, dose_id=f"{self.number}"))
        else:
            await self.inner.apply(command)


class _Retrying(ActuatorLayer):
    """Repeats a dose whose confirmation was lost, without regard to what was given."""

    async def apply(self, command: Command) -> None:
        try:
            await self.inner.apply(command)
        except NoReply:
            if not isinstance(command, Dispense):
                raise
            await asyncio.sleep(5.0)
            await self.inner.apply(replace(command, dose_id=f"{command.dose_id} again"))


class _ByHost(ActuatorLayer):
    """Ends the doses in the host, and claims that the device does."""

    def guarantee_for(self, command: Command) -> Guarantee:
        return Guarantee.DEVICE if isinstance(command, Dispense) else Guarantee.GUARD

    async def apply(self, command: Command) -> None:
        if not isinstance(command, Dispense):
            await self.inner.apply(command)
            return
        await self.inner.apply(Run(command.flow_ul_min))
        self.later = asyncio.ensure_future(self._end(60.0 * command.volume_ul / command.flow_ul_min))

    async def _end(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        try:
            await self.inner.apply(Stop())
        except DeviceError:
            return


class _RunsOnly(ActuatorLayer):
    """Turns a dose into a continuous flow."""

    async def apply(self, command: Command) -> None:
        await self.inner.apply(Run(command.flow_ul_min) if isinstance(command, Dispense) else command)


class _Total(ActuatorLayer):
    """A pump with an altered total; `began_s` and `flow` are what was commanded."""

    began_s = flow = asked_ul = first_ul = 0.0

    def total(self, told: PumpStatus) -> float:
        """Return the wrong total."""
        raise NotImplementedError

    async def apply(self, command: Command) -> None:
        now_s = asyncio.get_running_loop().time()
        self.asked_ul += abs(self.flow) * (now_s - self.began_s) / 60.0
        self.began_s, self.flow = now_s, command.flow_ul_min if isinstance(command, Run) else 0.0
        await self.inner.apply(command)
        self.asked_ul += command.volume_ul if isinstance(command, Dispense) else 0.0
        self.last = command

    async def status(self) -> Status:
        told = await self.inner.status()
        return replace(told, delivered_ul=self.total(told)) if isinstance(told, PumpStatus) else told


class _TenTimes(_Total):
    def total(self, told: PumpStatus) -> float:
        return 10.0 * told.delivered_ul


class _Litres(_Total):
    def total(self, told: PumpStatus) -> float:
        return told.delivered_ul / 1000.0


class _None(_Total):
    def total(self, told: PumpStatus) -> float:
        return 0.0


class _Commanded(_Total):
    def total(self, told: PumpStatus) -> float:
        now_s = asyncio.get_running_loop().time()
        return self.asked_ul + abs(self.flow) * (now_s - self.began_s) / 60.0


class _Signed(_Total):
    """Counts down in reverse."""

    sum_ul = before_ul = 0.0

    def total(self, told: PumpStatus) -> float:
        grown_ul, self.before_ul = told.delivered_ul - self.before_ul, told.delivered_ul
        back = isinstance(self.last, Run) and self.last.flow_ul_min < 0.0
        self.sum_ul += -grown_ul if back else grown_ul
        return self.sum_ul


class _Forgetful(_Total):
    def total(self, told: PumpStatus) -> float:
        if not told.running:
            self.first_ul = told.delivered_ul
        return told.delivered_ul - self.first_ul


class _Vague(ActuatorLayer):
    async def status(self) -> Status:
        told = await self.inner.status()
        return replace(told, resolution_ul=1e9) if isinstance(told, PumpStatus) else told


class _Rereset(_Total):
    """Zeroed by each verification."""

    def total(self, told: PumpStatus) -> float:
        if getattr(self.device, "was_verified", False):
            self.first_ul = told.delivered_ul
            self.device.was_verified = False  # type: ignore[attr-defined]
        return told.delivered_ul - self.first_ul


def _reset(bench: Bench) -> Bench:
    async def _identify(self: Device) -> Identity:
        self.was_verified = True  # type: ignore[attr-defined]
        return await bench.driver._identify(self)

    return remade(around_actuators(_Rereset)(bench), lambda device: None, _identify=_identify)


def _pump(bench: Bench, points: Points) -> bool:
    return "pump" in points.kinds


def _two_ways(bench: Bench, points: Points) -> bool:
    return _pump(bench, points) and "reverse" in bench.driver.model.capabilities


def _doses(bench: Bench, points: Points) -> bool:
    return _pump(bench, points) and "dispense" in bench.driver.model.capabilities


def _ends(bench: Bench, points: Points) -> bool:
    return _doses(bench, points) and any(
        each.guarantee_for(Dispense(100.0, 100.0, "")) is Guarantee.DEVICE
        for each in points_of(bench).actuators.values()
    )


def _broken(
    name: str,
    what: str,
    prop: str,
    layer: type[ActuatorLayer],
    fits: Callable[[Bench, Points], bool] = _pump,
) -> Broken:
    return Broken(name, what, prop, around_actuators(layer), fits)


PUMPS: tuple[Broken, ...] = (
    _broken("direction reversed", "it pumps the other way, and its status hides it", "effect", _Reversed, _two_ways),
    _broken("one way only", "backwards is pumped forwards", "effect", _OneWay, _two_ways),
    _broken("ramped", "half of the flow comes at once and the rest after five seconds", "effect", _Ramped),
    _broken("status without sign", "the status tells of every flow as a forward one", "status", _Unsigned, _two_ways),
    _broken("dose too large", "every dose is 10 % too large", "dose", _TooMuch, _doses),
    _broken("dose ids ignored", "a dose that is commanded twice is given twice", "dose", _FreshIds, _doses),
    _broken("last dose id only", "only the last dose id is remembered", "dose", _LastIdOnly, _doses),
    _broken("dose retried", "a dose whose confirmation was lost is given again", "dose", _Retrying, _doses),
    _broken(
        "dose ended by the host", "the host ends doses, and it says that the device does", "ends-itself", _ByHost, _ends
    ),
    _broken("dose without end", "a dose is a flow without an end", "dose", _RunsOnly, _doses),
    _broken("total times 10", "the total is ten times too large", "total", _TenTimes),
    _broken("total in mL", "the total is in mL", "total", _Litres),
    _broken("no total", "the total is always 0", "total", _None),
    _broken(
        "total of commands", "the total counts what was commanded, not what was moved", "total", _Commanded, _doses
    ),
    _broken("total with sign", "the total falls while it pumps backwards", "total", _Signed, _two_ways),
    _broken("total of this run", "the total begins at zero at each start", "total", _Forgetful),
    _broken("total is vague", "it says that its total may be wrong by a cubic metre", "total", _Vague),
    Broken("total reset", "each verification sets the total to 0", "total", _reset, _pump),
)
"""Defects of any pump."""
