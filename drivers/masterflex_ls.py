"""Masterflex L/S computerised drives with the satellite protocol (manual A-1299-1127B, as quoted by open clients).

Frames are STX, `P` and the drive's number, commands, CR; an acknowledgement is the one byte ACK or NAK. A drive
forgets its number when it loses power, and receives it again at verification. A dose is a number of revolutions:
the drive itself stops. It counts revolutions; the volume per revolution is in the rig file.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, replace

from drivers.commands import Guarantee, PumpStatus
from drivers.device import Device, DeviceConfig, DeviceModel, Identity, Page
from drivers.errors import DeviceFault, NoReply, Refused, WrongDevice
from drivers.rotary_pump import DIRECTION, MAX_RPM_SETTING, UL_PER_REV, RotaryPump
from drivers.settings import bad_setting, known_only
from drivers.transport.conversation import Conversation
from drivers.transport.link import Link, Parser
from drivers.transport.replies import bad_reply
from drivers.transport.url import LineSettings

TIMEOUT_S = 0.6
STEP_RPM = 0.1
STEP_REV = 0.01
MAX_REV = 99_999.99
MAX_RPM = 999.9
STARTED_S = 0.15
"""Maximum delay until a start shows in the status before it is read once more (s)."""
STX, ENQ, ACK, NAK = b"\x02", b"\x05", b"\x06", b"\x15"
RUNNING = 3
_FAULTS = {5: "no feedback from the motor", 6: "motor overload", 7: "excessive motor feedback"}
_ERRORS = {1: "parity", 2: "framing", 3: "overrun", 4: "invalid command", 5: "invalid data"}

_STATUS = re.compile(rb"\x02P(\d\d)I(\d)(\d)(\d)(\d)(\d)\r")
_SPEED = re.compile(rb"\x02(?:P\d\d)?S([+-])(\d{1,4}(?:\.\d)?)\r")
_TURNED = re.compile(rb"\x02(?:P\d\d)?C(\d{1,8}(?:\.(\d{1,3}))?)\r")
_UNNUMBERED = re.compile(rb"P\?([ -~])\r")


@dataclass(frozen=True, slots=True)
class DriveState:
    """The known parts of the answer to `I`."""

    remote: bool
    state: int
    error: int


class MasterflexLs(Device):
    """One drive; its only point is `pump`."""

    model = DeviceModel(
        id="masterflex-ls",
        vendor="Masterflex",
        name="L/S computerised drive (satellite protocol)",
        kind="pump",
        transports=("serial", "tcp", "sim"),
        capabilities=("run", "dispense", "total", "reverse"),
        guarantee=Guarantee.DEVICE,
        manual="A-1299-1127B, as quoted by open clients",
        verification="checked against the frames of open clients and an independent simulator; the manual's own"
        " pages were not available",
    )
    line = LineSettings(baud=4800, bits=7, parity="O", stop=1)
    queries = re.compile(rb"\x05|\x02P[0-9]{2}[ISC]\r")
    settings = (UL_PER_REV, replace(MAX_RPM_SETTING, high=MAX_RPM), DIRECTION)
    page = Page(
        wiring="RS-232, 9-pin; 4800 baud, SEVEN bits, ODD parity, one stop bit. One drive per line: numbering a chain of"
        " new drives is not supported here.",
        address="satellite number, 1 to 25 (default 1)",
        commands=(
            ("ENQ, PnnCR", "identification; give a new drive its number", "start-up"),
            ("I", "status: local or remote, what the motor does, last error", "status"),
            ("R", "remote, before a start if the drive is local", "commands"),
            ("S+ddd.d, S", "speed and direction, and the current setting", "commands"),
            ("Z, Vddddd.dd, G", "revolutions to go: zero, set, go", "commands"),
            ("G0, H", "run continuously, halt", "commands"),
            ("C", "total revolutions; never reset by this driver", "commands"),
        ),
        traps=(
            "G0 was seen to be answered by NAK although the drive ran: a start counts by the status, not by its answer.",
            "A reversal is refused while the drive runs: it is halted first.",
            "Two of the five digits of a status are not known and not used.",
            "The width of the reply to `C` is not documented: any number with a decimal point is accepted.",
            "Speed goes in steps of 0.1 rpm. A flow that this would change by more than 2 % is refused; a heart pump gets"
            " the nearest step.",
            "An acknowledgement is one byte without a sender. After a lost one the line stays silent for a second.",
            "`Z` before each dose: whether `V` sets or adds to what a halted dose left over is not documented.",
        ),
    )

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        known_only(config.settings, config.name, self.settings)
        self.number = _number(config)
        self._conversation = Conversation(link, config.name, timeout_s=TIMEOUT_S)
        self._conversation.anonymous = True
        self.pump = SatellitePump(self)
        self.actuators["pump"] = self.pump
        link.attach(self._conversation, self.verify)

    @property
    def conversation(self) -> Conversation:
        """This driver's side of the link."""
        return self._conversation

    async def _identify(self) -> Identity:
        try:
            await self.state()
        except NoReply:
            await self._give_number()
            await self.state()
        await self.pump.prepare()
        return Identity(model=f"L/S drive {self.number:02d}")

    async def _give_number(self) -> None:
        """Give its number to a drive that was switched on and asks for it (`P?`)."""
        await self._conversation.ask(ENQ, self._matching(_UNNUMBERED))
        if await self._conversation.ask(STX + b"P%02d\r" % self.number, self._acknowledged) != ACK:
            raise WrongDevice(
                f"it does not take the number {self.number}",
                where=self.config.name,
                cause="another kind of drive, or another number is in use",
                action="check the drive and its address in the rig file",
            )

    async def tell(self, commands: bytes) -> bytes:
        """Send commands; return ACK or NAK."""
        return await self._conversation.ask(self._frame(commands), self._acknowledged)

    async def set(self, commands: bytes) -> None:
        """Send commands; raise :class:`Refused` unless they are acknowledged."""
        if await self.tell(commands) != ACK:
            error = (await self.state()).error
            raise Refused(
                f"the drive does not take {commands.decode()} ({_ERRORS.get(error, 'no error told')})",
                where=self.config.name,
                cause="the value is outside what this drive can do, or its state forbids it",
                action="check max_rpm and ul_per_rev in the rig file; look at the drive's display",
            )

    async def state(self) -> DriveState:
        """Send `I`; return the drive's state."""
        told = await self._conversation.ask(self._frame(b"I"), self._of_this_drive)
        return DriveState(told[2] == b"1", int(told[5]), int(told[6]))

    async def ask(self, query: bytes, pattern: re.Pattern[bytes]) -> re.Match[bytes]:
        """Send `query` and return the answer."""
        return await self._conversation.ask(self._frame(query), self._matching(pattern))

    def _frame(self, commands: bytes) -> bytes:
        return STX + b"P%02d" % self.number + commands + b"\r"

    # --- parsers ------------------------------------------------------------------------------------------

    def _acknowledged(self, buffer: bytearray) -> bytes | None:
        if not buffer:
            return None
        if bytes(buffer) not in (ACK, NAK):
            raise bad_reply(bytes(buffer), self.config.name, "an acknowledgement (ACK or NAK)")
        reply = bytes(buffer)
        buffer.clear()
        return reply

    def _matching(self, pattern: re.Pattern[bytes]) -> Parser[re.Match[bytes]]:
        def parse(buffer: bytearray) -> re.Match[bytes] | None:
            match = pattern.search(bytes(buffer))
            if match is None:
                if buffer[:1] == NAK:
                    raise bad_reply(bytes(buffer), self.config.name, "an answer")
                return None
            del buffer[: match.end()]
            return match

        return parse

    def _of_this_drive(self, buffer: bytearray) -> re.Match[bytes] | None:
        """Return the last status in the buffer that carries this drive's number."""
        for match in _STATUS.finditer(bytes(buffer)):
            if int(match[1]) == self.number:
                del buffer[: match.end()]
                return match
        return None


class SatellitePump(RotaryPump):
    """The motor of a drive."""

    def __init__(self, device: MasterflexLs) -> None:
        super().__init__(f"{device.config.name}.pump", device.conversation)
        self._device = device
        self._gear(device.config, step_rpm=STEP_RPM, max_rpm=MAX_RPM)
        self._clockwise = True
        self._turned_before = 0.0
        self._continuous = False
        """Whether this process started the running flow, continuous and in the direction of `_clockwise`."""

    async def prepare(self) -> None:
        """Verify that the drive reports its speed in the known format."""
        await self._speed()
        self._continuous = False

    async def status(self) -> PumpStatus:
        """Return running state, flow, and the drive's revolutions as a volume (µL).

        Raises:
            DeviceFault: The drive reports a fault of its motor.
        """
        state = (await self._device.state()).state
        if state in _FAULTS:
            raise DeviceFault(
                f"the drive reports: {_FAULTS[state]}",
                where=self.where,
                cause="the head is blocked or too heavy for the drive, or its electronics failed",
                action="free the head; switch the drive off and on",
            )
        turned = await self._device.ask(b"C", _TURNED)
        flow_ul_min = 0.0
        if state == RUNNING:
            rpm, clockwise = await self._speed()
            flow_ul_min = rpm * self._ul_per_rev if clockwise is self._forward else -rpm * self._ul_per_rev
        step_ul = 10.0 ** -len(turned[2] or b"") * self._ul_per_rev
        return PumpStatus(state == RUNNING, flow_ul_min, float(turned[1]) * self._ul_per_rev, step_ul)

    # --- hooks ----------------------------------------------------------------------------------------------

    async def _running(self) -> bool:
        return (await self._device.state()).state == RUNNING

    async def _halt(self) -> None:
        self._continuous = False
        await self._device.tell(b"H")  # whatever it answers: its state is read back

    async def _aim(self, flow_ul_min: float, volume_ul: float | None) -> None:
        self._continuous = False
        revolutions = 0
        if volume_ul is not None:
            revolutions = round(volume_ul / self._ul_per_rev / STEP_REV)
            self._check_dose(volume_ul, revolutions * STEP_REV * self._ul_per_rev)
            if revolutions * STEP_REV > MAX_REV:
                raise self._refusal(f"{volume_ul:g} µL cannot be given at once", "give less at a time")
        if not (await self._device.state()).remote:
            await self._device.set(b"R")
        await self._set_speed(flow_ul_min)
        if volume_ul is not None:
            await self._device.set(b"Z")
            await self._device.set(b"V%05d.%02d" % divmod(revolutions, 100))
        self._turned_before = await self._turned()

    async def _go(self, dose: bool) -> None:
        await self._device.tell(b"G" if dose else b"G0")
        if not await self._started():
            await asyncio.sleep(STARTED_S)
            if not await self._started():
                raise DeviceFault(
                    "it does not run after it was started",
                    where=self.where,
                    cause="the drive is in local mode, or its head is open",
                    action="look at its display; it was commanded off",
                )
        self._continuous = not dose

    async def _started(self) -> bool:
        """Return whether the drive runs, or has run: a small dose may be over before the status is read."""
        return await self._running() or await self._turned() != self._turned_before

    async def _retune(self, flow_ul_min: float) -> bool:
        if not self._continuous or ((flow_ul_min > 0) is self._forward) is not self._clockwise:
            return False
        await self._set_speed(flow_ul_min)
        return True

    # --- requests -----------------------------------------------------------------------------------------

    async def _turned(self) -> float:
        return float((await self._device.ask(b"C", _TURNED))[1])

    async def _speed(self) -> tuple[float, bool]:
        """Return the speed that is set (rpm), and whether clockwise."""
        told = await self._device.ask(b"S", _SPEED)
        return float(told[2]), told[1] == b"+"

    async def _set_speed(self, flow_ul_min: float) -> None:
        """Set speed and direction and read them back."""
        tenths = max(1, round(abs(flow_ul_min) / self._ul_per_rev / STEP_RPM))
        clockwise = (flow_ul_min > 0) is self._forward
        await self._device.set(b"S%c%03d.%d" % (b"+" if clockwise else b"-", *divmod(tenths, 10)))
        rpm, taken = await self._speed()
        if abs(rpm - tenths * STEP_RPM) > STEP_RPM / 2 or taken is not clockwise:
            raise self._refusal(
                f"told {tenths * STEP_RPM:g} rpm {'clockwise' if clockwise else 'counter-clockwise'}, it shows"
                f" {rpm:g} rpm {'clockwise' if taken else 'counter-clockwise'}",
                "stay below what the drive can turn",
            )
        self._clockwise = clockwise


def _number(config: DeviceConfig) -> int:
    text = config.address or "1"
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 25):
        raise bad_setting(config.name, "address", f"is “{text}”", "write the satellite number, 1 to 25")
    return int(text)
