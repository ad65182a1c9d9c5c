"""Readings of the electrode engine: values while its summary is fresh, a lost device otherwise.

An engine that has died sends nothing, and a hung one repeats itself. Neither may look like active tissue.
"""

from __future__ import annotations

import math
from typing import Final

from controller.core.clock import Clock
from controller.core.state import StateStore
from drivers.commands import Quality
from nerves.metrics.terms import METRICS
from nerves.summary import NervesSource, NervesSummary, life_s

SILENT_AFTER_S = 30.0
"""Maximum age of a summary (s of real time); it is renewed about every second."""
STARTS_WITHIN_S = 60.0
"""Maximum start time of an engine (s of real time); it takes 3 to 10 s."""
FIRING, ACTIVE, EVOKED = "nerves.firing_rate", "nerves.active_electrodes", "nerves.evoked_ratio"
MUTED = "nerves.muted"
UNITS: Final = {FIRING: "Hz", ACTIVE: "electrodes", EVOKED: "ratio", MUTED: "%"}
"""Units of the readings. A failed one raises the alarm `device_lost`, as for any device."""
FIGURES: Final = tuple(each for each in METRICS if each.reading)
"""Figures of firing over the last minute that are readings."""


class NervesReader:
    """Reads the engine's summary and records it in the state."""

    def __init__(self, store: StateStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._since_s: float | None = None
        self._newest_s: float | None = None

    async def read(self, nerves: NervesSource) -> NervesSummary | None:
        """Return the present summary and record it once; None if the engine has sent nothing recently."""
        summary = await nerves.summary()
        now_s = self._clock.now_s()
        if self._since_s is None:
            self._since_s = now_s
        if summary is None:
            if self._newest_s is not None or now_s - self._since_s > life_s(STARTS_WITHIN_S):
                self._lose("the electrode engine does not answer")
            return None
        if now_s - summary.at_s > life_s(SILENT_AFTER_S):
            self._lose(f"the electrode engine has said nothing new for more than {SILENT_AFTER_S:g} s")
            return None
        if summary.at_s != self._newest_s:
            self._newest_s = summary.at_s
            if summary.sufficient:
                self._record(summary)
            else:
                self._lose(
                    f"spikes can be detected on {summary.observed} of {summary.electrodes} electrodes only; the others are"
                    " flat, noisy or saturated"
                )
        return summary

    def _record(self, summary: NervesSummary) -> None:
        values = {
            FIRING: summary.firing_rate_hz,
            ACTIVE: float(summary.active_electrodes),
            EVOKED: None if summary.treatment is None else summary.treatment.evoked_ratio,
            MUTED: summary.muted_pct,
        }
        for point, value in values.items():
            if value is not None:
                self._store.read(point, value, UNITS[point], Quality.GOOD, summary.at_s)
        if summary.metrics is not None:
            for each in FIGURES:
                if math.isfinite(figure := summary.metrics.figures[each.name]):
                    self._store.read(each.reading, figure, each.unit, Quality.GOOD, summary.at_s)

    def _lose(self, why: str) -> None:
        """Mark the readings as failed, except the evoked ratio: an engine that is back has none until it has stimulated."""
        for point in (FIRING, ACTIVE):
            self._store.failed(point, UNITS[point], why)
        if MUTED in self._store.readings:
            self._store.failed(MUTED, UNITS[MUTED], why)
        for each in FIGURES:
            if each.reading in self._store.readings:
                self._store.failed(each.reading, each.unit, why)
