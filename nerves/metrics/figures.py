"""The figures of one window of spikes: of the array, and of each electrode."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nerves.metrics.bursts import BIN_S, BurstRule, burst_rule, bursts, network_bursts, network_rule
from nerves.metrics.compiled import compiled
from nerves.metrics.intervals import Train, cv, cv2, fano, lv, lvr
from nerves.metrics.pairs import mean_sttc
from nerves.metrics.terms import ArrayMetrics, ElectrodeMetrics

Floats = NDArray[np.float64]

STTC_WITHIN_S = 0.02
"""Usual values are 10 to 50 ms."""
LVR_REFRACTORY_S = 0.005
"""Shinomoto 2009."""
FANO_BIN_S = 1.0
MIN_SPIKES = 10
"""Minimum number of spikes of an electrode in a window for figures of its intervals and its synchrony."""
MAX_PAIRED = 64
"""Number of electrodes, evenly chosen of those with enough spikes, whose pairs are averaged: 2,016 pairs."""
COLUMNS = ("bursts", "in_bursts", "cv", "cv2", "lv", "lvr", "fano")


@dataclass(frozen=True, slots=True)
class SpikeWindow:
    """All spikes from frame `begin` up to `end`, sorted by electrode and then by frame.

    Train `k` is `frames[offsets[k]:offsets[k + 1]]`; `uv` has the amplitude of each spike.
    """

    begin: int
    end: int
    frames: Train
    offsets: Train
    uv: NDArray[np.float32]

    @classmethod
    def of(
        cls, begin: int, end: int, frames: Train, electrodes: NDArray[np.int32], uv: NDArray[np.float32], count: int
    ) -> SpikeWindow:
        """Sort spikes that are in the order of their frames; `count` is the number of electrodes."""
        order = np.argsort(electrodes, kind="stable")
        offsets = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(electrodes, minlength=count), out=offsets[1:])
        return cls(begin, end, np.ascontiguousarray(frames[order], np.int64), offsets, uv[order])

    def train(self, electrode: int) -> Train:
        """Return the frames of one electrode's spikes."""
        return self.frames[self.offsets[electrode] : self.offsets[electrode + 1]]


def measure(
    window: SpikeWindow, sample_rate_hz: float, observed: NDArray[np.bool_], pulses: int = 0
) -> tuple[ArrayMetrics, ElectrodeMetrics]:
    """Return the figures of a window; electrodes that are not `observed` are left out of those of the array."""
    seconds = (window.end - window.begin) / sample_rate_hz
    counts = np.diff(window.offsets)
    rows = np.empty((len(counts), len(COLUMNS)))
    refractory, width = LVR_REFRACTORY_S * sample_rate_hz, round(FANO_BIN_S * sample_rate_hz)
    span = window.begin, window.end
    _electrode_rows(window.frames, window.offsets, *span, burst_rule(sample_rate_hz), refractory, width, rows)
    rows[~observed] = math.nan
    rows[counts < MIN_SPIKES, COLUMNS.index("cv") :] = math.nan
    rate = np.where(observed, counts / seconds, math.nan)
    own, inside, *variation = rows.T
    electrodes = ElectrodeMetrics(
        rate,
        np.where(observed, _amplitudes(window), math.nan),
        own / seconds * 60.0,
        np.divide(inside, counts, out=np.full(len(counts), math.nan), where=counts > 0),
        *variation,
    )
    return _of_array(window, sample_rate_hz, observed, electrodes, pulses), electrodes


def _of_array(
    window: SpikeWindow, sample_rate_hz: float, observed: NDArray[np.bool_], electrodes: ElectrodeMetrics, pulses: int
) -> ArrayMetrics:
    seconds = (window.end - window.begin) / sample_rate_hz
    counts = np.diff(window.offsets)
    active = np.flatnonzero(observed & (counts >= MIN_SPIKES))
    spikes = int(counts[observed].sum())
    chosen = (
        active[np.unique(np.linspace(0, len(active) - 1, MAX_PAIRED).round().astype(np.int64))]
        if len(active)
        else active
    )
    within = STTC_WITHIN_S * sample_rate_hz
    sttc, sttc_sd = mean_sttc(window.frames, window.offsets, chosen, window.begin, window.end, within)
    network = _network(window, sample_rate_hz, observed, len(active))
    lengths = ((network[:, 1] - network[:, 0]) * BIN_S).astype(np.float64)
    inside = electrodes.in_bursts[active] * counts[active]
    figures = {
        "bursts_min": _mean(electrodes.bursts_min[active]),
        "in_bursts": float(inside.sum() / counts[active].sum()) if len(active) else math.nan,
        "network_bursts_min": len(network) / seconds * 60.0,
        "network_burst_s": _mean(lengths),
        "in_network_bursts": float(network[:, 2].sum() / spikes) if spikes else math.nan,
        "network_interval_cv": cv(network[:, 0].copy()) if len(network) >= MIN_NETWORK_BURSTS else math.nan,
        "sttc": sttc,
        "sttc_sd": sttc_sd,
        "cv": _median(electrodes.cv[active]),
        "cv2": _median(electrodes.cv2[active]),
        "lv": _median(electrodes.lv[active]),
        "lvr": _median(electrodes.lvr[active]),
        "fano": _median(electrodes.fano[active]),
    }
    return ArrayMetrics(seconds, spikes, len(active), pulses, figures)


MIN_NETWORK_BURSTS = 4


def _network(window: SpikeWindow, sample_rate_hz: float, observed: NDArray[np.bool_], active: int) -> NDArray[np.int64]:
    """Return the network bursts of the observed electrodes."""
    electrode = np.repeat(np.arange(len(observed), dtype=np.int32), np.diff(window.offsets))
    kept = observed[electrode]
    place = ((window.frames[kept] - window.begin) / (BIN_S * sample_rate_hz)).astype(np.int64)
    order = np.argsort(place, kind="stable")
    bins = max(1, int((window.end - window.begin) / (BIN_S * sample_rate_hz)))
    counts = np.bincount(place, minlength=bins)
    rule = network_rule(len(place) / bins, active)
    return network_bursts(place[order], electrode[kept][order], counts, rule, len(observed))


def _amplitudes(window: SpikeWindow) -> Floats:
    trains = np.split(np.abs(window.uv), window.offsets[1:-1])
    return np.array([np.median(each) if len(each) else math.nan for each in trains])


@compiled
def _electrode_rows(
    frames: Train,
    offsets: Train,
    begin: int,
    end: int,
    rule: BurstRule,
    refractory: float,
    width: int,
    rows: Floats,
) -> None:
    """Fill one row of :data:`COLUMNS` for each electrode: bursts and spikes in bursts as numbers."""
    for k in range(len(offsets) - 1):
        train = frames[offsets[k] : offsets[k + 1]]
        found = bursts(train, rule)
        inside = 0
        for number in range(len(found)):
            inside += found[number, 1] - found[number, 0]
        rows[k, 0], rows[k, 1] = len(found), inside
        rows[k, 2], rows[k, 3], rows[k, 4] = cv(train), cv2(train), lv(train)
        rows[k, 5], rows[k, 6] = lvr(train, refractory), fano(train, begin, end, width)


def _mean(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else math.nan


def _median(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else math.nan
