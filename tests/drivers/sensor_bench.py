"""A sensor's driver on a line with the simulator of that sensor: what both make of each other, under virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

from drivers.device import Device, DeviceConfig
from drivers.transport.link import Link
from drivers.transport.opener import Streams
from drivers.transport.url import LineSettings, LinkUrl
from sim.devices.wire import WireDevice
from sim.serving import open_in_memory
from tests.sim.bench import Build, RecordingPlant, device_on_a_line

D = TypeVar("D", bound=Device)


@asynccontextmanager
async def simulated(
    driver: type[D],
    build: Build,
    plant: RecordingPlant,
    *,
    settings: Mapping[str, float | str | bool] | None = None,
    address: str = "",
    verified: bool = True,
    echo: bool = False,
) -> AsyncIterator[tuple[D, WireDevice]]:
    """`driver` and the device that `build` makes, both called "d" and with the same settings, on a line of their own.

    With `echo` the line sends back what is written to it, as many converters do, and the link knows it.
    """
    told = dict(settings or {})
    device = device_on_a_line(build, plant, address=address, settings=told)
    line = device.line
    assert line is not None
    line.echo = echo

    async def opener(_url: LinkUrl, _settings: LineSettings) -> Streams:
        return open_in_memory(line)

    url = LinkUrl.parse(f"sim:d?echo={echo:d}")
    link = Link(url, opener, line=url.line(driver.line))
    spoken = driver(link, DeviceConfig("d", address, told))
    failures = await link.start()
    try:
        assert not (verified and failures), failures
        yield spoken, device
    finally:
        await link.close()
        device.power_off()
