"""The posterior of a tissue's viability, hour by hour (`viability-9`).

A particle filter. Each particle is a possible tissue: its viability now, how sensitive it is to each harm, how its signals
follow its state, and perhaps a harm of unknown cause. In each hour what the tissue lived in moves the particles, and what it
showed weighs them. So an hour without data only widens the interval, and harm that was measured lowers the estimate although
some signals look well. The scale and the drift of each signal are computed for each particle, not drawn.

Pure and deterministic: the random numbers of an hour follow from the seed and the hour, so that the journalled looks give
the same estimate again after a restart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from protocols.interval import Interval
from protocols.tissue import particles as moving
from protocols.tissue.evidence import shown, weighed
from protocols.tissue.look import NOTHING_KNOWN, TISSUE, LastKnown, TissueLook
from protocols.tissue.metabolism import F8
from protocols.tissue.priors import FIRST_PARAMETER, RANGES, SENSITIVITIES, Axis
from protocols.tissue_loss import UNKNOWN, TissueLoss

VERSION = "viability-9"
LEVEL = 0.90
"""Probability that the interval claims."""
FEW = 0.5
"""Particles are resampled when their effective number falls below this share."""
SHRINKAGE = 0.99
"""Parameters are smoothed when particles are resampled (Liu and West 2001), so that copies differ."""
LOGARITHMIC = (*SENSITIVITIES, Axis.FIRING_POWER, Axis.LACTATE_LAG_H, Axis.HOLD_H)
"""Parameters that are smoothed by their logarithm."""
HARM_SHARE = 0.05
"""Loss from the peak that is looked for."""
HARM_PROBABILITY = 0.8
SUSPECTED_LOSS = 0.07
"""Expected loss from the peak from which a loss is suspected; false suspicions are counted (docs/viability.md)."""
TOO_WIDE = 0.5
"""Width of an interval that says too little to be called stable, or, without evidence, to suspect a loss."""
SEEN_H = 24.0
"""Time (h) for which evidence counts as recent."""
RESOLUTION = 0.02
"""The interval is never finer than this to either side."""
KEPT_H = 24 * 30
STEADY = 0.03
"""Change of the median up to which an estimate counts as stable."""


@dataclass(frozen=True, slots=True)
class Range:
    """The estimate of one hour: median and the ends of the 90 % interval, and the probability of a loss."""

    value: float
    low: float
    high: float
    harmed: float
    """Probability that more than :data:`HARM_SHARE` was lost from the peak of the last weeks."""
    lost: float
    """Expected loss from that peak."""

    @property
    def width(self) -> float:
        """Width of the interval."""
        return self.high - self.low


@dataclass(frozen=True, slots=True)
class ViabilityEstimate:
    """Holds the belief about a tissue after some hours. It is never changed: :meth:`after` returns the next."""

    particles: F8
    """Shape (particles, columns), all of the same weight but for `weights`."""
    log_weights: F8
    hour: int
    seed: int
    past: tuple[Range, ...] = ()
    """The ranges of the last hours, oldest first, :data:`KEPT_H` at most."""
    last: LastKnown = NOTHING_KNOWN
    """What the tissue was last seen to live in."""
    effective: float = 1.0
    """Effective share of the particles in the last hour, before they were resampled: a small one makes the estimate a
    matter of chance."""
    unseen_h: float = math.inf
    """Time since a signal showed how the tissue is."""

    @classmethod
    def begun(cls, seed: int = 0, *, count: int = moving.COUNT) -> ViabilityEstimate:
        """Return the estimate before anything is measured: the priors."""
        random = np.random.default_rng((seed, 0))
        drawn = moving.drawn(random, count)
        return cls(drawn, np.zeros(count), 0, seed)

    @classmethod
    def of(cls, looks: Iterable[TissueLook], *, seed: int = 0) -> ViabilityEstimate:
        """Return the estimate after the looks of successive hours."""
        estimate = cls.begun(seed)
        for look in looks:
            estimate = estimate.after(look)
        return estimate

    def after(self, look: TissueLook, hours: float = 1.0) -> ViabilityEstimate:
        """Return the estimate after one more hour (or part of one)."""
        hour = self.hour + 1
        random = np.random.default_rng((self.seed, hour))
        held, before = self.particles, self.log_weights
        if TISSUE in look.rescaled:
            held, before = moving.drawn(random, len(held)), np.zeros(len(held))
        moved = moving.passed(held, look, hours, random, self.last)
        weights = before + weighed(moved, look)
        weights -= weights.max()
        share = np.exp(weights)
        share /= share.sum()
        effective = 1.0 / float(share @ share) / len(share)
        if effective < FEW:
            moved, weights = _resampled(moved, share, random), np.zeros(len(share))
        last = self.last.after(look, hours)
        next_one = replace(self, particles=moved, log_weights=weights, hour=hour, last=last, effective=effective)
        unseen_h = 0.0 if shown(moved, look) else self.unseen_h + hours
        return replace(next_one, unseen_h=unseen_h, past=(*self.past, next_one.range())[-KEPT_H:])

    @property
    def shares(self) -> F8:
        """Return the weights of the particles; their sum is 1."""
        share: F8 = np.exp(self.log_weights - self.log_weights.max())
        share /= share.sum()
        return share

    def range(self) -> Range:
        """Return the estimate now."""
        share = self.shares
        viability = self.particles[:, Axis.VIABILITY]
        low, value, high = quantiles(viability, share, (0.5 - LEVEL / 2, 0.5, 0.5 + LEVEL / 2))
        lost = self.particles[:, Axis.PEAK] - viability
        low, high = max(low - RESOLUTION, 0.0), min(high + RESOLUTION, 1.0)
        return Range(value, low, high, float(share[lost > HARM_SHARE].sum()), float(share @ lost))

    @property
    def harmed(self) -> bool:
        """Whether a loss is as good as certain."""
        return bool(self.past) and self.past[-1].harmed >= HARM_PROBABILITY

    @property
    def suspected(self) -> bool:
        """Whether a loss is likely enough to look for it: slow losses show so weeks before they are certain."""
        return self.harmed or (bool(self.past) and self.past[-1].lost >= SUSPECTED_LOSS)

    @property
    def informed(self) -> bool:
        """Whether a loss that seems likely is more than a want of data, which makes losses possible."""
        return bool(self.past) and (self.past[-1].width <= TOO_WIDE or self.unseen_h <= SEEN_H)

    def finding(self, *, age_h: float = 0.0) -> TissueLoss:
        """Return what the last hour says of a loss; `age_h` is the time since then. A want of data alone is no suspicion."""
        if not self.past:
            return UNKNOWN
        now = self.past[-1]
        viability = Interval(now.value, now.low, now.high)
        suspected = self.suspected and self.informed
        return TissueLoss(viability, now.lost, suspected=suspected, certain=self.harmed, age_h=age_h)

    def stable_h(self) -> int:
        """Return for how many hours the estimate has changed by no more than :data:`STEADY`."""
        if not self.past:
            return 0
        now = self.past[-1].value
        for back, then in enumerate(reversed(self.past)):
            if abs(then.value - now) > STEADY:
                return back - 1
        return len(self.past) - 1


def quantiles(values: F8, shares: F8, at: tuple[float, ...]) -> tuple[float, ...]:
    """Return weighted quantiles."""
    order = np.argsort(values)
    total = np.cumsum(shares[order]) - 0.5 * shares[order]
    return tuple(float(each) for each in np.interp(at, total, values[order]))


def _resampled(particles: F8, share: F8, random: np.random.Generator) -> F8:
    """Return as many particles, each as often as its weight says, their parameters smoothed.

    Systematic resampling in the order of viability: the particles then differ little from what was weighed (Kitagawa 1996).
    """
    count = len(share)
    order = np.argsort(particles[:, Axis.VIABILITY], kind="stable")
    places = (np.arange(count) + random.random()) / count
    found = np.minimum(np.searchsorted(np.cumsum(share[order]), places), count - 1)
    chosen: F8 = np.asfortranarray(particles[order[found]])
    logarithmic = [*LOGARITHMIC]
    chosen[:, logarithmic] = np.log(chosen[:, logarithmic])
    values = chosen[:, FIRST_PARAMETER : len(Axis)]
    mean, sd = values.mean(axis=0), values.std(axis=0)
    noise = random.normal(0.0, 1.0, values.shape) * sd * np.sqrt(1.0 - SHRINKAGE**2)
    chosen[:, FIRST_PARAMETER : len(Axis)] = SHRINKAGE * values + (1.0 - SHRINKAGE) * mean + noise
    chosen[:, logarithmic] = np.exp(chosen[:, logarithmic])
    for column, (low, high) in RANGES.items():
        np.clip(chosen[:, column], low, high, out=chosen[:, column])
    return chosen
