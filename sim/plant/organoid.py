"""The tissue: what it takes and gives, how it grows, what harms it, how it comes back.

Oxygen: a sphere of :mod:`sim.plant.sphere` behind a film of medium, its maximal rate with a Q10 and falling above 42 °C.
Glucose: q = V·g/(K + g), raised when oxygen is short (Pasteur). Six O2 burn one glucose; what is not burnt leaves as two
lactate each; where glucose does not suffice, lactate is burnt instead. So carbon closes exactly. Ammonia comes from
glutamine. Growth is Gompertz [P], and slower where insulin is short.

Each shell of the sphere has a share of cells that live. They die where the oxygen of their own shell is too low, and all
over the organoid of what is outside harmless ranges anchored in the literature: ammonia above 0.9 mM (rat neurons lose
survival from 1 mM: S44), lactate above 15 mM (hESC arrest at 25 mM with low pH: S43), pH, temperature, glucose, insulin,
microbes. They spill their LDH. Where oxygen reaches, living cells make up for them. So the dead core grows and shrinks with
the oxygen at the surface, the size and the demand, and uptake, dead share and viability are three views of one state.

What supports tissue is of two kinds. Insulin comes with the medium alone; pumps, dialysers and time take it, and below a
share of that of fresh medium growth slows and cells die. Labile factors come with fresh medium and from the tissue itself;
they are one pool, and cost a little of the viability [P] where they are short: where old medium brings none, or bulk
exchange washes out those that were secreted (the laboratory rule of partial medium changes).

Viability is the living tissue over what lives of an organoid of the same size and kind in the care for which its rig is
designed: its own core is no loss. Laboratories define it so: viable cells, ATP or LDH over those of control cultures of the
same age, and organoids above 0.3 to 0.4 mm of radius have a core in any usual culture (S14). `dead_fraction` is absolute.
"""

from __future__ import annotations

from math import exp, log, pi

from sim.plant.columns import TissueState
from sim.plant.compiled import compiled, kept

V_MAX = 0.024
"""Volumetric oxygen uptake, mol/(m³·s): tuned on V4 alone (core begins at a radius of 358 µm); the "mature" value of
biology.md §1.1 [P], below the adult brain's 0.030 [D]."""
DIFFUSIVITY = 2e-9
"""Effective oxygen diffusivity in tissue, m²/s [R]."""
KM_OXYGEN_MM = 7.39e-3
"""Half-saturation of uptake, mmol/L [V, S3]."""
DEATH_OXYGEN_MM = 0.005
"""Oxygen in the tissue below which cells die, the faster the less there is (mM): 3.6 mmHg [P]. The energy state of brain
holds at 8.8 mmHg and fails at 6.8 (S81); models of tumours let necrosis begin at 5 mmHg, at its full rate at 2.5 (S82)."""
ANOXIA_HARM_PER_H = 0.06
"""Share of the cells that die an hour without oxygen at 37 °C [D]: of cortical neurons 80, 56, 34 and 18 % survive 6, 12, 18
and 24 hours (S83). The range is wide: of neurons among astrocytes 40 to 60 % survive 4 hours (S84), and cortical organoids
live through 2 days (S85)."""
SYNERGY_LACTATE_MM = 12.0
"""Lactate above which it acts together with ammonia [V, S47]."""
LIFELESS = 1e-3
"""Share of living cells at the surface below which all of an organoid counts as core."""
STARVED_ANOXIA = 5.0
"""Without glucose as well, anoxia kills faster by this times its rate [P]: 80 % of neurons die in 2 hours, of astrocytes in
more than 10 (S86)."""
REGROWTH_PER_H = 0.01
"""Rate at which the living cells of a shell make up for its dead ones, logistic [P]: a doubling of progenitors in three days.
Stem cells that survive refill the pool after hypoxia (S87); how fast is not published. A shell that is dead stays dead."""
FOLLOWS_PER_H = 0.01
"""Rate at which tissue follows what age and trophic factor permit, downwards [P]."""
REGROWTH_OXYGEN_MM = 0.01
"""Oxygen at which regrowth has half of its rate [P]; about 1 % of oxygen."""
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
def anoxia_per_hour(oxygen_mm: float, glucose_mm: float, min_oxygen_mm: float, anoxia_harm: float) -> float:
    """Return the share of the cells of a shell that die an hour of the lack of oxygen in it (1/h).

    It is proportional to what is missing of `min_oxygen_mm`; `anoxia_harm` is the share without any oxygen (1/h).
    """
    lack = max(0.0, 1.0 - max(oxygen_mm, 0.0) / min_oxygen_mm) if min_oxygen_mm > 0.0 else 0.0
    return anoxia_harm * lack * (1.0 + STARVED_ANOXIA * max(0.0, 1.0 - glucose_mm))


@compiled
def regrowth_per_hour(oxygen_mm: float, regrowth: float) -> float:
    """Return the rate at which tissue regrows where there is this oxygen (1/h)."""
    oxygen = max(oxygen_mm, 0.0)
    return regrowth * oxygen / (oxygen + REGROWTH_OXYGEN_MM)


@compiled
def harm_per_hour(
    tissue: TissueState, temperature_c: float, ph: float, glucose_mm: float, lactate_mm: float, ammonia_mm: float,
    osmolality: float, microbes_per_ml: float, insulin: float,
) -> float:  # fmt: skip
    """Return the share of the living cells that die an hour of what is around the organoid (1/h) [P].

    It is a sum over what is outside its harmless range. Ranges and rates are those of the kind of tissue
    (:class:`sim.plant.tissue_models.TissueKind`).
    """
    warm = max(0.0, temperature_c - tissue.max_harmless_c)
    harm = tissue.heat_harm * warm * warm
    harm += tissue.cold_harm * max(0.0, tissue.min_harmless_c - temperature_c)
    harm += tissue.ph_harm * outside(ph, tissue.min_ph, tissue.max_ph)
    harm += tissue.hunger_harm * max(0.0, tissue.min_glucose_mm - glucose_mm)
    # Only a part of the cells may be sensitive to lactate: what is left then is harmed less and less.
    part = max(tissue.lactate_sensitive, LIFELESS)
    sensitive = max(0.0, tissue.viability - 1.0 + part) / part
    harm += tissue.lactate_harm * max(0.0, lactate_mm - tissue.lactate_min_mm) * min(sensitive, 1.0)
    harm += tissue.ammonia_harm * max(0.0, ammonia_mm - tissue.ammonia_min_mm)
    harm += tissue.synergy_harm * max(0.0, lactate_mm - SYNERGY_LACTATE_MM) * ammonia_mm
    harm += tissue.osmolality_harm * outside(osmolality, tissue.min_osmolality, tissue.max_osmolality)
    harm += tissue.insulin_harm * (1.0 - sustained(insulin, tissue.min_insulin))
    if microbes_per_ml > 1e4:
        harm += 0.1 * microbes_per_ml / (microbes_per_ml + 1e6)
    return harm


@compiled
def sustained(insulin: float, min_insulin: float) -> float:
    """Return the share (0..1) of growth and survival that this share of fresh medium's insulin sustains."""
    return min(1.0, max(0.0, insulin / min_insulin)) if min_insulin > 0.0 else 1.0


@compiled
def outside(value: float, low: float, high: float) -> float:
    """Return the distance of a value from a range; 0 within it."""
    if value < low:
        return low - value
    return value - high if value > high else 0.0


@compiled
def best_share(trophic: float, trophic_share: float, aged: float) -> float:
    """Return the share of the cells that can live where nothing is wanting, as trophic factor and age permit."""
    return (1.0 - trophic_share + trophic_share * trophic / (trophic + 0.15)) * (1.0 - aged)


@compiled
def survived(
    living: float, oxygen_mm: float, glucose_mm: float, harm: float, best: float, dt_s: float, min_oxygen_mm: float,
    anoxia_harm: float, regrowth: float,
) -> float:  # fmt: skip
    """Return the living share of a shell after `dt_s`, with `harm` (1/h) by what is around the organoid.

    Death goes with what lives, regrowth with what lives and with what is missing to `best`. Nothing regrows while the harm is
    0.001/h or more. What lives beyond `best` follows it down.
    """
    death = harm + anoxia_per_hour(oxygen_mm, glucose_mm, min_oxygen_mm, anoxia_harm)
    healing = 0.0
    if living > best:
        healing = FOLLOWS_PER_H
    elif harm < 0.001:
        healing = regrowth_per_hour(oxygen_mm, regrowth) * living
    both = death + healing
    if both <= 0.0:
        return living
    goal = healing * best / both
    return goal + (living - goal) * exp(-both * dt_s / 3600.0)
