"""How each quantity of the tissue and its medium is known: measured, estimated, or neither."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Knowing(StrEnum):
    """Says how a quantity is known."""

    MEASURED = "measured"
    ESTIMATED = "estimated"
    """It follows from a balance of the medium, corrected by other readings: no value of it was measured in its time."""
    NEITHER = "neither"


@dataclass(frozen=True, slots=True)
class KnownBy:
    """Tells how one quantity is known, by what, and how old that is."""

    how: Knowing
    by: str = ""
    """What measured it last: a probe, a sensor, an assay, an image; empty if nothing did."""
    age_h: float | None = None
    """Age (h) of a result of one moment; None for what is read all the time."""

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"how": self.how.value, "by": self.by, "age_h": None if self.age_h is None else round(self.age_h, 1)}

    @property
    def text(self) -> str:
        """By what, for people; empty if nothing measured it."""
        if self.age_h is None:
            return self.by
        age = f"{self.age_h:.0f} h" if self.age_h < 48.0 else f"{self.age_h / 24.0:.0f} days"
        return f"{self.by} {age} ago"
