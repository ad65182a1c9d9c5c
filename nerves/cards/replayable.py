"""Recordings that can be replayed without another library: Choroid's own, and raw samples.

:mod:`nerves.cards.replayable_neo` and :mod:`nerves.cards.replayable_nwb` have those of other programs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nerves.cards.contract import CardRefused, Delivery, Frames
from nerves.cards.geometry import ArrayGeometry
from nerves.cards.playback import ReplayStretch

FLOAT_UV = 0.195
"""Microvolts of one unit where samples are no whole numbers: the step of Intan's amplifiers; ±6.4 mV fit."""
_ROUND = 1e-6


class Scaling:
    """Turns samples of a file into units of one size.

    Whole numbers with one gain stay as they are, moved by an offset of whole units. All else is rounded to `uv_per_unit`, and
    saturates at the ends of int16.
    """

    def __init__(self, dtype: np.dtype[Any], gains_uv: NDArray[np.float64], offsets_uv: NDArray[np.float64]) -> None:
        """Take the microvolts of one unit, and at zero, of each electrode."""
        whole = np.issubdtype(dtype, np.integer)
        self._gains, self._offsets = gains_uv, offsets_uv
        self.uv_per_unit = float(gains_uv.max()) if whole else FLOAT_UV
        shifts = offsets_uv / self.uv_per_unit
        same = np.allclose(gains_uv, self.uv_per_unit, rtol=_ROUND)
        self._exact = bool(whole and same and np.allclose(shifts, np.round(shifts), atol=1e-3))
        self._shifts = np.round(shifts).astype(np.int64)

    def units(self, samples: NDArray[Any]) -> Frames:
        """Convert samples to units.

        Args:
            samples: As the file has them, shape (frames, electrodes).

        Returns:
            The same shape, in units of `uv_per_unit`.
        """
        if self._exact and samples.dtype == np.int16 and not self._shifts.any():
            return np.ascontiguousarray(samples)
        if self._exact:
            moved = samples.astype(np.int64) + self._shifts
        else:
            moved = np.round(np.nan_to_num(samples * self._gains + self._offsets) / self.uv_per_unit)
        units: Frames = np.clip(moved, -32_768, 32_767).astype(np.int16)
        return units


@dataclass
class OwnRecording:
    """Holds a recording of Choroid (docs/recording.md) for a replay, with its gaps."""

    name: str
    electrodes: int
    sample_rate_hz: float
    uv_per_unit: float
    simulated: bool
    stretches: tuple[ReplayStretch, ...]
    geometry: ArrayGeometry | None = None
    deliveries: tuple[Delivery, ...] = ()

    def close(self) -> None:
        """Do nothing: no file is open."""


@dataclass
class RawSamples:
    """Holds a file of little-endian int16, frame after frame, for a replay."""

    name: str
    electrodes: int
    sample_rate_hz: float
    uv_per_unit: float
    stretches: tuple[ReplayStretch, ...]
    simulated: bool = False
    geometry: None = None
    deliveries: tuple[Delivery, ...] = ()

    def close(self) -> None:
        """Do nothing: only a mapping is open, which ends with the last piece."""


def raw_samples(path: Path, electrodes: int, sample_rate_hz: float, uv_per_unit: float) -> RawSamples:
    """Open a file of raw samples.

    Args:
        path: The file: little-endian int16, frame after frame.
        electrodes: Samples in a frame.
        sample_rate_hz: Frames in a second.
        uv_per_unit: Microvolts of one unit of a sample.

    Returns:
        The recording, which is one stretch.

    Raises:
        CardRefused: They cannot be read, or are no whole number of frames.
    """
    try:
        flat = np.memmap(path, "<i2", "r")
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    if len(flat) % electrodes or not len(flat):
        raise CardRefused(
            f"{path} has {len(flat)} samples, which is no whole number of frames of {electrodes} electrodes. Likely cause:"
            " another number of electrodes, or another format. Next: correct nerves: electrodes"
        )
    frames: NDArray[np.int16] = flat.reshape(-1, electrodes)

    def read(first: int, end: int) -> Frames:
        return np.array(frames[first:end], np.int16)

    return RawSamples(path.name, electrodes, sample_rate_hz, uv_per_unit, (ReplayStretch(0, len(frames), read),))


def unreadable(path: Path, error: Exception) -> CardRefused:
    """Return the refusal of a file that cannot be read.

    Args:
        path: The file.
        error: What went wrong.

    Returns:
        The error to raise.
    """
    return CardRefused(
        f"{path} cannot be replayed ({error}). Likely cause: the path is wrong, or the file is damaged or of another format."
        " Next: see the formats in docs/cards.md"
    )


def without_frames(path: Path) -> CardRefused:
    """Return the refusal of a recording without raw samples.

    Args:
        path: The recording.

    Returns:
        The error to raise.
    """
    return CardRefused(
        f"{path} has no raw samples. Likely cause: it was recorded with frames: false, or is empty. Next: choose another"
        " recording"
    )
