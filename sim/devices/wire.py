"""What every simulated device is made of: a place on a line, bytes in, bytes out after a realistic time."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable

from controller.rig.description import DeviceSpec
from sim.devices.port import PlantPort


class WireDevice(ABC):
    """One simulated device. Subclasses speak the manufacturer's bytes and move the plant through `plant`."""

    baud = 9600
    """Line speed: how long each byte takes on the wire (10 bits a byte)."""
    think_s = 0.005
    """How long the device thinks before it answers."""

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        self.name = name
        self.spec = spec
        self.plant = plant
        self.powered = True
        self.line: Line | None = None
        self._wire_free_s = 0.0

    @abstractmethod
    def receive(self, data: bytes) -> None:
        """Take bytes from the line, in any chunking."""

    def power_on(self) -> None:
        """Start from the factory's or the stored settings; may greet the line."""

    def power_off(self) -> None:
        """Lose power: everything stops."""

    def power_cycle(self) -> None:
        """Lose power and come back: volatile settings and running work are gone."""
        self.power_off()
        self.power_on()

    def send(self, data: bytes, *, after_s: float | None = None) -> None:
        """Answer with `data` after `after_s` (default: thinking time) and the time its bytes take on the wire."""
        loop = asyncio.get_running_loop()
        start_s = max(loop.time() + (self.think_s if after_s is None else after_s), self._wire_free_s)
        self._wire_free_s = start_s + len(data) * 10 / self.baud  # one byte after another, never overtaking
        loop.call_at(self._wire_free_s, self._deliver, data)

    def _deliver(self, data: bytes) -> None:
        if self.powered and self.line is not None:
            self.line.to_client(data)


class Line:
    """A physical line: bytes from a client reach every device on it, bytes from a device reach every client."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.devices: list[WireDevice] = []
        self.clients: list[Callable[[bytes], None]] = []

    def attach(self, device: WireDevice) -> None:
        """Put a device on this line."""
        device.line = self
        self.devices.append(device)

    def from_client(self, data: bytes) -> None:
        """Bytes that a client wrote."""
        for device in self.devices:
            if device.powered:
                device.receive(data)

    def to_client(self, data: bytes) -> None:
        """Bytes that a device sent: every connected client hears them, as on a real line."""
        for deliver in list(self.clients):
            deliver(data)
