"""The course of one series through a period: mean, spread, extremes, time out of band, gaps, and points for a plot.

Made of history's stretches in one pass, whatever the length of the period: ninety days take as much memory as one. Each
stretch counts for the time that its readings cover, so that a stretch half missed counts half.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from controller.memory.history_reader import Stretch

MOST_GAPS = 50
"""So many gaps are kept, the longest."""
GAP_STRETCHES = 2
"""A gap is told from so many empty stretches on: one alone may be a matter of where the boundary fell."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One point of a plot at `at` (UTC seconds): mean, least, greatest."""

    at: float
    mean: float
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Band:
    """Values between which a series shall lie."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Course:
    """What became of a series; see :func:`course`. Times in s, `gaps` as (begin, end) in UTC seconds."""

    point: str
    unit: str
    n: int
    mean: float
    sd: float
    """Of the stretches' means about `mean`, weighted by time."""
    least: float
    most: float
    covered_s: float
    period_s: float
    out_s: float
    """Covered time out of `band`."""
    ripple: float
    """Mean of (greatest less least) within a stretch."""
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
        """Root mean square distance of the stretches' means from `target`."""
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
    """The course from `begin` to `end` (UTC seconds) of a series that is read every `every_s`; None without a reading.

    `stretches` are `width` seconds wide, in order. A stretch that is short of one reading is taken as whole, for its
    boundary falls anywhere.
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
        step = value - mean  # West 1979, the weighted form of Welford's sum: nothing is squared before it is centred
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
    gaps = sorted(sorted(gaps, key=lambda gap: gap[0] - gap[1])[:MOST_GAPS])
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
    """Gathers stretches into at most `most` points, and keeps every peak."""

    def __init__(self, begin: float, end: float, most: int, width: float) -> None:
        self._begin = begin
        self._half = width / 2
        self._step = (end - begin) / most
        self._slots: list[Slot] = []
        self._index = -1
        self._n = 0
        self._total = self._at = 0.0
        self._least, self._most = math.inf, -math.inf

    def add(self, stretch: Stretch) -> None:
        index = int((stretch.begin - self._begin) / self._step)
        if index != self._index:
            self._close()
            self._index = index
        self._n += stretch.n
        self._total += stretch.total
        self._at += (stretch.begin + self._half) * stretch.n
        self._least, self._most = min(self._least, stretch.least), max(self._most, stretch.most)

    def _close(self) -> None:
        if self._n:
            self._slots.append(Slot(self._at / self._n, self._total / self._n, self._least, self._most))
        self._n, self._total, self._at = 0, 0.0, 0.0
        self._least, self._most = math.inf, -math.inf

    def slots(self) -> tuple[Slot, ...]:
        self._close()
        return tuple(self._slots)
