"""What is measured of firing, by array and by electrode: names and meanings, for those who compute nothing."""

from __future__ import annotations

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
class ArrayMetrics:
    """Figures of the array over one window; NaN where they are not known."""

    seconds: float
    """Length of the window."""
    spikes: int
    active: int
    """Electrodes with enough spikes for figures of intervals."""
    pulses: int
    """Pulses delivered in the window: its firing is not spontaneous if there are any."""
    bursts_min: float
    """Bursts a minute of an active electrode, mean."""
    in_bursts: float
    """Share of the spikes that are in bursts of their electrode."""
    network_bursts_min: float
    network_burst_s: float
    """Mean length of a network burst."""
    in_network_bursts: float
    """Share of the spikes that are in network bursts."""
    network_interval_cv: float
    """Variation of the intervals between network bursts: 0 is perfectly regular. Needs four bursts."""
    sttc: float
    """Mean spike time tiling coefficient over pairs of active electrodes, within 20 ms."""
    sttc_sd: float
    """Standard deviation over the pairs."""
    cv: float
    """Median over the active electrodes, as the next four."""
    cv2: float
    lv: float
    lvr: float
    fano: float
