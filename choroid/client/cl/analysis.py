"""Figures of a recording's spikes: firing, network bursts, entropy, spike-triggered histograms, functional connectivity."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from choroid.client.errors import optional

Array1DInt = NDArray[np.int64]
Array2DInt = NDArray[np.int64]
Array1DFloat = NDArray[np.float64]
Array2DFloat = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class AnalysisMetadata:
    """Tells which recording was analysed."""

    file_path: str
    channel_count: int
    sampling_frequency: float
    duration_frames: int
    duration_seconds: float


@dataclass(frozen=True, slots=True)
class AnalysisResult:
    """Is what every result has; the fields of each class are its figures."""

    metadata: AnalysisMetadata


@dataclass(frozen=True, slots=True)
class AnalysisResultFiringStats(AnalysisResult):
    """Holds counts of spikes in bins and the intervals between spikes (s).

    Means and variances of firing are those of the counts of a bin, which are rates (Hz) when it lasts a second.
    """

    bin_size_sec: float
    firing_counts: Array2DInt
    firing_rates: Array2DFloat
    channel_mean_firing_rates: list[float]
    channel_var_firing_rates: list[float]
    culture_mean_firing_rates: float
    culture_var_firing_rates: float
    culture_max_firing_rates: float
    channel_ISI: list[list[float]]
    channel_ISI_mean: list[float]
    channel_ISI_var: list[float]
    culture_ISI_mean: float
    culture_ISI_var: float


@dataclass(frozen=True, slots=True)
class Burst:
    """Is a network burst, from a frame up to another."""

    start_frame: int
    end_frame: int

    def get_duration(self, sampling_frequency: float) -> float:
        """Return how long it lasts.

        Args:
            sampling_frequency: Frames a second.

        Returns:
            The duration (s).
        """
        return (self.end_frame - self.start_frame) / sampling_frequency


@dataclass(frozen=True, slots=True)
class AnalysisResultNetworkBursts(AnalysisResult):
    """Holds network bursts: bins from which on all channels together fire fast, up to one in which they do not."""

    bursts: list[Burst]
    onset_freq_hz: float
    offset_freq_hz: float
    network_burst_count: int
    network_burst_durations_sec: list[float]
    network_burst_spike_counts: list[int]
    total_network_burst_duration_sec: float
    bin_size_sec: float
    bin_boundaries_frames: Array1DInt
    firing_rate_per_channel_and_bin: Array1DFloat
    spike_frames_by_channel: dict[int, Array1DInt]


@dataclass(frozen=True, slots=True)
class AnalysisResultInformationEntropy(AnalysisResult):
    """Holds for each bin the entropy of whether a channel fires in it."""

    bin_size_sec: float
    information_entropy_per_time_bin: Array1DFloat


@dataclass(frozen=True, slots=True)
class AnalysisResultSpikeTriggeredHistogram(AnalysisResult):
    """Holds when the spikes of one channel come in relation to those of another, by (triggering, counted) channel."""

    bin_size_sec: float
    start_sec: float
    end_sec: float
    num_eligible_channels: int
    min_firing_rate_threshold_hz: float
    histogram_bins: Array1DFloat
    histograms: dict[tuple[int, int], Array1DInt]


@dataclass(frozen=True, slots=True)
class AnalysisResultsFunctionalConnectivity(AnalysisResult):
    """Holds the correlations between channels, and figures of the graph that they make."""

    bin_size_sec: float
    correlation_threshold: float
    adjacency_matrix: Array2DFloat
    total_edge_weights: float
    average_edge_weights: float
    clustering_coefficient: float
    graph_partition: dict[int, int]
    modularity_index: float
    max_betweenness_centrality: float


@dataclass(frozen=True, slots=True)
class SpikeTrains:
    """Holds the spikes that are analysed: frames in ascending order from the first one that counts on, and channels."""

    metadata: AnalysisMetadata
    frames: Array1DInt
    channels: Array1DInt
    duration_frames: int

    def counts(self, bin_frames: int) -> Array2DInt:
        """Return the spikes in each bin.

        Args:
            bin_frames: Length of a bin; the last one may be shorter.

        Returns:
            The counts, shape (channels, bins).
        """
        found = np.zeros((self.metadata.channel_count, math.ceil(self.duration_frames / bin_frames)), np.int64)
        np.add.at(found, (self.channels, self.frames // bin_frames), 1)
        return found

    def by_channel(self) -> dict[int, Array1DInt]:
        """Return the frames of the spikes of each channel."""
        return {channel: self.frames[self.channels == channel] for channel in range(self.metadata.channel_count)}


def _bin_frames(trains: SpikeTrains, bin_size_sec: float) -> int:
    """Return the length of a bin in frames; raise :class:`ValueError` if there is none, or nothing to analyse."""
    rate = trains.metadata.sampling_frequency
    if not 1.0 <= bin_size_sec * rate < math.inf:
        raise ValueError(f"bins of {bin_size_sec:g} s. Next: give a length of at least one frame, {1 / rate:g} s")
    if trains.duration_frames < 1:
        raise ValueError(f"{trains.metadata.file_path} has no frames. Next: analyse a recording that has some")
    return int(bin_size_sec * rate)


def firing_stats(trains: SpikeTrains, bin_size_sec: float) -> AnalysisResultFiringStats:
    """Count spikes in bins, and measure the intervals between them.

    Args:
        trains: The spikes.
        bin_size_sec: Length of a bin (s).

    Returns:
        The figures; the mean interval of a channel with fewer than two spikes is 0, and it is left out of the culture's.

    Raises:
        ValueError: A bin is shorter than a frame, or the recording has no frames.
    """
    rate = trains.metadata.sampling_frequency
    counts = trains.counts(_bin_frames(trains, bin_size_sec))
    intervals = [np.diff(frames) / rate for frames in trains.by_channel().values()]
    means = [float(each.mean()) if len(each) else 0.0 for each in intervals]
    present = [mean for mean, each in zip(means, intervals, strict=True) if len(each)] or [math.nan]
    return AnalysisResultFiringStats(
        metadata=trains.metadata,
        bin_size_sec=bin_size_sec,
        firing_counts=counts,
        firing_rates=counts / bin_size_sec,
        channel_mean_firing_rates=counts.mean(axis=1).tolist(),
        channel_var_firing_rates=counts.var(axis=1).tolist(),
        culture_mean_firing_rates=float(counts.mean()),
        culture_var_firing_rates=float(counts.var(axis=1).mean()),
        culture_max_firing_rates=float(counts.max()),
        channel_ISI=[each.tolist() for each in intervals],
        channel_ISI_mean=means,
        channel_ISI_var=[float(each.var()) if len(each) else 0.0 for each in intervals],
        culture_ISI_mean=float(np.mean(present)),
        culture_ISI_var=float(np.var(present)),
    )


def network_bursts(
    trains: SpikeTrains,
    bin_size_sec: float,
    onset_freq_hz: float,
    offset_freq_hz: float,
    min_active_channels: int | None,
) -> AnalysisResultNetworkBursts:
    """Find network bursts by two thresholds with hysteresis.

    Args:
        trains: The spikes.
        bin_size_sec: Length of a bin (s).
        onset_freq_hz: Mean rate of the active channels from which on a burst begins.
        offset_freq_hz: The same, below which it ends.
        min_active_channels: How many channels that rate is of; None means all.

    Returns:
        The bursts.

    Raises:
        ValueError: A bin is shorter than a frame, a threshold is not a number, or the recording has no frames.
    """
    rate, channels = trains.metadata.sampling_frequency, trains.metadata.channel_count
    bin_frames = _bin_frames(trains, bin_size_sec)
    if math.isnan(onset_freq_hz) or math.isnan(offset_freq_hz):
        raise ValueError("a threshold of a burst is not a number. Next: give both rates in Hz")
    counts = trains.counts(bin_frames).sum(axis=0)
    active = channels if min_active_channels is None else min_active_channels
    # A bin above the onset switches on, one below the offset switches off; the others keep what was.
    switch = np.where(counts >= onset_freq_hz * active * bin_size_sec, 1, 0)
    switch = np.where(counts < offset_freq_hz * active * bin_size_sec, -1, switch)
    latest = np.maximum.accumulate(np.where(switch != 0, np.arange(len(switch)), -1))
    bursting = np.where(latest >= 0, switch[latest], -1) > 0
    edges = np.flatnonzero(np.diff(np.concatenate([[False], bursting, [False]]))).reshape(-1, 2) * bin_frames
    bursts = [Burst(int(first), min(int(end), trains.duration_frames)) for first, end in edges]
    within = [np.searchsorted(trains.frames, [burst.start_frame, burst.end_frame]) for burst in bursts]
    durations = [burst.get_duration(rate) for burst in bursts]
    return AnalysisResultNetworkBursts(
        metadata=trains.metadata,
        bursts=bursts,
        onset_freq_hz=onset_freq_hz,
        offset_freq_hz=offset_freq_hz,
        network_burst_count=len(bursts),
        network_burst_durations_sec=durations,
        network_burst_spike_counts=[int(end - first) for first, end in within],
        total_network_burst_duration_sec=sum(durations),
        bin_size_sec=bin_size_sec,
        bin_boundaries_frames=np.arange(len(counts)) * bin_frames,
        firing_rate_per_channel_and_bin=counts / channels / bin_size_sec,
        spike_frames_by_channel=trains.by_channel(),
    )


def information_entropy(
    trains: SpikeTrains, bin_size_sec: float, log_base: float | None
) -> AnalysisResultInformationEntropy:
    """Measure in each bin how uncertain it is whether a channel fires.

    Args:
        trains: The spikes.
        bin_size_sec: Length of a bin (s).
        log_base: Base of the logarithm; None means e.

    Returns:
        The entropies.

    Raises:
        ValueError: A bin is shorter than a frame, or the recording has no frames.
        MissingPackage: scipy is not installed.
    """
    _bin_frames(trains, bin_size_sec)
    counts = trains.counts(round(bin_size_sec * trains.metadata.sampling_frequency))
    share = (counts > 0).mean(axis=0)
    entropy = optional("scipy.stats", "cl", "an entropy").entropy(np.stack([share, 1.0 - share]), base=log_base)
    return AnalysisResultInformationEntropy(trains.metadata, bin_size_sec, entropy)


def spike_triggered_histogram(
    trains: SpikeTrains,
    bin_size_sec: float,
    start_sec: float,
    end_sec: float,
    num_channels: int,
    min_firing_rate_threshold_hz: float,
) -> AnalysisResultSpikeTriggeredHistogram:
    """Count the spikes of each of the busiest channels around those of each other one.

    Args:
        trains: The spikes.
        bin_size_sec: Length of a bin (s).
        start_sec: How long before a spike counting begins (s).
        end_sec: How long after it counting ends (s).
        num_channels: How many channels, those with most spikes.
        min_firing_rate_threshold_hz: Rate below which a channel is left out.

    Returns:
        The histograms.

    Raises:
        ValueError: A bin is shorter than a frame, counting ends before it begins, or the recording has no frames.
    """
    _bin_frames(trains, bin_size_sec)
    if not 0.0 < start_sec + end_sec < math.inf:
        raise ValueError(
            f"counting from {-start_sec:g} to {end_sec:g} s around a spike. Next: let it end after it begins"
        )
    rate = trains.metadata.sampling_frequency
    duration_s = trains.duration_frames / rate
    times = {channel: frames / rate for channel, frames in trains.by_channel().items()}
    busy = [each for each in times if len(times[each]) / duration_s >= min_firing_rate_threshold_hz]
    chosen = sorted(busy, key=lambda channel: len(times[channel]))[-num_channels:] if num_channels > 0 else []
    bins = np.arange(-start_sec, end_sec + bin_size_sec, bin_size_sec)
    histograms: dict[tuple[int, int], Array1DInt] = {}
    for base, counted in permutations(chosen, 2):
        apart = _apart(times[base], times[counted], start_sec + 1 / rate, end_sec + 1 / rate)
        apart = apart[(apart >= -start_sec) & (apart <= end_sec)]
        histograms[base, counted] = np.histogram(apart, bins)[0]
    return AnalysisResultSpikeTriggeredHistogram(
        trains.metadata, bin_size_sec, start_sec, end_sec, len(chosen), min_firing_rate_threshold_hz, bins, histograms
    )


def _apart(base: Array1DFloat, counted: Array1DFloat, before: float, after: float) -> Array1DFloat:
    """Return how long after each base time the others come, for those near to it only."""
    first, end = np.searchsorted(counted, base - before), np.searchsorted(counted, base + after, "right")
    number = end - first
    at = np.arange(number.sum()) + np.repeat(first - np.cumsum(number) + number, number)
    found: Array1DFloat = counted[at] - np.repeat(base, number)
    return found


def functional_connectivity(
    trains: SpikeTrains, bin_size_sec: float, correlation_threshold: float
) -> AnalysisResultsFunctionalConnectivity:
    """Correlate the counts of each pair of channels (Pearson), and describe the graph of what is above a threshold.

    Args:
        trains: The spikes.
        bin_size_sec: Length of a bin (s).
        correlation_threshold: Magnitude from which on a correlation is an edge, 0 to 1.

    Returns:
        The correlations and the figures of the graph; communities are those of Louvain.

    Raises:
        ValueError: The threshold is out of range, a bin is shorter than a frame, or the recording has no frames.
        MissingPackage: networkx is not installed.
    """
    if not 0.0 <= correlation_threshold <= 1.0:
        raise ValueError(f"a correlation of {correlation_threshold:g} as threshold; give 0 to 1")
    counts = trains.counts(_bin_frames(trains, bin_size_sec))
    found = np.zeros((len(counts), len(counts)))
    varying = np.flatnonzero(counts.std(axis=1) > 0)
    if len(varying) > 1:
        found[np.ix_(varying, varying)] = np.corrcoef(counts[varying])
    np.fill_diagonal(found, 0.0)
    found[np.abs(found) < correlation_threshold] = 0.0
    nx = optional("networkx", "cl", "functional connectivity")
    graph = nx.from_numpy_array(found)
    weights = [weight for _, _, weight in graph.edges(data="weight")]
    communities: list[Any] = nx.community.louvain_communities(graph, seed=0) if weights else []
    return AnalysisResultsFunctionalConnectivity(
        metadata=trains.metadata,
        bin_size_sec=bin_size_sec,
        correlation_threshold=correlation_threshold,
        adjacency_matrix=found,
        total_edge_weights=float(sum(weights)),
        average_edge_weights=float(np.mean(weights)) if weights else 0.0,
        clustering_coefficient=float(nx.average_clustering(graph, weight="weight")) if weights else 0.0,
        graph_partition={node: n for n, community in enumerate(communities) for node in sorted(community)},
        modularity_index=float(nx.community.modularity(graph, communities)) if len(communities) > 1 else 0.0,
        max_betweenness_centrality=max(nx.betweenness_centrality(graph, weight="weight").values()) if weights else 0.0,
    )
