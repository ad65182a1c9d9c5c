"""Times of journal rows and recorded series, as the parts of a fit read them."""

from __future__ import annotations

from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from controller.journal.terms import Entry
from controller.memory.history_reader import HistoryReader

F8 = NDArray[np.float64]
DAY_S = 86_400.0
WIDTH_S = 600


def seconds(row: Entry) -> float:
    """Return when a row was written (UTC seconds)."""
    return datetime.fromisoformat(row.utc).timestamp()


def means(history: HistoryReader, point: str, begin: float, end: float) -> tuple[F8, F8]:
    """Return the middle (UTC seconds) and the mean of each stretch of a series."""
    found = [
        (each.begin + WIDTH_S / 2.0, each.total / each.n) for each in history.stretches(point, begin, end, WIDTH_S)
    ]
    rows = np.array(found, dtype=np.float64).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]
