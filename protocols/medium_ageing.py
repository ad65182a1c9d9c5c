"""What time and temperature take from medium, by the literature: what the ledger expects of bottles and vessels. Pure.

All rates are of first order, with a Q10. The plant draws on the same sources and states them (biology.md §1.6); what a bottle
really loses differs (:data:`DOUBT`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from protocols.media_state import DECAY_PER_D_AT_7_2, DECAY_PER_PH, STABLE_RATE

REFERENCE_C = 37.0
INSULIN_PER_D, INSULIN_Q10 = math.log(2.0) / 20.0, 3.0
"""Half-life of insulin in medium at 37 °C: 20 days, 7 to 60 [P]."""
FACTORS_PER_D, FACTORS_Q10 = math.log(2.0) / 1.5, 2.5
"""The same of labile growth factors and vitamins: 1.5 days, hours to 3 days [P]; half is left after a month at 4 °C."""
GLUTAMINE_Q10 = 2.6
BOTTLE_PH = 7.5
"""pH of medium in a bottle [P]: 27 mM bicarbonate under 5 % CO2; it rises as CO2 leaves through the cap."""
DOUBT = 0.5
"""Relative uncertainty of a rate (one standard deviation) [P]: the range of the literature is two of them."""
MAX_PH = 7.8
"""The measured range of the decay of glutamine ends here [biology.md S12]."""
USE_WITHIN_D, COLD_C = 14.0, 8.0
"""Complete medium may be used for 2 to 4 weeks at 2 to 8 °C (biology.md §1.6): the lower end."""
FRIDGE_C = 4.0
"""Temperature at which a bottle of medium is usually kept (°C)."""


@dataclass(frozen=True, slots=True)
class MediumRates:
    """What medium loses a day (1/d) of insulin, labile factors and glutamine."""

    insulin: float
    factors: float
    glutamine: float


def rates_at(temperature_c: float, *, stable: bool = False, ph: float = BOTTLE_PH) -> MediumRates:
    """Return the expected rates of medium at a temperature (°C); `stable`: its glutamine is the dipeptide."""
    tens = (temperature_c - REFERENCE_C) / 10.0
    glutamine = DECAY_PER_D_AT_7_2 * math.exp(DECAY_PER_PH * (min(ph, MAX_PH) - 7.2)) * GLUTAMINE_Q10**tens
    return MediumRates(
        INSULIN_PER_D * INSULIN_Q10**tens,
        FACTORS_PER_D * FACTORS_Q10**tens,
        glutamine * (STABLE_RATE if stable else 1.0),
    )


def use_within_d(temperature_c: float) -> float:
    """Return how long complete medium may be used at a temperature (days) where no limit is declared.

    In the refrigerator :data:`USE_WITHIN_D`; where it is warmer, until it has lost as much of its labile factors.
    """
    if temperature_c <= COLD_C:
        return USE_WITHIN_D
    return USE_WITHIN_D * float(FACTORS_Q10 ** ((COLD_C - temperature_c) / 10.0))
