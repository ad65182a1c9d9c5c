"""How likely what a tissue shows is, for each particle: oxygen uptake, lactate, firing, LDH, volume.

Every signal but LDH has an unknown scale in each particle, taken from its first value: a tissue is compared with itself.
After another instrument or calibration the scale is taken again, given the viability that each particle has by then.
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
UNUSUAL_PER_K, UNUSUAL_PER_PH, UNUSUAL_OXYGEN = 0.05, 3.0, 0.5
USUAL_PH, USUAL_OXYGEN_PCT = (7.2, 7.5), 60.0
"""What widens the noise of signals that follow the moment [P]: for each K, each pH outside, each e-fold of oxygen below."""
SMALLEST = 1e-6
"""Smallest value of a signal: zero has no logarithm."""
FAINT = math.log(0.1)
"""Below a tenth of its usual value a signal says that it is low and not how low: silent tissue need not be dead."""


@dataclass(frozen=True, slots=True)
class Signal:
    """One kind of evidence: its expected logarithm without scale, its scale's column, its noise, its failure rate."""

    expected: Callable[[F8, TissueLook], F8]
    scale: Axis | None
    noise: float
    failed: float = 0.0
    acute: bool = False
    """Whether it follows temperature, oxygen and pH at once."""


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
    "oxygen_uptake": Signal(_uptake, Axis.UPTAKE_SCALE, priors.UPTAKE_NOISE, acute=True),
    "lactate_umol_d": Signal(_lactate, Axis.LACTATE_SCALE, priors.LACTATE_NOISE),
    "firing_hz": Signal(_firing, Axis.FIRING_SCALE, priors.FIRING_NOISE, priors.FAILED_ARRAY, acute=True),
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
    value = max(seen.value, seen.sd, SMALLEST)
    if signal.scale is None:
        off = (math.log(value) - expected) / noise
    else:
        scale = particles[:, signal.scale]
        if math.isnan(scale[0]):
            if seen.value <= 0.0:
                return np.zeros(len(particles))
            scale[:] = math.log(seen.value) - expected + random.normal(0.0, noise, len(particles))
            return np.zeros(len(particles))
        share = math.log(value) - scale
        off = (np.maximum(share, FAINT) - expected) / noise
        off[(share <= FAINT) & (expected < FAINT)] = 0.0
    found: F8 = -0.5 * (FREEDOM + 1.0) * np.log1p(off * off / FREEDOM)
    if signal.failed:
        found = np.log((1.0 - signal.failed) * np.exp(found) + signal.failed * 0.3)
    return found


def _noise(signal: Signal, seen: Interval, look: TissueLook) -> float:
    """Return the standard deviation of the logarithm; wide where the moment is far from the usual one."""
    own = seen.sd / max(abs(seen.value), 1e-9)
    return math.sqrt(signal.noise**2 + min(own, 2.0) ** 2 + (_unusual(look) if signal.acute else 0.0) ** 2)


def _unusual(look: TissueLook) -> float:
    """Return how far the moment is from the usual one, as a standard deviation of the logarithm.

    Uptake and firing follow temperature, oxygen and pH at once, in living tissue too: while these are unusual, a low value
    is weak evidence of a loss.
    """
    found = 0.0
    if look.temperature_c is not None:
        found += UNUSUAL_PER_K * abs(look.temperature_c.value - 37.0)
    if look.ph is not None:
        found += UNUSUAL_PER_PH * max(USUAL_PH[0] - look.ph.value, look.ph.value - USUAL_PH[1], 0.0)
    if look.oxygen_pct is not None:
        found += UNUSUAL_OXYGEN * math.log(max(USUAL_OXYGEN_PCT / max(look.oxygen_pct.value, 1.0), 1.0))
    return found


def _log_viability(particles: F8) -> F8:
    found: F8 = np.log(np.maximum(particles[:, Axis.VIABILITY], 1e-3))
    return found


def _temperature_c(look: TissueLook) -> float:
    return 37.0 if look.temperature_c is None else look.temperature_c.value
