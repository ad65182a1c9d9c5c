"""A Bronkhorst mass flow controller on ProPar (RS232 interface manual 9.17.027 pp. 22-26), binary and ASCII by turns.

ASCII: `:` length node data CR LF in hexadecimal, the length counting all bytes after itself. Binary: DLE STX sequence
node length data DLE ETX, each DLE doubled, the length counting the data alone. A message of either form is answered in
its own. Reads are answered under the process and parameter index that the master asks for.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from controller.rig.description import DeviceSpec
from sim.devices.bench_facts import BenchFacts
from sim.devices.port import PlantPort
from sim.devices.wire import WireDevice, forgetting

STATUS, WRITE_ACKNOWLEDGED, WRITE, BROADCAST, READ = 0, 1, 2, 3, 4
ANSWER = 2
OK, NO_COMMAND, NO_PROCESS, NO_PARAMETER, WRONG_TYPE, WRONG_VALUE = 0, 2, 3, 4, 5, 6
BYTE, INTEGER, LONG, STRING = 0x00, 0x20, 0x40, 0x60
CHAINED = 0x80
ANY_NODE = 0x80
FULL = 32000
MOST = 41942
"""131 % of full scale."""
LONGEST = 160

CONVERSION = {"AIR": 1.0, "CO2": 0.74, "O2": 0.98, "N2": 1.0, "AR": 1.4, "HE": 1.41}
"""Flow of each fluid over that of air at the same signal of the thermal sensor."""

Parameter = tuple[int, int]


class BronkhorstPropar(WireDevice):
    """A controller of `full_scale_ml_min` (device setting, default 100), on node `address` (default 128: any)."""

    model_id = "bronkhorst-propar"
    bench = BenchFacts(settings={"full_scale_ml_min": 200.0}, address="5", similar=("gas controllers",))
    baud = 38400
    think_s = 0.004

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        self.node = int(spec.address or ANY_NODE)
        self.full_scale = float(spec.settings.get("full_scale_ml_min", 100.0))
        self.capacity = float(spec.settings.get("capacity", self.full_scale))
        connected = (spec.gas or "air").upper()
        self.fluid = str(spec.settings.get("fluid", connected))
        """The selected fluid; the rig's gas flows through it."""
        self._true_share = CONVERSION[connected] / CONVERSION[self.fluid]
        self.setpoint = 0
        """Share of full scale, 32000 = 100 %."""
        self.listens = True
        """Whether its control mode takes set-points from the line."""
        self.usertag = b"USERTAG"
        self.belong_to(0)
        self.total = 0.0
        self._point = f"{name}.flow"
        self._given = 0.0
        self._since_s = 0.0
        self._buffer = bytearray()

    def belong_to(self, lab: int) -> None:
        """See :meth:`WireDevice.belong_to`."""
        self.serial = b"M%08d" % (21_200_000 + sum(self.name.encode()) + lab)

    @property
    def answers_to(self) -> str | None:
        """See :meth:`WireDevice.answers_to`."""
        return str(self.node)

    def readdress(self, address: str) -> None:
        """See :meth:`WireDevice.readdress`."""
        self.node = int(address)

    def forged(self, data: bytes, address: str) -> bytes | None:
        """See :meth:`WireDevice.forged`: the node is the second byte of an answer."""
        node = int(address)
        if data[:1] == b":" and data[3:5] == b"%02X" % self.node:
            return data[:3] + b"%02X" % node + data[5:]
        if data[:2] == b"\x10\x02" and 0x10 not in (data[2], self.node, node) and data[3] == self.node:
            return data[:3] + bytes((node,)) + data[4:]
        return None

    def forget(self) -> Callable[[], None]:
        """See :meth:`WireDevice.forget`: the tag and the counter; its node is set at the instrument."""
        return forgetting(self, {"usertag": b"USERTAG", "total": 0.0})

    # --- power and valve --------------------------------------------------------------------------------

    def _boot(self) -> None:
        self._buffer.clear()
        self._since_s = self.loop.time()

    def _halt(self) -> None:
        self.setpoint = 0
        self._act()

    def _act(self) -> None:
        flow = self.setpoint * self.full_scale / FULL * self._true_share
        if flow != self._given:
            self._count()
            self._given = flow
            self.plant.set_gas(self._point, flow)

    def _count(self) -> None:
        now_s = self.loop.time()
        self.total += self._given / 1000.0 * (now_s - self._since_s) / 60.0
        self._since_s = now_s

    def _flow(self) -> float:
        """Return the flow (mL/min) of the plant, or the set-point where the plant has no such gas."""
        try:
            return self.plant.sense(self._point) / self._true_share
        except KeyError:
            return self._given / self._true_share

    # --- what arrives -----------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """See :meth:`WireDevice.receive`."""
        buffer = self._buffer
        buffer += data
        while buffer:
            if buffer[0] == 0x3A:
                if not self._ascii(buffer):
                    break
            elif buffer[0] == 0x10:
                if not self._binary(buffer):
                    break
            else:
                del buffer[0]
        if len(buffer) > LONGEST:
            buffer.clear()

    def _ascii(self, buffer: bytearray) -> bool:
        """Act on one ASCII message; return False while it is incomplete."""
        end = buffer.find(b"\r\n")
        if end < 0:
            return False
        text = bytes(buffer[1:end])
        del buffer[: end + 2]
        try:
            raw = bytes.fromhex(text.decode("ascii"))
        except ValueError:
            return True
        if b" " not in text and len(raw) >= 3 and raw[0] == len(raw) - 1:
            reply = self._answer(raw[1], raw[2:])
            if reply:
                message = bytes((len(reply) + 1, raw[1])) + reply
                self.send(b":" + message.hex().upper().encode() + b"\r\n")
        return True

    def _binary(self, buffer: bytearray) -> bool:
        """Act on one binary message; return False while it is incomplete."""
        if len(buffer) < 2:
            return False
        if buffer[1] != 0x02:
            del buffer[0]
            return True
        body, escaped = bytearray(), False
        for at in range(2, len(buffer)):
            byte = buffer[at]
            if escaped and byte == 0x03:
                del buffer[: at + 1]
                self._whole(bytes(body))
                return True
            if escaped and byte != 0x10:
                del buffer[: at - 1]  # a new beginning, or noise
                return True
            if byte == 0x10 and not escaped:
                escaped = True
            else:
                body.append(byte)
                escaped = False
        return False

    def _whole(self, body: bytes) -> None:
        if len(body) < 4 or body[2] != len(body) - 3:
            return
        reply = self._answer(body[1], body[3:])
        if reply:
            message = bytes((body[0], body[1], len(reply))) + reply
            self.send(b"\x10\x02" + message.replace(b"\x10", b"\x10\x10") + b"\x10\x03")

    # --- messages ---------------------------------------------------------------------------------------

    def _answer(self, node: int, message: bytes) -> bytes:
        if node not in (self.node, ANY_NODE):
            return b""
        command, data = message[0], message[1:]
        if command == READ:
            return self._read(data)
        if command in (WRITE_ACKNOWLEDGED, WRITE, BROADCAST):
            status, position = self._write(data)
            # The manual counts the position from the command byte on: 1C after 28 bytes taken whole.
            return b"" if command == BROADCAST else bytes((STATUS, status, position + 1))
        return bytes((STATUS, NO_COMMAND, 0))

    def _read(self, data: bytes) -> bytes:
        """Read one parameter, requested by return process and index, process, parameter, and a length for a string."""
        if len(data) not in (4, 5) or (data[0] | data[1] | data[2] | data[3]) & CHAINED:
            return bytes((STATUS, NO_COMMAND, 0))
        kind, wanted = data[3] & 0x60, (data[2], data[3] & 0x1F)
        if data[1] & 0x60 != kind:
            return bytes((STATUS, WRONG_TYPE, 2))
        value = self._value(wanted)
        if value is None:
            known = wanted[0] in (1, 33, 104, 113)
            return bytes((STATUS, NO_PARAMETER if known else NO_PROCESS, 3 if known else 2))
        expected, packed = _packed(value)
        if kind != expected:
            return bytes((STATUS, WRONG_TYPE, 3))
        return bytes((ANSWER, data[0], data[1])) + packed

    def _value(self, parameter: Parameter) -> int | float | bytes | None:
        """Return the value of a parameter: int for 16 bits, float, bytes for a string."""
        if parameter == (104, 1):
            self._count()
        if parameter == (1, 0):
            return min(max(round(self._flow() / self.full_scale * FULL), MOST + 1 - 65536), MOST)
        if parameter == (33, 0):
            return self._flow() / self.full_scale * self.capacity
        values: dict[Parameter, int | float | bytes] = {
            (1, 1): self.setpoint,
            (1, 13): self.capacity,
            (1, 17): self.fluid.encode("ascii").ljust(10),
            (1, 31): b"mln/min",
            (33, 3): self.setpoint / FULL * self.capacity,
            (104, 1): self.total,
            (113, 3): self.serial,
            (113, 6): self.usertag,
        }
        return values.get(parameter)

    def _write(self, data: bytes) -> tuple[int, int]:
        """Write one parameter after another; return the status and, when it is 0, the number of bytes used."""
        shares: list[float] = []
        at, more_processes = 0, True
        while more_processes:
            if at >= len(data):
                return NO_COMMAND, at
            process, more_processes = data[at] & 0x7F, bool(data[at] & CHAINED)
            at += 1
            more = True
            while more:
                if at >= len(data):
                    return NO_COMMAND, at
                more = bool(data[at] & CHAINED)
                status, at, share = self._written(process, data, at)
                if status != OK:
                    return status, at
                shares.append(share)
        if at != len(data):
            return NO_COMMAND, at
        for share in shares:
            if self.listens and self.obeys:
                self.setpoint = round(share)
        self._act()
        return OK, at

    def _written(self, process: int, data: bytes, at: int) -> tuple[int, int, float]:
        """Read one parameter of a write; return status, next position, and the set-point as a share of :data:`FULL`."""
        kind, index = data[at] & 0x60, data[at] & 0x1F
        at += 1
        size = {BYTE: 1, INTEGER: 2, LONG: 4}.get(kind, 0)
        value = data[at : at + size]
        known = (process, index) in ((1, 1), (33, 3))
        if not size or not known:
            return WRONG_TYPE if known else NO_PARAMETER, at, 0.0
        if len(value) < size:
            return NO_COMMAND, at, 0.0
        if (kind == INTEGER) != (process == 1) or kind == BYTE:
            return WRONG_TYPE, at, 0.0
        share = (
            struct.unpack(">H", value)[0] if kind == INTEGER else struct.unpack(">f", value)[0] / self.capacity * FULL
        )
        if not 0 <= share <= MOST:
            return WRONG_VALUE, at, 0.0
        return OK, at + size, share


def _packed(value: float | bytes) -> tuple[int, bytes]:
    """Return the type of a parameter on the wire, and its bytes."""
    if isinstance(value, bytes):
        return STRING, bytes((len(value),)) + value
    if isinstance(value, int):
        return INTEGER, struct.pack(">H", value & 0xFFFF)
    return LONG, struct.pack(">f", value)
