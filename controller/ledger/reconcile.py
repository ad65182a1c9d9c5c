"""Data reconciliation: volumes, pump gains, evaporation and density, estimated together from what the balance sees. Pure.

The balance equations of a rig are open: what leaves a vessel enters another, but how much a pump really moved, how fast
water leaves and how heavy the medium is are only known within bounds, and a bound that many doses have in common does not
average away. So all of them are unknowns of one weighted least-squares problem, solved recursively: means and covariance
matrix are carried along, each dose moves them, each weighing corrects them all by their shares of the doubt. The solution
is that of ordinary weighted least squares over all rows so far, for the equations are linear in each single step
(Narasimhan and Jordache, Data Reconciliation and Gross Error Detection, 2000, chapters 3 and 6).

The test of a residual is the usual one: beyond k standard deviations of itself it is a gross error, not noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

K = 3.0
"""A residual beyond so many of its standard deviations is no noise."""


@dataclass(frozen=True, slots=True)
class Residual:
    """Measured less expected, and the standard deviation that the difference ought to have; in the measurement's unit."""

    value: float
    sd: float

    @property
    def sigmas(self) -> float:
        """How many standard deviations it is long, with its sign."""
        if self.sd > 0.0:
            return self.value / self.sd
        return math.copysign(math.inf, self.value) if self.value else 0.0

    @property
    def gross(self) -> bool:
        """Whether it is more than noise."""
        return abs(self.sigmas) > K


def surplus(sd: float, least: float) -> float:
    """How much more variance than `sd`² a normal error has of which only those beyond ±`least` are taken notice of.

    The second moment of a normal distribution cut at both sides: σ² (1 + a φ(a) / Q(a)), a = least / σ.
    """
    if sd <= 0.0:
        return 0.0
    a = least / sd
    beyond = 0.5 * math.erfc(a / math.sqrt(2.0))
    if beyond <= 0.0:
        return least * least  # so far out that all of it lies at the edge
    return sd * sd * a * math.exp(-0.5 * a * a) / (math.sqrt(2.0 * math.pi) * beyond)


class Unknowns:
    """Means and covariances of named unknowns; a dozen or two of them, so that plain lists are quickest."""

    def __init__(self) -> None:
        self._at: dict[str, int] = {}
        self._mean: list[float] = []
        self._cov: list[list[float]] = []
        self._kept: frozenset[int] = frozenset()

    def __contains__(self, name: str) -> bool:
        return name in self._at

    def add(self, name: str, mean: float, variance: float, *, kept: bool = False) -> None:
        """A new unknown that has nothing to do with the others yet. One that is `kept` no measurement ever corrects, while
        what its error has in common with the others is followed: a consider state (Jazwinski, Stochastic Processes and
        Filtering Theory, 1970, §8.4).
        """
        if kept:
            self._kept |= {len(self._mean)}
        self._at = {**self._at, name: len(self._mean)}
        for row in self._cov:
            row.append(0.0)
        self._mean.append(mean)
        self._cov.append([0.0] * len(self._mean))
        self._cov[-1][-1] = variance

    def copy(self) -> Unknowns:
        """The same, to try something on."""
        other = Unknowns()
        other._at = self._at
        other._mean = self._mean.copy()
        other._cov = [row.copy() for row in self._cov]
        other._kept = self._kept
        return other

    def mean(self, name: str) -> float:
        """The estimate."""
        return self._mean[self._at[name]]

    def variance(self, name: str) -> float:
        """Its variance, never below zero."""
        at = self._at[name]
        return max(self._cov[at][at], 0.0)

    def covariance(self, one: str, other: str) -> float:
        """What the errors of two unknowns have in common."""
        return self._cov[self._at[one]][self._at[other]]

    def wander(self, name: str, variance: float, by: float = 0.0) -> None:
        """It may have changed by itself: by about `by`, as uncertain as `variance` says."""
        at = self._at[name]
        self._mean[at] += by
        self._cov[at][at] += variance

    def add_to(self, name: str, terms: Mapping[str, float], constant: float) -> None:
        """name += constant + Σ factor · (error of the term): how an unknown that was taken for its mean comes in."""
        at = self._at[name]
        self._mean[at] += constant
        for term, factor in terms.items():
            self._combine(at, self._at[term], factor)

    def exchanged(self, source: str, target: str, variance: float) -> None:
        """Between two unknowns an amount went over that is uncertain by `variance`: what one has less, the other has more."""
        a, b = self._at[source], self._at[target]
        self._cov[a][a] += variance
        self._cov[b][b] += variance
        self._cov[a][b] -= variance
        self._cov[b][a] -= variance

    def known(self, name: str, mean: float, variance: float, *, by: str | None = None, factor: float = 0.0) -> None:
        """From now on it is `mean`, whatever was thought before; with `by`, its error is `factor` times that one's too."""
        at = self._at[name]
        size = len(self._mean)
        for k in range(size):
            self._cov[at][k] = self._cov[k][at] = 0.0
        self._mean[at] = mean
        self._cov[at][at] = variance
        if by is not None:
            self._combine(at, self._at[by], factor)

    def residual(self, terms: Mapping[str, float], value: float, variance: float) -> Residual:
        """Of a measurement Σ factor · unknown = `value`, whose own error has `variance`."""
        expected = sum(factor * self.mean(name) for name, factor in terms.items())
        spread = variance
        for one, f in terms.items():
            for other, g in terms.items():
                spread += f * g * self.covariance(one, other)
        return Residual(value - expected, math.sqrt(max(spread, 0.0)))

    def measured(self, terms: Mapping[str, float], value: float, variance: float) -> Residual:
        """Take the measurement in: the weighted least-squares solution with one equation more. Returns its residual."""
        found = self.residual(terms, value, variance)
        if found.sd <= 0.0:
            return found
        size = len(self._mean)
        shared = [sum(factor * self._cov[self._at[name]][k] for name, factor in terms.items()) for k in range(size)]
        weight = 1.0 / (found.sd * found.sd)
        kept = [(i, k, self._cov[i][k]) for i in self._kept for k in self._kept]
        for i in range(size):
            share = shared[i] * weight
            if share == 0.0:
                continue
            if i not in self._kept:
                self._mean[i] += share * found.value
            row = self._cov[i]
            for k in range(size):
                row[k] -= share * shared[k]
        for i, k, variance in kept:
            self._cov[i][k] = variance
        return found

    def _combine(self, at: int, term: int, factor: float) -> None:
        """The error of `at` grows by `factor` times that of `term`."""
        cov = self._cov
        row, other = cov[at], cov[term]
        own = row[at] + 2.0 * factor * row[term] + factor * factor * other[term]
        for k in range(len(row)):
            row[k] += factor * other[k]
            cov[k][at] = row[k]
        row[at] = own
