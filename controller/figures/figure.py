"""One figure of an organ: a value with its unit, interval and coverage, or the reason why there is none."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

Z95 = 1.96
"""Standard deviations on either side that hold 95 % of a normal distribution."""


class FigureStatus(IntEnum):
    """How a figure stands against its limits; the worst is the greatest."""

    NONE = 0
    """There is no limit for it, or no data."""
    GOOD = 1
    WATCH = 2
    BAD = 3


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure.

    `value` is None when there are no data, and `why` says why. `low` and `high` are a 95 % interval where one is known.
    `coverage` (0..1) is the share of the period in which the data were there; None for figures that are made of events.
    `limit` says against what it was judged, `basis` what it was computed from.
    """

    key: str
    label: str
    unit: str
    value: float | None
    low: float | None = None
    high: float | None = None
    coverage: float | None = None
    verdict: FigureStatus = FigureStatus.NONE
    limit: str = ""
    basis: str = ""
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data; a value that is not there is null, and never a zero."""
        return {
            "label": self.label,
            "unit": self.unit,
            "value": _plain(self.value),
            "low": _plain(self.low),
            "high": _plain(self.high),
            "coverage": _plain(self.coverage),
            "verdict": self.verdict.name.lower(),
            "limit": self.limit,
            "basis": self.basis,
            "why_no_data": self.why,
        }


@dataclass(frozen=True, slots=True)
class FigureLimits:
    """From where on a figure is to be watched, and from where on it is bad; None is no such limit.

    `upward` is True where much is bad. `tag` says where the numbers are from.
    """

    watch: float | None
    bad: float | None
    upward: bool = True
    tag: str = "proposed"

    def judge(self, value: float) -> FigureStatus:
        """Where `value` lies."""
        for limit, verdict in ((self.bad, FigureStatus.BAD), (self.watch, FigureStatus.WATCH)):
            if limit is not None and (value > limit if self.upward else value < limit):
                return verdict
        return FigureStatus.GOOD

    def text(self, unit: str) -> str:
        """In words."""
        sign = "above" if self.upward else "below"
        parts = [
            f"{word} {sign} {limit:g}{unit and ' ' + unit}"
            for word, limit in (("watch", self.watch), ("bad", self.bad))
            if limit is not None
        ]
        return f"{', '.join(parts)} ({self.tag})"


def figure(
    key: str,
    label: str,
    unit: str,
    value: float,
    *,
    sd: float | None = None,
    coverage: float | None = None,
    limits: FigureLimits | None = None,
    judged: float | None = None,
    basis: str = "",
) -> Figure:
    """A figure with a value; `sd` gives it its interval, `judged` (default: the value) is held against `limits`."""
    low = high = None
    if sd is not None and math.isfinite(sd):
        low, high = value - Z95 * sd, value + Z95 * sd
    verdict = FigureStatus.NONE if limits is None else limits.judge(value if judged is None else judged)
    return Figure(
        key,
        label,
        unit,
        value,
        low,
        high,
        coverage,
        verdict,
        "" if limits is None else limits.text(unit),
        basis,
    )


def missing(key: str, label: str, unit: str, why: str) -> Figure:
    """No data, and why."""
    return Figure(key, label, unit, None, why=why)


def _plain(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")
