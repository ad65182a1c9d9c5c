"""Faults for a served lab, from a file or typed in by hand; events are reported on standard error."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np

from choroid.common.failure import UserError
from controller.rig.description import Rig
from sim.faults.injector import Applied, Injector
from sim.faults.kinds import KINDS
from sim.faults.schedule import Schedule
from sim.faults.script import FaultsError, Script, read_line, read_script
from sim.faults.targets import targets
from sim.lab import SimulatedLab

DRAWN_DAYS = 365.0
"""Horizon of random faults (days); a lab is not served for longer."""
HELP = """what can be typed:
  KIND [TARGET] [for TIME] [amount AMOUNT]   such as: unplug sim:gas for 30 s; offset ph_loop.ph amount 0.1 pH
  list                                       what lasts now
  end NUMBER                                 take one back
  clear                                      take all back
  kinds                                      the kinds of faults and their possible targets
  truth                                      what is in each vessel, went through each line (µL), each output does (JSON)"""


class Mishaps:
    """Faults for one lab. Raises :class:`UserError` for an invalid file, OSError for an unreadable one."""

    def __init__(self, rig: Rig, faults: Path | None, *, by_hand: bool, seed: int) -> None:
        self._rig = rig
        self._by_hand = by_hand
        self._seed = seed
        self._script = Script(Schedule(), (), ())
        self._injector: Injector | None = None
        self._typed = b""
        self._lab: SimulatedLab | None = None
        if faults is not None:
            try:
                self._script = read_script(faults, rig)
            except FaultsError as error:
                raise UserError(str(error)) from None

    @contextlib.asynccontextmanager
    async def befalling(self, lab: SimulatedLab) -> AsyncIterator[None]:
        """Apply the faults to `lab` as long as the context lasts."""
        schedule = self._script.schedule(np.random.default_rng([self._seed, 0xFA]), DRAWN_DAYS)
        injector = self._injector = Injector(
            lab, schedule, conditions=self._script.conditions, seed=self._seed, told=self._tell
        )
        running = asyncio.create_task(injector.run())
        loop = asyncio.get_running_loop()
        self._lab = lab
        listening = False
        if self._by_hand:
            _say(HELP)
            with contextlib.suppress(OSError, ValueError):  # a plain file cannot be waited for
                loop.add_reader(sys.stdin.fileno(), self._readable)
                listening = True
        try:
            yield
        finally:
            if listening:
                loop.remove_reader(sys.stdin.fileno())
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            injector.clear()

    def _readable(self) -> None:
        data = os.read(sys.stdin.fileno(), 4096)
        if not data:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            return
        *lines, self._typed = (self._typed + data).split(b"\n")
        for line in lines:
            if text := line.decode("utf-8", "replace").strip():
                self.typed(text)

    def typed(self, text: str) -> None:
        """Execute a typed line."""
        injector = self._injector
        if injector is None:
            return
        match text.split():
            case ["list"]:
                for number, applied in _lasting(injector):
                    _say(f"{number:3}  {describe(applied)}")
            case ["end", number] if number.isdecimal():
                _end(injector, number)
            case ["clear"]:
                injector.clear()
            case ["truth"] if self._lab is not None:
                _say_truth(self._lab)
            case ["kinds"]:
                _say(kinds(self._rig))
            case ["help"]:
                _say(HELP)
            case _:
                try:
                    injector.inject(read_line(text, self._rig))
                except ValueError as error:
                    _say(f"{error} (help: help)")

    def _tell(self, applied: Applied) -> None:
        over = applied.ended_s is not None and not KINDS[applied.fault.kind].momentary
        _say(f"{_clock(applied.ended_s if over else applied.begun_s)} {describe(applied)}{' is over' if over else ''}")


def describe(applied: Applied) -> str:
    """Return a short description of a fault."""
    fault = applied.fault
    length = f" for {fault.for_s:g} s" if fault.for_s else "" if KINDS[fault.kind].momentary else " for good"
    unit = getattr(KINDS[fault.kind].amount, "unit", "")
    amount = f" amount {fault.amount:g}{' ' if unit else ''}{unit}" if fault.amount else ""
    return f"{fault.kind} {fault.target}{length}{amount}"


def kinds(rig: Rig) -> str:
    """Return every kind of fault for this rig, with its targets."""
    return "\n".join(
        f"{name:16} {kind.meaning}\n{'':16} on {', '.join(targets(name, rig))}"
        for name, kind in KINDS.items()
        if kind.group not in ("host", "network") and targets(name, rig)
    )


def _lasting(injector: Injector) -> list[tuple[int, Applied]]:
    return [(number, each) for number, each in enumerate(injector.applied, start=1) if each.ended_s is None]


def _end(injector: Injector, number: str) -> None:
    """End the present fault with this number of the list."""
    found = dict(_lasting(injector)).get(int(number))
    if found is None:
        _say(f"no present fault has number {number}; see: list")
    else:
        injector.end(found)


def _say_truth(lab: SimulatedLab) -> None:
    truth = lab.plant.truth()
    _say(json.dumps({"volumes_ul": truth.volumes_ul, "moved_ul": truth.moved_ul, "outputs": lab.drives.outputs}))


def _clock(at_s: float | None) -> str:
    seconds = int(at_s or 0.0)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
