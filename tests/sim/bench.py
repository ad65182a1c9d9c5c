"""A bench for simulated devices: a plant that only records, and a client that talks bytes on a line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from controller.rig.description import DeviceChannel, DeviceSpec
from sim.devices.port import BathRamp, PlantPort
from sim.devices.wire import Bus, WireDevice

Build = Callable[[str, DeviceSpec, PlantPort], WireDevice]


class RecordingPlant:
    """Plant that answers from `values` and records, with its time, all that devices do."""

    def __init__(self, **values: float) -> None:
        self.values: dict[str, float] = {name.replace("__", "."): value for name, value in values.items()}
        self.log: list[tuple[float, str, float]] = []
        self.baths: dict[str, BathRamp | None] = {}

    def set_pump(self, point: str, flow_ul_min: float) -> None:
        self._note(point, flow_ul_min)

    def set_switch(self, point: str, on: bool) -> None:
        self._note(point, float(on))

    def set_position(self, point: str, position: float) -> None:
        self._note(point, position)

    def set_gas(self, point: str, flow_ml_min: float) -> None:
        self._note(point, flow_ml_min)
        self.values[point] = flow_ml_min

    def set_bath(self, point: str, course: BathRamp | None) -> None:
        self.baths[point] = course

    def sense(self, point: str) -> float:
        return self.values[point]

    def _note(self, point: str, value: float) -> None:
        self.log.append((asyncio.get_running_loop().time(), point, value))

    def last(self, point: str) -> float:
        """Return what `point` was last set to; 0 if it was never set."""
        return next((value for _, at, value in reversed(self.log) if at == point), 0.0)

    def moved(self, point: str, until_s: float) -> float:
        """Return the integral of a pump's flow (µL) up to `until_s`."""
        total = flow = since = 0.0
        for at, name, value in [*self.log, (until_s, point, 0.0)]:
            if name == point:
                total += flow * (at - since) / 60.0
                since, flow = at, value
        return total


class Talker:
    """A client on a line."""

    def __init__(self, line: Bus) -> None:
        self.line = line
        self.received = b""
        self.times: list[float] = []
        self.hung_up = False
        line.connect(self)

    def deliver(self, data: bytes) -> None:
        self.received += data
        self.times.append(asyncio.get_running_loop().time())

    def hang_up(self) -> None:
        self.hung_up = True

    def say(self, data: bytes) -> None:
        """Write bytes without waiting for an answer."""
        self.line.from_client(data, self)

    async def ask(self, data: bytes, wait_s: float = 2.0) -> bytes:
        """Write bytes; return what arrives in the next `wait_s` seconds."""
        self.received = b""
        self.say(data)
        await asyncio.sleep(wait_s)
        return self.received


def device_on_a_line(
    build: Build,
    plant: RecordingPlant,
    *,
    name: str = "d",
    address: str = "",
    channels: Mapping[str, tuple[str, float | None]] | None = None,
    settings: Mapping[str, float | str | bool] | None = None,
) -> WireDevice:
    """Return a powered device, alone on a line of its own."""
    device = build(name, spec(address=address, channels=channels, settings=settings), plant)
    Bus("sim:test", baud=device.baud).attach(device)
    device.power_on()
    return device


def spec(
    *,
    address: str = "",
    channels: Mapping[str, tuple[str, float | None]] | None = None,
    settings: Mapping[str, float | str | bool] | None = None,
) -> DeviceSpec:
    """Return a device's description; channels map number → (point, tubing in mm)."""
    return DeviceSpec(
        model="test",
        link="sim:test",
        address=address,
        every="1 s",
        channels={
            number: DeviceChannel(point=point, **({"tubing": f"{tubing} mm"} if tubing else {}))
            for number, (point, tubing) in (channels or {}).items()
        },
        settings=dict(settings or {}),
    )


async def client_of(device: WireDevice, *, quiet: bool = True) -> Talker:
    """Return a client of the device's line; with `quiet`, after the messages that the device sends at power-up."""
    assert device.line is not None
    talker = Talker(device.line)
    if quiet:
        await asyncio.sleep(0.5)
        talker.received = b""
    return talker
