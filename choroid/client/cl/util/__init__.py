"""Small helpers of programs under the names of the CL API."""

from __future__ import annotations

from choroid.client.cl.attributes import AttributesView
from choroid.client.cl.helpers import (
    Stopwatch,
    benchmark_disable,
    benchmark_enable,
    frames_to_approximate_seconds,
    ordinal,
    seconds_to_minimum_frames,
)
from choroid.client.cl.packing import from_msgpacked, to_msgpacked
from choroid.client.cl.plots import plot_spike, uV_formatter
from choroid.client.cl.recording_view import DataStreamCollection, DataStreamView, RecordingView

Benchmark = Stopwatch

__all__ = [
    "AttributesView",
    "Benchmark",
    "DataStreamCollection",
    "DataStreamView",
    "RecordingView",
    "benchmark_disable",
    "benchmark_enable",
    "frames_to_approximate_seconds",
    "from_msgpacked",
    "ordinal",
    "plot_spike",
    "seconds_to_minimum_frames",
    "to_msgpacked",
    "uV_formatter",
]
