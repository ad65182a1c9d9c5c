"""Julabo circulators and thermostats by text commands (operating manuals, chapter “Interface commands”).

`in_…` commands are answered. `out_…` commands are not answered, and are obeyed only in remote mode: every setting
is therefore read back. The thermostat needs 250 ms between commands. On RS485 each command and each answer starts
with the address, such as `A032_`.
"""

from __future__ import annotations

import asyncio
import re

from drivers.commands import Guarantee
from drivers.device import Device, DeviceConfig, DeviceModel, Identity, Page, Sensor
from drivers.errors import Refused
from drivers.settings import FlagSetting, bad_setting, known_only
from drivers.thermostat import Thermostat, limit_settings, limits_of
from drivers.transport.conversation import Conversation, SyncQuery
from drivers.transport.link import Link, Parser
from drivers.transport.replies import bad_reply, take_line
from drivers.transport.url import LineSettings

TIMEOUT_S = 0.5
PAUSE_S = 0.26
"""Interval between commands: 250 ms and a margin (s)."""
GRAIN_C = 0.051
"""Older models have one decimal place."""

BATH, POWER, EXTERNAL = b"in_pv_00", b"in_pv_01", b"in_pv_02"
SETPOINT, RUNNING = b"in_sp_00", b"in_mode_05"

_NUMBER = re.compile(rb" *([+-]?\d{1,4}(?:\.\d{1,2})?) *")
_TEXT = re.compile(rb" *[A-Za-z][ -~]{2,79}")
_STATUS = re.compile(rb" *(-?\d{2}) +([ -~]{1,79})")

LIMITS = limit_settings(400.0)
EXTERNAL_SETTING = FlagSetting(
    key="external", meaning="the Pt100 outside the bath is read too, and compared with the set-point", default=False
)


class Julabo(Device):
    """One thermostat: `temperature` (bath, °C) and `power` (%) are measured, `setpoint` (°C) is set."""

    model = DeviceModel(
        id="julabo",
        vendor="Julabo",
        name="circulators and thermostats with RS232 or RS485",
        kind="thermostat",
        transports=("serial", "tcp", "sim"),
        capabilities=("level", "read"),
        guarantee=Guarantee.GUARD,
        manual="Operating manuals of the FP50 and FL601 families, interface commands",
    )
    line = LineSettings(baud=4800, bits=7, parity="E", stop=1, gap_s=PAUSE_S)
    queries = re.compile(rb"(?:A[0-9]{2}_)?(?:version|status|in_[a-z]+_[0-9]{2})\r")
    settings = (*LIMITS, EXTERNAL_SETTING)
    page = Page(
        wiring="RS232 on the 9-pin sub-D, factory setting 4800 7E1 with RTS/CTS; set handshake off in the menu, or join "
        "RTS and CTS in the plug. Choose remote mode (“r OFF” in the display) before use.",
        address="RS485 address, 1 to 127 (default: none, for RS232)",
        commands=(
            ("version", "identification; barrier", "interface commands"),
            ("status", "why a command was not obeyed", "interface commands"),
            ("in_pv_00, 01, 02", "bath, heating power, external sensor", "interface commands"),
            ("in_sp_00, out_sp_00", "set-point", "interface commands"),
            ("in_mode_05, out_mode_05", "is it running; start and stop", "interface commands"),
        ),
        traps=(
            "It regulates on when the host dies: the guard process stops it; its own over-temperature cut-out is the final "
            "protection, set it by hand.",
            "out_… commands are not answered: in local mode they are silently lost. The driver reads back and reports it.",
            "Answers end LF, in older models CR LF; both are read.",
            "250 ms between commands make a status of three questions last about a second: poll every 5 s, not faster.",
            "Stop ends both circulation and regulation (out_mode_05 0): what the circulator warms is no longer circulated.",
            "The working set-point must be the first (SP 1) and local programmers must be off.",
        ),
    )

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        known_only(config.settings, config.name, self.settings)
        limits_c = limits_of(config.settings, config.name, LIMITS)
        external = EXTERNAL_SETTING.of(config.settings, config.name)
        self._prefix = _prefix(config)
        self._ready_at_s = 0.0
        self._conversation = Conversation(
            link,
            config.name,
            timeout_s=TIMEOUT_S,
            barrier=SyncQuery(self._prefix + b"version\r", lambda: self._matching(_TEXT)),
        )
        self._conversation.anonymous = not self._prefix
        self.regulated = EXTERNAL if external else BATH
        self.sensors["temperature"] = _Value(self, BATH, "degC")
        self.sensors["power"] = _Value(self, POWER, "%")
        if external:
            self.sensors["external"] = _Value(self, EXTERNAL, "degC")
        self.actuators["setpoint"] = WorkingSetpoint(self, limits_c)
        link.attach(self._conversation, self.verify)

    @property
    def conversation(self) -> Conversation:
        """This driver's side of the link."""
        return self._conversation

    async def _identify(self) -> Identity:
        await self._pause()
        told = await self._conversation.ask(self._prefix + b"version\r", self._matching(_TEXT))
        await self.value(RUNNING)
        return Identity(model=told[0].decode("ascii").strip())

    async def value(self, question: bytes) -> float:
        """Return the number that answers `question`."""
        await self._pause()
        match = await self._conversation.ask(self._prefix + question + b"\r", self._matching(_NUMBER))
        return float(match[1])

    async def say(self, command: bytes) -> None:
        """Send `command`, which is not answered."""
        await self._pause()
        self._ready_at_s = asyncio.get_running_loop().time() + PAUSE_S  # also if this is cancelled while it waits
        await self._conversation.tell(self._prefix + command + b"\r", pause_s=PAUSE_S)

    async def condition(self) -> str:
        """Return the status text, such as “02 REMOTE STOP”."""
        await self._pause()
        match = await self._conversation.ask(self._prefix + b"status\r", self._matching(_STATUS))
        return f"{match[1].decode()} {match[2].decode().strip()}"

    async def _pause(self) -> None:
        wait_s = self._ready_at_s - asyncio.get_running_loop().time()
        if wait_s > 0.0:
            await asyncio.sleep(wait_s)

    def _matching(self, pattern: re.Pattern[bytes]) -> Parser[re.Match[bytes]]:
        """Return a parser of this thermostat's lines; it skips other devices' lines and other kinds."""

        def parse(buffer: bytearray) -> re.Match[bytes] | None:
            while (line := take_line(buffer, b"\n", self.config.name)) is not None:
                line = line.removesuffix(b"\r")
                if any(byte > 0x7E or byte < 0x20 for byte in line):
                    raise bad_reply(line, self.config.name, "a line of text")
                if line.startswith(self._prefix) and (match := pattern.fullmatch(line[len(self._prefix) :])):
                    return match
            return None

        return parse


class _Value(Sensor):
    def __init__(self, thermostat: Julabo, question: bytes, unit: str) -> None:
        self.unit = unit
        self._thermostat = thermostat
        self._question = question

    async def read(self) -> float:
        return await self._thermostat.value(self._question)


class WorkingSetpoint(Thermostat):
    """Set-point and start; rest is stop."""

    def __init__(self, thermostat: Julabo, limits_c: tuple[float, float]) -> None:
        super().__init__(f"{thermostat.config.name}.setpoint", thermostat.conversation, limits_c)
        self._thermostat = thermostat

    async def setpoint_c(self) -> float:
        """Return the set-point (°C); 0 while stopped."""
        if not await self._running():
            return 0.0
        return await self._thermostat.value(SETPOINT)

    async def measured_c(self) -> float:
        """Return the temperature of bath or external sensor (°C)."""
        return await self._thermostat.value(self._thermostat.regulated)

    async def start(self, value_c: float) -> None:
        """Set the set-point, then start; read both back."""
        if abs(await self._thermostat.value(SETPOINT) - value_c) > 0.0049:
            await self._thermostat.say(b"out_sp_00 " + _decimal(value_c))
            if abs((stands := await self._thermostat.value(SETPOINT)) - value_c) > GRAIN_C:
                raise await self._disobeyed(f"its set-point is {stands:g} instead of {value_c:g}")
        if not await self._running():
            await self._thermostat.say(b"out_mode_05 1")
            if not await self._running():
                raise await self._disobeyed("it does not start")

    async def rest(self) -> None:
        """Stop and read back; retry once if the command was not received."""
        for _ in range(2):
            await self._thermostat.say(b"out_mode_05 0")
            if not await self._running():
                return
        raise await self._disobeyed("it still runs")

    async def _running(self) -> bool:
        return await self._thermostat.value(RUNNING) != 0.0

    async def _disobeyed(self, what: str) -> Refused:
        return Refused(
            f"{what}; it says “{await self._thermostat.condition()}”",
            where=self.where,
            cause="it is not in remote mode, has an alarm, or its own limits are narrower",
            action="choose remote mode at its panel, clear the alarm, compare its limits",
        )


def _decimal(value: float) -> bytes:
    """Return a number with one or two decimal places, as the manual writes it."""
    text = f"{value:.2f}"
    return (text[:-1] if text.endswith("0") else text).encode("ascii")


def _prefix(config: DeviceConfig) -> bytes:
    text = config.address
    if not text:
        return b""
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 127):
        raise bad_setting(
            config.name, "address", f"is “{text}”", "write the RS485 address, 1 to 127, or nothing on RS232"
        )
    return b"A%03d_" % int(text)
