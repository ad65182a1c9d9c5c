"""Recall, false detections and speed of the spike detector compared with SpikeInterface's, on recordings with known spikes.

SpikeInterface works on the whole recording, forwards and backwards, with its best setting for each recording
chosen by the truth: method (threshold on each channel, or matched filter with the true mean template), threshold, with and
without a common reference. Choroid's detector runs once, causally, with its only setting, in blocks of 1 ms.

To reach: recall ≥ 0.97 × SpikeInterface's best at SNR ≥ 6, false detections ≤ 5 %; ≥ 10 times its speed with 32 channels and
≥ 20 times with 1,024, both on one core, by processor time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import spikeinterface.core as si
import spikeinterface.preprocessing as preprocessing
from numpy.typing import NDArray
from spikeinterface.sortingcomponents.peak_detection import detect_peaks

from nerves.detector import LINEAR_PHASE, LOW_DELAY, Detection, SpikeDetector, SpikeFilter
from verification.bench import array_cells
from verification.bench.artefact_waves import bench_artefacts
from verification.bench.evoked import bench_evoked
from verification.bench.ground_truth import (
    BEFORE_MS,
    KINDS,
    RATE_HZ,
    UV_PER_UNIT,
    GroundTruth,
    Plan,
    band_pass,
    generate,
    recording,
    score,
)

WARM_UP_S = 5.0
"""Not scored: the comb needs about a second of the mains."""

BLOCK = 25
THRESHOLDS = (4.0, 4.25, 4.5, 5.0, 6.0, 8.0)
MAX_FALSE = 0.05
JOB = {"n_jobs": 1, "progress_bar": False, "chunk_duration": "1s"}
PROTOTYPE_MS = (0.8, 2.0)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Scores on one recording; `best` is the setting of SpikeInterface whose recall is compared."""

    plan: Plan
    recall: float
    false: float
    delay_ms: float
    best: str
    best_recall: float
    best_false: float
    low_delay_recall: float
    """Of the detector whose spikes reflexes may see."""
    low_delay_false: float

    @property
    def name(self) -> str:
        """Name of the recording in the figures."""
        return f"{self.plan.kind}_snr_{self.plan.snr:g}_{self.plan.channels}_ch"

    @property
    def ratio(self) -> float:
        """Recall over SpikeInterface's best."""
        return self.recall / max(self.best_recall, 1e-9)


def plans() -> list[Plan]:
    """Return the recordings: noise at each SNR, everything else at SNR 6 and 12, and with 32 channels at SNR 6."""
    kinds = [kind for kind in KINDS if kind != "stimulation"]  # its times are announced: array_cells
    others = [kind for kind in kinds if kind != "plain"]
    return [
        *(Plan("plain", snr) for snr in (4.0, 5.0, 6.0, 8.0, 10.0, 12.0)),
        *(Plan(kind, snr) for kind in others for snr in (6.0, 12.0)),
        *(Plan(kind, 6.0, channels=32, seconds=15.0, seed=2) for kind in kinds),
    ]


def bench_detection(cells: int = 4, templates: str = "") -> dict[str, Any]:
    """Compare on all recordings and on cells of dense and sparse arrays, and measure the speed. Shares are of 1.

    Args:
        cells: Seed of the choice of cells (:func:`verification.bench.array_cells.cells`).
        templates: Folder with another generator's templates: only cells, with these.

    Returns:
        The figures, by name. It takes some twenty minutes of processor time.
    """
    if templates:
        return array_cells.bench_cells(array_cells.cells(cells, templates))
    found = []
    for plan in plans():
        print(f"  {plan.kind}, SNR {plan.snr:g}, {plan.channels} channels", file=sys.stderr, flush=True)
        found.append(compare(generate(plan)))
    figures: dict[str, Any] = {}
    for one in found:
        figures[f"{one.name}_recall"] = one.recall
        figures[f"{one.name}_recall_spikeinterface"] = one.best_recall
        figures[f"{one.name}_false"] = one.false
        figures[f"{one.name}_recall_low_delay"] = one.low_delay_recall
        figures[f"{one.name}_false_low_delay"] = one.low_delay_false
        figures[f"{one.name}_false_spikeinterface"] = one.best_false
        figures[f"{one.name}_setting_of_spikeinterface"] = one.best
    counted = [one for one in found if one.plan.snr >= 6.0]
    figures["worst_recall_ratio_from_snr_6"] = min(one.ratio for one in counted)
    figures["worst_false_from_snr_6"] = max(one.false for one in counted)
    figures["delay_of_frames_ms"] = float(np.median([one.delay_ms for one in counted]))
    for kind in array_cells.SILENT:
        figures[f"no_neurons_{kind}_32_ch_false_a_minute"] = 60.0 * array_cells.silent_false_hz(kind)
    figures |= bench_evoked()
    return figures | bench_artefacts() | array_cells.bench_cells(array_cells.cells(cells)) | speed()


def compare(truth: GroundTruth, from_s: float = WARM_UP_S, thresholds: Sequence[float] = THRESHOLDS) -> Comparison:
    """Run both detectors over a recording and score them from `from_s` on; `thresholds` are SpikeInterface's, in its σ."""
    first = round(from_s * RATE_HZ)
    mine = score(truth, *choroid_spikes(truth.samples), first)
    tried = [
        (name, score(truth, frames, channels, first))
        for name, frames, channels in spikeinterface_peaks(truth, thresholds)
    ]
    best, its = max(tried, key=lambda entry: _merit(entry[1]))
    quick = score(truth, *choroid_spikes(truth.samples, band=LOW_DELAY), first)
    return Comparison(
        truth.plan, mine["recall"], mine["false"], mine["offset_ms"], best, its["recall"], its["false"],
        quick["recall"], quick["false"],
    )  # fmt: skip


def _merit(scored: dict[str, float]) -> tuple[bool, float]:
    """Return what a setting is chosen by: recall if few are false; else, when no setting has few, the F1 score."""
    recall, false = scored["recall"], scored["false"]
    if false <= MAX_FALSE and recall > 0.0:
        return True, recall
    return False, 2.0 * recall * (1.0 - false) / max(recall + 1.0 - false, 1e-9)


def choroid_spikes(
    samples: NDArray[np.int16], block: int = BLOCK, band: SpikeFilter = LINEAR_PHASE
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return frames and channels of the spikes that Choroid finds."""
    detector = SpikeDetector(samples.shape[1], RATE_HZ, UV_PER_UNIT, detection=Detection(filter=band))
    found = [detector.process(samples[first : first + block], first) for first in range(0, len(samples), block)]
    frames = np.concatenate([spikes.frames for spikes in found])
    return frames, np.concatenate([spikes.electrodes for spikes in found]).astype(np.int64)


def spikeinterface_peaks(
    truth: GroundTruth, thresholds: Sequence[float]
) -> Iterator[tuple[str, NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the name of each setting of SpikeInterface that runs, with the frames and channels of its peaks."""
    source = recording(truth.samples)
    filtered = preprocessing.bandpass_filter(source, 300.0, 6000.0, dtype="float32")
    methods: dict[str, dict[str, Any]] = {
        "locally_exclusive": {},
        "matched_filtering": {"prototype": _prototype(truth), "ms_before": PROTOTYPE_MS[0]},
    }
    for reference, traces in (("", filtered), ("_reference", preprocessing.common_reference(filtered))):
        kept = si.NumpyRecording([traces.get_traces()], RATE_HZ)
        kept.set_probe(source.get_probe())
        for method, extra in methods.items():
            for threshold in thresholds:
                options = {"peak_sign": "neg", "detect_threshold": threshold} | extra
                try:
                    peaks = detect_peaks(kept, method=method, method_kwargs=options, job_kwargs=JOB)
                except ZeroDivisionError:
                    break  # the matched filter divides by the noise level, which a flat channel makes zero
                name = f"{method}{reference}_{threshold:g}"
                yield name, peaks["sample_index"].astype(np.int64), peaks["channel_index"].astype(np.int64)


def _prototype(truth: GroundTruth) -> NDArray[np.float32]:
    """Return the mean of the true templates after SpikeInterface's band-pass, from 0.8 ms before the trough to 2 ms after."""
    units = np.arange(truth.plan.channels)
    mean = truth.templates[units, :, units].mean(axis=0)
    filtered = band_pass(np.pad(mean, 500))
    trough = 500 + round(BEFORE_MS * 1e-3 * RATE_HZ)
    before, after = (round(ms * 1e-3 * RATE_HZ) for ms in PROTOTYPE_MS)
    cut: NDArray[np.float32] = filtered[trough - before : trough + after].astype(np.float32)
    return cut


def speed(sizes: Sequence[tuple[int, float]] = ((32, 20.0), (1024, 2.0))) -> dict[str, float]:
    """Measure both detectors on the same noise, by processor time on one core; SpikeInterface with its fastest method.

    `sizes` are numbers of channels with seconds of noise.
    """
    figures: dict[str, float] = {}
    for channels, seconds in sizes:
        noise = np.random.default_rng(1).standard_normal((round(seconds * RATE_HZ), channels), dtype=np.float32)
        samples = (noise * 45.0).astype(np.int16)
        other = seconds / _min_s(lambda samples=samples: _filter_and_detect(samples))  # type: ignore[misc]
        figures[f"speed_{channels}_ch_spikeinterface"] = other
        for block in (BLOCK, 100 * BLOCK):
            mine = seconds / _min_s(lambda samples=samples, block=block: choroid_spikes(samples, block))  # type: ignore[misc]
            name = f"speed_{channels}_ch_blocks_of_{block // BLOCK}_ms"
            figures[name] = mine
            figures[f"{name}_ratio"] = mine / other
    return figures


def _filter_and_detect(samples: NDArray[np.int16]) -> Any:
    """Run SpikeInterface with a given noise level: its own estimate would weigh more, the shorter the recording is."""
    filtered = preprocessing.bandpass_filter(recording(samples), 300.0, 6000.0, dtype="float32")
    options = {"peak_sign": "neg", "detect_threshold": 5.0, "noise_levels": np.full(samples.shape[1], 45.0)}
    return detect_peaks(filtered, method="locally_exclusive", method_kwargs=options, job_kwargs=JOB)


def _min_s(run: Callable[[], Any]) -> float:
    """Return the minimum processor time (s) of three runs after one that compiles."""
    run()
    spent = []
    for _ in range(3):
        began = time.process_time()
        run()
        spent.append(time.process_time() - began)
    return min(spent)
