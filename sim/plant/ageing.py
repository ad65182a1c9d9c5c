"""What happens to medium at rest: gas exchange, decay, microbes, and water that is lost through tube walls."""

from __future__ import annotations

from math import exp, log

import numpy as np
from numpy.typing import NDArray

from sim.plant import chemistry, gas, surfaces, turnover
from sim.plant.columns import Body, Content, Sizes, TallyCause
from sim.plant.compiled import compiled
from sim.plant.flows import MIN_UL

F8 = NDArray[np.float64]
Records = NDArray[np.void]

REST_S = 600.0
"""Time between two steps of medium at rest: in it nothing of a bottle changes by a hundredth."""
REST_MOVED_S = 10.0
"""The same while a pump moves it."""
CAP_KLA_PER_S = log(2) / (30.0 * 86_400.0)
"""Gas transfer through cap and vent of a bottle: half of a difference in thirty days [P, 3–300 d]."""


@compiled
def waited(group: int, due: int, waits: F8, dt_s: float) -> float:
    """Return the time (s) by which gas and turnover of a node or line advance in this step; 0 when it is not its turn."""
    if group < 0:
        return dt_s
    elapsed: float = waits[group] if group == due else 0.0
    return elapsed


@compiled
def breathe(
    links: Records, nodes: Records, traits: Records, vessels: F8, held: F8, lines: Records, spaces: Records, sizes: Sizes,
    ph: F8, tally: F8, due: int, waits: F8, dt_s: float,
) -> None:  # fmt: skip
    """Exchange gas in open vessels and through silicone tubing, for half of the step, with the gas of their spaces.

    The gas of a lung that is led into the loop fills the housing [P]; see :func:`sim.plant.layout.gassed_alone`.
    """
    for number in range(sizes.vessels):
        trait = traits[number]
        kla = trait.kla_per_s
        if trait.surface_mm2 > 0.0:
            kla += surfaces.still_kla_per_s(trait.surface_mm2, vessels[number, Content.LIQUID])
        if kla > 0.0 and vessels[number, Content.LIQUID] >= MIN_UL:
            elapsed_s = 0.5 * waited(nodes[number].group, due, waits, dt_s)
            if elapsed_s > 0.0:
                gas_above = spaces[nodes[number].gas]
                ph[number] = exchange(
                    vessels[number], gas_above.o2_fraction, gas_above.co2_fraction, ph[number], kla, tally, elapsed_s
                )  # fmt: skip
    for number in range(sizes.pumped + sizes.branches):
        if links[number].breathes == 0:
            continue
        elapsed_s = 0.5 * waited(links[number].group, due, waits, dt_s)
        if elapsed_s == 0.0:
            continue
        guess, space = ph[links[number].source], spaces[links[number].space]
        for cell in range(held.shape[1]):
            if held[number, cell, Content.LIQUID] >= MIN_UL:
                guess = exchange(
                    held[number, cell], space.o2_fraction, space.co2_fraction, guess, lines[number].wall_kla_per_s, tally,
                    elapsed_s,
                )  # fmt: skip


@compiled
def exchange(
    row: F8, o2_fraction: float, co2_fraction: float, ph: float, kla: float, tally: F8, dt_s: float
) -> float:  # fmt: skip
    """Exchange oxygen and carbon dioxide between a row of contents and the gas.

    Args:
        row: contents, changed in place
        o2_fraction: of the gas (0..1)
        co2_fraction: of the gas (0..1)
        ph: guess of its pH
        kla: transfer coefficient (1/s)

    Returns:
        The pH before the exchange.
    """
    volume = row[Content.LIQUID]
    buffer = row[Content.BUFFER] / volume
    found = chemistry.ph_closed(row[Content.ALKALINITY] / volume, row[Content.CARBON] / volume, ph, buffer)
    gain = gas.oxygen_gain(row[Content.OXYGEN] / volume, o2_fraction, kla, dt_s) * volume
    row[Content.OXYGEN] += gain
    tally[TallyCause.GAS, Content.OXYGEN] += gain
    gain = gas.carbon_gain(row[Content.CARBON] / volume, found, co2_fraction, kla, dt_s, buffer) * volume
    gain = max(gain, -0.9 * row[Content.CARBON])
    row[Content.CARBON] += gain
    tally[TallyCause.GAS, Content.CARBON] += gain
    return found


@compiled
def age(
    links: Records, nodes: Records, traits: Records, vessels: F8, lines: Records, spaces: Records, sizes: Sizes, ph: F8,
    tally: F8, due: int, waits: F8, dt_s: float,
) -> None:  # fmt: skip
    """Age the medium in the vessels, and let it lose water through the walls of the tubes and from open surfaces."""
    for number in range(sizes.vessels):
        if traits[number].live == 0.0 or vessels[number, Content.LIQUID] < MIN_UL:
            continue
        elapsed_s = waited(nodes[number].group, due, waits, dt_s)
        if elapsed_s > 0.0:
            temperature_c = spaces[nodes[number].space].temperature_c
            decay(vessels[number], ph[number], temperature_c, tally, elapsed_s)
            if vessels[number, Content.MICROBES] > 0.0:
                multiply(vessels[number], tally, elapsed_s)
            if traits[number].evaporation_ul_s > 0.0:
                evaporate(vessels[number], traits[number].evaporation_ul_s * elapsed_s, tally)
    for number in range(sizes.pumped + sizes.branches):
        if links[number].breathes == 1:
            source = links[number].source
            giver = source if source < sizes.vessels else links[number].target
            if giver < sizes.vessels:
                evaporate(vessels[giver], lines[number].water_loss_ul_s * dt_s, tally)


@compiled
def evaporate(vessel: F8, water_ul: float, tally: F8) -> None:
    """Let a vessel lose water, at most half of its liquid."""
    lost = min(water_ul, 0.5 * vessel[Content.LIQUID])
    vessel[Content.LIQUID] -= lost
    tally[TallyCause.EVAPORATION, Content.LIQUID] -= lost


@compiled
def decay(row: F8, ph: float, temperature_c: float, tally: F8, dt_s: float) -> None:
    """Let glutamine, insulin, labile factors and LDH of a row of contents decay, and count the age."""
    glutamine_per_s = turnover.glutamine_rate(ph, temperature_c)
    before = row[Content.GLUTAMINE]
    fade(row, tally, Content.GLUTAMINE, glutamine_per_s * dt_s)
    row[Content.AMMONIA] += before - row[Content.GLUTAMINE]
    tally[TallyCause.TURNOVER, Content.AMMONIA] += before - row[Content.GLUTAMINE]
    fade(row, tally, Content.DIPEPTIDE, turnover.DIPEPTIDE_RATE * glutamine_per_s * dt_s)
    fade(
        row,
        tally,
        Content.INSULIN,
        turnover.INSULIN_PER_S * turnover.thermal(turnover.INSULIN_Q10, temperature_c) * dt_s,
    )
    fade(
        row,
        tally,
        Content.TROPHIC,
        turnover.TROPHIC_PER_S * turnover.thermal(turnover.TROPHIC_Q10, temperature_c) * dt_s,
    )
    fade(row, tally, Content.LDH, turnover.LDH_PER_S * dt_s)
    days = row[Content.LIQUID] * dt_s / turnover.DAY_S
    row[Content.AGE] += days
    tally[TallyCause.TURNOVER, Content.AGE] += days


@compiled
def fade(row: F8, tally: F8, column: int, rate: float) -> None:
    """Let a column of a row decay by a rate times a time."""
    if row[column] != 0.0:
        gone = row[column] * (1.0 - exp(-rate))
        row[column] -= gone
        tally[TallyCause.TURNOVER, column] -= gone


@compiled
def rest(
    links: Records, nodes: Records, traits: Records, vessels: F8, held: F8, lines: Records, spaces: Records, body: Body,
    sizes: Sizes, ph: F8, tally: F8, dt_s: float,
) -> None:  # fmt: skip
    """Age what needs no step of its own: bottles, which also breathe, waste, and what lines hold."""
    body.rested_s += dt_s
    if body.rested_s < REST_MOVED_S or (body.rested_s < REST_S and not moved(links, traits, lines, sizes)):
        return
    elapsed_s = body.rested_s
    body.rested_s = 0.0
    for number in range(sizes.vessels):
        trait, vessel = traits[number], vessels[number]
        if trait.live > 0.0 or vessel[Content.LIQUID] < MIN_UL:
            continue
        temperature_c = trait.kept_c if trait.kept_c == trait.kept_c else spaces[nodes[number].space].temperature_c
        if trait.cap_kla_per_s > 0.0:
            ph[number] = exchange(
                vessel, trait.kept_o2, trait.kept_co2, ph[number], trait.cap_kla_per_s, tally, elapsed_s
            )  # fmt: skip
        else:
            ph[number] = acidity(vessel, ph[number])
        decay(vessel, ph[number], temperature_c, tally, elapsed_s)
    for number in range(sizes.pumped + sizes.branches):
        line = lines[number]
        temperature_c = line.kept_c if line.kept_c == line.kept_c else spaces[links[number].space].temperature_c
        guess = 7.4
        for cell in range(held.shape[1]):
            if held[number, cell, Content.LIQUID] >= MIN_UL:
                guess = acidity(held[number, cell], guess)
                decay(held[number, cell], guess, temperature_c, tally, elapsed_s)


@compiled
def moved(links: Records, traits: Records, lines: Records, sizes: Sizes) -> bool:
    """Return whether a pump moves medium out of a vessel at rest or into one."""
    for number in range(sizes.pumped):
        if lines[number].flow_ul_s != 0.0:
            for end in (links[number].source, links[number].target):
                if end < sizes.vessels and traits[end].live == 0.0:
                    return True
    return False


@compiled
def acidity(row: F8, guess: float) -> float:
    """Return the pH of a row of contents."""
    volume = row[Content.LIQUID]
    return chemistry.ph_closed(
        row[Content.ALKALINITY] / volume, row[Content.CARBON] / volume, guess, row[Content.BUFFER] / volume
    )  # fmt: skip


@compiled
def multiply(vessel: F8, tally: F8, dt_s: float) -> None:
    """Let microbes grow and turn glucose into lactic acid."""
    volume = vessel[Content.LIQUID]
    before = vessel[Content.MICROBES]
    vessel[Content.MICROBES] = turnover.multiplied(before / volume, dt_s) * volume
    tally[TallyCause.TURNOVER, Content.MICROBES] += vessel[Content.MICROBES] - before
    # CFU/mL × µL is a thousandth of a count.
    rate = vessel[Content.MICROBES] / 1000.0 * turnover.MICROBE_GLUCOSE_NMOL_S
    consumed = min(0.9 * vessel[Content.GLUCOSE], rate * dt_s)
    vessel[Content.GLUCOSE] -= consumed
    vessel[Content.LACTATE] += 2.0 * consumed
    vessel[Content.ALKALINITY] -= 2.0 * consumed
    vessel[Content.OSMOLES] -= consumed
    tally[TallyCause.TURNOVER, Content.GLUCOSE] -= consumed
    tally[TallyCause.TURNOVER, Content.LACTATE] += 2.0 * consumed
    tally[TallyCause.TURNOVER, Content.ALKALINITY] -= 2.0 * consumed
    tally[TallyCause.TURNOVER, Content.OSMOLES] -= consumed
