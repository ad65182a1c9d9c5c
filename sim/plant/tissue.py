"""The tissue in a chamber: what it takes from the medium and gives to it, and how it lives, grows and dies."""

from __future__ import annotations

from math import pi

import numpy as np
from numpy.typing import NDArray

from sim.plant import chemistry, organoid, sphere, turnover
from sim.plant.columns import COLUMNS, Content, Sizes, TallyCause, TissueState
from sim.plant.compiled import compiled

F8 = NDArray[np.float64]
Records = NDArray[np.void]


@compiled
def live(
    number: int, chamber: F8, links: Records, lines: Records, tissue: TissueState, temperature_c: float, sizes: Sizes, ph: F8,
    shells: F8, profile: F8, tally: F8, scratch: F8, dt_s: float,
) -> None:  # fmt: skip
    """Advance the tissue in the vessel `number`, whose contents are `chamber`, by one step, by the midpoint rule."""
    middle, wants = scratch[2], scratch[3]
    film = film_coefficient(number, links, lines, tissue, sizes)
    for column in range(COLUMNS):
        middle[column] = chamber[column]
    demand(middle, tissue, temperature_c, shells, profile, film, wants)
    exchange(middle, tally, wants, 0.5 * dt_s, False)
    demand(middle, tissue, temperature_c, shells, profile, film, wants)
    part = exchange(chamber, tally, wants, dt_s, True)
    tissue.uptake_nmol_s = wants[Content.OXYGEN] * part
    volume = max(middle[Content.LIQUID], 1.0)
    now = chemistry.ph_closed(
        middle[Content.ALKALINITY] / volume, middle[Content.CARBON] / volume, ph[number], middle[Content.BUFFER] / volume
    )  # fmt: skip
    ph[number] = now
    secrete(chamber, middle, tissue, temperature_c, now, volume, tally, dt_s)


@compiled
def secrete(
    chamber: F8, middle: F8, tissue: TissueState, temperature_c: float, ph: float, volume: float, tally: F8, dt_s: float
) -> None:  # fmt: skip
    """Let the tissue be harmed, heal and grow for one step, and give to `chamber` what it secretes and sheds.

    `middle` are the contents around it in the middle of the step, `volume` their volume (µL).
    """
    trophic = organoid.TROPHIC_UNITS * turnover.TROPHIC_PER_S * organoid.TROPHIC_VOLUME_UL * tissue.viability * dt_s
    ldh = die(middle, tissue, temperature_c, ph, volume, dt_s)
    give(chamber, tally, Content.TROPHIC, trophic * tissue.share)
    give(chamber, tally, Content.LDH, ldh)
    give(chamber, tally, Content.PARTICLES, organoid.PARTICLES_PER_S * dt_s * tissue.share)
    tissue.volume_mm3 = organoid.grown(tissue.volume_mm3, tissue.viability, dt_s, tissue.growth_per_day)


@compiled
def film_coefficient(number: int, links: Records, lines: Records, tissue: TissueState, sizes: Sizes) -> float:
    """Return the mass transfer coefficient of the medium around an organoid (m/s), which follows from the flow."""
    stream = 0.0
    for line in range(sizes.pumped + sizes.branches):
        if links[line].target == number or links[line].source == number:
            stream += abs(lines[line].flow_ul_s)
    velocity = stream * 1e-9 / organoid.CHAMBER_SECTION_M2 + organoid.STILL_M_S
    return sphere.film_coefficient(2.0 * organoid.radius_m(tissue.volume_mm3), velocity)


@compiled
def demand(
    chamber: F8, tissue: TissueState, temperature_c: float, shells: F8, profile: F8, film_m_s: float, wants: F8
) -> None:  # fmt: skip
    """Write into `wants` what all organoids would take (nmol/s): oxygen, glucose, lactate (made) and glutamine."""
    volume = chamber[Content.LIQUID]
    wants[Content.OXYGEN] = wants[Content.GLUCOSE] = wants[Content.LACTATE] = wants[Content.GLUTAMINE] = 0.0
    if volume < 1.0:
        tissue.uptake_nmol_s = 0.0
        return
    radius = organoid.radius_m(tissue.volume_mm3)
    rate = organoid.pace(temperature_c) * tissue.viability
    oxygen_mm = max(0.0, chamber[Content.OXYGEN] / volume)
    v_max = organoid.V_MAX * tissue.demand * rate
    each_mol_s = 0.0
    if v_max > 0.0:
        each_mol_s = sphere.solve(
            shells, profile, radius, oxygen_mm, film_m_s, v_max, organoid.KM_OXYGEN_MM, organoid.DIFFUSIVITY
        )
    tissue.core_m = sphere.core_radius(shells, profile, radius, organoid.DEATH_OXYGEN_MM)
    area = 4.0 * pi * radius * radius
    tissue.surface_oxygen_mm = oxygen_mm - each_mol_s / (film_m_s * area)
    living_m3 = tissue.volume_mm3 * 1e-9 * (1.0 - tissue.dead_fraction)
    max_mol_s = v_max * living_m3
    short = min(1.0, max(0.0, 1.0 - each_mol_s / max_mol_s)) if max_mol_s > 0.0 else 0.0
    glucose = organoid.glucose_uptake(
        living_m3 * rate, chamber[Content.GLUCOSE] / volume, short, tissue.glucose_uptake
    )  # fmt: skip
    oxygen = organoid.burnable(each_mol_s, glucose, chamber[Content.LACTATE] / volume)
    per_nmol = tissue.count * 1e9
    glutamine_mm = max(0.0, chamber[Content.GLUTAMINE] / volume)
    wants[Content.OXYGEN] = oxygen * per_nmol
    wants[Content.GLUCOSE] = glucose * per_nmol
    wants[Content.LACTATE] = 2.0 * (glucose - oxygen / 6.0) * per_nmol
    saturation = glutamine_mm / (glutamine_mm + organoid.KM_GLUTAMINE_MM)
    wants[Content.GLUTAMINE] = tissue.ammonia_per_glucose * glucose * saturation * per_nmol


@compiled
def exchange(chamber: F8, tally: F8, wants: F8, dt_s: float, book: bool) -> float:
    """Apply `wants` for `dt_s`, but take no more than nine tenths of anything that is there.

    Returns:
        The share of `wants` that was applied.
    """
    oxygen, glucose = wants[Content.OXYGEN] * dt_s, wants[Content.GLUCOSE] * dt_s
    lactate, glutamine = wants[Content.LACTATE] * dt_s, wants[Content.GLUTAMINE] * dt_s
    part = bounded(1.0, oxygen, chamber[Content.OXYGEN])
    part = bounded(part, glucose, chamber[Content.GLUCOSE])
    part = bounded(part, -lactate, chamber[Content.LACTATE])
    part = bounded(part, glutamine, chamber[Content.GLUTAMINE])
    oxygen, glucose, lactate, glutamine = oxygen * part, glucose * part, lactate * part, glutamine * part
    react(chamber, oxygen, glucose, lactate, glutamine)
    if book:
        react(tally[TallyCause.METABOLISM], oxygen, glucose, lactate, glutamine)
    return part


@compiled
def bounded(part: float, wanted: float, there: float) -> float:
    """Return the lesser of `part` and the share of `wanted` that nine tenths of what is there allow."""
    if wanted > 0.9 * there:
        return min(part, 0.9 * max(there, 0.0) / wanted)
    return part


@compiled
def react(row: F8, oxygen: float, glucose: float, lactate: float, glutamine: float) -> None:
    """Apply metabolism to a row: oxygen becomes carbon dioxide, glucose lactic acid, glutamine ammonia.

    An osmole leaves with each glucose, burnt or not: each lactate displaces a bicarbonate, which leaves as carbon dioxide.
    """
    row[Content.OXYGEN] -= oxygen
    row[Content.CARBON] += oxygen
    row[Content.GLUCOSE] -= glucose
    row[Content.LACTATE] += lactate
    row[Content.ALKALINITY] -= lactate
    row[Content.GLUTAMINE] -= glutamine
    row[Content.AMMONIA] += glutamine
    row[Content.OSMOLES] -= glucose


@compiled
def die(middle: F8, tissue: TissueState, temperature_c: float, ph: float, volume: float, dt_s: float) -> float:
    """Change viability and necrotic core by what the medium in the middle of the step does to them.

    Returns:
        The LDH that dying cells release (U/L × µL).
    """
    harm = organoid.harm_per_hour(
        middle[Content.OXYGEN] / volume, temperature_c, ph, middle[Content.GLUCOSE] / volume,
        middle[Content.LACTATE] / volume, middle[Content.AMMONIA] / volume, middle[Content.OSMOLES] / volume,
        middle[Content.MICROBES] / volume, tissue.lactate_min_mm, tissue.lactate_harm, tissue.ammonia_min_mm,
        tissue.ammonia_harm,
    )  # fmt: skip
    ageing = tissue.ageing_per_h + tissue.core_harm_per_h * tissue.dead_fraction
    tissue.aged += (1.0 - tissue.aged) * ageing * dt_s / 3600.0
    before = tissue.viability
    trophic = middle[Content.TROPHIC] / volume
    change = organoid.viability_rate_per_hour(before, harm, trophic, tissue.aged) * dt_s / 3600.0
    tissue.viability = min(1.0, max(0.0, before + change))
    relative = tissue.core_m / organoid.radius_m(tissue.volume_mm3)
    dead_before = tissue.dead_fraction
    tissue.dead_fraction = organoid.core_after(dead_before, relative * relative * relative, dt_s)
    died = max(0.0, tissue.dead_fraction - dead_before) + max(0.0, before - tissue.viability) * (
        1.0 - tissue.dead_fraction
    )
    # U per L × µL is 1e-6 U.
    return died * tissue.volume_mm3 * tissue.count * organoid.LDH_U_PER_MM3 * 1e6


@compiled
def give(chamber: F8, tally: F8, column: int, amount: float) -> None:
    """Add what the tissue secretes."""
    chamber[column] += amount
    tally[TallyCause.METABOLISM, column] += amount
