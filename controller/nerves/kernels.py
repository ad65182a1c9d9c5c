"""Band-pass filter and spike detector, one numba kernel over frame-major samples.

Every quantity is recursive in the absolute frame index, so the same samples give the same spikes whatever the block size
(N7). The filter is a Butterworth high-pass at 300 Hz and a low-pass at 3 kHz, second order each, as two float32 biquads in
transposed direct form II. The noise level of each electrode is the running median of |y|, by multiplicative stochastic
approximation (σ = median / 0.6745, robust against the spikes themselves; Quiroga et al. 2004 introduced the estimate for
thresholds). A spike is the first frame below −5 σ, at least 2 ms after the one before. There is no look-ahead, and so no
added delay.

During blanking (N8) the filter receives the last good sample, so that an artefact cannot ring through it; nothing is detected
and the noise level is frozen. Crossings on more than 15 % of the electrodes in one frame are an artefact, not spikes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from controller.nerves.device import Frames

HIGH_PASS_HZ = 300.0
LOW_PASS_HZ = 3000.0
THRESHOLD_SIGMA = 5.0
REFRACTORY_S = 2e-3
"""Longer than the filter rings after a large spike, shorter than a neuron's own refractory time."""
SETTLE_S = 0.2
"""Time after a start or a gap (s) in which the noise level adapts fast and nothing is detected."""

MEDIAN_TO_SIGMA = 0.6745
NOISE_EVERY_FRAMES = 8
"""Neighbouring samples are correlated by the filter; every eighth is as informative and cheaper."""

NOISE_STEP_SETTLING = 0.02
NOISE_STEP = 0.0005
"""Relative step per update: about 0.75 s time constant and 2 % scatter at 25 kHz."""

NOISE_START_UV = 5.0
COINCIDENCE = 0.15
ARTEFACT_S = 1e-3
"""Time after a coincidence (s) in which crossings are ignored: electrodes with other noise cross a little later."""

ALL = -1
"""Electrode of a :class:`Blank` that means every electrode."""


@dataclass(frozen=True, slots=True)
class Blank:
    """From `first_frame` up to (not including) `end_frame` nothing is detected on `electrode` (or :data:`ALL`)."""

    electrode: int
    first_frame: int
    end_frame: int


@dataclass(frozen=True, slots=True)
class Spikes:
    """Spikes in the order of frame, then electrode: arrays of equal length. `uv` is the filtered value at the crossing."""

    frames: NDArray[np.int64]
    electrodes: NDArray[np.int32]
    uv: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.frames)


def biquads(sample_rate_hz: float) -> NDArray[np.float32]:
    """Return the band-pass as two rows (b0, b1, b2, a1, a2), by the bilinear transform with pre-warping.

    Raises:
        ValueError: the sample rate is too low for the band.
    """
    if sample_rate_hz <= 2.2 * LOW_PASS_HZ:
        raise ValueError(
            f"{sample_rate_hz:g} Hz is too slow for a band up to {LOW_PASS_HZ:g} Hz; sample at 10 kHz or more"
        )
    rows = []
    for corner_hz, high in ((HIGH_PASS_HZ, True), (LOW_PASS_HZ, False)):
        k = math.tan(math.pi * corner_hz / sample_rate_hz)
        norm = 1.0 / (1.0 + math.sqrt(2.0) * k + k * k)
        b = (norm, -2.0 * norm, norm) if high else (k * k * norm, 2.0 * k * k * norm, k * k * norm)
        rows.append((*b, 2.0 * (k * k - 1.0) * norm, (1.0 - math.sqrt(2.0) * k + k * k) * norm))
    return np.array(rows, dtype=np.float32)


@numba.njit(inline="always")  # type: ignore[untyped-decorator,unused-ignore]
def _take_blanks(  # type: ignore[no-untyped-def]
    frame, next_blank, horizon, blank_until, blank_electrode, blank_first, blank_end
):
    """Apply the blanks that begin by `frame`. Return the next blank, and the last frame that any blank covers."""
    while next_blank < len(blank_first) and blank_first[next_blank] <= frame:
        end = blank_end[next_blank]
        if blank_electrode[next_blank] < 0:
            for c in range(len(blank_until)):
                blank_until[c] = max(blank_until[c], end)
        else:
            c = blank_electrode[next_blank]
            blank_until[c] = max(blank_until[c], end)
        horizon = max(horizon, end)
        next_blank += 1
    return next_blank, horizon


@numba.njit(inline="always")  # type: ignore[untyped-decorator,unused-ignore]
def _hold(row, frame, blanking, uv_per_unit, blank_until, blanked, held):  # type: ignore[no-untyped-def]
    """Take the samples of a frame (µV); a blanked electrode keeps its last good sample."""
    if blanking:
        for c in range(len(held)):
            if frame < blank_until[c]:
                blanked[c] += 1
            else:
                held[c] = np.float32(row[c]) * uv_per_unit
    else:
        for c in range(len(held)):
            held[c] = np.float32(row[c]) * uv_per_unit


@numba.njit(inline="always")  # type: ignore[untyped-decorator,unused-ignore]
def _filter(held, high_pass, low_pass, z0, z1, z2, z3, y):  # type: ignore[no-untyped-def]
    """Filter one frame: two biquads (b0, b1, b2, a1, a2) in transposed direct form II."""
    b00, b01, b02, a01, a02 = high_pass
    b10, b11, b12, a11, a12 = low_pass
    for c in range(len(held)):
        x = held[c]
        u = b00 * x + z0[c]
        z0[c] = b01 * x - a01 * u + z1[c]
        z1[c] = b02 * x - a02 * u
        v = b10 * u + z2[c]
        z2[c] = b11 * u - a11 * v + z3[c]
        z3[c] = b12 * u - a12 * v
        y[c] = v


@numba.njit(inline="always")  # type: ignore[untyped-decorator,unused-ignore]
def _follow_noise(y, frame, settled, blanking, blank_until, factor, level, threshold):  # type: ignore[no-untyped-def]
    """Adapt the noise level and the threshold of each electrode that is not blanked."""
    step = np.float32(NOISE_STEP if settled else NOISE_STEP_SETTLING)
    up = np.float32(1.0) + step
    down = np.float32(1.0) - step
    for c in range(len(y)):
        if not (blanking and frame < blank_until[c]):
            level[c] = level[c] * (up if abs(y[c]) > level[c] else down)
            threshold[c] = -factor * level[c]


@numba.njit(inline="always")  # type: ignore[untyped-decorator,unused-ignore]
def _count_below(y, threshold):  # type: ignore[no-untyped-def]
    """Return the number of electrodes below their threshold."""
    below = 0
    for c in range(len(y)):
        below += y[c] < threshold[c]
    return below


@numba.njit(inline="always")  # type: ignore[untyped-decorator,unused-ignore]
def _detect(y, frame, settled, blanking, blank_until, detector, found, out):  # type: ignore[no-untyped-def]
    """Append the spikes of one frame to the output. Return the new number of spikes."""
    threshold, refractory, was_below, last_spike = detector
    out_frame, out_electrode, out_uv = out
    for c in range(len(y)):
        below = y[c] < threshold[c]
        rising = below and not was_below[c]
        was_below[c] = below
        if not rising or not settled or (blanking and frame < blank_until[c]):
            continue
        if frame - last_spike[c] < refractory:
            continue
        last_spike[c] = frame
        out_frame[found] = frame
        out_electrode[found] = c
        out_uv[found] = y[c]
        found += 1
    return found


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def _filter_and_detect(  # type: ignore[no-untyped-def]
    samples,
    first_frame,
    uv_per_unit,
    sos,
    z,
    held,
    y,
    level,
    threshold,
    was_below,
    last_spike,
    artefact_until,
    blank_until,
    blanked,
    blank_electrode,
    blank_first,
    blank_end,
    refractory,
    settled_at,
    factor,
    max_at_once,
    artefact_frames,
    out_frame,
    out_electrode,
    out_uv,
):
    """Filter a block and detect its spikes. Return the number of spikes and of rejected crossings."""
    found = 0
    artefacts = 0
    next_blank = 0
    horizon = max(np.int64(-1), blank_until.max())
    any_below = was_below.any()
    high_pass = (sos[0, 0], sos[0, 1], sos[0, 2], sos[0, 3], sos[0, 4])
    low_pass = (sos[1, 0], sos[1, 1], sos[1, 2], sos[1, 3], sos[1, 4])
    z0, z1, z2, z3 = z[0], z[1], z[2], z[3]
    detector = (threshold, refractory, was_below, last_spike)
    out = (out_frame, out_electrode, out_uv)
    for f in range(samples.shape[0]):
        frame = first_frame + f
        next_blank, horizon = _take_blanks(
            frame, next_blank, horizon, blank_until, blank_electrode, blank_first, blank_end
        )
        blanking = frame < horizon
        settled = frame >= settled_at
        _hold(samples[f], frame, blanking, uv_per_unit, blank_until, blanked, held)
        _filter(held, high_pass, low_pass, z0, z1, z2, z3, y)
        if frame % NOISE_EVERY_FRAMES == 0:
            _follow_noise(y, frame, settled, blanking, blank_until, factor, level, threshold)
        below_now = _count_below(y, threshold)
        if below_now == 0 and not any_below:
            continue
        start = found
        found = _detect(y, frame, settled, blanking, blank_until, detector, found, out)
        any_below = below_now > 0
        if found - start > max_at_once:
            artefact_until[0] = frame + artefact_frames
        if frame < artefact_until[0]:
            artefacts += found - start
            found = start
    return found, artefacts


class SpikeDetector:
    """Filter and detector with their state, for one stream of frames.

    `process` takes blocks of any size; call `restart` at a gap in the stream. Memory is bounded by the largest block.
    """

    def __init__(self, electrodes: int, sample_rate_hz: float, uv_per_unit: float, *, first_frame: int = 0) -> None:
        self._electrodes = electrodes
        self._uv_per_unit = np.float32(uv_per_unit)
        self._sos = biquads(sample_rate_hz)
        self._refractory = round(REFRACTORY_S * sample_rate_hz)
        self._settle = round(SETTLE_S * sample_rate_hz)
        self._max_at_once = max(3, math.floor(COINCIDENCE * electrodes))
        self._factor = np.float32(THRESHOLD_SIGMA / MEDIAN_TO_SIGMA)
        self._level = np.full(electrodes, NOISE_START_UV, np.float32)
        self._threshold = -self._factor * self._level
        self._y = np.zeros(electrodes, np.float32)
        self._held = np.zeros(electrodes, np.float32)
        self._blank_until = np.full(electrodes, -1, np.int64)
        self._last_spike = np.full(electrodes, -(1 << 62), np.int64)
        self._artefact_until = np.full(1, -1, np.int64)
        self._artefact_frames = round(ARTEFACT_S * sample_rate_hz)
        self._capacity = 0
        self._pending: list[Blank] = []
        self.blanked_frames = np.zeros(electrodes, np.int64)
        """Frames blanked so far, by electrode (N8)."""
        self.artefacts = 0
        """Number of crossings that were rejected because too many electrodes crossed in one frame."""
        self.restart(first_frame)

    @property
    def noise_uv(self) -> NDArray[np.float32]:
        """Noise level σ of each electrode (µV)."""
        return self._level / np.float32(MEDIAN_TO_SIGMA)

    def restart(self, frame: int) -> None:
        """Start again at `frame` after a gap: the state of the filter belongs to samples before it."""
        self._z = np.zeros((4, self._electrodes), np.float32)
        self._was_below = np.zeros(self._electrodes, np.bool_)
        self._settled_at = frame + self._settle

    def blank(self, blanks: Sequence[Blank]) -> None:
        """Announce blanking. A blank takes effect from its first frame, or from the next processed frame."""
        self._pending.extend(blanks)

    def process(self, samples: Frames, first_frame: int) -> Spikes:
        """Filter one block and return its spikes, as copies."""
        now = self._blanks_until(first_frame + len(samples))
        if samples.size > self._capacity:
            self._capacity = samples.size
            self._frames = np.empty(self._capacity, np.int64)
            self._where = np.empty(self._capacity, np.int32)
            self._uv = np.empty(self._capacity, np.float32)
        found, artefacts = _filter_and_detect(
            samples,
            first_frame,
            self._uv_per_unit,
            self._sos,
            self._z,
            self._held,
            self._y,
            self._level,
            self._threshold,
            self._was_below,
            self._last_spike,
            self._artefact_until,
            self._blank_until,
            self.blanked_frames,
            _array([blank.electrode for blank in now]),
            _array([blank.first_frame for blank in now]),
            _array([blank.end_frame for blank in now]),
            self._refractory,
            self._settled_at,
            self._factor,
            self._max_at_once,
            self._artefact_frames,
            self._frames,
            self._where,
            self._uv,
        )
        self.artefacts += artefacts
        return Spikes(self._frames[:found].copy(), self._where[:found].copy(), self._uv[:found].copy())

    def _blanks_until(self, end: int) -> list[Blank]:
        """Take the announced blanks that begin before frame `end`, in order."""
        pending, self._pending = self._pending, [blank for blank in self._pending if blank.first_frame >= end]
        return sorted((blank for blank in pending if blank.first_frame < end), key=lambda blank: blank.first_frame)


def _array(values: list[int]) -> NDArray[np.int64]:
    return np.array(values, np.int64) if values else _NONE


_NONE = np.empty(0, np.int64)


def warm_up(electrodes: int) -> None:
    """Compile (or load from the cache) before the first real frame arrives."""
    SpikeDetector(electrodes, 25_000.0, 0.195).process(np.zeros((25, electrodes), np.int16), 0)
