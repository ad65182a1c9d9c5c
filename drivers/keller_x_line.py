"""Keller X-Line pressure transmitters, Series 30 and 40, on Modbus RTU (“Communication protocol X-Line”).

The measured values are 32-bit floats, high word first: 0x0000 the calculated channel, 0x0002 P1 in bar.
Not-a-number means a channel error, an infinity over- or underflow: both are faults here, never numbers.
"""

from __future__ import annotations

import math
import re
import struct

from pymodbus.pdu.register_message import ReadHoldingRegistersResponse

from drivers.commands import Guarantee
from drivers.device import Device, DeviceConfig, DeviceModel, Identity, Page, Sensor
from drivers.errors import BadReply, DeviceFault, NoReply, Refused, WrongDevice
from drivers.keller_bus import X_LINE, ZERO, identity_parser, initialise_frame, serial_frame, serial_parser
from drivers.settings import known_only
from drivers.transport.conversation import Conversation, SyncQuery
from drivers.transport.link import Link
from drivers.transport.modbus import MODBUS_READS, ModbusUnit, read_registers_frame, unit_number
from drivers.transport.url import LineSettings

TIMEOUT_S = 0.3
CHANNEL_0 = 0x0000
PRESSURE_1 = 0x0002
HOUSING = 0x0008
"""TOB1: temperature of the pressure sensor in its housing (°C)."""
MIN_C, MAX_C = -60.0, 200.0
KPA_PER_BAR = 100.0


class KellerXLine(Device):
    """One transmitter; its only point is `pressure` (kPa, gauge with a gauge-type transmitter)."""

    model = DeviceModel(
        id="keller-x-line",
        vendor="Keller",
        name="X-Line Series 30/40",
        kind="sensor",
        transports=("serial", "tcp", "sim"),
        capabilities=("read",),
        guarantee=Guarantee.HOST,
        manual="Communication protocol X-Line, Modbus function 3, pages 13 to 16",
    )
    line = LineSettings(baud=9600, bits=8, parity="N", stop=1)
    queries = re.compile(rb".[\x30\x45].{2}|" + MODBUS_READS.pattern, re.DOTALL)
    settings = (ZERO,)
    page = Page(
        wiring="RS-485, two wires, terminated at both ends; 9600 8N1. A bus: other Modbus devices may share it.",
        address="Modbus address, 1 to 247 (default 1)",
        commands=(
            ("Keller bus 48", "first function after power-up; class, group and firmware", "pp. 13–16"),
            ("Keller bus 69", "serial number", "pp. 13–16"),
            (
                "FC03 0x0000, 4 registers",
                "calculated channel and P1: verification, and barrier against late replies",
                "pp. 13–16",
            ),
            ("FC03 0x0002, 2 registers", "P1 in bar, float, high word first", "pp. 13–16"),
        ),
        traps=(
            "K converters and many USB-RS485 dongles echo what is sent: write `?echo=1` in the link.",
            "The same port uses two protocols with the checksum's bytes in opposite order.",
            "Not-a-number is a channel error and infinity an over- or underflow: both are faults, never readings.",
            "The zero command (0xFF00) writes the transmitter's memory and is never sent; use `zero_kpa`.",
        ),
    )

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        known_only(config.settings, config.name, self.settings)
        self._zero_kpa = ZERO.of(config.settings, config.name)
        unit = unit_number(config.address, config.name)
        self._conversation = Conversation(
            link,
            config.name,
            timeout_s=TIMEOUT_S,
            # Two floats instead of one: no late answer to a reading has this length.
            barrier=SyncQuery(
                read_registers_frame(unit, CHANNEL_0, 4),
                lambda: self._unit.reply_parser(ReadHoldingRegistersResponse, 5 + 8),
            ),
        )
        self._unit = ModbusUnit(self._conversation, unit)
        self.sensors["pressure"] = _Pressure(self)
        link.attach(self._conversation, self.verify)

    @property
    def conversation(self) -> Conversation:
        """This driver's side of the link."""
        return self._conversation

    async def _identify(self) -> Identity:
        unit = self._unit.unit
        try:
            told = await self._conversation.ask(initialise_frame(unit), identity_parser(unit))
        except (NoReply, BadReply):
            firmware = serial = ""  # a gateway may pass nothing but Modbus: then its registers must identify it
            await self._has_its_registers()
        else:
            if (told.device_class, told.group) != X_LINE:
                raise self._another(f"it says it is of class {told.device_class}, group {told.group}")
            firmware = told.firmware
            serial = await self._serial(unit)
        data = await self._unit.read_holding_registers(CHANNEL_0, 4)
        if math.isfinite(p1_bar := _float(data[4:])) and abs(p1_bar) > 2000.0:
            raise self._another(f"it reads {p1_bar:g} bar, which no transmitter of this family measures")
        return Identity("X-Line", serial, firmware)

    async def _serial(self, unit: int) -> str:
        """Return the serial number; empty from a transmitter that does not know function 69."""
        try:
            return str(await self._conversation.ask(serial_frame(unit), serial_parser(unit, self._refusal)))
        except Refused:
            return ""

    def _refusal(self, function: int, code: int) -> Refused:
        return Refused(
            f"it refuses function {function} with code {code}",
            where=self.config.name,
            cause="an older transmitter",
            action="none: it is used without a serial number",
        )

    async def _has_its_registers(self) -> None:
        """Check the housing temperature register where only Modbus passes: it must be present and plausible."""
        try:
            celsius = _float(await self._unit.read_holding_registers(HOUSING, 2))
        except Refused as error:
            raise self._another("it has no housing temperature in register 8") from error
        if math.isfinite(celsius) and not MIN_C <= celsius <= MAX_C:  # NaN is a separate channel fault
            raise self._another(f"it tells {celsius:g} degC as the temperature of its housing")

    def _another(self, what: str) -> WrongDevice:
        return WrongDevice(
            what,
            where=self.config.name,
            cause="another kind of device answers at this address",
            action="check the address and the model in the rig file",
        )

    async def read(self) -> float:
        """Return P1 in kPa, less the setting `zero_kpa`."""
        p1_bar = _float(await self._unit.read_holding_registers(PRESSURE_1, 2))
        if not math.isfinite(p1_bar):
            raise DeviceFault(
                "the pressure channel reports an error" if math.isnan(p1_bar) else "the pressure is out of range",
                where=self.config.name,
                cause="a broken sensor"
                if math.isnan(p1_bar)
                else "a blocked line, or a transmitter of too small range",
                action="stop the flow, look for the blockage, then check the transmitter",
            )
        return p1_bar * KPA_PER_BAR - self._zero_kpa


class _Pressure(Sensor):
    unit = "kPa"

    def __init__(self, transmitter: KellerXLine) -> None:
        self._transmitter = transmitter

    async def read(self) -> float:
        return await self._transmitter.read()


def _float(data: bytes) -> float:
    value: float = struct.unpack(">f", data)[0]
    return value
