"""Recordings with known spikes, made with SpikeInterface: the independent ground truth of the detector's benchmark.

SpikeInterface makes spike trains, templates, white noise and their sum. This module adds what its generator lacks: 1/f
noise, bursts, volleys, drift, mains hum, noise steps, artefacts, touches, stimulation, saturation and flat channels. Nothing
of the detector is imported. There is one unit on each channel of an array with a pitch of 100 µm or more, as on one for
organoids; on a denser one there is a third as many, at random places, and many channels see each.

SNR is the trough of a unit's template over the standard deviation of the noise, both after SpikeInterface's band-pass (300 to
6,000 Hz, zero phase).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import spikeinterface.core as si
from numpy.typing import NDArray
from probeinterface import Probe
from scipy.signal import butter, sosfiltfilt
from spikeinterface.core.generate import generate_sorting, generate_templates, generate_unit_locations
from spikeinterface.generation import NoiseGeneratorRecording

RATE_HZ = 25_000.0
UV_PER_UNIT = 0.195
RAIL = 32_767
PITCH_UM = 200.0
DENSE_UM = 100.0
"""Below this pitch several channels see each unit."""

WHITE_UV = 8.0
PINK_UV = 8.0
"""Standard deviation of the white noise, and of the 1/f noise between 1 Hz and half the sample rate."""

FIRING_HZ = 6.0
BEFORE_MS, AFTER_MS = 1.0, 3.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What to generate: `kind` is a key of :data:`KINDS`.

    `volleys` is the share of the units that fire in each volley; 0: there is none. `folder` holds templates of another
    generator (docs/nerves.md); empty: SpikeInterface's.
    """

    kind: str
    snr: float
    channels: int = 16
    seconds: float = 25.0
    seed: int = 1
    pitch_um: float = PITCH_UM
    volleys: float = 0.0
    folder: str = ""

    @property
    def units(self) -> int:
        """Number of units: one on each channel, or a third of that on a dense array."""
        return self.channels if self.pitch_um >= DENSE_UM and not self.folder else self.channels // 3


@dataclass(frozen=True, slots=True)
class GroundTruth:
    """A recording and its spikes.

    `samples` has the shape (frames, channels), one unit is :data:`UV_PER_UNIT` µV. `spike_frames` are the frames of the
    troughs, ascending; `spike_units` their units, which are the channels where there is one on each. `lost` has the shape of
    `samples` and marks samples that carry no signal (clipped, flat or blanked). `blanks` are the known times of stimulation:
    channel (-1: all), first frame and the frame after the last. `templates` has the shape (units, frames, channels).
    """

    plan: Plan
    samples: NDArray[np.int16]
    spike_frames: NDArray[np.int64]
    spike_units: NDArray[np.int64]
    lost: NDArray[np.bool_]
    templates: NDArray[np.float32]
    blanks: tuple[tuple[int, int, int], ...] = ()


@dataclass(slots=True)
class _Draft:
    """A recording in the making, in µV: spikes and background apart."""

    plan: Plan
    rng: np.random.Generator
    sigma_uv: float
    background: NDArray[np.float32]
    frames: NDArray[np.int64]
    units: NDArray[np.int64]
    amplitude: NDArray[np.float64]
    lost: NDArray[np.bool_]
    blanks: list[tuple[int, int, int]] = field(default_factory=list)

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
        plan.units, RATE_HZ, [plan.seconds], firing_rates=FIRING_HZ, refractory_period_ms=4.0, seed=plan.seed
    ).to_spike_vector()
    draft = _Draft(
        plan,
        rng,
        sigma_uv=float(band_pass(background[: round(20 * RATE_HZ)]).std()),
        background=background,
        frames=trains["sample_index"].astype(np.int64),
        units=trains["unit_index"].astype(np.int64),
        amplitude=np.ones(len(trains)),
        lost=np.zeros((frames, plan.channels), np.bool_),
    )
    if plan.volleys:
        _volleys(draft)
    KINDS[plan.kind](draft)
    templates = _templates(plan)
    samples = _inject(draft, templates) + draft.background
    units = np.rint(samples / UV_PER_UNIT)
    draft.lost |= np.abs(units) >= RAIL
    if not draft.blanks:
        units[draft.lost & (np.abs(units) < RAIL)] = 0.0
    return GroundTruth(
        plan,
        np.ascontiguousarray(units.clip(-RAIL - 1, RAIL).astype(np.int16)),
        draft.frames,
        draft.units,
        draft.lost,
        templates,
        tuple(draft.blanks),
    )


def _pink(frames: int, channels: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Return noise whose power falls with 1/f, by shaping the spectrum of white noise."""
    spectrum = np.fft.rfft(rng.standard_normal((frames, channels), dtype=np.float32), axis=0)
    hz = np.fft.rfftfreq(frames, 1 / RATE_HZ)
    weight = np.where(hz >= 1.0, 1.0 / np.sqrt(np.maximum(hz, 1.0)), 0.0)
    pink = np.fft.irfft(spectrum * weight[:, None], frames, axis=0)
    scaled: NDArray[np.float32] = (pink * (PINK_UV / pink.std())).astype(np.float32)
    return scaled


def _locations(channels: int, pitch_um: float) -> NDArray[np.float64]:
    columns = 2 ** int(np.log2(np.sqrt(channels)))
    return np.array([(k % columns, k // columns) for k in range(channels)], float) * pitch_um


def recording(samples: NDArray[Any], pitch_um: float = PITCH_UM) -> Any:
    """Return the samples as a SpikeInterface recording with its probe."""
    probe = Probe(ndim=2, si_units="um")
    radius_um = min(15.0, 0.4 * pitch_um)
    probe.set_contacts(_locations(samples.shape[1], pitch_um), shapes="circle", shape_params={"radius": radius_um})
    probe.set_device_channel_indices(np.arange(samples.shape[1]))
    made = si.NumpyRecording([samples], RATE_HZ)
    made.set_channel_gains(UV_PER_UNIT)
    made.set_channel_offsets(0.0)
    made.set_probe(probe)
    return made


def _templates(plan: Plan) -> NDArray[np.float32]:
    """Return templates, shape (units, frames, channels); the trough on a unit's best channel is 1 after the band-pass."""
    channels = _locations(plan.channels, plan.pitch_um)
    if plan.folder:
        made = _foreign_templates(plan)
    elif plan.units == plan.channels:
        places = np.hstack([channels, np.full((plan.channels, 1), 10.0)])
        made = generate_templates(channels, places, RATE_HZ, BEFORE_MS, AFTER_MS, seed=plan.seed)
    else:
        places = generate_unit_locations(
            plan.units, channels, margin_um=10.0, minimum_z=5.0, maximum_z=50.0, minimum_distance=10.0, seed=plan.seed
        )
        made = generate_templates(channels, places, RATE_HZ, BEFORE_MS, AFTER_MS, seed=plan.seed)
    best = made.min(axis=1).argmin(axis=1)
    own = made[np.arange(plan.units), :, best]
    padded = np.pad(own, ((0, 0), (1000, 1000)))
    troughs = -band_pass(padded.T).min(axis=0)
    scaled: NDArray[np.float32] = (made / troughs[:, None, None]).astype(np.float32)
    return scaled


def _foreign_templates(plan: Plan) -> NDArray[np.float32]:
    """Return templates that another generator left in the plan's folder, a different choice for each seed."""
    with np.load(Path(plan.folder) / f"grid-{plan.pitch_um:g}-{plan.channels}.npz") as kept:
        every = kept["templates"]
    chosen: NDArray[np.float32] = every[np.random.default_rng(plan.seed).permutation(len(every))[: plan.units]]
    return chosen


def _inject(draft: _Draft, templates: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the spikes alone (µV), injected by SpikeInterface."""
    plan = draft.plan
    order = np.lexsort((draft.units, draft.frames))
    draft.frames, draft.units, draft.amplitude = draft.frames[order], draft.units[order], draft.amplitude[order]
    sorting = si.NumpySorting.from_samples_and_labels([draft.frames], [draft.units], RATE_HZ, np.arange(plan.units))
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
    draft.frames, draft.units = np.array(frames), np.array(channels)
    draft.amplitude = np.ones(len(frames))


def _volleys(draft: _Draft) -> None:
    """Replace the trains by four volleys a second and 2 Hz between them; the units of a volley fire within 0.2 ms (SD)."""
    units = draft.plan.units
    every = np.arange(0.2, draft.plan.seconds - 0.1, 0.25)
    frames, who = [], []
    for start in every + draft.rng.uniform(-0.05, 0.05, len(every)):
        chosen = draft.rng.permutation(units)[: max(1, round(draft.plan.volleys * units))]
        frames += np.rint((start + draft.rng.normal(0.0, 0.2e-3, len(chosen))) * RATE_HZ).astype(int).tolist()
        who += chosen.tolist()
    for unit in range(units):
        alone = np.cumsum(0.02 + draft.rng.exponential(0.5, int(4 * draft.plan.seconds)))
        alone = alone[(alone < draft.plan.seconds - 0.1) & (alone > 0.1)]
        alone = alone[np.abs(alone[:, None] - every).min(axis=1) > 0.07]
        frames += np.rint(alone * RATE_HZ).astype(int).tolist()
        who += [unit] * len(alone)
    draft.frames, draft.units, draft.amplitude = np.array(frames), np.array(who), np.ones(len(frames))


def _drift(draft: _Draft) -> None:
    """Amplitudes between 1 and 1.6 of the nominal one, and a baseline that wanders by millivolts."""
    phase = draft.rng.uniform(0, 2 * np.pi, draft.plan.channels)
    turns = 2 * np.pi * draft.frames / RATE_HZ / 40.0
    draft.amplitude = 1.3 + 0.3 * np.sin(turns + phase[draft.units])
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


def _touches(draft: _Draft) -> None:
    """Twice a second on average, a hand on the rig: a step of 0.2 to 3 mV within 0.5 ms on all channels, which decays."""
    for start in np.cumsum(draft.rng.exponential(0.5, int(3 * draft.plan.seconds))):
        first = round(start * RATE_HZ)
        if first >= len(draft.background) - 5_000:
            break
        t_ms = np.arange(5_000) / RATE_HZ * 1e3
        rise_ms, fall_ms = np.exp(draft.rng.uniform(np.log([0.02, 10.0]), np.log([0.5, 50.0])))
        uv = draft.rng.choice((-1.0, 1.0)) * np.exp(draft.rng.uniform(np.log(200.0), np.log(3000.0)))
        shape = (1.0 - np.exp(-t_ms / rise_ms)) * np.exp(-t_ms / fall_ms)
        gains = uv * draft.rng.uniform(0.7, 1.3, draft.plan.channels)
        draft.background[first : first + len(t_ms)] += np.outer(shape, gains).astype(np.float32)


def _stimulation(draft: _Draft) -> None:
    """Three times a second, a pulse of 2 × 0.2 ms at a random electrode; each channel sees less with distance, and a tail.

    The times are known: 2 ms on all channels and 5 ms on the electrode are blanked.
    """
    plan = draft.plan
    places = _locations(plan.channels, plan.pitch_um)
    t_ms = np.arange(round(0.03 * RATE_HZ)) / RATE_HZ * 1e3
    after_ms = np.maximum(t_ms - 0.4, 0.0)
    tail = 0.7 * np.exp(-after_ms / 0.8) + 0.02 * np.exp(-after_ms / 5.0)
    shape = np.where(t_ms < 0.2, -1.0, np.where(t_ms < 0.4, 1.0, tail))
    for start in np.arange(0.15, plan.seconds - 0.1, 1.0 / 3.0) + draft.rng.uniform(0.0, 0.05):
        first, electrode = round(start * RATE_HZ), int(draft.rng.integers(plan.channels))
        distance_um = np.hypot(*(places - places[electrode]).T)
        uv = np.where(distance_um > 0.0, 2500.0 / (1.0 + (distance_um / 60.0) ** 1.5), 20_000.0)
        draft.background[first : first + len(t_ms)] += np.outer(shape, uv).astype(np.float32)
        for channel, ms in ((-1, 2.4), (electrode, 5.4)):
            end = first + round(ms * 1e-3 * RATE_HZ)
            draft.blanks.append((channel, first, end))
            draft.lost[first : end + 31, slice(None) if channel < 0 else channel] = True


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
    "touches": _touches,
    "stimulation": _stimulation,
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
        true = truth.spike_frames[truth.spike_units == channel]
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


@dataclass(frozen=True, slots=True)
class UnitScore:
    """Score of a detector on a recording whose units are seen by several channels. Shares are of 1.

    `recall` has one entry a unit (nan: no spike counted); `false` is the share of the found peaks that no unit explains,
    `false_hz` their number a second and channel.
    """

    recall: NDArray[np.float64]
    spikes: NDArray[np.int64]
    false: float
    false_hz: float

    @property
    def total(self) -> float:
        """Recall over all spikes."""
        counted = self.spikes > 0
        return float((self.recall[counted] * self.spikes[counted]).sum() / max(self.spikes.sum(), 1))


SEEN = 0.5
"""Share of its largest trough from which on a unit's spike counts as found on a channel."""

EXPLAINED_SIGMA, EXPLAINED_MS = 2.0, 1.0
"""A unit whose template is as large as this on a channel, up or down, explains a peak there within this time."""

NEAR_MS = 0.4


def score_units(
    truth: GroundTruth, frames: NDArray[np.int64], channels: NDArray[np.int64], from_frame: int
) -> UnitScore:
    """Compare found peaks with the truth. Each peak stands for the one spike that is nearest in time among those seen there.

    The detector's median delay is taken from its frames first: in a volley it would give peaks to other units.
    """
    units = truth.plan.units
    before = round(BEFORE_MS * 1e-3 * RATE_HZ)
    troughs, delays = -truth.templates.min(axis=1), truth.templates.argmin(axis=1) - before
    best = troughs.argmax(axis=1)
    sizes, times = np.abs(truth.templates).max(axis=1), np.abs(truth.templates).argmax(axis=1) - before
    near, within = round(NEAR_MS * 1e-3 * RATE_HZ), round(EXPLAINED_MS * 1e-3 * RATE_HZ)
    found = np.zeros(len(truth.spike_frames), np.bool_)
    false = counted = 0
    late = [np.zeros(1, np.int64)]
    for channel in range(truth.plan.channels):
        _, at = _on_channel(truth, troughs[:, channel] >= SEEN * troughs.max(axis=1), delays[:, channel])
        peaks = frames[channels == channel]
        after = peaks - at[_closest(at, peaks)] if len(at) else peaks[:0]
        late.append(after[np.abs(after) <= near])
    frames = frames - round(float(np.median(np.concatenate(late))))
    for channel in range(truth.plan.channels):
        peaks = frames[channels == channel]
        peaks = peaks[(peaks >= from_frame) & (peaks < len(truth.lost))]
        if truth.blanks:
            peaks = peaks[~truth.lost[peaks, channel]]
        seen = troughs[:, channel] >= SEEN * troughs.max(axis=1)
        own, at = _on_channel(truth, seen, delays[:, channel])
        closest = _closest(at, peaks)
        hit = closest >= 0
        hit[hit] = np.abs(at[closest[hit]] - peaks[hit]) <= near
        found[own[closest[hit]]] = True
        _, at = _on_channel(truth, sizes[:, channel] * truth.plan.snr >= EXPLAINED_SIGMA, times[:, channel])
        closest = _closest(at, peaks)
        true = closest >= 0
        true[true] = np.abs(at[closest[true]] - peaks[true]) <= within
        false += int((~true).sum())
        counted += len(peaks)
    observable = (truth.spike_frames >= from_frame) & (truth.spike_frames < len(truth.lost))
    observable[observable] = ~truth.lost[truth.spike_frames[observable], best[truth.spike_units[observable]]]
    spikes = np.bincount(truth.spike_units[observable], minlength=units)
    hits = np.bincount(truth.spike_units[observable & found], minlength=units)
    seconds = (len(truth.samples) - from_frame) / RATE_HZ
    recall = np.divide(hits, spikes, out=np.full(units, np.nan), where=spikes > 0)
    return UnitScore(recall, spikes, false / max(counted, 1), false / seconds / truth.plan.channels)


def _on_channel(
    truth: GroundTruth, seen: NDArray[np.bool_], delays: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the spikes of the seen units, as indices and as frames of their troughs on a channel, ascending."""
    own = np.flatnonzero(seen[truth.spike_units])
    at = truth.spike_frames[own] + delays[truth.spike_units[own]]
    order = np.argsort(at, kind="stable")
    return own[order], at[order]


def _closest(at: NDArray[np.int64], peaks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each peak the index of the closest of the ascending frames `at`, or -1 where there is none."""
    if not len(at):
        return np.full(len(peaks), -1)
    after = np.clip(np.searchsorted(at, peaks), 0, len(at) - 1)
    before = np.maximum(after - 1, 0)
    return np.where(np.abs(at[before] - peaks) <= np.abs(at[after] - peaks), before, after)
