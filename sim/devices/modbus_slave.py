"""A Modbus RTU slave: framing, checksum, addressing, exceptions (Modbus over serial line V1.02, 2.5; application V1.1b3).

A frame ends when its length, known from its function code, is reached, or when the line falls silent. Whatever has a
wrong checksum or another's address is met with silence, as on a real bus.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod

from controller.rig.description import DeviceSpec
from sim.devices.port import PlantPort
from sim.devices.wire import WireDevice

ILLEGAL_FUNCTION = 1
ILLEGAL_ADDRESS = 2
ILLEGAL_VALUE = 3

READ_COILS = 0x01
READ_HOLDING_REGISTERS = 0x03
WRITE_SINGLE_COIL = 0x05
WRITE_SINGLE_REGISTER = 0x06
DIAGNOSTICS = 0x08
WRITE_MULTIPLE_COILS = 0x0F
WRITE_MULTIPLE_REGISTERS = 0x10

BROADCAST = 0
LONGEST_FRAME = 256
SILENCE_S = 0.010
"""Ends a frame of unknown length. 3.5 characters last 4 ms at 9600 baud; TCP and ptys deliver less evenly than that."""


def _crc_table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ 0xA001 if value & 1 else value >> 1
        table.append(value)
    return tuple(table)


_CRC_TABLE = _crc_table()


def crc16(data: bytes) -> int:
    """Return the CRC-16 of Modbus (polynomial 0xA001 reflected, from 0xFFFF); it is sent low byte first."""
    crc = 0xFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc


def sealed(frame: bytes) -> bytes:
    """Return `frame` with its checksum, low byte first."""
    return frame + crc16(frame).to_bytes(2, "little")


class ModbusError(Exception):
    """An exception answer: 1 illegal function, 2 illegal address, 3 illegal value."""

    def __init__(self, code: int) -> None:
        super().__init__(f"modbus exception {code}")
        self.code = code


class ModbusSlave(WireDevice):
    """Answers one address. Subclasses implement :meth:`serve`."""

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        self.address = int(spec.address or "1")
        self._buffer = bytearray()
        self._silence: asyncio.TimerHandle | None = None

    @property
    def answers_to(self) -> str | None:
        """See :meth:`WireDevice.answers_to`."""
        return str(self.address)

    def readdress(self, address: str) -> None:
        """See :meth:`WireDevice.readdress`."""
        self.address = int(address)

    def forged(self, data: bytes, address: str) -> bytes | None:
        """See :meth:`WireDevice.forged`."""
        if len(data) < 4 or data[0] != self.address or crc16(data[:-2]) != data[-2] | data[-1] << 8:
            return None
        return sealed(bytes((int(address),)) + data[1:-2])

    @abstractmethod
    def serve(self, function: int, body: bytes) -> bytes:
        """Return the answer's data to a request's data (both without address, function and checksum).

        Raises :class:`ModbusError` before anything has changed.
        """

    def mine(self, address: int) -> bool:
        """Return whether this device answers to `address`."""
        return address == self.address

    def receive(self, data: bytes) -> None:
        """Collect frames; act on whole ones."""
        buffer = self._buffer
        if not buffer and self._others(data):
            return
        buffer += data
        while len(buffer) >= 4:
            length = self.frame_length(buffer)
            if length is None or len(buffer) < length:
                break  # silence will tell
            frame = bytes(buffer[:length])
            if self.mine(frame[0]) or frame[0] == BROADCAST:
                if not self.intact(frame):
                    break
                self.on_frame(frame)
            del buffer[:length]
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None
        if buffer:
            del buffer[LONGEST_FRAME + 1 :]
            self._silence = self.loop.call_later(SILENCE_S, self._quiet)

    def _others(self, data: bytes) -> bool:
        """Return whether `data` is one whole frame for another address: most of what passes on a bus."""
        if len(data) < 4 or data[0] == BROADCAST or self.mine(data[0]):
            return False
        return self.frame_length(data) == len(data)

    def _quiet(self) -> None:
        buffer = self._buffer
        self._silence = None
        if 4 <= len(buffer) <= LONGEST_FRAME and self.frame_length(buffer) is None and self.intact(bytes(buffer)):
            self.on_frame(bytes(buffer))
        buffer.clear()

    def _halt(self) -> None:
        self._buffer.clear()
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None

    def frame_length(self, buffer: bytes | bytearray) -> int | None:
        """Return the length of the request that begins `buffer` (at least 4 bytes); None when only silence marks its end."""
        function = buffer[1]
        if 1 <= function <= 6 or function == DIAGNOSTICS:
            return 8
        if function in (WRITE_MULTIPLE_COILS, WRITE_MULTIPLE_REGISTERS):
            return 9 + buffer[6] if len(buffer) > 6 else LONGEST_FRAME
        return None

    def intact(self, frame: bytes) -> bool:
        """Return whether the checksum fits."""
        return crc16(frame[:-2]) == frame[-2] | frame[-1] << 8

    def on_frame(self, frame: bytes) -> None:
        """Act on an intact frame, and answer if it is for this device alone."""
        address, function = frame[0], frame[1]
        if not self.mine(address) and address != BROADCAST:
            return
        try:
            reply = frame[:2] + self.serve(function, frame[2:-2])
        except ModbusError as error:
            reply = bytes((address, function | 0x80, error.code))
        if address != BROADCAST:
            self.send(sealed(reply))
