"""Recall for each unit on dense and sparse arrays, in volleys and disturbances, compared with SpikeInterface's detectors.

The grid has too many cells to run: :func:`cells` chooses some in which every two levels of two factors meet at least once.
SpikeInterface runs `locally_exclusive` and `by_channel` with four thresholds each on the whole recording; of these the best
by the truth is compared. Choroid runs once, causally, with its only setting. Both are scored by the same rule
(:func:`verification.bench.ground_truth.score_units`).
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import spikeinterface.core as si
import spikeinterface.preprocessing as preprocessing
from numpy.typing import NDArray
from spikeinterface.sortingcomponents.peak_detection import detect_peaks

from nerves.detections import Blank
from nerves.detector import SpikeDetector
from verification.bench.ground_truth import (
    RATE_HZ,
    UV_PER_UNIT,
    GroundTruth,
    Plan,
    UnitScore,
    generate,
    recording,
    score_units,
)

PITCHES_UM = (15.0, 20.0, 40.0, 100.0, 200.0)
CHANNELS = (32, 64, 128, 1024)
SNRS = (4.0, 5.0, 6.0, 8.0, 12.0)
VOLLEYS = (0.0, 0.1, 0.3, 0.5, 0.8, 1.0)
DISTURBANCES = ("plain", "drift", "hum", "flat", "saturation", "stimulation", "touches")
FACTORS: tuple[tuple[Any, ...], ...] = (PITCHES_UM, CHANNELS, SNRS, VOLLEYS, DISTURBANCES)

SILENT = ("plain", "hum", "saturation", "flat", "artefacts", "touches", "stimulation")
"""Recordings without neurons: what is found there is false."""

BLOCK = 25
THRESHOLDS = (4.0, 4.5, 5.0, 6.0)
MAX_FALSE = 0.05
JOB = {"n_jobs": 1, "progress_bar": False, "chunk_duration": "1s"}


@dataclass(frozen=True, slots=True)
class CellScore:
    """Scores of both detectors on one recording."""

    plan: Plan
    mine: UnitScore
    best: str
    its: UnitScore

    @property
    def name(self) -> str:
        """Name of the cell in the figures."""
        plan = self.plan
        array = f"{plan.pitch_um:g}_um_{plan.channels}_ch"
        return f"{array}_snr_{plan.snr:g}_volleys_{plan.volleys:g}_{plan.kind}_seed_{plan.seed}"

    @property
    def ratio(self) -> float:
        """Recall over SpikeInterface's."""
        return self.mine.total / max(self.its.total, 1e-9)

    @property
    def missed(self) -> bool:
        """Whether the goal is missed: recall 0.97 times SpikeInterface's, false detections at most 5 %."""
        return self.ratio < 0.97 or self.mine.false > MAX_FALSE


def seconds(plan_channels: int, kind: str) -> tuple[float, float]:
    """Return the length of a recording, and from when on it is scored: the comb needs about a second of the mains."""
    from_s = 5.0 if kind == "hum" else 1.0
    return from_s + (3.0 if plan_channels > 128 else 8.0), from_s


def cells(seed: int = 1, folder: str = "") -> list[Plan]:
    """Return recordings such that every two levels of two factors meet; the same for the same seed."""
    factors = ((*PITCHES_UM[:-1],), (32,), *FACTORS[2:]) if folder else FACTORS
    rng = np.random.default_rng(seed)
    pairs = {
        (i, a, j, b)
        for (i, first), (j, second) in itertools.combinations(enumerate(factors), 2)
        for a in range(len(first))
        for b in range(len(second))
    }
    made: list[Plan] = []
    while pairs:
        tries = [_row(sorted(pairs), factors, rng) for _ in range(40)]
        row = max(tries, key=lambda one: len(_met(one) & pairs))
        pairs -= _met(row)
        pitch, channels, snr, volleys, kind = (levels[k] for levels, k in zip(factors, row, strict=True))
        length, _ = seconds(channels, kind)
        made.append(Plan(kind, snr, channels, length, 100 * seed + len(made), pitch, volleys, folder))
    return made


def _row(
    pairs: list[tuple[int, int, int, int]], factors: tuple[tuple[Any, ...], ...], rng: np.random.Generator
) -> tuple[int, ...]:
    i, a, j, b = pairs[int(rng.integers(len(pairs)))]
    row = [int(rng.integers(len(levels))) for levels in factors]
    row[i], row[j] = a, b
    return tuple(row)


def _met(row: tuple[int, ...]) -> set[tuple[int, int, int, int]]:
    return {(i, a, j, b) for (i, a), (j, b) in itertools.combinations(enumerate(row), 2)}


def choroid_spikes(truth: GroundTruth, block: int = BLOCK) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return frames and channels of the spikes that Choroid finds; blanks are announced when their block comes."""
    samples = truth.samples
    detector = SpikeDetector(samples.shape[1], RATE_HZ, UV_PER_UNIT)
    found = []
    for first in range(0, len(samples), block):
        detector.blank([Blank(*each) for each in truth.blanks if first <= each[1] < first + block])
        found.append(detector.process(samples[first : first + block], first))
    frames = np.concatenate([spikes.frames for spikes in found])
    return frames, np.concatenate([spikes.electrodes for spikes in found]).astype(np.int64)


def spikeinterface_peaks(truth: GroundTruth) -> Iterator[tuple[str, NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the name of each setting of SpikeInterface, with the frames and channels of its peaks."""
    source = recording(truth.samples, truth.plan.pitch_um)
    filtered = preprocessing.bandpass_filter(source, 300.0, 6000.0, dtype="float32")
    kept = si.NumpyRecording([filtered.get_traces()], RATE_HZ)
    kept.set_probe(source.get_probe())
    for method in ("locally_exclusive", "by_channel"):
        for threshold in THRESHOLDS:
            options = {"peak_sign": "neg", "detect_threshold": threshold}
            peaks = detect_peaks(kept, method=method, method_kwargs=options, job_kwargs=JOB)
            yield (
                f"{method}_{threshold:g}",
                peaks["sample_index"].astype(np.int64),
                peaks["channel_index"].astype(np.int64),
            )


def compare_units(plan: Plan) -> CellScore:
    """Run both detectors over the recording of a plan."""
    truth = generate(plan)
    first = round(seconds(plan.channels, plan.kind)[1] * RATE_HZ)
    mine = score_units(truth, *choroid_spikes(truth), first)
    tried = [
        (name, score_units(truth, frames, channels, first)) for name, frames, channels in spikeinterface_peaks(truth)
    ]
    best, its = max(tried, key=lambda entry: _merit(entry[1]))
    return CellScore(plan, mine, best, its)


def _merit(scored: UnitScore) -> tuple[bool, float]:
    """Return what a setting is chosen by: recall if few are false; else, when no setting has few, the F1 score."""
    if scored.false <= MAX_FALSE and scored.total > 0.0:
        return True, scored.total
    return False, 2.0 * scored.total * (1.0 - scored.false) / max(scored.total + 1.0 - scored.false, 1e-9)


def silent_false_hz(kind: str, channels: int = 32, seed: int = 1) -> float:
    """Return what Choroid finds (a second and channel) on a recording without neurons."""
    length, from_s = seconds(channels, kind)
    truth = generate(Plan(kind, 0.0, channels, from_s + 3 * (length - from_s), seed))
    frames, _ = choroid_spikes(truth)
    return float((frames >= from_s * RATE_HZ).sum()) / (3 * (length - from_s)) / channels


def bench_cells(plans: Iterable[Plan]) -> dict[str, Any]:
    """Compare on all recordings, and return the scores of each, the worst from SNR 6 on, and the cells that miss the goal."""
    found = []
    for plan in plans:
        print(f"  {plan}", file=sys.stderr, flush=True)
        found.append(compare_units(plan))
    figures: dict[str, Any] = {}
    for one in found:
        figures[f"{one.name}_recall"] = one.mine.total
        figures[f"{one.name}_recall_spikeinterface"] = one.its.total
        figures[f"{one.name}_worst_unit"] = float(np.nanmin(one.mine.recall))
        figures[f"{one.name}_false"] = one.mine.false
        figures[f"{one.name}_false_spikeinterface"] = one.its.false
        figures[f"{one.name}_setting_of_spikeinterface"] = one.best
    counted = [one for one in found if one.plan.snr >= 6.0]
    figures["cells_from_snr_6"] = len(counted)
    figures["worst_ratio_of_cells_from_snr_6"] = min((one.ratio for one in counted), default=float("nan"))
    figures["worst_false_of_cells_from_snr_6"] = max((one.mine.false for one in counted), default=float("nan"))
    figures["cells_that_miss"] = ", ".join(one.name for one in counted if one.missed) or "none"
    return figures
