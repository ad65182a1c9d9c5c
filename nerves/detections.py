"""What the detector of spikes receives and returns, for those who detect nothing themselves."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ALL = -1
"""Electrode of a :class:`Blank` that means every electrode."""

BLANK_OWN_S = 0.005
"""Blanked time of the stimulated electrode after a pulse; the other electrodes: `BLANK_OTHERS_S`."""

BLANK_OTHERS_S = 0.002

UNOBSERVED = np.dtype([("first_frame", "<i8"), ("end_frame", "<i8"), ("electrode", "<i4"), ("cause", "u1")])
"""Rows of stretches in which no trough could be found; `end_frame` is not included, electrode −1 means all, the cause is a
`MuteCause`.
"""


@dataclass(frozen=True, slots=True)
class Blank:
    """From `first_frame` up to (not including) `end_frame` nothing is detected on `electrode` (or :data:`ALL`)."""

    electrode: int
    first_frame: int
    end_frame: int


@dataclass(frozen=True, slots=True)
class StimulatedFrame:
    """Pulses that began in one frame, by electrode and length (s). Those of one `kind` have the same artefact."""

    frame: int
    pulses: tuple[tuple[int, float], ...]
    kind: Hashable

    @property
    def length_s(self) -> float:
        """Length of the longest."""
        return max(length_s for _, length_s in self.pulses)

    def blanks(self, sample_rate_hz: float) -> list[Blank]:
        """Return what is blanked around them (N8)."""
        rate = sample_rate_hz
        return [
            blank
            for electrode, length_s in self.pulses
            for blank in blanks_after(electrode, self.frame, length_s, rate)
        ]


def blanks_after(electrode: int, frame: int, length_s: float, sample_rate_hz: float) -> list[Blank]:
    """Return what is blanked around a pulse of `length_s` that begins at `frame` (N8)."""
    others = frame + round((length_s + BLANK_OTHERS_S) * sample_rate_hz)
    own = frame + round((length_s + BLANK_OWN_S) * sample_rate_hz)
    return [Blank(ALL, frame, others), Blank(electrode, frame, own)]


@dataclass(frozen=True, slots=True)
class Spikes:
    """Spikes in the order of frame, then electrode: arrays of equal length. `frames` and `uv` are those of the trough."""

    frames: NDArray[np.int64]
    electrodes: NDArray[np.int32]
    uv: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.frames)
