"""Thinning a series for the eye: fewer points, and every peak still there."""

from __future__ import annotations

from collections.abc import Sequence

from controller.memory.history import SeriesPoint

Row = tuple[float, float, float, float]


def thinned(rows: Sequence[SeriesPoint], most: int) -> list[Row]:
    """At most `most` rows `(at, mean, least, most)`: neighbours are joined, their least and greatest are kept."""
    if len(rows) <= most:
        return [(row.at, row.mean, row.least, row.most) for row in rows]
    joined: list[Row] = []
    for i in range(most):
        some = rows[i * len(rows) // most : (i + 1) * len(rows) // most]
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
