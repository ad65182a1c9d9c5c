"""Water that leaves through silicone tubing into a housing that is not quite saturated."""

from __future__ import annotations

from math import log, pi

from sim.plant.gas import BARRER

SATURATION_PA = 6280.0
"""Water vapour at 37 °C."""
SILICONE_WATER_BARRER = 30_000.0
"""Between 20,000 (PDMS, D about 1e-9 m²/s [V, S27 Heo 2007]) and 40,000 [R, biology.md §1.3]."""
HUMIDITY = 0.90
"""Of the warm housing [P]."""
WATER_UL_PER_MOL = 18_130.0
"""At 37 °C: 18.015 g/mol over 0.9933 g/mL."""


def tube_loss_ul_s(
    bore_mm: float,
    outer_mm: float,
    length_m: float,
    humidity: float = HUMIDITY,
    permeability_barrer: float = SILICONE_WATER_BARRER,
) -> float:
    """Return the water lost by a filled tube (µL/s): 2π·P·L·Δp/ln(OD/ID)."""
    deficit_pa = SATURATION_PA * (1.0 - humidity)
    mol_s = 2 * pi * permeability_barrer * BARRER * length_m * deficit_pa / log(outer_mm / bore_mm)
    return mol_s * WATER_UL_PER_MOL
