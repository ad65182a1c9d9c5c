"""How likely what a tissue shows is, for each particle: oxygen uptake, lactate, firing, LDH, volume.

Every signal but LDH has an unknown scale in each particle, taken from its first value: a tissue is compared with itself. After
another instrument or calibration the scale is taken anew, given the viability that each particle has by then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from protocols.interval import Interval
from protocols.tissue import priors
from protocols.tissue.look import TissueLook
from protocols.tissue.particles import F8, oxygen_at_tissue
from protocols.tissue.priors import Axis

FREEDOM = 5.0
"""Degrees of freedom of Student's t: one odd value among many is no proof."""
Q10 = 2.2
"""Metabolic rate against temperature (biology.md §1.1)."""
SMALLEST = 1e-3
"""Smallest share of its usual value that a signal counts: the logarithm of zero says too much."""


@dataclass(frozen=True, slots=True)
class Signal:
    """One kind of evidence: its expected logarithm without scale, its scale's column, its noise, its failure rate."""

    expected: Callable[[F8, TissueLook], F8]
    scale: Axis | None
    noise: float
    failed: float = 0.0


def _uptake(particles: F8, look: TissueLook) -> F8:
    power = particles[:, Axis.UPTAKE_POWER]
    pace = math.log(Q10) / 10.0 * (_temperature_c(look) - 37.0)
    oxygen = np.log(np.maximum(oxygen_at_tissue(particles, look), 1.0) / 100.0)
    found: F8 = (
        power * (_log_viability(particles) + pace)
        + (1.0 - power) * oxygen
        + (1.0 + 2.0 * power) / 3.0 * particles[:, Axis.LOG_VOLUME]
        + particles[:, Axis.UPTAKE_DRIFT]
    )
    return found


def _lactate(particles: F8, look: TissueLook) -> F8:
    pace = math.log(Q10) / 10.0 * (_temperature_c(look) - 37.0)
    found: F8 = _log_viability(particles) + particles[:, Axis.LOG_VOLUME] + pace
    return found


def _firing(particles: F8, look: TissueLook) -> F8:
    warmth = math.log(2.0) / 10.0 * (min(_temperature_c(look), 39.0) - 37.0)
    found: F8 = particles[:, Axis.FIRING_POWER] * _log_viability(particles) + particles[:, Axis.FIRING_DRIFT] + warmth
    return found


def _ldh(particles: F8, _: TissueLook) -> F8:
    found: F8 = np.log1p(particles[:, Axis.LDH_GAIN] * particles[:, Axis.POOL])
    return found


def _volume(particles: F8, _: TissueLook) -> F8:
    found: F8 = particles[:, Axis.LOG_VOLUME]
    return found


SIGNALS: Mapping[str, Signal] = {
    "oxygen_uptake": Signal(_uptake, Axis.UPTAKE_SCALE, priors.UPTAKE_NOISE),
    "lactate_umol_d": Signal(_lactate, Axis.LACTATE_SCALE, priors.LACTATE_NOISE),
    "firing_hz": Signal(_firing, Axis.FIRING_SCALE, priors.FIRING_NOISE, priors.FAILED_ARRAY),
    "ldh": Signal(_ldh, None, priors.LDH_NOISE),
    "volume": Signal(_volume, Axis.VOLUME_SCALE, priors.VOLUME_NOISE),
}


def weighed(particles: F8, look: TissueLook, random: np.random.Generator) -> F8:
    """Return the log-likelihood of each particle. The scale of a signal that is new is set in `particles`."""
    total: F8 = np.zeros(len(particles))
    for name in look.rescaled:
        scale = SIGNALS[name].scale if name in SIGNALS else None
        if scale is not None:
            particles[:, scale] = np.nan
    for name, signal in SIGNALS.items():
        seen: Interval | None = getattr(look, name)
        if seen is not None:
            total += log_likelihood(particles, look, signal, seen, random)
    return total


def log_likelihood(particles: F8, look: TissueLook, signal: Signal, seen: Interval, random: np.random.Generator) -> F8:
    """Return the log-likelihood of one value for each particle."""
    expected = signal.expected(particles, look)
    noise = _noise(signal, seen, look)
    if signal.scale is not None:
        scale = particles[:, signal.scale]
        if math.isnan(scale[0]):
            if seen.value <= 0.0:
                return np.zeros(len(particles))
            scale[:] = math.log(seen.value) - expected + random.normal(0.0, noise, len(particles))
            return np.zeros(len(particles))
        expected = expected + scale
        value = max(seen.value, SMALLEST * float(np.exp(np.median(scale))))
    else:
        value = max(seen.value, SMALLEST)
    off = (math.log(value) - expected) / noise
    found: F8 = -0.5 * (FREEDOM + 1.0) * np.log1p(off * off / FREEDOM)
    if signal.failed:
        found = np.log((1.0 - signal.failed) * np.exp(found) + signal.failed * 0.3)
    return found


def _noise(signal: Signal, seen: Interval, look: TissueLook) -> float:
    """Return the standard deviation of the logarithm; wide where the moment is far from the usual one."""
    own = seen.sd / max(abs(seen.value), 1e-9)
    unusual = 0.0 if look.temperature_c is None else 0.05 * abs(look.temperature_c.value - 37.0)
    return math.sqrt(signal.noise**2 + min(own, 2.0) ** 2 + unusual**2)


def _log_viability(particles: F8) -> F8:
    found: F8 = np.log(np.maximum(particles[:, Axis.VIABILITY], 1e-3))
    return found


def _temperature_c(look: TissueLook) -> float:
    return 37.0 if look.temperature_c is None else look.temperature_c.value
