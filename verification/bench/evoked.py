"""Spikes soon after a pulse: recall and false detections with blanking and with subtraction of the artefact.

SpikeInterface makes noise and templates as for the other recordings. The artefacts are those of a simple model of amplifiers:
on each channel two exponentials, a slow undershoot, and on a third of them ringing, with constants of their own for each pair
of channels. Their size changes by 3 % (SD) from pulse to pulse and drifts by 20 %, their time constants change by 2 %, and
the pulse begins up to 0.2 frames early or late. The stimulated electrode is at a rail. Nothing of the detector is used to
make them.

Each unit answers a pulse with one spike at a latency of its own; *locked* ones come at 95 % of the pulses, to 0.03 ms, as if
an axon was stimulated.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nerves.detections import StimulatedFrame
from nerves.detector import LINEAR_PHASE, Detection, SpikeDetector, SpikeFilter
from nerves.mutes import MuteLog
from verification.bench.ground_truth import BEFORE_MS, RAIL, RATE_HZ, UV_PER_UNIT, Plan, band_pass, generate

CHANNELS, SECONDS, WARM_UP_S = 16, 60.0, 12.0
"""The warm-up has the first ten pulses of each kind or more."""

STIMULATED = (0, 5, 10, 15)
PULSE_S = 0.4e-3
INTERVAL_S = (0.08, 0.15)
LATENCIES_MS = (0.5, 6.5)
EDGES_MS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
WITHIN = round(0.6e-3 * RATE_HZ)
BLOCK = 25


@dataclass(frozen=True, slots=True)
class EvokedTruth:
    """A recording with pulses. Spikes are (frame, channel); `after_ms` is their time after the end of the pulse that evoked
    them, NaN for the others, `locked` whether they come with each pulse."""

    samples: NDArray[np.int16]
    pulses: NDArray[np.int64]
    electrodes: NDArray[np.int64]
    frames: NDArray[np.int64]
    channels: NDArray[np.int64]
    after_ms: NDArray[np.float64]
    locked: NDArray[np.bool_]


def generate_evoked(snr: float, seed: int = 1, artefact_uv: float = 400.0, seconds: float = SECONDS) -> EvokedTruth:
    """Return a recording; `artefact_uv` is the median size of an artefact on another channel at the end of the pulse."""
    rng = np.random.default_rng([seed, round(10 * snr)])
    truth = generate(Plan("plain", 0.0, CHANNELS, seconds, seed))
    uv = truth.samples.astype(np.float64) * UV_PER_UNIT
    size_uv = snr * float(band_pass(uv[: round(20 * RATE_HZ)]).std())
    pulses = np.rint(np.cumsum(rng.uniform(*INTERVAL_S, int(seconds / INTERVAL_S[0]))) * RATE_HZ).astype(np.int64)
    pulses = pulses[pulses < (seconds - 0.1) * RATE_HZ]
    electrodes = np.array(STIMULATED)[rng.integers(0, len(STIMULATED), len(pulses))]
    rows = _spikes(rng, pulses, electrodes, seconds)
    before = round(BEFORE_MS * 1e-3 * RATE_HZ)
    for frame, channel, _, _ in rows:
        wave = truth.templates[int(channel), :, int(channel)] * size_uv
        uv[int(frame) - before : int(frame) - before + len(wave), int(channel)] += wave
    _add_artefacts(rng, uv, pulses, electrodes, artefact_uv)
    samples = np.rint(uv / UV_PER_UNIT).clip(-RAIL - 1, RAIL).astype(np.int16)
    frames, channels, after_ms, locked = np.array(sorted(rows)).T
    return EvokedTruth(
        samples, pulses, electrodes, frames.astype(int), channels.astype(int), after_ms, locked.astype(np.bool_)
    )


def _spikes(
    rng: np.random.Generator, pulses: NDArray[np.int64], electrodes: NDArray[np.int64], seconds: float
) -> list[tuple[float, float, float, float]]:
    """Return frame, channel, time after the pulse (ms) and whether it is locked, of evoked and of other spikes."""
    latency_ms = rng.uniform(*LATENCIES_MS, (CHANNELS, CHANNELS))
    jitter_ms, chance = rng.uniform(0.2, 0.6, (CHANNELS, CHANNELS)), rng.uniform(0.3, 0.9, (CHANNELS, CHANNELS))
    locked = rng.random((CHANNELS, CHANNELS)) < 0.2
    jitter_ms[locked], chance[locked] = 0.03, 0.95
    rows: list[tuple[float, float, float, float]] = []
    for channel in range(CHANNELS):
        mine = []
        for pulse, electrode in zip(pulses, electrodes, strict=True):
            after = rng.normal(latency_ms[electrode, channel], jitter_ms[electrode, channel])
            if rng.random() < chance[electrode, channel] and after > 0.3:
                frame = round(pulse + (PULSE_S + after * 1e-3) * RATE_HZ)
                exact_ms = (frame - pulse) / RATE_HZ * 1e3 - PULSE_S * 1e3
                mine.append((frame, channel, exact_ms, float(locked[electrode, channel])))
        taken = np.array([each[0] for each in mine])
        for other in np.rint(np.cumsum(0.005 + rng.exponential(0.25, int(5 * seconds))) * RATE_HZ):
            if 0.1 * RATE_HZ < other < (seconds - 0.1) * RATE_HZ and np.abs(taken - other).min() > 0.004 * RATE_HZ:
                mine.append((int(other), channel, float("nan"), 0.0))
        rows += mine
    return rows


def _add_artefacts(
    rng: np.random.Generator,
    uv: NDArray[np.float64],
    pulses: NDArray[np.int64],
    electrodes: NDArray[np.int64],
    artefact_uv: float,
) -> None:
    """Add the artefact of each pulse to all channels, in place."""
    shape = (CHANNELS, CHANNELS)
    size = artefact_uv * np.exp(rng.normal(0.0, 0.7, shape)) * rng.choice((-1.0, 1.0), shape)
    size[np.arange(CHANNELS), np.arange(CHANNELS)] = 10_000.0
    quick_ms, slow_ms = rng.uniform(0.15, 0.6, shape), rng.uniform(0.8, 3.0, shape)
    late_ms, ring_hz = rng.uniform(8.0, 25.0, shape), rng.uniform(1e3, 4e3, shape)
    slow, late = rng.uniform(0.05, 0.3, shape), -rng.uniform(0.01, 0.05, shape)
    ring = np.where(rng.random(shape) < 1.0 / 3.0, rng.uniform(0.05, 0.3, shape), 0.0)
    for number, (first, electrode) in enumerate(zip(pulses, electrodes, strict=True)):
        t_ms = (np.arange(round(0.08 * RATE_HZ)) + rng.uniform(-0.2, 0.2)) / RATE_HZ * 1e3
        after = np.maximum(t_ms - PULSE_S * 1e3, 0.0)[:, None] / rng.normal(1.0, 0.02, CHANNELS)
        e = electrode
        tail = (1.0 - slow[e]) * np.exp(-after / quick_ms[e]) + slow[e] * np.exp(-after / slow_ms[e])
        tail += late[e] * np.exp(-after / late_ms[e])
        tail += ring[e] * np.sin(2 * np.pi * ring_hz[e] * after * 1e-3) * np.exp(-after / 0.3)
        t = t_ms[:, None]
        wave = np.where(t < 0.0, 0.0, np.where(t < 0.2, -8.0, np.where(t < 0.4, 8.0, tail)))
        drift = 1.0 + 0.2 * number / len(pulses)
        wave = wave * size[e] * drift * rng.normal(1.0, 0.03, CHANNELS)
        uv[first : first + len(wave)] += wave


def found_spikes(
    truth: EvokedTruth, *, subtract: bool, band: SpikeFilter = LINEAR_PHASE, block: int = BLOCK
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.void]]:
    """Return frames and channels of the spikes that are found, and the stretches in which none could be."""
    detector = SpikeDetector(
        CHANNELS, RATE_HZ, UV_PER_UNIT, detection=Detection(filter=band, subtract_artefacts=subtract)
    )
    mutes = MuteLog(detector, CHANNELS)
    told = 0
    found, hidden = [], []
    for first in range(0, len(truth.samples), block):
        end = min(first + block, len(truth.samples))
        while told < len(truth.pulses) and truth.pulses[told] < end:
            electrode = int(truth.electrodes[told])
            detector.stimulated([StimulatedFrame(int(truth.pulses[told]), ((electrode, PULSE_S),), electrode)])
            told += 1
        found.append(detector.process(truth.samples[first:end], first))
        hidden.append(mutes.take(first, end))
    frames = np.concatenate([spikes.frames for spikes in found])
    return frames, np.concatenate([spikes.electrodes for spikes in found]).astype(np.int64), np.concatenate(hidden)


def score_evoked(
    truth: EvokedTruth,
    frames: NDArray[np.int64],
    channels: NDArray[np.int64],
    hidden: NDArray[np.void],
    from_s: float = WARM_UP_S,
) -> dict[str, float]:
    """Return recall by time after the pulse, of all spikes, hidden ones included, and the false ones up to 6.5 ms.

    `missed_in_sight` is the share of the spikes that were missed though nothing hid them; `observed_from_ms` the median time
    after the end of a pulse from which on a channel that is not stimulated is observed.
    """
    from_frame = round(from_s * RATE_HZ)
    hit, false, seen = np.zeros(len(truth.frames), np.bool_), 0, np.zeros(len(truth.frames), np.bool_)
    begins: list[NDArray[np.float64]] = []
    ends = truth.pulses + round(PULSE_S * RATE_HZ)
    for channel in range(CHANNELS):
        mine = np.flatnonzero(truth.channels == channel)
        at, peaks = truth.frames[mine], np.sort(frames[channels == channel])
        k = 0
        taken = np.zeros(len(peaks), np.bool_)
        for index, frame in zip(mine, at, strict=True):
            while k < len(peaks) and peaks[k] < frame - WITHIN:
                k += 1
            if k < len(peaks) and peaks[k] <= frame + WITHIN:
                hit[index] = taken[k] = True
                k += 1
        after = peaks - ends[np.maximum(np.searchsorted(truth.pulses, peaks, "right") - 1, 0)]
        false += int((~taken & (after < 6.5e-3 * RATE_HZ) & (peaks > from_frame)).sum())
        rows = hidden[(hidden["electrode"] == channel) | (hidden["electrode"] == -1)]
        covered = np.zeros(len(truth.samples) + 500, np.bool_)
        for row in rows:
            covered[max(row["first_frame"], 0) : row["end_frame"]] = True
        seen[mine] = ~covered[at]
        for pulse, end, electrode in zip(truth.pulses, ends, truth.electrodes, strict=True):
            if pulse > from_frame and electrode != channel:
                begins.append(np.array([np.argmin(covered[end : end + 300])]))
    counted = truth.frames > from_frame
    figures = {}
    for kind, which in (("", ~truth.locked), ("locked_", truth.locked)):
        for low, high in pairwise(EDGES_MS):
            chosen = counted & which & (truth.after_ms >= low) & (truth.after_ms < high)
            figures[f"{kind}recall_{low:g}_to_{high:g}_ms"] = (
                float(hit[chosen].mean()) if chosen.any() else float("nan")
            )
        chosen = counted & which & (truth.after_ms >= EDGES_MS[0]) & (truth.after_ms < EDGES_MS[-1])
        figures[f"{kind}missed_in_sight"] = float((~hit & seen & chosen).sum()) / max(int(chosen.sum()), 1)
    evoked = int((counted & hit & (truth.after_ms < 6.5)).sum())
    figures["false"] = false / max(false + evoked, 1)
    figures["false_for_each_pulse_and_channel"] = false / int((truth.pulses > from_frame).sum()) / CHANNELS
    figures["observed_from_ms"] = float(np.median(np.concatenate(begins))) / RATE_HZ * 1e3
    return figures


def bench_evoked(snrs: Sequence[float] = (6.0, 8.0), seeds: Sequence[int] = (1, 2, 3, 4, 5)) -> dict[str, Any]:
    """Return the mean scores of both ways over the seeds, by name."""
    figures: dict[str, Any] = {}
    for snr in snrs:
        scores: dict[str, list[dict[str, float]]] = {"blank": [], "subtract": []}
        for seed in seeds:
            print(f"  evoked, SNR {snr:g}, seed {seed}", file=sys.stderr, flush=True)
            truth = generate_evoked(snr, seed)
            for way, scored in scores.items():
                scored.append(score_evoked(truth, *found_spikes(truth, subtract=way == "subtract")))
        for way, scored in scores.items():
            for name in scored[0]:
                figures[f"evoked_snr_{snr:g}_{way}_{name}"] = float(np.nanmean([each[name] for each in scored]))
    return figures
