"""Notice a step of the wall clock: at each tick UTC is compared with the time that has really passed (E7).

Control counts by the monotonic clock, so a step changes no dose. What is dated does change: rows before and after it do not
fit together, and what is due at a time of day comes earlier or later. A suspend is no step: the passed time includes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from controller.core.clock import Clock

STEP_S = 1.0
"""A change of UTC against the passed time by more than this (s) is a step."""
SLEW = 1e-3
"""Largest rate at which a time service corrects a clock without a step (1000 ppm; Linux allows 500). Faster is a step."""
ROW = "clock.stepped"
ALARM = "clock_stepped"
SOURCE = "wall clock"


class WallClockWatch:
    """Writes a row and raises an alarm for each step of the wall clock."""

    def __init__(
        self, clock: Clock, record: Callable[[str, Mapping[str, Any]], None], alarm: Callable[[str, str, str], None]
    ) -> None:
        """Begin to watch; `record` appends a row, `alarm` raises an event (kind, source, detail)."""
        self._clock = clock
        self._record = record
        self._alarm = alarm
        self._passed_s = clock.passed_s()
        self._offset_s = self._utc_s() - self._passed_s
        """UTC minus passed time, as far as it is explained."""

    def began(self, last_utc: str | None) -> None:
        """Compare the start with the last record of an earlier controller: time cannot have gone back."""
        if last_utc is None:
            return
        last, now = datetime.fromisoformat(last_utc), self._clock.utc()
        back_s = (last - now).total_seconds()
        if back_s > STEP_S:
            self._tell(last, now, f"at least {back_s:.1f} s back while no controller ran", -back_s)

    def update(self) -> None:
        """Compare UTC with the time that has passed since the last look."""
        utc_s, passed_s = self._utc_s(), self._clock.passed_s()
        allowed_s = SLEW * (passed_s - self._passed_s)
        self._passed_s = passed_s
        step_s = utc_s - passed_s - self._offset_s
        if abs(step_s) <= STEP_S:
            self._offset_s += max(-allowed_s, min(allowed_s, step_s))
            return
        self._offset_s += step_s
        now = datetime.fromtimestamp(utc_s, UTC)
        way = "forward" if step_s > 0 else "back"
        self._tell(now - timedelta(seconds=step_s), now, f"{abs(step_s):.1f} s {way}", step_s)

    def _utc_s(self) -> float:
        return self._clock.utc_us() / 1e6

    def _tell(self, before: datetime, after: datetime, how: str, step_s: float) -> None:
        texts = [moment.isoformat(timespec="milliseconds").replace("+00:00", "Z") for moment in (before, after)]
        self._record(ROW, {"before_utc": texts[0], "after_utc": texts[1], "step_s": round(step_s, 3)})
        self._alarm(
            ALARM,
            SOURCE,
            f"the wall clock went {how}: {texts[0]} became {texts[1]}. Doses, limits and intervals are not concerned. Likely"
            " cause: the time service corrected it (NTP, a virtual machine that was resumed), or a person set it. Next: see"
            " whether the time is right now (`timedatectl`); look at what is due at a time of day",
        )
