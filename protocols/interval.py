"""A value with the bounds within which it is believed to lie: the form of every measured or estimated value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Self

K_BOUND = 2.0
"""Distance of the bounds from the value in standard deviations (about 95 % for a normal error)."""


@dataclass(frozen=True, slots=True)
class Interval:
    """`low <= value <= high`, in the unit that the name of the variable gives."""

    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"{self.value!r} does not lie between {self.low!r} and {self.high!r}")

    @classmethod
    def around(cls, value: float, sd: float, *, floor: float = float("-inf")) -> Self:
        """Return `value` ± :data:`K_BOUND` standard deviations, cut off below at `floor` (a concentration is not
        negative).
        """
        value = max(value, floor)
        return cls(value, max(floor, value - K_BOUND * sd), value + K_BOUND * sd)

    @classmethod
    def exact(cls, value: float) -> Self:
        """Return an exactly known number."""
        return cls(value, value, value)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return what :meth:`to_json` wrote."""
        return cls(data["value"], data["low"], data["high"])

    def to_json(self) -> dict[str, float]:
        """Return plain numbers for the journal."""
        return {"value": self.value, "low": self.low, "high": self.high}

    @property
    def finite(self) -> bool:
        """Whether value and bounds are finite numbers."""
        return isfinite(self.value) and isfinite(self.low) and isfinite(self.high)

    @property
    def sd(self) -> float:
        """Standard deviation of the wider side."""
        return max(self.value - self.low, self.high - self.value) / K_BOUND

    def scaled(self, factor: float) -> Interval:
        """Return the interval in another unit; `factor` > 0."""
        return Interval(self.value * factor, self.low * factor, self.high * factor)
