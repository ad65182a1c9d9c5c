"""The array's clock against UTC: a line through the times at which blocks arrived.

A block arrives some time after its last frame, never before: the delay only adds. So the line goes through the earliest
arrivals of each part of the recording, not through the mean of all. Steps of the computer's clock show as a large residual.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

PARTS = 32
"""The recording is divided into this many parts; of each, the earliest arrival counts."""
MIN_DRIFT_S = 30.0
"""A shorter recording gives no drift: a late arrival of some ms would pass for one."""


@dataclass(frozen=True, slots=True)
class ClockModel:
    """UTC of a frame: `utc_us` at `frame`, and `us_per_frame` from there on.

    `drift_ppm` is how much slower the array's clock runs than the computer's; None where the recording is too short to tell.
    `residual_us` is the largest distance of an arrival that was used from the line.
    """

    frame: int
    utc_us: float
    us_per_frame: float
    drift_ppm: float | None
    residual_us: float

    def utc_at(self, frame: int) -> datetime:
        """Return the UTC of a frame."""
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self.utc_us_at(frame))

    def utc_us_at(self, frame: int) -> float:
        """Return the UTC of a frame in µs since 1970."""
        return self.utc_us + (frame - self.frame) * self.us_per_frame

    def frame_at(self, utc_us: float) -> float:
        """Return the frame at a UTC in µs since 1970; not a whole number."""
        return self.frame + (utc_us - self.utc_us) / self.us_per_frame


def fit_clock(frames: NDArray[Any], utc_us: NDArray[Any], sample_rate_hz: float) -> ClockModel:
    """Return the clock model of arrivals.

    Args:
        frames: End frame of each block, ascending.
        utc_us: When it arrived, µs since 1970.
        sample_rate_hz: Nominal frames a second.

    Raises:
        ValueError: There is no arrival.
    """
    if not len(frames):
        raise ValueError("a recording without a clock row has no UTC; likely cause: it was killed in its first second")
    nominal = 1e6 / sample_rate_hz
    first = int(frames[0])
    at = (frames - first).astype(np.float64)
    late = (utc_us - utc_us[0]).astype(np.float64) - at * nominal
    """How much later than at the nominal rate."""
    if at[-1] * nominal < MIN_DRIFT_S * 1e6 or len(frames) < 4:
        earliest = float(late.min())
        return ClockModel(first, float(utc_us[0]) + earliest, nominal, None, float(late.max() - earliest))
    used = np.array(
        [part[np.argmin(late[part])] for part in np.array_split(np.arange(len(at)), min(PARTS, len(at) // 2))]
    )
    slope, offset = np.polyfit(at[used], late[used], 1)
    residual = float(np.abs(late[used] - (offset + slope * at[used])).max())
    return ClockModel(
        first, float(utc_us[0]) + float(offset), nominal + float(slope), float(slope) / nominal * 1e6, residual
    )
