"""The simulator's side: whatever bytes come from a client, a simulated device never raises, and its outputs stay numbers.

An input is a few flags and then what arrives on the line, in pieces; between the pieces and at the end time may go by, so
that timers and half frames run out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from choroid.tools.conformance.benches import lab_bench
from choroid.tools.conformance.lab_end import BenchPlant, LabEnd
from controller.rig.description import DeviceSpec
from drivers.conformance.bench import Bench
from sim.devices.catalogue import DEVICES
from sim.devices.wire import Bus
from sim.virtual_time import run_virtual
from tests.fuzz import checksums
from tests.fuzz.driver_side import DriverSide
from tests.fuzz.findings import Feed, Finding
from tests.fuzz.loop import the_loop

PAUSES, WAITS, REBOOTS = 0x10, 0x20, 0x40
PIECE = 0x0F
PAUSE_S = 0.05
WAIT_S = 3.0
MAX_BUFFER = 1024
"""No device keeps more of what makes no sense."""
MAX_PIECES = 12
SAYS_WRONG_CHECKSUM = frozenset({"roche-cedex-bio-ht", "sensirion-slf3x"})
"""Devices that answer a wrong checksum, with an error; all others are silent."""


class _Client:
    """Receives everything and checks that it is bytes."""

    def __init__(self) -> None:
        self.received = 0

    def deliver(self, data: bytes) -> None:
        if not isinstance(data, bytes):
            raise Finding(f"the device said {data!r}, which is no bytes")
        self.received += len(data)

    def hang_up(self) -> None:
        raise Finding("the device hung up")


class DeviceSide:
    """The parser of one simulated device behind one function of bytes."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.bench: Bench = lab_bench(model)
        pushes = self.bench.pushes  # what it sends is no answer
        self.holds = None if pushes else checksums.of_requests(model, self.bench.config.address)
        self.loop = the_loop()
        self.spec: DeviceSpec = run_virtual(_spec_of(self.bench))

    def build(self) -> Feed:
        """The device, newly made, alone on a line."""
        return _Fed(self).feed

    def seeds(self) -> Iterator[bytes]:
        """Every request that the driver sends, alone, in pieces, and all of a work in a row."""
        for work in DriverSide(self.model).works:
            for request in dict.fromkeys(work.asked):
                yield bytes((WAITS,)) + request
                yield bytes((PAUSES | 2,)) + request
            yield bytes((PAUSES | WAITS | PIECE,)) + b"".join(work.asked[:4])
            yield bytes((REBOOTS,)) + b"".join(work.asked[:4])


class _Fed:
    """One device on a line, and what it is given one after another."""

    def __init__(self, side: DeviceSide) -> None:
        self.side = side
        self.loop = side.loop
        self.loop.forget()
        self.loop.enter()
        try:
            self.plant = _Numbers()
            self.device = DEVICES[side.model]("bench", side.spec, self.plant)
            self.line = Bus("sim:fuzz", baud=self.device.baud)
            self.line.attach(self.device)
            self.client = _Client()
            self.line.connect(self.client)
            self.device.power_on()
            self._pass(1.0)
        finally:
            self.loop.leave()
        self.before = b""

    def feed(self, data: bytes) -> None:
        """Raise for an input by which the device does what none may do."""
        if not data:
            return
        flags, said = data[0], data[1:]
        self.loop.enter()
        try:
            size = max(flags & PIECE or len(said), len(said) // MAX_PIECES, 1)
            self.client.received = self.plant.moves = 0
            for at in range(0, len(said), size):
                self.line.from_client(said[at : at + size], self.client)
                if flags & PAUSES:
                    self._pass(PAUSE_S)
            if flags & WAITS:
                self._pass(WAIT_S)
                self._spared(self.before + said)
            if flags & REBOOTS:
                self.device.power_cycle()
                self._pass(1.0)
            self.before = (self.before + said)[-MAX_BUFFER:]
            self._sane()
        finally:
            self.loop.leave()

    def _pass(self, seconds: float) -> None:
        """Let timers fall due."""
        self.loop.advance(seconds)
        if self.loop.failure is not None:
            raise Finding(f"a timer raised {self.loop.failure!r}") from self.loop.failure

    def _spared(self, said: bytes) -> None:
        """Without one whole frame whose checksum is right, nothing has moved and nothing was sent."""
        holds = self.side.holds
        if holds is None or not (self.plant.moves or self.client.received) or holds(said):
            return
        if self.plant.moves:
            raise Finding(f"{said.hex(' ')} moved the plant, and no checksum in it is right")
        if self.side.model not in SAYS_WRONG_CHECKSUM:
            raise Finding(f"{said.hex(' ')} was answered, and no checksum in it is right")

    def _sane(self) -> None:
        kept = getattr(self.device, "_buffer", b"")
        if len(kept) > MAX_BUFFER:
            raise Finding(f"it keeps {len(kept)} bytes that make no sense")


class _Numbers(BenchPlant):
    """A plant that takes nothing but finite numbers, and counts what moves."""

    def __init__(self) -> None:
        super().__init__()
        self.moves = 0

    def set_pump(self, point: str, flow_ul_min: float) -> None:
        self._check(point, flow_ul_min)

    def set_gas(self, point: str, flow_ml_min: float) -> None:
        self._check(point, flow_ml_min)

    def set_switch(self, point: str, on: bool) -> None:
        self._check(point, float(on))

    def set_position(self, point: str, position: float) -> None:
        self._check(point, position)

    def sense(self, point: str) -> float:
        return self.outputs.get(point, 7.0)

    def _check(self, point: str, value: float) -> None:
        self.moves += 1
        if not math.isfinite(value):
            raise Finding(f"{point} was set to {value!r}")
        self.outputs[point] = value


async def _spec_of(bench: Bench) -> DeviceSpec:
    return LabEnd(bench.model, bench.config).device.spec
