"""Measure how fast the history stores readings and answers queries (targets: docs/performance.md)."""

from __future__ import annotations

import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from controller.core.state import Reading
from controller.memory.history import History
from drivers.commands import Quality
from verification.bench.standing_clock import StandingClock

SERIES = [f"device_{number}.value" for number in range(40)]
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
TICKS = 10_000
DAYS = 30
_now = time.perf_counter  # noqa: TID251  (a benchmark measures this machine's real time)


def bench_history() -> dict[str, Any]:
    """Figures: points/s in through the tick, bytes a point, and milliseconds to draw 40 series of a month and a day."""
    with tempfile.TemporaryDirectory(prefix="choroid-bench-") as folder:
        return _taken_in(Path(folder) / "in.db") | _drawn(Path(folder) / "month.db")


def _taken_in(path: Path) -> dict[str, Any]:
    """Every series changes at every tick: 1 Hz × 40, through the same call that the control loop makes."""
    clock = StandingClock(EPOCH)
    history = History(path, clock)
    ticks = [
        {
            point: Reading(37.0 + (tick * 7 + number) % 13, "kPa", Quality.GOOD, float(tick))
            for number, point in enumerate(SERIES)
        }
        for tick in range(200)
    ]
    spent_s = 0.0
    for batch in range(TICKS // len(ticks)):
        shifted = [
            {point: Reading(r.value, r.unit, r.quality, r.at_s + batch * len(ticks)) for point, r in tick.items()}
            for tick in ticks
        ]
        began = _now()
        for number, readings in enumerate(shifted):
            clock.at_s = float(batch * len(ticks) + number)
            history.add(clock.at_s, "", readings)
        spent_s += _now() - began
    began = _now()
    history.close()
    spent_s += _now() - began
    points = TICKS * len(SERIES)
    return {"points_in_per_s": points / spent_s, "bytes_per_point": path.stat().st_size / points}


def _drawn(path: Path) -> dict[str, Any]:
    """A month of one reading a minute; how dense it is hardly matters, since a month is drawn from the levels."""
    history = History(path, StandingClock(EPOCH))
    begin = EPOCH.timestamp()
    end = begin + DAYS * 86400
    for number, point in enumerate(SERIES):
        history.insert(
            point, "kPa", ((begin + minute * 60.0, (minute * 7 + number) % 13) for minute in range(DAYS * 1440))
        )
    figures = {
        "draw_30_days_40_series_ms": _draw_ms(history, begin, end),
        "draw_1_day_40_series_ms": _draw_ms(history, end - 86400, end),
    }
    history.close()
    return figures


def _draw_ms(history: History, begin: float, end: float) -> float:
    """Return the median of five, drawn in at most 1,000 stretches a series."""
    times = []
    for _ in range(5):
        began = _now()
        for point in SERIES:
            history.query(point, begin, end, 1000)
        times.append((_now() - began) * 1000)
    return sorted(times)[2]
