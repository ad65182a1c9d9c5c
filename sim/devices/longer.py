"""Longer peristaltic pumps with the E9 protocol (BT, L, T and WT series).

E9, address, length, message, XOR of all but the flag; E8 goes as E8 00 and E9 as E8 01. A frame with a wrong check byte
is answered by silence, the broadcast address 31 is obeyed by all and answered by none.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.rig.description import DeviceSpec
from sim.devices.bench_facts import BenchFacts
from sim.devices.port import PlantPort
from sim.devices.pump_motor import PumpMotor
from sim.devices.wire import WireDevice, forgetting

START = 0xE9
BROADCAST = 31
LONGEST = 32
"""No message is longer; a length above it is noise."""
STEP_RPM = {"bt100": 0.1, "l100": 0.1, "t100-wx10": 0.1, "wt600-2j": 1.0}


def check_byte(data: bytes | bytearray) -> int:
    """Return the XOR of all bytes."""
    value = 0
    for byte in data:
        value ^= byte
    return value


def packed(address: int, message: bytes) -> bytes:
    """Return a frame as it is sent on the line."""
    plain = bytes([address, len(message), *message])
    out = bytearray([START])
    for byte in plain + bytes([check_byte(plain)]):
        out += bytes([0xE8, byte - 0xE8]) if byte in (0xE8, 0xE9) else bytes([byte])
    return bytes(out)


class Longer(WireDevice):
    """The pump. Settings: `drive`, `ul_per_rev` (µL, of the fitted tubing), `max_rpm`, `reply_order`."""

    model_id = "longer-0xe9"
    bench = BenchFacts(settings={"ul_per_rev": 100.0, "max_rpm": 100.0}, similar=("addressed frames",), checksum=True)
    think_s = 0.010

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        settings = spec.settings
        self.address = int(spec.address or "1")
        self.step_rpm = STEP_RPM[str(settings.get("drive", "bt100"))]
        self.max_rpm = float(settings.get("max_rpm", 100.0))
        self.state_first = settings.get("reply_order", "state-direction") == "state-direction"
        self.speed = round(self.max_rpm / 2 / self.step_rpm)
        self.state = 0
        self.clockwise = True
        self.memory_writes: int = 0
        self.motor = PumpMotor(
            ul_per_rev=float(settings.get("ul_per_rev", 100.0)),
            drive=lambda flow_ul_min: plant.set_pump(f"{name}.pump", flow_ul_min),
            loop=self.loop,
        )
        self._inner: bytearray | None = None
        self._escaped = False

    @property
    def answers_to(self) -> str | None:
        """See :meth:`WireDevice.answers_to`."""
        return str(self.address)

    def readdress(self, address: str) -> None:
        """See :meth:`WireDevice.readdress`."""
        self.address = int(address)

    def forged(self, data: bytes, address: str) -> bytes | None:
        """See :meth:`WireDevice.forged`: the address stands behind the flag, and the check byte is over it."""
        plain = data[1:].replace(b"\xe8\x01", b"\xe9").replace(b"\xe8\x00", b"\xe8")
        if data[:1] != bytes((START,)) or plain[:1] != bytes((self.address,)) or check_byte(plain):
            return None
        return packed(int(address), plain[2:-1])

    def forget(self) -> Callable[[], None]:
        """See :meth:`WireDevice.forget`: address, speed and direction."""
        return forgetting(self, {"address": 1, "speed": 0, "clockwise": True})

    def _boot(self) -> None:
        self._inner, self._escaped = None, False

    def _halt(self) -> None:
        self.state = 0
        self.motor.power_off()

    # --- line -------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Take bytes in any chunking; a flag always begins a new frame."""
        for byte in data:
            if byte == START:
                self._inner, self._escaped = bytearray(), False
            elif self._inner is not None:
                self._take(byte)

    def _take(self, byte: int) -> None:
        inner = self._inner
        if inner is None:
            return
        if self._escaped:
            self._escaped = False
            if byte > 1:
                self._inner = None
                return
            byte += 0xE8
        elif byte == 0xE8:
            self._escaped = True
            return
        inner.append(byte)
        if len(inner) >= 2 and inner[1] > LONGEST:
            self._inner = None
        elif len(inner) >= 2 and len(inner) == inner[1] + 3:
            self._inner = None
            self._whole(inner)

    def _whole(self, inner: bytearray) -> None:
        """Answer a complete message that is addressed to this pump."""
        if check_byte(inner) == 0 and inner[0] in (self.address, BROADCAST):
            reply = self._answer(bytes(inner[2:-1]))
            if reply and inner[0] != BROADCAST:
                self.send(packed(inner[0], reply))

    # --- messages ---------------------------------------------------------------------------------------

    def _answer(self, message: bytes) -> bytes:
        if message == b"RJ":
            told = [self.state, int(self.clockwise)]
            return b"RJ" + self.speed.to_bytes(2, "big") + bytes(told if self.state_first else told[::-1])
        if message == b"RID":
            return b"RID" + bytes([self.address])
        if message[:3] == b"WID" and len(message) == 4:
            return self._set_address(message[3])
        if message[:2] == b"WJ" and len(message) == 6 and message[4] < 4 and message[5] < 2:
            self._run(int.from_bytes(message[2:4], "big"), message[4], bool(message[5]))
            return b"WJ"
        return b""

    def _set_address(self, address: int) -> bytes:
        if not 1 <= address <= 30:
            return b""
        self.address = address
        self.memory_writes += 1
        return b"WID"

    def _run(self, speed: int, state: int, clockwise: bool) -> None:
        if not self.obeys:
            return
        self.speed = min(speed, int(self.max_rpm / self.step_rpm + 1e-6))
        self.state, self.clockwise = state, clockwise
        rpm = self.max_rpm if state & 2 else self.speed * self.step_rpm if state & 1 else 0.0
        rpm = rpm if clockwise else -rpm
        if not rpm:
            self.motor.rest()
        elif not self.motor.running:
            self.motor.turn(rpm)
        else:
            self.motor.change(rpm)
