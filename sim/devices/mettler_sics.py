"""A balance with MT-SICS levels 0 and 1 (Mettler-Toledo reference manual; operating instructions p. 72).

A command ends CR LF, an answer too: id, status, weight right-aligned in ten characters, unit. The status is S when the
weight stands still, D while it moves, I when a command cannot be done now, + and - beyond the range.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

from controller.rig.description import DeviceSpec
from sim.devices.ascii_line import AsciiDevice
from sim.devices.bench_facts import BenchFacts
from sim.devices.port import PlantPort
from sim.devices.wire import WireClient, forgetting

CAPACITY_G = 3200.0
UNDERLOAD_G = -100.0
ZERO_RANGE = 0.02
"""Of the capacity: farther off, the balance refuses to be zeroed."""
STILL_G_S = 0.008
"""A slower change than this counts as standing still."""
LOOK_EVERY_S = 0.25
GIVE_UP_S = 10.0
REPEAT_S = 0.1
MODEL = "MS3002S"
SOFTWARE = "2.10 10.28.0.493.142"
COMMANDS = (
    (0, ("I0", "I1", "I2", "I3", "I4", "I5", "S", "SI", "SIR", "Z", "ZI", "@")),
    (1, ("D", "DW", "SR", "T", "TI", "TA", "TAC")),
    (2, ("I10", "I11", "M21", "PWR")),
)

_TEXT = re.compile(r'"([^"]{0,20})"')
_WEIGHT = re.compile(r"(\d{1,5}(?:\.\d{1,4})?) g", re.ASCII)


class MettlerSics(AsciiDevice):
    """A balance with `decimals` decimals of a gram (device setting, default 2)."""

    model_id = "mettler-sics"
    bench = BenchFacts(settings={"tare_g": 10.0}, similar=("balances", "laboratory"), moves=True)
    end = b"\n"
    other_end = b"\r"
    think_s = 0.015

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        self.belong_to(0)
        self.tare_g = 0.0
        self.zero_g = 0.0
        self.identification = ""
        self._decimals = int(spec.settings.get("decimals", 2))
        self._point = f"{name}.mass"
        self._vessel_g = float(spec.settings.get("tare_g", 0.0))
        """The empty vessel stands on the pan: what the rig's file takes off is really there."""
        self._seen_s = self._seen_g = 0.0
        self._still = True
        self._waiting: asyncio.TimerHandle | None = None
        self._repeating: asyncio.TimerHandle | None = None

    def forget(self) -> Callable[[], None]:
        """See :meth:`WireDevice.forget`: the name that a user gave it (I10)."""
        return forgetting(self, {"identification": ""})

    # --- power ------------------------------------------------------------------------------------------

    def _boot(self) -> None:
        self.forget_input()
        self._seen_s, self._seen_g, self._still = self.loop.time(), self._load_g(), True
        self.tare_g = self.zero_g = 0.0
        self._say(self._serial_line(), unsolicited=True)

    def _halt(self) -> None:
        self._cancel()

    def _cancel(self) -> None:
        """End waiting for a stable weight, and repeating."""
        for timer in (self._waiting, self._repeating):
            if timer is not None:
                timer.cancel()
        self._waiting = self._repeating = None

    # --- the weight -------------------------------------------------------------------------------------

    def _load_g(self) -> float:
        return self._vessel_g + self.plant.sense(self._point)

    def weigh(self) -> tuple[float, bool]:
        """Return the load (g), and whether it has been still since the last call."""
        now, load = self.loop.time(), self._load_g()
        elapsed = now - self._seen_s
        if elapsed >= LOOK_EVERY_S / 2:
            step = 10.0**-self._decimals
            self._still = abs(load - self._seen_g) <= max(STILL_G_S * elapsed, 2 * step if elapsed < 1.0 else step)
            self._seen_s, self._seen_g = now, load
        return load, self._still

    def _net(self, load: float) -> float:
        return load - self.zero_g - self.tare_g

    def _weight(self, code: str, load: float, *, still: bool) -> str:
        gross = load - self.zero_g
        if not UNDERLOAD_G <= gross <= CAPACITY_G:
            return f"{code} {'+' if gross > 0 else '-'}"
        return f"{code} {'S' if still else 'D'} {self._grams(self._net(load))}"

    def _grams(self, value: float) -> str:
        text = f"{value:.{self._decimals}f}"
        return f"{text.removeprefix('-') if not float(text) else text:>10} g"

    # --- talk -------------------------------------------------------------------------------------------

    def bad_line(self) -> None:
        """See :meth:`AsciiDevice.bad_line`."""
        self._say("ES")

    def _say(self, *lines: str, unsolicited: bool = False, to: WireClient | None = None) -> None:
        text = "".join(f"{line}\r\n" for line in lines)
        self.send(text.encode("ascii"), unsolicited=unsolicited, to=to)

    def belong_to(self, lab: int) -> None:
        """See :meth:`WireDevice.belong_to`."""
        self.serial_number = f"B{(sum(self.name.encode()) + lab) * 7919 % 10**9:09d}"

    def _serial_line(self) -> str:
        return f'I4 A "{self.serial_number}"'

    def _when_still(self, code: str, then: Callable[[float], str]) -> None:
        """Answer `then(load)` as soon as the weight is still; `code I` if it is not within 10 s."""
        asker = self.line.asker if self.line is not None else None
        give_up_s = self.loop.time() + GIVE_UP_S

        def look_again() -> None:
            self._waiting = None
            load, still = self.weigh()
            if still:
                self._say(then(load), to=asker)
            elif self.loop.time() >= give_up_s:
                self._say(f"{code} I", to=asker)
            else:
                self._waiting = self.loop.call_later(LOOK_EVERY_S, look_again)

        self._waiting = self.loop.call_later(LOOK_EVERY_S, look_again)

    def _repeat(self, *, only_changes: bool) -> None:
        """Send weights until another weighing command: every 0.1 s, or when the weight has changed."""
        asker = self.line.asker if self.line is not None else None
        said = ""

        def again() -> None:
            nonlocal said
            load, still = self.weigh()
            line = self._weight("S", load, still=still)
            if not only_changes or (line != said and still):
                said = line
                self._say(line, to=asker)
            self._repeating = self.loop.call_later(REPEAT_S, again)

        again()

    # --- commands ---------------------------------------------------------------------------------------

    def command(self, text: str) -> None:
        """See :meth:`AsciiDevice.command`."""
        text = text.rstrip(" ")
        if text == "SI":  # the everyday question first
            self._cancel()
            load, still = self.weigh()
            self._say(self._weight("S", load, still=still))
        elif not (self._weighing(text) or self._information(text) or self._host(text)):
            self._say("ES")

    def _weighing(self, text: str) -> bool:
        if text not in ("@", "S", "SIR", "SR", "T", "TI", "Z", "ZI"):
            return False
        self._cancel()
        load, still = self.weigh()
        match text:
            case "@":
                self.tare_g = 0.0
                self._say(self._serial_line())
            case "S":
                self._when_still("S", lambda load: self._weight("S", load, still=True))
            case "SIR" | "SR":
                self._repeat(only_changes=text == "SR")
            case "T":
                self._when_still("T", self._tare)
            case "TI":
                self._say(self._tare(load, still=still))
            case "Z":
                self._when_still("Z", self._zero)
            case "ZI":
                self._say(self._zero(load, "S" if still else "D"))
        return True

    def _tare(self, load: float, *, still: bool = True) -> str:
        gross = load - self.zero_g
        if not 0.0 <= gross <= CAPACITY_G:
            return f"T{'' if still else 'I'} {'+' if gross > 0 else '-'}"
        self.tare_g = gross
        return f"T{'' if still else 'I'} {'S' if still else 'D'} {self._grams(gross)}"

    def _zero(self, load: float, status: str = "A") -> str:
        """Set the zero and clear the tare; refuse a load far from the zero."""
        if abs(load) > CAPACITY_G * ZERO_RANGE:
            return f"Z{'' if status == 'A' else 'I'} {'+' if load > 0 else '-'}"
        self.zero_g, self.tare_g = load, 0.0
        return "Z A" if status == "A" else f"ZI {status}"

    def _information(self, text: str) -> bool:
        if text == "I0":
            lines = [f'I0 B {level} "{name}"' for level, names in COMMANDS for name in names]
            lines[-1] = lines[-1].replace("I0 B", "I0 A")
            self._say(*lines)
            return True
        answers = {
            "I1": 'I1 A "012" "2.30" "2.22" "" "1.50"',
            "I2": f'I2 A "{MODEL} Standard {CAPACITY_G:.{self._decimals}f} g"',
            "I3": f'I3 A "{SOFTWARE}"',
            "I4": self._serial_line(),
            "I5": 'I5 A "11671158C"',
            "I10": f'I10 A "{self.identification}"',
            "I11": f'I11 A "{MODEL}"',
        }
        if text in answers:
            self._say(answers[text])
        return text in answers

    def _host(self, text: str) -> bool:
        code, _, argument = text.partition(" ")
        accepts = {
            "M21": argument in ("0 0", "1 0"),
            "D": _TEXT.fullmatch(argument) is not None,
            "PWR": argument in ("0", "1"),
        }
        if code in accepts:
            self._say(f"{code} {'A' if accepts[code] else 'L'}")
            return True
        match code:
            case "TA":
                self._tare_value(argument)
            case "TAC" if not argument:
                self.tare_g = 0.0
                self._say("TAC A")
            case "I10":
                match = _TEXT.fullmatch(argument)
                self.identification = match[1] if match else self.identification
                self._say("I10 A" if match else "I10 L")
            case "DW" if not argument:
                self._say("DW A")
            case _:
                return False
        return True

    def _tare_value(self, argument: str) -> None:
        """Answer with the tare, or take a new one."""
        if argument:
            match = _WEIGHT.fullmatch(argument)
            if match is None or float(match[1]) > CAPACITY_G:
                self._say("TA L")
                return
            self.tare_g = float(match[1])
        self._say(f"TA A {self._grams(self.tare_g)}")
