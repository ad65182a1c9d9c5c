"""The happiness rating √(care rating · welfare): a nickname for how well an organoid is kept (biology.md §4).

There is no ground truth for such a number, and no literature supports the word (electrodes.md §5). It is shown with
both its parts, its coverage and its interval, and its label says what it is. Nothing acts on it, and none of its
inputs depends on the success of a task.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from protocols.scoring import Score

VERSION = "happiness-1"
LABEL = "care-quality proxy, not evidence of feeling; “happiness” is a nickname that no literature supports"


@dataclass(frozen=True, slots=True)
class Happiness:
    """Holds √(care rating · welfare) with its interval.

    `coverage` is the mean of its parts' coverages; `of_known` is the root of the product of their `of_known`, None if either
    is None.
    """

    score: float
    low: float
    high: float
    coverage: float
    of_known: float | None
    care_rating: float
    welfare: float
    version: str = VERSION
    label: str = LABEL

    def to_json(self) -> dict[str, Any]:
        """Return plain data for the journal, the API and the page."""
        return {
            "score": self.score,
            "low": self.low,
            "high": self.high,
            "coverage": self.coverage,
            "of_known": self.of_known,
            "care_rating": self.care_rating,
            "welfare": self.welfare,
            "version": self.version,
            "label": self.label,
        }


def happiness(rating: Score, welfare: Score) -> Happiness:
    """Return the happiness rating of one moment."""
    known = None
    if rating.of_known is not None and welfare.of_known is not None:
        known = round(math.sqrt(rating.of_known * welfare.of_known), 6)
    return Happiness(
        score=round(math.sqrt(rating.score * welfare.score), 6),
        low=round(math.sqrt(rating.low * welfare.low), 6),
        high=round(math.sqrt(rating.high * welfare.high), 6),
        coverage=round((rating.coverage + welfare.coverage) / 2.0, 6),
        of_known=known,
        care_rating=rating.score,
        welfare=welfare.score,
    )
