"""A Cavro syringe pump with its valve (XCalibur manual 733085-B, chapter 3): strings of commands over OEM or DT protocol.

The first protocol that is received holds until the next power-up. Positions are increments of a stroke from the top;
speeds are pulses per second. What the syringe holds and what the position counter shows are kept apart: without power the
counter is lost, and the liquid stays.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from controller.rig.description import DeviceSpec
from sim.devices.bench_facts import BenchFacts
from sim.devices.port import PlantPort
from sim.devices.wire import WireDevice, forgetting

LONGEST = 300
"""Characters that are kept of an unfinished block; the command buffer holds 255."""
VALVE_S = 0.25
INIT_PULSES = 500
STROKES = {"xp-3000": (3000, 2), "xcalibur": (3000, 2), "xlp-6000": (6000, 1)}
"""Series → increments of a stroke, pulses of the speeds per increment."""
SPEEDS = (
    *(6000, 5600, 5000, 4400, 3800, 3200, 2600, 2200, 2000, 1800, 1600, 1400, 1200, 1000, 800, 600, 400, 200),
    *(190, 180, 170, 160, 150, 140, 130, 120, 110, 100, 90, 80, 70, 60, 50, 40, 30, 20, 18, 16, 14, 12, 10),
)
VALVES = {1: 0, 2: 0, 5: 0, 7: 6, 8: 9}
"""`U` code → ports of a distribution valve; 0 for a valve with input and output."""
INITIALISATION, INVALID_COMMAND, INVALID_OPERAND, NOT_INITIALISED = 1, 2, 3, 7
PLUNGER_OVERLOAD, VALVE_OVERLOAD, MOVE_NOT_ALLOWED, OVERFLOW = 9, 10, 11, 15
LASTING = (INITIALISATION, NOT_INITIALISED, PLUNGER_OVERLOAD, VALVE_OVERLOAD)
RANGES = {"V": (5, 6000), "v": (50, 1000), "c": (50, 2700), "L": (1, 20), "K": (0, 31), "k": (0, 80), "M": (0, 30_000)}
DEFAULTS = {"V": 1400, "v": 900, "c": 900, "L": 14, "K": 12, "k": 50}

_TOKEN = re.compile(r"([A-Za-z])(\d{0,5}(?:,\d{0,5}){0,2})")
_REPORT = re.compile(r"\?\d{0,2}|[Q&F#]")
_ACTIONS = "ZYWwIOBEAaPpDdVvcLKkMSNgGU"


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a string."""

    name: str
    numbers: tuple[int, ...]

    @property
    def number(self) -> int | None:
        """Return its first number."""
        return self.numbers[0] if self.numbers else None


class TecanCavro(WireDevice):
    """The pump. Settings: `series`, `syringe_ul`, `input_port`, `output_port` (0: a valve without distribution).

    A person has initialised it before the first power-up of the lab; after any later one it waits for `Z`, `Y` or
    :meth:`initialise`.
    """

    model_id = "tecan-cavro"
    bench = BenchFacts(
        settings={"series": "xcalibur", "syringe_ul": 1000.0},
        similar=("numbered pumps",),
        checksum=True,
        no_worse={
            "resumes": "it gives doses only, and the defect concerns a continuous flow",
            "ramped": "it gives doses only, and the defect concerns a continuous flow",
        },
    )
    think_s = 0.004

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        settings = spec.settings
        self.unit = int(spec.address or "1")
        series = str(settings.get("series", "xcalibur"))
        self.stroke, self.pulses = STROKES[series]
        self._late_errors = series == "xp-3000"
        self.ul_per_increment = float(settings.get("syringe_ul", 1000.0)) / self.stroke
        self.inlet = str(int(settings.get("input_port", 0)) or "i")
        self.outlet = str(int(settings.get("output_port", 0)) or "o")
        self.ports = 9 if self.outlet.isdigit() else 0
        self.memory_writes: int = 0
        self.initialisations = 1
        self.tells_uninitialised = True
        """False: `Q` says nothing of a missing initialisation, only the next move does."""
        self.blocked = False
        """A fault: the plunger cannot move, and overloads half a second into each move."""
        self.jammed = False
        """A fault: the valve cannot turn."""
        self.held = 0.0
        """Content of the syringe (increments)."""
        self._shown = 0.0
        self._initialised = True
        self._error = 0
        self._valve = self.outlet
        self._protocol = ""
        self._buffer = b""
        self._answered: tuple[int, bytes] = (-1, b"")
        self._set = dict(DEFAULTS)
        self._fine = 0
        self._waiting: list[Command] = []
        self._loops: list[tuple[list[Command], int]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._speed = 0.0
        """Of the plunger, signed, increments/s; downwards is positive."""
        self._stalls = False
        """Whether the plunger was blocked when the present move began."""
        self._since_s = 0.0
        self._goal = 0.0
        self._moved: Callable[[], None] = self._arrived
        """What follows the end of the present move."""

    # --- power, memory, hands -----------------------------------------------------------------------------------

    def _boot(self) -> None:
        self._protocol, self._buffer, self._answered = "", b"", (-1, b"")
        self._set, self._fine = dict(DEFAULTS), 0
        self._error = 0
        self._shown = self.held if self.boots == 1 else 0.0
        self._initialised = self.boots == 1

    def _halt(self) -> None:
        self._end()

    def forget(self) -> Callable[[], None]:
        """See :meth:`WireDevice.forget`: the kind of valve."""
        return forgetting(self, {"ports": 0})

    def initialise(self) -> None:
        """Be initialised by a person, with the outlet led to waste: what the syringe held is lost."""
        self._end()
        self.held = self._shown = 0.0
        self._initialised, self._error = True, 0
        self._valve = self.outlet
        self.initialisations += 1

    @property
    def answers_to(self) -> str | None:
        """See :meth:`WireDevice.answers_to`."""
        return str(self.unit)

    def readdress(self, address: str) -> None:
        """See :meth:`WireDevice.readdress`."""
        self.unit = int(address)

    # --- line ---------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Take bytes in any chunking; what is outside of a block is ignored."""
        self._buffer += data
        while self._take_block():
            pass
        self._buffer = self._buffer[-LONGEST:]

    def _take_block(self) -> bool:
        """Take the first block out of the buffer, if there is one."""
        starts = [at for at in (self._buffer.find(b"\x02"), self._buffer.find(b"/")) if at >= 0]
        if not starts:
            self._buffer = b""
            return False
        block = self._buffer[min(starts) :]
        oem = block[0] == 2
        end = block.find(b"\x03" if oem else b"\r", 1)
        length = end + (2 if oem else 1)
        if end < 0 or len(block) < length:
            if len(block) > LONGEST:
                self._buffer = block[1:]
                return True
            return False
        if oem and _xor(block[:length]):
            self._buffer = block[1:]
            return True
        self._buffer = block[length:]
        self._block(block[:length], "oem" if oem else "dt")
        return True

    def _block(self, block: bytes, protocol: str) -> None:
        if len(block) < 5 - 2 * (protocol == "dt") or self._protocol not in ("", protocol):
            return
        self._protocol = protocol
        address, body = block[1], block[3:-2] if protocol == "oem" else block[2:-1]
        if address == 0x5F:
            self._text(body)
        if address != 0x30 + self.unit:
            return
        sequence = block[2] if protocol == "oem" else 0
        if sequence & 8 and self._answered[0] == sequence & 7:
            self.send(self._answered[1])
            return
        status, answer = self._text(body)
        told = bytes((0x40 | status,)) + answer
        block = b"/0" + told + b"\x03\r\n"
        if protocol == "oem":
            block = b"\x020" + told + b"\x03"
            block += bytes((_xor(block),))
        self._answered = sequence & 7, block
        self.send(block)

    def _text(self, body: bytes) -> tuple[int, bytes]:
        """Act on the data of a block; return the status bits and the data of the answer."""
        try:
            text = body.decode("ascii")
        except UnicodeDecodeError:
            return INVALID_COMMAND | self._ready, b""
        if _REPORT.fullmatch(text):
            return self._report(text)
        if text in ("T", "TR"):
            if self.obeys:
                self._end(keep=True)
            return self._error | self._ready, b""
        commands = _parsed(text)
        if commands is None:
            return INVALID_COMMAND | self._ready, b""
        if self.busy:
            return self._interrupt(commands)
        self._start(commands)
        return self._at_once() | self._ready, b""

    def _at_once(self) -> int:
        """Return the error of a string in its answer; an XP 3000 tells a wrong operand only when it is asked `Q`."""
        told = self._error
        if told in (INVALID_OPERAND, MOVE_NOT_ALLOWED):
            if self._late_errors:
                return 0
            self._error = 0
        return told

    @property
    def busy(self) -> bool:
        """Return whether it carries out a string."""
        return self._timer is not None

    @property
    def _ready(self) -> int:
        return 0 if self.busy else 0x20

    # --- reports ------------------------------------------------------------------------------------------------

    def _report(self, text: str) -> tuple[int, bytes]:
        if text == "Q":
            return self._state(), b""
        self._account()
        scale = 8 if self._fine else 1
        answers = {
            "?": round(self._shown * scale),
            "?1": self._set["v"],
            "?2": self._set["V"],
            "?3": self._set["c"],
            "?4": round(self._shown * scale),
            "?6": self._valve,
            "?10": int(bool(self._waiting)),
            "F": int(bool(self._waiting)),
            "?12": self._set["K"],
            "?15": self.initialisations,
            "?20": "4711",
            "#": "4711",
            "?23": "737230 A",
            "&": "737230 A",
            "?24": self._set["k"],
        }
        if text not in answers:
            return INVALID_COMMAND | self._ready, b""
        return self._error | self._ready, str(answers[text]).encode("ascii")

    def _state(self) -> int:
        """Return the answer to `Q`, which clears the error; a missing initialisation is reported again."""
        if not self._error and not self._initialised and self.tells_uninitialised and not self.busy:
            self._error = NOT_INITIALISED
        told, self._error = self._error, 0
        return told | self._ready

    # --- strings ------------------------------------------------------------------------------------------------

    def _interrupt(self, commands: list[Command]) -> tuple[int, bytes]:
        """Act on commands that arrive in a move: only a speed is taken."""
        if not all(command.name in "VR" for command in commands):
            return OVERFLOW, b""
        for command in commands:
            if command.name == "V" and command.number is not None and 5 <= command.number <= 1024 and self._speed:
                self._account()
                self._run(command.number)
        return 0, b""

    def _start(self, commands: list[Command]) -> None:
        executes = commands[-1].name == "R"
        if [command.name for command in commands] == ["R"]:
            commands = self._waiting  # R alone: what was loaded, or terminated
        else:
            commands = [command for command in commands if command.name != "R"]
        self._waiting, self._loops = list(commands), []
        if executes and self.obeys:
            self._error = 0
            self._next()

    def _next(self) -> None:
        """Carry out what is waiting until something takes time."""
        self._timer = None
        steps = 0
        while self._waiting and not self.busy and not self._error:
            steps += 1
            self._carry_out(self._waiting.pop(0))
            if steps > 1000 and not self.busy:  # an endless loop of settings
                self._timer = self.loop.call_later(0.01, self._next)
        if self._error:
            self._waiting.clear()

    def _carry_out(self, command: Command) -> None:
        match command.name:
            case "I" | "O" | "B" | "E":
                self._turn(command)
            case "Z" | "Y" | "W" | "w":
                self._home(command)
            case "A" | "a" | "P" | "p" | "D" | "d":
                self._move(command)
            case "M":
                self._timer = self.loop.call_later((command.number or 0) / 1000.0, self._next)
            case "g":
                self._loops.append((list(self._waiting), 0))
            case "G":
                self._repeat(command.number or 0)
            case _:
                self._change(command)

    def _repeat(self, times: int) -> None:
        if not self._loops:
            self._error = INVALID_OPERAND
            return
        body, done = self._loops.pop()
        if times == 0 or done + 1 < times:
            self._loops.append((body, done + 1))
            self._waiting = list(body)

    def _change(self, command: Command) -> None:
        """Carry out a command that sets something."""
        name, number = command.name, command.number
        low, high = RANGES.get(name, (0, 60))
        if number is None or not low <= number <= high:
            self._error = INVALID_OPERAND
        elif name == "S":
            self._set["V"] = SPEEDS[min(number, len(SPEEDS) - 1)]
        elif name == "N":
            self._fine = min(number, 1)
        elif name == "U":
            self.memory_writes += 1
            self.ports = VALVES.get(number, self.ports)
        else:
            self._set[name] = number

    # --- valve --------------------------------------------------------------------------------------------------

    def _turn(self, command: Command) -> None:
        goal = command.name.lower() if command.number is None else str(command.number)
        fits = goal.isdigit() and 1 <= int(goal) <= self.ports if self.ports else goal in "iobe"
        if not fits:
            self._error = INVALID_OPERAND
        elif not self._initialised:
            self._error = NOT_INITIALISED
        elif goal != self._valve:
            self._timer = self.loop.call_later(VALVE_S, self._turned, goal)

    def _turned(self, goal: str) -> None:
        if self.jammed:
            self._initialised, self._error = False, VALVE_OVERLOAD
        else:
            self._valve = goal
        self._next()

    # --- plunger ------------------------------------------------------------------------------------------------

    def _home(self, command: Command) -> None:
        """Drive the plunger to the top through the initialisation's outlet: what the syringe holds leaves it there."""
        if command.name in "ZY":
            last = command.numbers[2] if len(command.numbers) > 2 else 0
            self._valve = str(last or self.ports) if self.ports else "o"
        if command.name == "w":
            self._valve = str(command.number or 1) if self.ports else "o"
            return
        self._initialised = False
        self._shown = self.held
        self._goal = 0.0
        self._moved = self._homed
        self._run(INIT_PULSES)

    def _homed(self) -> None:
        self._account()
        self._rest()
        if self._stalls:
            self._error = INITIALISATION
        else:
            self.held = self._shown = 0.0
            self._initialised = True
            self.initialisations += 1
        self._next()

    def _move(self, command: Command) -> None:
        number = (command.number or 0) / (8 if self._fine else 1)
        goal = {"A": number, "P": self._shown + number, "D": self._shown - number}[command.name.upper()]
        if not self._initialised:
            self._error = NOT_INITIALISED
        elif not 0 <= goal <= self.stroke * (1.05 if command.name in "Pp" else 1.0):
            self._error = INVALID_OPERAND
        elif self._valve in "be":
            self._error = MOVE_NOT_ALLOWED
        elif goal != self._shown:
            self._goal, self._moved = goal, self._arrived
            self._run(self._set["V"])

    def _run(self, pulses: int) -> None:
        """Move towards the goal at a speed from now on."""
        if self._timer is not None:
            self._timer.cancel()
        way = self._goal - self._shown
        increments_s = pulses / self.pulses / (8 if self._fine else 1)
        self._stalls = self.blocked
        self._speed = 0.0 if self._stalls else math.copysign(increments_s, way)
        self._since_s = self.loop.time()
        self._flow()
        self._timer = self.loop.call_later(0.5 if self._stalls else abs(way) / increments_s, self._moved)

    def _arrived(self) -> None:
        self._account()
        if self._stalls:
            self._initialised, self._error = False, PLUNGER_OVERLOAD
        else:
            self.held += self._goal - self._shown
            self._shown = self._goal
        self._rest()
        self._next()

    def _account(self) -> None:
        now_s = self.loop.time()
        moved = self._speed * (now_s - self._since_s)
        self._since_s = now_s
        self._shown += moved
        self.held += moved

    def _rest(self) -> None:
        if self._speed:
            self._speed = 0.0
            self._flow()

    def _flow(self) -> None:
        """Tell the plant what passes the outlet; what passes the inlet stays between reservoir and syringe."""
        through = -self._speed * 60.0 * self.ul_per_increment if self._valve == self.outlet else 0.0
        self.plant.set_pump(f"{self.name}.pump", through + 0.0)

    def _end(self, *, keep: bool = False) -> None:
        """End a plunger move or a delay; a turning valve arrives, unless power is lost. `keep`: `R` resumes the string."""
        if keep and self.busy and not self._speed:
            self._waiting.clear()
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._account()
        self._rest()
        if not keep:
            self._waiting.clear()


def _xor(block: bytes) -> int:
    value = 0
    for byte in block:
        value ^= byte
    return value


def _parsed(text: str) -> list[Command] | None:
    """Return the commands of a string; None if one of them is unknown."""
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match[1] not in _ACTIONS + "R":
            return None
        found.append(Command(match[1], tuple(int(number or 0) for number in match[2].split(",") if match[2])))
        at = match.end()
    return found or None
