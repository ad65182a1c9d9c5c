"""A driver on a started link to a simulated device, under virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from controller.rig.description import DeviceSpec
from drivers.device import ChannelConfig, Device, DeviceConfig
from drivers.errors import DeviceError
from drivers.transport.link import Link
from drivers.transport.url import LinkUrl
from sim.devices.port import PlantPort
from sim.devices.wire import Bus, WireDevice
from sim.serving import open_in_memory
from tests.sim.bench import RecordingPlant, spec

D = TypeVar("D", bound=Device)
W = TypeVar("W", bound=WireDevice)


@dataclass(frozen=True)
class Pair(Generic[D, W]):
    """Both ends of one line."""

    driver: D
    box: W
    plant: RecordingPlant
    line: Bus
    failures: dict[str, DeviceError]

    def lose_next(self, replies: int = 1) -> None:
        """The next replies never arrive."""
        left = [replies]

        def tamper(data: bytes) -> bytes:
            left[0] -= 1
            return b"" if left[0] >= 0 else data

        self.line.tamper = tamper


@asynccontextmanager
async def against(
    driver: type[D],
    build: Callable[[str, DeviceSpec, PlantPort], W],
    *,
    address: str = "",
    settings: Mapping[str, float | str | bool] | None = None,
    box_settings: Mapping[str, float | str | bool] | None = None,
    channels: Mapping[str, str] | None = None,
    plant: RecordingPlant | None = None,
    verified: bool = True,
    prepare: Callable[[W], None] | None = None,
) -> AsyncIterator[Pair[D, W]]:
    """`driver` against the simulated device that `build` makes, both called `d`; `channels` map number to point.

    The box has the driver's settings unless `box_settings` says otherwise; `prepare` is given it before it is asked.
    """
    plant = plant or RecordingPlant()
    given = dict(settings or {})
    theirs = given if box_settings is None else dict(box_settings)
    numbers = {number: (point, None) for number, point in (channels or {}).items()}
    box = build("d", spec(address=address, channels=numbers, settings=theirs), plant)
    line = Bus("sim:d", baud=box.baud)
    line.attach(box)
    box.power_on()
    if prepare is not None:
        prepare(box)

    async def opener(*_: object) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return open_in_memory(line)

    link = Link(LinkUrl.parse("sim:d"), opener, line=driver.line)
    points = {number: ChannelConfig(point) for number, point in (channels or {}).items()}
    device = driver(link, DeviceConfig("d", address, given, points))
    failures = await link.start()
    try:
        if verified:
            assert not failures, failures
        yield Pair(device, box, plant, line, failures)
    finally:
        await link.close()
        box.power_off()
