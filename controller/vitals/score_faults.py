"""Errors in scores: each makes one score or one input unknown, with a reason, and leaves the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

from controller.journal.terms import JournalUnwritten
from protocols.interval import Interval

logger = logging.getLogger(__name__)
T = TypeVar("T")
ADVICE = (
    "and is unknown; the other scores go on. Likely cause: an input that this program does not expect. Next: look at the"
    " readings and results behind it; it comes back by itself when they are well; else send the log to the developers"
)


class ScoreFaults:
    """Holds what cannot be computed at present, and why. It is known again as soon as its computation succeeds."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    @property
    def reasons(self) -> Mapping[str, str]:
        """Why something is unknown, by its name."""
        return MappingProxyType(self._reasons)

    @property
    def causes(self) -> Mapping[tuple[str, str], str]:
        """The causes of alarms: detail by (kind, source)."""
        return {
            ("score_unknown", name): f"{name.replace('_', ' ')} cannot be computed ({why}) {ADVICE}"
            for name, why in self._reasons.items()
        }

    def kept(self, name: str, compute: Callable[[], T], otherwise: T) -> T:
        """Return what `compute` returns, or `otherwise` if it raises. The error is logged once, until it succeeds again."""
        try:
            found = compute()
        except JournalUnwritten:  # the journal raises its own alarm, and what was computed is kept
            return otherwise
        except Exception as error:
            if name not in self._reasons:
                logger.exception("%s cannot be computed and is unknown; the other scores go on", name)
            self._reasons[name] = f"{type(error).__name__}: {error}"
            return otherwise
        self._reasons.pop(name, None)
        return found

    def interval(self, name: str, compute: Callable[[], Interval | None]) -> Interval | None:
        """Return an input of a score; None if it is missing, no finite number, or cannot be computed."""
        found = self.kept(name, compute, None)
        return found if found is not None and found.finite else None
