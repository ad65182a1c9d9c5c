"""Masterflex L/S, I/P and B/T drives of the USB generation (the manufacturer's masterflex-serial 2.0.2, BSD-3).

A dialect of the Ismatec commands at 115200 baud. The drive must first be put into its serial mode (`RE1`); outside
of it every command is answered by `~`. A continuous flow runs in mode `L`, a dose in the time mode `N` with one
batch: the drive itself stops when the time is over. The drive counts revolutions; the volume per revolution is in
the rig file.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

from drivers.commands import Guarantee, PumpStatus
from drivers.device import Device, DeviceConfig, DeviceModel, Identity, Page
from drivers.errors import Refused, WrongDevice
from drivers.rotary_pump import DIRECTION, MAX_RPM_SETTING, UL_PER_REV, RotaryPump
from drivers.settings import bad_setting, known_only
from drivers.transport.conversation import Conversation, SyncQuery
from drivers.transport.link import Link
from drivers.transport.replies import bad_reply, take_line
from drivers.transport.url import LineSettings

TIMEOUT_S = 0.5
STEP_RPM = 0.01
TIME_STEP_S = 0.1
MAX_TIME_S = 359_999.9
MAX_RPM = 9999.99

_MODEL = re.compile(rb"([!-~]{2,40}) (\d{1,6})")
_STATUS = re.compile(rb"([1-8]),([01]),([01])")
_NUMBER = re.compile(rb"(\d{1,9})(?:\.(\d{1,4}))?")
_TIME = re.compile(rb"(\d{2}):(\d{2}):(\d{2})\.(\d)")


class MasterflexUsb(Device):
    """One drive; its only point is `pump`."""

    model = DeviceModel(
        id="masterflex-usb",
        vendor="Masterflex",
        name="L/S, I/P, B/T with USB",
        kind="pump",
        transports=("serial", "tcp", "sim"),
        capabilities=("run", "dispense", "total", "reverse"),
        guarantee=Guarantee.DEVICE,
        manual="masterflex-serial 2.0.2, the manufacturer's client",
        verification="checked against the manufacturer's client and an independent simulator",
    )
    line = LineSettings(baud=115200, bits=8, parity="N", stop=1)
    queries = re.compile(rb"[1-8](?:[#(]|R[BC])\r")
    settings = (UL_PER_REV, replace(MAX_RPM_SETTING, high=MAX_RPM), DIRECTION)
    page = Page(
        wiring="USB socket on the back with the manufacturer's cable, seen as a serial port; on I/P drives also the DB9 port."
        " 115200 8N1.",
        address="the drive's address, 1 to 8 (default 1)",
        commands=(
            ("aRE1", "serial mode on, at verification and when a stop finds it off", "message.py ENABLE"),
            ("a#, a(", "model and protocol, firmware", "message.py MODEL_AND_VERSION, GET_SOFTWARE_VERSION"),
            ("aRC", "address, running, direction", "message.py STATUS"),
            ("aH, aI, aJ, aK", "start, stop, clockwise, counter-clockwise", "message.py START …"),
            ("aR, aR012345", "speed, 1/100 rpm", "message.py SPEEDR"),
            ("aL, aN", "continuous mode, time mode", "message.py SET_DISPENSE_…"),
            ("aRV, aRVhhmmsst", "time of a dose, 1/10 s", "message.py ON_TIME_FULL"),
            ('a"00001, aR"', "one batch, batches counted from zero", "message.py BATCH_COUNT"),
            ("aRB", "revolutions since they were reset; never reset by this driver", "message.py VOLUME_REV"),
        ),
        traps=(
            "Known from the manufacturer's client, not from a manual: lengths and ends of replies follow that client.",
            "Acknowledgements are one character; it is unknown whether CR LF follows: both are accepted.",
            "`~` means that the drive has left its serial mode, by its panel or a power cut: it is verified again.",
            "A dose is a time: it is as accurate as the speed and ul_per_rev. Time goes in steps of 0.1 s; the speed is"
            " adjusted slightly so that the volume is exact.",
            "Whether revolutions are counted backwards in reverse is not documented.",
        ),
    )

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        known_only(config.settings, config.name, self.settings)
        self.address = _address(config)
        self._conversation = Conversation(
            link,
            config.name,
            timeout_s=TIMEOUT_S,
            barrier=SyncQuery(self.address + b"#\r", lambda: self._model_text),
        )
        self._conversation.anonymous = True
        self.pump = MasterflexPump(self)
        self.actuators["pump"] = self.pump
        link.attach(self._conversation, self.verify)

    @property
    def conversation(self) -> Conversation:
        """This driver's side of the link."""
        return self._conversation

    async def _identify(self) -> Identity:
        if not self.link.read_only:
            await self.enable()
        name, protocol = await self._conversation.ask(self.address + b"#\r", self._model_text)
        firmware = (await self.get(b"(")).decode("ascii", "replace")
        if name.upper().startswith(("REGLO", "IPC")):
            raise WrongDevice(
                f"“{name}” answers",
                where=self.config.name,
                cause="an Ismatec pump hangs on this link",
                action="check the link and the model in the rig file",
            )
        await self.pump.prepare()
        return Identity(model=name, firmware=f"{firmware} protocol {protocol}")

    async def enable(self) -> None:
        """Send `RE1`: put the drive into its serial mode; nothing else changes."""
        await self.set(b"RE1")

    async def set(self, command: bytes) -> None:
        """Send a command; raise :class:`Refused` unless it is acknowledged by `*`."""
        answer = await self.acknowledgement(command)
        if answer == b"~":
            raise self.out_of_serial_mode()
        if answer == b"#":
            raise Refused(
                f"the drive answers # to {command.decode()}",
                where=self.config.name,
                cause="the value is outside what this drive can do",
                action="check max_rpm and ul_per_rev in the rig file against the drive",
            )

    async def acknowledgement(self, command: bytes) -> bytes:
        """Send a command and return its acknowledgement: `*`, `#` or `~`."""
        return await self._conversation.ask(self.address + command + b"\r", self._one_character)

    async def get(self, query: bytes) -> bytes:
        """Send a query that is answered by a line, and return that line."""
        return await self._conversation.ask(self.address + query + b"\r", self._data_line)

    async def match(self, query: bytes, pattern: re.Pattern[bytes], wanted: str) -> re.Match[bytes]:
        """Send `query` and return its answer, which must match `pattern` completely; else raise :class:`BadReply`."""
        line = await self.get(query)
        match = pattern.fullmatch(line)
        if match is None:
            self._conversation.doubt()
            raise bad_reply(line, self.config.name, wanted)
        return match

    def out_of_serial_mode(self) -> Refused:
        """Return the error for `~`; the drive is verified again, which restores its serial mode."""
        self._conversation.restarted()
        return Refused(
            "the drive is no longer in its serial mode",
            where=self.config.name,
            cause="it was taken over at its panel, or it lost power for a moment",
            action="nothing was done; it is put back into serial mode and verified by itself",
        )

    # --- parsers ------------------------------------------------------------------------------------------

    def _one_character(self, buffer: bytearray) -> bytes | None:
        _skip_ends(buffer)
        if not buffer:
            return None
        character = bytes(buffer[:1])
        if character not in (b"*", b"#", b"~") or buffer[1:].strip(b"\r\n"):
            raise bad_reply(bytes(buffer), self.config.name, "an acknowledgement (* # ~)")
        del buffer[:1]
        return character

    def _data_line(self, buffer: bytearray) -> bytes | None:
        _skip_ends(buffer)
        if buffer[:1] == b"~":
            del buffer[:1]
            raise self.out_of_serial_mode()
        if buffer[:1] == b"#":
            del buffer[:1]
            raise Refused(
                "the drive does not know this query",
                where=self.config.name,
                cause="an older firmware, or another model",
                action="update the drive's firmware; check the model in the rig file",
            )
        return take_line(buffer, b"\r\n", self.config.name)

    def _model_text(self, buffer: bytearray) -> tuple[str, str] | None:
        """Return the reply to `#`, model and protocol; skip older replies before it.

        Outside of serial mode only `~` arrives: no later reading can be confused with it.
        """
        if buffer.strip(b"\r\n") == b"~":
            buffer.clear()
            raise self.out_of_serial_mode()
        while (line := take_line(buffer, b"\r\n", self.config.name)) is not None:
            if match := _MODEL.fullmatch(line.lstrip(b"*#~\r\n")):
                return match[1].decode("ascii"), match[2].decode("ascii")
        return None


class MasterflexPump(RotaryPump):
    """The motor of a drive."""

    def __init__(self, device: MasterflexUsb) -> None:
        super().__init__(f"{device.config.name}.pump", device.conversation)
        self._device = device
        self._gear(device.config, step_rpm=STEP_RPM, max_rpm=MAX_RPM)
        self._target = (0.0, True)
        """Speed (rpm) and whether clockwise."""
        self._continuous = False
        """Whether this process started the running flow, continuous."""

    async def prepare(self) -> None:
        """Verify that the drive reports its state in the known format."""
        await self._state()
        self._continuous = False

    async def status(self) -> PumpStatus:
        """Return running state, flow, and the drive's revolutions as a volume (µL)."""
        running, clockwise = await self._state()
        turned = await self._device.match(b"RB", _NUMBER, "a number of revolutions")
        flow_ul_min = 0.0
        if running:
            rpm = await self._rpm()
            flow_ul_min = rpm * self._ul_per_rev if clockwise is self._forward else -rpm * self._ul_per_rev
        step = 10.0 ** -len(turned[2] or b"")
        return PumpStatus(running, flow_ul_min, float(turned[0]) * self._ul_per_rev, step * self._ul_per_rev)

    # --- hooks ----------------------------------------------------------------------------------------------

    async def _running(self) -> bool:
        return (await self._state())[0]

    async def _halt(self) -> None:
        self._continuous = False
        if await self._device.acknowledgement(b"I") != b"*":
            await self._device.enable()  # outside of its serial mode it does not receive commands
            await self._device.set(b"I")

    async def _aim(self, flow_ul_min: float, volume_ul: float | None) -> None:
        self._continuous = False
        rpm = abs(flow_ul_min) / self._ul_per_rev
        clockwise = self._forward if flow_ul_min > 0 else not self._forward
        if volume_ul is None:
            await self._device.set(b"L")
        else:
            seconds = math.ceil(volume_ul / abs(flow_ul_min) * 60.0 / TIME_STEP_S - 1e-6) * TIME_STEP_S
            rpm = volume_ul / self._ul_per_rev / seconds * 60.0
            given_ul = max(1, round(rpm / STEP_RPM)) * STEP_RPM * seconds / 60.0 * self._ul_per_rev
            self._check_dose(volume_ul, given_ul)
            if seconds > MAX_TIME_S:
                raise self._refusal(f"a dose of {seconds:g} s is longer than the drive can time", "ask for more flow")
            await self._device.set(b"N")
            await self._set_time(seconds)
            await self._device.set(b'"00001')
            await self._device.set(b'R"')
        await self._device.set(b"J" if clockwise else b"K")
        await self._set_speed(rpm, clockwise)

    async def _go(self, dose: bool) -> None:
        await self._device.set(b"H")
        self._continuous = not dose

    async def _retune(self, flow_ul_min: float) -> bool:
        clockwise = self._forward if flow_ul_min > 0 else not self._forward
        if not self._continuous or clockwise != self._target[1]:
            return False
        await self._set_speed(abs(flow_ul_min) / self._ul_per_rev, clockwise)
        return True

    # --- requests -----------------------------------------------------------------------------------------

    async def _state(self) -> tuple[bool, bool]:
        """Return whether the drive runs, and whether clockwise."""
        told = await self._device.match(b"RC", _STATUS, "address, running and direction")
        if told[1] != self._device.address:
            self._conversation.doubt()
            raise bad_reply(told[0], self.where, "the state of this drive")
        return told[2] == b"1", told[3] == b"0"

    async def _rpm(self) -> float:
        return float((await self._device.match(b"R", _NUMBER, "a speed such as 123.45"))[0])

    async def _set_speed(self, rpm: float, clockwise: bool) -> None:
        """Set the speed and read it back."""
        steps = max(1, round(rpm / STEP_RPM))
        await self._device.set(b"R%06d" % steps)
        taken = await self._rpm()
        if abs(taken - steps * STEP_RPM) > max(STEP_RPM / 2, 0.005 * rpm):
            raise self._refusal(
                f"the drive took {taken:g} instead of {steps * STEP_RPM:g} rpm", "stay below what the drive can turn"
            )
        self._target = taken, clockwise

    async def _set_time(self, seconds: float) -> None:
        """Set the time of a dose and read it back."""
        tenths = round(seconds / TIME_STEP_S)
        hours, rest = divmod(tenths, 36_000)
        minutes, rest = divmod(rest, 600)
        wanted = b"%02d%02d%03d" % (hours, minutes, rest)
        await self._device.set(b"RV" + wanted)
        told = await self._device.match(b"RV", _TIME, "a time such as 00:01:30.5")
        if b"".join(told.groups()) != wanted:
            raise self._refusal(
                f"the drive took a time of {told[0].decode()} instead of {seconds:g} s", "ask for another dose"
            )


def _skip_ends(buffer: bytearray) -> None:
    """Remove the end of an earlier acknowledgement."""
    del buffer[: len(buffer) - len(buffer.lstrip(b"\r\n"))]


def _address(config: DeviceConfig) -> bytes:
    address = config.address or "1"
    if address not in tuple("12345678"):
        raise bad_setting(config.name, "address", f"is “{address}”", 'write the drive\'s address, "1" to "8"')
    return address.encode()
