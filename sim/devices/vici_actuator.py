"""A VICI universal actuator in multi-position mode (Valco technical note pp. 14-16): commands end CR, moves have no answer.

While the motor turns, what arrives is lost: the controller is busy counting steps. With an ID set, only commands that
begin with it (or with `*`) are taken.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

from controller.rig.description import DeviceSpec
from sim.devices.ascii_line import AsciiDevice
from sim.devices.bench_facts import BenchFacts
from sim.devices.port import PlantPort
from sim.devices.wire import forgetting

MAX_POSITIONS = 96
STEP_S = 0.15
"""From one position to the next."""
MODE = 3
VERSION = ("I-PD-AMHX88RD1", "SEP 02 2009", "EUTA", "MULTIPOSITION", "READY")

_NUMBER = re.compile(r"[0-9]{0,3}")
_COMMANDS = ("CNT", "IFM", "LG", "CP", "GO", "CW", "CC", "HM", "NP", "AM", "VR")


class ViciActuator(AsciiDevice):
    """A valve of `positions` (device setting); the plant is informed of each position that the rotor passes or reaches."""

    model_id = "vici-actuator"
    bench = BenchFacts(
        settings={"positions": 6.0},
        similar=("addressed frames",),
        no_worse={"resumes": "a power cut does not change what it regulates to, or where it stands"},
        settles_s=1.0,
    )
    think_s = 0.010

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        self.positions = int(spec.settings.get("positions", 10))
        self.unit = spec.address.upper()
        self.position = int(spec.settings.get("rest_position", 1))
        self.moves = 0
        self.stuck = False
        self.width = 2
        """Digits of a position in replies; firmwares differ."""
        self.long = False
        """LG1: replies in words."""
        self.response = 0
        """IFM: 0 moves say nothing, 1 and 2 the command is said back when it is done."""
        self.end_of_line = "\r"
        self._turning: asyncio.TimerHandle | None = None
        self._told = ""
        """The move that is under way, as it was commanded."""
        self._point = f"{name}.valve"

    def forget(self) -> Callable[[], None]:
        """See :meth:`WireDevice.forget`: its ID, the number of positions, how it answers. The valve stays where it is."""
        return forgetting(self, {"unit": "", "positions": 10, "response": 0, "long": False})

    def _halt(self) -> None:
        """Stop the motor where it is: between two ports if it turns. A valve needs no power to hold its position."""
        self.forget_input()
        if self._turning is not None:
            self._turning.cancel()
            self._turning = None
            self.plant.set_position(self._point, self.position + 0.5)

    def bad_line(self) -> None:
        """Ignore noise."""

    def receive(self, data: bytes) -> None:
        """See :meth:`AsciiDevice.receive`; input is ignored while the motor turns."""
        if self._turning is None:
            super().receive(data)
        else:
            self.forget_input()

    def _say(self, text: str) -> None:
        self.send((text + self.end_of_line).encode("ascii"))

    def command(self, text: str) -> None:
        """See :meth:`AsciiDevice.command`."""
        text = text.strip().upper()
        if self.unit:
            if text[:1] not in (self.unit, "*"):
                return
            text = text[1:]
        name = next((known for known in _COMMANDS if text.startswith(known)), "")
        value = text[len(name) :].strip()
        if not _NUMBER.fullmatch(value) or not self._carry_out(name, int(value) if value else None, text):
            self._say(f"{text} = Bad command")

    def _carry_out(self, name: str, number: int | None, text: str) -> bool:
        """Carry out a command; return False for any other text, or a number out of range."""
        if name in ("GO", "CW", "CC") and (number is None or 1 <= number <= self.positions):
            self._turn(name, number, text)
            return True
        if name == "HM" and number is None:
            self._move(1, 1, text)
            return True
        return self._ask(name) if number is None else self._set(name, number)

    def _ask(self, name: str) -> bool:
        """Answer a question; return False for any other text."""
        match name:
            case "CP":
                shown = f"{self.position:0{self.width}d}"
                self._say(f'Position is  = "{shown}"' if self.long else f"CP{shown}")
            case "NP":
                self._say(f"NP{self.positions:02d}")
            case "AM":
                self._say(f"AM{MODE}")
            case "CNT":
                self._say(f"CNT{self.moves:05d}")
            case "VR":
                for line in VERSION:
                    self._say(line)
            case "IFM":
                self._say(f"IFM{self.response}")
            case _:
                return False
        return True

    def _set(self, name: str, number: int) -> bool:
        """Take a setting; return False for any other text, or a value out of range."""
        match name:
            case "NP" if 2 <= number <= MAX_POSITIONS:
                self.positions = number
            case "AM" if number == MODE:
                pass  # it is in this mode
            case "IFM" if number < 3:
                self.response = number
            case "LG" if number < 2:
                self.long = bool(number)
            case _:
                return False
        return True

    def _turn(self, name: str, number: int | None, told: str) -> None:
        step = -1 if name == "CC" else 1
        goal = number if number is not None else (self.position - 1 + step) % self.positions + 1
        forward = (goal - self.position) % self.positions
        if name == "GO" and forward > self.positions - forward:
            step = -1
        self._move(goal, step, told)

    def _move(self, goal: int, step: int, told: str) -> None:
        if goal == self.position or self.stuck or not self.obeys:
            return
        distance = (goal - self.position) * step % self.positions
        self.moves += 1
        self._told = told
        self._turning = self.loop.call_later(STEP_S, self._pass, step, distance - 1)

    def _pass(self, step: int, left: int) -> None:
        """Let the rotor come to the next port; `left` is the number of positions that it still goes on."""
        self.position = (self.position - 1 + step) % self.positions + 1
        self.plant.set_position(self._point, self.position)
        if left:
            self._turning = self.loop.call_later(STEP_S, self._pass, step, left - 1)
            return
        self._turning = None
        if self.response:
            self._say(self._told)
