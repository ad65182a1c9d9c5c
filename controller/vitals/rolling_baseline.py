"""Baselines of this organoid, and the extremes of its last day, kept hour by hour in the journal.

A row `baseline` is written at the end of each hour: each signal's median, what was left out and why, the anchors of the
norms, and the minimum and maximum of signals that should be steady. Both thus survive a restart, and a report can show the
reference of a score.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from math import isfinite
from statistics import median
from typing import Any

from controller.core.clock import Clock
from controller.journal.journal import Journal
from protocols.baseline import WINDOW_H, Baseline, Norm

ROW = "baseline"
HOUR_US = 3_600_000_000
DAY_H = 24
SPREAD_WARM_UP_H = 6
"""Minimum number of hours for a spread: a short observation always looks steady."""
MIN_SAMPLES = 10
"""Minimum number of values for an hour's median."""


class RollingBaseline:
    """The present hour and the past ones. Values are noted about once a minute."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._hour = self._now_h()
        self._signals: dict[str, list[float]] = {}
        self._extremes: dict[str, tuple[float, float]] = {}
        self._why_not = ""
        self._baselines: dict[str, Baseline] = {}
        self._norms: dict[str, Norm] = {}
        self._days: dict[str, deque[tuple[int, float, float]]] = {}
        self._restore()

    def disturbed(self, why: str) -> None:
        """Exclude this hour: something is wrong."""
        self._why_not = self._why_not or why

    def note(self, signal: str, value: float | None) -> Norm | None:
        """Note a value of a signal with a baseline (None: unknown now). Return its norm; None while warming up."""
        if value is not None and isfinite(value):
            self._signals.setdefault(signal, []).append(value)
        return self._norms.get(signal)

    def spread(self, signal: str, value: float | None) -> float | None:
        """Note a value of a signal that should be steady. Return its range over the last day; None while unknown."""
        if value is not None and isfinite(value):
            low, high = self._extremes.get(signal, (value, value))
            self._extremes[signal] = (min(low, value), max(high, value))
        hours: list[tuple[int, float, float]] = [*self._days.get(signal, ())]
        if signal in self._extremes:
            hours.append((self._hour, *self._extremes[signal]))
        hours = [each for each in hours if self._hour - each[0] < DAY_H]
        if len(hours) < SPREAD_WARM_UP_H:
            return None
        return max(high for _, _, high in hours) - min(low for _, low, _ in hours)

    def norms(self) -> Mapping[str, Norm]:
        """Return the norms of this hour, of the signals that have one."""
        return self._norms

    def turn(self) -> bool:
        """Close the hour if it is over. Return whether it was."""
        hour = self._now_h()
        if hour <= self._hour:  # a clock that is set back makes one long hour, never two with the same name
            return False
        values = {name: median(seen) for name, seen in self._signals.items() if len(seen) >= MIN_SAMPLES}
        left_out: dict[str, str] = {}
        for name, value in values.items():
            after, why = self._baselines.get(name, Baseline()).taken(self._hour, value, self._why_not)
            self._baselines[name] = after
            if why:
                left_out[name] = why
        for name, (low, high) in self._extremes.items():
            self._days.setdefault(name, deque(maxlen=DAY_H)).append((self._hour, low, high))
        body = {
            "hour": self._hour,
            "values": values,
            "left_out": left_out,
            "anchors": {name: list(each.anchor) for name, each in self._baselines.items() if each.anchor is not None},
            "extremes": {name: list(each) for name, each in self._extremes.items()},
        }
        self._hour = hour
        self._signals, self._extremes, self._why_not = {}, {}, ""
        self._renew()
        self._journal.append(ROW, body)
        return True

    # --- inside -----------------------------------------------------------------------------------------

    def _now_h(self) -> int:
        return self._clock.utc_us() // HOUR_US

    def _renew(self) -> None:
        found = {name: each.norm(self._hour) for name, each in self._baselines.items()}
        self._norms = {name: norm for name, norm in found.items() if norm is not None}

    def _restore(self) -> None:
        """Restore the hours of the journal's last rows; twice the window is read, because some were left out."""
        rows = list(self._journal.entries(kinds=(ROW,), newest_first=True, limit=2 * WINDOW_H))
        rows.reverse()
        hours: dict[str, list[tuple[int, float]]] = {}
        anchors: Mapping[str, Any] = rows[-1].body["anchors"] if rows else {}
        for row in rows:
            hour = int(row.body["hour"])
            for name, value in row.body["values"].items():
                if name not in row.body["left_out"]:
                    hours.setdefault(name, []).append((hour, value))
            for name, (low, high) in row.body["extremes"].items():
                self._days.setdefault(name, deque(maxlen=DAY_H)).append((hour, low, high))
        for name, taken in hours.items():
            anchor = anchors.get(name)
            self._baselines[name] = Baseline(
                tuple(taken[-WINDOW_H:]), None if anchor is None else (int(anchor[0]), float(anchor[1]))
            )
        self._renew()
