"""What the estimate of the tissue says of a loss of viability, and when recycling must retreat because of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from protocols.interval import Interval

STALE_H = 3.0
"""Age (h) from which an estimate says nothing of the present: three hours of the watch were not closed [P]."""
BLIND_S = 86_400.0
"""Time (s) without an estimate after which recycling retreats [P]."""
PERCENT = 100.0


@dataclass(frozen=True, slots=True)
class LdhSeen:
    """Holds what assays of LDH have shown of a culture."""

    ratio: Interval | None
    """The newest result over the culture's first one; None before the second, and when the newest is a week old."""
    age_h: float | None
    """Time since the newest sample; None if there was none."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return what :meth:`to_json` wrote."""
        return cls(None if data["ratio"] is None else Interval.from_json(data["ratio"]), data["age_h"])

    def to_json(self) -> dict[str, Any]:
        """Return plain data for the journal."""
        return {
            "ratio": None if self.ratio is None else self.ratio.to_json(),
            "age_h": None if self.age_h is None else round(self.age_h, 2),
        }


@dataclass(frozen=True, slots=True)
class TissueLoss:
    """The loss of viability by the estimate, as of its last whole hour."""

    viability: Interval | None
    """Median and the ends of the 90 % interval (0..1); None while nothing is estimated."""
    lost: float
    """Expected loss (0..1) since the peak of the last weeks."""
    suspected: bool
    certain: bool
    age_h: float
    """Time since that hour."""
    ldh: LdhSeen | None = None
    """None if the host of the run does not follow LDH (a rehearsal)."""

    @property
    def known(self) -> bool:
        """Whether the estimate says something of the present."""
        return self.viability is not None and self.age_h <= STALE_H

    @property
    def text(self) -> str:
        """What is lost, for people."""
        if self.viability is None:
            return "there is no estimate of the viability"
        if not self.known:
            return f"the estimate of the viability is {self.age_h:.0f} h old"
        verb = "shows" if self.certain else "suspects"
        low, high = self.viability.low, self.viability.high
        return f"the estimate {verb} a loss of {self.lost:.0%} of the viability, which is {low:.2f} to {high:.2f} now"

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return what :meth:`to_json` wrote."""
        viability = None if data["viability"] is None else Interval.from_json(data["viability"])
        ldh = None if data.get("ldh") is None else LdhSeen.from_json(data["ldh"])
        return cls(viability, data["lost"], data["suspected"], data["certain"], data["age_h"], ldh)

    def to_json(self) -> dict[str, Any]:
        """Return plain data for the journal."""
        return {
            "viability": None if self.viability is None else self.viability.to_json(),
            "lost": round(self.lost, 4),
            "suspected": self.suspected,
            "certain": self.certain,
            "age_h": round(self.age_h, 2),
            **({} if self.ldh is None else {"ldh": self.ldh.to_json()}),
        }


UNKNOWN = TissueLoss(None, 0.0, suspected=False, certain=False, age_h=0.0)
"""Nothing is estimated."""


class LossWatch:
    """Decides at each look of a run whether recycling has to retreat."""

    def __init__(self, accepted_pct: float) -> None:
        """`accepted_pct` is the loss (%) that a person knows and accepts; with 100 % nothing does."""
        self._accepted = accepted_pct / PERCENT
        self._blind_since_s: float | None = None

    def loses(self, seen: TissueLoss) -> bool:
        """Return whether a known estimate shows or suspects a loss that is not accepted."""
        return (seen.suspected or seen.certain) and seen.lost > self._accepted

    def reason(self, seen: TissueLoss | None, now_s: float) -> str:
        """Return why recycling has to retreat; empty if it goes on.

        Args:
            seen: What the look has shown; None if the host of the run knows of no estimate (a record of an earlier
                release, a rehearsal), which says nothing.
            now_s: Time since the run's start (s).
        """
        if seen is None or self._accepted >= 1.0:
            return ""
        if seen.known:
            self._blind_since_s = None
            return seen.text if self.loses(seen) else ""
        if self._blind_since_s is None:
            self._blind_since_s = now_s
        blind_s = now_s - self._blind_since_s
        return f"{seen.text}, and was of no use for {blind_s / 3600.0:.0f} h" if blind_s >= BLIND_S else ""
