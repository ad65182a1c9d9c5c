"""What happens to medium at rest: gas exchange, decay, microbes, and water that is lost through tube walls."""

from __future__ import annotations

from math import exp

import numpy as np
from numpy.typing import NDArray

from sim.plant import chemistry, gas, surfaces, turnover
from sim.plant.columns import Content, Sizes, Space, TallyCause
from sim.plant.compiled import compiled
from sim.plant.flows import MIN_UL

F8 = NDArray[np.float64]
Records = NDArray[np.void]


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
                ph[number] = exchange(
                    vessels[number], spaces[nodes[number].gas], ph[number], kla, tally, elapsed_s
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
                guess = exchange(held[number, cell], space, guess, lines[number].wall_kla_per_s, tally, elapsed_s)


@compiled
def exchange(row: F8, space: Space, ph: float, kla: float, tally: F8, dt_s: float) -> float:
    """Exchange oxygen and carbon dioxide between a row of contents and the gas.

    Args:
        row: contents, changed in place
        ph: guess of its pH
        kla: transfer coefficient (1/s)

    Returns:
        The pH before the exchange.
    """
    volume = row[Content.LIQUID]
    buffer = row[Content.BUFFER] / volume
    found = chemistry.ph_closed(row[Content.ALKALINITY] / volume, row[Content.CARBON] / volume, ph, buffer)
    gain = gas.oxygen_gain(row[Content.OXYGEN] / volume, space.o2_fraction, kla, dt_s) * volume
    row[Content.OXYGEN] += gain
    tally[TallyCause.GAS, Content.OXYGEN] += gain
    gain = gas.carbon_gain(row[Content.CARBON] / volume, found, space.co2_fraction, kla, dt_s, buffer) * volume
    gain = max(gain, -0.9 * row[Content.CARBON])
    row[Content.CARBON] += gain
    tally[TallyCause.GAS, Content.CARBON] += gain
    return found


@compiled
def age(
    links: Records, nodes: Records, traits: Records, vessels: F8, lines: Records, sizes: Sizes, ph: F8, tally: F8, due: int,
    waits: F8, dt_s: float,
) -> None:  # fmt: skip
    """Age the medium in the vessels, and let it lose water through the walls of the tubes and from open surfaces."""
    for number in range(sizes.vessels):
        if traits[number].live == 0.0 or vessels[number, Content.LIQUID] < MIN_UL:
            continue
        elapsed_s = waited(nodes[number].group, due, waits, dt_s)
        if elapsed_s > 0.0:
            decay(vessels[number], ph[number], tally, elapsed_s)
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
def decay(vessel: F8, ph: float, tally: F8, dt_s: float) -> None:
    """Let glutamine, trophic factors and LDH decay, and count the age."""
    gone = vessel[Content.GLUTAMINE] * (1.0 - exp(-turnover.glutamine_rate(ph) * dt_s))
    vessel[Content.GLUTAMINE] -= gone
    vessel[Content.AMMONIA] += gone
    tally[TallyCause.TURNOVER, Content.GLUTAMINE] -= gone
    tally[TallyCause.TURNOVER, Content.AMMONIA] += gone
    gone = vessel[Content.TROPHIC] * (1.0 - exp(-turnover.TROPHIC_PER_S * dt_s))
    vessel[Content.TROPHIC] -= gone
    tally[TallyCause.TURNOVER, Content.TROPHIC] -= gone
    gone = vessel[Content.LDH] * (1.0 - exp(-turnover.LDH_PER_S * dt_s))
    vessel[Content.LDH] -= gone
    tally[TallyCause.TURNOVER, Content.LDH] -= gone
    days = vessel[Content.LIQUID] * dt_s / turnover.DAY_S
    vessel[Content.AGE] += days
    tally[TallyCause.TURNOVER, Content.AGE] += days


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
