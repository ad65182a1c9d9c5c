"""A balance with the SBI protocol (Sartorius operating instructions GC803S p57, LE2202S p51, Cubis MSE p71).

A command is ESC and a capital, or ESC, a small letter, a digit and an underline; CR LF may follow. An answer is a line of
16 characters, CR LF included, or of 22 with an ID in front. What is no command is met with silence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from controller.rig.description import DeviceSpec
from sim.devices.bench_facts import BenchFacts
from sim.devices.port import PlantPort
from sim.devices.wire import WireDevice, forgetting

ESC = 0x1B
LONGEST = 20
CAPACITY_G = 2200.0
UNDERLOAD_G = -100.0
STILL_G_S = 0.008
"""A slower change than this counts as standing still."""
LOOK_EVERY_S = 0.25
GIVE_UP_S = 10.0
ADJUSTMENT_S = 12.0
START_S = 2.0
ZERO_RANGE = 0.02


class SartoriusSbi(WireDevice):
    """A balance with two decimals of a gram."""

    model_id = "sartorius-sbi"
    bench = BenchFacts(similar=("balances", "repeating senders"), moves=True)
    baud = 1200
    think_s = 0.030
    model = "LE2202S"
    software = "00-33-04"

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        self.belong_to(0)
        self.unit = "g"
        self.with_id = False
        """Whether lines begin with an ID code."""
        self.prints_when_still = False
        """Menu: answer ESC P only when the weight stands still."""
        self.error = 0
        """The number of an error that it shows instead of a weight."""
        self.tare_g = self.zero_g = 0.0
        self._point = f"{name}.mass"
        self._vessel_g = float(spec.settings.get("tare_g", 0.0))
        """The empty vessel stands on the pan: what the rig's file takes off is really there."""
        self._seen_s = self._seen_g = 0.0
        self._still = True
        self._ready_s = self._adjusting_s = 0.0
        self._typed: str | None = None
        self._waiting: asyncio.TimerHandle | None = None

    def forget(self) -> Callable[[], None]:
        """See :meth:`WireDevice.forget`: what its menu holds: the unit, the form of lines, when it prints."""
        return forgetting(self, {"unit": "g", "with_id": False, "prints_when_still": False})

    def _boot(self) -> None:
        self._typed = None
        self.tare_g = self.zero_g = 0.0
        self._seen_s, self._seen_g, self._still = self.loop.time(), self._load_g(), True
        self._adjusting_s = 0.0
        self._ready_s = self.loop.time() + (START_S if self.boots > 1 else 0.0)

    def _halt(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    # --- the weight -------------------------------------------------------------------------------------

    def _load_g(self) -> float:
        return self._vessel_g + self.plant.sense(self._point)

    def weigh(self) -> tuple[float, bool]:
        """Return the load (g), and whether it has been still since the last call."""
        now, load = self.loop.time(), self._load_g()
        elapsed = now - self._seen_s
        if elapsed >= LOOK_EVERY_S / 2:
            self._still = abs(load - self._seen_g) <= max(STILL_G_S * elapsed, 0.02 if elapsed < 1.0 else 0.01)
            self._seen_s, self._seen_g = now, load
        return load, self._still

    def _display(self) -> str:
        """Return the 14 characters of the display."""
        if self.error:
            return f"Err {self.error:03d}".ljust(14)
        if self.loop.time() < self._adjusting_s:
            return "C".center(14)
        load, still = self.weigh()
        gross = load - self.zero_g
        if not UNDERLOAD_G <= gross <= CAPACITY_G:
            return ("H" if gross > 0 else "L").center(14)
        net = gross - self.tare_g
        number = f"{abs(net) * {'g': 1.0, 'kg': 1e-3}[self.unit]:.{2 if self.unit == 'g' else 5}f}"
        sign = " " if not float(number) else "-" if net < 0 else "+"
        return f"{sign}{number:>9} {self.unit if still else '':<3}"

    # --- talk -------------------------------------------------------------------------------------------

    def belong_to(self, lab: int) -> None:
        """See :meth:`WireDevice.belong_to`."""
        self.serial = f"{19_000_000 + sum(self.name.encode()) + lab:08d}"

    def receive(self, data: bytes) -> None:
        """Receive bytes; an escape begins a command, whatever came before."""
        for byte in data:
            character = chr(byte & 0x7F)
            if byte == ESC:
                self._typed = ""
            elif self._typed is None:
                continue
            elif not self._typed and character.isupper():
                self._typed = None
                self._command(character)
            elif character == "_":
                typed, self._typed = self._typed, None
                self._command(typed)
            elif (character.islower() if not self._typed else character.isalnum()) and len(self._typed) < LONGEST:
                self._typed += character
            else:
                self._typed = None

    def _say(self, text: str, kind: str = "") -> None:
        self.send(f"{kind:<6}{text}\r\n".encode("ascii") if self.with_id else f"{text}\r\n".encode("ascii"))

    def _command(self, text: str) -> None:
        if self.loop.time() < self._ready_s:
            return
        match text:
            case "P":
                self._print(self.loop.time() + GIVE_UP_S)
            case "T":
                self._zero()
                self._tare()
            case "U":
                self._tare()
            case "V":
                self._zero()
            case "S":
                self.boots += 1
                self._halt()
                self._boot()
            case "Z":
                self._adjusting_s = self.loop.time() + ADJUSTMENT_S
            case "x1" | "x2" | "x3":
                told = {"x1": (self.model, "Mod."), "x2": (self.serial, "Ser."), "x3": (self.software, "Ver.")}
                self._say(*told[text])

    def _print(self, until_s: float) -> None:
        self._halt()
        shown = self._display()
        if self.prints_when_still and shown.endswith("   ") and shown[0] in "+- " and "." in shown:
            if self.loop.time() < until_s:
                self._waiting = self.loop.call_later(LOOK_EVERY_S, self._print, until_s)
            return
        weight = "." in shown
        self._say(shown, "N" if weight else "Stat")

    def _tare(self) -> None:
        gross = self._load_g() - self.zero_g
        if 0.0 <= gross <= CAPACITY_G:
            self.tare_g = gross

    def _zero(self) -> None:
        if abs(load := self._load_g()) <= CAPACITY_G * ZERO_RANGE:
            self.zero_g, self.tare_g = load, 0.0
