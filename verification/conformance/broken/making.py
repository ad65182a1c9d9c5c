"""How a sound driver is broken: a layer around its sensors, its outputs, or the whole driver."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from drivers.commands import Command, Guarantee, Quality, Status
from drivers.conformance.bench import Bench
from drivers.device import Actuator, Device, DeviceConfig, Sensor
from drivers.results import AnalyserResult, ResultSource
from drivers.transport.link import Link
from drivers.transport.url import LinkUrl


@dataclass(frozen=True, slots=True)
class Points:
    """The points of a driver, known without a device."""

    sensors: Mapping[str, Sensor]
    actuators: Mapping[str, Actuator]

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of its outputs."""
        return frozenset(actuator.kind for actuator in self.actuators.values())


@dataclass(frozen=True, slots=True)
class Broken:
    """One broken driver: its defect `what`, and the `property` that must catch it."""

    name: str
    what: str
    property: str
    spoil: Callable[[Bench], Bench]
    fits: Callable[[Bench, Points], bool]
    """Whether a bench's driver can have this defect, and whether it is a defect there."""

    def __str__(self) -> str:
        return self.name


def points_of(bench: Bench) -> Points:
    """Return the points of a bench's driver."""
    device = bench.driver(Link(LinkUrl.parse("sim:conformance"), line=bench.driver.line), bench.config)
    return Points(device.sensors, device.actuators)


def remade(bench: Bench, change: Callable[[Device], None], **attributes: Any) -> Bench:
    """Return `bench` with a driver that is `change`d after its creation, and has other class `attributes`."""
    sound: Any = bench.driver

    def __init__(self: Any, link: Link, config: DeviceConfig) -> None:
        sound.__init__(self, link, config)
        change(self)

    return replace(bench, driver=type(f"Broken{sound.__name__}", (sound,), {"__init__": __init__, **attributes}))


class SensorLayer(Sensor):
    """A sensor that passes everything on; subclasses add a defect."""

    def __init__(self, inner: Sensor, point: str, bench: Bench) -> None:
        self.inner, self.point, self.bench = inner, point, bench
        self.unit = inner.unit
        self.kept: list[float] = []

    @property
    def quality(self) -> Quality:  # type: ignore[override]
        """Quality of the sound sensor."""
        return self.inner.quality

    @property
    def stable(self) -> bool:  # type: ignore[override]
        """That of the sound sensor."""
        return self.inner.stable

    async def read(self) -> float:
        """See :class:`Sensor`."""
        return await self.inner.read()


class ActuatorLayer(Actuator):
    """An output that passes everything on; subclasses add a defect."""

    def __init__(self, inner: Actuator, point: str, device: Device) -> None:
        self.inner, self.point, self.device = inner, point, device
        self.kind = inner.kind
        self.unit = getattr(inner, "unit", "")
        self.guarantee = inner.guarantee
        self.last: Command | None = None
        """The last command."""

    def guarantee_for(self, command: Command) -> Guarantee:
        """See :class:`Actuator`."""
        return self.inner.guarantee_for(command)

    def nearest(self, command: Command, max_value: float = math.inf) -> Command:
        """See :class:`Actuator`."""
        return self.inner.nearest(command, max_value)

    async def apply(self, command: Command) -> None:
        """See :class:`Actuator`."""
        await self.inner.apply(command)

    async def status(self) -> Status:
        """See :class:`Actuator`."""
        return await self.inner.status()


def around_sensors(layer: type[SensorLayer]) -> Callable[[Bench], Bench]:
    """Return a function that puts `layer` around every sensor whose truth the bench knows."""

    def spoil(bench: Bench) -> Bench:
        def change(device: Device) -> None:
            for point, sensor in device.sensors.items():
                if point in bench.senses and bench.senses[point].values:
                    device.sensors[point] = layer(sensor, point, bench)

        return remade(bench, change)

    return spoil


def around_actuators(layer: type[ActuatorLayer], *, first_only: bool = False) -> Callable[[Bench], Bench]:
    """Return a function that puts `layer` around every output, or around the first."""

    def spoil(bench: Bench) -> Bench:
        def change(device: Device) -> None:
            for point, actuator in list(device.actuators.items())[: 1 if first_only else None]:
                device.actuators[point] = layer(actuator, point, device)

        return remade(bench, change)

    return spoil


def around_calls(before: Callable[[Device], Awaitable[None]]) -> Callable[[Bench], Bench]:
    """Return a function that awaits `before` ahead of every reading, every result and every status."""

    def spoil(bench: Bench) -> Bench:
        def change(device: Device) -> None:
            for point, sensor in device.sensors.items():
                device.sensors[point] = _SensorAfter(sensor, point, bench, device, before)
            for point, actuator in device.actuators.items():
                device.actuators[point] = _ActuatorAfter(actuator, point, device, before)
            if device.results is not None:
                device.results = _ResultsAfter(device.results, device, before)

        return remade(bench, change)

    return spoil


class _SensorAfter(SensorLayer):
    def __init__(
        self, inner: Sensor, point: str, bench: Bench, device: Device, before: Callable[[Device], Awaitable[None]]
    ) -> None:
        super().__init__(inner, point, bench)
        self._device, self._before = device, before

    async def read(self) -> float:
        await self._before(self._device)
        return await self.inner.read()


class _ResultsAfter(ResultSource):
    def __init__(self, inner: ResultSource, device: Device, before: Callable[[Device], Awaitable[None]]) -> None:
        self.terms = inner.terms
        self._inner, self._device, self._before = inner, device, before

    async def fetch(self) -> AnalyserResult | None:
        await self._before(self._device)
        return await self._inner.fetch()

    def keep(self, result: AnalyserResult) -> None:
        self._inner.keep(result)


class _ActuatorAfter(ActuatorLayer):
    def __init__(
        self, inner: Actuator, point: str, device: Device, before: Callable[[Device], Awaitable[None]]
    ) -> None:
        super().__init__(inner, point, device)
        self._before = before

    async def status(self) -> Status:
        await self._before(self.device)
        return await self.inner.status()


def any_driver(bench: Bench, points: Points) -> bool:
    """Return True: every driver can have the defect."""
    return True


def any_output(bench: Bench, points: Points) -> bool:
    """It takes an output to break a driver so."""
    return bool(points.actuators)


def several_outputs(bench: Bench, points: Points) -> bool:
    """It takes more than one output to break a driver so."""
    return len(points.actuators) > 1
