"""The Ladder: a score is published only when it improves clearly, and rounded (Blum and Hardt 2015, ICML).

Each published number is an answer about the hidden data. With exact answers, random submissions and their scores are
enough to fit the hidden data (boosting attack). The Ladder answers with the best score so far unless a submission improves
on it by more than a step, so that the number of different answers is at most the range of the metric over the step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ladder:
    """The ladder of one author on one board and rotation; `best` is what was published last."""

    step: float
    best: float | None = None

    def published(self, score: float) -> float:
        """Return the score that is published for a submission with this exact score."""
        if self.best is None or score > self.best + self.step:
            return self.rounded(score)
        return self.best

    def after(self, score: float) -> Ladder:
        """Return the ladder after a submission with this exact score."""
        return Ladder(self.step, self.published(score))

    def rounded(self, score: float) -> float:
        """Return a score on the grid of steps."""
        digits = max(0, 3 - math.floor(math.log10(self.step)))
        return round(math.floor(score / self.step + 0.5) * self.step, digits)
