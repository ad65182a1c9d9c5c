"""Masterflex L/S computerised drives with the satellite protocol (manual A-1299-1127B, as open clients quote it).

STX `Pnn` commands CR, any number of commands in one frame; ACK or NAK, or the value that was asked for. A drive that was
switched on has no number: it answers ENQ with `P?` until it is given one. CAN empties its line buffer.
"""

from __future__ import annotations

import re

from controller.rig.description import DeviceSpec
from sim.devices.bench_facts import BenchFacts
from sim.devices.port import PlantPort
from sim.devices.pump_motor import PumpMotor
from sim.devices.wire import WireDevice

STX, ENQ, ACK, NAK, CAN, CR = 0x02, 0x05, 0x06, 0x15, 0x18, 0x0D
LONGEST = 64
IDLE, WAITING, RUNNING, STOPPED_LOCALLY, OVERLOAD = 1, 2, 3, 4, 6
NO_ERROR, INVALID_COMMAND, INVALID_DATA = 0, 4, 5

_FRAME = re.compile(r"P(\d\d)(.*)", re.ASCII)
_COMMAND = re.compile(r"S[+-]\d{1,3}(?:\.\d)?|S|V\d{1,5}(?:\.\d{1,2})?|G0|G|Z0|Z|[HICERLABOK]|U ?\d\d", re.ASCII)


class MasterflexLs(WireDevice):
    """The drive. Settings: `ul_per_rev` (µL, of the fitted tubing), `max_rpm`, `go0_nak` (as seen on real drives)."""

    model_id = "masterflex-ls"
    bench = BenchFacts(settings={"ul_per_rev": 100.0, "max_rpm": 600.0}, similar=("numbered pumps",))
    baud = 4800
    think_s = 0.010

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        settings = spec.settings
        self.number: int | None = None
        self.max_rpm = float(settings.get("max_rpm", 600.0))
        self.go0_nak = bool(settings.get("go0_nak", False))
        self.remote = False
        self.state = IDLE
        self.error = NO_ERROR
        self.speed = 0.0
        """Signed, rpm, clockwise positive."""
        self.to_go = 0.0
        self._go_from = 0.0
        self._cleared = 0.0
        self._line_buffer = bytearray()
        self.motor = PumpMotor(
            ul_per_rev=float(settings.get("ul_per_rev", 1000.0)),
            drive=lambda flow_ul_min: plant.set_pump(f"{name}.pump", flow_ul_min),
            loop=self.loop,
            ended=self._done,
        )

    def _boot(self) -> None:
        self.number = None
        self.remote = False
        self.state, self.error = IDLE, NO_ERROR
        self.speed = self.to_go = self._cleared = 0.0
        self._line_buffer.clear()

    def _halt(self) -> None:
        self.motor.power_off()

    def block(self) -> None:
        """Block the head (a fault): the motor overloads."""
        self._rest(OVERLOAD)

    # --- motor ------------------------------------------------------------------------------------------

    def _done(self) -> None:
        self.state, self.to_go = IDLE, 0.0

    def _rest(self, state: int) -> None:
        if self.state == RUNNING:
            self.to_go = max(0.0, self.to_go - (self.motor.revolutions - self._go_from))
        self.motor.rest()
        self.state = state

    def _go(self, revolutions: float | None) -> bool:
        if not self.speed or self.state == OVERLOAD or (revolutions is not None and revolutions <= 0.0):
            return False
        if self.state != RUNNING:
            self.remote, self.state = True, RUNNING
            self._go_from = self.motor.revolutions
            self.motor.turn(self.speed, revolutions=revolutions)
        return True

    # --- line -------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Take bytes in any chunking."""
        for byte in data:
            if byte in (STX, CAN):
                self._line_buffer.clear()
            elif byte == ENQ:
                self._line_buffer.clear()
                if self.number is None:
                    self.send(b"\x02P?0\r")
            elif byte == CR:
                line, self._line_buffer = bytes(self._line_buffer), bytearray()
                self._line(line)
            elif len(self._line_buffer) < LONGEST:
                self._line_buffer.append(byte)

    def _line(self, line: bytes) -> None:
        match = _FRAME.fullmatch(line.decode("ascii", "replace"))
        if match is None:
            return
        number, commands = int(match[1]), match[2]
        if self.number is None:
            if not commands and 1 <= number <= 89:
                self.number = number
                self.send(bytes((ACK,)))
        elif number == self.number:
            self.send(self._obey(commands))

    def _obey(self, commands: str) -> bytes:
        """Carry out the commands of a frame; return one answer, the first that is more than an acknowledgement."""
        answer = bytes((ACK,))
        at = 0
        while at < len(commands):
            match = _COMMAND.match(commands, at)
            if match is None:
                self.error = INVALID_COMMAND
                return bytes((NAK,))
            at = match.end()
            if (told := self._tell(match[0])) is not None:
                return told
            if not self._do(match[0]):
                self.error = INVALID_DATA
                return bytes((NAK,))
            if match[0] == "G0" and self.go0_nak:
                answer = bytes((NAK,))
        self.error = NO_ERROR
        return answer

    def _tell(self, command: str) -> bytes | None:
        match command:
            case "I":
                text = f"P{self.number:02d}I{int(self.remote)}00{self.state}{self.error}"
            case "S":
                text = f"S{self.speed:+06.1f}"
            case "C":
                text = f"C{self.motor.revolutions - self._cleared:07.2f}"
            case "E":
                moved = self.motor.revolutions - self._go_from if self.state == RUNNING else 0.0
                text = f"E{max(0.0, self.to_go - moved):08.2f}"
            case _:
                return None
        return b"\x02" + text.encode("ascii") + b"\r"

    def _do(self, command: str) -> bool:
        if command[0] in "SVGH":
            return self._move(command) if self.obeys else True
        match command[0]:
            case "Z" if command == "Z0":
                self._cleared = self.motor.revolutions
            case "Z":
                self.to_go = 0.0
            case "R" | "L":
                self.remote = command == "R"
            case "U":
                self.number = int(command[-2:])
        return True

    def _move(self, command: str) -> bool:
        """Take a speed or revolutions to go, start, or halt."""
        match command[0]:
            case "S":
                return self._set_speed(float(command[1:]))
            case "V":
                if self.state == RUNNING:
                    return False
                self.to_go += float(command[1:])
                self.state = WAITING
            case "G":
                return self._go(None if command == "G0" else self.to_go)
            case "H":
                self._rest(IDLE if self.state != OVERLOAD else OVERLOAD)
        return True

    def _set_speed(self, speed: float) -> bool:
        turns_back = self.state == RUNNING and (speed > 0) != (self.speed > 0)
        if not 0.0 < abs(speed) <= self.max_rpm or turns_back:
            return False
        self.speed = speed
        self.motor.change(speed)
        return True
