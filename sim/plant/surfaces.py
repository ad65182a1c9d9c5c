"""Open surfaces of still medium: the area of a well, gas that diffuses down to the tissue, water that evaporates.

Oxygen reaches tissue on the bottom of a dish by diffusion through the medium above it: flux = D·(c* − c)/h over the depth
h = V/A, thus kLa = D/h² with the vessel's concentration that at its bottom (stagnant film; the convection of a real dish
makes it up to twice as much) [R McLimans 1968; Place 2017]. CO2 takes the same kLa. Water diffuses through still air to the
humid gas of the zone [P].
"""

from __future__ import annotations

from math import exp

import numpy as np

from sim.plant.compiled import compiled
from sim.plant.evaporation import WATER_UL_PER_MOL
from sim.plant.gas import DIFFUSIVITY_M2_S

WELLS = ((360.0, 1600.0, 3400.0, 6900.0, 16800.0), (32.0, 95.0, 190.0, 380.0, 950.0))
"""Total volumes (µL) and growth areas (mm²) of a well of plates with 96, 48, 24, 12 and 6 wells [R, makers' tables]."""
VAPOUR_M2_S = 2.8e-5
"""Diffusivity of water vapour in air at 37 °C [R]."""
STILL_AIR_M = 0.02
"""Still air between the medium and the gas of the zone: below a lid and through its gap [P]."""
HUMID, DRY = 0.95, 0.5
"""Relative humidity of a zone that is gassed with CO2, which is an incubator, and of any other [P]."""
GAS_CONSTANT = 8.314


def well_mm2(capacity_ul: float) -> float:
    """Return the surface of an open vessel (mm²) from its capacity: that of a well, beyond the table with walls as high."""
    volumes, areas = WELLS
    if capacity_ul <= volumes[0]:
        return areas[0] * capacity_ul / volumes[0]
    if capacity_ul >= volumes[-1]:
        return areas[-1] * capacity_ul / volumes[-1]
    return float(np.interp(capacity_ul, volumes, areas))


@compiled
def still_kla_per_s(surface_mm2: float, volume_ul: float) -> float:
    """Return the gas transfer of still medium to tissue on its bottom (1/s): D/h²."""
    depth_m = max(volume_ul, 1e-3) / surface_mm2 * 1e-3
    return DIFFUSIVITY_M2_S / (depth_m * depth_m)


def saturation_pa(temperature_c: float) -> float:
    """Return the pressure of saturated water vapour (Pa), by Magnus."""
    return 610.94 * exp(17.625 * temperature_c / (temperature_c + 243.04))


def evaporation_ul_s(surface_mm2: float, temperature_c: float, humidity: float) -> float:
    """Return the water that a surface loses (µL/s): diffusion through still air to gas of this relative humidity."""
    missing_mol_m3 = saturation_pa(temperature_c) * (1.0 - humidity) / (GAS_CONSTANT * (temperature_c + 273.15))
    return VAPOUR_M2_S * missing_mol_m3 / STILL_AIR_M * surface_mm2 * 1e-6 * WATER_UL_PER_MOL
