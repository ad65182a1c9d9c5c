"""What the controller makes of the word of the nerves: readings while it is fresh, a lost device when it is not.

An engine that has died says nothing; one that hangs says the same for ever. Neither may look like tissue that fires.
"""

from __future__ import annotations

from typing import Final

from controller.core.clock import Clock
from controller.core.state import StateStore
from controller.nerves.summary import NervesSource, NervesSummary, life_s
from drivers.commands import Quality

SILENT_AFTER_S = 30.0
"""A summary comes each second or so; one that is older (s of life) says nothing of the present."""
STARTS_WITHIN_S = 60.0
"""An engine that has never been heard may be starting for so long (s of life); it takes 3 to 10 s."""
FIRING, ACTIVE, EVOKED = "nerves.firing_rate", "nerves.active_electrodes", "nerves.evoked_ratio"
UNITS: Final = {FIRING: "Hz", ACTIVE: "electrodes", EVOKED: "ratio"}
"""The readings. What fails of them raises the alarm `device_lost` of the nerves, as with any device."""


class NervesReader:
    """Asks the source now and then; see the module."""

    def __init__(self, store: StateStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._since_s: float | None = None
        self._newest_s: float | None = None

    async def hear(self, nerves: NervesSource) -> NervesSummary | None:
        """The summary of this moment, told to the store once; None when nobody has said anything lately."""
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
            self._tell(summary)
        return summary

    def _tell(self, summary: NervesSummary) -> None:
        told = {
            FIRING: summary.firing_rate_hz,
            ACTIVE: float(summary.active_electrodes),
            EVOKED: None if summary.treatment is None else summary.treatment.evoked_ratio,
        }
        for point, value in told.items():
            if value is not None:
                self._store.read(point, value, UNITS[point], Quality.GOOD, summary.at_s)

    def _lose(self, why: str) -> None:
        """Not the evoked ratio: an engine that is back has none until it has stimulated, and would still count as lost."""
        for point in (FIRING, ACTIVE):
            self._store.failed(point, UNITS[point], why)
