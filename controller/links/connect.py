"""Connection of a rig: all links in parallel, all failures in one table."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from controller.rig.description import DeviceChannel, DeviceSpec, Rig
from drivers.device import ChannelConfig, Device, DeviceConfig
from drivers.errors import DeviceError
from drivers.registry import build, open_link
from drivers.transport.link import Link
from drivers.transport.opener import Opener


@dataclass(frozen=True, slots=True)
class Failure:
    """One device that could not be connected."""

    device: str
    link: str
    error: str


class ConnectError(Exception):
    """No device could be connected; `failures` holds all of them, `table` is their text for people."""

    def __init__(self, failures: list[Failure]) -> None:
        self.failures = failures
        self.table = table(failures)
        super().__init__(f"none of {len(failures)} devices came up; nothing was moved\n{self.table}")


def table(failures: list[Failure]) -> str:
    """Return the failures as text for people."""
    width = max((len(failure.device) for failure in failures), default=0)
    return "\n".join(f"  {failure.device:<{width}}  {failure.link}: {failure.error}" for failure in failures)


@dataclass(frozen=True, slots=True)
class Connected:
    """The result of connecting: all links and devices, and those that do not answer yet (their links retry)."""

    links: dict[str, Link]
    devices: dict[str, Device]
    failures: list[Failure]


async def connect(rig: Rig, opener: Opener) -> Connected:
    """Open all links in parallel and verify every device once.

    A rig with a dead device still starts: its link retries, its readings are missing, and alarms are raised.

    Raises:
        ConnectError: no device answers.
    """
    models: dict[str, list[str]] = {}
    for spec in rig.devices.values():
        models.setdefault(spec.link, []).append(spec.model)
    links = {name: open_link(name, of, opener) for name, of in models.items()}
    devices = {
        name: build(
            spec.model,
            links[spec.link],
            device_config(name, spec),
        )
        for name, spec in rig.devices.items()
    }
    found: list[dict[str, DeviceError]] = await asyncio.gather(*(link.start() for link in links.values()))
    failures = [
        Failure(name, link, str(error))
        for link, errors in zip(links, found, strict=True)
        for name, error in sorted(errors.items())
    ]
    if devices and len(failures) == len(devices):
        await asyncio.gather(*(link.close() for link in links.values()))
        raise ConnectError(failures)
    return Connected(links, devices, failures)


def device_config(name: str, spec: DeviceSpec) -> DeviceConfig:
    """Return the drivers' configuration of a device of the rig."""
    channels = {number: _channel(channel) for number, channel in spec.channels.items()}
    return DeviceConfig(name, spec.address, spec.settings, channels, spec.gas or "")


def _channel(channel: DeviceChannel) -> ChannelConfig:
    return ChannelConfig(channel.point, {} if channel.tubing_mm is None else {"tubing_mm": channel.tubing_mm})
