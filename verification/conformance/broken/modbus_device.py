"""A small Modbus RTU device, its sound driver and their bench: the base of broken Modbus drivers.

The device is a heater block with a relay. Registers, by wire address: input 0 its model (4711), input 1 the
temperature (0.1 °C, signed), inputs 20 and 21 the pressure (kPa, a float, low word first), holding 10 the set-point
(0.1 °C, 0 is off), coil 0 the relay. Writing holding 12 stores all settings in its memory.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Awaitable, Callable

from drivers.commands import Command, Guarantee, Level, LevelStatus, Switch, SwitchStatus
from drivers.conformance.bench import Bench, Sense
from drivers.conformance.far_end import ScriptedEnd
from drivers.device import Device, DeviceConfig, DeviceModel, Identity, Sensor, refuse
from drivers.errors import DeviceFault, Refused, WrongDevice
from drivers.output import Output
from drivers.settings import known_only
from drivers.transport.conversation import Conversation, SyncQuery
from drivers.transport.link import Link, Parser
from drivers.transport.url import LineSettings

MODEL = 4711
READ_COIL, READ_HOLDING, READ_INPUT, WRITE_COIL, WRITE_REGISTER = 1, 3, 4, 5, 6
LOW_C, HIGH_C = 5.0, 90.0


def crc16(data: bytes) -> int:
    """Return the checksum of Modbus RTU."""
    crc = 0xFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xA001 if crc & 1 else 0)
    return crc


def sealed(data: bytes) -> bytes:
    """Return `data` with its checksum."""
    return data + crc16(data).to_bytes(2, "little")


class BlockEnd:
    """The device."""

    def __init__(self, address: str, model: int = MODEL) -> None:
        self.address, self.model = int(address), model
        self.celsius = self.kpa = 0.0
        self.raw = 0
        self.closed = False
        self.stores = 0

    def end(self) -> ScriptedEnd:
        """Return the device as the far end of a bench."""
        return ScriptedEnd(
            self.answer,
            outputs=lambda: {"setpoint": self.raw / 10.0, "relay": float(self.closed)},
            measure=self._measure,
            measured=lambda: {"temperature": self.celsius, "pressure": self.kpa},
            power_cycle=self._power_cycle,
            memory_writes=lambda: self.stores,
        )

    def answer(self, request: bytes) -> bytes | None:
        """Return the answer; nothing to a request for another address, or a broken one."""
        if len(request) != 8 or request[0] != self.address or sealed(request[:-2]) != request:
            return None
        function, (first, value) = request[1], struct.unpack(">HH", request[2:6])
        try:
            return sealed(bytes((self.address, function)) + self._serve(function, first, value, request[2:6]))
        except KeyError:
            return sealed(bytes((self.address, function | 0x80, 2)))

    def _serve(self, function: int, first: int, value: int, body: bytes) -> bytes:
        if function in (READ_COIL, READ_INPUT, READ_HOLDING):
            data = self._read(function, first, value)
            return bytes((len(data),)) + data
        self._write(function, first, value)
        return body

    def _read(self, function: int, first: int, count: int) -> bytes:
        """Return the coil, or `count` registers. Raises KeyError for an address that does not exist."""
        if function == READ_COIL and (first, count) == (0, 1):
            return bytes((int(self.closed),))
        if function != READ_COIL and 1 <= count <= 4:
            words = self._words(function)
            return b"".join(struct.pack(">H", words[first + at] & 0xFFFF) for at in range(count))
        raise KeyError(first)

    def _write(self, function: int, first: int, value: int) -> None:
        """Write the coil or a register. Raises KeyError for another address, value or function."""
        if function == WRITE_COIL and first == 0 and value in (0, 0xFF00):
            self.closed = value != 0
        elif function == WRITE_REGISTER and first == 10 and value <= 10 * HIGH_C:
            self.raw = value
        elif function == WRITE_REGISTER and first == 12:
            self.stores += 1
        else:
            raise KeyError(first)

    def _words(self, function: int) -> dict[int, int]:
        if function == READ_HOLDING:
            return {10: self.raw, 12: 0}
        high, low = struct.unpack(">HH", struct.pack(">f", self.kpa))
        return {0: self.model, 1: round(10.0 * self.celsius), 2: 0, 3: 0, 20: low, 21: high}

    def _measure(self, point: str, value: float) -> None:
        if point == "pressure":
            self.kpa = value
        else:
            self.celsius = value

    def _power_cycle(self) -> None:
        self.raw, self.closed = 0, False


class BlockDriver(Device):
    """The sound driver. Broken ones override its methods."""

    model = DeviceModel(
        id="broken-modbus",
        vendor="Choroid",
        name="a heater block that speaks Modbus",
        kind="thermostat",
        transports=("serial",),
        capabilities=("level", "switch", "read"),
        guarantee=Guarantee.GUARD,
        manual="the docstring of its module",
    )
    line = LineSettings(baud=19200, bits=8, parity="E", stop=1)

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        known_only(config.settings, config.name, self.settings)
        self.unit = int(config.address)
        # Four words: no late answer to anything else has this length.
        fence = SyncQuery(self.request(READ_INPUT, 0, 4), lambda: self.parser(READ_INPUT, 8))
        self._conversation = Conversation(link, config.name, timeout_s=0.3, barrier=fence)
        self.sensors["temperature"] = BlockSensor(self, "degC", self.temperature)
        self.sensors["pressure"] = BlockSensor(self, "kPa", self.pressure)
        self.setpoint = SetPoint(self)
        self.relay = Relay(self)
        self.actuators["setpoint"] = self.setpoint
        self.actuators["relay"] = self.relay
        link.attach(self._conversation, self.verify)

    @property
    def conversation(self) -> Conversation:
        """See :class:`Device`."""
        return self._conversation

    def request(self, function: int, first: int, value: int) -> bytes:
        """Return a request as it is sent."""
        return sealed(struct.pack(">BBHH", self.unit, function, first, value))

    def parser(self, function: int, size: int) -> Parser[bytes]:
        """Return a parser of the answer with `size` bytes of data, from this address."""
        head = bytes((self.unit, function, size))
        return self.framed(head, len(head) + size + 2, keep=3)

    def framed(self, head: bytes, length: int, *, keep: int) -> Parser[bytes]:
        """Return a parser of a frame of `length` bytes that starts with `head`, or of the exception in its place."""
        refusal = bytes((head[0], head[1] | 0x80))

        def parse(buffer: bytearray) -> bytes | None:
            while len(buffer) >= 5:
                frame = bytes(buffer[:length])
                if frame.startswith(refusal) and self.intact(frame[:5]):
                    raise self.refusal(f"exception {frame[2]}")
                if frame.startswith(head) and len(frame) == length and self.intact(frame):
                    return frame[keep:-2]
                if frame.startswith(head) and len(frame) < length:
                    return None
                del buffer[0]
            return None

        return parse

    def intact(self, frame: bytes) -> bool:
        """Return whether the checksum of a frame is correct."""
        return sealed(frame[:-2]) == frame

    async def read(self, function: int, first: int, words: int) -> bytes:
        """Return the data of `words` registers."""
        return await self._conversation.ask(self.request(function, first, words), self.parser(function, 2 * words))

    async def coil(self) -> bool:
        """Return whether the relay is closed."""
        data = await self._conversation.ask(self.request(READ_COIL, 0, 1), self.parser(READ_COIL, 1))
        if data[0] > 1:
            raise self.refusal(f"a coil is {data[0]}")
        return data[0] == 1

    async def write(self, function: int, first: int, value: int) -> None:
        """Write, and verify the echo."""
        request = self.request(function, first, value)
        await self._conversation.ask(request, self.framed(request[:-2], len(request), keep=2), mirrored=True)

    async def _identify(self) -> Identity:
        model = int.from_bytes(await self.read(READ_INPUT, 0, 1), "big")
        if model != MODEL:
            raise WrongDevice(
                f"it is a model {model}", where=self.config.name, cause="another device", action="check the address"
            )
        return Identity(model=str(model))

    async def temperature(self) -> float:
        """Return the temperature (°C)."""
        return float(struct.unpack(">h", await self.read(READ_INPUT, 1, 1))[0]) / 10.0

    async def pressure(self) -> float:
        """Return the pressure (kPa)."""
        data = await self.read(READ_INPUT, 20, 2)
        return float(struct.unpack(">f", data[2:] + data[:2])[0])

    async def setpoint_c(self) -> float:
        """Return the set-point (°C), 0 when it is off."""
        return int.from_bytes(await self.read(READ_HOLDING, 10, 1), "big") / 10.0

    def refusal(self, what: str) -> Refused:
        """Return the error for an unsupported request."""
        return Refused(what, where=self.config.name, cause="out of its range", action="ask for what it can do")

    def disobeyed(self) -> DeviceFault:
        """Return the error for a write that the readback contradicts."""
        return DeviceFault("it does not do so", where=self.config.name, cause="a fault", action="look at it")


class BlockSensor(Sensor):
    """A measured value."""

    def __init__(self, driver: BlockDriver, unit: str, read: Callable[[], Awaitable[float]]) -> None:
        self.unit = unit
        self._read = read

    async def read(self) -> float:
        """See :class:`Sensor`."""
        value = await self._read()
        if not math.isfinite(value):
            raise DeviceFault("no number", where="block", cause="a broken probe", action="exchange it")
        return value


class SetPoint(Output):
    """The set-point; 0 is off."""

    kind = "level"
    unit = "degC"

    def __init__(self, driver: BlockDriver) -> None:
        super().__init__(f"{driver.config.name}.setpoint", driver.conversation)
        self._driver = driver

    async def obey(self, command: Command) -> None:
        """Execute a Level command (°C)."""
        match command:
            case Level(value=0.0):
                await self.off()
            case Level(value=celsius) if LOW_C <= celsius <= HIGH_C:
                was_on = await self._driver.setpoint_c() != 0.0
                await self.on(self.set(celsius), was_on=was_on)
            case Level():
                raise self._driver.refusal(f"it cannot do {command}")
            case _:
                raise refuse(self, self.where, command)

    async def set(self, celsius: float) -> None:
        """Write the set-point and read it back."""
        await self._driver.write(WRITE_REGISTER, 10, round(10.0 * celsius))
        if abs(await self._driver.setpoint_c() - celsius) > 0.051:
            raise self._driver.disobeyed()

    async def rest(self) -> None:
        """Switch off."""
        await self.set(0.0)

    async def status(self) -> LevelStatus:
        """See :class:`Output`."""
        return LevelStatus(await self._driver.setpoint_c(), await self._driver.temperature())


class Relay(Output):
    """The relay."""

    kind = "switch"
    unit = ""

    def __init__(self, driver: BlockDriver) -> None:
        super().__init__(f"{driver.config.name}.relay", driver.conversation)
        self._driver = driver

    async def obey(self, command: Command) -> None:
        """Execute a Switch command without a time."""
        match command:
            case Switch(on=True, for_s=None):
                was_on = await self._driver.coil()
                await self.on(self.set(True), was_on=was_on)
            case Switch(on=False):
                await self.off()
            case Switch():
                raise self._driver.refusal("it cannot time")
            case _:
                raise refuse(self, self.where, command)

    async def set(self, closed: bool) -> None:
        """Write the relay and read it back."""
        await self._driver.write(WRITE_COIL, 0, 0xFF00 if closed else 0)
        if await self._driver.coil() != closed:
            raise self._driver.disobeyed()

    async def rest(self) -> None:
        """Open the relay."""
        await self.set(False)

    async def status(self) -> SwitchStatus:
        """See :class:`Output`."""
        return SwitchStatus(await self._driver.coil())


def modbus_bench(driver: type[BlockDriver] = BlockDriver) -> Bench:
    """Return the bench of the Modbus device, for `driver`."""
    celsius = Sense("degC", (36.5, 39.0, 0.0, -12.2, 85.0), within=0.051)
    return Bench(
        driver=driver,
        far_end=lambda config: BlockEnd(config.address).end(),
        config=DeviceConfig("block", "1"),
        other=DeviceConfig("block", "2"),
        senses={
            "temperature": celsius,
            "pressure": Sense("kPa", (21.0, 48.0, -34.625, 310.25), within=1e-3),
        },
        impostors={"model 4712": lambda config: BlockEnd(config.address, 4712).end()},
        checksum=True,
    )
