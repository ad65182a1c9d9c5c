"""Vaisala GMP251 and GMP252 carbon dioxide probes on Modbus RTU (user guides M211799EN and M211897EN, appendix A).

Register n is address n - 1, a 32-bit float is sent least significant word first, and an unavailable value is a
quiet NaN. Each reading is judged by the two status registers that are read after it.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

from pymodbus.framer import FramerRTU
from pymodbus.pdu.register_message import ReadHoldingRegistersResponse

from drivers.commands import Guarantee, Quality
from drivers.device import Device, DeviceConfig, DeviceModel, Identity, Page, Sensor
from drivers.errors import BadReply, DeviceFault, NoReply, Refused, WrongDevice
from drivers.settings import NumberSetting, known_only
from drivers.transport.conversation import Conversation, SyncQuery
from drivers.transport.link import Link, Parser
from drivers.transport.modbus import MODBUS_READS, ModbusUnit, read_registers_frame, unit_number
from drivers.transport.url import LineSettings

TIMEOUT_S = 0.5
DEFAULT_ADDRESS = "240"

CO2, VOLATILE, STATUS = 1, 521, 2049
"""Registers as the guide counts them."""
CRITICAL, ERROR, WARNING = 1, 2, 4
NOT_RELIABLE, NOT_READY = 2, 256
MIN_PPM, MAX_PPM = -5_000.0, 400_000.0
"""The output ends at about 320 000 ppm; a value beyond these limits was not carbon dioxide."""

IDENTIFY, MEI_IDENTIFICATION, BASIC = 0x2B, 0x0E, 0x01


@dataclass(frozen=True, slots=True)
class Compensation:
    """A volatile compensation value: its register, and its setting with the range that the guide allows."""

    register: int
    setting: NumberSetting


def _compensation(register: int, key: str, what: str, low: float, high: float, unit: str) -> Compensation:
    meaning, without = f"{what} that the probe compensates for", "default: what it has stored"
    return Compensation(
        register, NumberSetting(key=key, meaning=meaning, low=low, high=high, unit=unit, without=without)
    )


COMPENSATIONS = {
    each.setting.key: each
    for each in (
        _compensation(521, "pressure_hpa", "pressure", 700.0, 1500.0, "hPa"),
        _compensation(523, "temperature_c", "temperature", -40.0, 80.0, "°C"),
        _compensation(525, "humidity_percent", "relative humidity", 0.0, 100.0, "%"),
        _compensation(527, "oxygen_percent", "oxygen", 0.0, 100.0, "%"),
    )
}


class VaisalaGmp25x(Device):
    """One probe; its only point is `co2` (ppm by volume)."""

    model = DeviceModel(
        id="vaisala-gmp25x",
        vendor="Vaisala",
        name="CARBOCAP GMP251/GMP252 CO2 probe",
        kind="sensor",
        transports=("serial", "tcp", "sim"),
        capabilities=("read",),
        guarantee=Guarantee.HOST,
        manual="GMP252 User Guide M211897EN, appendix A, pages 114 to 118; GMP251 User Guide M211799EN",
    )
    line = LineSettings(baud=19200, bits=8, parity="N", stop=2)
    queries = MODBUS_READS

    settings = tuple(each.setting for each in COMPENSATIONS.values())
    page = Page(
        wiring="RS-485, two wires, 19200 baud 8N2, address 240 from the factory; the probe must be in Modbus mode.",
        address="Modbus address, 1 to 247 (default 240)",
        commands=(
            ("read 1, 2 registers", "carbon dioxide, ppm", "A.2, measurement data"),
            ("read 2049, 2 registers", "device status and CO2 status", "A.2.3"),
            ("read 1, 4 registers", "barrier", "A.2, measurement data"),
            ("read 521, 8 registers", "volatile compensation, only if any is set in the rig", "A.2.2"),
            ("write 521, 523, 525, 527", "the one that is set in the rig and differs", "A.2.2"),
            ("43/14", "identification; its layout is that of the Modbus standard", "A.1, function codes"),
        ),
        traps=(
            "Registers 513 to 519 are EEPROM (30 000 writes): the driver writes only the volatile ones.",
            "A compensation value works only if its mode (773 to 775) is switched on, which the driver does not touch.",
            "For humidity to be compensated correctly, temperature and pressure must be compensated too.",
            "Volatile values are lost at a probe reset: they are compared at each reading and written again where they "
            "differ; that reading is suspect.",
            "During start-up the probe reports “not ready”, then “not reliable”: the reading is a fault, then missing.",
            "An unavailable value is NaN, never a Modbus exception.",
            "A Vaisala probe of another kind answers the same registers with another quantity: identification "
            "(43/14) must name a GMP25x; behind a gateway that does not pass it, this cannot be checked.",
        ),
    )

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        known_only(config.settings, config.name, self.settings)
        self._compensations = {
            each: value
            for each in COMPENSATIONS.values()
            if (value := each.setting.optional(config.settings, config.name)) is not None
        }
        unit = unit_number(config.address or DEFAULT_ADDRESS, config.name)
        self._conversation = Conversation(
            link,
            config.name,
            timeout_s=TIMEOUT_S,
            # Four registers: no late answer to anything else has this length.
            barrier=SyncQuery(
                read_registers_frame(unit, CO2 - 1, 4),
                lambda: self._unit.reply_parser(ReadHoldingRegistersResponse, 5 + 8),
            ),
        )
        self._unit = ModbusUnit(self._conversation, unit)
        self.sensors["co2"] = _CarbonDioxide(self)
        link.attach(self._conversation, self.verify)

    @property
    def conversation(self) -> Conversation:
        """This driver's side of the link."""
        return self._conversation

    async def _identify(self) -> Identity:
        try:
            told = await self._conversation.ask(identification_frame(self._unit.unit), self._identification())
        except (NoReply, BadReply, Refused):
            told = {}  # a gateway may pass only registers: then these must identify it
            await self._has_its_registers()
        else:
            whole = " ".join(told.values()).upper()
            if "VAISALA" not in whole or "GMP25" not in whole:
                raise self._another(f"it says it is “{' '.join(told.values())}”")
        await self._co2()
        await self._compensate()
        return Identity(model=told.get(1, "GMP25x"), firmware=told.get(2, ""))

    async def _has_its_registers(self) -> None:
        """Check the compensation registers where only registers pass: they must be present and plausible."""
        try:
            data = await self._unit.read_holding_registers(VOLATILE - 1, 2 * len(COMPENSATIONS))
        except Refused as error:
            raise self._another(f"it has no register {VOLATILE}") from error
        for name, each in COMPENSATIONS.items():
            value = _float(data[2 * (each.register - VOLATILE) :])
            if not each.setting.low <= value <= each.setting.high:
                raise self._another(f"register {each.register} ({name}) tells {value:g}")

    def _another(self, what: str) -> WrongDevice:
        return WrongDevice(
            what,
            where=self.config.name,
            cause="another device answers at this address",
            action="check the address and the model in the rig file",
        )

    async def _compensate(self) -> bool:
        """Write the compensation values that differ and verify them; return whether any differed."""
        if not self._compensations or not (differing := await self._differing()):
            return False
        for each, wanted in differing.items():
            high, low = struct.unpack(">HH", struct.pack(">f", wanted))
            await self._unit.write_registers(each.register - 1, (low, high))
        for each, wanted in (await self._differing()).items():
            raise Refused(
                f"register {each.register} was set to {wanted:g} and says otherwise",
                where=self.config.name,
                cause="the probe does not take this value",
                action="correct the compensation in the rig file, or leave it out",
            )
        return True

    async def _differing(self) -> dict[Compensation, float]:
        """Return the compensation values that differ from the rig file."""
        data = await self._unit.read_holding_registers(VOLATILE - 1, 2 * len(COMPENSATIONS))
        return {
            each: wanted
            for each, wanted in self._compensations.items()
            if not self._same(_float(data[2 * (each.register - VOLATILE) :]), wanted)
        }

    @staticmethod
    def _same(told: float, wanted: float) -> bool:
        return abs(told - wanted) <= 1e-3 + 1e-5 * abs(wanted)

    async def _co2(self) -> float:
        ppm = _float(await self._unit.read_holding_registers(CO2 - 1, 2))
        if math.isfinite(ppm) and not MIN_PPM <= ppm <= MAX_PPM:
            raise WrongDevice(
                f"it reads {ppm:g} ppm, which no probe of this family measures",
                where=self.config.name,
                cause="another kind of device answers at this address",
                action="check the address and the model in the rig file",
            )
        return ppm

    async def read(self) -> tuple[float, Quality]:
        """Return carbon dioxide (ppm) and the quality derived from the probe's status."""
        ppm = await self._co2()
        device, co2 = struct.unpack(">HH", await self._unit.read_holding_registers(STATUS - 1, 2))
        if device & (CRITICAL | ERROR):
            raise self._reported_error(device)
        otherwise = await self._compensate()  # a reset of the probe clears volatile values
        if co2 & NOT_READY or not math.isfinite(ppm):
            raise self._no_measurement(co2)
        if co2 & NOT_RELIABLE:
            return ppm, Quality.MISSING
        return ppm, Quality.SUSPECT if device or co2 or otherwise else Quality.GOOD

    def _reported_error(self, status: int) -> DeviceFault:
        """Return the error for a device status that holds an error bit."""
        return DeviceFault(
            f"it reports {'a critical error' if status & CRITICAL else 'an error'} (status {status})",
            where=self.config.name,
            cause="weak supply, a concentration beyond its range, or a broken probe",
            action="check the supply; read its errors with the maker's software",
        )

    def _no_measurement(self, status: int) -> DeviceFault:
        """Return the error for a missing measurement; `status` is that of the CO2 measurement."""
        return DeviceFault(
            "it has no measurement yet" if status & NOT_READY else "it puts out no number",
            where=self.config.name,
            cause="the probe starts up" if status & NOT_READY else "a broken probe",
            action="wait a minute; if it stays, take its power away and give it back",
        )

    def _identification(self) -> Parser[dict[int, str]]:
        """Return a parser of the answer to 43/14: texts by object id (0 vendor, 1 product, 2 version)."""
        unit = self._unit.unit

        def parse(buffer: bytearray) -> dict[int, str] | None:
            while len(buffer) >= 5:
                if buffer[0] == unit and buffer[1] == IDENTIFY and buffer[2] == MEI_IDENTIFICATION:
                    objects = _objects(buffer)
                    if objects is None:
                        return None
                    texts, size = objects
                    if _sealed(bytes(buffer[:size])):
                        del buffer[:size]
                        return texts
                elif buffer[0] == unit and buffer[1] == IDENTIFY | 0x80 and _sealed(bytes(buffer[:5])):
                    del buffer[:5]
                    raise Refused(
                        "it does not identify itself",
                        where=self.config.name,
                        cause="another model, or a gateway",
                        action="check the model in the rig file",
                    )
                del buffer[0]
            return None

        return parse


class _CarbonDioxide(Sensor):
    unit = "ppm"

    def __init__(self, probe: VaisalaGmp25x) -> None:
        self._probe = probe

    async def read(self) -> float:
        """Return carbon dioxide (ppm by volume)."""
        ppm, self.quality = await self._probe.read()
        return ppm


def _float(data: bytes) -> float:
    """Return the float in the first two registers of `data`, least significant word first."""
    value: float = struct.unpack(">f", data[2:4] + data[:2])[0]
    return value


def identification_frame(unit: int) -> bytes:
    """Return the frame that asks `unit` for its basic identification (Modbus Application Protocol V1.1b3 §6.21)."""
    frame = bytes((unit, IDENTIFY, MEI_IDENTIFICATION, BASIC, 0))
    return frame + FramerRTU.compute_CRC(frame).to_bytes(2, "big")


def _objects(buffer: bytearray) -> tuple[dict[int, str], int] | None:
    """Return the objects of an identification and the length of its frame; None while it is incomplete."""
    if len(buffer) < 8:
        return None
    texts: dict[int, str] = {}
    at = 8
    for _ in range(buffer[7]):
        if len(buffer) < at + 2:
            return None
        texts[buffer[at]] = bytes(buffer[at + 2 : at + 2 + buffer[at + 1]]).decode("ascii", "replace")
        at += 2 + buffer[at + 1]
    return (texts, at + 2) if len(buffer) >= at + 2 else None


def _sealed(frame: bytes) -> bool:
    return FramerRTU.check_CRC(frame[:-2], int.from_bytes(frame[-2:], "big"))
