"""The usual firing rate of each electrode, kept hour by hour in the journal.

A row `baseline.electrodes` holds the median rate of each electrode over an hour; null where it was muted, or where the hour
had too few minutes without stimulation. The norm of an electrode is the median of its hours, its spread 1.4826·MAD of their
logarithm; hours with a disturbance are left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from controller.core.clock import Clock
from controller.journal.journal import Journal
from controller.vitals.rolling_baseline import HOUR_US, MIN_SAMPLES
from protocols.baseline import MAD_TO_SD, MIN_SPREAD, WARM_UP_H, WINDOW_H

ROW = "baseline.electrodes"
FLOOR_HZ = 0.01
"""Rates below this count as this: the logarithm of a silent electrode."""
DIGITS = 4

Floats = NDArray[np.float64]


class ElectrodeBaseline:
    """The hours of each electrode. Rates are noted about once a minute."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._hour = self._now_h()
        self._minutes: list[Floats] = []
        self._why_not = ""
        rows = list(journal.entries(kinds=(ROW,), newest_first=True, limit=WINDOW_H))
        kept = [_rates(row.body["hz"]) for row in reversed(rows)]
        self._hours: deque[Floats] = deque((each for each in kept if len(each) == len(kept[-1])), maxlen=WINDOW_H)
        self._norm: tuple[Floats, Floats] | None = None
        self._renew()

    def disturbed(self, why: str) -> None:
        """Exclude this hour: something is wrong."""
        self._why_not = self._why_not or why

    def note(self, rates_hz: Sequence[float]) -> None:
        """Note the rates of a minute without stimulation, NaN for a muted electrode."""
        self._minutes.append(np.array(rates_hz))

    def scores(self, rates_hz: Sequence[float]) -> Floats:
        """Return the distance of each rate from its norm, in spreads of the logarithm; NaN where it is not known."""
        now = np.array(rates_hz, np.float64)
        if self._norm is None or len(self._norm[0]) != len(now):
            return np.full(len(now), np.nan)
        found: Floats = (np.log(np.maximum(now, FLOOR_HZ)) - self._norm[0]) / self._norm[1]
        return found

    def turn(self) -> None:
        """Close the hour if it is over."""
        hour = self._now_h()
        if hour <= self._hour:
            return
        minutes = [each for each in self._minutes if len(each) == len(self._minutes[-1])]
        over, why_not = self._hour, self._why_not
        self._hour, self._minutes, self._why_not = hour, [], ""
        if not why_not and len(minutes) >= MIN_SAMPLES:
            known = np.isfinite(minutes).sum(axis=0) >= MIN_SAMPLES
            rates = np.full(len(known), np.nan)
            rates[known] = np.nanmedian(np.array(minutes)[:, known], axis=0)
            if self._hours and len(self._hours[-1]) != len(rates):
                self._hours.clear()  # another array
            self._hours.append(rates)
            self._renew()
            shown = [round(float(rate), DIGITS) if np.isfinite(rate) else None for rate in rates]
            self._journal.append(ROW, {"hour": over, "hz": shown})

    def _renew(self) -> None:
        if len(self._hours) < WARM_UP_H:
            return
        logs = np.log(np.maximum(np.array(self._hours), FLOOR_HZ))
        known = np.isfinite(logs).sum(axis=0) >= WARM_UP_H
        middle, spread = np.full((2, len(known)), np.nan)
        if known.any():
            middle[known] = np.nanmedian(logs[:, known], axis=0)
            spread[known] = MAD_TO_SD * np.nanmedian(np.abs(logs[:, known] - middle[known]), axis=0)
        self._norm = middle, np.maximum(spread, MIN_SPREAD)

    def _now_h(self) -> int:
        return self._clock.utc_us() // HOUR_US


def _rates(shown: Sequence[float | None]) -> Floats:
    return np.array([np.nan if rate is None else rate for rate in shown])
