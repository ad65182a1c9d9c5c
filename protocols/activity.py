"""Electrophysiological activity score: the firing on the array compared with the organoid's own baseline
(electrodes.md §5).

There is no published norm: rates differ by orders of magnitude between protocols and arrays. So rates, active
electrodes and evoked responses are compared with the organoid's own rolling baseline. Weights are electrodes.md's
proposal, unvalidated [P]; so are the corners, unless a line says otherwise. A plain weighted sum, times the signal
quality; firing with nine spikes of ten in bursts counts half (seizure-like hypersynchrony).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from protocols.interval import Interval
from protocols.scoring import FLOOR, Corners, ScorePart, missing

VERSION = "activity-1"

WEIGHTS = {
    "active_ratio": 0.25,
    "rate_z": 0.20,
    "burst_cv": 0.15,
    "sttc": 0.15,
    "branching": 0.10,
    "evoked_ratio": 0.15,
}
CORNERS = {
    "active_ratio": Corners(0.3, 0.9, math.inf, math.inf),
    "rate_z": Corners(-3.15, -1.0, 2.0, 6.0),
    "burst_cv": Corners(0.0, 0.3, 1.5, 3.0),
    "sttc": Corners(-0.1, 0.05, 0.5, 0.95),
    "branching": Corners(0.5, 0.85, 1.05, 1.4),
    "evoked_ratio": Corners(0.0, 0.7, math.inf, math.inf),
}
"""`active_ratio` and `evoked_ratio` are relative to the organoid's baseline; `rate_z` is the logarithm of the
firing rate, in spreads of the baseline (:mod:`protocols.baseline`): a fall by half, which is an alarm, is −3.15
at the minimum spread; `burst_cv` the coefficient of variation of inter-burst intervals (0 is perfectly regular,
so hypersynchronous); `sttc` the mean spike-time tiling coefficient; `branching` the branching ratio (1 is
critical).
"""

SEIZURE_SHARE = 0.9
"""A larger share of spikes in bursts counts as seizure-like [electrodes.md §5, P]."""
SEIZURE_FACTOR = 0.5


@dataclass(frozen=True, slots=True)
class FiringMeasures:
    """Known measures of the firing; None is missing. See :data:`CORNERS`; `signal_quality` is 0..1."""

    active_ratio: Interval | None = None
    rate_z: Interval | None = None
    burst_cv: Interval | None = None
    sttc: Interval | None = None
    branching: Interval | None = None
    evoked_ratio: Interval | None = None
    signal_quality: Interval | None = None
    """Share of electrodes with a reliable signal."""
    seizure_like: bool = False
    """A recorded finding, not a reading: more than :data:`SEIZURE_SHARE` of the spikes were in bursts."""


def activity(
    firing: FiringMeasures,
    weight: float,
    *,
    weights: Mapping[str, float] = WEIGHTS,
    corners: Mapping[str, Corners] = CORNERS,
) -> ScorePart:
    """Return the activity as one part, of `weight`, of another score. `weights` and `corners` are for sensitivity
    analysis.
    """
    name = "activity"
    known_weight = known = low = value = high = 0.0
    for field, share in weights.items():
        reading: Interval | None = getattr(firing, field)
        if reading is None or not reading.finite:
            high += share
            continue
        least, guess, most = corners[field].range(reading)
        low, value, high = low + share * least, value + share * guess, high + share * most
        known, known_weight = known + share * guess, known_weight + share
    if known_weight == 0.0:
        return missing(name, weight)
    worst, guess, best = _trust(firing)
    score = max(FLOOR, value * guess)
    return ScorePart(
        name,
        weight,
        score,
        max(FLOOR, low * worst),
        max(FLOOR, high * best),
        max(FLOOR, known / known_weight * (guess if firing.signal_quality is not None else 1.0)),
        known_weight,
        round(value * guess, 6),
        ", ".join(field for field in weights if getattr(firing, field) is not None),
    )


def terms(firing: FiringMeasures) -> tuple[float, ...]:
    """Return the scores of the parts of :data:`WEIGHTS`, times their trust: their weighted sum is the activity
    (0..1).
    """
    trusted = _trust(firing)[1]
    readings = ((field, getattr(firing, field)) for field in WEIGHTS)
    return tuple(0.0 if seen is None else CORNERS[field].score(seen.value) * trusted for field, seen in readings)


def _trust(firing: FiringMeasures) -> tuple[float, float, float]:
    """Return the factor for signal quality and hypersynchrony: worst case, best guess, best case; unknown is worst."""
    calm = SEIZURE_FACTOR if firing.seizure_like else 1.0
    quality = firing.signal_quality
    if quality is None or not quality.finite:
        return 0.0, 0.0, calm
    low, value, high = (min(max(share, 0.0), 1.0) * calm for share in (quality.low, quality.value, quality.high))
    return low, value, high
