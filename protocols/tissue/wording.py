"""What is said of the tissue, as a pure function of what was found and of the trend: the only source of these sentences."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

DAY_H = 24
SETTLED_H = 6
"""Hours of an estimate before it has a trend, and over which the trend is taken."""
SLOPE = 0.01
"""Change between the means of two successive stretches of :data:`SETTLED_H` that is a trend; calm tissue: up to 0.006."""


class Trend(enum.StrEnum):
    """Says in which direction viability changes."""

    BEGINNING = "beginning"
    """Too few hours to tell."""
    FALLING = "falling"
    RISING = "rising"
    STABLE = "stable"
    UNSTEADY = "unsteady"
    """It changed within the last hours without a direction."""


class LossFound(enum.StrEnum):
    """Says how sure a loss of viability is."""

    NONE = "none"
    SUSPECTED = "suspected"
    CERTAIN = "certain"


@dataclass(frozen=True, slots=True)
class TissueWording:
    """Holds the findings on which the first two sentences about the tissue depend."""

    low: float
    high: float
    baseline: float
    """What this culture has reached in the last weeks."""
    loss: LossFound
    harms: tuple[str, ...]
    """Measured harms that act now, the largest first."""
    hidden: bool
    """Whether a harm acts that nothing measures."""
    trend: Trend
    stable_h: int
    wide: bool
    """Whether the interval is too wide to say more."""
    counted: str
    """How many of the signals are measured, such as “4 of 11”."""
    alarms: tuple[str, ...] = ()
    """Failures of the care that act now: the estimate shows what they do to the tissue later."""

    @property
    def possible_loss(self) -> float:
        """Loss that the interval does not exclude."""
        return max(self.baseline - self.low, 0.0)

    def sentences(self) -> list[str]:
        """Return what is abnormal, and where viability lies and goes."""
        return [self._finding(), f"Viability {self.low:.2f}–{self.high:.2f}, {self._course()}."]

    def _finding(self) -> str:
        cause = "No cause is measured." if self.hidden else "Nothing harmful is measured now."
        alarms = f"Alarm now: {', '.join(self.alarms)}." if self.alarms else ""
        harms = f"Harmful now: {', '.join(self.harms)}." if self.harms else ""
        harmful = " ".join(each for each in (alarms, harms) if each)
        if self.loss is LossFound.CERTAIN:
            verb = {Trend.FALLING: "is losing viability", Trend.RISING: "has lost viability and is recovering"}
            lost = f"The tissue {verb.get(self.trend, 'has lost viability')}."
            return f"{harmful} {lost}" if harmful else f"{lost} {cause}"
        if self.loss is LossFound.SUSPECTED:
            suspected = "A loss of viability is suspected; it is not certain."
            return f"{harmful} {suspected}" if harmful else suspected
        if harmful:
            return harmful
        if self.wide:
            return f"No harm or loss seen, but too little is measured ({self.counted}) to judge the tissue."
        return f"No harm or loss seen ({self.counted} measured); up to {self.possible_loss:.2f} may be lost."

    def _course(self) -> str:
        """Return where viability goes. After a loss it is never called stable, and its baseline is named."""
        if self.loss is not LossFound.NONE:
            return f"below its baseline of {self.baseline:.2f}, {self._after_loss()}"
        if self.wide:
            return "too wide to show a trend"
        if self.trend is Trend.BEGINNING:
            return "the first hours of the estimate"
        harmed = self.harms or self.alarms
        if self.trend is Trend.FALLING:
            return "falling" if harmed else "slightly lower than before, not enough to suspect a loss"
        if harmed:
            return "not lower yet"
        if self.trend is Trend.STABLE:
            return f"stable for {spell(self.stable_h)}"
        return "rising" if self.trend is Trend.RISING else "not steady"

    def _after_loss(self) -> str:
        if self.trend is Trend.FALLING:
            return "falling"
        if self.trend is Trend.RISING:
            return "rising again"
        if self.wide:
            return "too wide to show a trend"
        if self.trend is Trend.BEGINNING:
            return "the first hours of the estimate"
        return f"little change for {spell(self.stable_h)}" if self.trend is Trend.STABLE else "not steady"


def trend_of(values: Sequence[float], stable_h: int) -> Trend:
    """Return where the hourly medians go: the last hours against the ones before, so that noise of single hours is none.

    Args:
        values: Medians of the last hours, oldest first.
        stable_h: For how many hours the median has changed little.
    """
    if len(values) < SETTLED_H:
        return Trend.BEGINNING
    late = values[-SETTLED_H:]
    early = values[-2 * SETTLED_H : -SETTLED_H] or late[:1]
    change = sum(late) / len(late) - sum(early) / len(early)
    if abs(change) > SLOPE:
        return Trend.FALLING if change < 0.0 else Trend.RISING
    return Trend.STABLE if stable_h >= SETTLED_H or stable_h == len(values) - 1 else Trend.UNSTEADY


def spell(hours: int) -> str:
    """Return a time in hours, or days from two on."""
    return f"{hours // DAY_H} days" if hours >= 2 * DAY_H else f"{hours} hours"
