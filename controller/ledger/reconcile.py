"""Data reconciliation: volumes, pump gains, evaporation and density, estimated together from weighings. Pure.

The volume balance of a rig is underdetermined: what leaves a vessel enters another, but the real delivery of a pump, the
rate of evaporation and the density are known only within bounds, and an error that many doses share does not average away.
All of them are therefore unknowns of one weighted least-squares problem, solved recursively: means and covariance matrix are
carried along, each dose changes them, each weighing corrects them by their shares of the uncertainty. The solution is that of
ordinary weighted least squares over all rows so far, because the equations are linear in each step (Narasimhan and Jordache,
Data Reconciliation and Gross Error Detection, 2000, chapters 3 and 6).

A residual beyond k of its standard deviations is a gross error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

K = 3.0
"""Number of standard deviations beyond which a residual is a gross error."""


@dataclass(frozen=True, slots=True)
class Residual:
    """Measured minus expected value, and the expected standard deviation of the difference (the measurement's unit)."""

    value: float
    sd: float

    @property
    def sigmas(self) -> float:
        """The residual in standard deviations, signed."""
        if self.sd > 0.0:
            return self.value / self.sd
        return math.copysign(math.inf, self.value) if self.value else 0.0

    @property
    def gross(self) -> bool:
        """Whether it is a gross error."""
        return abs(self.sigmas) > K


def surplus(sd: float, min_error: float) -> float:
    """Return the extra variance of a normal error of which only values beyond ±`min_error` are observed.

    The second moment of a normal distribution cut at both sides is σ² (1 + a φ(a) / Q(a)), with a = min_error / σ.
    """
    if sd <= 0.0:
        return 0.0
    a = min_error / sd
    beyond = 0.5 * math.erfc(a / math.sqrt(2.0))
    if beyond <= 0.0:
        return min_error * min_error  # so far out that all of it lies at the edge
    return sd * sd * a * math.exp(-0.5 * a * a) / (math.sqrt(2.0 * math.pi) * beyond)


class Unknowns:
    """Means and covariances of named unknowns: one or two dozen, so plain lists are fastest."""

    def __init__(self) -> None:
        self._at: dict[str, int] = {}
        self._mean: list[float] = []
        self._cov: list[list[float]] = []
        self._kept: frozenset[int] = frozenset()

    def __contains__(self, name: str) -> bool:
        return name in self._at

    def add(self, name: str, mean: float, variance: float, *, kept: bool = False) -> None:
        """Add an unknown that is not correlated with the others yet.

        A `kept` unknown is never corrected by a measurement, but its correlations are followed: a consider state (Jazwinski,
        Stochastic Processes and Filtering Theory, 1970, §8.4).
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
        """Return a copy, for a trial."""
        other = Unknowns()
        other._at = self._at
        other._mean = self._mean.copy()
        other._cov = [row.copy() for row in self._cov]
        other._kept = self._kept
        return other

    def mean(self, name: str) -> float:
        """Return the estimate."""
        return self._mean[self._at[name]]

    def variance(self, name: str) -> float:
        """Return the variance of the estimate; never below zero."""
        at = self._at[name]
        return max(self._cov[at][at], 0.0)

    def covariance(self, one: str, other: str) -> float:
        """Return the covariance of two unknowns."""
        return self._cov[self._at[one]][self._at[other]]

    def wander(self, name: str, variance: float, by: float = 0.0) -> None:
        """Let an unknown change by itself: by `by`, with the given variance."""
        at = self._at[name]
        self._mean[at] += by
        self._cov[at][at] += variance

    def add_to(self, name: str, terms: Mapping[str, float], constant: float) -> None:
        """Add to the unknown `name`: constant + Σ factor · (error of the term)."""
        at = self._at[name]
        self._mean[at] += constant
        for term, factor in terms.items():
            self._combine(at, self._at[term], factor)

    def exchanged(self, shares: Mapping[str, float], variance: float) -> None:
        """Add the uncertainty of an exchange between unknowns: what some lose (share < 0), the others gain."""
        for one, f in shares.items():
            for other, g in shares.items():
                self._cov[self._at[one]][self._at[other]] += f * g * variance

    def known(self, name: str, mean: float, variance: float, *, by: Mapping[str, float] = MappingProxyType({})) -> None:
        """Set an unknown to `mean`, regardless of the past. Its error includes those of the unknowns in `by`, by factor."""
        at = self._at[name]
        size = len(self._mean)
        for k in range(size):
            self._cov[at][k] = self._cov[k][at] = 0.0
        self._mean[at] = mean
        self._cov[at][at] = variance
        for term, factor in by.items():
            self._combine(at, self._at[term], factor)

    def residual(self, terms: Mapping[str, float], value: float, variance: float) -> Residual:
        """Return the residual of a measurement Σ factor · unknown = `value` with the given variance."""
        expected = sum(factor * self.mean(name) for name, factor in terms.items())
        spread = variance
        for one, f in terms.items():
            for other, g in terms.items():
                spread += f * g * self.covariance(one, other)
        return Residual(value - expected, math.sqrt(max(spread, 0.0)))

    def measured(self, terms: Mapping[str, float], value: float, variance: float) -> Residual:
        """Apply a measurement: weighted least squares with one more equation. Return its residual."""
        found = self.residual(terms, value, variance)
        if found.sd <= 0.0:
            return found
        size = len(self._mean)
        shared = [sum(factor * self._cov[self._at[name]][k] for name, factor in terms.items()) for k in range(size)]
        weight = 1.0 / (found.sd * found.sd)
        kept = [(i, k, self._cov[i][k]) for i in self._kept for k in self._kept]
        self._correct([each * weight for each in shared], shared, found.value)
        for i, k, variance in kept:
            self._cov[i][k] = variance
        return found

    def _correct(self, shares: list[float], shared: list[float], residual: float) -> None:
        """Correct means and covariances by `shares` of a residual; `shared` are its covariances with the unknowns."""
        for i, share in enumerate(shares):
            if share == 0.0:
                continue
            if i not in self._kept:
                self._mean[i] += share * residual
            row = self._cov[i]
            for k, common in enumerate(shared):
                row[k] -= share * common

    def _combine(self, at: int, term: int, factor: float) -> None:
        """Add `factor` times the error of `term` to the error of `at`."""
        cov = self._cov
        row, other = cov[at], cov[term]
        own = row[at] + 2.0 * factor * row[term] + factor * factor * other[term]
        for k in range(len(row)):
            row[k] += factor * other[k]
            cov[k][at] = row[k]
        row[at] = own
