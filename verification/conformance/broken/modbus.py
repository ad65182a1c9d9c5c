"""Broken Modbus drivers: the sound one of :mod:`verification.conformance.broken.modbus_device` with a few lines changed."""

from __future__ import annotations

import struct

from drivers.conformance.bench import Bench
from drivers.device import Identity
from drivers.errors import BadReply, NoReply
from drivers.transport.link import Parser
from verification.conformance.broken.making import Broken, Points
from verification.conformance.broken.modbus_device import (
    READ_INPUT,
    WRITE_COIL,
    WRITE_REGISTER,
    BlockDriver,
    modbus_bench,
)


class _NoChecksum(BlockDriver):
    def intact(self, frame: bytes) -> bool:
        return True


class _AnyUnit(BlockDriver):
    def framed(self, head: bytes, length: int, *, keep: int) -> Parser[bytes]:
        def parse(buffer: bytearray) -> bytes | None:
            frame = bytes(buffer[:length])
            if len(frame) < length:
                return None
            if not self.intact(frame) or frame[1] != head[1]:
                raise BadReply("no frame", where=self.config.name, cause="noise", action="ask again")
            return frame[keep:-2]

        return parse


class _Unsigned(BlockDriver):
    async def temperature(self) -> float:
        return float(struct.unpack(">H", await self.read(READ_INPUT, 1, 1))[0]) / 10.0


class _WordOrder(BlockDriver):
    async def pressure(self) -> float:
        return float(struct.unpack(">f", await self.read(READ_INPUT, 20, 2))[0])


class _NextRegister(BlockDriver):
    """Counts registers from 1 where the manual counts from 0."""

    async def temperature(self) -> float:
        return float(struct.unpack(">h", await self.read(READ_INPUT, 2, 1))[0]) / 10.0


class _PaddedFrames(BlockDriver):
    """Fills a short frame with zeros."""

    def framed(self, head: bytes, length: int, *, keep: int) -> Parser[bytes]:
        def parse(buffer: bytearray) -> bytes | None:
            return bytes(buffer[keep:-2]).ljust(length - keep - 2, b"\0") if len(buffer) > 4 else None

        return parse


class _NotReadBack(BlockDriver):
    """Counts a confirmed write as done, and reports the written value as status."""

    written = 0.0

    async def write(self, function: int, first: int, value: int) -> None:
        await super().write(function, first, value)
        if function == WRITE_REGISTER:
            self.written = value / 10.0

    async def setpoint_c(self) -> float:
        await super().setpoint_c()
        return self.written


class _WritesBlindly(BlockDriver):
    """Reads nothing back, and reports the written value as the relay's status."""

    closed = False

    async def write(self, function: int, first: int, value: int) -> None:
        await super().write(function, first, value)
        if function == WRITE_COIL:
            self.closed = value != 0

    async def coil(self) -> bool:
        await super().coil()
        return self.closed


class _StoresEachWrite(BlockDriver):
    async def write(self, function: int, first: int, value: int) -> None:
        await super().write(function, first, value)
        await super().write(WRITE_REGISTER, 12, 1)


class _AnyModel(BlockDriver):
    async def _identify(self) -> Identity:
        await self.read(READ_INPUT, 0, 1)
        return Identity(model="4711")


class _NoFence(BlockDriver):
    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._conversation.fence(None)
        self._conversation._late_s = 0.0


class _ClearsNothing(BlockDriver):
    """Switches the relay off by writing to the set-point's register."""

    async def write(self, function: int, first: int, value: int) -> None:
        if function == WRITE_COIL and value == 0:
            await super().write(WRITE_REGISTER, 10, 0)
        else:
            await super().write(function, first, value)


class _RelayToo(BlockDriver):
    """Closes the relay with each set-point."""

    async def write(self, function: int, first: int, value: int) -> None:
        if function == WRITE_REGISTER and value:
            await super().write(WRITE_COIL, 0, 0xFF00)
        await super().write(function, first, value)


class _ZeroOnFailure(BlockDriver):
    async def temperature(self) -> float:
        try:
            return await super().temperature()
        except (NoReply, BadReply):
            return 0.0


def _broken(name: str, what: str, prop: str, driver: type[BlockDriver]) -> Broken:
    def spoil(bench: Bench) -> Bench:
        return modbus_bench(driver)

    return Broken(name, what, prop, spoil, _on_modbus)


def _on_modbus(bench: Bench, points: Points) -> bool:
    return bench.driver is BlockDriver


MODBUS: tuple[Broken, ...] = (
    _broken("checksum ignored", "frames are taken whatever their checksum", "checksum", _NoChecksum),
    _broken("any unit", "frames of other units are taken", "address", _AnyUnit),
    _broken("unsigned", "negative temperatures come as large positive ones", "truth", _Unsigned),
    _broken("word order", "the words of a float are exchanged", "truth", _WordOrder),
    _broken("next register", "registers are counted from 1 instead of 0", "truth", _NextRegister),
    _broken("padded frames", "a frame that is cut off is filled up with zeros", "truncated", _PaddedFrames),
    _broken("set-point not read back", "the reported set-point is the one that was written", "readback", _NotReadBack),
    _broken(
        "relay not read back", "the reported state of the relay is the one that was written", "readback", _WritesBlindly
    ),
    _broken("stores each write", "each write is stored in the device's memory", "memory", _StoresEachWrite),
    _broken("any model of the unit", "the model is asked for and not looked at", "impostor", _AnyModel),
    _broken("no fence", "a late frame of the same length is taken for the next one's", "late", _NoFence),
    _broken("off elsewhere", "the relay is switched off in the wrong register", "effect", _ClearsNothing),
    _broken("relay too", "each set-point closes the relay too", "effect", _RelayToo),
    _broken("zero degrees on failure", "a temperature that could not be read is 0", "garbage", _ZeroOnFailure),
)
"""Defects of Modbus drivers."""
