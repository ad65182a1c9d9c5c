"""The spike detector once more, in the simplest way: a convolution, then one frame after the other (N7, N8).

It knows the detector's constants and nothing of its loops, running sums and blocks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from nerves import kernels as k
from nerves.detections import ALL, Blank

Found = list[tuple[int, int, float]]
F32 = np.float32
ZERO, NEVER = F32(0.0), F32(-np.inf)

LONG, SHORT, LOOK, REFRACTORY, SHADOW, EXCLUDE, RECOVER, ARTEFACT, SETTLE, WINDOW = (
    31,
    5,
    4,
    25,
    62,
    40,
    50,
    25,
    5_000,
    200,
)
"""The lengths at 25 kHz, in frames."""

RATE = 25_000
EVERY = 4
PAST = 24
RAIL = 32_767 - 8


def filtered(x: NDArray[np.int16], uv_per_unit: float) -> NDArray[np.float32]:
    """Convolve with a triangle less a mean of the same middle; whole numbers until the scale."""
    triangle = np.convolve(np.ones(SHORT, int), np.ones(SHORT, int))
    taps = -np.full(LONG, SHORT * SHORT)
    taps[LONG // 2 - SHORT + 1 : LONG // 2 + SHORT] += LONG * triangle
    sums = np.stack([np.convolve(column, taps)[: len(x)] for column in x.T.astype(np.int64)], axis=1)
    return sums.astype(F32) * F32(uv_per_unit / (LONG * SHORT * SHORT))


def _mean(values: list[np.float32]) -> float:
    """Add up one after the other in single precision."""
    total = F32(0.0)
    for value in values:
        total = F32(total + value)
    return float(F32(total / F32(len(values))))


@dataclass
class Channel:
    """The state of one channel."""

    threshold: np.float32 = NEVER
    gate: np.float32 = ZERO
    level: np.float32 = ZERO
    powers: list[np.float32] = field(default_factory=list)
    changes: list[np.float32] = field(default_factory=list)
    excluded_until: int = -(-(LONG + PAST) // EVERY) * EVERY
    candidate: int | None = None
    candidate_uv: np.float32 = ZERO
    last: int = -(1 << 40)
    last_uv: np.float32 = ZERO
    rail: int = -(1 << 40)
    below: bool = False
    mute_until: int = SETTLE
    blank_until: int = -1
    run: int = 0
    flat: int = 0
    seen: int = 0
    crossings: int = 0
    bad: int = 0
    noisy: bool = False

    def end_window(self, frame: int) -> None:
        """Take the mean power of the window into the level."""
        if len(self.powers) < k.MIN_USED:
            return
        power, change = _mean(self.powers), _mean(self.changes)
        self.powers, self.changes = [], []
        if change < k.DEAD_UV**2:
            self.flat += 1
            self.mute_until = max(self.mute_until, frame + WINDOW + LONG + 1)
            return
        was_flat, self.flat = self.flat, 0
        if was_flat >= k.DEAD_WINDOWS:
            self.seen = 0
            self.mute_until = max(self.mute_until, frame + SETTLE)
        if was_flat:
            return
        level = max(self._followed(power), k.FLOOR_UV**2)
        self.level = F32(level)
        sigma = math.sqrt(max(level, k.QUICK_SIGMA**2 * power))
        self.threshold, self.gate = F32(-k.THRESHOLD_SIGMA * sigma), F32(k.GATE_SIGMA * sigma)

    def _followed(self, power: float) -> float:
        level = float(self.level)
        if self.seen < k.SETTLED_WINDOWS:
            self.seen += 1
            return power if self.seen == 1 else level + (min(power, k.MAX_RATIO * level) - level) / self.seen
        if power > (k.UP if self.run < k.QUICK_WINDOWS else 1.0) * level:
            self.run = max(self.run, 0) + 1
        elif power < (k.DOWN if self.run > -k.QUICK_WINDOWS else 1.0) * level:
            self.run = min(self.run, 0) - 1
        else:
            self.run = 0
        gain = k.QUICK_GAIN if abs(self.run) >= k.QUICK_WINDOWS else k.GAIN
        return level + gain * (min(power, k.MAX_RATIO * level) - level)


@dataclass
class Mains:
    """The phase-locked loop on the mean of all channels."""

    hz: float = 50.0
    theta: float = 0.0
    in_phase: float = 0.0
    quadrature: float = 0.0
    slow: float = 0.0
    near: int = 0
    """Windows since the phase is near."""

    @property
    def fresh(self) -> bool:
        """Whether the comb has begun again less than half a second ago."""
        return k.FOLLOWED_WINDOWS <= self.near < k.FOLLOWED_WINDOWS + k.FRESH_WINDOWS

    def mix(self, reference: float) -> None:
        """Take one value of the reference (µV)."""
        self.slow += (reference - self.slow) * (EVERY / (0.05 * RATE))
        for name, wave in (("in_phase", math.sin), ("quadrature", math.cos)):
            old = getattr(self, name)
            mixed = (reference - self.slow) * wave(2.0 * math.pi * self.theta)
            setattr(self, name, old + EVERY / (0.1 * RATE) * (mixed - old))

    def lock(self, comb: NDArray[np.float32]) -> None:
        """Correct phase and frequency, or set the phase and clear the comb."""
        size = math.hypot(self.in_phase, self.quadrature)
        error = math.atan2(self.quadrature, self.in_phase) / (2.0 * math.pi)
        if size < k.LOCK_UV:
            return
        if abs(error) > k.MAX_ERROR_CYCLES:
            self.theta += error
            self.in_phase, self.quadrature, self.near = size, 0.0, 0
            comb[:] = 0.0
        else:
            if self.near >= k.FOLLOWED_WINDOWS:
                lost = size > 4.0 * k.LOCK_UV and abs(error) > k.FAR_CYCLES
            else:
                lost = abs(error) >= k.NEAR_CYCLES
            self.near = 0 if lost else self.near + 1
            if self.near == k.FOLLOWED_WINDOWS:
                comb[:] = 0.0
            self.theta += 2.8 * error * (WINDOW / RATE)
            self.hz = min(max(self.hz + 4.0 * error * (WINDOW / RATE), 49.5), 50.5)


def reference(
    samples: NDArray[np.int16], uv_per_unit: float, blanks: tuple[Blank, ...] = (), mains: bool = True
) -> Found:
    """Return (frame, electrode, µV) of each spike."""
    frames, electrodes = samples.shape
    x = samples.copy()
    deaf = np.zeros((frames, electrodes), bool)
    for blank in blanks:
        columns = slice(None) if blank.electrode == ALL else blank.electrode
        deaf[blank.first_frame : blank.end_frame, columns] = True
    for f in range(frames):
        x[f] = np.where(deaf[f], x[f - 1] if f else 0, x[f])
    y = filtered(x, uv_per_unit)
    channels = [Channel() for _ in range(electrodes)]
    wave = Mains()
    comb = np.zeros((round(RATE / 50), electrodes), F32)
    most = max(4, math.floor(0.3 * electrodes))
    many, rejected = -1_000, -1
    found: Found = []
    for f in range(frames):
        for blank in blanks:
            if f == blank.first_frame:
                for c in range(electrodes) if blank.electrode == ALL else (blank.electrode,):
                    one = channels[c]
                    one.blank_until = max(one.blank_until, blank.end_frame)
                    one.mute_until = max(one.mute_until, blank.end_frame + LONG)
                    one.excluded_until = max(one.excluded_until, _grid(f, blank.end_frame + LONG - f))
        if mains:
            learned = comb[int(wave.theta * len(comb))]
            y[f] -= learned
            gates = np.array([one.gate for one in channels])
            slow = F32(k.COMB_LIMIT) * gates
            learned += F32(k.COMB_GAIN) * np.where(
                (np.abs(y[f]) < gates) | (wave.fresh & (gates > 0)), y[f], np.where(y[f] > 0, slow, -slow)
            )
        below = [bool(y[f, c] < one.threshold) for c, one in enumerate(channels)]
        if sum(below) > most:
            many = f
        ends = any(
            one.candidate is not None and f - one.candidate >= LOOK and y[f, c] >= one.candidate_uv
            for c, one in enumerate(channels)
        )
        artefact = f - many <= k.MANY_FRAMES and ends and _common(f, y, channels)
        if artefact or (many == f and f < rejected):
            rejected = f + LONG + ARTEFACT
            for one in channels:
                one.candidate = None
                one.mute_until = max(one.mute_until, rejected)
                one.excluded_until = max(one.excluded_until, _grid(f, LONG + ARTEFACT))
        for c, one in enumerate(channels):
            found += _search(f, c, y[f, c], below[c], one, x)
        if f % EVERY == 0:
            _fourth(f, x, y[f - PAST] if f >= PAST else np.zeros_like(y[f]), F32(uv_per_unit), channels)
            if mains:
                wave.mix(int(x[f].astype(int).sum()) * uv_per_unit / electrodes)
        if f % WINDOW == 0:
            for one in channels:
                one.end_window(f)
            if mains:
                wave.lock(comb)
        if f % RATE == 0:
            _judge(channels)
        wave.theta += wave.hz * (1.0 / RATE)
        wave.theta -= math.floor(wave.theta)
    return found


def _common(f: int, y: NDArray[np.float32], channels: list[Channel]) -> bool:
    """Whether the live channels have one wave: the first singular vector has their energy, on enough of them."""
    live = [c for c, one in enumerate(channels) if f >= one.mute_until and not one.noisy and one.threshold > NEVER]
    before = (f - 1) // EVERY * EVERY
    rows = [f, *(before - EVERY * k for k in range(PAST // EVERY))]
    sigma = np.array([float(channels[c].threshold) / -k.THRESHOLD_SIGMA for c in live])
    wave = np.array([y[row, live] if row >= 0 else np.zeros(len(live)) for row in rows], float) / sigma
    _, sizes, gains = np.linalg.svd(wave, full_matrices=False)
    common, total = sizes[0] ** 2, (sizes**2).sum()
    power = np.maximum((sizes[0] * gains[0]) ** 2 - 1.0, 0.0)
    reached = power.sum() ** 2 / (power**2).sum()
    if any(f - one.rail < LONG + RECOVER for one in channels):
        reached = (power > k.THRESHOLD_SIGMA**2).sum()
    rest = total - common - (len(rows) - 1) * len(live) + k.SURE * math.sqrt(2.0 * len(rows) * len(live))
    limit = min(k.REST * max(1.0, common / (len(live) * k.LOUD**2)), k.MAX_REST)
    return bool(reached >= 0.6 * len(live) and rest <= limit * (common - len(live)))


def _grid(frame: int, length: int) -> int:
    """The first fourth frame that is taken again after `length` frames of exclusion, counted from the next fourth frame."""
    first = -(-frame // EVERY) * EVERY
    return first + -(-(max(length, 0) + PAST) // EVERY) * EVERY


def _search(f: int, c: int, value: np.float32, below: bool, one: Channel, x: NDArray[np.int16]) -> Found:
    """Follow one channel for one frame."""
    spike: Found = []
    if one.candidate is not None:
        if value < one.candidate_uv and f >= one.blank_until:
            one.candidate, one.candidate_uv = f, value
        elif f - one.candidate >= LOOK:
            at, one.candidate = one.candidate, None
            if at - one.last < SHADOW and one.candidate_uv > k.SHADOW_SHARE * one.last_uv:
                one.below = below
                return spike
            one.last, one.last_uv = at, one.candidate_uv
            window = x[max(at - LONG + 1, 0) : f + 1, c]
            if one.candidate_uv < -k.MAX_SPIKE_UV:
                one.mute_until = max(one.mute_until, f + LONG + ARTEFACT)
            elif (window >= RAIL).any() or (window < -RAIL).any():
                one.rail, one.mute_until = f, max(one.mute_until, f + LONG + RECOVER)
            elif not one.noisy:
                spike = [(at - LONG // 2, c, float(one.candidate_uv))]
    elif below and not one.below:
        one.excluded_until = max(one.excluded_until, _grid(f, EXCLUDE))
        if f >= one.mute_until and f - one.last >= REFRACTORY:
            one.candidate, one.candidate_uv = f, value
            one.crossings += 1
    one.below = below
    return spike


def _fourth(f: int, x: NDArray[np.int16], y: NDArray[np.float32], uv: np.float32, channels: list[Channel]) -> None:
    for c, one in enumerate(channels):
        if x[f, c] >= RAIL or x[f, c] < -RAIL:
            one.rail, one.mute_until = f, max(one.mute_until, f + LONG + RECOVER)
            one.excluded_until = max(one.excluded_until, _grid(f, LONG + RECOVER))
        if f >= one.excluded_until and y[c] < -one.threshold:
            change = F32(int(x[f, c]) - int(x[f - EVERY, c])) * uv
            one.powers.append(F32(y[c] * y[c]))
            one.changes.append(F32(change * change))


def _judge(channels: list[Channel]) -> None:
    levels = [one.level for one in channels if not one.flat and one.seen]
    median = float(np.median(np.array(levels, F32))) if levels else 0.0
    for one in channels:
        ratio = k.CALM_RATIO if one.noisy else k.NOISY_RATIO
        bad = one.level > max(ratio * ratio * median, k.NOISY_UV**2) or one.crossings > k.NOISY_HZ
        one.crossings = 0
        one.bad = max(one.bad, 0) + 1 if bad else min(one.bad, 0) - 1
        one.noisy = one.bad >= k.NOISY_S or (one.noisy and one.bad > -k.CALM_S)
