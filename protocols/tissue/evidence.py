"""How likely what a tissue shows is, for each particle: oxygen uptake, lactate, firing, LDH, volume.

Every signal has an unknown scale in each particle, taken from its first value: a tissue is compared with itself.
After another instrument or calibration the scale is taken again, given the viability that each particle has by then. Scale
and drift are computed, not drawn (:mod:`protocols.tissue.tracks`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from protocols.interval import Interval
from protocols.tissue import priors
from protocols.tissue.look import TissueLook
from protocols.tissue.metabolism import F8, oxygen_uptake
from protocols.tissue.particles import oxygen_seen, temperature_c
from protocols.tissue.priors import Axis
from protocols.tissue.tracks import BACKGROUND, TRACKS, Track

FREEDOM = 5.0
"""Degrees of freedom of Student's t: one odd value among many is no proof."""
UNUSUAL_PER_K, UNUSUAL_PER_PH, UNUSUAL_OXYGEN = 0.05, 3.0, 0.5
USUAL_PH, USUAL_OXYGEN_PCT = (7.2, 7.5), 60.0
"""What widens the noise of signals that follow the moment [P]: for each K, each pH outside, each e-fold of oxygen below."""
MIN_LACTATE = 0.02
SCALE_IN_SD = 4.0
"""A signal must be this many times its uncertainty to give a scale: the noise of one that is not there is none."""
SMALLEST = 1e-6
"""Smallest value of a signal: zero has no logarithm."""
FAINT = math.log(0.1)
"""Below a tenth of its usual value a signal says that it is low and not how low: silent tissue need not be dead."""
FAINT_FOLDS = math.log(100.0)
"""Width over which faint values are spread, from a tenth to a thousandth [P]. So a particle that expects a faint signal is
less likely than one that expects just what is seen: else particles whose scale is far too large would explain everything."""
FAILED_DENSITY = 0.3
"""Density of the values of a signal that tells nothing, over that at the middle of its noise [P]."""
PEAK = 8.0 / (3.0 * math.pi * math.sqrt(FREEDOM))
"""Density of Student's t with :data:`FREEDOM` at its middle."""


@dataclass(frozen=True, slots=True)
class Signal:
    """One kind of evidence: its expected logarithm without scale and drift, their track, its noise, its failure rate."""

    expected: Callable[[F8, TissueLook], F8]
    track: Track
    noise: float
    failed: float = 0.0
    acute: bool = False
    """Whether it follows temperature, oxygen and pH at once."""


def _uptake(particles: F8, look: TissueLook) -> F8:
    taken = oxygen_uptake(particles, temperature_c(look), *oxygen_seen(particles, look))
    # It is measured as the loss of oxygen times the flow that the heart is taken to deliver.
    found: F8 = np.log(np.maximum(taken / particles[:, Axis.DELIVERED], SMALLEST))
    return found


def _lactate(particles: F8, _: TissueLook) -> F8:
    found: F8 = np.log(np.maximum(particles[:, Axis.LACTATE_SEEN], MIN_LACTATE))
    return found


def _firing(particles: F8, look: TissueLook) -> F8:
    warmth = math.log(2.0) / 10.0 * (min(temperature_c(look), 39.0) - 37.0)
    found: F8 = particles[:, Axis.FIRING_POWER] * _log_viability(particles) + warmth
    return found


def _ldh(particles: F8, _: TissueLook) -> F8:
    background = np.maximum(particles[:, BACKGROUND], SMALLEST)
    found: F8 = np.log1p(particles[:, Axis.LDH_GAIN] * particles[:, Axis.POOL] / background) + np.log(background)
    return found


def _volume(particles: F8, _: TissueLook) -> F8:
    found: F8 = particles[:, Axis.LOG_VOLUME]
    return found


SIGNALS: Mapping[str, Signal] = {
    "oxygen_uptake": Signal(_uptake, TRACKS["oxygen_uptake"], priors.UPTAKE_NOISE, acute=True),
    "lactate_umol_d": Signal(_lactate, TRACKS["lactate_umol_d"], priors.LACTATE_NOISE, priors.FAILED_LACTATE),
    "firing_hz": Signal(_firing, TRACKS["firing_hz"], priors.FIRING_NOISE, priors.FAILED_ARRAY, acute=True),
    "ldh": Signal(_ldh, TRACKS["ldh"], priors.LDH_NOISE),
    "volume": Signal(_volume, TRACKS["volume"], priors.VOLUME_NOISE),
}


def weighed(particles: F8, look: TissueLook) -> F8:
    """Return the log-likelihood of each particle. The tracks in `particles` learn from what is seen."""
    total: F8 = np.zeros(len(particles))
    for name in look.rescaled:
        if name in TRACKS:
            TRACKS[name].forget_scale(particles)
    for name, signal in SIGNALS.items():
        seen: Interval | None = getattr(look, name)
        if seen is not None:
            total += log_likelihood(particles, look, signal, seen)
    return total


def shown(particles: F8, look: TissueLook) -> bool:
    """Return whether a look shows how the tissue is, against a scale that is known by now."""
    found = (signal for name, signal in SIGNALS.items() if getattr(look, name) is not None)
    return any(not signal.track.unknown(particles) for signal in found)


def log_likelihood(particles: F8, look: TissueLook, signal: Signal, seen: Interval) -> F8:
    """Return the log-likelihood of one value for each particle, over the density at the middle of the noise alone."""
    expected = signal.expected(particles, look)
    noise = _noise(signal, seen, look)
    value, track = math.log(max(seen.value, seen.sd, SMALLEST)), signal.track
    if track.unknown(particles):
        if seen.value >= SCALE_IN_SD * seen.sd and seen.value > 0.0:
            track.take_scale(particles, math.log(seen.value) - expected, noise)
        return np.zeros(len(particles))
    middle, known_var = track.predicted(particles)
    off, seen_var = value - expected - middle, known_var + noise * noise
    square = off * off / seen_var
    found = _student(square) - 0.5 * np.log(seen_var / noise**2)
    clear = value - track.scale(particles) > FAINT
    if not clear.all():
        faint = ~clear
        above = FAINT - (expected + middle - track.scale(particles))[faint]
        found[faint] = _faint(above / np.sqrt(seen_var[faint]), noise)
    both = _with_failures(found, signal)
    sure = np.where(clear, (1.0 - signal.failed) * np.exp(found - both), 0.0)
    track.learn(particles, off, noise * noise * (FREEDOM + square) / (FREEDOM + 1.0), sure)
    return both


def _student(square: F8) -> F8:
    """Return the logarithm of the density of Student's t over that at its middle."""
    found: F8 = -0.5 * (FREEDOM + 1.0) * np.log1p(square / FREEDOM)
    return found


def _with_failures(found: F8, signal: Signal) -> F8:
    """Return the log-likelihood if the signal may tell nothing."""
    if not signal.failed:
        return found
    both: F8 = np.log((1.0 - signal.failed) * np.exp(found) + signal.failed * FAILED_DENSITY)
    return both


def _faint(off: F8, noise: float) -> F8:
    """Return the log-likelihood of a faint value, `off` deviations above what is expected: the tail below, spread evenly.

    As for other values, over the density at the middle of Student's t.
    """
    square = 1.0 + off * off / FREEDOM
    bent = off / (math.sqrt(FREEDOM) * square) * (1.0 + 2.0 / (3.0 * square))
    below = 0.5 + (bent + np.arctan(off / math.sqrt(FREEDOM))) / math.pi
    found: F8 = np.log(np.maximum(below, 1e-12) * min(noise / (PEAK * FAINT_FOLDS), 1.0))
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
