"""The base of every simulated device: a place on a line, bytes in, bytes out after a realistic time."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Protocol

from controller.rig.description import DeviceSpec
from sim.devices.bench_facts import BenchFacts
from sim.devices.port import PlantPort

BITS_A_BYTE = 10
"""Start bit, eight data bits, stop bit."""
BACKLOG_S = 1.0
"""How far behind a flood of requests a line may fall; what a real line could not have carried is not waited for."""
QUEUE_S = 60.0
"""Answers that would leave later than this are lost: the device's output buffer is full."""

Inward = Callable[[bytes], bytes]
"""A fault: what the line makes of bytes on their way to devices (b"" loses them)."""
Outward = Callable[[bytes], Sequence[tuple[float, bytes]]]
"""A fault: what the line makes of bytes on their way to clients: pieces, each late by so many seconds."""


class WireClient(Protocol):
    """A client that has opened a line."""

    def deliver(self, data: bytes) -> None:
        """Deliver bytes to this client."""

    def hang_up(self) -> None:
        """End the connection, because the cable was pulled."""


class WireDevice(ABC):
    """One simulated device. Subclasses implement the maker's protocol and act on the plant through `plant`.

    A device is made without power; :meth:`power_on` boots it. It keeps its own truth (what runs, what was counted,
    what is stored) whether or not anyone is connected, and ends by itself what was given to it as finite.
    """

    model_id: ClassVar[str]
    """Id of its model in the rig file; classes without one are no device of the catalogue."""
    bench: ClassVar[BenchFacts] = BenchFacts()
    baud = 9600
    """Factory speed of the line, which gives the time that each byte takes."""
    think_s = 0.005
    """From the last byte of a request to the first byte of its answer."""

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        self.name = name
        self.spec = spec
        self.plant = plant
        self.powered = False
        self.line: Bus | None = None
        self.boots = 0
        """How often it was powered on: bytes under way from before a power cut are never delivered."""
        self.hung = False
        """A fault: its interface neither receives nor sends, while its outputs and timers go on."""
        self.obeys = True
        """A fault when False: it acknowledges commands and does not carry them out."""
        self.memory_writes: int | None = None
        """How often its non-volatile memory was written, in a model whose memory wears by what a host can send; else None."""
        self.loop = asyncio.get_running_loop()

    def belong_to(self, lab: int) -> None:  # noqa: B027  (most models report no serial number)
        """Take the serial number of this device in laboratory `lab`; nothing in a model that reports none."""

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
        """Start, at power-up."""

    def _halt(self) -> None:  # noqa: B027  (a hook, not a duty)
        """Stop, at power-down: end timers, bring outputs to rest."""

    def forget(self) -> Callable[[], None]:
        """Reset the stored settings to the factory's (a fault); return the function that stores them again."""
        return lambda: None

    @property
    def answers_to(self) -> str | None:
        """Return its address on a shared line, as in a rig file; None when its protocol has no addresses."""
        return None

    def readdress(self, address: str) -> None:
        """Answer to `address` from now on (a fault). Raises ValueError when its protocol has no addresses."""
        raise ValueError(f"{self.name}: a device of this model has no address that a fault could change")

    def forged(self, data: bytes, address: str) -> bytes | None:
        """Return its answer `data` with another `address` (a fault); None when that cannot be determined.

        It cannot when the answer is not its own, or answers bear no address.
        """
        return None

    def send(
        self, data: bytes, *, after_s: float | None = None, unsolicited: bool = False, to: WireClient | None = None
    ) -> None:
        """Send `data`, `after_s` after the request was received (default: processing time), at the line's speed.

        The answer goes to the client whose request was received last, or to `to`; `unsolicited` bytes to everyone.
        """
        if self.powered and not self.hung and self.line is not None:
            client = None if unsolicited else (to or self.line.asker)
            self.line.transmit(self, data, self.think_s if after_s is None else after_s, client, unsolicited)


def forgetting(device: object, factory: Mapping[str, object]) -> Callable[[], None]:
    """Set each of these attributes of `device` to the factory's value; return the function that restores them."""
    stored = {name: getattr(device, name) for name in factory}

    def put(values: Mapping[str, object]) -> None:
        for name, value in values.items():
            setattr(device, name, value)

    put(factory)
    return lambda: put(stored)


class Bus:
    """A bus: the bytes of any client reach every device on it; answers go to the client that asked.

    Several clients may be connected at once, as behind a serial server; each receives the answers to its own requests
    and everything unsolicited. Answers never overtake each other, and each arrives when its last byte would.
    """

    def __init__(self, name: str, *, baud: int = 9600, echo: bool = False) -> None:
        self.name = name
        self.echo = echo
        self.devices: list[WireDevice] = []
        self.clients: list[WireClient] = []
        self.plugged = True
        self.tamper: Callable[[bytes], bytes] | None = None
        """A fault: what the line makes of bytes on their way to clients (b"" loses them)."""
        self.inward: list[Inward] = []
        self.outward: list[Outward] = []
        self.ghosts: set[WireClient] = set()
        """A fault: clients whose connection is dead and does not know it."""
        self.on_plug: list[Callable[[], None]] = []
        """Called when the cable is put back, so that the line is served again."""
        self.elsewhere = False
        """A fault: the adapter is there under another name, so that what was served under the old one is gone."""
        self.asker: WireClient | None = None
        self.set_baud(baud)
        self._received_s = 0.0
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

    def connect(self, client: WireClient) -> None:
        """Add a client. Raises ConnectionRefusedError while the line is unplugged."""
        if not self.plugged:
            raise ConnectionRefusedError(f"line {self.name} is unplugged")
        self.clients.append(client)

    def disconnect(self, client: WireClient) -> None:
        """Remove a client. The devices continue."""
        if client in self.clients:
            self.clients.remove(client)
        self.ghosts.discard(client)
        if self.asker is client:
            self.asker = None

    def from_client(self, data: bytes, client: WireClient | None = None) -> None:
        """Pass on bytes that a client wrote."""
        if not self.plugged or not data or client in self.ghosts:
            return
        self.asker = client
        now = self._loop.time()
        self._received_s = min(max(self._received_s, now) + len(data) * self.byte_s, now + BACKLOG_S)
        if self.echo and client is not None:
            client.deliver(data)
        for fault in self.inward:
            data = fault(data)
        if data:
            self._receive(data)

    def _receive(self, data: bytes) -> None:
        for device in self.devices:
            if device.powered and not device.hung:
                device.receive(data)

    def transmit(
        self, device: WireDevice, data: bytes, after_s: float, client: WireClient | None, unsolicited: bool
    ) -> None:
        """Put a device's bytes on the line; see :meth:`WireDevice.send`."""
        now = self._loop.time()
        ready_s = after_s + (now if unsolicited or self._received_s < now else self._received_s)
        if self._free_s > now + QUEUE_S:
            return
        self._free_s = max(ready_s, self._free_s) + len(data) * self.byte_s
        self._loop.call_at(self._free_s, self._arrive, device, device.boots, data, client)

    def _arrive(self, device: WireDevice, boots: int, data: bytes, client: WireClient | None) -> None:
        if not self.plugged or not device.powered or device.boots != boots:
            return
        if self.tamper is not None:
            data = self.tamper(data)
            if not data:
                return
        if self.outward:
            self._send_faulty(data, client)
        else:
            self._deliver(data, client)

    def _send_faulty(self, data: bytes, client: WireClient | None) -> None:
        """Deliver the bytes as the faults of the line change and delay them."""
        pieces: list[tuple[float, bytes]] = [(0.0, data)]
        for fault in self.outward:
            pieces = [(late_s + more_s, part) for late_s, piece in pieces for more_s, part in fault(piece)]
        for late_s, piece in pieces:
            if late_s > 0:
                self._loop.call_later(late_s, self._deliver, piece, client)
            else:
                self._deliver(piece, client)

    def _deliver(self, data: bytes, client: WireClient | None) -> None:
        for each in list(self.clients) if client is None else [client]:
            if each in self.clients and each not in self.ghosts and data:
                each.deliver(data)

    def unplug(self) -> None:
        """Pull the cable: every client loses its connection and none can open the line until :meth:`plug`."""
        self.plugged = False
        for client in list(self.clients):
            client.hang_up()
        self.clients.clear()
        self.ghosts.clear()
        self.asker = None

    def plug(self) -> None:
        """Put the cable back."""
        if not self.plugged:
            self.plugged = True
            for serve in list(self.on_plug):
                serve()
