"""Gas exchange: an open surface, silicone tubing as a lung, and the gas that mass flow controllers mix."""

from __future__ import annotations

from math import exp, log, pi

from sim.plant import chemistry
from sim.plant.compiled import compiled

AIR_O2 = 0.209
AIR_CO2 = 0.0004
KLA_LUNG_PER_S = 0.02
"""Gas exchange of the vessel into which the lung leads its gas; without a lung that of the loop's oxygenator [P]."""
KLA_SPENT_PER_S = 0.01
"""Gas exchange of the stirred spent vessel with the gas around it [P]."""
SURFACE_KL_M_S = 1.2e-5
"""Oxygen through the surface of medium that moves slowly: the lower end of 1.18 to 3.54e-5 m/s in a stirred vessel for animal
cells [V Lavery and Nienow 1987, doi 10.1002/bit.260300307].
"""

MIN_STAYS = 1e-9
"""Share of added carbon that stays CO2 below which the exchange is linear in time; dividing by it would lose all digits."""
SHERWOOD = 3.66
"""Laminar flow in a tube, constant wall concentration [R, as used in biology.md §1.3]."""
DIFFUSIVITY_M2_S = 2.7e-9
"""Oxygen in medium at 37 °C [D, biology.md §1.3]."""
BARRER = 3.35e-16
"""mol·m/(m²·s·Pa)."""
SILICONE_O2_BARRER = 600.0
"""[R, biology.md §1.3]. CO2 passes about five times better [R], so that the liquid's own film rules it too."""


def mixed(air_ml_min: float, co2_ml_min: float, o2_ml_min: float) -> tuple[float, float] | None:
    """Return the fractions of oxygen and CO2 in the mixture of three flows; None without flow."""
    total = air_ml_min + co2_ml_min + o2_ml_min
    if total <= 0:
        return None
    return (AIR_O2 * air_ml_min + o2_ml_min) / total, (AIR_CO2 * air_ml_min + co2_ml_min) / total


def tube_conductance_m2_s(bore_mm: float, outer_mm: float) -> float:
    """Return the oxygen conductance of a silicone tube's wall, mol a second per metre and mol/m³ of difference (m²/s).

    The liquid's film (π·Sh·D) and the wall (2π·P/ln(OD/ID), per dissolved oxygen) in series.
    """
    film = pi * SHERWOOD * DIFFUSIVITY_M2_S
    solubility_mol_m3_pa = chemistry.O2_MM_PER_KPA / 1000.0
    wall = 2 * pi * SILICONE_O2_BARRER * BARRER / log(outer_mm / bore_mm) / solubility_mol_m3_pa
    return 1.0 / (1.0 / film + 1.0 / wall)


def tube_kla_per_s(bore_mm: float, outer_mm: float) -> float:
    """Return the kLa of the medium in such a tube (1/s)."""
    return tube_conductance_m2_s(bore_mm, outer_mm) / (pi / 4 * (bore_mm * 1e-3) ** 2)


def surface_kla_per_s(capacity_ul: float, volume_ul: float) -> float:
    """Return the gas exchange through the surface of a vessel (1/s): a cylinder as high as it is wide."""
    capacity_m3, volume_m3 = capacity_ul * 1e-9, volume_ul * 1e-9
    area_m2 = pi / 4 * (4 / pi * capacity_m3) ** (2 / 3)
    return SURFACE_KL_M_S * area_m2 / volume_m3 if volume_m3 > 0.0 else 0.0


@compiled
def oxygen_gain(oxygen_mm: float, fraction: float, kla: float, dt_s: float) -> float:
    """Return the oxygen taken up in `dt_s` (mmol/L, negative: given off): c* − (c* − c)·e^(−kLa·t), exactly."""
    goal = chemistry.O2_MM_PER_FRACTION * fraction
    return (goal - oxygen_mm) * (1.0 - exp(-kla * dt_s))


@compiled
def carbon_gain(
    carbon_mm: float, ph: float, fraction: float, kla: float, dt_s: float, buffer: float = chemistry.BUFFER_MM_PER_PH
) -> float:
    """Return the carbon taken up in `dt_s` (mmol/L, negative: given off) at this pH.

    Only dissolved CO2 passes, and bicarbonate makes it good: dC/dt = kLa·(CO2* − CO2(C)), linear over one step around
    the present pH and solved exactly (exponential Rosenbrock, second order, stable for any step).
    """
    excess = chemistry.CO2_MM_PER_FRACTION * fraction - chemistry.co2_of(carbon_mm, ph)
    stays = chemistry.co2_per_carbon(carbon_mm, ph, buffer)
    if stays < MIN_STAYS:  # hardly any carbon in very alkaline medium: all that passes becomes bicarbonate
        return excess * kla * dt_s
    return excess / stays * (1.0 - exp(-kla * stays * dt_s))
