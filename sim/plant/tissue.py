"""The tissue in a chamber: what it takes from the medium and gives to it, and how it lives, grows and dies."""

from __future__ import annotations

from math import pi

import numpy as np
from numpy.typing import NDArray

from sim.plant import chemistry, organoid, sphere, turnover
from sim.plant.columns import COLUMNS, Content, Shell, Sizes, TallyCause, TissueState
from sim.plant.compiled import compiled

F8 = NDArray[np.float64]
Records = NDArray[np.void]


@compiled
def live(
    number: int, chamber: F8, links: Records, lines: Records, tissue: TissueState, temperature_c: float, sizes: Sizes, ph: F8,
    shells: F8, profile: F8, tally: F8, scratch: F8, dt_s: float,
) -> None:  # fmt: skip
    """Advance the tissue in the vessel `number`, whose contents are `chamber`, by one step, by the midpoint rule.

    `profile` are its rows by :class:`Shell`.
    """
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
    secrete(chamber, middle, tissue, temperature_c, now, volume, shells, profile, tally, dt_s)


@compiled
def secrete(
    chamber: F8, middle: F8, tissue: TissueState, temperature_c: float, ph: float, volume: float, shells: F8, profile: F8,
    tally: F8, dt_s: float,
) -> None:  # fmt: skip
    """Let the tissue be harmed, heal and grow for one step, and give to `chamber` what it secretes and sheds.

    `middle` are the contents around it in the middle of the step, `volume` their volume (µL).
    """
    trophic = organoid.TROPHIC_UNITS * turnover.TROPHIC_PER_S * organoid.TROPHIC_VOLUME_UL * tissue.viability * dt_s
    ldh = die(middle, tissue, temperature_c, ph, volume, shells, profile, dt_s)
    give(chamber, tally, Content.TROPHIC, trophic * tissue.share)
    give(chamber, tally, Content.LDH, ldh)
    give(chamber, tally, Content.PARTICLES, organoid.PARTICLES_PER_S * dt_s * tissue.share)
    fed = organoid.sustained(middle[Content.INSULIN] / volume, tissue.min_insulin)
    tissue.volume_mm3 = organoid.grown(tissue.volume_mm3, tissue.viability, dt_s, tissue.growth_per_day * fed)


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
    rate = organoid.pace(temperature_c)
    oxygen_mm = max(0.0, chamber[Content.OXYGEN] / volume)
    v_max = organoid.V_MAX * tissue.demand * rate
    each_mol_s = 0.0
    if v_max > 0.0:
        each_mol_s = sphere.solve(
            shells, profile[Shell.OXYGEN], profile[Shell.LIVING], radius, oxygen_mm, film_m_s, v_max,
            organoid.KM_OXYGEN_MM, organoid.DIFFUSIVITY,
        )  # fmt: skip
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
    glutamine_mm = max(0.0, (chamber[Content.GLUTAMINE] + chamber[Content.DIPEPTIDE]) / volume)
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
    part = bounded(part, glutamine, chamber[Content.GLUTAMINE] + chamber[Content.DIPEPTIDE])
    stable = stable_share(chamber)
    oxygen, glucose, lactate, glutamine = oxygen * part, glucose * part, lactate * part, glutamine * part
    react(chamber, oxygen, glucose, lactate, glutamine, stable)
    if book:
        react(tally[TallyCause.METABOLISM], oxygen, glucose, lactate, glutamine, stable)
    return part


@compiled
def bounded(part: float, wanted: float, there: float) -> float:
    """Return the lesser of `part` and the share of `wanted` that nine tenths of what is there allow."""
    if wanted > 0.9 * there:
        return min(part, 0.9 * max(there, 0.0) / wanted)
    return part


@compiled
def stable_share(row: F8) -> float:
    """Return the share of the glutamine of a row that is in the dipeptide; tissue takes both in the same way [P]."""
    whole = row[Content.GLUTAMINE] + row[Content.DIPEPTIDE]
    return row[Content.DIPEPTIDE] / whole if whole > 0.0 else 0.0


@compiled
def react(row: F8, oxygen: float, glucose: float, lactate: float, glutamine: float, stable: float) -> None:
    """Apply metabolism to a row: oxygen becomes carbon dioxide, glucose lactic acid, glutamine ammonia.

    A share `stable` of the glutamine comes from the dipeptide.
    An osmole leaves with each glucose, burnt or not: each lactate displaces a bicarbonate, which leaves as carbon dioxide.
    """
    row[Content.OXYGEN] -= oxygen
    row[Content.CARBON] += oxygen
    row[Content.GLUCOSE] -= glucose
    row[Content.LACTATE] += lactate
    row[Content.ALKALINITY] -= lactate
    row[Content.GLUTAMINE] -= glutamine * (1.0 - stable)
    row[Content.DIPEPTIDE] -= glutamine * stable
    row[Content.AMMONIA] += glutamine
    row[Content.OSMOLES] -= glucose


@compiled
def die(
    middle: F8, tissue: TissueState, temperature_c: float, ph: float, volume: float, shells: F8, profile: F8, dt_s: float
) -> float:  # fmt: skip
    """Let cells of each shell die and regrow by its oxygen and by the medium in the middle of the step.

    Returns:
        The LDH that dying cells release (U/L × µL).
    """
    glucose_mm = middle[Content.GLUCOSE] / volume
    harm = organoid.harm_per_hour(
        tissue, temperature_c, ph, glucose_mm, middle[Content.LACTATE] / volume, middle[Content.AMMONIA] / volume,
        middle[Content.OSMOLES] / volume, middle[Content.MICROBES] / volume, middle[Content.INSULIN] / volume,
    )  # fmt: skip
    if tissue.delay_h > 0.0:
        tissue.pending += harm * dt_s / 3600.0
        harm = tissue.pending / tissue.delay_h
        tissue.pending -= min(tissue.pending, harm * dt_s / 3600.0)
    ageing = tissue.ageing_per_h + tissue.core_harm_per_h * tissue.dead_fraction
    tissue.aged += (1.0 - tissue.aged) * ageing * dt_s / 3600.0
    best = organoid.best_share(middle[Content.TROPHIC] / volume, tissue.trophic_share, tissue.aged)
    oxygen, living = profile[Shell.OXYGEN], profile[Shell.LIVING]
    died = 0.0
    for shell in range(living.shape[0]):
        before = living[shell]
        after = organoid.survived(
            before, oxygen[shell], glucose_mm, harm, best, dt_s, tissue.min_oxygen_mm,
            tissue.anoxia_harm, tissue.regrowth,
        )  # fmt: skip
        living[shell] = after
        died += max(0.0, before - after) * shells[1, shell]
    take_stock(tissue, shells, profile)
    # U per L × µL is 1e-6 U.
    return died / sphere.UNIT_VOLUME * tissue.volume_mm3 * tissue.count * organoid.LDH_U_PER_MM3 * 1e6


@compiled
def take_stock(tissue: TissueState, shells: F8, profile: F8) -> None:
    """Set dead share, core and viability of a tissue by what lives in its shells."""
    radius, living = organoid.radius_m(tissue.volume_mm3), profile[Shell.LIVING]
    share = sphere.living_share(shells, living)
    tissue.dead_fraction = 1.0 - share
    rim = living[living.shape[0] - 1]
    tissue.core_m = radius if rim < organoid.LIFELESS else sphere.core_radius(shells, living, radius, 0.5 * rim)
    capacity = max(sphere.capacity(profile[Shell.CAPACITY], radius), organoid.LIFELESS)
    tissue.viability = min(1.0, share / capacity)


@compiled
def give(chamber: F8, tally: F8, column: int, amount: float) -> None:
    """Add what the tissue secretes."""
    chamber[column] += amount
    tally[TallyCause.METABOLISM, column] += amount
