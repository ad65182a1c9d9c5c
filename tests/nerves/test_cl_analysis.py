"""Figures of recordings by hand; tests/nerves/test_cl_source.py compares them with those of cl-sdk."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import choroid.client.cl as cl
from choroid.client.cl.analysis import AnalysisMetadata, SpikeTrains, spike_triggered_histogram
from choroid.client.cl.recording_file import write_recording

RATE = 1000
SPIKES = [(0, 0), (10, 1), (100, 0), (101, 0), (102, 1), (103, 2), (112, 2), (121, 0), (500, 0), (900, 1), (999, 1)]


@pytest.fixture
def view(tmp_path: Path) -> cl.RecordingView:
    attributes = {
        "channel_count": 3, "frames_per_second": RATE, "uV_per_sample_unit": 1.0, "start_timestamp": 7,
        "end_timestamp": 1007, "duration_frames": 1000, "duration_seconds": 1.0,
    }  # fmt: skip
    include = {"raw_samples": False, "spikes": True, "stims": False, "data_streams": False}
    samples = np.zeros((1000, 3), np.int16)
    write_recording(tmp_path / "r.h5", attributes, samples, include, [(7 + at, ch) for at, ch in SPIKES], [], [])
    return cl.RecordingView(tmp_path / "r.h5")


def test_firing_and_intervals(view: cl.RecordingView) -> None:
    firing = view.analyse_firing_stats(0.5)
    assert firing.firing_counts.tolist() == [[4, 1], [2, 2], [2, 0]]
    assert firing.firing_rates[0].tolist() == [8.0, 2.0]
    assert firing.channel_ISI[2] == [0.009]
    assert firing.channel_ISI_mean[0] == pytest.approx(0.125)
    assert firing.culture_max_firing_rates == 4.0
    view.analysis_timestamp_limit(900)
    rest = view.analyse_firing_stats(0.1)
    assert rest.firing_counts.tolist() == [[0], [2], [0]]
    assert rest.channel_ISI_mean == [0.0, pytest.approx(0.099), 0.0]


def test_a_burst_goes_on_between_its_thresholds(view: cl.RecordingView) -> None:
    bursts = view.analyse_network_bursts(0.01, onset_freq_hz=100, offset_freq_hz=30)
    assert [(burst.start_frame, burst.end_frame) for burst in bursts.bursts] == [(100, 130)]
    assert bursts.network_burst_spike_counts == [6]
    assert bursts.total_network_burst_duration_sec == pytest.approx(0.03)
    assert view.analyse_network_bursts(0.01, 1000, 500).bursts == []
    to_the_end = view.analyse_network_bursts(0.01, 30, 30, 1)
    assert to_the_end.bursts[-1] == cl.analysis.Burst(990, 1000)


def test_entropy_and_triggered_histogram(view: cl.RecordingView) -> None:
    entropy = view.analyse_information_entropy(0.1, log_base=2).information_entropy_per_time_bin
    assert entropy[1] == 0.0
    assert entropy[0] == pytest.approx(-(2 / 3) * np.log2(2 / 3) - np.log2(1 / 3) / 3)
    triggered = view.analyse_spike_triggered_histogram(0.005, 0.01, 0.01, num_channels=2)
    assert set(triggered.histograms) == {(0, 1), (1, 0)}
    assert triggered.histograms[0, 1].sum() == 3


def test_connectivity_of_channels_that_fire_together(view: cl.RecordingView) -> None:
    graph = view.analyse_functional_connectivity(0.1, 0.9)
    assert graph.adjacency_matrix[0, 2] == pytest.approx(0.5 / np.sqrt(0.85 * 0.36))
    assert graph.graph_partition[0] == graph.graph_partition[2] != graph.graph_partition[1]
    assert view.analyse_functional_connectivity(0.1, 1.0).total_edge_weights == 0.0
    with pytest.raises(ValueError, match="0 to 1"):
        view.analyse_functional_connectivity(0.1, 2.0)


def test_a_histogram_counts_each_pair_within_its_window_and_no_memory_for_the_others() -> None:
    generator = np.random.default_rng(3)
    frames = np.sort(generator.integers(0, 600_000, 40_000))
    channels = generator.integers(0, 2, len(frames))
    metadata = AnalysisMetadata("r.h5", 2, RATE, 600_000, 600.0)
    tracemalloc.start()
    counted = spike_triggered_histogram(SpikeTrains(metadata, frames, channels, 600_000), 0.01, 0.05, 0.03, 2, 0.1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000_000  # all pairs would be 3.2 GB
    few = slice(0, 1000)
    part = SpikeTrains(metadata, frames[few], channels[few], 600_000)
    found = spike_triggered_histogram(part, 0.01, 0.05, 0.03, 2, 0.1).histograms[0, 1]
    times = [frames[few][channels[few] == channel] / RATE for channel in (0, 1)]
    apart = (times[1][None, :] - times[0][:, None]).ravel()
    apart = apart[(apart >= -0.05) & (apart <= 0.03)]
    assert found.tolist() == np.histogram(apart, counted.histogram_bins)[0].tolist()
    assert found.sum() > 0


def test_rates_are_those_of_the_part_that_is_analysed(view: cl.RecordingView) -> None:
    view.analysis_timestamp_limit(
        100, 200
    )  # 3 spikes on channel 0, 1 on channel 1 and 2 on channel 2: 30, 10 and 20 Hz
    assert view.analyse_spike_triggered_histogram(0.01, 0.05, 0.05, 3, 15.0).num_eligible_channels == 2


@pytest.mark.parametrize(
    ("name", "terms"),
    [
        ("firing_stats", (0.0,)),
        ("firing_stats", (1e-5,)),
        ("firing_stats", (-1.0,)),
        ("firing_stats", (np.nan,)),
        ("network_bursts", (np.inf, 1, 1)),
        ("network_bursts", (0.01, np.nan, 1)),
        ("information_entropy", (np.nan,)),
        ("information_entropy", (-1.0,)),
        ("spike_triggered_histogram", (0.0, 0.1, 0.1, 2)),
        ("spike_triggered_histogram", (0.01, 0.1, -0.2, 2)),
        ("spike_triggered_histogram", (0.01, np.inf, 0.1, 2)),
        ("functional_connectivity", (0.0,)),
        ("functional_connectivity", (np.inf,)),
    ],
)
def test_terms_that_have_no_meaning_are_refused(view: cl.RecordingView, name: str, terms: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="Next:"):
        getattr(view, f"analyse_{name}")(*terms)


def test_what_cannot_be_analysed(view: cl.RecordingView, tmp_path: Path) -> None:
    for limits in ((-1, 10), (10, 10), (0, 1001)):
        with pytest.raises(ValueError, match="of a recording of 1000 frames"):
            view.analysis_timestamp_limit(*limits)
    include = dict.fromkeys(("raw_samples", "spikes", "stims", "data_streams"), False)
    facts = dict(view.attributes)
    write_recording(tmp_path / "none.h5", facts, np.zeros((1000, 3), np.int16), include, [], [], [])
    with cl.RecordingView(tmp_path / "none.h5") as none, pytest.raises(ValueError, match="has no spikes"):
        none.analyse_firing_stats()
