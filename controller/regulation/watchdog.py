"""Renewal of the watchdog relay: its contact stays closed while control ticks; without renewal the board opens it."""

from __future__ import annotations

from controller.core.state import State
from controller.rig.description import WatchdogRelay
from controller.safety.terms import Intent
from drivers.commands import Switch

RENEWALS = 3
"""Number of renewals within the hold time: two may be lost."""


class WatchdogRegulator:
    """Closes the relay repeatedly for its hold time."""

    def __init__(self, watchdog: WatchdogRelay) -> None:
        self._watchdog = watchdog
        self._next_s = float("-inf")

    def intents(self, state: State) -> tuple[Intent, ...]:
        """Return the renewal when it is due."""
        if state.at_s < self._next_s:
            return ()
        self._next_s = state.at_s + self._watchdog.hold_s / RENEWALS
        pulse = Switch(True, self._watchdog.hold_s)
        return (Intent(self._watchdog.relay, pulse, "regulator:watchdog", "control lives"),)
