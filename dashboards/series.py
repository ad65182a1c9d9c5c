"""Reduce the points of a series for a plot, and keep every peak."""

from __future__ import annotations

from collections.abc import Sequence

from controller.memory.history import SeriesPoint

Row = tuple[float, float, float, float]


def thinned(rows: Sequence[SeriesPoint], max_rows: int) -> list[Row]:
    """Return at most `max_rows` rows `(at, mean, min, max)`: join neighbours, keep their minimum and maximum."""
    if len(rows) <= max_rows:
        return [(row.at, row.mean, row.least, row.most) for row in rows]
    joined: list[Row] = []
    for i in range(max_rows):
        some = rows[i * len(rows) // max_rows : (i + 1) * len(rows) // max_rows]
        n = len(some)
        joined.append(
            (
                sum(row.at for row in some) / n,
                sum(row.mean for row in some) / n,
                min(row.least for row in some),
                max(row.most for row in some),
            )
        )
    return joined
