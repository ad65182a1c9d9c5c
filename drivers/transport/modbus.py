"""Modbus RTU units on a supervised link: pymodbus builds and decodes the frames, the link carries them.

One link, one lock: any number of units share a bus. A reply must have the unit's address, the requested function,
the length that fits the request and a correct checksum; other frames are skipped (Modbus over Serial Line V1.02
§2.5.1, Application Protocol V1.1b3 §6).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from pymodbus.framer import FramerRTU
from pymodbus.pdu import DecodePDU, ExceptionResponse, ModbusPDU
from pymodbus.pdu.bit_message import (
    ReadCoilsRequest,
    ReadCoilsResponse,
    ReadDiscreteInputsRequest,
    ReadDiscreteInputsResponse,
    WriteMultipleCoilsRequest,
    WriteMultipleCoilsResponse,
    WriteSingleCoilResponse,
)
from pymodbus.pdu.register_message import (
    ReadHoldingRegistersRequest,
    ReadHoldingRegistersResponse,
    ReadInputRegistersRequest,
    ReadInputRegistersResponse,
    WriteMultipleRegistersRequest,
    WriteMultipleRegistersResponse,
    WriteSingleRegisterRequest,
    WriteSingleRegisterResponse,
)
from pymodbus.pdu.utils import unpack_bitstring

from drivers.errors import Refused
from drivers.transport.conversation import Conversation
from drivers.transport.link import Parser
from drivers.transport.replies import bad_reply

MODBUS_READS = re.compile(rb".[\x01-\x04].{6}|.\x2b\x0e.{4}", re.DOTALL)
"""Modbus RTU requests that only read: functions 1 to 4, and 43/14, the device identification."""
_FRAMER = FramerRTU(DecodePDU(is_server=False))
_EXCEPTIONS = {
    1: "it does not know this function",
    2: "it has no such address",
    3: "it does not accept this value or count",
    4: "it failed while doing it",
    6: "it is busy",
}


class ModbusUnit:
    """Reads and writes at one address of a bus. Every method raises a :class:`~drivers.device.DeviceError` or returns a
    complete answer.
    """

    def __init__(self, conversation: Conversation, unit: int) -> None:
        self.conversation = conversation
        self.unit = unit
        conversation.addressed = True

    async def read_holding_registers(self, address: int, count: int) -> bytes:
        """Read holding registers (FC03).

        Args:
            address: Wire address of the first one, from 0.
            count: How many.

        Returns:
            The 2·`count` bytes of the reply, big-endian.
        """
        request = read_registers_frame(self.unit, address, count)
        frame = await self.conversation.ask(request, self.reply_parser(ReadHoldingRegistersResponse, 5 + 2 * count))
        return frame[3:-2]

    async def read_input_registers(self, address: int, count: int) -> bytes:
        """Read input registers (FC04).

        Args:
            address: Wire address of the first one, from 0.
            count: How many.

        Returns:
            The 2·`count` bytes of the reply, big-endian.
        """
        request = read_input_registers_frame(self.unit, address, count)
        frame = await self.conversation.ask(request, self.reply_parser(ReadInputRegistersResponse, 5 + 2 * count))
        return frame[3:-2]

    async def write_register(self, address: int, value: int) -> None:
        """Write one holding register (FC06); the device must echo the request byte for byte.

        Args:
            address: Wire address, from 0.
            value: 0 to 65535.
        """
        request = _frame(WriteSingleRegisterRequest(address=address, registers=[value], dev_id=self.unit))
        reply = await self.conversation.ask(request, self.reply_parser(WriteSingleRegisterResponse, 8), mirrored=True)
        self._confirm(reply == request, reply)

    async def write_registers(self, address: int, values: Sequence[int]) -> None:
        """Write consecutive holding registers (FC16); the device confirms address and count.

        Args:
            address: Wire address of the first one, from 0.
            values: Their values, 0 to 65535.
        """
        request = _frame(
            WriteMultipleRegistersRequest(address=address, count=len(values), registers=list(values), dev_id=self.unit)
        )
        reply = await self.conversation.ask(request, self.reply_parser(WriteMultipleRegistersResponse, 8))
        self._confirm(reply[2:6] == request[2:6], reply)

    async def read_discrete_inputs(self, address: int, count: int) -> list[bool]:
        """Read discrete inputs (FC02).

        Args:
            address: Wire address of the first one, from 0.
            count: How many.

        Returns:
            The states, in their order.
        """
        request = read_discrete_inputs_frame(self.unit, address, count)
        size = 5 + (count + 7) // 8
        frame = await self.conversation.ask(request, self.reply_parser(ReadDiscreteInputsResponse, size))
        return unpack_bitstring(frame[3:-2])[:count]

    async def read_coils(self, address: int, count: int) -> list[bool]:
        """Read coils (FC01).

        Args:
            address: Wire address of the first one, from 0.
            count: How many.

        Returns:
            The states, in their order.
        """
        request = read_coils_frame(self.unit, address, count)
        size = 5 + (count + 7) // 8
        frame = await self.conversation.ask(request, self.reply_parser(ReadCoilsResponse, size))
        return unpack_bitstring(frame[3:-2])[:count]

    async def write_coil(self, address: int, on: bool) -> None:
        """Write one coil (FC05); the device must echo the request byte for byte.

        Args:
            address: Wire address, from 0.
            on: The state: 0xFF00 on the wire, or 0x0000.
        """
        await self._write_coil(address, 0xFF00 if on else 0x0000)

    async def write_coil_value(self, address: int, value: int) -> None:
        """Write any value to one coil (FC05), as some relay boards use it; the device must echo the request byte for
        byte.

        Args:
            address: Wire address, from 0.
            value: 0 to 65535.
        """
        await self._write_coil(address, value)

    async def write_coils(self, address: int, states: list[bool]) -> None:
        """Write consecutive coils (FC15); the device confirms address and count.

        Args:
            address: Wire address of the first one, from 0.
            states: Their states, in their order.
        """
        request = _frame(WriteMultipleCoilsRequest(address=address, bits=states, dev_id=self.unit))
        reply = await self.conversation.ask(request, self.reply_parser(WriteMultipleCoilsResponse, 8))
        self._confirm(reply[2:6] == request[2:6], reply)

    async def _write_coil(self, address: int, value: int) -> None:
        request = _write_coil_frame(self.unit, address, value)
        reply = await self.conversation.ask(request, self.reply_parser(WriteSingleCoilResponse, 8), mirrored=True)
        self._confirm(reply == request, reply)

    def _confirm(self, as_written: bool, reply: bytes) -> None:
        if not as_written:
            self.conversation.doubt()
            raise bad_reply(reply, self.conversation.where, "the confirmation of what was written")

    def reply_parser(self, answer: type[ModbusPDU], size: int) -> Parser[bytes]:
        """Return a parser for one kind of frame; it skips all others.

        Args:
            answer: Class of the reply, which has the function.
            size: Length of the frame (bytes), from address to checksum.

        Returns:
            The parser. It raises :class:`Refused` when the unit answers with an exception.
        """
        unit, function, where = self.unit, answer.function_code, self.conversation.where

        def parse(buffer: bytearray) -> bytes | None:
            while len(buffer) >= 5:
                if buffer[0] == unit and buffer[1] == function:
                    if len(buffer) < size:
                        return None
                    if _checksum_right(frame := bytes(buffer[:size])) and _length_fits(frame, answer):
                        del buffer[:size]
                        return frame
                elif buffer[0] == unit and buffer[1] == function | 0x80 and _checksum_right(frame := bytes(buffer[:5])):
                    del buffer[:5]
                    raise _refused(frame, where)
                del buffer[0]  # noise, another unit's frame or an older reply: search for the next possible start
            return None

        return parse


@lru_cache(maxsize=256)
def read_registers_frame(unit: int, address: int, count: int) -> bytes:
    """Return the frame that reads holding registers (FC03).

    Args:
        unit: Address on the bus, 1 to 247.
        address: Wire address of the first register, from 0.
        count: How many.

    Returns:
        The bytes, with the checksum.
    """
    return _frame(ReadHoldingRegistersRequest(address=address, count=count, dev_id=unit))


@lru_cache(maxsize=256)
def read_input_registers_frame(unit: int, address: int, count: int) -> bytes:
    """Return the frame that reads input registers (FC04).

    Args:
        unit: Address on the bus, 1 to 247.
        address: Wire address of the first register, from 0.
        count: How many.

    Returns:
        The bytes, with the checksum.
    """
    return _frame(ReadInputRegistersRequest(address=address, count=count, dev_id=unit))


@lru_cache(maxsize=256)
def read_discrete_inputs_frame(unit: int, address: int, count: int) -> bytes:
    """Return the frame that reads discrete inputs (FC02).

    Args:
        unit: Address on the bus, 1 to 247.
        address: Wire address of the first input, from 0.
        count: How many.

    Returns:
        The bytes, with the checksum.
    """
    return _frame(ReadDiscreteInputsRequest(address=address, count=count, dev_id=unit))


def unit_number(address: str, device: str) -> int:
    """Read the Modbus address of a device.

    Args:
        address: Its text in the rig file; empty means 1.
        device: Name of the device, for the error.

    Returns:
        The address, 1 to 247.

    Raises:
        Refused: The text is anything else.
    """
    text = address or "1"
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 247):
        raise Refused(
            f"“{text}” is not a Modbus address",
            where=device,
            cause="a mistake in the rig file",
            action="write the address set on the device, 1 to 247",
        )
    return int(text)


class _WriteCoilValue(ModbusPDU):
    """Encodes FC05 with any value, not only 0xFF00 and 0x0000."""

    function_code = 5
    rtu_frame_size = 8

    def __init__(self, *, address: int, value: int, dev_id: int) -> None:
        super().__init__(address=address, dev_id=dev_id)
        self._value = value

    def encode(self) -> bytes:
        return self.address.to_bytes(2, "big") + self._value.to_bytes(2, "big")


@lru_cache(maxsize=256)
def read_coils_frame(unit: int, address: int, count: int) -> bytes:
    """Return the frame that reads coils (FC01).

    Args:
        unit: Address on the bus, 1 to 247.
        address: Wire address of the first coil, from 0.
        count: How many.

    Returns:
        The bytes, with the checksum.
    """
    return _frame(ReadCoilsRequest(address=address, count=count, dev_id=unit))


@lru_cache(maxsize=256)
def _write_coil_frame(unit: int, address: int, value: int) -> bytes:
    return _frame(_WriteCoilValue(address=address, value=value, dev_id=unit))


def _frame(request: ModbusPDU) -> bytes:
    return _FRAMER.buildFrame(request)


def _checksum_right(frame: bytes) -> bool:
    return FramerRTU.check_CRC(frame[:-2], int.from_bytes(frame[-2:], "big"))


def _length_fits(frame: bytes, answer: type[ModbusPDU]) -> bool:
    return answer.calculateRtuFrameSize(frame) == len(frame)


def _refused(frame: bytes, where: str) -> Refused:
    answer = ExceptionResponse(frame[1] & 0x7F)
    answer.decode(frame[2:-2])
    meaning = _EXCEPTIONS.get(answer.exception_code, "see its manual")
    return Refused(
        f"Modbus exception {answer.exception_code} to function {frame[1] & 0x7F}: {meaning}",
        where=where,
        cause="another model at this address, or a point that it does not have",
        action="check the address and the model in the rig file",
    )
