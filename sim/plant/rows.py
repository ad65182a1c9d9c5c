"""Rows of contents: sums, and what a leak takes from them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sim.plant.columns import COLUMNS, Content, LineRecord, TallyCause
from sim.plant.compiled import inlined

F8 = NDArray[np.float64]


@inlined
def add(row: F8, arriving: F8) -> None:
    """Add a row of contents to another."""
    for column in range(COLUMNS):
        row[column] += arriving[column]


@inlined
def remove_negative(leaving: F8) -> None:
    """Set rounded sums to 0: nothing that leaves can be negative, except the charge of a strong acid."""
    for column in range(COLUMNS):
        if leaving[column] < 0.0 and column != Content.ALKALINITY:
            leaving[column] = 0.0


@inlined
def leak(line: LineRecord, leaving: F8, tally: F8, dt_s: float) -> None:
    """Lose the part of what leaves a line that its leak takes."""
    if line.leak_ul_min <= 0.0 or leaving[Content.LIQUID] <= 0.0:
        return
    part = min(1.0, line.leak_ul_min * dt_s / 60.0 / leaving[Content.LIQUID])
    for column in range(COLUMNS):
        lost = leaving[column] * part
        leaving[column] -= lost
        tally[TallyCause.LEAK, column] -= lost
