"""Prices of treatments from the rig's rule file (`prices:`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices in EUR per mL, EUR, mL, EUR per day and days, as each name says.

    `harm_b` and `harm_c` are a day of tissue in medium beyond the edges of B and C; `horizon` is the period of the
    risk.
    """

    fresh_eur_ml: float
    basal_eur_ml: float
    glucose_eur_ml: float
    base_eur_ml: float
    waste_eur_ml: float
    filter_eur: float
    filter_life_ml: float
    dialyser_eur: float
    dialyser_life_ml: float
    harm_b_eur_d: float
    harm_c_eur_d: float
    horizon_d: float
