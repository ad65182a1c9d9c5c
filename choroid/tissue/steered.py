"""Tissue that steers: two sensory groups of electrodes are probed, two motor groups are read, and sequences train it.

The spikes of the motor groups from 10 to 30 ms after a probe, in relation to their running means, are the drive. A training
pattern is a motor group, a sensory group and the other motor group in sequence, 10 ms apart, repeated. Which motor group
drives to which side is the assignment. A culture prefers one assignment before any training: a result needs both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from choroid.tissue.window import SitePulse, StimulatedTissue

WINDOW_S = 0.2
PULSE_AT_S = 0.002
READ_S = (0.010, 0.030)
"""What is read of a window, from the probe on: after the direct responses, before a network burst."""
PROBE_UA, TRAINING_UA = 1.5, 3.0
REPEAT_S, DELAY_S = 0.2, 0.010
MEAN_WINDOWS = 100.0
"""Time constant of the running mean of a motor group, in windows."""
SENSORY = (((2, 3), (0, 1)), ((2, 3), (3, 4)))
MOTOR = (((0, 1), (1, 2, 3)), ((4, 5), (1, 2, 3)))
"""Columns and rows of the two sensory and the two motor groups on a square grid of six columns."""
COLUMNS = 6
PATTERNS = len(SENSORY) * len(MOTOR)


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """What followed a probe.

    `spikes` are those of the motor groups of the left and of the right side, shape (2,); `drive` is −1 (left) to 1 (right).
    """

    spikes: NDArray[np.float64]
    drive: float


class SteeredTissue:
    """The groups of electrodes on a tissue, with one assignment of motor groups to sides."""

    def __init__(self, tissue: StimulatedTissue, *, swapped: bool) -> None:
        """Find the groups.

        Args:
            tissue: On an array with six columns.
            swapped: Whether the second motor group drives to the left, and the first to the right.
        """
        usable = tissue.usable()
        self.swapped = swapped
        self._tissue = tissue
        self._sensory = [_group(place, usable) for place in SENSORY]
        self._motor = [_group(place, usable) for place in MOTOR]
        self._sides = [1, 0] if swapped else [0, 1]
        self._mean = np.ones(len(MOTOR))
        self._windows = 0

    def probe(self, side: int) -> ProbeAnswer:
        """Probe the tissue with a side: 0 left, 1 right."""
        pulses = [SitePulse(PULSE_AT_S, electrode, PROBE_UA) for electrode in self._sensory[side]]
        counts = self._tissue.window(WINDOW_S, pulses).counts(PULSE_AT_S + READ_S[0], PULSE_AT_S + READ_S[1])
        read = np.array([counts[list(self._motor[group])].sum() for group in self._sides], np.float64)
        relative = (read - self._mean) / np.sqrt(self._mean + 0.5)
        self._windows += 1
        self._mean += (read - self._mean) / min(self._windows, MEAN_WINDOWS)
        return ProbeAnswer(read, math.tanh(float(relative[1] - relative[0])))

    def train(self, sensory: int, side: int, *, repeats: int, pause_s: float) -> None:
        """Stimulate a motor group, a sensory group and the motor group of a side in sequence, then pause.

        Args:
            sensory: The sensory group.
            side: Whose motor group comes last.
            repeats: How often.
            pause_s: Pause afterwards (s).
        """
        self._stimulate(
            (self._motor[self._sides[1 - side]], self._sensory[sensory], self._motor[self._sides[side]]), repeats
        )
        self._tissue.window(pause_s)

    def train_group(self, sensory: int, motor: int, *, repeats: int, pause_s: float) -> None:
        """As :meth:`train`, with the number of the motor group that comes last, whatever its side."""
        self.train(sensory, self._sides[motor], repeats=repeats, pause_s=pause_s)

    def _stimulate(self, groups: Sequence[Sequence[int]], repeats: int) -> None:
        pulses = [
            SitePulse(PULSE_AT_S + number * DELAY_S, electrode, TRAINING_UA)
            for number, group in enumerate(groups)
            for electrode in group
        ]
        for _ in range(repeats):
            self._tissue.window(REPEAT_S, pulses)


def _group(place: tuple[Sequence[int], Sequence[int]], usable: Sequence[int]) -> tuple[int, ...]:
    columns, rows = place
    return tuple(e for e in (row * COLUMNS + column for row in rows for column in columns) if e in usable)
