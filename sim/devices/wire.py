"""What every simulated device is made of: a place on a line, bytes in, bytes out after a realistic time."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from controller.rig.description import DeviceSpec
from sim.devices.port import PlantPort

BITS_A_BYTE = 10
"""Start bit, eight data bits, stop bit."""
BACKLOG_S = 1.0
"""How far behind a flood of requests a line may fall; what a real line could not have carried is not waited for."""
QUEUE_S = 60.0
"""Answers that would leave later than this are lost: the device's output buffer is full."""


class Client(Protocol):
    """Someone who has opened a line."""

    def deliver(self, data: bytes) -> None:
        """Bytes for this client."""

    def hang_up(self) -> None:
        """The cable was pulled."""


class WireDevice(ABC):
    """One simulated device. Subclasses speak the manufacturer's bytes and move the plant through `plant`.

    A device is made without power; :meth:`power_on` boots it. It keeps its own truth (what runs, what was counted,
    what is stored) whether or not anyone is connected, and ends by itself what was given to it as finite.
    """

    baud = 9600
    """Factory speed of the line, which gives the time that each byte takes."""
    think_s = 0.005
    """From the last byte of a request to the first byte of its answer."""

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        self.name = name
        self.spec = spec
        self.plant = plant
        self.powered = False
        self.line: Line | None = None
        self.boots = 0
        """How often it was powered on: bytes under way from before a power cut are never delivered."""
        self.loop = asyncio.get_running_loop()

    @abstractmethod
    def receive(self, data: bytes) -> None:
        """Take bytes from the line, in any chunking. Never raises, whatever the bytes."""

    def power_on(self) -> None:
        """Boot: volatile settings come from the factory or from what was stored, and the device may greet the line."""
        if not self.powered:
            self.powered = True
            self.boots += 1
            self._boot()

    def power_off(self) -> None:
        """Lose power: outputs rest, timers end, bytes under way are lost."""
        if self.powered:
            self._halt()
            self.powered = False

    def power_cycle(self) -> None:
        """Lose power and come back at once."""
        self.power_off()
        self.power_on()

    def _boot(self) -> None:  # noqa: B027  (a hook, not a duty)
        """What a device does when power comes."""

    def _halt(self) -> None:  # noqa: B027  (a hook, not a duty)
        """What a device does when power goes: end timers, bring outputs to rest."""

    def send(
        self, data: bytes, *, after_s: float | None = None, unsolicited: bool = False, to: Client | None = None
    ) -> None:
        """Send `data`, `after_s` after the request was heard (default: thinking time), at the line's speed.

        The answer goes to the client whose request was heard last, or to `to`; `unsolicited` bytes to everyone.
        """
        if self.powered and self.line is not None:
            client = None if unsolicited else (to or self.line.asker)
            self.line.transmit(self, data, self.think_s if after_s is None else after_s, client, unsolicited)


class Line:
    """A bus: the bytes of any client reach every device on it; answers go to the client that asked.

    Several clients may be connected at once, as behind a serial server; each hears the answers to its own requests
    and everything unsolicited. Answers never overtake each other, and each arrives when its last byte would.
    """

    def __init__(self, name: str, *, baud: int = 9600, echo: bool = False) -> None:
        self.name = name
        self.echo = echo
        self.devices: list[WireDevice] = []
        self.clients: list[Client] = []
        self.plugged = True
        self.tamper: Callable[[bytes], bytes] | None = None
        """A fault: what the line makes of bytes on their way to clients (b"" loses them)."""
        self.asker: Client | None = None
        self.set_baud(baud)
        self._heard_s = 0.0
        self._free_s = 0.0
        self._loop = asyncio.get_running_loop()

    def set_baud(self, baud: int) -> None:
        """Change the line's speed (bits a second)."""
        self.baud = baud
        self.byte_s = BITS_A_BYTE / baud

    def attach(self, device: WireDevice) -> None:
        """Put a device on this line."""
        device.line = self
        self.devices.append(device)

    def connect(self, client: Client) -> None:
        """Someone opens the line; raises ConnectionRefusedError while it is unplugged."""
        if not self.plugged:
            raise ConnectionRefusedError(f"line {self.name} is unplugged")
        self.clients.append(client)

    def disconnect(self, client: Client) -> None:
        """Someone is gone. The devices go on with what they do."""
        if client in self.clients:
            self.clients.remove(client)
        if self.asker is client:
            self.asker = None

    def from_client(self, data: bytes, client: Client | None = None) -> None:
        """Bytes that a client wrote."""
        if not self.plugged or not data:
            return
        self.asker = client
        now = self._loop.time()
        self._heard_s = min(max(self._heard_s, now) + len(data) * self.byte_s, now + BACKLOG_S)
        if self.echo and client is not None:
            client.deliver(data)
        for device in self.devices:
            if device.powered:
                device.receive(data)

    def transmit(
        self, device: WireDevice, data: bytes, after_s: float, client: Client | None, unsolicited: bool
    ) -> None:
        """Put a device's bytes on the line; see :meth:`WireDevice.send`."""
        now = self._loop.time()
        ready_s = after_s + (now if unsolicited or self._heard_s < now else self._heard_s)
        if self._free_s > now + QUEUE_S:
            return
        self._free_s = max(ready_s, self._free_s) + len(data) * self.byte_s
        self._loop.call_at(self._free_s, self._arrive, device, device.boots, data, client)

    def _arrive(self, device: WireDevice, boots: int, data: bytes, client: Client | None) -> None:
        if not self.plugged or not device.powered or device.boots != boots:
            return
        if self.tamper is not None:
            data = self.tamper(data)
            if not data:
                return
        if client is None:
            for each in list(self.clients):
                each.deliver(data)
        elif client in self.clients:
            client.deliver(data)

    def unplug(self) -> None:
        """Pull the cable: every client loses its connection and none can open the line until :meth:`plug`."""
        self.plugged = False
        for client in list(self.clients):
            client.hang_up()
        self.clients.clear()
        self.asker = None

    def plug(self) -> None:
        """Put the cable back."""
        self.plugged = True
