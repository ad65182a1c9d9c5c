"""Templates of stimulation artefacts: which pulse uses which place, and the memory of their waves.

The loops are in :mod:`nerves.kernels`. A template belongs to what is stimulated in one frame, electrodes and phases. It holds
for each channel the wave that the filter makes of the artefact. Memory is bounded: the kind that came longest ago loses its
place.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nerves import kernels
from nerves.detections import ALL, BLANK_OTHERS_S, BLANK_OWN_S, Blank, StimulatedFrame

HELD_S = 0.4e-3
"""Time after a pulse (s) in which samples are held in any case: amplifiers recover."""

MARGIN = 4
"""Frames from a crossing to its trough that the filter needs after the held samples."""

MAX_LENGTH_S = 1e-3
"""Longer pulses are blanked."""

MEMORY_BYTES = 32 << 20
MAX_KINDS = 64
NO_PULSES = np.empty((0, kernels.PULSE), np.int64)


class ArtefactTemplates:
    """The templates of one detector."""

    def __init__(self, electrodes: int, sample_rate_hz: float, delay: int, clear: int) -> None:
        self._rate, self._delay, self._clear = sample_rate_hz, delay, clear
        frames = self._frames(MAX_LENGTH_S + BLANK_OWN_S) + clear
        kinds = min(MAX_KINDS, max(2, MEMORY_BYTES // (9 * frames * electrodes)))
        self._places: OrderedDict[object, int] = OrderedDict()
        self._free = list(range(kinds))
        self._waiting: list[tuple[StimulatedFrame, int, bool]] = []
        self._pulse = np.full(kernels.PULSE, -1, np.int64)
        self._pulse[kernels.SLOT] = 0
        shape = (kinds, frames, electrodes)
        self._stim = (
            np.zeros(shape, np.float32),
            np.zeros(shape, np.float32),
            np.zeros(shape, np.bool_),
            np.zeros((kinds, electrodes), np.bool_),
            np.zeros(kinds, np.int64),
            np.zeros((kernels.FITS, electrodes), np.float32),
        )

    def _frames(self, seconds: float) -> int:
        return round(seconds * self._rate)

    def restart(self) -> None:
        """Forget the present wave: frames of it are missing."""
        self._pulse[[kernels.END, kernels.LEARNS, kernels.SUBTRACTS]] = -1, 0, 0

    def take(self, stimulated: Iterable[StimulatedFrame]) -> tuple[list[Blank], list[StimulatedFrame]]:
        """Take pulses that have been delivered.

        Args:
            stimulated: The pulses.

        Returns:
            Samples that are held, and the pulses that must be blanked instead, as no template can hold them.
        """
        held, refused = [], []
        used = {place for _, place, _ in self._waiting}
        for each in stimulated:
            place = self._places.get(each.kind)
            new = place is None
            if place is None and each.length_s <= MAX_LENGTH_S:
                place = self._free.pop() if self._free else self._oldest(used)
            if place is None:
                refused.append(each)
                continue
            self._places[each.kind] = place
            self._places.move_to_end(each.kind)
            used.add(place)
            if new:
                self._stim[3][place] = False
                self._stim[3][place, [electrode for electrode, _ in each.pulses]] = True
            self._waiting.append((each, place, new))
            held.append(Blank(ALL, each.frame, each.frame + self._frames(each.length_s + HELD_S)))
        return held, refused

    def _oldest(self, used: set[int]) -> int | None:
        """Take the place of the kind that came longest ago and has no pulse that waits."""
        for kind, place in self._places.items():
            if place not in used:
                del self._places[kind]
                return place
        return None

    def before(self, end: int) -> tuple[NDArray[np.int64], NDArray[np.int64], tuple[NDArray[Any], ...]]:
        """Return what the compiled functions get: pulses that begin before frame `end`, the present one, templates."""
        return self._due(end) if self._waiting else NO_PULSES, self._pulse, self._stim

    def _due(self, end: int) -> NDArray[np.int64]:
        """Take the pulses that begin before frame `end`, in order, as rows."""
        due = sorted((each for each in self._waiting if each[0].frame < end), key=lambda each: each[0].frame)
        self._waiting = [each for each in self._waiting if each[0].frame >= end]
        rows = np.zeros((len(due), kernels.PULSE), np.int64)
        for row, (each, place, new) in zip(rows, due, strict=True):
            held, others, own = (
                each.frame + self._frames(each.length_s + after_s) for after_s in (HELD_S, BLANK_OTHERS_S, BLANK_OWN_S)
            )
            row[:] = each.frame, held, held + self._delay + MARGIN, own + self._clear, place, new, 0, others, own
        return rows
