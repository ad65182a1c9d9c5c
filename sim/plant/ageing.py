"""What happens to medium at rest: gas exchange, decay, microbes, and water that is lost through tube walls."""

from __future__ import annotations

from math import exp

import numpy as np
from numpy.typing import NDArray

from sim.plant import chemistry, gas, turnover
from sim.plant.columns import Body, Content, TallyCause
from sim.plant.compiled import compiled
from sim.plant.flows import MIN_UL

F8 = NDArray[np.float64]
Records = NDArray[np.void]


@compiled
def breathe(
    links: Records, traits: Records, vessels: F8, held: F8, lines: Records, body: Body, ph: F8, tally: F8, dt_s: float
) -> None:
    """Exchange gas in open vessels and through silicone tubing, both with the lung's gas, which fills the housing [P]."""
    for number in range(vessels.shape[0]):
        kla = traits[number].kla_per_s
        if kla > 0.0 and vessels[number, Content.LIQUID] >= MIN_UL:
            ph[number] = exchange(vessels[number], body, ph[number], kla, tally, dt_s)
    for number in range(lines.shape[0]):
        if links[number].breathes == 0:
            continue
        guess = ph[links[number].source]
        for cell in range(held.shape[1]):
            if held[number, cell, Content.LIQUID] >= MIN_UL:
                guess = exchange(held[number, cell], body, guess, lines[number].wall_kla_per_s, tally, dt_s)


@compiled
def exchange(row: F8, body: Body, ph: float, kla: float, tally: F8, dt_s: float) -> float:
    """Exchange oxygen and carbon dioxide between a row of contents and the gas.

    Args:
        row: contents, changed in place
        ph: guess of its pH
        kla: transfer coefficient (1/s)

    Returns:
        The pH before the exchange.
    """
    volume = row[Content.LIQUID]
    found = chemistry.ph_closed(row[Content.ALKALINITY] / volume, row[Content.CARBON] / volume, ph)
    gain = gas.oxygen_gain(row[Content.OXYGEN] / volume, body.o2_fraction, kla, dt_s) * volume
    row[Content.OXYGEN] += gain
    tally[TallyCause.GAS, Content.OXYGEN] += gain
    gain = gas.carbon_gain(row[Content.CARBON] / volume, found, body.co2_fraction, kla, dt_s) * volume
    gain = max(gain, -0.9 * row[Content.CARBON])
    row[Content.CARBON] += gain
    tally[TallyCause.GAS, Content.CARBON] += gain
    return found


@compiled
def age(links: Records, traits: Records, vessels: F8, lines: Records, ph: F8, tally: F8, dt_s: float) -> None:
    """Age the medium in the vessels, and let it lose water through the walls of the tubes."""
    for number in range(vessels.shape[0]):
        if traits[number].live != 0.0 and vessels[number, Content.LIQUID] >= MIN_UL:
            decay(vessels[number], ph[number], tally, dt_s)
            if vessels[number, Content.MICROBES] > 0.0:
                multiply(vessels[number], tally, dt_s)
    for number in range(lines.shape[0]):
        if links[number].breathes == 1:
            vessel = vessels[links[number].source]
            lost = min(lines[number].water_loss_ul_s * dt_s, 0.5 * vessel[Content.LIQUID])
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
    tally[TallyCause.TURNOVER, Content.GLUCOSE] -= consumed
    tally[TallyCause.TURNOVER, Content.LACTATE] += 2.0 * consumed
    tally[TallyCause.TURNOVER, Content.ALKALINITY] -= 2.0 * consumed
