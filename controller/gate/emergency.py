"""The emergency stop: one function for page, API, signals, guard and button (A9).

It stops perfusion and stimulation together and waits for neither the journal nor the web server. It stands until a person
resets it, across restarts of the controller and of the electrode engine.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

from controller.core.state import Reading
from controller.gate.gate import Gate
from controller.gate.latch import Latch
from controller.journal.journal import Journal
from controller.rig.description import EmergencyButton
from drivers.commands import Quality
from nerves.summary import life_s

logger = logging.getLogger(__name__)

SOURCE = "emergency stop"
LATE_S = 5.0
"""Time (s of real time) after which a stop that is not confirmed is logged with what it waits for."""


class Stimulator(Protocol):
    """Declares the methods of the electrode engine that the emergency stop calls: the engine can stimulate the tissue."""

    @property
    def ledger_problem(self) -> str:
        """Why the stimulation ledger cannot be used, for people; empty while it can."""
        ...

    @property
    def card_problem(self) -> str:
        """Why the electrode card cannot be used, or what of it does not work, for people; empty while all does."""
        ...

    @property
    def recording_problem(self) -> str:
        """What the recordings of the array lack, for people; empty while they are whole."""
        ...

    def forbid_stimulation(self, why: str) -> None:
        """Forbid stimulation to every engine that starts from now on."""

    async def stop_stimulation(self, why: str) -> str:
        """Stop stimulation and cancel all waiting pulses. Return how it ended, as text for the record."""

    async def allow_stimulation(self) -> None:
        """End the stop of stimulation."""


class Button:
    """The digital input of the emergency stop. An input that is stale counts as pressed (I2)."""

    def __init__(self, described: EmergencyButton) -> None:
        self._input = described.input
        self._pressed_value = 0.0 if described.active == "open" else 1.0
        self._stale_s = described.stale_s
        self._known_s: float | None = None
        """Time of its last good reading (loop s); at first the time of the first call."""
        self.pressed = ""
        """Why the button counts as pressed; empty if it does not."""

    def update(self, readings: Mapping[str, Reading], now_s: float) -> str:
        """Take in the readings of a tick. Return why the button counts as pressed, or an empty text."""
        self._known_s = now_s if self._known_s is None else self._known_s
        reading = readings.get(self._input)
        if reading is not None and reading.quality is Quality.GOOD and now_s - reading.at_s <= self._stale_s:
            self._known_s = reading.at_s
            released = round(reading.value) == 1 - self._pressed_value
            self.pressed = "" if released else f"the button at {self._input} is pressed"
        elif reading is not None and reading.quality is Quality.SUSPECT:
            self.pressed = f"the button at {self._input} reads something doubtful: {reading.detail}"
        elif now_s - self._known_s > self._stale_s:
            self.pressed = f"the button at {self._input} has not been read for {now_s - self._known_s:.0f} s"
        return self.pressed


class ResetRefused(Exception):
    """The emergency stop cannot be reset now. The message says why and what to do."""


class Emergency:
    """The emergency stop of one rig. `gate` is None until the devices are connected."""

    def __init__(
        self,
        *,
        latch: Latch,
        stimulator: Stimulator | None,
        button: Button | None = None,
        record: Callable[[str, Mapping[str, Any]], None],
        alarm: Callable[[str, str, str], None],
    ) -> None:
        self.gate: Gate | None = None
        self.forbidden = ""
        """Why stimulation is forbidden for the rest of this process, independently of an emergency stop."""
        self.held = ""
        """Why the state of the rig forbids stimulation at present; weaker than the two other reasons."""
        self._latch = latch
        self._stimulator = stimulator
        self._button = button
        self._record = record
        self._alarm = alarm

    def restore(self, gate: Gate, journal: Journal) -> None:
        """Restore a stop that stood when the previous process ended. Journal and latch file are each sufficient.

        A stop that the guard set for this controller, or that came while the devices were being connected, is only in the
        latch file: it is announced and recorded now.
        """
        self.gate = gate
        journalled, latched = _latched(journal)
        kept = self._latch.read()
        why = journalled if kept is None else f"{kept.who}: {kept.reason}"
        known = journalled is not None or kept is None or kept.known
        gate.restore(why, latched, known=known)
        if kept is not None and journalled is None:
            self._alarm("emergency_stop", SOURCE, f"{kept.who}: {kept.reason}")
            self._record("safety.estop", {"user": kept.who, "reason": kept.reason})
        with suppress(OSError):  # the journal keeps it
            if journalled is not None and kept is None:
                who, _, reason = journalled.partition(": ")
                self._latch.set(who, reason)
            else:
                self._latch.confirm()
        self.forbidden = "" if journal.lost is None else str(journal.lost)
        if (why is not None or self.forbidden) and self._stimulator is not None:
            self._stimulator.forbid_stimulation(self.forbidden or _stop_text(why or ""))

    def update(self, readings: Mapping[str, Reading], now_s: float) -> str:
        """Look at the button. Return why a stop has to follow now, or an empty text."""
        if self._button is None or self.gate is None:
            return ""
        why = self._button.update(readings, now_s)
        return "" if self.gate.emergency is not None else why

    async def stop(self, who: str, reason: str) -> None:
        """Bring everything to its basal state at once. Return when outputs and stimulation have been dealt with."""
        why = _stop_text(f"{who}: {reason}")
        late = asyncio.get_running_loop().call_later(life_s(LATE_S), self._tell_late)
        try:
            await asyncio.gather(
                self._stop_perfusion(who, reason), self._stop_stimulation(why), self._keep(who, reason)
            )
        finally:
            late.cancel()

    def _tell_late(self) -> None:
        """Log who keeps a stop from being confirmed; it is in force."""
        waits = (() if self.gate is None else self.gate.unanswered) or ("the electrode engine",)
        logger.warning("the emergency stop is in force, and not confirmed after %g s by %s", LATE_S, ", ".join(waits))

    async def _stop_perfusion(self, who: str, reason: str) -> None:
        if self.gate is not None:
            await self.gate.estop(who, reason)  # without a gate nothing has been commanded yet

    async def _stop_stimulation(self, why: str) -> None:
        if self._stimulator is None:
            return
        try:
            how = await self._stimulator.stop_stimulation(self.forbidden or why)
        except Exception as error:
            logger.exception("stimulation could not be stopped")
            how = f"failed: {type(error).__name__}: {error}"
            self._alarm("command_failed", "nerves", f"stimulation could not be stopped: {error}")
        self._record("safety.stimulation_stopped", {"how": how, "why": why})

    async def forbid_stimulation(self, why: str) -> None:
        """Stop stimulation for the rest of this process. A reset of the emergency stop does not permit it again."""
        self.forbidden = why
        await self._stop_stimulation(why)

    async def hold_stimulation(self, why: str) -> None:
        """Stop stimulation while the rig is in a state that forbids it; an empty text ends that."""
        self.held = why
        if self._stimulator is None or self.forbidden or (self.gate is not None and self.gate.emergency is not None):
            return  # stopped already; the end of an emergency stop looks at `held`
        await self._follow_hold()

    async def _follow_hold(self) -> None:
        """Put `held` into force."""
        if self.held:
            await self._stop_stimulation(self.held)
        elif self._stimulator is not None:
            await self._stimulator.allow_stimulation()
            self._record("safety.stimulation_allowed", {})

    async def _keep(self, who: str, reason: str) -> None:
        """Write the latch file. The commands are already on their way to the devices: the disk delays none."""
        try:
            self._latch.set(who, reason)
        except OSError as error:
            self._alarm("journal_lost", SOURCE, f"the stop is not kept over a restart by its file: {error}")

    async def reset(self, who: str, reason: str) -> None:
        """End the emergency stop and clear latched interlocks (I5). Raises :class:`ResetRefused`."""
        if self.gate is None:
            raise ResetRefused("the controller is still connecting to its devices. Next: wait a few seconds, try again")
        if self._button is not None and self._button.pressed:
            raise ResetRefused(f"{self._button.pressed}. Next: release it, or repair its line, and reset again")
        try:
            self._latch.clear()
        except OSError as error:
            raise ResetRefused(
                f"the file of the emergency stop cannot be removed: {error}. Likely cause: the data folder cannot be"
                " written. Next: make it writable, reset again"
            ) from error
        self.gate.reset(who, reason)
        if self._stimulator is not None and not self.forbidden:
            await self._follow_hold()


def _stop_text(why: str) -> str:
    return f"emergency stop by {why}; a person must reset it"


def _latched(journal: Journal) -> tuple[str | None, dict[str, str]]:
    """Return the emergency stop and the interlocks (with details) that were latched when the journal's process ended."""
    emergency: str | None = None
    latched: dict[str, str] = {}
    for row in journal.entries(kinds=("safety.estop", "safety.latch", "safety.reset")):
        match row.kind:
            case "safety.estop":
                emergency = f"{row.body['user']}: {row.body['reason']}"
            case "safety.latch":
                latched[row.body["interlock"]] = row.body["detail"]
            case _:
                emergency, latched = None, {}
    return emergency, latched
