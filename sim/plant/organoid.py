"""The tissue: what it takes and gives, how it grows, what harms it, how it comes back.

Oxygen: a sphere of :mod:`sim.plant.sphere` behind a film of medium, its maximal rate with a Q10 and falling above 42 °C.
Glucose: q = V·g/(K + g), raised when oxygen is short (Pasteur). Six O2 burn one glucose; what is not burnt leaves as two
lactate each; where glucose does not suffice, lactate is burnt instead. So carbon closes exactly. Ammonia comes from
glutamine. Growth is Gompertz [P]. Viability is one state that is lost to harm and comes back slowly. Harm begins outside
dead zones anchored in the literature: ammonia above 0.9 mM (rat neurons lose survival from 1 mM: S44), lactate above
15 mM (hESC arrest at 25 mM with low pH: S43), pH, temperature, oxygen, glucose, microbes. A secreted trophic factor [P]
costs a little when bulk exchange washes it out: the laboratory rule of partial medium changes. Tissue without oxygen for
a day is dead core; it spills its LDH.
"""

from __future__ import annotations

from math import exp, log, pi

from sim.plant.compiled import compiled, kept

V_MAX = 0.024
"""Volumetric oxygen uptake, mol/(m³·s): tuned on V4 alone (core begins at a radius of 358 µm); the "mature" value of
biology.md §1.1 [P], below the adult brain's 0.030 [D]."""
DIFFUSIVITY = 2e-9
"""Effective oxygen diffusivity in tissue, m²/s [R]."""
KM_OXYGEN_MM = 7.39e-3
"""Half-saturation of uptake, mmol/L [V, S3]."""
DEATH_OXYGEN_MM = 0.002
"""Below it tissue dies [P]."""
Q10 = 2.19
"""Metabolic rate against temperature [V, S8]; it falls again above 42 °C [V, S9]."""
V_GLUCOSE = 5.4e-3
"""Glucose uptake, mol/(m³·s): the adult human brain's [D from V S4]."""
KM_GLUCOSE_MM = 1.6
"""GLUT3 [V, S5, weak]."""
PASTEUR = 2.0
"""Glucose uptake without oxygen is 1 + this times that with oxygen [P]."""
KM_LACTATE_MM = 0.5
"""For burning lactate where glucose does not suffice [P]."""
AMMONIA_PER_GLUCOSE = 0.05
"""mol ammonia (from glutamine) a mol glucose taken up [P]."""
KM_GLUTAMINE_MM = 0.047
"""[V, S10]."""
CEILING_MM3 = 33.0
GROWTH_PER_DAY = 0.04
"""Gompertz, 4 mm at last [P, biology.md §1.2]."""
DYING_S = 86_400.0
REFILLING_S = 10 * 86_400.0
"""Time constants of a core that dies without oxygen and regrows with it [P]."""
CHAMBER_SECTION_M2 = 0.05e-4
"""The stream past the organoids: flow over this, the free section of a channel 3 mm square around them [P]."""
STILL_M_S = 2e-5
"""Convection that is always there [P]."""
LDH_U_PER_MM3 = 0.1
"""In dying tissue [P]."""
PARTICLES_PER_S = 1e-4
"""Debris that one rig's tissue sheds, in arbitrary units per µL × µL [P]."""
TROPHIC_UNITS = 2.0
TROPHIC_VOLUME_UL = 42_000.0
"""Secretion that keeps this concentration (arbitrary units) in this volume [P]."""


@compiled
def pace(temperature_c: float) -> float:
    """Return the metabolic rate over that at 37 °C."""
    rate: float = Q10 ** ((temperature_c - 37.0) / 10.0)
    if temperature_c > 42.0:
        rate *= max(0.0, 1.0 - (temperature_c - 42.0) / 4.0)
    return rate


@kept
def radius_m(volume_mm3: float) -> float:
    """Return the radius (m) of a sphere of this volume (mm³)."""
    root: float = (3.0 * volume_mm3 / (4.0 * pi)) ** (1.0 / 3.0)
    return root * 1e-3


@compiled
def glucose_uptake(
    volume_m3: float, glucose_mm: float, oxygen_shortage: float, v_max: float = V_GLUCOSE
) -> float:  # fmt: skip
    """Return the glucose (mol/s) that `volume_m3` of living tissue takes up.

    `oxygen_shortage` is 0 (none) to 1 (no oxygen), `v_max` the uptake at plenty of both in mol/(m³·s).
    """
    glucose = max(glucose_mm, 0.0)
    return v_max * volume_m3 * glucose / (glucose + KM_GLUCOSE_MM) * (1.0 + PASTEUR * oxygen_shortage)


@compiled
def burnable(oxygen_wanted: float, glucose: float, lactate_mm: float) -> float:
    """Return the oxygen that can be burnt (unit of `oxygen_wanted` and `glucose`): six a glucose, then external lactate."""
    from_glucose = min(oxygen_wanted, 6.0 * glucose)
    lactate = max(lactate_mm, 0.0)
    return from_glucose + (oxygen_wanted - from_glucose) * lactate / (lactate + KM_LACTATE_MM)


@compiled
def grown(volume_mm3: float, health: float, dt_s: float, per_day: float = GROWTH_PER_DAY) -> float:
    """Return the volume (mm³) of one organoid after `dt_s` seconds at `health` (0..1); Gompertz, `per_day`."""
    return CEILING_MM3 * exp(log(volume_mm3 / CEILING_MM3) * exp(-per_day * health * dt_s / 86_400.0))


@compiled
def core_after(dead: float, anoxic: float, dt_s: float) -> float:
    """Return the dead fraction of the tissue after `dt_s` with the fraction `anoxic` without oxygen."""
    constant = DYING_S if anoxic > dead else REFILLING_S
    return anoxic + (dead - anoxic) * exp(-dt_s / constant)


@compiled
def harm_per_hour(
    oxygen_mm: float,
    temperature_c: float,
    ph: float,
    glucose_mm: float,
    lactate_mm: float,
    ammonia_mm: float,
    osmolality: float,
    microbes_per_ml: float = 0.0,
    lactate_min_mm: float = 15.0,
    lactate_harm: float = 0.001,
    ammonia_min_mm: float = 0.9,
    ammonia_harm: float = 0.01,
) -> float:
    """Return the fraction of viability lost an hour (1/h) [P]: a sum over what is outside its harmless range.

    The last four differ between kinds of tissue (:mod:`sim.plant.tissue_models`).
    """
    harm = 0.0
    if oxygen_mm < 0.06:
        short: float = 1.0 - max(oxygen_mm, 0.0) / 0.06
        harm += 0.35 * short**1.5
    if temperature_c > 38.5:
        harm += 0.05 * (temperature_c - 38.5) * (temperature_c - 38.5)
    elif temperature_c < 34.0:
        harm += 0.004 * (34.0 - temperature_c)
    harm += 0.25 * outside(ph, 7.1, 7.65)
    harm += 0.08 * max(0.0, 1.0 - glucose_mm)
    harm += lactate_harm * max(0.0, lactate_mm - lactate_min_mm)
    harm += ammonia_harm * max(0.0, ammonia_mm - ammonia_min_mm)
    harm += 0.0005 * outside(osmolality, 250.0, 330.0)
    if microbes_per_ml > 1e4:
        harm += 0.1 * microbes_per_ml / (microbes_per_ml + 1e6)
    return harm


@compiled
def outside(value: float, low: float, high: float) -> float:
    """Return the distance of a value from a range; 0 within it."""
    if value < low:
        return low - value
    return value - high if value > high else 0.0


@compiled
def viability_rate_per_hour(viability: float, harm: float, trophic: float, aged: float = 0.0) -> float:
    """Return the change of viability (1/h): harm, or else recovery of 1 % an hour to what trophic factor and age permit."""
    best = (0.94 + 0.06 * trophic / (trophic + 0.15)) * (1.0 - aged)
    healing = 0.01 * (best - viability) if harm < 0.001 else 0.0
    return healing - harm * viability
