"""Any Modbus RTU device, described in YAML instead of code (Modbus Application Protocol V1.1b3;
docs/generic-modbus.md).

The description defines the device's points: address, type, scale and unit of each value, the limits of valid
readings, and which registers may be written, within which limits and with which value of rest. Neighbours are read
in one request, and one reading serves every point of its block for `SHARED_S`.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from pymodbus.pdu.bit_message import ReadCoilsResponse, ReadDiscreteInputsResponse
from pymodbus.pdu.register_message import ReadHoldingRegistersResponse, ReadInputRegistersResponse

from drivers.commands import Command, Guarantee, Level, LevelStatus, Switch, SwitchStatus
from drivers.device import Device, DeviceConfig, DeviceModel, Identity, Page, Recognition, Sensor, refuse
from drivers.errors import BadReply, DeviceError, DeviceFault, NoReply, Refused, WrongDevice
from drivers.modbus_generic_description import (
    COILS,
    HOLDING,
    INPUT_BITS,
    INPUTS,
    BlockSpec,
    Description,
    PointSpec,
)
from drivers.modbus_generic_reader import describe
from drivers.output import Output
from drivers.settings import Setting, bad_setting, known_only
from drivers.transport.conversation import Conversation, SyncQuery
from drivers.transport.link import Link, Parser
from drivers.transport.modbus import (
    MODBUS_READS,
    ModbusUnit,
    read_coils_frame,
    read_discrete_inputs_frame,
    read_input_registers_frame,
    read_registers_frame,
    unit_number,
)
from drivers.transport.url import LineSettings

SHARED_S = 0.2
"""Maximum age of a reading of a block that serves all its points (s)."""
LONGEST_S = 604_800.0
"""A week: maximum duration of a timed switch (s)."""
EEPROM_S = 60.0
"""Minimum interval between writes to a register in EEPROM (s), except to bring it to rest."""

FILE = Setting(
    key="file",
    meaning="path of the description, relative to the rig file, such as ../devices/thermostat.yaml; or",
)
DESCRIPTION = Setting(key="description", meaning="the description itself, as a YAML block text (description: |)")


class ModbusGeneric(Device):
    """One described device; its points are those of the description."""

    model = DeviceModel(
        id="modbus-generic",
        vendor="any",
        name="Modbus RTU device described in YAML",
        kind="sensor",
        transports=("serial", "tcp", "sim"),
        capabilities=("read", "level", "switch"),
        guarantee=Guarantee.GUARD,
        manual="Modbus Application Protocol V1.1b3; the described device's own register table",
        verification="the protocol against golden frames and an independent simulator; the register table is the user's",
    )
    line = LineSettings(baud=9600, bits=8, parity="N", stop=1)
    queries = MODBUS_READS
    # Read Device Identification (function 43/14) of unit 1. A device without that function answers with an exception, which
    # shows as well that it speaks Modbus RTU. Nothing is read that a device could clear by it.
    recognised_by = Recognition(
        bytes.fromhex("012B 0E01 0070 77"), re.compile(rb"\x01(\x2b\x0e\x01.{4,240}|\xab[\x01-\x0b])..", re.DOTALL)
    )
    settings = (FILE, DESCRIPTION)
    page = Page(
        wiring="RS-485 two-wire (A/B and common) or a serial server's TCP port with Modbus RTU inside; line settings as "
        "on the device, written in the link (?baud=19200&parity=E). Modbus TCP (port 502) is another framing: put a "
        "gateway in RTU-over-TCP mode between.",
        address="Modbus address, 1 to 247 (default 1)",
        commands=(
            ("function 01, 02", "coils and input bits", "V1.1b3 §6.1, §6.2"),
            ("function 03, 04", "holding and input registers, neighbours in one request", "V1.1b3 §6.3, §6.4"),
            ("function 05, 15", "one coil (15: as a list of one)", "V1.1b3 §6.5, §6.11"),
            ("function 06, 16", "a set-point; read first, not written when it stands already", "V1.1b3 §6.6, §6.12"),
        ),
        traps=(
            "Modbus does not end an output when the host dies: the guard process writes the value of rest. A device's "
            "own watchdog, if it has one, must be set on the device.",
            "Manuals count registers from 0 or from 1 (and print 40001): see counted_from. A neighbour's value that looks "
            "plausible shows that the number is off by one.",
            "Word order of 32-bit values differs between manufacturers: an absurd or tiny float shows a wrong order.",
            "A Modbus answer does not name its register. After a lost answer the driver sends a query whose "
            "answer has a unique length; a device that answers no such query is given `late` seconds.",
            "The status of a level at rest shows set-point 0, whatever value of rest was written.",
        ),
    )

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        known_only(config.settings, config.name, self.settings)
        if config.channels:
            raise bad_setting(
                config.name, "channels", "does not go with this model", "its points are the description's"
            )
        self.description: Description = describe(config.name, config.settings)
        number = unit_number(config.address, config.name)
        self._conversation = Conversation(
            link,
            config.name,
            timeout_s=self.description.timeout_s,
            late_s=self.description.late_s,
            barrier=self._barrier(number),
        )
        self.unit = ModbusUnit(self._conversation, number)
        self._blocks: dict[str, ReadBlock] = {}
        self.blocks = [ReadBlock(self, spec) for spec in self.description.blocks]
        for block in self.blocks:
            self._blocks |= dict.fromkeys(block.spec.points, block)
        for name, point in self.description.points.items():
            if point.level is not None:
                self.actuators[name] = LevelRegister(self, point)
            elif point.switch is not None:
                self.actuators[name] = SwitchRegister(self, point)
            else:
                self.sensors[name] = DescribedSensor(self, point)
        link.attach(self._conversation, self.verify)

    @property
    def conversation(self) -> Conversation:
        """This driver's side of the link."""
        return self._conversation

    async def _identify(self) -> Identity:
        if (check := self.description.check) is not None:
            point = check.point
            raw = point.raw(await read_words(self.unit, point.function, point.address, point.count))
            if not check.low <= raw <= check.high:
                wanted = f"{check.low:g}" if check.low == check.high else f"{check.low:g} to {check.high:g}"
                raise WrongDevice(
                    f"wire address {point.address} tells {raw:g}, not {wanted}",
                    where=self.config.name,
                    cause="another model answers at this address, or the description's check is wrong",
                    action="check the address, then the description against the manual",
                )
        await self._find_barrier()
        for block in self.blocks:
            block.forget()
            try:
                await block.read()
            except Refused as error:
                error.add_note(f"it was asked for {', '.join(block.spec.points)} (wire address {block.spec.address})")
                raise
        return Identity(model=self.description.name)

    async def _find_barrier(self) -> None:
        """Find out whether the device answers a longer query, where no part of the description has a unique length.

        Most devices refuse it, which is an answer, too. A device that is silent is given the time `late` to answer
        late.
        """
        if self._barrier(self.unit.unit) is not None:
            return
        longer = self._longer_barrier(self.unit.unit)
        try:
            await self._conversation.ask(longer.request, longer.parser())
        except (NoReply, BadReply):
            self._conversation.fence(None)
        else:
            self._conversation.fence(longer)

    def block_of(self, point: str) -> ReadBlock:
        """Return the block that contains `point`."""
        return self._blocks[point]

    async def value(self, point: PointSpec) -> float:
        """Return a point's value in its unit; raise DeviceFault for an invalid raw value, or one beyond `limits`."""
        raw = await self.raw(point)
        value = point.value(raw)
        if raw in point.invalid or not math.isfinite(value):
            raise DeviceFault(
                f"it tells {raw:g}, which means that it has no value",
                where=f"{self.config.name}.{point.name}",
                cause="its probe is missing, broken or not yet ready",
                action="look at the device",
            )
        if point.limits is not None and not point.limits[0] <= value <= point.limits[1]:
            raise DeviceFault(
                f"{value:g} {point.unit} is beyond {point.limits[0]:g} to {point.limits[1]:g}",
                where=f"{self.config.name}.{point.name}",
                cause="a broken probe, or a slip of scale, type or word order in the description",
                action="compare with the device's own display",
            )
        return value

    async def raw(self, point: PointSpec) -> float:
        """Return the raw number in the device, at most `SHARED_S` old."""
        data = await self.block_of(point.name).read()
        return raw_in(self.block_of(point.name).spec, point, data)

    def _barrier(self, unit: int) -> SyncQuery | None:
        """Return a read with an answer of unique length: part of a block that splits no point; None if there is
        none.
        """
        described = self.description
        used = {(block.function, block.count) for block in described.blocks}
        if (check := described.check) is not None:
            used.add((check.point.function, check.point.count))
        for block in described.blocks:
            if block.function not in (HOLDING, INPUTS):
                continue
            for count in range(1, block.count):
                if (block.function, count) not in used and self._splits_no_point(block, count):
                    holding = block.function == HOLDING
                    frame = read_registers_frame if holding else read_input_registers_frame
                    return SyncQuery(frame(unit, block.address, count), partial(self._parser, holding, 5 + 2 * count))
        return None

    def _longer_barrier(self, unit: int) -> SyncQuery:
        """Return a read that is longer than any other: the device answers it, or refuses it, unlike any reading."""
        blocks = self.description.blocks
        block = next((block for block in blocks if block.function in (HOLDING, INPUTS)), blocks[0])
        longest = max(each.count for each in blocks)
        if block.function in (HOLDING, INPUTS):
            count, holding = longest + 1, block.function == HOLDING
            frame = read_registers_frame if holding else read_input_registers_frame
            parser = partial(self._parser, holding, 5 + 2 * count)
            return SyncQuery(frame(unit, block.address, count), partial(_or_refused, parser))
        count, coils = longest + 8, block.function == COILS
        bits_frame = read_coils_frame if coils else read_discrete_inputs_frame
        answer = ReadCoilsResponse if coils else ReadDiscreteInputsResponse
        bits_parser = partial(self.unit.reply_parser, answer, 5 + (count + 7) // 8)
        return SyncQuery(bits_frame(unit, block.address, count), partial(_or_refused, bits_parser))

    def _parser(self, holding: bool, size: int) -> Parser[bytes]:
        return self.unit.reply_parser(ReadHoldingRegistersResponse if holding else ReadInputRegistersResponse, size)

    def _splits_no_point(self, block: BlockSpec, count: int) -> bool:
        return not any(
            point.address - block.address < count < point.address - block.address + point.count
            for point in (self.description.points[name] for name in block.points)
        )


def _or_refused(parser: Callable[[], Parser[bytes]]) -> Parser[bytes]:
    """Return a parser that accepts an exception answer as an answer."""
    parse = parser()

    def either(buffer: bytearray) -> bytes | None:
        try:
            return parse(buffer)
        except Refused:
            return b"refused"

    return either


class ReadBlock:
    """Registers or bits that are read in one request."""

    def __init__(self, device: ModbusGeneric, spec: BlockSpec) -> None:
        self.spec = spec
        self._device = device
        self._data: bytes | None = None
        self._at_s = 0.0
        self._forgotten = 0
        self._one_at_a_time = asyncio.Lock()

    def forget(self) -> None:
        """Invalidate what was read of the block, or is being read: it is about to change."""
        self._data = None
        self._forgotten += 1

    async def read(self) -> bytes:
        """Return the block's content, at most `SHARED_S` old; concurrent callers share one reading."""
        loop = asyncio.get_running_loop()
        async with self._one_at_a_time:
            if self._data is not None and loop.time() - self._at_s <= SHARED_S:
                return self._data
            begun, spec = self._forgotten, self.spec
            data = await read_words(self._device.unit, spec.function, spec.address, spec.count)
            if begun == self._forgotten:
                self._data, self._at_s = data, loop.time()
            return data


async def read_words(unit: ModbusUnit, function: int, address: int, count: int) -> bytes:
    """Return the registers, 2 bytes each; for bits one byte each, 0 or 1."""
    if function == COILS:
        return bytes(await unit.read_coils(address, count))
    if function == INPUT_BITS:
        return bytes(await unit.read_discrete_inputs(address, count))
    if function == HOLDING:
        return await unit.read_holding_registers(address, count)
    return await unit.read_input_registers(address, count)


def raw_in(block: BlockSpec, point: PointSpec, data: bytes) -> float:
    """Return the raw number of `point` in the `data` of its block."""
    at = point.address - block.address
    if not point.type:
        return float(data[at])
    return point.raw(data[2 * at : 2 * (at + point.count)])


class DescribedSensor(Sensor):
    """One point that is read."""

    def __init__(self, device: ModbusGeneric, point: PointSpec) -> None:
        self.unit = point.unit
        self._device = device
        self._point = point

    async def read(self) -> float:
        """Return the value in the point's unit."""
        return await self._device.value(self._point)


class _Register(Output):
    """Common part of both kinds of output."""

    def __init__(self, device: ModbusGeneric, point: PointSpec, *, eeprom: bool) -> None:
        super().__init__(f"{device.config.name}.{point.name}", device.conversation)
        self.unit = point.unit
        self._device = device
        self._point = point
        self._eeprom = eeprom
        self._written_at_s = -math.inf

    async def _raw(self) -> float:
        return await self._device.raw(self._point)

    async def _rest(self, rest: float, write: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Write the value of rest and verify it by readback."""
        if self._eeprom:
            try:
                if await self._raw() == rest:
                    return
            except DeviceError:
                pass  # a failed read is no reason not to bring it to rest
        await self._written(rest, write)

    async def _written(self, wanted: float, write: Callable[[], Coroutine[Any, Any, None]]) -> None:
        block = self._device.block_of(self._point.name)
        block.forget()
        try:
            await write()
        finally:
            block.forget()
        if (stands := await self._raw()) != wanted:
            raise DeviceFault(
                f"{wanted:g} was written and {stands:g} stands there",
                where=self.where,
                cause="the device keeps narrower limits, is switched to local operation, or the address is another's",
                action="check the device's own limits and its mode, then the description",
            )

    def _spare_eeprom(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if self._eeprom and now_s - self._written_at_s < EEPROM_S:
            raise Refused(
                f"it was written {now_s - self._written_at_s:.0f} s ago and is kept in EEPROM",
                where=self.where,
                cause="set-points come faster than the device's memory bears in the long run",
                action=f"wait {EEPROM_S:g} s between them, or describe a register that is not kept in EEPROM",
            )
        self._written_at_s = now_s


class LevelRegister(_Register):
    """A number that may be written within the description's limits."""

    kind = "level"

    def __init__(self, device: ModbusGeneric, point: PointSpec) -> None:
        assert point.level is not None  # noqa: S101  (chosen by the device)
        super().__init__(device, point, eeprom=point.level.eeprom)
        self._spec = point.level
        self._at_rest = point.raw(point.words(point.level.rest))

    async def obey(self, command: Command) -> None:
        """Execute a Level command, in the point's unit."""
        match command:
            case Level(value=value) if value == 0.0 and not self._spec.low <= 0.0 <= self._spec.high:
                await self.off()  # a level at rest reads 0, so 0 is rest
            case Level(value=value):
                await self._set(value)
            case _:
                raise refuse(self, self.where, command)

    async def status(self) -> LevelStatus:
        """Return set-point (0 at rest) and, if the description names one, the measured value, in the point's unit."""
        raw = await self._raw()
        setpoint = 0.0 if raw == self._at_rest else self._point.value(raw)
        measured = setpoint
        if self._spec.measured:
            measured = await self._device.value(self._device.description.points[self._spec.measured])
        return LevelStatus(setpoint=setpoint, measured=measured)

    async def _set(self, value: float) -> None:
        if not self._spec.low <= value <= self._spec.high:
            raise Refused(
                f"{value:g} {self.unit} is outside {self._spec.low:g} to {self._spec.high:g}",
                where=self.where,
                cause="the request is beyond the limits of the description",
                action="ask for less, or correct the level's limits in the description",
            )
        words = self._point.words(value)
        wanted = self._point.raw(words)
        self._device.block_of(self._point.name).forget()
        if (stands := await self._raw()) == wanted:
            return
        self._spare_eeprom()
        await self.on(self._written(wanted, lambda: self._write(words)), was_on=stands != self._at_rest)

    async def rest(self) -> None:
        """See :meth:`Output.rest`."""
        words = self._point.words(self._spec.rest)
        await self._rest(self._at_rest, lambda: self._write(words))

    async def _write(self, words: bytes) -> None:
        await write_words(self._device.unit, self._spec.function, self._point.address, words)


class SwitchRegister(_Register):
    """A coil, or a register with one number for on and one for off. The device cannot time `for_s`."""

    kind = "switch"

    def __init__(self, device: ModbusGeneric, point: PointSpec) -> None:
        assert point.switch is not None  # noqa: S101  (chosen by the device)
        super().__init__(device, point, eeprom=point.switch.eeprom)
        self._spec = point.switch

    async def obey(self, command: Command) -> None:
        """Execute a Switch command."""
        match command:
            case Switch(on=False):
                await self.off()
            case Switch(for_s=for_s) if for_s is not None and not 0.0 < for_s <= LONGEST_S:
                raise Refused(
                    f"{for_s:g} s is not a time to be on",
                    where=self.where,
                    cause="a slip in the request",
                    action=f"ask for more than 0 and at most {LONGEST_S:g} s",
                )
            case Switch():
                await self._switch_on()
            case _:
                raise refuse(self, self.where, command)

    async def status(self) -> SwitchStatus:
        """Return whether it is on, read from the device: any number but that of off counts as on."""
        return SwitchStatus(await self._raw() != self._spec.off)

    async def _switch_on(self) -> None:
        self._device.block_of(self._point.name).forget()
        if (stands := await self._raw()) == self._spec.on:
            return
        self._spare_eeprom()
        await self.on(
            self._written(float(self._spec.on), lambda: self._write(self._spec.on)), was_on=stands != self._spec.off
        )

    async def rest(self) -> None:
        """See :meth:`Output.rest`."""
        await self._rest(float(self._spec.off), lambda: self._write(self._spec.off))

    async def _write(self, raw: int) -> None:
        unit, address = self._device.unit, self._point.address
        if self._spec.function == 5:
            await unit.write_coil(address, bool(raw))
        elif self._spec.function == 15:
            await unit.write_coils(address, [bool(raw)])
        else:
            await write_words(unit, self._spec.function, address, self._point.in_order(raw.to_bytes(2, "big")))


async def write_words(unit: ModbusUnit, function: int, address: int, words: bytes) -> None:
    """Write the registers of `words` (2 bytes each) with function 6 or 16."""
    values: Sequence[int] = [int.from_bytes(words[at : at + 2], "big") for at in range(0, len(words), 2)]
    if function == 6:
        await unit.write_register(address, values[0])
    else:
        await unit.write_registers(address, values)
