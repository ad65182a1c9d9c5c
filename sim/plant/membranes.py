"""Filters: fouling, retention and integrity tests.

Hermia's laws d²t/dV² = k·(dt/dV)^n with n = 2 complete blocking, 1.5 standard (pore constriction), 1 intermediate, 0 cake
[R Hermia 1982; V S34]. With ρ = resistance over that of the new filter they read dρ/dV = κ·ρ^n, κ = k·J0^(1−n), which holds
for pumps of constant flow too: the pressure is then what rises. Darcy: J = TMP/(µ·R).
"""

from __future__ import annotations

from math import cos, exp, inf, radians, sqrt

import numpy as np

from sim.plant.compiled import compiled
from sim.plant.hydraulics import VISCOSITY_PA_S

COMPLETE, STANDARD, INTERMEDIATE, CAKE = 2.0, 1.5, 1.0, 0.0
LAW = CAKE
"""How the sterile filter of the plant fouls: particles pile up on it [P]."""
FOULING_PER_UL_CM2 = 6e-6
"""κ of an area of 1 cm²: 10 mL add 1.5 % to the resistance of 4 cm² [P]. Fitted sets exist for serum media [V, S36]."""
MEMBRANE_PER_M = 8.3e10
"""Resistance of a 0.2 µm membrane (1/m): some 10 mL/(min·cm²·bar) of water [P]."""
RETENTION = 1.0 - 1e-7
"""Of microbes and particles: 10⁷ CFU/cm² of B. diminuta are held back [V, S39]."""
PASSING = ((0.22, 0.45, 1.0), (-7.0, -3.0, 0.0))
"""Pores (µm), and the power of ten of the part of the bacteria that passes: as claimed to 0.22 µm, all through 1 µm [P]."""
TORN_RESISTANCE = 0.05
TORN_PASSES = 0.5
"""A filter with a hole: a twentieth of the resistance, half of what swims passes [P]."""
SURFACE_TENSION_N_M = 0.072
"""Water at room temperature, where filters are tested [R]."""
PORE_SHAPE = 0.2635
"""Real pores against round ones: puts 0.22 µm PVDF at 3.45 bar [fitted to V S38]."""
AIR_DIFFUSIVITY_M2_S = 2.6e-9
AIR_SOLUBILITY_MOL_M3_PA = 6.1e-6
POROSITY = 0.7
THICKNESS_M = 125e-6
"""Air dissolved in water (diffusivity, solubility near 25 °C [R]) and the wet membrane [R]."""
AIR_VISCOSITY_PA_S = 1.85e-5
AIR_DENSITY_KG_M3 = 1.18


def retained(pore_um: float) -> float:
    """Return the part of the microbes that pores of this size hold back."""
    sizes, powers = PASSING
    return RETENTION if pore_um <= sizes[0] else 1.0 - float(10.0 ** np.interp(pore_um, sizes, powers))


def flux(j0: float, k: float, t: float, law: float) -> float:
    """Return the flux after time `t` at constant pressure by Hermia's law `law`; units of `k` follow from j0 and t."""
    if law == COMPLETE:
        return j0 * exp(-k * t)
    if law == STANDARD:
        return j0 / (1.0 + 0.5 * k * sqrt(j0) * t) ** 2
    if law == INTERMEDIATE:
        return j0 / (1.0 + k * j0 * t)
    if law == CAKE:
        return j0 / sqrt(1.0 + 2.0 * k * j0**2 * t)
    raise ValueError(f"no Hermia law {law}; the laws are 2, 1.5, 1 and 0")


@compiled
def fouled(resistance: float, kappa_volume: float, law: float) -> float:
    """Return the relative resistance after a volume: dρ/dV = κ·ρ^n, `kappa_volume` = κ·V. Infinite once blocked."""
    if law == 1.0:
        return resistance * exp(kappa_volume)
    left = resistance ** (1.0 - law) + (1.0 - law) * kappa_volume
    if left <= 0.0:
        return inf
    return float(left ** (1.0 / (1.0 - law)))


def filter_kpa_per_ul_min(area_cm2: float) -> float:
    """Return the resistance of a new sterile filter (kPa per µL/min)."""
    flux_m_s = 1e-9 / 60 / (area_cm2 * 1e-4)
    return VISCOSITY_PA_S * MEMBRANE_PER_M * flux_m_s / 1000.0


def bubble_point_kpa(pore_um: float, contact_angle_deg: float = 0.0, shape: float = PORE_SHAPE) -> float:
    """Return the pressure at which air pushes water out of the widest pore (kPa): 4·κ·γ·cos θ/d."""
    return 4 * shape * SURFACE_TENSION_N_M * cos(radians(contact_angle_deg)) / (pore_um * 1e-6) / 1000.0


def diffusion_ml_min(area_cm2: float, pressure_kpa: float) -> float:
    """Return the air (mL/min at 1 atm, 25 °C) that diffuses through a wet, intact membrane: D·H·Δp·ε·A/L."""
    mol_s = AIR_DIFFUSIVITY_M2_S * AIR_SOLUBILITY_MOL_M3_PA * pressure_kpa * 1000 * POROSITY * area_cm2 * 1e-4
    return mol_s / THICKNESS_M * 24_465.0 * 60


def hole_ml_min(hole_um: float, pressure_kpa: float) -> float:
    """Return the air (mL/min at 1 atm) through one round hole; 0 while surface tension holds water in it.

    Orifice (discharge 0.62, choked above twice the atmosphere) and Poiseuille in series, the smaller ruling.
    """
    if hole_um <= 0 or pressure_kpa < bubble_point_kpa(hole_um, shape=1.0):
        return 0.0
    radius_m = hole_um * 0.5e-6
    area_m2 = 3.141592653589793 * radius_m**2
    drop_pa = pressure_kpa * 1000.0
    upstream = 1.0 + pressure_kpa / 101.325
    orifice = (
        0.62 * area_m2 * sqrt(2 * min(drop_pa, 0.47 * upstream * 101_325) / (AIR_DENSITY_KG_M3 * upstream)) * upstream
    )
    mean = (upstream + 1.0) / 2
    viscous = 3.141592653589793 * radius_m**4 * drop_pa / (8 * AIR_VISCOSITY_PA_S * THICKNESS_M) * mean
    return min(orifice, viscous) * 6e7


def integrity(
    area_cm2: float, pore_um: float, hole_um: float = 0.0, *, visible_ml_min: float = 5.0
) -> dict[str, float]:
    """Return the results of both tests of a wet filter: bubble point (kPa) and diffusion (mL/min at 80 % of that).

    The bubble point is the pressure at which a person or a machine sees `visible_ml_min` of bulk flow.
    """
    nominal = bubble_point_kpa(pore_um)
    low, high = 0.0, nominal
    if hole_ml_min(hole_um, nominal) >= visible_ml_min:
        for _ in range(60):
            middle = 0.5 * (low + high)
            if hole_ml_min(hole_um, middle) >= visible_ml_min:
                high = middle
            else:
                low = middle
    test = 0.8 * nominal
    return {
        "bubble_point_kpa": high,
        "diffusion_ml_min": diffusion_ml_min(area_cm2, test) + hole_ml_min(hole_um, test),
        "diffusion_limit_ml_min": 2.0 * diffusion_ml_min(area_cm2, test),
    }
