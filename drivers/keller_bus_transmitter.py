"""Keller pressure transmitters of series 30 and 40 on the Keller bus (“Communication protocol Serie 30”, 13 to 16).

For lines whose transmitters already use it; on a line with Modbus devices `keller-x-line` drives the same hardware.
Function 48 must come first after every power-up: until then a transmitter answers everything else with error 32.
"""

from __future__ import annotations

import math
import re

from drivers.commands import Guarantee, Quality
from drivers.device import Device, DeviceConfig, DeviceModel, Identity, Page, Sensor
from drivers.errors import DeviceFault, Refused, WrongDevice
from drivers.keller_bus import (
    NOT_INITIALISED,
    ZERO,
    KellerValue,
    float_frame,
    float_parser,
    identity_parser,
    initialise_frame,
    serial_frame,
    serial_parser,
)
from drivers.settings import ChoiceSetting, bad_setting, known_only
from drivers.transport.conversation import Conversation, SyncQuery
from drivers.transport.link import Link
from drivers.transport.url import LineSettings

TIMEOUT_S = 0.3
DEVICE_CLASS = 5
"""Device class of the transmitters of series 30 and 40, whatever their group."""
PRESSURE_1 = 1
TEMPERATURES = {"T": 3, "TOB1": 4}
KPA_PER_BAR = 100.0
MAX_BAR = 2000.0

CHANNEL = ChoiceSetting(
    key="temperature_channel",
    meaning="measured temperature; TOB1 is the pressure sensor's own",
    among=tuple(TEMPERATURES),
    default="TOB1",
)


class KellerBus(Device):
    """One transmitter: `pressure` (kPa, gauge with a gauge-type transmitter) and `temperature` (°C)."""

    model = DeviceModel(
        id="keller-bus",
        vendor="Keller",
        name="Series 30/40 on Keller bus",
        kind="sensor",
        transports=("serial", "tcp", "sim"),
        capabilities=("read",),
        guarantee=Guarantee.HOST,
        manual="Communication protocol Serie 30, functions 48, 69 and 73, pages 13 to 16",
    )
    line = LineSettings(baud=9600, bits=8, parity="N", stop=1)
    queries = re.compile(rb".(?:\x30|\x45|[\x42\x49\x4a\x64].).{2}", re.DOTALL)
    settings = (ZERO, CHANNEL)
    page = Page(
        wiring="RS-485, two wires, terminated at both ends; 9600 8N1. A bus: other Keller transmitters may share it.",
        address="1 to 249 (default 1); 250 reaches any transmitter and is only for one alone on its line",
        commands=(
            ("48", "first function after power-up; class, group and firmware", "pp. 13–16"),
            ("69", "serial number; barrier against late replies", "pp. 13–16"),
            ("73 1", "P1 in bar, float, and a status byte", "pp. 13–16"),
            ("73 3 or 73 4", "temperature T or TOB1 in °C, and a status byte", "pp. 13–16"),
        ),
        traps=(
            "K converters and many USB-RS485 dongles echo what is sent: write `?echo=1` in the link.",
            "The checksum is that of Modbus with its bytes in opposite order.",
            "The answer to 73 does not name its channel: after any irregularity the serial number is read first.",
            "Error 32 means that it lost power: it is initialised again by itself.",
            "Not-a-number is a channel error and infinity an over- or underflow: both are faults, never readings.",
            "The pages used do not explain the bits of the status byte: anything but 0 makes a value suspect.",
            "Functions 95 (zero), 66 (address) and 31, 33 (coefficients, configuration) write the memory: never sent.",
        ),
    )

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        known_only(config.settings, config.name, self.settings)
        self.zero_kpa = ZERO.of(config.settings, config.name)
        channel = CHANNEL.of(config.settings, config.name)
        self._unit = _address(config)
        self._conversation = Conversation(
            link,
            config.name,
            timeout_s=TIMEOUT_S,
            barrier=SyncQuery(serial_frame(self._unit), lambda: serial_parser(self._unit, self._refusal)),
        )
        self._conversation.addressed = True
        self.sensors["pressure"] = _Pressure(self)
        self.sensors["temperature"] = _Temperature(self, TEMPERATURES[channel])
        link.attach(self._conversation, self.verify)

    @property
    def conversation(self) -> Conversation:
        """This driver's side of the link."""
        return self._conversation

    async def _identify(self) -> Identity:
        told = await self._conversation.ask(initialise_frame(self._unit), identity_parser(self._unit))
        if told.device_class != DEVICE_CLASS:
            raise self._another(f"it says it is of class {told.device_class}, group {told.group}")
        serial = await self._conversation.ask(serial_frame(self._unit), serial_parser(self._unit, self._refusal))
        bar = (await self.value(PRESSURE_1)).value
        if math.isfinite(bar) and abs(bar) > MAX_BAR:
            raise self._another(f"it reads {bar:g} bar, which no transmitter of this family measures")
        return Identity(model="Series 30/40", serial=str(serial), firmware=told.firmware)

    def _another(self, what: str) -> WrongDevice:
        return WrongDevice(
            what,
            where=self.config.name,
            cause="another kind of device answers at this address",
            action="check the address and the model in the rig file",
        )

    def _refusal(self, function: int, code: int) -> DeviceFault | Refused:
        if code == NOT_INITIALISED:
            self._conversation.restarted()
            return DeviceFault(
                "it has lost its power in between",
                where=self.config.name,
                cause="a power cut, or a bad contact",
                action="it is initialised again by itself; check its supply if this comes again",
            )
        return Refused(
            f"error {code} to function {function}",
            where=self.config.name,
            cause="an older transmitter, or a channel that it does not have",
            action="check the model in the rig file",
        )

    async def value(self, channel: int) -> KellerValue:
        """Return value and status of `channel`; raise a :class:`DeviceError` on failure."""
        return await self._conversation.ask(float_frame(self._unit, channel), float_parser(self._unit, self._refusal))

    async def read(self, channel: int, what: str) -> tuple[float, Quality]:
        """Return the value of `channel` (bar or °C), called `what` in errors, and its quality."""
        told = await self.value(channel)
        if not math.isfinite(told.value):
            broken = math.isnan(told.value)
            raise DeviceFault(
                f"the {what} channel reports an error" if broken else f"the {what} is out of range",
                where=self.config.name,
                cause="a broken sensor, or a channel that is not fitted"
                if broken
                else "a blocked line, or a transmitter of too small range",
                action="stop the flow, look for the blockage, then check the transmitter",
            )
        return told.value, Quality.SUSPECT if told.status else Quality.GOOD


class _Pressure(Sensor):
    unit = "kPa"

    def __init__(self, transmitter: KellerBus) -> None:
        self._transmitter = transmitter

    async def read(self) -> float:
        """Return P1 in kPa, less the setting `zero_kpa`."""
        bar, self.quality = await self._transmitter.read(PRESSURE_1, "pressure")
        return bar * KPA_PER_BAR - self._transmitter.zero_kpa


class _Temperature(Sensor):
    unit = "degC"

    def __init__(self, transmitter: KellerBus, channel: int) -> None:
        self._transmitter = transmitter
        self._channel = channel

    async def read(self) -> float:
        celsius, self.quality = await self._transmitter.read(self._channel, "temperature")
        return celsius


def _address(config: DeviceConfig) -> int:
    text = config.address or "1"
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 250):
        raise bad_setting(config.name, "address", f"is “{text}”", "write the transmitter's address, 1 to 249")
    return int(text)
