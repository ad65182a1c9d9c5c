"""A pump's driver on a line with the simulator of that pump: what both make of each other, under virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from drivers.commands import PumpStatus
from drivers.device import Actuator, Device, DeviceConfig
from drivers.transport.link import Link
from drivers.transport.opener import Streams
from drivers.transport.url import LineSettings, LinkUrl
from sim.devices.wire import Bus, WireDevice
from sim.serving import open_in_memory
from tests.sim.bench import Build, RecordingPlant, device_on_a_line


@dataclass
class Joined:
    """A started driver and what it talks to."""

    device: Device
    sim: WireDevice
    plant: RecordingPlant
    link: Link
    line: Bus

    @property
    def pump(self) -> Actuator:
        """Its only actuator."""
        return self.device.actuators["pump"]

    @property
    def flow(self) -> float:
        """What the simulated motor now gives (µL/min)."""
        return self.plant.last("d.pump")

    def moved(self) -> float:
        """What the simulated motor has moved until now (µL)."""
        return self.plant.moved("d.pump", asyncio.get_running_loop().time())

    async def status(self) -> PumpStatus:
        """What the driver reads back."""
        status = await self.pump.status()
        assert isinstance(status, PumpStatus)
        return status


@asynccontextmanager
async def joined(
    driver: type[Device],
    build: Build,
    *,
    settings: Mapping[str, float | str | bool] | None = None,
    sim_settings: Mapping[str, float | str | bool] | None = None,
    address: str = "",
    verified: bool = True,
) -> AsyncIterator[Joined]:
    """`driver` with `settings` against `build`, which has the same ones and `sim_settings`, on a line of their own."""
    plant = RecordingPlant()
    told = dict(settings or {})
    sim = device_on_a_line(build, plant, address=address, settings={**told, **(sim_settings or {})})
    line = sim.line
    assert line is not None

    async def opener(_url: LinkUrl, _settings: LineSettings) -> Streams:
        return open_in_memory(line)

    link = Link(LinkUrl.parse("sim:pump"), opener, line=driver.line)
    device = driver(link, DeviceConfig("d", address, told))
    failures = await link.start()
    try:
        assert not (verified and failures), failures
        yield Joined(device, sim, plant, link, line)
    finally:
        await link.close()
        sim.power_off()
