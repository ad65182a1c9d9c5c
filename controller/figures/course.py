"""The course of one series through a period: mean, spread, extremes, time out of band, gaps, and points for a plot.

Computed in one pass over history's stretches, whatever the length of the period: ninety days take as much memory as one. Each
stretch counts for the time that its readings cover, so a stretch with half of its readings counts half.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from controller.memory.history_reader import Stretch

MAX_GAPS = 50
"""Maximum number of gaps that are kept, the longest."""
GAP_STRETCHES = 2
"""Minimum number of empty stretches that make a gap: one alone may be due to its boundaries."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One point of a plot at `at` (UTC seconds): mean, minimum, maximum."""

    at: float
    mean: float
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Band:
    """The range in which a series should lie."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Course:
    """Statistics of a series; see :func:`course`. Times in s, `gaps` as (begin, end) in UTC seconds."""

    point: str
    unit: str
    n: int
    mean: float
    sd: float
    """Standard deviation of the stretches' means about `mean`, weighted by time."""
    least: float
    most: float
    covered_s: float
    period_s: float
    out_s: float
    """Covered time out of `band`."""
    ripple: float
    """Mean of (maximum less minimum) within a stretch."""
    gaps: tuple[tuple[float, float], ...]
    slots: tuple[Slot, ...]
    band: Band | None

    @property
    def coverage(self) -> float:
        """Share of the period with data (0..1)."""
        return self.covered_s / self.period_s if self.period_s > 0 else 0.0

    @property
    def out_share(self) -> float:
        """Share of the covered time out of `band` (0..1)."""
        return self.out_s / self.covered_s if self.covered_s > 0 else 0.0

    def rms_from(self, target: float) -> float:
        """Return the root mean square distance of the stretches' means from `target`."""
        return math.hypot(self.sd, self.mean - target)


def course(
    point: str,
    unit: str,
    stretches: Iterable[Stretch],
    *,
    begin: float,
    end: float,
    width: float,
    every_s: float,
    band: Band | None = None,
    slots: int = 400,
) -> Course | None:
    """Return the statistics of a series from `begin` to `end`; None without a reading.

    A stretch that lacks one reading counts as complete, because its boundaries are arbitrary.

    Args:
        point: the series.
        unit: its unit.
        stretches: history's stretches of `width` seconds, in order.
        begin: begin of the period (UTC seconds).
        end: end of the period (UTC seconds).
        width: width of a stretch (s).
        every_s: sampling period of the series (s).
        band: the range in which the series should lie.
        slots: maximum number of points for the plot.
    """
    expected = width / every_s
    n, covered_s, out_s, ripple = 0, 0.0, 0.0, 0.0
    mean = square = 0.0
    least, most = math.inf, -math.inf
    gaps: list[tuple[float, float]] = []
    plot = _Plot(begin, end, slots, width)
    whole_until = begin
    for stretch in stretches:
        if stretch.begin - whole_until >= GAP_STRETCHES * width:
            gaps.append((whole_until, stretch.begin))
        whole_until = max(begin, stretch.begin + width)
        inside_s = min(stretch.begin + width, end) - max(stretch.begin, begin)
        share = 1.0 if stretch.n >= expected - 1.0 else stretch.n / expected
        weight = max(inside_s, 0.0) * share
        if weight <= 0 or stretch.n <= 0:
            continue
        value = stretch.total / stretch.n
        n += stretch.n
        covered_s += weight
        step = value - mean  # West 1979, the weighted form of Welford's sum: values are centred before they are squared
        mean += step * weight / covered_s
        square += weight * step * (value - mean)
        least, most = min(least, stretch.least), max(most, stretch.most)
        ripple += weight * (stretch.most - stretch.least)
        if band is not None and not band.low <= value <= band.high:
            out_s += weight
        plot.add(stretch)
    if n == 0:
        return None
    if end - whole_until >= GAP_STRETCHES * width:
        gaps.append((whole_until, end))
    gaps = sorted(sorted(gaps, key=lambda gap: gap[0] - gap[1])[:MAX_GAPS])
    return Course(
        point,
        unit,
        n,
        mean,
        math.sqrt(max(square, 0.0) / covered_s),
        least,
        most,
        covered_s,
        end - begin,
        out_s,
        ripple / covered_s,
        tuple(gaps),
        plot.slots(),
        band,
    )


class _Plot:
    """Combines stretches into a maximum number of points, and keeps every peak."""

    def __init__(self, begin: float, end: float, max_points: int, width: float) -> None:
        self._begin = begin
        self._half = width / 2
        self._step = (end - begin) / max_points
        self._slots: list[Slot] = []
        self._index = -1
        self._n = 0
        self._total = self._at = 0.0
        self._min, self._max = math.inf, -math.inf

    def add(self, stretch: Stretch) -> None:
        index = int((stretch.begin - self._begin) / self._step)
        if index != self._index:
            self._close()
            self._index = index
        self._n += stretch.n
        self._total += stretch.total
        self._at += (stretch.begin + self._half) * stretch.n
        self._min, self._max = min(self._min, stretch.least), max(self._max, stretch.most)

    def _close(self) -> None:
        if self._n:
            self._slots.append(Slot(self._at / self._n, self._total / self._n, self._min, self._max))
        self._n, self._total, self._at = 0, 0.0, 0.0
        self._min, self._max = math.inf, -math.inf

    def slots(self) -> tuple[Slot, ...]:
        self._close()
        return tuple(self._slots)
