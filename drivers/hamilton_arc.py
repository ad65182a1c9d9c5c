"""Hamilton Arc sensors on Modbus RTU: pH Arc and VisiFerm DO (“pH ARC Sensors Modbus RTU Programmer's Manual”).

The manual counts registers from 1, sends 32-bit values least significant word first, and answers a command only
when its complete block is read. A measured value comes with its unit, status and range in one block of ten
registers.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, replace
from typing import ClassVar

from pymodbus.pdu.register_message import ReadHoldingRegistersResponse

from drivers.commands import Guarantee, Quality
from drivers.device import Device, DeviceConfig, DeviceModel, Identity, Page, Sensor
from drivers.errors import BadReply, DeviceFault, Refused, WrongDevice
from drivers.probe_health import HealthItem, ProbeHealth
from drivers.settings import ChoiceSetting, Setting, bad_setting, known_only
from drivers.transport.conversation import Conversation, SyncQuery
from drivers.transport.link import Link
from drivers.transport.modbus import MODBUS_READS, ModbusUnit, read_registers_frame, unit_number
from drivers.transport.url import LineSettings

TIMEOUT_S = 0.5

PMC1, PMC6 = 2090, 2410
"""Registers of the primary value and of the temperature, as the manual counts them: the wire address is one less."""
PMC_REGISTERS = 10
OPERATOR_LEVEL = 4288
LEVEL_REGISTERS = 4
WARNINGS, ERRORS = 4736, 4800
"""Registers of the active warnings and errors: measurement, calibration, interface, hardware."""
FLAG_REGISTERS = 8
QUALITY_INDICATOR = 4872
QUALITY_LOW_PCT = 35.0
"""Quality indicator below which the sensor is to be replaced. The pages of the manual that were used print only its range,
0 to 100 %: the limit is this project's choice."""
LEVELS = {"U": 0x03, "A": 0x0C, "S": 0x30}

CELSIUS, PERCENT_SAT, PH = 0x4, 0x20, 0x1000
UNITS = {
    0x1: "none",
    0x2: "K",
    CELSIUS: "°C",
    0x8: "°F",
    0x10: "%-vol",
    PERCENT_SAT: "%-sat",
    0x40: "ug/l",
    0x80: "mg/l",
    0x100: "g/l",
    0x200: "uS/cm",
    0x400: "mS/cm",
    PH: "pH",
    0x200000: "mV",
    0x800000: "mbar",
}

T_OUT_OF_MEASURING_RANGE, T_OUT_OF_OPERATING_RANGE, CALIBRATION, WARNING, ERROR = 0x01, 0x02, 0x04, 0x08, 0x10
UNUSABLE = T_OUT_OF_MEASURING_RANGE | ERROR
"""Status bits under which the sensor's value is not valid."""


@dataclass(frozen=True, slots=True)
class ArcMeasurement:
    """One block: `unit` and `status` are bit fields, the range is the sensor's measuring range in that unit."""

    unit: int
    value: float
    status: int
    low: float
    high: float

    @property
    def quality(self) -> Quality:
        """Quality derived from the status."""
        if self.status & UNUSABLE or not self.low <= self.value <= self.high:
            return Quality.MISSING
        return Quality.SUSPECT if self.status else Quality.GOOD


LEVEL = ChoiceSetting(
    key="operator_level",
    meaning="level of the sensor at verification",
    among=("", *LEVELS),
    default="",
    without="default: empty, left as it is",
)
PASSWORD = Setting(
    key="operator_password",
    meaning="password of that level, a whole number; the manual has the factory's",
)


class HamiltonArc(Device):
    """One sensor: its primary value and its temperature (°C)."""

    line = LineSettings(baud=19200, bits=8, parity="N", stop=2)
    queries = MODBUS_READS
    point: ClassVar[str]
    unit: ClassVar[str]
    unit_code: ClassVar[int]

    settings = (LEVEL, PASSWORD)
    page = Page(
        wiring=(
            "RS-485, two wires, 19200 baud 8N2 from the factory, address 1; several sensors share a line once each has "
            "an address of its own."
        ),
        address="Modbus address, 1 to 247 (default 1)",
        commands=(
            ("read 2090, 10 registers", "primary value: unit, value, status, range", "register 2090 (PMC1)"),
            ("read 2410, 10 registers", "temperature, same layout", "register 2410 (PMC6)"),
            ("read 4288, 4 registers", "operator level", "register 4288"),
            ("write 4288, 4 registers", "log in, only if operator_level is set and differs", "register 4288"),
            ("write 2090, 2 registers", "select the unit, only at level S and only if it differs", "register 2090"),
            ("read 4872, 2 registers", "quality indicator: barrier; at its start and daily", "register 4872"),
            ("read 4736, 8 registers", "active warnings, at its start and daily", "register 4736"),
            ("read 4800, 8 registers", "active errors, at its start and daily", "register 4800"),
        ),
        traps=(
            "The manual counts registers from 1: register 2090 is sent as 2089.",
            "Least significant word first, unlike most devices on Modbus.",
            "A part of a block cannot be read.",
            "Sources differ on the stop bits: if a sensor does not answer, try `?stop=1` in the link.",
            "More than 100 000 writes damage the sensor's memory: the unit is written once, never in a loop.",
            "The level falls back to U at every power-up; the driver needs it only to select a unit.",
            "The order of characters in text registers is not printed in the pages used, so no text is read from the "
            "sensor: its kind follows from its unit.",
            "The Modbus exception for a wrong level or password is not printed either: any exception is a refusal here.",
            "Whether %-sat is the factory's unit of a VisiFerm is not certain: another unit is refused with an error, or "
            "changed once if the rig file gives level S.",
            "Status bits 1 (temperature beyond the measuring range) and 16 (error) leave no value, 2, 4, 8 and "
            "unknown ones make it suspect.",
        ),
    )

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        known_only(config.settings, config.name, self.settings)
        self._level = LEVELS.get(LEVEL.of(config.settings, config.name))
        self._password = _password(config, needed=self._level not in (None, LEVELS["U"]))
        unit = unit_number(config.address, config.name)
        self._conversation = Conversation(
            link,
            config.name,
            timeout_s=TIMEOUT_S,
            # Two registers: no late answer to anything else has this length.
            barrier=SyncQuery(
                read_registers_frame(unit, QUALITY_INDICATOR - 1, 2),
                lambda: self._unit.reply_parser(ReadHoldingRegistersResponse, 5 + 4),
            ),
        )
        self._unit = ModbusUnit(self._conversation, unit)
        self.sensors[self.point] = _Value(self, PMC1, self.unit_code, self.unit)
        self.health = _ArcHealth(self)
        self.sensors["temperature"] = _Value(self, PMC6, CELSIUS, "degC")
        link.attach(self._conversation, self.verify)

    @property
    def conversation(self) -> Conversation:
        """This driver's side of the link."""
        return self._conversation

    async def _identify(self) -> Identity:
        level = await self._operator_level()
        if self._level is not None and level != self._level:
            await self._log_in(self._level)
            level = self._level
        primary = await self.measurement(PMC1)
        if primary.unit != self.unit_code:
            if level != LEVELS["S"]:
                raise self._other_unit(primary.unit)
            await self._unit.write_registers(PMC1 - 1, low_word_first(self.unit_code))
            primary = await self.measurement(PMC1)
            if primary.unit != self.unit_code:
                raise self._other_unit(primary.unit)
        if (temperature := await self.measurement(PMC6)).unit != CELSIUS:
            raise WrongDevice(
                f"its temperature is in {unit_text(temperature.unit)}, not in °C",
                where=self.config.name,
                cause="its unit was changed, or another kind of device answers at this address",
                action="set its temperature unit to °C with the maker's software",
            )
        return Identity(model=self.model.name)

    async def _operator_level(self) -> int:
        data = await self._unit.read_holding_registers(OPERATOR_LEVEL - 1, LEVEL_REGISTERS)
        return _u32(data)

    async def _log_in(self, level: int) -> None:
        await self._unit.write_registers(OPERATOR_LEVEL - 1, (*low_word_first(level), *low_word_first(self._password)))
        if (told := await self._operator_level()) != level:
            raise Refused(
                f"it stays at operator level 0x{told:02X} instead of 0x{level:02X}",
                where=self.config.name,
                cause="the password is not the one stored in the sensor",
                action="correct operator_password in the rig file",
            )

    def _other_unit(self, unit: int) -> WrongDevice:
        return WrongDevice(
            f"it measures in {unit_text(unit)}, not in {unit_text(self.unit_code)}",
            where=self.config.name,
            cause="another kind of sensor at this address, or another unit was selected in it",
            action=f"check the address; select {unit_text(self.unit_code)} with the maker's software, or give the rig "
            "operator_level: S and its password",
        )

    async def measurement(self, register: int) -> ArcMeasurement:
        """Return the complete block of ten registers at `register` (counted from 1)."""
        data = await self._unit.read_holding_registers(register - 1, PMC_REGISTERS)
        return ArcMeasurement(_u32(data), _f32(data[4:]), _u32(data[8:]), _f32(data[12:]), _f32(data[16:]))

    async def flags(self, register: int) -> tuple[int, int, int, int]:
        """Return the words of a block of warnings or errors: measurement, calibration, interface, hardware."""
        data = await self._unit.read_holding_registers(register - 1, FLAG_REGISTERS)
        return _u32(data), _u32(data[4:]), _u32(data[8:]), _u32(data[12:])

    async def quality_indicator(self) -> float:
        """Return the sensor's own quality indicator (%)."""
        return _f32(await self._unit.read_holding_registers(QUALITY_INDICATOR - 1, 2))


class _ArcHealth(ProbeHealth):
    """What the sensor says of itself: its quality indicator, its warnings of the calibration, its errors."""

    items = (
        HealthItem(
            "quality", "%", QUALITY_LOW_PCT, 100.0, "quality indicator",
            "replace the electrode of a pH Arc, the cap of a VisiFerm, then calibrate it",
        ),
        HealthItem(
            "calibration_warnings", "", 0.0, 0.0, "number of warnings of its calibration",
            "calibrate it with fresh buffers; replace the electrode if the warning comes back",
        ),
        HealthItem(
            "errors", "", 0.0, 0.0, "number of active errors",
            "read them with the maker's software; replace the electrode if its glass is broken",
        ),
    )  # fmt: skip

    def __init__(self, arc: HamiltonArc) -> None:
        self.point = arc.point
        self._arc = arc

    async def read(self) -> dict[str, float]:
        quality = await self._arc.quality_indicator()
        if not 0.0 <= quality <= 100.0:
            raise BadReply(
                f"its quality indicator is {quality:g}, outside 0 to 100",
                where=self._arc.config.name,
                cause="noise on the line, or another kind of sensor",
                action="look at the address and the cable",
            )
        _, calibration, _, _ = await self._arc.flags(WARNINGS)
        errors = await self._arc.flags(ERRORS)
        return {
            "quality": quality,
            "calibration_warnings": float(calibration.bit_count()),
            "errors": float(sum(word.bit_count() for word in errors)),
        }


class _Value(Sensor):
    """A measured value; its quality follows from the sensor's status."""

    def __init__(self, arc: HamiltonArc, register: int, unit_code: int, unit: str) -> None:
        self._arc = arc
        self._register = register
        self._unit_code = unit_code
        self.unit = unit

    async def read(self) -> float:
        """Return the value in `unit`; raise a fault for an invalid value or another unit."""
        told = await self._arc.measurement(self._register)
        where = self._arc.config.name
        if told.unit != self._unit_code:
            raise DeviceFault(
                f"it now measures in {unit_text(told.unit)}, not in {unit_text(self._unit_code)}",
                where=where,
                cause="another unit was selected, or the sensor was exchanged",
                action="select the unit again with the maker's software",
            )
        if not math.isfinite(told.value):
            raise DeviceFault(
                "it puts out no number",
                where=where,
                cause="a broken sensor",
                action="read its errors with the maker's software; exchange the sensor",
            )
        self.quality = told.quality
        return told.value


def _model(id: str, name: str, manual: str) -> DeviceModel:
    return DeviceModel(
        id=id,
        vendor="Hamilton",
        name=name,
        kind="sensor",
        transports=("serial", "tcp", "sim"),
        capabilities=("read",),
        guarantee=Guarantee.HOST,
        manual=manual,
    )


class HamiltonPhArc(HamiltonArc):
    """pH Arc: points `ph` (pH) and `temperature` (°C)."""

    model = _model("hamilton-ph-arc", "pH Arc", "pH ARC Sensors Modbus RTU Programmer's Manual 624300/01")
    point, unit, unit_code = "ph", "pH", PH


class HamiltonVisifermDo(HamiltonArc):
    """VisiFerm DO Arc: points `oxygen` (% of air saturation) and `temperature` (°C)."""

    model = replace(
        _model("hamilton-visiferm-do", "VisiFerm DO Arc", "pH ARC Sensors Modbus RTU Programmer's Manual 624300/01"),
        verification="written from the pH Arc's manual and open drivers of the VisiFerm, against a simulator written "
        "independently of it",
    )
    point, unit, unit_code = "oxygen", "%", PERCENT_SAT


def unit_text(code: int) -> str:
    """Return a unit for messages."""
    return UNITS.get(code, f"unit 0x{code:X}")


def low_word_first(value: int) -> tuple[int, int]:
    """Return a 32-bit value as two registers, the least significant word first."""
    return value & 0xFFFF, value >> 16


def _u32(data: bytes) -> int:
    low, high = struct.unpack_from(">HH", data)
    return int(high) << 16 | int(low)


def _f32(data: bytes) -> float:
    value: float = struct.unpack(">f", data[2:4] + data[0:2])[0]
    return value


def _password(config: DeviceConfig, *, needed: bool) -> int:
    value = config.settings.get(PASSWORD.key)
    if value is None:
        if needed:
            raise bad_setting(
                config.name, "operator_password", "is missing", "write the password of operator_level, or leave both"
            )
        return 0
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 2**32 or value % 1:
        raise bad_setting(config.name, "operator_password", "is no password", "write a whole number, 0 to 4294967295")
    return int(value)
