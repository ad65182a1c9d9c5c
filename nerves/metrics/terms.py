"""What is measured of firing, by array and by electrode: names, units and meanings, for those who compute nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ElectrodeMetrics:
    """Figures by electrode; NaN where an electrode has too few spikes, or was muted."""

    rate_hz: Floats
    amplitude_uv: Floats
    """Median size of the troughs, positive."""
    bursts_min: Floats
    in_bursts: Floats
    """Share of the spikes that are in bursts."""
    cv: Floats
    cv2: Floats
    lv: Floats
    lvr: Floats
    fano: Floats


@dataclass(frozen=True, slots=True)
class Metric:
    """Declares a figure of the array. `nerves/metrics/figures.py` computes it; everything else follows from this.

    Args:
        name: Its name in messages.
        unit: Its unit as of a reading.
        meaning: One sentence for the documentation.
        reading: Name of its reading, which goes to history and telemetry; empty: it is none.
        baseline: Whether it is compared with the culture's own baseline.
    """

    name: str
    unit: str
    meaning: str
    reading: str = ""
    baseline: bool = False


METRICS = (
    Metric(
        "bursts_min",
        "1/min",
        "bursts a minute of an active electrode, mean; by the maximum-interval method (0.1 s to begin, 0.25 s to end, 0.8 s"
        " apart, at least 50 ms and six spikes)",
        reading="nerves.burst_rate",
        baseline=True,
    ),
    Metric("in_bursts", "ratio", "share of the spikes that are in bursts of their electrode"),
    Metric(
        "network_bursts_min",
        "1/min",
        "network bursts a minute: bins of 25 ms above three times the mean, with a fifth of the active electrodes at four"
        " times their own rate",
        reading="nerves.network_burst_rate",
        baseline=True,
    ),
    Metric(
        "network_burst_s",
        "s",
        "mean length of a network burst",
        reading="nerves.network_burst_length",
        baseline=True,
    ),
    Metric(
        "network_interval_cv",
        "ratio",
        "variation of the intervals between the beginnings of network bursts: 0 is perfectly regular; needs four bursts",
        reading="nerves.network_burst_interval_cv",
        baseline=True,
    ),
    Metric(
        "in_network_bursts",
        "ratio",
        "share of the spikes that are in network bursts",
        reading="nerves.in_network_bursts",
    ),
    Metric(
        "sttc",
        "ratio",
        "spike time tiling coefficient within 20 ms, mean over the pairs of up to 64 active electrodes",
        reading="nerves.sttc",
        baseline=True,
    ),
    Metric("sttc_sd", "ratio", "standard deviation of the spike time tiling coefficient over the pairs"),
    Metric(
        "cv", "ratio", "coefficient of variation of the intervals: 0 regular, 1 Poisson; median over active electrodes"
    ),
    Metric(
        "cv2",
        "ratio",
        "local variation of neighbouring intervals; median over active electrodes",
        reading="nerves.cv2",
        baseline=True,
    ),
    Metric("lv", "ratio", "local variation (Shinomoto 2003); median over active electrodes"),
    Metric(
        "lvr",
        "ratio",
        "`lv` with a refractory period of 5 ms; median over active electrodes",
        reading="nerves.lvr",
        baseline=True,
    ),
    Metric(
        "fano",
        "ratio",
        "variance over mean of the counts in bins of 1 s; median over active electrodes",
        reading="nerves.fano",
        baseline=True,
    ),
)
"""The figures of the array. A new one is added at the end."""


@dataclass(frozen=True, slots=True)
class ArrayMetrics:
    """Figures of the array over one window."""

    seconds: float
    """Length of the window."""
    spikes: int
    active: int
    """Electrodes with enough spikes for figures of intervals."""
    pulses: int
    """Pulses delivered in the window: its firing is not spontaneous if there are any."""
    figures: Mapping[str, float]
    """The value of each of :data:`METRICS`; NaN where it is not known."""
