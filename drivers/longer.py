"""Longer peristaltic pumps (BT, L, T and WT series) with the E9 protocol over RS-485.

A frame is E9, address, length, message, check byte (XOR of everything between); E8 and E9 inside are stuffed. The
pump has one command, run at a speed or stand (`WJ`), and one query (`RJ`). It cannot end a dose by itself and does
not count: the driver does both, with the guarantee :attr:`~drivers.device.Guarantee.HOST`.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from functools import reduce
from operator import xor

from drivers.commands import Guarantee, PumpStatus
from drivers.device import Device, DeviceConfig, DeviceModel, Dosing, Identity, Page
from drivers.errors import DeviceFault
from drivers.rotary_pump import DIRECTION, MAX_RPM_SETTING, UL_PER_REV, HostCount, RotaryPump
from drivers.settings import ChoiceSetting, bad_setting, known_only
from drivers.transport.conversation import Conversation
from drivers.transport.link import Link, Parser
from drivers.transport.replies import bad_reply
from drivers.transport.url import LineSettings

TIMEOUT_S = 0.6
"""A request and its reply take 0.2 s at 1200 baud."""
LATENCY_S = 0.2
FLAG, STUFF = 0xE9, 0xE8
RUN, FULL_SPEED = 1, 2
CLOCKWISE = 1
DRIVES = {"bt100": 0.1, "l100": 0.1, "t100-wx10": 0.1, "wt600-2j": 1.0}
"""Drive → speed step (rpm)."""
DRIVE = ChoiceSetting(
    key="drive",
    meaning="model of the drive; its speed step is 0.1 rpm, 1 rpm for wt600-2j",
    among=tuple(DRIVES),
    default="bt100",
)
REPLY_ORDER = ChoiceSetting(
    key="reply_order",
    meaning="the last two bytes of a status",
    among=("state-direction", "direction-state"),
    default="state-direction",
)
MAX_RPM = 6553.5


def frame(address: int, message: bytes) -> bytes:
    """Return the frame that carries `message` to or from `address`, stuffed."""
    inner = bytes((address, len(message))) + message
    inner += bytes((reduce(xor, inner),))
    return bytes((FLAG,)) + inner.replace(b"\xe8", b"\xe8\x00").replace(b"\xe9", b"\xe8\x01")


class Longer(Device):
    """One pump on an RS-485 line; its only point is `pump`."""

    model = DeviceModel(
        id="longer-0xe9",
        vendor="Longer",
        name="BT, L, T, WT series (E9 protocol)",
        kind="pump",
        transports=("serial", "tcp", "sim"),
        capabilities=("run", "dispense", "reverse"),
        guarantee=Guarantee.HOST,
        # The host ends its doses: half a second at the drive's usual flow is added.
        dosing=Dosing(dose_sd_ul=20.0),
        manual="the manufacturer's articles on its E9 protocol (L100-1S-2, WT600-2J)",
        verification="checked against published frames of the manufacturer and others, and an independent simulator",
    )
    line = LineSettings(baud=9600, bits=8, parity="E", stop=1)
    queries = re.compile(rb"\xe9.{2,4}RJ.{1,2}", re.DOTALL)
    settings = (UL_PER_REV, replace(MAX_RPM_SETTING, high=MAX_RPM), DRIVE, REPLY_ORDER, DIRECTION)
    page = Page(
        wiring="RS-485, two wires, up to 30 pumps. Even parity. The baud rate depends on the drive: 9600 on WX10, T100"
        " and L100, 1200 on WT600-2J and the older BT series (`?baud=1200` in the link).",
        address="address set at the pump, 1 to 30 (default 1)",
        commands=(
            ("WJ speed state direction", "run at a speed, or stand", "WT600-2J"),
            ("RJ", "speed, state and direction", "WT600-2J"),
        ),
        traps=(
            "The pump cannot end a dose: this driver times it and stops it. If the controller dies in a dose, the pump"
            " runs on until the guard process or a person stops it.",
            "The pump does not count: the total is speed times time as seen by this driver, since it was started.",
            "The protocol has no identification: any E9 drive at this address is accepted. A wrong `drive` makes"
            " flows wrong by a factor of ten.",
            "Sources differ on the order of the last two bytes of a status. Each command is read back, and with the"
            " wrong `reply_order` the first stop or the first reverse run reports it.",
            "A frame with a wrong check byte is not answered. Changing the address (`WID`) wears the drive's memory and is"
            " never done here.",
            "A flow that differs by more than 2 % from a speed step is refused; a circulation pump gets the nearest"
            " step.",
            "Full speed (prime) started at the keys is reported as `max_rpm`.",
        ),
    )

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        known_only(config.settings, config.name, self.settings)
        self.address = _address(config)
        self.drive = DRIVE.of(config.settings, config.name)
        self.state_first = REPLY_ORDER.of(config.settings, config.name) == "state-direction"
        self._conversation = Conversation(link, config.name, timeout_s=TIMEOUT_S)
        self._conversation.addressed = True
        self.pump = LongerPump(self)
        self.actuators["pump"] = self.pump
        link.attach(self._conversation, self.verify)

    @property
    def conversation(self) -> Conversation:
        """This driver's side of the link."""
        return self._conversation

    async def _identify(self) -> Identity:
        await self.pump.prepare()
        return Identity(model=f"E9 drive, taken for {self.drive}")

    async def write(self, speed: int, state: int, direction: int) -> None:
        """Send `WJ`: `speed` in the drive's counts, `state` bits RUN and FULL_SPEED, `direction` 1 for clockwise."""
        message = b"WJ" + speed.to_bytes(2, "big") + bytes((state, direction))
        await self._conversation.ask(frame(self.address, message), self._answer(b"WJ", 0))

    async def read(self) -> tuple[int, int, int]:
        """Send `RJ`; return speed in counts, state bits and direction (1 clockwise)."""
        told = await self._conversation.ask(frame(self.address, b"RJ"), self._answer(b"RJ", 4))
        state, direction = (told[2], told[3]) if self.state_first else (told[3], told[2])
        if state > RUN | FULL_SPEED or direction > 1:
            self._conversation.doubt()
            raise bad_reply(told, self.config.name, "a speed with its state and direction")
        return int.from_bytes(told[:2], "big"), state, direction

    def _answer(self, code: bytes, size: int) -> Parser[bytes]:
        """Return a parser for this pump's answer to `code`: the `size` bytes after it; anything else is skipped."""

        def parse(buffer: bytearray) -> bytes | None:
            while (at := buffer.find(FLAG)) >= 0:
                del buffer[:at]
                inner, used = _unstuffed(buffer)
                if inner is None:
                    return None
                del buffer[: used or 1]
                right = used and inner[0] == self.address and reduce(xor, inner) == 0
                if right and inner[2:4] == code and inner[1] == 2 + size:
                    return inner[4:-1]
            return None

        return parse


class LongerPump(RotaryPump):
    """The motor of a Longer pump. The driver, not the pump, ends a dose."""

    def __init__(self, device: Longer) -> None:
        super().__init__(f"{device.config.name}.pump", device.conversation, guarantee=Guarantee.HOST)
        self._device = device
        step_rpm = DRIVES[device.drive]
        self._gear(device.config, step_rpm=step_rpm, max_rpm=MAX_RPM)
        self._ul_min_per_count = step_rpm * self._ul_per_rev
        self._count = HostCount(LATENCY_S)
        self._aimed = (0, CLOCKWISE)
        """Counts of speed and direction last sent to the pump, or read at verification."""
        self._volume_ul = 0.0

    async def prepare(self) -> None:
        """Verify that the pump answers; keep its speed and direction for a stop. Part of verification."""
        speed, state, direction = await self._device.read()
        self._aimed = speed, direction
        self._count.update(self._flow(speed, state, direction))

    async def status(self) -> PumpStatus:
        """Return the pump's status; its total is this driver's count (µL)."""
        flow_ul_min = await self._look()
        return PumpStatus(
            flow_ul_min != 0.0, flow_ul_min, self._count.total_ul, self._count.resolution_ul, host_counted=True
        )

    # --- hooks ----------------------------------------------------------------------------------------------

    async def _running(self) -> bool:
        return await self._look() != 0.0

    async def _halt(self) -> None:
        speed, direction = self._aimed
        await self._device.write(speed, 0, direction)
        await self._look(commanded=True)

    async def _aim(self, flow_ul_min: float, volume_ul: float | None) -> None:
        self._aimed = self._counts(flow_ul_min)
        self._volume_ul = volume_ul or 0.0

    async def _go(self, dose: bool) -> None:
        speed, direction = self._aimed
        await self._device.write(speed, RUN, direction)
        begun_s = asyncio.get_running_loop().time()
        await self._confirm()
        if dose:
            ran_s = asyncio.get_running_loop().time() - begun_s
            self._end_after(max(0.0, self._volume_ul / (speed * self._ul_min_per_count) * 60.0 - ran_s))

    async def _retune(self, flow_ul_min: float) -> bool:
        speed, direction = self._counts(flow_ul_min)
        if direction != self._aimed[1]:
            return False
        self._aimed = speed, direction
        await self._device.write(speed, RUN, direction)
        await self._confirm()
        return True

    # --- requests -----------------------------------------------------------------------------------------

    async def _confirm(self) -> None:
        """Verify that the pump does what was commanded."""
        told = await self._device.read()
        self._count.update(self._flow(*told), commanded=True)
        if told != (self._aimed[0], RUN, self._aimed[1]):
            raise DeviceFault(
                f"told to run at {self._aimed[0]} counts, it reads back {told[0]} counts, state {told[1]},"
                f" direction {told[2]}",
                where=self.where,
                cause="reply_order in the rig file is the other one, the speed is above what the drive can do, or"
                " its keys were used",
                action="look what the pump does; check reply_order, drive and max_rpm",
            )

    async def _look(self, *, commanded: bool = False) -> float:
        flow_ul_min = self._flow(*await self._device.read())
        self._count.update(flow_ul_min, commanded=commanded)
        return flow_ul_min

    def _flow(self, speed: int, state: int, direction: int) -> float:
        if not state & (RUN | FULL_SPEED):
            return 0.0
        flow_ul_min = self._max_flow_ul_min if state & FULL_SPEED else speed * self._ul_min_per_count
        return flow_ul_min if (direction == CLOCKWISE) is self._forward else -flow_ul_min

    def _counts(self, flow_ul_min: float) -> tuple[int, int]:
        counts = max(1, round(abs(flow_ul_min) / self._ul_min_per_count))
        return counts, CLOCKWISE if (flow_ul_min > 0) is self._forward else 1 - CLOCKWISE


def _unstuffed(buffer: bytearray) -> tuple[bytes | None, int]:
    """Return the bytes between the flag and the end of the first frame, and the number of bytes used for them.

    Returns (None, 0) while it is incomplete; (b"", 0) if it cannot be a frame.
    """
    inner = bytearray()
    at = 1
    while len(inner) < 2 or len(inner) < 3 + inner[1]:
        if at >= len(buffer):
            return None, 0
        byte = buffer[at]
        if byte == FLAG:
            return b"", 0  # another frame starts: this one was truncated
        if byte == STUFF:
            if at + 1 >= len(buffer):
                return None, 0
            at += 1
            if buffer[at] > 1:
                return b"", 0
            byte = STUFF + buffer[at]
        inner.append(byte)
        at += 1
    return bytes(inner), at


def _address(config: DeviceConfig) -> int:
    text = config.address or "1"
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 30):
        raise bad_setting(config.name, "address", f"is “{text}”", "write the address set at the pump, 1 to 30")
    return int(text)
