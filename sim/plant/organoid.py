"""The tissue: how much oxygen and glucose it takes, how it grows, what harms it.

Spheres with zero-order oxygen uptake and a possible anoxic core (biology §1.2); Gompertz growth [P]; viability as one
state that is lost to harm and comes back slowly. Harm begins outside dead zones anchored in the literature: ammonia above
0.9 mM (rat neurons lose survival from 1 mM: S44), lactate above 15 mM (hESC arrest at 25 mM with low pH: S43), pH,
temperature, oxygen, glucose. A secreted trophic factor [P] costs a little when bulk exchange washes it out: the laboratory
rule of partial medium changes.
"""

from __future__ import annotations

from math import exp, log, pi

V_MAX = 0.012
"""Volumetric oxygen uptake, mol/(m³·s) [P, the default of biology §1.1]."""
DIFFUSIVITY = 2e-9
"""Effective oxygen diffusivity in tissue, m²/s [R]."""
KM_OXYGEN_MM = 0.005
"""Half-saturation of uptake, mmol/L; 7.39e-3 in spheroid scaling models [V, S3]."""
Q10 = 2.19
"""Metabolic rate against temperature [V, S8]."""
LACTATE_YIELD = 1.6
"""mol lactate a mol glucose; 1.0–1.4 aerobic, 2.0 is the limit [R]; organoids are glycolytic [P]."""
KM_GLUCOSE_MM = 1.6
"""GLUT3 [V, S5, weak]."""
AMMONIA_PER_GLUCOSE = 0.05
"""mol ammonia (from glutamine) a mol glucose taken up [P]."""
CEILING_MM3 = 33.0
GROWTH_PER_DAY = 0.04
"""Gompertz, 4 mm at last [P, biology §1.2]."""


def uptake_per_sphere(radius_m: float, surface_mm: float, core_guess_m: float) -> tuple[float, float]:
    """Oxygen uptake of one sphere (mol/s) and its anoxic core's radius (m) at surface oxygen `surface_mm` (mmol/L).

    Zero-order diffusion: c0 = Vmax/(6D)·(R² − 3r² + 2r³/R); mmol/L equals mol/m³.
    """
    core = 0.0
    if surface_mm < V_MAX / (6 * DIFFUSIVITY) * radius_m**2:
        # The left side falls from R² to 0 between 0 and R and is flat at both ends: Newton, kept inside a bracket.
        target = max(surface_mm, 0.0) * 6 * DIFFUSIVITY / V_MAX
        low, high = 0.0, radius_m
        core = core_guess_m if 0.0 < core_guess_m < radius_m else 0.5 * radius_m
        for _ in range(60):
            value = radius_m**2 - 3 * core**2 + 2 * core**3 / radius_m - target
            if value > 0:
                low = core
            else:
                high = core
            slope = -6 * core + 6 * core**2 / radius_m
            step = core - value / slope if slope else low
            better = step if low < step < high else 0.5 * (low + high)
            if abs(better - core) < 1e-10:
                break
            core = better
    volume = 4 / 3 * pi * (radius_m**3 - core**3)
    return V_MAX * volume * surface_mm / (surface_mm + KM_OXYGEN_MM), core


def grown(volume_mm3: float, health: float, dt_s: float) -> float:
    """Volume (mm³) of one organoid after `dt_s` seconds at `health` (0..1)."""
    return CEILING_MM3 * exp(log(volume_mm3 / CEILING_MM3) * exp(-GROWTH_PER_DAY * health * dt_s / 86_400))


def harm_per_hour(
    oxygen_mm: float,
    temperature_c: float,
    ph: float,
    glucose_mm: float,
    lactate_mm: float,
    ammonia_mm: float,
    osmolality: float,
) -> float:
    """Fraction of viability lost an hour (1/h) [P]: a sum over what is outside its dead zone."""
    harm = 0.0
    if oxygen_mm < 0.06:
        harm += 0.35 * (1 - oxygen_mm / 0.06) ** 1.5
    if temperature_c > 38.5:
        harm += 0.05 * (temperature_c - 38.5) ** 2
    elif temperature_c < 34.0:
        harm += 0.004 * (34.0 - temperature_c)
    if ph < 7.1:
        harm += 0.25 * (7.1 - ph)
    elif ph > 7.65:
        harm += 0.25 * (ph - 7.65)
    if glucose_mm < 1.0:
        harm += 0.08 * (1.0 - glucose_mm)
    if lactate_mm > 15.0:
        harm += 0.001 * (lactate_mm - 15.0)
    if ammonia_mm > 0.9:
        harm += 0.01 * (ammonia_mm - 0.9)
    if osmolality > 330.0:
        harm += 0.0005 * (osmolality - 330.0)
    elif osmolality < 250.0:
        harm += 0.0005 * (250.0 - osmolality)
    return harm
