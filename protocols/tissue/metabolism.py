"""What each particle takes up and makes: oxygen and lactate over the amounts of fresh, healthy tissue.

Oxygen reaches an organoid through a film of medium and then through tissue that uses it up, down to a depth
(biology.md §1.1). While oxygen does not reach the core, uptake *N* per area follows from the demand *x* and the oxygen
*c* of the medium: *N² (1 − b) = x (c − b N)*, where *b* is the share of the drop of oxygen that is across the film.
Otherwise all tissue is fed and uptake is the demand. So uptake falls little at first when tissue dies, and in proportion
at the end. Glucose is not limited; what of it is not burnt becomes lactate.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from protocols.tissue.priors import Axis

F8 = NDArray[np.float64]
Q10 = 2.2
"""Metabolic rate against temperature (biology.md §1.1)."""
USUAL_OXYGEN_PCT = 85.0
SHARPNESS = 3.0
"""How sharply supply and demand limit uptake: in a sphere both do near the place where they are equal [P]."""
MIN_VIABILITY = 1e-3


def oxygen_uptake(particles: F8, temperature_c: float, oxygen_pct: F8) -> F8:
    """Return oxygen uptake over that at the start in health, of each particle, at the oxygen at the tissue (%)."""
    demand = np.maximum(particles[:, Axis.VIABILITY], MIN_VIABILITY) * _pace(temperature_c)
    film = particles[:, Axis.FILM]
    oxygen = np.maximum(oxygen_pct, 0.1) / USUAL_OXYGEN_PCT
    both = film * demand
    supplied = (np.sqrt(both * both + 4.0 * (1.0 - film) * demand * oxygen) - both) / (2.0 * (1.0 - film))
    supplied *= np.exp((2.0 / 3.0 - film / 4.0) * particles[:, Axis.LOG_VOLUME])
    wanted = particles[:, Axis.EXCESS] * demand * np.exp(particles[:, Axis.LOG_VOLUME])
    found: F8 = (supplied**-SHARPNESS + wanted**-SHARPNESS) ** (-1.0 / SHARPNESS)
    return found


def lactate_made(particles: F8, temperature_c: float, oxygen_pct: F8) -> F8:
    """Return the production of lactate, proportional to that at the start in health, of each particle."""
    living = particles[:, Axis.VIABILITY] * np.exp(particles[:, Axis.SHELL_GROWTH] * particles[:, Axis.LOG_VOLUME])
    glucose = particles[:, Axis.GLUCOSE_SHARE] * living * _pace(temperature_c)
    burnt = oxygen_uptake(particles, temperature_c, oxygen_pct)
    found: F8 = np.maximum(glucose - burnt, 0.0) / (particles[:, Axis.GLUCOSE_SHARE] - 1.0)
    return found


def _pace(temperature_c: float) -> float:
    return float(Q10 ** ((temperature_c - 37.0) / 10.0))
