"""VICI universal and microelectric actuators of multi-position valves (Valco technical notes, pages 14 to 16).

`CP` returns the position, `NP` the number of positions, `AM` the actuator mode; `GOn` moves by the shorter way and,
with the factory setting (IFM0), is not answered. A move is therefore sent, waited for, and read back.
"""

from __future__ import annotations

import asyncio
import re

from drivers.commands import Command, Guarantee, Level, LevelStatus
from drivers.device import Device, DeviceConfig, DeviceModel, Identity, Page, Sensor, refuse
from drivers.errors import DeviceFault, Refused, WrongDevice
from drivers.output import Output
from drivers.settings import Given, NumberSetting, bad_setting, known_only
from drivers.transport.conversation import Conversation, SyncQuery
from drivers.transport.link import Link, Parser
from drivers.transport.replies import MAX_LINE_BYTES, bad_reply
from drivers.transport.url import LineSettings

TIMEOUT_S = 0.3
TELL_S = 0.05
ARRIVALS = 3
"""Number of position readings after a move before it counts as failed."""
MAX_POSITIONS = 40

_LINE_END = re.compile(rb"[\r\n]")

POSITIONS = NumberSetting(
    key="positions", meaning="the valve's positions, compared with the actuator's own", low=2, high=MAX_POSITIONS
)
REST_POSITION = NumberSetting(
    key="rest_position", meaning="position that is safe without supervision", low=1, high=MAX_POSITIONS, default=1
)
MOVE = NumberSetting(key="move_s", meaning="longest time of a move", low=0.1, high=30.0, default=2.0, unit="s")


class ViciActuator(Device):
    """One valve: `valve` is set to a position (0 is rest), `position` is read."""

    model = DeviceModel(
        id="vici-actuator",
        vendor="VICI Valco",
        name="universal (EUT/EUD/EUH) and microelectric actuators, multi-position",
        kind="valve",
        transports=("serial", "tcp", "sim"),
        capabilities=("level", "read"),
        guarantee=Guarantee.GUARD,
        manual="Valco universal actuator technical note, pages 14 to 16",
    )
    line = LineSettings(baud=9600, bits=8, parity="N", stop=1)
    queries = re.compile(rb"[0-9A-Z]?(?:AM|NP|CP)\r")
    settings = (POSITIONS, REST_POSITION, MOVE)
    page = Page(
        wiring="RS-232 three-wire (or RS-485 with an ID set, by model), 9600 8N1. Mode 3 (multi-position), IFM0, as from "
        "the factory.",
        address="the ID set in the actuator, 0 to 9 or A to Z (default: none)",
        commands=(
            ("CP", "current position", "p. 14-16"),
            ("NP", "number of positions", "p. 14-16"),
            ("AM", "actuator mode; barrier", "p. 14-16"),
            ("GOn", "move to position n by the shorter way", "p. 14-16"),
        ),
        traps=(
            "The valve stays where it is when the host dies: the guard process sends it to rest_position.",
            "Level 0 is rest_position, and the status shows 0 there: that position is not commanded by its number.",
            "On the shorter way the valve passes the positions between: stop what flows before moving.",
            "After the last retry of a move the position is unknown: the driver then moves the valve to rest.",
            "Number width and text of the replies differ between firmwares (CP1, CP01, “Position is = 1”): all are accepted.",
            "An ID, once set in the actuator, belongs into `address`; without one leave it empty. It is not certain whether "
            "replies contain it: give each actuator its own line.",
        ),
    )

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        settings, where = config.settings, config.name
        known_only(settings, where, self.settings)
        self.positions = _whole(POSITIONS, settings, where, MAX_POSITIONS)
        self.rest_position = _whole(REST_POSITION, settings, where, self.positions)
        self.move_s = MOVE.of(settings, where)
        self._still_at_s = 0.0
        """Loop time by which the last move has certainly ended."""
        self._id = _id(config)
        self._conversation = Conversation(
            link,
            where,
            timeout_s=TIMEOUT_S,
            barrier=SyncQuery(self._request(b"AM"), lambda: self._number(b"AM")),
        )
        self._conversation.anonymous = not self._id
        self.sensors["position"] = _Position(self)
        self.actuators["valve"] = ValvePosition(self)
        link.attach(self._conversation, self.verify)

    @property
    def conversation(self) -> Conversation:
        """This driver's side of the link."""
        return self._conversation

    async def _identify(self) -> Identity:
        mode = await self.ask(b"AM")
        count = await self.ask(b"NP")
        if count != self.positions:
            raise WrongDevice(
                f"it turns a valve of {count} positions, not {self.positions}",
                where=self.config.name,
                cause="another valve on this actuator, or its number of positions was never set (NPn)",
                action="set NP in the actuator to the valve's positions, or correct positions in the rig file",
            )
        await self.ask(b"CP")
        return Identity(model=f"{count}-position actuator, mode {mode}")

    async def ask(self, what: bytes) -> int:
        """Return the number in the answer to `CP`, `NP` or `AM`; queried when no move is running."""
        # While the motor turns, some firmware receives nothing: silence must not count as a failure then.
        while True:
            wait_s = self._still_at_s - asyncio.get_running_loop().time()
            if wait_s <= 1e-6:  # loop time has a finite resolution and may end slightly early
                break
            await asyncio.sleep(wait_s)
        return await self._conversation.ask(self._request(what), self._number(what))

    async def go(self, position: int) -> None:
        """Move to `position`, wait, and verify by readback."""
        self._still_at_s = asyncio.get_running_loop().time() + TELL_S + self.move_s
        await self._conversation.tell(self._request(b"GO%d" % position), pause_s=TELL_S)
        reached = 0
        for attempt in range(ARRIVALS):
            reached = await self.ask(b"CP")
            if reached == position:
                return
            if attempt + 1 < ARRIVALS:
                await asyncio.sleep(self.move_s / 4)
        raise DeviceFault(
            f"the valve is at {reached} instead of {position}",
            where=self.config.name,
            cause="it sticks, moves slower than move_s, or the command was garbled",
            action="look at the valve; correct move_s in the rig file",
        )

    def _request(self, command: bytes) -> bytes:
        return self._id + command + b"\r"

    def _number(self, what: bytes) -> Parser[int]:
        """Return a parser of `CP03` and the like, with or without the ID, and of the long form; other lines are
        skipped.
        """
        own = b"(?:" + re.escape(self._id) + b")? ?"
        long = {b"CP": rb"Position is *= *\"?(\d{1,2})\"?"}.get(what, rb"(?!)()")
        pattern = re.compile(own + b"(?:" + what + rb" *(\d{1,7})|" + long + rb") *")

        def parse(buffer: bytearray) -> int | None:
            while (match := _LINE_END.search(buffer)) is not None:
                line = bytes(buffer[: match.start()])
                del buffer[: match.end()]
                if found := pattern.fullmatch(line):
                    return int(found[1] or found[2])
                if what == b"CP" and re.fullmatch(own + rb"(?:CP|Position is *= *)\"?[AB]\"? *", line):
                    raise self._two_position()
                if any(byte > 0x7E or byte < 0x20 for byte in line):
                    raise bad_reply(line, self.config.name, "a line of text")
            if len(buffer) > MAX_LINE_BYTES:
                raise bad_reply(bytes(buffer), self.config.name, "a line that ends")
            return None

        return parse

    def _two_position(self) -> WrongDevice:
        return WrongDevice(
            "it tells its position by letter",
            where=self.config.name,
            cause="a two-position actuator, or one in mode 1 or 2",
            action="set mode 3 (AM3) for a multi-position valve; two-position valves are not driven here",
        )


class _Position(Sensor):
    unit = "position"

    def __init__(self, actuator: ViciActuator) -> None:
        self._actuator = actuator

    async def read(self) -> float:
        number = await self._actuator.ask(b"CP")
        if not 1 <= number <= self._actuator.positions:
            raise DeviceFault(
                f"it tells position {number} of {self._actuator.positions}",
                where=self._actuator.config.name,
                cause="the valve stands between two positions or was never homed",
                action="home it (HM) with nothing flowing",
            )
        return float(number)


class ValvePosition(Output):
    """The valve. A move ends by itself, but the position stays: if the host dies, the guard moves it to rest."""

    kind = "level"
    unit = "position"

    def __init__(self, actuator: ViciActuator) -> None:
        super().__init__(f"{actuator.config.name}.valve", actuator.conversation)
        self._actuator = actuator

    async def obey(self, command: Command) -> None:
        """Execute a Level command (a position, 0 for rest)."""
        match command:
            case Level(value=0.0):
                await self.off()
            case Level(value=value):
                await self._turn(value)
            case _:
                raise refuse(self, self.where, command)

    async def status(self) -> LevelStatus:
        """Return the position that the actuator reports, as set-point and as measured value; 0 is rest."""
        position = await self._actuator.ask(b"CP")
        told = 0.0 if position == self._actuator.rest_position else float(position)
        return LevelStatus(setpoint=told, measured=told)

    async def _turn(self, value: float) -> None:
        positions, rest = self._actuator.positions, self._actuator.rest_position
        if not (1 <= value <= positions and float(value).is_integer()) or value == rest:
            raise Refused(
                f"{value:g} is no position to go to",
                where=self.where,
                cause=f"position {rest} is rest and called 0"
                if value == rest
                else f"the valve has positions 1 to {positions}",
                action=f"ask for a whole position from 1 to {positions} other than {rest}, or 0 for rest",
            )
        if await self._actuator.ask(b"CP") != value:
            # On the way the valve passes other positions: it must not stay where it did not arrive.
            await self.on(self._actuator.go(int(value)), was_on=False)

    async def rest(self) -> None:
        """Move to the position of rest, unless it is there."""
        if await self._actuator.ask(b"CP") != self._actuator.rest_position:
            await self._actuator.go(self._actuator.rest_position)


def _whole(setting: NumberSetting, settings: Given, where: str, high: int) -> int:
    number = setting.of(settings, where, high=high)
    if not number.is_integer():
        raise bad_setting(
            where, setting.key, f"is “{number:g}”", f"write a whole number from {setting.low:g} to {high}"
        )
    return int(number)


def _id(config: DeviceConfig) -> bytes:
    text = config.address.upper()
    if text and not re.fullmatch(r"[0-9A-Z]", text, re.ASCII):
        raise bad_setting(
            config.name, "address", f"is “{config.address}”", "write the ID, 0 to 9 or A to Z, or nothing"
        )
    return text.encode("ascii")
