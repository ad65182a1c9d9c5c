"""The scale and the drift of a signal, as each particle would have them: known exactly given the particle, not drawn.

The logarithm of a signal is what the particle expects, plus a scale without prior, plus a drift. Given the particle both are
linear with (nearly) normal noise, so that a Kalman filter in each particle replaces draws of them (Rao and Blackwell;
Doucet et al. 2000). What is drawn then is only what cannot be computed, and the estimate depends far less on the draws.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, isnan

import numpy as np

from protocols.tissue import priors
from protocols.tissue.metabolism import F8
from protocols.tissue.priors import Axis

COLUMNS = 5
"""Of each track: scale and drift (means), variance of the scale, covariance, variance of the drift."""


@dataclass(frozen=True, slots=True)
class Track:
    """Scale and drift of one signal in all particles."""

    number: int
    drift_sd: float
    """Standard deviation of the drift before anything is measured."""
    returns_h: float = 0.0
    """Time in which the drift returns to nothing; 0: the drift is a constant slope (1/h) of the scale."""
    walk_sqrt_h: float = 0.0
    """Random walk of the scale, growing with the square root of time."""

    @property
    def first(self) -> int:
        """The first of its columns."""
        return len(Axis) + COLUMNS * self.number

    def begin(self, particles: F8) -> None:
        """Set what is known before the first value."""
        particles[:, self.first : self.first + COLUMNS] = (np.nan, 0.0, 0.0, 0.0, self.drift_sd**2)

    def forget_scale(self, particles: F8) -> None:
        """Note that the scale is new; the drift goes on."""
        particles[:, self.first] = np.nan

    def unknown(self, particles: F8) -> bool:
        """Return whether there is no scale yet."""
        return isnan(particles[0, self.first])

    def scale(self, particles: F8) -> F8:
        """Return the expected scale."""
        found: F8 = particles[:, self.first]
        return found

    def predicted(self, particles: F8) -> tuple[F8, F8]:
        """Return mean and variance of what scale and drift add to a value now."""
        scale, drift, scale_var, both, drift_var = (particles[:, self.first + each] for each in range(COLUMNS))
        if not self.returns_h:
            return scale, scale_var
        return scale + drift, scale_var + 2.0 * both + drift_var

    def pass_time(self, particles: F8, hours: float) -> None:
        """Let hours pass."""
        scale, drift, scale_var, both, drift_var = (particles[:, self.first + each] for each in range(COLUMNS))
        if self.returns_h:
            kept = exp(-hours / self.returns_h)
            drift *= kept
            both *= kept
            drift_var *= kept * kept
            drift_var += self.drift_sd**2 * (1.0 - kept * kept)
            return
        scale += hours * drift
        scale_var += 2.0 * hours * both + hours * hours * drift_var + self.walk_sqrt_h**2 * hours
        both += hours * drift_var

    def take_scale(self, particles: F8, rest: F8, noise: float) -> None:
        """Take the scale from the first value; `rest` is its logarithm less what each particle expects."""
        scale, drift, scale_var, both, drift_var = (particles[:, self.first + each] for each in range(COLUMNS))
        if self.returns_h:
            scale[:] = rest - drift
            scale_var[:] = noise * noise + drift_var
            both[:] = -drift_var
        else:
            scale[:], scale_var[:], both[:] = rest, noise * noise, 0.0

    def learn(self, particles: F8, off: F8, noise_var: F8, sure: F8) -> None:
        """Take in a value that is `off` above the predicted one, which is of the signal with the probability `sure`."""
        scale, drift, scale_var, both, drift_var = (particles[:, self.first + each] for each in range(COLUMNS))
        with_value, drift_with = (scale_var + both, both + drift_var) if self.returns_h else (scale_var, both)
        seen_var = (with_value + drift_with if self.returns_h else with_value) + noise_var
        one, other = with_value / seen_var, drift_with / seen_var
        lost, moved = sure * seen_var, sure * (1.0 - sure) * off * off
        scale += sure * one * off
        drift += sure * other * off
        change = moved - lost
        scale_var += one * one * change
        both += one * other * change
        drift_var += other * other * change

    def drifted(self, particles: F8, hours: float) -> tuple[F8, F8]:
        """Return mean and variance of how far the signal drifts in some hours."""
        drift, drift_var = particles[:, self.first + 1], particles[:, self.first + 4]
        if self.returns_h:
            kept = exp(-hours / self.returns_h)
            return (kept - 1.0) * drift, (kept - 1.0) ** 2 * drift_var + self.drift_sd**2 * (1.0 - kept * kept)
        return hours * drift, hours * hours * drift_var + self.walk_sqrt_h**2 * hours


TRACKS: Mapping[str, Track] = {
    "oxygen_uptake": Track(0, priors.UPTAKE_SLOPE_PER_H, walk_sqrt_h=priors.UPTAKE_DRIFT_SQRT_H),
    "lactate_umol_d": Track(1, priors.LACTATE_DRIFT_SD, priors.LACTATE_DRIFT_H),
    "firing_hz": Track(2, priors.FIRING_DRIFT_SD, priors.FIRING_DRIFT_H),
    "volume": Track(3, 0.0),
    "ldh": Track(4, 0.0, walk_sqrt_h=priors.LDH_DRIFT_SQRT_H),
}
BACKGROUND = len(Axis) + COLUMNS * len(TRACKS)
"""Column of what healthy tissue releases of LDH, over its level in medium that is never renewed."""
WIDTH = BACKGROUND + 1
"""Number of columns of the particles."""
