"""Pumps and lines: how much flows, against what pressure, and when what enters a line comes out of it.

Peristaltic law [P, biology.md §2]: Q = Q0·(1 − A·(1 − e^(−revs/N0)))·(1 − P/P_stall). The volume of a revolution follows
the OMEGA FPU5 table [V S30]: 0.081·d^2.08 mL for bores up to 4 mm [D], beyond them interpolated (V7).
Lines resist by Hagen–Poiseuille. A line's dead volume is four mixed cells in a row, about the spread of residence times
of laminar flow [P]; what leaves them is Poisson-distributed, so that any step is exact, and nothing is made or lost.
"""

from __future__ import annotations

from bisect import bisect_left
from math import exp, pi

import numpy as np
from numpy.typing import NDArray

from sim.plant.compiled import inlined

VISCOSITY_PA_S = 0.72e-3
"""Medium at 37 °C [R, biology.md §2]."""
P_STALL_KPA = 200.0
"""Where a roller no longer shuts the tubing [P]; small tubing is rated 172 to 482 kPa [V, S32]."""
WEAR_LOSS = 0.10
"""What tubing loses of its flow in the end; −5 to −15 % over the first day to four [R, biology.md §2]."""
WEAR_REVOLUTIONS = 50_000.0
"""[P]: a day and a half at 24 rpm."""
GAIN_SPREAD = 0.03
"""Of a pump that has been calibrated; as bought it is 10 to 25 % [V, S30]."""
ROLLERS = 8
PULSATION = 0.05
"""Ripple of the pressure, over its mean [P]."""
CELLS = 4
VOLUME_PER_REVOLUTION_ML = 0.081
BORE_EXPONENT = 2.08
POWER_LAW_TO_MM = 4.0
OMEGA_ML_REV = {1.0: 0.08, 2.0: 0.35, 3.0: 0.8, 4.0: 1.43, 5.0: 2.1, 6.0: 2.7, 7.0: 3.6, 8.0: 3.9}
"""Volume of a revolution (mL) by bore (mm), wall 1.5 mm."""


def revolution_ul(bore_mm: float) -> float:
    """Return the volume of one revolution (µL): a power law up to 4 mm; wider, the maker's table and its last slope."""
    narrow = float(1000.0 * VOLUME_PER_REVOLUTION_ML * min(bore_mm, POWER_LAW_TO_MM) ** BORE_EXPONENT)
    if bore_mm <= POWER_LAW_TO_MM:
        return narrow
    bores = [POWER_LAW_TO_MM, *(bore for bore in OMEGA_ML_REV if bore > POWER_LAW_TO_MM)]
    volumes = [narrow, *(1000.0 * OMEGA_ML_REV[bore] for bore in bores[1:])]
    right = min(bisect_left(bores, bore_mm), len(bores) - 1)
    share = (bore_mm - bores[right - 1]) / (bores[right] - bores[right - 1])
    return volumes[right - 1] + share * (volumes[right] - volumes[right - 1])


def tube_kpa_per_ul_min(bore_mm: float, length_m: float) -> float:
    """Return the resistance of a tube (kPa per µL/min): 128·µ·L/(π·d⁴)."""
    pa_per_m3_s = 128 * VISCOSITY_PA_S * length_m / (pi * (bore_mm * 1e-3) ** 4)
    return pa_per_m3_s * 1e-9 / 60 / 1000


def ripple_hz(flow_ul_min: float, revolution_volume_ul: float) -> float:
    """Return the frequency at which rollers pass (Hz)."""
    return ROLLERS * abs(flow_ul_min) / revolution_volume_ul / 60


@inlined
def wear(revolutions: float) -> float:
    """Return the volume of a revolution of worn tubing over that of new tubing."""
    return 1.0 - WEAR_LOSS * (1.0 - exp(-revolutions / WEAR_REVOLUTIONS))


@inlined
def loaded(unloaded_ul_min: float, resistance_kpa_per_ul_min: float) -> float:
    """Return the flow against a resistance: Q = Q0·(1 − R·Q/P_stall), solved for Q."""
    return unloaded_ul_min / (1.0 + resistance_kpa_per_ul_min * abs(unloaded_ul_min) / P_STALL_KPA)


@inlined
def pass_along(
    cells: NDArray[np.float64],
    inflow: NDArray[np.float64],
    outflow: NDArray[np.float64],
    courant: float,
    backwards: bool,
) -> None:
    """Push `inflow` (one row) through `cells` (four rows), in place; `outflow` is what comes out.

    `courant` is the volume pushed over that of one cell. With K Poisson(courant): what was in a cell has moved on by K
    cells, and of a steady inflow cell i holds P(K > i) of a full cell's worth. Exact for an inflow that is steady.
    """
    chance = exp(-courant)
    p0 = chance
    p1 = p0 * courant
    p2 = p1 * courant / 2.0
    p3 = p2 * courant / 3.0
    # P(K > i) / courant: by its series where the complement would lose all digits.
    if courant < 0.01:
        t3 = p3 / 4.0 * (1.0 + courant / 5.0 + courant * courant / 30.0)
        t2 = t3 + p0 * courant * courant / 6.0
        t1 = t2 + p0 * courant / 2.0
        t0 = t1 + p0
    else:
        t0 = (1.0 - p0) / courant
        t1 = t0 - p1 / courant
        t2 = t1 - p2 / courant
        t3 = max(0.0, t2 - p3 / courant)
    first, second, third, fourth = (3, 2, 1, 0) if backwards else (0, 1, 2, 3)
    for column in range(inflow.shape[0]):
        a, b, c, d = cells[first, column], cells[second, column], cells[third, column], cells[fourth, column]
        entering = inflow[column]
        new_a = a * p0 + entering * t0
        new_b = b * p0 + a * p1 + entering * t1
        new_c = c * p0 + b * p1 + a * p2 + entering * t2
        new_d = d * p0 + c * p1 + b * p2 + a * p3 + entering * t3
        cells[first, column] = new_a
        cells[second, column] = new_b
        cells[third, column] = new_c
        cells[fourth, column] = new_d
        out = a + b + c + d + entering - new_a - new_b - new_c - new_d
        # Alkalinity may be negative (strong acid); everything else leaves with the sign that it came with.
        outflow[column] = out
