"""One figure of an organ: a value with unit, interval and coverage, or the reason why there is none."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

Z95 = 1.96
"""Half width of a 95 % interval of a normal distribution, in standard deviations."""


class FigureStatus(IntEnum):
    """Verdict on a figure against its limits; the worst is the largest."""

    NONE = 0
    """It has no limit, or no data."""
    GOOD = 1
    WATCH = 2
    BAD = 3


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure.

    `value` is None without data, and `why` gives the reason. `low` and `high` are a 95 % interval if it is known. `coverage`
    (0..1) is the share of the period with data; None for figures of events. `limit` names the limits, `basis` the source.
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
        """Return plain data; a missing value is null, never zero."""
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
    """Limits of a figure: to be watched, and bad; None is no such limit.

    `upward` is True if large values are bad. `tag` names the source of the numbers.
    """

    watch: float | None
    bad: float | None
    upward: bool = True
    tag: str = "proposed"

    def judge(self, value: float) -> FigureStatus:
        """Return the verdict on `value`."""
        for limit, verdict in ((self.bad, FigureStatus.BAD), (self.watch, FigureStatus.WATCH)):
            if limit is not None and (value > limit if self.upward else value < limit):
                return verdict
        return FigureStatus.GOOD

    def text(self, unit: str) -> str:
        """Return the limits as text."""
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
    """Return a figure with a value. `sd` gives its interval; `judged` (default: the value) is compared with `limits`."""
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
    """Return a figure without data, with the reason."""
    return Figure(key, label, unit, None, why=why)


def _plain(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")
