"""The posterior of a tissue's viability, hour by hour (`viability-3`).

A particle filter. Each particle is a possible tissue: its viability now, how sensitive it is to each harm, how its signals
follow its state, and perhaps a harm of unknown cause. In each hour what the tissue lived in moves the particles, and what it
showed weighs them. So an hour without data only widens the interval, and harm that was measured lowers the estimate although
some signals look well.

Pure and deterministic: the random numbers of an hour follow from the seed and the hour, so that the journalled looks give
the same estimate again after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from protocols.tissue import particles as moving
from protocols.tissue.evidence import weighed
from protocols.tissue.look import TISSUE, TissueLook
from protocols.tissue.particles import F8
from protocols.tissue.priors import FIRST_PARAMETER, SCALES, Axis

VERSION = "viability-3"
LEVEL = 0.90
"""Probability that the interval claims."""
FEW = 0.5
"""Particles are resampled when their effective number falls below this share."""
SHRINKAGE = 0.99
"""Parameters are smoothed when particles are resampled (Liu and West 2001), so that copies differ."""
HARM_SHARE = 0.05
"""Loss from the peak that is looked for."""
HARM_PROBABILITY = 0.8
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

    @property
    def width(self) -> float:
        """Width of the interval."""
        return self.high - self.low


@dataclass(frozen=True, slots=True)
class ViabilityEstimate:
    """What is believed of a tissue after some hours. Never changed: :meth:`after` returns the next."""

    particles: F8
    """Shape (particles, columns), all of the same weight but for `weights`."""
    log_weights: F8
    hour: int
    seed: int
    past: tuple[Range, ...] = ()
    """The ranges of the last hours, oldest first, :data:`KEPT_H` at most."""

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
        moved = moving.passed(held, look, hours, random)
        weights = before + weighed(moved, look, random)
        weights -= weights.max()
        share = np.exp(weights)
        share /= share.sum()
        if 1.0 / float(share @ share) < FEW * len(share):
            moved, weights = _resampled(moved, share, random), np.zeros(len(share))
        next_one = replace(self, particles=moved, log_weights=weights, hour=hour)
        return replace(next_one, past=(*self.past, next_one.range())[-KEPT_H:])

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
        return Range(value, low, high, float(share[lost > HARM_SHARE].sum()))

    @property
    def harmed(self) -> bool:
        """Whether a loss is as good as certain."""
        return bool(self.past) and self.past[-1].harmed >= HARM_PROBABILITY

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
    """Return as many particles, each as often as its weight says (systematic resampling), their parameters smoothed."""
    count = len(share)
    places = (np.arange(count) + random.random()) / count
    chosen: F8 = particles[np.minimum(np.searchsorted(np.cumsum(share), places), count - 1)]
    columns = [column for column in range(FIRST_PARAMETER, len(Axis)) if not np.isnan(chosen[0, column])]
    logarithmic = [column for column in columns if (chosen[:, column] > 0.0).all() and Axis(column) not in SCALES]
    chosen[:, logarithmic] = np.log(chosen[:, logarithmic])
    values = chosen[:, columns]
    mean, sd = values.mean(axis=0), values.std(axis=0)
    noise = random.normal(0.0, 1.0, values.shape) * sd * np.sqrt(1.0 - SHRINKAGE**2)
    chosen[:, columns] = SHRINKAGE * values + (1.0 - SHRINKAGE) * mean + noise
    chosen[:, logarithmic] = np.exp(chosen[:, logarithmic])
    return chosen
