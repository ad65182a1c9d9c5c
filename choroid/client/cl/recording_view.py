"""Recordings as a program reads them: attributes, samples, spikes, stimulations and data streams of an HDF5 file.

Files of this client, of the CL API and of its simulator have the same form.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from choroid.client.cl.analysis import (
    AnalysisMetadata,
    AnalysisResultFiringStats,
    AnalysisResultInformationEntropy,
    AnalysisResultNetworkBursts,
    AnalysisResultsFunctionalConnectivity,
    AnalysisResultSpikeTriggeredHistogram,
    SpikeTrains,
    firing_stats,
    functional_connectivity,
    information_entropy,
    network_bursts,
    spike_triggered_histogram,
)
from choroid.client.cl.attributes import AttributesView, read_attributes
from choroid.client.cl.packing import from_msgpacked
from choroid.client.cl.plots import plot_events, plot_spike
from choroid.client.errors import optional


class DataStreamView:
    """Shows the entries of a data stream by their timestamps.

    Attributes:
        index: Table with `timestamp`, `start_index` and `end_index` of each entry.
        data: The packed bytes of all entries.
        attributes: Facts about the stream: its name, and as `application` those that the program has set.
    """

    index: Any
    data: Any
    attributes: AttributesView

    def __init__(self, group: Any, attributes: AttributesView) -> None:
        """Show the group of a file."""
        self.index = group.index
        self.data = group.data
        self.attributes = attributes
        self._rows: NDArray[Any] = group.index[:]

    def keys(self) -> list[int]:
        """Return the timestamps."""
        return [int(at) for at in self._rows["timestamp"]]

    def values(self) -> Iterator[Any]:
        """Yield the data of each entry."""
        return self._values(self._rows)

    def items(self) -> Iterator[tuple[int, Any]]:
        """Yield timestamp and data of each entry."""
        return zip(self.keys(), self.values(), strict=True)

    def keys_for_range(self, start_timestamp: int, end_timestamp: int) -> list[int]:
        """Return the timestamps of a range.

        Args:
            start_timestamp: The first frame.
            end_timestamp: The frame after the last.

        Returns:
            The timestamps of the entries between, in their order.
        """
        return [int(at) for at in self._between(start_timestamp, end_timestamp)["timestamp"]]

    def values_for_range(self, start_timestamp: int, end_timestamp: int) -> Iterator[Any]:
        """Yield the data of a range of timestamps.

        Args:
            start_timestamp: The first frame.
            end_timestamp: The frame after the last.

        Returns:
            The data of the entries between, in their order.
        """
        return self._values(self._between(start_timestamp, end_timestamp))

    def items_for_range(self, start_timestamp: int, end_timestamp: int) -> Iterator[tuple[int, Any]]:
        """Yield timestamp and data of the entries of a range of timestamps.

        Args:
            start_timestamp: The first frame.
            end_timestamp: The frame after the last.

        Returns:
            The entries between, in their order.
        """
        keys = self.keys_for_range(start_timestamp, end_timestamp)
        return zip(keys, self.values_for_range(start_timestamp, end_timestamp), strict=True)

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._rows)

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        """Yield timestamp and data of each entry."""
        return self.items()

    def __getitem__(self, key: int | slice) -> Any:
        """Return the data of a timestamp, or yield those of a range of timestamps.

        Raises:
            KeyError: There is no entry of this timestamp.
        """
        if isinstance(key, slice):
            return self.values_for_range(key.start, key.stop)
        found = self._between(key, key + 1)
        if not len(found):
            raise KeyError(key)
        return next(self._values(found))

    def _between(self, first: int, end: int) -> NDArray[Any]:
        at, until = np.searchsorted(self._rows["timestamp"], [first, end])
        return self._rows[at:until]

    def _values(self, rows: NDArray[Any]) -> Iterator[Any]:
        for _, begin, end in rows:
            yield from_msgpacked(self.data[begin:end])


class DataStreamCollection:
    """Shows the data streams of a recording by name, as a mapping and as attributes."""

    def __init__(self, groups: Any, attributes: dict[str, AttributesView]) -> None:
        """Show the groups of a file."""
        self._streams = {
            group._v_name: DataStreamView(group, attributes[group._v_pathname]) for group in groups._f_iter_nodes()
        }

    def keys(self) -> list[str]:
        """Return the names."""
        return list(self._streams)

    def values(self) -> list[DataStreamView]:
        """Return the streams."""
        return list(self._streams.values())

    def items(self) -> list[tuple[str, DataStreamView]]:
        """Return name and stream of each."""
        return list(self._streams.items())

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._streams)

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self._streams)

    def __contains__(self, name: object) -> bool:
        """Return whether there is a stream of this name."""
        return name in self._streams

    def __getitem__(self, name: str) -> DataStreamView:
        """Return one stream."""
        return self._streams[name]

    def __getattr__(self, name: str) -> DataStreamView:
        """Return one stream."""
        try:
            found: DataStreamView = self.__dict__["_streams"][name]
        except KeyError:
            raise AttributeError(f"there is no data stream {name!r}") from None
        return found

    def __repr__(self) -> str:
        """Return the names."""
        return f"data streams: {', '.join(self._streams) or 'none'}"


class RecordingView:
    """Opens a recording. Use it in a `with` block, or close it.

    Attributes:
        file: The PyTables file.
        attributes: Facts about the recording.
        samples: Raw frames, int16, shape (frames, channels); None if they were not recorded.
        spikes: Table with `timestamp` (from the first frame on), `channel` and `samples` (µV); None likewise.
        stims: Table with `timestamp` and `channel` of the delivered pulses; None likewise.
        data_streams: The data streams by name; None likewise.
    """

    file: Any
    attributes: AttributesView
    samples: Any
    spikes: Any
    stims: Any
    data_streams: DataStreamCollection | None

    def __init__(self, file_path: Path | str) -> None:
        """Open a file.

        Args:
            file_path: Path of the recording.

        Raises:
            UnsafeOperationError: The file holds Python objects.
            MissingPackage: h5py or tables is not installed.
        """
        path = str(Path(file_path).resolve())
        tables = optional("tables", "cl", "reading a recording")
        attributes = read_attributes(path)
        self.file = tables.open_file(path)
        root = self.file.root
        self.attributes = attributes["/"]
        self.samples, self.spikes, self.stims = (getattr(root, name, None) for name in ("samples", "spikes", "stims"))
        self.data_streams = DataStreamCollection(root.data_stream, attributes) if "data_stream" in root else None
        self._limits: tuple[int, int | None] = (0, None)

    def __enter__(self) -> Self:
        """Return the view."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the file."""
        self.close()

    def __del__(self) -> None:
        """Close the file."""
        if "file" in self.__dict__:
            self.close()

    def __repr__(self) -> str:
        """Return the path and what there is."""
        parts = ("attributes", "samples", "spikes", "stims", "data_streams")
        there = ", ".join(part for part in parts if getattr(self, part) is not None)
        return f"RecordingView({self.file.filename!r}) with {there}"

    def close(self) -> None:
        """Close the file."""
        if self.file.isopen:
            self.file.close()

    def analysis_timestamp_limit(
        self, minimum_timestamp: int | None = None, maximum_timestamp: int | None = None
    ) -> None:
        """Analyse a part of the recording from now on.

        Args:
            minimum_timestamp: The first frame, from that of the recording on; None means that.
            maximum_timestamp: The frame after the last; None means the end.

        Raises:
            ValueError: The part is empty, or reaches out of the recording.
        """
        duration = self.attributes["duration_frames"]
        first, end = minimum_timestamp or 0, duration if maximum_timestamp is None else maximum_timestamp
        if not 0 <= first < end <= duration:
            raise ValueError(f"frames {first} to {end} of a recording of {duration} frames")
        self._limits = (first, end)

    def analyse_firing_stats(self, bin_size_sec: float = 1.0) -> AnalysisResultFiringStats:
        """Count spikes in bins, and measure the intervals between them.

        Args:
            bin_size_sec: Length of a bin (s).

        Returns:
            The figures.

        Raises:
            ValueError: There are no spikes in the file.
        """
        return firing_stats(self._trains(), bin_size_sec)

    def analyse_network_bursts(
        self, bin_size_sec: float, onset_freq_hz: float, offset_freq_hz: float, min_active_channels: int | None = None
    ) -> AnalysisResultNetworkBursts:
        """Find network bursts by two thresholds with hysteresis.

        Args:
            bin_size_sec: Length of a bin (s).
            onset_freq_hz: Mean rate of the active channels from which on a burst begins.
            offset_freq_hz: The same, below which it ends.
            min_active_channels: How many channels that rate is of; None means all.

        Returns:
            The bursts.

        Raises:
            ValueError: There are no spikes in the file.
        """
        return network_bursts(self._trains(), bin_size_sec, onset_freq_hz, offset_freq_hz, min_active_channels)

    def analyse_information_entropy(
        self, bin_size_sec: float, fillna: float | None = 0.0, log_base: float | None = None
    ) -> AnalysisResultInformationEntropy:
        """Measure in each bin how uncertain it is whether a channel fires.

        Args:
            bin_size_sec: Length of a bin (s).
            fillna: Has no effect: each bin has an entropy.
            log_base: Base of the logarithm; None means e.

        Returns:
            The entropies.

        Raises:
            ValueError: There are no spikes in the file.
            MissingPackage: scipy is not installed.
        """
        return information_entropy(self._trains(), bin_size_sec, log_base)

    def analyse_spike_triggered_histogram(
        self,
        bin_size_sec: float,
        start_sec: float,
        end_sec: float,
        num_channels: int,
        min_firing_rate_threshold_hz: float = 0.1,
    ) -> AnalysisResultSpikeTriggeredHistogram:
        """Count the spikes of each of the busiest channels around those of each other one.

        Args:
            bin_size_sec: Length of a bin (s).
            start_sec: How long before a spike counting begins (s).
            end_sec: How long after it counting ends (s).
            num_channels: How many channels, those with most spikes.
            min_firing_rate_threshold_hz: Rate below which a channel is left out.

        Returns:
            The histograms.

        Raises:
            ValueError: There are no spikes in the file.
        """
        window = (bin_size_sec, start_sec, end_sec)
        return spike_triggered_histogram(self._trains(), *window, num_channels, min_firing_rate_threshold_hz)

    def analyse_functional_connectivity(
        self, bin_size_sec: float, correlation_threshold: float = 0.6
    ) -> AnalysisResultsFunctionalConnectivity:
        """Correlate the counts of each pair of channels, and describe the graph of what is above a threshold.

        Args:
            bin_size_sec: Length of a bin (s).
            correlation_threshold: Magnitude from which on a correlation is an edge, 0 to 1.

        Returns:
            The correlations and the figures of the graph.

        Raises:
            ValueError: The threshold is out of range, or there are no spikes in the file.
            MissingPackage: networkx is not installed.
        """
        return functional_connectivity(self._trains(), bin_size_sec, correlation_threshold)

    plot_spike = staticmethod(plot_spike)

    def plot_spikes_and_stims(
        self,
        figsize: tuple[float, float] = (12, 8),
        title: str | None = None,
        save_path: str | None = None,
        limit_to_time_range_secs: tuple[float, float] | None = None,
        limit_to_channels: list[int] | None = None,
    ) -> None:
        """Plot spikes (black) and delivered pulses (red) of each channel over time.

        Args:
            figsize: Width and height (inch).
            title: Title; None means the path.
            save_path: File to write; None shows the figure.
            limit_to_time_range_secs: From when to when (s); None means all.
            limit_to_channels: Which channels; None means all.

        Raises:
            MissingPackage: matplotlib is not installed.
        """
        low, high = limit_to_time_range_secs or (0.0, self.attributes["duration_seconds"])
        spikes, stims = (self._events(table, low, high) for table in (self.spikes, self.stims))
        channels = limit_to_channels or range(self.attributes["channel_count"])
        plot_events(spikes, stims, (low, high), channels, figsize, title or self.file.filename, save_path)

    def _trains(self) -> SpikeTrains:
        """Return the spikes between the limits of the analysis."""
        if self.spikes is None:
            raise ValueError(f"{self.file.filename} has no spikes. Next: record with include_spikes=True")
        facts = self.attributes
        duration = facts["duration_frames"]
        first, end = self._limits[0], self._limits[1] or duration
        rows = self.spikes[:]
        rows = np.sort(rows[(rows["timestamp"] >= first) & (rows["timestamp"] < end)], order="timestamp")
        metadata = AnalysisMetadata(
            self.file.filename, facts["channel_count"], facts["frames_per_second"], duration, facts["duration_seconds"]
        )
        channels = rows["channel"].astype(np.int64)
        return SpikeTrains(metadata, rows["timestamp"] - first, channels, end - first)

    def _events(self, table: Any, low: float, high: float) -> NDArray[Any]:
        """Return channel and time (s) of the rows of a table between two times."""
        if table is None:
            return np.zeros((0, 2))
        times = table.col("timestamp") / self.attributes["frames_per_second"]
        within = (times >= low) & (times < high)
        return np.stack([table.col("channel")[within], times[within]], axis=1)
