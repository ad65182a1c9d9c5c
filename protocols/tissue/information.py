"""Which measurement would narrow the interval most over the next week, and what it costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from protocols.tissue.estimate import LEVEL, ViabilityEstimate, quantiles
from protocols.tissue.evidence import SIGNALS
from protocols.tissue.look import TissueLook
from protocols.tissue.metabolism import F8
from protocols.tissue.particles import passed
from protocols.tissue.priors import Axis

AHEAD_H = 24.0 * 7
DRAWS = 12
"""Number of possible results that are tried for each measurement."""
WORTH = 0.9
"""A measurement is named if it makes the expected interval narrower than this share of the one without it."""
STAIN_NOISE = 0.35
"""A live/dead stain of one organoid: standard deviation of the logit, most of it from organoid to organoid [P]."""


@dataclass(frozen=True, slots=True)
class PossibleMeasurement:
    """A measurement that could be made: its signal (empty: a stain), its noise as a logarithm, and what it costs."""

    name: str
    signal: str
    noise: float
    cost: str


MEASUREMENTS = (
    PossibleMeasurement("oxygen at the chamber's outlet", "oxygen_uptake", 0.08, "an oxygen probe"),
    PossibleMeasurement("a brightfield image now and in a week", "volume", 0.05, "some minutes"),
    PossibleMeasurement(
        "an assay of LDH, which dying cells release, now and in a week", "ldh", 0.15, "two samples of 0.1 mL"
    ),
    PossibleMeasurement("an assay of lactate now and in a week", "lactate_umol_d", 0.12, "two samples of 0.1 mL"),
    PossibleMeasurement("electrical activity", "firing_hz", 0.30, "an electrode array"),
    PossibleMeasurement("a live/dead stain of one organoid", "", STAIN_NOISE, "one organoid"),
)
"""Costs are those of a typical laboratory [P]."""


@dataclass(frozen=True, slots=True)
class Gain:
    """Predicts the effect of a measurement: the `width` of the interval in a week with it, and `without` it."""

    measurement: PossibleMeasurement
    width: float
    without: float

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        one = self.measurement
        return {"name": one.name, "cost": one.cost, "width": round(self.width, 3), "without": round(self.without, 3)}


def gains(estimate: ViabilityEstimate, look: TissueLook) -> tuple[Gain, ...]:
    """Return the measurements that are not made now, the one that narrows most first.

    Args:
        estimate: What is believed now.
        look: The present hour: what it has is measured already.
    """
    random = np.random.default_rng((estimate.seed, estimate.hour, 1))
    now = estimate.particles
    later = passed(now, look, AHEAD_H, random)
    viability, shares = later[:, Axis.VIABILITY], estimate.shares
    without = _width(viability, shares)
    found = [
        Gain(
            each,
            _expected_width(_shown(each, now, later, look, random), each.noise, viability, shares, random),
            without,
        )
        for each in MEASUREMENTS
        if not each.signal or getattr(look, each.signal) is None
    ]
    return tuple(sorted(found, key=lambda gain: gain.width))


def best_measurement(estimate: ViabilityEstimate, look: TissueLook) -> Gain | None:
    """Return the measurement that narrows the interval most and spares the tissue; None if none narrows it noticeably."""
    best = next((gain for gain in gains(estimate, look) if gain.measurement.signal), None)
    return best if best is not None and best.width < WORTH * best.without else None


def _shown(measurement: PossibleMeasurement, now: F8, later: F8, look: TissueLook, random: np.random.Generator) -> F8:
    """Return what each particle would show: the change of a signal over the time, or its viability as a logit."""
    if not measurement.signal:
        viability = np.clip(later[:, Axis.VIABILITY], 1e-3, 1.0 - 1e-3)
        found: F8 = np.log(viability / (1.0 - viability))
        return found
    signal = SIGNALS[measurement.signal]
    change = signal.expected(later, look) - signal.expected(now, look)
    mean, var = signal.track.drifted(now, AHEAD_H)
    drifted: F8 = change + mean + np.sqrt(var) * random.normal(0.0, 1.0, len(now))
    return drifted


def _expected_width(shown: F8, noise: float, viability: F8, shares: F8, random: np.random.Generator) -> float:
    noise = noise * math.sqrt(2.0)
    widths = []
    for number in random.choice(len(shares), DRAWS, p=shares):
        value = shown[number] + random.normal(0.0, noise)
        weights = shares * np.exp(-0.5 * ((shown - value) / noise) ** 2)
        widths.append(_width(viability, weights / weights.sum()))
    return float(np.mean(widths))


def _width(viability: F8, shares: F8) -> float:
    low, high = quantiles(viability, shares, (0.5 - LEVEL / 2, 0.5 + LEVEL / 2))
    return high - low
