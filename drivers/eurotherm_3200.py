"""Eurotherm 3200 temperature controllers on Modbus RTU (HA028651, section 15.5: parameter Modbus addresses).

Addresses are wire addresses; values are 16-bit integers with the decimal places set in the controller. Set-points
go only to the remote set-point (address 26): the target set-point and SP1/SP2 are stored in EEPROM, which is
limited to 100 000 writes. The readback is the working set-point (address 5), to which the controller really
regulates.
"""

from __future__ import annotations

import asyncio
import struct

from pymodbus.pdu.register_message import ReadHoldingRegistersResponse

from drivers.commands import Guarantee
from drivers.device import Device, DeviceConfig, DeviceModel, Identity, Page, Sensor
from drivers.errors import DeviceFault, Refused, WrongDevice
from drivers.settings import NumberSetting, bad_setting, known_only
from drivers.thermostat import Thermostat, limit_settings, limits_of
from drivers.transport.conversation import Conversation, SyncQuery
from drivers.transport.link import Link
from drivers.transport.modbus import MODBUS_READS, ModbusUnit, read_registers_frame, unit_number
from drivers.transport.url import LineSettings

TIMEOUT_S = 0.3
SHARED_S = 0.2
"""Maximum age of the process values that serve all points (s)."""
REFRESH_S = 1.5
"""Interval at which the remote set-point is repeated while the device is polled (s); it is not stored in EEPROM."""
SETTLE_S = 0.1
SETTLE_TRIES = 5
"""Time and number of readings for the working set-point to follow the remote one."""

PROCESS_VALUES = 1
"""1 process value, 2 target set-point, 3 manual output, 4 working output, 5 working set-point."""
INPUT_RANGE = 11
REMOTE_SETPOINT = 26
VERSION = 107

DECIMALS = NumberSetting(
    key="decimals", meaning="decimal places of the controller's display", low=0.0, high=2.0, default=1.0
)
LIMITS = limit_settings(1000.0)
REST = NumberSetting(
    key="rest_c", meaning="set-point at rest, below low_c", low=-50.0, high=1000.0, default=20.0, unit="°C"
)


class Eurotherm3200(Device):
    """One controller: `temperature` (°C) and `power` (% of output) are measured, `setpoint` (°C) is set."""

    model = DeviceModel(
        id="eurotherm-3200",
        vendor="Eurotherm",
        name="3200 series (3216, 3208, 32h8, 3204)",
        kind="thermostat",
        transports=("serial", "tcp", "sim"),
        capabilities=("level", "read"),
        guarantee=Guarantee.GUARD,
        manual="HA028651, section 15.5, page 81",
    )
    line = LineSettings(baud=9600, bits=8, parity="N", stop=1)
    queries = MODBUS_READS
    settings = (DECIMALS, *LIMITS, REST)
    page = Page(
        wiring="RS-485 or RS-232 by the option fitted, Modbus RTU, 9600 8N1 unless set otherwise. At the front panel: "
        "remote set-point selected, the decimal places as in `decimals`, SP1 a temperature that is safe without "
        "supervision.",
        address="Modbus address, 1 to 247 (default 1)",
        commands=(
            ("read 1 to 5", "process value, outputs and working set-point", "15.5"),
            ("read 11, 12", "input range: a reading outside is a broken sensor", "15.5"),
            ("read 107", "firmware version", "15.5"),
            ("write 26", "remote set-point (not kept in EEPROM)", "15.5"),
        ),
        traps=(
            "Target set-point (2), SP1 (24) and SP2 (25) wear the EEPROM: this driver never writes them.",
            "The remote set-point must be selected at the front panel, else the working set-point does not follow and "
            "the command fails.",
            "The controller probably falls back to SP1 when the remote set-point is not repeated for about 5 s; "
            "the driver repeats it with every poll (poll every 2 s), and never after a new connection. The fallback is "
            "not relied on: the guarantee is the guard's.",
            "A set-point rate limit makes the working set-point lag: switch it off, ramps belong to the protocol.",
            "Rest is a set-point below all used ones, not “off”: a controller that also cools would cool to it.",
            "The manual pages used do not state the factory line settings; check them at the front panel.",
        ),
    )

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        settings, where = config.settings, config.name
        known_only(settings, where, self.settings)
        decimals = DECIMALS.of(settings, where)
        if not decimals.is_integer():
            raise bad_setting(where, "decimals", f"is “{decimals:g}”", "write 0, 1 or 2")
        self._scale: float = 10.0**-decimals
        max_c = 32767 * self._scale
        limits_c = limits_of(settings, where, LIMITS, max_c=min(max_c, 1000.0))
        rest_c = REST.of(settings, where, high=max_c)
        if rest_c >= limits_c[0]:
            raise bad_setting(
                where, "rest_c", f"is {rest_c:g}, not below low_c ({limits_c[0]:g})", "write a cooler temperature"
            )
        self.rest_raw = round(rest_c / self._scale)
        unit = unit_number(config.address, config.name)
        self._conversation = Conversation(
            link,
            where,
            timeout_s=TIMEOUT_S,
            # Three registers: no other query here has an answer of this length.
            barrier=SyncQuery(
                read_registers_frame(unit, PROCESS_VALUES, 3),
                lambda: self.unit.reply_parser(ReadHoldingRegistersResponse, 5 + 6),
            ),
        )
        self.unit = ModbusUnit(self._conversation, unit)
        self._values: tuple[int, ...] = ()
        self._values_at_s = -1.0
        self._reading = asyncio.Lock()
        self._changes = 0
        self._range_c = (-200.0, 1800.0)
        self.setpoint = RemoteSetpoint(self, limits_c)
        self.sensors["temperature"] = _Temperature(self)
        self.sensors["power"] = _Power(self)
        self.actuators["setpoint"] = self.setpoint
        link.attach(self._conversation, self.verify)

    @property
    def conversation(self) -> Conversation:
        """This driver's side of the link."""
        return self._conversation

    async def _identify(self) -> Identity:
        self.setpoint.forget()  # a set-point from before the line was lost is not repeated without a new command
        self.forget()
        low, high = struct.unpack(">hh", await self.unit.read_holding_registers(INPUT_RANGE, 2))
        if low >= high:
            raise WrongDevice(
                f"it tells an input range from {low} to {high}",
                where=self.config.name,
                cause="another kind of device answers at this address",
                action="check the address and the model in the rig file",
            )
        self._range_c = (low * self._scale, high * self._scale)
        (version,) = struct.unpack(">H", await self.unit.read_holding_registers(VERSION, 1))
        await self.values()
        return Identity(model="3200 series", firmware=f"{version:04X}")

    async def values(self) -> tuple[int, ...]:
        """Return process value, target set-point, manual output, working output, working set-point; at most
        `SHARED_S` old.
        """
        loop = asyncio.get_running_loop()
        async with self._reading:
            if not self._values or loop.time() - self._values_at_s > SHARED_S:
                changes = self._changes
                values = struct.unpack(">5h", await self.unit.read_holding_registers(PROCESS_VALUES, 5))
                if changes != self._changes:
                    return values
                self._values, self._values_at_s = values, loop.time()
            return self._values

    def forget(self) -> None:
        """Invalidate the values: the set-point is about to change."""
        self._values = ()
        self._changes += 1

    def celsius(self, raw: int) -> float:
        """Return a temperature register in °C."""
        return raw * self._scale

    def raw(self, celsius: float) -> int:
        """Return °C as a temperature register."""
        return round(celsius / self._scale)

    async def temperature_c(self) -> float:
        """Return the process value (°C); raise a fault outside the input range."""
        value_c = self.celsius((await self.values())[0])
        if not self._range_c[0] <= value_c <= self._range_c[1]:
            raise DeviceFault(
                f"{value_c:g} degC is outside its input range ({self._range_c[0]:g} to {self._range_c[1]:g})",
                where=self.config.name,
                cause="a broken or unplugged sensor",
                action="check the sensor and its wires",
            )
        return value_c


class _Temperature(Sensor):
    unit = "degC"

    def __init__(self, controller: Eurotherm3200) -> None:
        self._controller = controller

    async def read(self) -> float:
        value_c = await self._controller.temperature_c()
        await self._controller.setpoint.repeat()
        return value_c


class _Power(Sensor):
    unit = "%"

    def __init__(self, controller: Eurotherm3200) -> None:
        self._controller = controller

    async def read(self) -> float:
        raw = (await self._controller.values())[3]
        return self._controller.celsius(raw)  # outputs also have the display's decimal places


class RemoteSetpoint(Thermostat):
    """Address 26, repeated while the device is polled; read back from the working set-point."""

    def __init__(self, controller: Eurotherm3200, limits_c: tuple[float, float]) -> None:
        super().__init__(f"{controller.config.name}.setpoint", controller.conversation, limits_c)
        self._controller = controller
        self._held: int | None = None
        self._written_at_s = 0.0

    def forget(self) -> None:
        """Stop repeating until the next command."""
        self._held = None

    async def setpoint_c(self) -> float:
        """Return the working set-point (°C); 0 when it is that of rest."""
        await self.repeat()
        raw = (await self._controller.values())[4]
        return 0.0 if raw == self._controller.rest_raw else self._controller.celsius(raw)

    async def measured_c(self) -> float:
        """Return the process value (°C)."""
        return await self._controller.temperature_c()

    async def start(self, value_c: float) -> None:
        """Write the remote set-point and verify that the working set-point follows."""
        await self._hold(self._controller.raw(value_c))

    async def rest(self) -> None:
        """Write the set-point of rest and verify that the working set-point follows."""
        await self._hold(self._controller.rest_raw)

    async def repeat(self) -> None:
        """Repeat the held set-point if it is due and no command is running."""
        if self._held is None or self.one_at_a_time.locked():
            return
        if asyncio.get_running_loop().time() - self._written_at_s >= REFRESH_S:
            async with self.one_at_a_time:
                if self._held is not None:
                    await self._write(self._held)

    async def _hold(self, raw: int) -> None:
        self._held = None
        self._controller.forget()
        try:
            await self._write(raw)
        finally:
            self._controller.forget()
        stands = raw
        for _ in range(SETTLE_TRIES):
            self._controller.forget()
            if (stands := (await self._controller.values())[4]) == raw:
                self._held = raw
                return
            await asyncio.sleep(SETTLE_S)
        raise Refused(
            f"its working set-point is {self._controller.celsius(stands):g} instead of {self._controller.celsius(raw):g}",
            where=self.where,
            cause="the remote set-point is not selected, a set-point limit or a rate limit is set, or it is in manual",
            action="select the remote set-point at its front panel and check its set-point limits; check decimals",
        )

    async def _write(self, raw: int) -> None:
        await self._controller.unit.write_register(REMOTE_SETPOINT, raw & 0xFFFF)
        self._written_at_s = asyncio.get_running_loop().time()
