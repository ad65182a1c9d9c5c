"""A Modbus RTU slave core: frames by length, CRC checked, silence for everything that is not for this address."""

from __future__ import annotations

from abc import abstractmethod

from sim.devices.wire import WireDevice


def _table_entry(index: int) -> int:
    for _ in range(8):
        index = (index >> 1) ^ 0xA001 if index & 1 else index >> 1
    return index


_TABLE = tuple(_table_entry(index) for index in range(256))


def crc16(data: bytes) -> int:
    """CRC-16 with polynomial 0xA001 and initial value 0xFFFF (Modbus over serial line, 2.5.1.2)."""
    crc = 0xFFFF
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc


class ModbusError(Exception):
    """An exception answer: 1 illegal function, 2 illegal address, 3 illegal value."""

    def __init__(self, code: int) -> None:
        super().__init__(f"modbus exception {code}")
        self.code = code


class ModbusSlave(WireDevice):
    """Answers one address. Subclasses fulfil `serve(function, body)`."""

    functions = (1, 3, 5, 15, 16)

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.address = int(self.spec.address or "1")
        self._buffer = bytearray()

    @abstractmethod
    def serve(self, function: int, body: bytes) -> bytes:
        """The answer's data for a request's data; raises :class:`ModbusError`."""

    def receive(self, data: bytes) -> None:
        """Collect a frame. A frame that never becomes whole is dropped at the next valid one."""
        self._buffer += data
        while len(self._buffer) >= 4:
            length = self._length()
            if length == 0:
                return
            frame = bytes(self._buffer[:length])
            if length > 0 and crc16(frame[:-2]) == frame[-2] | frame[-1] << 8:
                del self._buffer[:length]
                self._answer(frame)
            else:
                del self._buffer[0]

    def _length(self) -> int:
        """The length of the frame at the front, 0 while it is not all there, -1 when it is none."""
        function = self._buffer[1]
        if function in (1, 2, 3, 4, 5, 6):
            wanted = 8
        elif function in (15, 16):
            if len(self._buffer) < 7:
                return 0
            wanted = 9 + self._buffer[6]
        else:
            wanted = 4
        return wanted if len(self._buffer) >= wanted else 0

    def _answer(self, frame: bytes) -> None:
        address, function, body = frame[0], frame[1], frame[2:-2]
        if address not in (self.address, 0):
            return
        try:
            if function not in self.functions:
                raise ModbusError(1)
            reply = bytes((self.address, function)) + self.serve(function, body)
        except ModbusError as error:
            reply = bytes((self.address, function | 0x80, error.code))
        if address == self.address:
            self.send(reply + crc16(reply).to_bytes(2, "little"))
