"""Recordings with known spikes, made with SpikeInterface: the independent ground truth of the detector's benchmark.

SpikeInterface makes spike trains, templates, white noise and their sum. This module adds what its generator lacks: 1/f
noise, bursts, drift, mains hum, noise steps, artefacts, saturation and flat channels. Nothing of the detector is imported.
There is one unit on each channel and no overlap between channels (pitch 200 µm), as on an array for organoids.

SNR is the trough of a unit's template over the standard deviation of the noise, both after SpikeInterface's band-pass (300 to
6,000 Hz, zero phase).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import spikeinterface.core as si
from numpy.typing import NDArray
from probeinterface import Probe
from scipy.signal import butter, sosfiltfilt
from spikeinterface.core.generate import generate_sorting, generate_templates
from spikeinterface.generation import NoiseGeneratorRecording

RATE_HZ = 25_000.0
UV_PER_UNIT = 0.195
RAIL = 32_767
PITCH_UM = 200.0
WHITE_UV = 8.0
PINK_UV = 8.0
"""Standard deviation of the white noise, and of the 1/f noise between 1 Hz and half the sample rate."""

FIRING_HZ = 6.0
BEFORE_MS, AFTER_MS = 1.0, 3.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What to generate: `kind` is a key of :data:`KINDS`."""

    kind: str
    snr: float
    channels: int = 16
    seconds: float = 25.0
    seed: int = 1


@dataclass(frozen=True, slots=True)
class GroundTruth:
    """A recording and its spikes.

    `samples` has the shape (frames, channels), one unit is :data:`UV_PER_UNIT` µV. `spike_frames` are the frames of the
    troughs, ascending. `lost` has the shape of `samples` and marks samples that carry no signal (clipped or flat).
    """

    plan: Plan
    samples: NDArray[np.int16]
    spike_frames: NDArray[np.int64]
    spike_channels: NDArray[np.int64]
    lost: NDArray[np.bool_]
    templates: NDArray[np.float32]


@dataclass(slots=True)
class _Draft:
    """A recording in the making, in µV: spikes and background apart."""

    plan: Plan
    rng: np.random.Generator
    sigma_uv: float
    background: NDArray[np.float32]
    frames: NDArray[np.int64]
    channels: NDArray[np.int64]
    amplitude: NDArray[np.float64]
    lost: NDArray[np.bool_]

    @property
    def time_s(self) -> NDArray[np.float64]:
        return np.arange(len(self.background)) / RATE_HZ


def band_pass(traces: NDArray[Any]) -> NDArray[np.float64]:
    """Filter like SpikeInterface's `bandpass_filter` with its default band."""
    sos = butter(5, (300.0, 6000.0), "bandpass", fs=RATE_HZ, output="sos")
    filtered: NDArray[np.float64] = sosfiltfilt(sos, traces, axis=0)
    return filtered


def generate(plan: Plan) -> GroundTruth:
    """Return the recording of a plan; the same plan gives the same samples."""
    rng = np.random.default_rng([plan.seed, plan.channels, *plan.kind.encode()])
    frames = round(plan.seconds * RATE_HZ)
    white = NoiseGeneratorRecording(
        plan.channels, RATE_HZ, [plan.seconds], noise_levels=WHITE_UV, seed=plan.seed, strategy="on_the_fly"
    )
    background = white.get_traces() + _pink(frames, plan.channels, rng)
    trains = generate_sorting(
        plan.channels, RATE_HZ, [plan.seconds], firing_rates=FIRING_HZ, refractory_period_ms=4.0, seed=plan.seed
    ).to_spike_vector()
    draft = _Draft(
        plan,
        rng,
        sigma_uv=float(band_pass(background[: round(20 * RATE_HZ)]).std()),
        background=background,
        frames=trains["sample_index"].astype(np.int64),
        channels=trains["unit_index"].astype(np.int64),
        amplitude=np.ones(len(trains)),
        lost=np.zeros((frames, plan.channels), np.bool_),
    )
    KINDS[plan.kind](draft)
    templates = _templates(plan)
    samples = _inject(draft, templates) + draft.background
    units = np.rint(samples / UV_PER_UNIT)
    draft.lost |= np.abs(units) >= RAIL
    units[draft.lost & (np.abs(units) < RAIL)] = 0.0
    return GroundTruth(
        plan,
        np.ascontiguousarray(units.clip(-RAIL - 1, RAIL).astype(np.int16)),
        draft.frames,
        draft.channels,
        draft.lost,
        templates,
    )


def _pink(frames: int, channels: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Return noise whose power falls with 1/f, by shaping the spectrum of white noise."""
    spectrum = np.fft.rfft(rng.standard_normal((frames, channels), dtype=np.float32), axis=0)
    hz = np.fft.rfftfreq(frames, 1 / RATE_HZ)
    weight = np.where(hz >= 1.0, 1.0 / np.sqrt(np.maximum(hz, 1.0)), 0.0)
    pink = np.fft.irfft(spectrum * weight[:, None], frames, axis=0)
    scaled: NDArray[np.float32] = (pink * (PINK_UV / pink.std())).astype(np.float32)
    return scaled


def _locations(channels: int) -> NDArray[np.float64]:
    columns = int(np.ceil(np.sqrt(channels)))
    return np.array([(k % columns, k // columns) for k in range(channels)], float) * PITCH_UM


def recording(samples: NDArray[Any]) -> Any:
    """Return the samples as a SpikeInterface recording with a probe of isolated electrodes."""
    probe = Probe(ndim=2, si_units="um")
    probe.set_contacts(_locations(samples.shape[1]), shapes="circle", shape_params={"radius": 15.0})
    probe.set_device_channel_indices(np.arange(samples.shape[1]))
    made = si.NumpyRecording([samples], RATE_HZ)
    made.set_channel_gains(UV_PER_UNIT)
    made.set_channel_offsets(0.0)
    made.set_probe(probe)
    return made


def _templates(plan: Plan) -> NDArray[np.float32]:
    """Return SpikeInterface's templates, shape (units, frames, channels), with a trough of 1 after the band-pass."""
    channels = _locations(plan.channels)
    units = np.hstack([channels, np.full((plan.channels, 1), 10.0)])
    made = generate_templates(channels, units, RATE_HZ, BEFORE_MS, AFTER_MS, seed=plan.seed)
    own = made[np.arange(plan.channels), :, np.arange(plan.channels)]
    padded = np.pad(own, ((0, 0), (1000, 1000)))
    troughs = -band_pass(padded.T).min(axis=0)
    scaled: NDArray[np.float32] = (made / troughs[:, None, None]).astype(np.float32)
    return scaled


def _inject(draft: _Draft, templates: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the spikes alone (µV), injected by SpikeInterface."""
    plan = draft.plan
    order = np.lexsort((draft.channels, draft.frames))
    draft.frames, draft.channels, draft.amplitude = draft.frames[order], draft.channels[order], draft.amplitude[order]
    sorting = si.NumpySorting.from_samples_and_labels(
        [draft.frames], [draft.channels], RATE_HZ, np.arange(plan.channels)
    )
    injected = si.InjectTemplatesRecording(
        sorting,
        templates * np.float32(plan.snr * draft.sigma_uv),
        nbefore=round(BEFORE_MS * 1e-3 * RATE_HZ),
        amplitude_factor=draft.amplitude,
        num_samples=len(draft.background),
    )
    spikes: NDArray[np.float32] = injected.get_traces()
    return spikes


def _plain(draft: _Draft) -> None:
    """White and 1/f noise only."""


def _bursts(draft: _Draft) -> None:
    """Replace the trains by network bursts of 0.3 to 0.8 s with 100 Hz on every channel, and 1 Hz between them."""
    frames, channels = [], []
    starts = np.cumsum(draft.rng.uniform(2.0, 4.0, int(draft.plan.seconds / 2)))
    bursts = [(start, start + draft.rng.uniform(0.3, 0.8)) for start in starts if start < draft.plan.seconds - 1]
    for channel in range(draft.plan.channels):
        now = 0.1
        while now < draft.plan.seconds - 0.1:
            inside = any(begin <= now < end for begin, end in bursts)
            now += 0.003 + draft.rng.exponential(0.007 if inside else 0.1)
            if inside or draft.rng.random() < 0.1:
                frames.append(round(now * RATE_HZ))
                channels.append(channel)
    draft.frames, draft.channels = np.array(frames), np.array(channels)
    draft.amplitude = np.ones(len(frames))


def _drift(draft: _Draft) -> None:
    """Amplitudes between 1 and 1.6 of the nominal one, and a baseline that wanders by millivolts."""
    phase = draft.rng.uniform(0, 2 * np.pi, draft.plan.channels)
    turns = 2 * np.pi * draft.frames / RATE_HZ / 40.0
    draft.amplitude = 1.3 + 0.3 * np.sin(turns + phase[draft.channels])
    slow = np.sin(2 * np.pi * draft.time_s[:, None] / 13.0 + phase) + 0.3 * np.sin(
        2 * np.pi * draft.time_s[:, None] * 0.7
    )
    draft.background += (1500.0 * slow).astype(np.float32)


def _hum(draft: _Draft) -> None:
    """Mains of 50 ± 0.05 Hz with harmonics up to the 13th, with another gain and phase on each channel."""
    mains_hz = 50.0 + 0.05 * np.sin(2 * np.pi * draft.time_s / 30.0)
    cycles = np.cumsum(mains_hz) / RATE_HZ
    gain = draft.rng.uniform(0.5, 1.5, draft.plan.channels)
    for harmonic, uv in ((1, 300.0), (2, 40.0), (3, 60.0), (5, 25.0), (7, 15.0), (9, 8.0), (11, 5.0), (13, 3.0)):
        phase = draft.rng.uniform(0, 2 * np.pi, draft.plan.channels)
        wave = np.sin(2 * np.pi * harmonic * cycles[:, None] + phase) * (uv * gain)
        draft.background += wave.astype(np.float32)


def _noise_steps(draft: _Draft) -> None:
    """The noise of each channel steps between 1 and 1/2 or 1/3 of the nominal level every 10 to 15 s."""
    for channel in range(draft.plan.channels):
        at, high = 0.0, bool(channel % 2)
        while at < draft.plan.seconds:
            until = at + draft.rng.uniform(10.0, 15.0)
            if not high:
                draft.background[round(at * RATE_HZ) : round(until * RATE_HZ), channel] /= 2 + channel % 3 // 2
            at, high = until, not high


def _artefacts(draft: _Draft) -> None:
    """Once a second on average, a transient of 0.5 to 3 mV and 1 to 4 ms on all channels, with another gain on each."""
    for start in np.cumsum(draft.rng.exponential(1.0, int(2 * draft.plan.seconds))):
        first = round(start * RATE_HZ)
        if first >= len(draft.background) - 2_000:
            break
        t_ms = np.arange(1_500) / RATE_HZ * 1e3
        tau_ms = draft.rng.uniform(0.3, 1.2)
        shape = np.exp(-t_ms / tau_ms) - 0.5 * np.exp(-t_ms / (2 * tau_ms))
        gain = draft.rng.choice((-1.0, 1.0)) * draft.rng.uniform(500.0, 3000.0)
        gains = gain * draft.rng.uniform(0.5, 1.5, draft.plan.channels)
        draft.background[first : first + 1_500] += np.outer(shape, gains).astype(np.float32)


def _saturation(draft: _Draft) -> None:
    """Every 2 to 6 s each channel is driven beyond a rail for some ten milliseconds, and returns with 5 to 20 ms."""
    for channel in range(draft.plan.channels):
        at = draft.rng.uniform(1.0, 6.0)
        while at < draft.plan.seconds - 1.0:
            t_ms = np.arange(round(0.5 * RATE_HZ)) / RATE_HZ * 1e3
            hold_ms, tau_ms = draft.rng.uniform(5.0, 100.0), draft.rng.uniform(5.0, 20.0)
            shape = np.where(t_ms < hold_ms, 1.0, np.exp(-np.maximum(t_ms - hold_ms, 0.0) / tau_ms))
            first = round(at * RATE_HZ)
            draft.background[first : first + len(t_ms), channel] += shape * draft.rng.choice((-9_000.0, 9_000.0))
            at += draft.rng.uniform(2.0, 6.0)


def _flat(draft: _Draft) -> None:
    """Every fourth channel is flat, for a third of the recording or to its end."""
    frames = len(draft.background)
    for channel in range(0, draft.plan.channels, 4):
        end = frames if channel % 8 else frames * 2 // 3
        draft.lost[frames // 3 : end, channel] = True


KINDS: dict[str, Callable[[_Draft], None]] = {
    "plain": _plain,
    "bursts": _bursts,
    "drift": _drift,
    "hum": _hum,
    "noise_steps": _noise_steps,
    "artefacts": _artefacts,
    "saturation": _saturation,
    "flat": _flat,
}


def score(
    truth: GroundTruth, frames: NDArray[np.int64], channels: NDArray[np.int64], from_frame: int
) -> dict[str, float]:
    """Compare found spikes with the truth from `from_frame` on, one to one within :data:`WITHIN_MS` on the same channel.

    Returns:
        `recall` (share of the observable spikes that were found), `false` (share of the found ones that are none),
        `false_hz` (false ones a second and channel), `offset_ms` (median delay of the found ones).
    """
    within = round(WITHIN_MS * 1e-3 * RATE_HZ)
    matched = spikes = false = 0
    offsets: list[NDArray[np.int64]] = []
    for channel in range(truth.plan.channels):
        true = truth.spike_frames[truth.spike_channels == channel]
        found = np.sort(frames[channels == channel])
        pairs = _pairs(true, found, within)
        hidden = truth.lost[np.clip(true, 0, len(truth.lost) - 1), channel]
        counted = (true >= from_frame) & ~hidden
        spikes += int(counted.sum())
        matched += int((counted & (pairs >= 0)).sum())
        taken = np.zeros(len(found), np.bool_)
        taken[pairs[pairs >= 0]] = True
        false += int((~taken & (found >= from_frame)).sum())
        offsets.append(found[pairs[pairs >= 0]] - true[pairs >= 0])
    seconds = (len(truth.samples) - from_frame) / RATE_HZ
    late = np.concatenate(offsets)
    return {
        "recall": matched / max(spikes, 1),
        "false": false / max(false + matched, 1),
        "false_hz": false / seconds / truth.plan.channels,
        "offset_ms": float(np.median(late)) / RATE_HZ * 1e3 if len(late) else float("nan"),
    }


WITHIN_MS = 0.6


def _pairs(true: NDArray[np.int64], found: NDArray[np.int64], within: int) -> NDArray[np.int64]:
    """Return for each true spike the index of the found one that is its own, or -1; each is given once."""
    pairs = np.full(len(true), -1)
    k = 0
    for index, frame in enumerate(true):
        while k < len(found) and found[k] < frame - within:
            k += 1
        if k < len(found) and found[k] <= frame + within:
            pairs[index] = k
            k += 1
    return pairs
