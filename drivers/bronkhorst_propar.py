"""Bronkhorst mass flow controllers, ProPar in binary or ASCII (RS232 interface manual 9.17.027, pages 22 to 26).

Both forms carry the same message: node, command, data. A read contains the index under which the instrument
answers; this driver gives every read another index, so that a late answer is recognised. Flow and set-point are
shares of full scale, 32000 being 100 %; the setting `full_scale_ml_min` defines 100 %.
"""

from __future__ import annotations

import asyncio
import math
import re
import struct

from drivers.commands import Guarantee, LevelStatus
from drivers.device import Device, DeviceConfig, DeviceModel, Identity, Page, Sensor
from drivers.errors import Refused, WrongDevice
from drivers.gas_flow import GasFlow, is_gas, wrong_gas
from drivers.settings import ChoiceSetting, FlagSetting, NumberSetting, bad_setting, known_only
from drivers.transport.conversation import Conversation, SyncQuery
from drivers.transport.link import Link, Parser
from drivers.transport.replies import bad_reply, take_line
from drivers.transport.url import LineSettings

TIMEOUT_S = 0.3
SHARED_S = 0.2
"""Maximum age of a reading that serves both the flow and its readback (s)."""
FULL_SCALE = 32000
MAX_POSITIVE = 41942
"""131 %; larger numbers are negative ones."""
ANY_NODE = 128

STATUS, WRITE, ANSWER, READ = 0, 1, 2, 4
PROCESS = 1
MEASURE, SETPOINT, CAPACITY = 0x20, 0x21, 0x4D
"""Parameters 0, 1 and 13 of process 1 with their type bits: 0x20 a 16-bit number, 0x40 a float."""
FLUID, FLUID_SIZE = 0x71, 10
"""Parameter 17 of process 1, the name of the selected fluid, a string of ten characters."""
SERIAL_PROCESS, SERIAL, SERIAL_SIZE = 113, 0x63, 20
"""Parameter 3 of process 113, the serial number, a string of twenty characters."""
INTEGER, FLOAT, STRING = 0x20, 0x40, 0x60

_DLE, _ETX = 0x10, 0x03
_LONGEST = 64
_STATUS = {
    1: "the process is claimed by another master",
    2: "it does not know the command",
    3: "it has no such process",
    4: "it has no such parameter",
    5: "the parameter is of another type",
    6: "it does not take this value",
}

FULL_SCALE_SETTING = NumberSetting(
    key="full_scale_ml_min",
    meaning="the full scale on the instrument's label, at its reference conditions",
    low=0.1,
    high=5e6,
    unit="mL/min",
)
MODE = ChoiceSetting(key="mode", meaning="form of the messages", among=("binary", "ascii"), default="binary")
GAS_BY_LABEL = FlagSetting(
    key="gas_by_label",
    meaning="whether a person has read on the label that the instrument is made for the rig file's gas; for one that does not"
    " tell its fluid",
    default=False,
)
CAPACITY_SETTING = NumberSetting(
    key="capacity",
    meaning="the capacity that the instrument reports, in its own unit",
    low=0.0,
    high=1e9,
    default=0.0,
    without="verified if given",
)


class BronkhorstPropar(Device):
    """One controller; its point `flow` is measured (sensor) and set (actuator), in mL/min."""

    model = DeviceModel(
        id="bronkhorst-propar",
        vendor="Bronkhorst",
        name="EL-FLOW and other ProPar mass flow controllers",
        kind="gas",
        transports=("serial", "tcp", "sim"),
        capabilities=("level", "read"),
        guarantee=Guarantee.GUARD,
        manual="RS232 interface manual 9.17.027, pages 22 to 26 (ProPar)",
    )
    line = LineSettings(baud=38400, bits=8, parity="N", stop=1)
    queries = re.compile(rb"\x10\x02(?:\x10\x10|[^\x10]){3}\x04.*\x10\x03", re.DOTALL)
    settings = (FULL_SCALE_SETTING, MODE, CAPACITY_SETTING, GAS_BY_LABEL)
    page = Page(
        wiring="RS232 on the 9-pin sub-D of the instrument (Bronkhorst's own cable), 38400 8N1; USB and some RS485 models "
        "run at 115200: write it in the link (?baud=115200).",
        address="the node, 1 to 127, or 128 for the only one on an RS232 line (default 128)",
        commands=(
            ("read process 1 parameter 0", "measured flow, 32000 = 100 %", "p. 22-26"),
            ("read process 1 parameter 1", "set-point", "p. 22-26"),
            ("write process 1 parameter 1", "set-point, acknowledged by a status message", "p. 22-26"),
            ("read process 1 parameter 17", "selected fluid, compared with `gas` of the rig file", "p. 22-26"),
            ("read process 113 parameter 3", "serial number", "bronkhorst-propar 1.3.0"),
            ("read process 1 parameter 13", "capacity: identification and barrier", "p. 22-26"),
        ),
        traps=(
            "The set-point is held when the host dies: the guard process sets the basal flow, the instrument does nothing.",
            "The instrument takes set-points from here only when its control mode is RS232/bus; otherwise the readback "
            "differs and the command fails.",
            "Node 128 reaches any instrument on RS232; on RS485 each needs its own node as address, or all would answer.",
            "An instrument that does not tell its fluid (parameter 17) is refused, unless a person has read its label and "
            "the rig file says `gas_by_label: true`; its identity and `choroid check` name that.",
            "100 % is that of the selected fluid: after changing it, correct full_scale_ml_min.",
            "Binary messages have no checksum: only framing, length, sequence and index separate noise from an answer.",
        ),
    )

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        known_only(config.settings, config.name, self.settings)
        self.full_scale_ml_min = FULL_SCALE_SETTING.of(config.settings, config.name)
        self._capacity = CAPACITY_SETTING.of(config.settings, config.name)
        self._mode = MODE.of(config.settings, config.name)
        self._gas_by_label = GAS_BY_LABEL.of(config.settings, config.name)
        if self._gas_by_label:
            self.caution = (
                f"{GAS_BY_LABEL.key}: nothing checks that {config.name} gives {config.gas or 'its gas'} if it does not tell"
                " its fluid. Look at its label and its bottle after each change of either"
            )
        self._node = _node(config)
        self._sequence = 0
        self._flow_raw = 0
        self._flow_at_s = -1.0
        # The barrier's answer is a float under index 0; no other read requests either.
        self._conversation = Conversation(
            link,
            config.name,
            timeout_s=TIMEOUT_S,
            barrier=SyncQuery(
                self._packed(0, bytes((READ, PROCESS, FLOAT, PROCESS, CAPACITY))),
                lambda: self._answer(0, FLOAT, 4),
            ),
        )
        self._conversation.addressed = self._node != ANY_NODE
        self._flow_lock = asyncio.Lock()
        self.sensors["flow"] = _MassFlow(self)
        self.actuators["flow"] = BronkhorstFlowController(self)
        link.attach(self._conversation, self.verify)

    @property
    def conversation(self) -> Conversation:
        """This driver's side of the link."""
        return self._conversation

    async def _identify(self) -> Identity:
        self._flow_at_s = -1.0
        capacity: float = struct.unpack(">f", await self._read(FLOAT, CAPACITY, 4))[0]
        if not math.isfinite(capacity) or capacity <= 0.0:
            raise self._another(f"it tells a capacity of {capacity:g}")
        if self._capacity and abs(capacity - self._capacity) > 0.01 * self._capacity:
            raise self._another(f"its capacity is {capacity:g}, not {self._capacity:g}")
        await self.setpoint_raw()
        told = await self._require_gas()
        serial = await self._string(SERIAL_PROCESS, SERIAL, SERIAL_SIZE)
        return Identity(f"mass flow controller, capacity {capacity:g}{told}", serial)

    async def _require_gas(self) -> str:
        """Compare the selected fluid with the rig file. It is never set: 100 % of another fluid is another flow.

        Returns:
            What is said of an instrument that does not tell its fluid; empty for one that does.

        Raises:
            WrongDevice: It is another fluid, or it is not known and no person has read the label.
        """
        wanted = self.config.gas
        if not wanted:
            return ""
        told = await self._string(PROCESS, FLUID, FLUID_SIZE)
        if not told:
            if self._gas_by_label:
                return f", which does not tell its fluid: {wanted} by its label"
            raise WrongDevice(
                "it does not tell its fluid, so that nothing shows which gas its numbers mean",
                where=self.config.name,
                cause="an instrument for one gas, without parameter 17",
                action=f"read its label: if it says {wanted}, write `gas_by_label: true` in its settings; else correct gas",
            )
        if not is_gas(told, wanted):
            raise wrong_gas(
                self.config.name,
                told,
                wanted,
                "look which bottle is connected; select that fluid with the maker's tool and correct full_scale_ml_min, or"
                " correct gas in the rig file",
            )
        return ""

    async def _string(self, process: int, parameter: int, size: int) -> str:
        """Return a text parameter; empty if the instrument does not tell it."""
        index = self._next()
        message = bytes((READ, PROCESS, STRING | index, process, parameter, size))
        try:
            return await self._conversation.ask(self._packed(index, message), self._text(index))
        except Refused:
            return ""

    def _text(self, index: int) -> Parser[str]:
        """Return a parser of the string under `index`: its length, then its characters, padded."""
        head = bytes((ANSWER, PROCESS, STRING | index))

        def parse(buffer: bytearray) -> str | None:
            while (message := self._take(buffer, index)) is not None:
                if message[:3] == head and len(message) >= 4 and len(message) == 4 + message[3]:
                    return message[4:].split(b"\0")[0].decode("latin-1").strip()
                if message[0] == STATUS and len(message) == 3 and message[1] != 0:
                    raise self._refused(message[1])
            return None

        return parse

    def _another(self, what: str) -> WrongDevice:
        return WrongDevice(
            what,
            where=self.config.name,
            cause="another instrument answers here, or another fluid is selected in it",
            action="check the node, and capacity and full_scale_ml_min in the rig file",
        )

    async def flow(self) -> float:
        """Return the measured flow (mL/min), at most `SHARED_S` old; slightly negative at rest is zero drift."""
        loop = asyncio.get_running_loop()
        async with self._flow_lock:
            if self._flow_at_s < 0.0 or loop.time() - self._flow_at_s > SHARED_S:
                self._flow_raw = _signed(await self._read(INTEGER, MEASURE, 2))
                self._flow_at_s = loop.time()
            return self.ml_min(self._flow_raw)

    async def setpoint_raw(self) -> int:
        """Return the set-point in the instrument, 32000 = 100 %."""
        return _signed(await self._read(INTEGER, SETPOINT, 2))

    def ml_min(self, raw: int) -> float:
        """Return a share of full scale as a flow."""
        return raw * self.full_scale_ml_min / FULL_SCALE

    async def write_setpoint(self, raw: int) -> None:
        """Write the set-point and verify it by readback."""
        self._flow_at_s = -1.0
        message = bytes((WRITE, PROCESS, SETPOINT)) + raw.to_bytes(2, "big")
        sequence = self._next()
        await self._conversation.ask(self._packed(sequence, message), self._status(sequence))
        if (stands := await self.setpoint_raw()) != raw:
            raise Refused(
                f"it was set to {raw / 320:.2f} % and says {stands / 320:.2f} %",
                where=self.config.name,
                cause="its control mode takes the set-point from elsewhere, such as its analogue input",
                action="set its control mode to RS232/bus",
            )

    # --- messages -------------------------------------------------------------------------------------------

    def _next(self) -> int:
        """Return the next index, 1 to 31 in turn, that the answer carries."""
        self._sequence = self._sequence % 31 + 1
        return self._sequence

    async def _read(self, kind: int, parameter: int, size: int) -> bytes:
        index = self._next()
        message = bytes((READ, PROCESS, kind | index, PROCESS, parameter))
        return await self._conversation.ask(self._packed(index, message), self._answer(index, kind, size))

    def _packed(self, sequence: int, message: bytes) -> bytes:
        if self._mode == "binary":
            body = bytes((sequence, self._node, len(message))) + message
            return b"\x10\x02" + body.replace(b"\x10", b"\x10\x10") + b"\x10\x03"
        return b":" + (bytes((len(message) + 1, self._node)) + message).hex().upper().encode() + b"\r\n"

    def _take(self, buffer: bytearray, sequence: int) -> bytes | None:
        """Return the next message of this node that answers `sequence` (in ASCII: any), unpacked."""
        while (body := self._take_body(buffer)) is not None:
            if (message := self._message(body, sequence)) is not None:
                return message
        return None

    def _take_body(self, buffer: bytearray) -> bytes | None:
        """Take the next frame from the buffer and return it without its framing; None while it is incomplete."""
        if self._mode == "binary":
            return _take_binary(buffer)
        line = take_line(buffer, b"\r\n", self.config.name)
        return None if line is None else _unhexed(line)

    def _message(self, body: bytes, sequence: int) -> bytes | None:
        """Return the message in a frame; None if it is damaged, of another node, or answers another request."""
        if self._mode == "binary":
            whole = len(body) >= 4 and body[2] == len(body) - 3 and body[0] == sequence
            return body[3:] if whole and body[1] == self._node else None
        whole = len(body) >= 3 and body[0] == len(body) - 1
        return body[2:] if whole and body[1] == self._node else None

    def _answer(self, index: int, kind: int, size: int) -> Parser[bytes]:
        """Return a parser of the value under `index`; a status message instead of it raises an error."""
        head = bytes((ANSWER, PROCESS, kind | index))

        def parse(buffer: bytearray) -> bytes | None:
            while (message := self._take(buffer, index)) is not None:
                if message[:3] == head and len(message) == 3 + size:
                    return message[3:]
                if message[0] == STATUS and len(message) == 3 and message[1] != 0:
                    raise self._refused(message[1])
            return None

        return parse

    def _status(self, sequence: int) -> Parser[bool]:
        def parse(buffer: bytearray) -> bool | None:
            while (message := self._take(buffer, sequence)) is not None:
                if message[0] == STATUS and len(message) == 3:
                    if message[1]:
                        raise self._refused(message[1])
                    return True
                if message[0] not in (STATUS, ANSWER):
                    raise bad_reply(message, self.config.name, "a status")
            return None

        return parse

    def _refused(self, status: int) -> Refused:
        return Refused(
            f"status {status}: {_STATUS.get(status, 'see its manual')}",
            where=self.config.name,
            cause="another model at this node, or a value it cannot take",
            action="check the model, the node and full_scale_ml_min in the rig file",
        )


class _MassFlow(Sensor):
    unit = "mL/min"

    def __init__(self, controller: BronkhorstPropar) -> None:
        self._controller = controller

    async def read(self) -> float:
        return await self._controller.flow()


class BronkhorstFlowController(GasFlow):
    """The set-point, as a share of full scale."""

    def __init__(self, controller: BronkhorstPropar) -> None:
        super().__init__(f"{controller.config.name}.flow", controller.conversation)
        self._controller = controller

    @property
    def full_scale_ml_min(self) -> float:
        """Full scale of the rig file."""
        return self._controller.full_scale_ml_min

    @property
    def step_ml_min(self) -> float:
        """Set-points are whole numbers up to :data:`FULL_SCALE`."""
        return self.full_scale_ml_min / FULL_SCALE

    async def status(self) -> LevelStatus:
        """Return set-point and measured flow (mL/min) that the instrument reports."""
        raw = await self._controller.setpoint_raw()
        return LevelStatus(setpoint=self._controller.ml_min(raw), measured=await self._controller.flow())

    async def is_open(self) -> bool:
        """See :meth:`GasFlow.is_open`."""
        return await self._controller.setpoint_raw() > 0

    async def write(self, ml_min: float) -> None:
        """See :meth:`GasFlow.write`."""
        await self._controller.write_setpoint(round(ml_min / self.full_scale_ml_min * FULL_SCALE))


def _take_binary(buffer: bytearray) -> bytes | None:
    """Remove the first complete binary message from `buffer`: the part between DLE STX and DLE ETX, DLEs unescaped."""
    while True:
        start = buffer.find(b"\x10\x02")
        if start < 0:
            del buffer[: max(0, len(buffer) - 1)]  # the last byte may be the first half of a start
            return None
        del buffer[:start]
        body, at = bytearray(), 2
        while at < len(buffer):
            byte = buffer[at]
            if byte != _DLE:
                body.append(byte)
                at += 1
            elif at + 1 == len(buffer):
                return None
            elif buffer[at + 1] == _DLE:
                body.append(_DLE)
                at += 2
            elif buffer[at + 1] == _ETX:
                del buffer[: at + 2]
                return bytes(body)
            else:  # a single DLE starts another message, or is noise
                break
            if len(body) > _LONGEST:
                break
        else:
            return None
        del buffer[:2]


def _unhexed(line: bytes) -> bytes:
    """Return the bytes of an ASCII message after its colon; empty for anything else."""
    digits = line[1:]
    if line[:1] != b":" or len(digits) % 2 or not all(byte in b"0123456789ABCDEFabcdef" for byte in digits):
        return b""
    return bytes.fromhex(digits.decode("ascii"))


def _signed(data: bytes) -> int:
    raw = int.from_bytes(data, "big")
    return raw if raw <= MAX_POSITIVE else raw - 65536


def _node(config: DeviceConfig) -> int:
    text = config.address or str(ANY_NODE)
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= ANY_NODE):
        raise bad_setting(
            config.name, "address", f"is “{text}”", "write the node, 1 to 127, or 128 for the only one on an RS232 line"
        )
    return int(text)
