"""What each particle takes up and makes: oxygen and lactate over the amounts of fresh, healthy tissue.

Oxygen passes medium that flows to the tissue, a film of medium around it and then tissue that uses it up, down to a depth
(biology.md §1.1). While oxygen does not reach the core, uptake *N* per area follows from the demand *x* of a volume of
tissue and the oxygen *c* upstream: *N² (1 − b) = x (c − r N)*. *b* is the share of the drop of oxygen from the medium
around the tissue to its living edge that is across the film, and *r* the drop across medium and film: *b* and the loss
from upstream, both more at less flow. Else all living tissue has plenty and uptake is its demand. The depth that oxygen
reaches is *N/x*: tissue below dies.
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
FILM_POWER = 0.4
"""Mass transfer through the film goes with this power of the flow: Ranz and Marshall's ½, less what still medium gives."""
MIN_FLOW_SHARE = 1e-3
MIN_SHARE = 1e-3


def supplied(particles: F8, demand: F8, oxygen_pct: F8, flow_share: F8, at_tissue: NDArray[np.bool_]) -> F8:
    """Return the oxygen that reaches tissue of this demand, over that in usual care at full demand, of each particle.

    Args:
        particles: shape (count, columns)
        demand: Demand of a volume of living tissue over that of healthy tissue at 37 °C, shape (count,)
        oxygen_pct: Oxygen of the medium (% of air saturation), shape (count,)
        flow_share: Flow of the medium over the usual flow, shape (count,)
        at_tissue: Whether the oxygen is that at the tissue, shape (count,): else it is upstream of it.
    """
    film, loss = particles[:, Axis.FILM], particles[:, Axis.DROP] / USUAL_OXYGEN_PCT
    flow = np.maximum(flow_share, MIN_FLOW_SHARE)
    drop = film * flow**-FILM_POWER + np.where(at_tissue, 0.0, loss / flow)
    # What is measured upstream loses the usual part on its way also in usual care: there N is 1.
    oxygen = np.maximum(oxygen_pct, 0.1) / USUAL_OXYGEN_PCT * np.where(at_tissue, 1.0, 1.0 + loss)
    lost = drop * demand
    found: F8 = (np.sqrt(lost * lost + 4.0 * (1.0 - film) * demand * oxygen) - lost) / (2.0 * (1.0 - film))
    return found


def living_depth(
    particles: F8, temperature_c: float, oxygen_pct: F8, flow_share: F8, at_tissue: NDArray[np.bool_]
) -> F8:
    """Return the depth of tissue that oxygen keeps alive over the usual depth, of each particle; at most 1.

    What heat adds to the demand counts as harm by heat.
    """
    demand = np.full(len(particles), min(_pace(temperature_c), 1.0))
    found: F8 = np.minimum(supplied(particles, demand, oxygen_pct, flow_share, at_tissue) / demand, 1.0)
    return found


def oxygen_uptake(
    particles: F8, temperature_c: float, oxygen_pct: F8, flow_share: F8, at_tissue: NDArray[np.bool_]
) -> F8:  # fmt: skip
    """Return oxygen uptake over that at the start in health, of each particle, at this oxygen and flow of the medium."""
    depth = np.maximum(particles[:, Axis.DEPTH], MIN_SHARE)
    demand = np.maximum(particles[:, Axis.VIABILITY] / depth, MIN_SHARE) * _pace(temperature_c)
    reached = supplied(particles, demand, oxygen_pct, flow_share, at_tissue)
    reached *= np.exp((2.0 / 3.0 - particles[:, Axis.FILM] / 4.0) * particles[:, Axis.LOG_VOLUME])
    wanted = particles[:, Axis.EXCESS] * demand * depth
    wanted *= np.exp(particles[:, Axis.SHELL_GROWTH] * particles[:, Axis.LOG_VOLUME])
    found: F8 = (reached**-SHARPNESS + wanted**-SHARPNESS) ** (-1.0 / SHARPNESS)
    return found


def lactate_made(
    particles: F8, temperature_c: float, oxygen_pct: F8, flow_share: F8, at_tissue: NDArray[np.bool_]
) -> F8:  # fmt: skip
    """Return the production of lactate, proportional to that at the start in health, of each particle."""
    living = particles[:, Axis.VIABILITY] * np.exp(particles[:, Axis.SHELL_GROWTH] * particles[:, Axis.LOG_VOLUME])
    glucose = particles[:, Axis.GLUCOSE_SHARE] * living * _pace(temperature_c)
    burnt = oxygen_uptake(particles, temperature_c, oxygen_pct, flow_share, at_tissue)
    found: F8 = np.maximum(glucose - burnt, 0.0) / (particles[:, Axis.GLUCOSE_SHARE] - 1.0)
    return found


def _pace(temperature_c: float) -> float:
    return float(Q10 ** ((temperature_c - 37.0) / 10.0))
