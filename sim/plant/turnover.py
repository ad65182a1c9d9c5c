"""What happens to medium by itself: glutamine decays, factors fade, pumps precipitate insulin, microbes multiply."""

from __future__ import annotations

from math import exp, log

from sim.plant.compiled import compiled

DAY_S = 86_400.0
GLUTAMINE_PER_S_AT_7_2 = 0.035 / DAY_S
GLUTAMINE_PER_PH = log(4.0) / 0.4
"""First order, 0.035 a day at pH 7.2 and fourfold at 7.6: half-lives of 20 to 5 days [V, S11; D]."""
TROPHIC_PER_S = log(2) / (1.5 * DAY_S)
"""Half-life 1.5 d [P]."""
LDH_PER_S = log(2) / (2.0 * DAY_S)
"""LDH is lost in long cultures [V, S60]; half-life of two days [P]."""
INSULIN_PER_PASS = 2e-4
"""Lost at each pass through a roller in medium without albumin [P]: that it happens is known [V, S29], how fast is not."""
ALBUMIN_HALF_MM = 0.005
"""Albumin that protects half of the insulin [P]; that albumin rescues is known [V, S29]."""
SUPPLEMENT_ALBUMIN_MM = 0.038
"""2.5 g/L of serum albumin, as in common supplements [R]."""
MICROBE_DOUBLING_S = 3600.0
MAX_MICROBES_PER_ML = 1e9
MICROBE_GLUCOSE_NMOL_S = 1e-15 / 3600 * 1e9
"""A contaminant at 37 °C: doubles each hour up to 10⁹/mL, each takes 1 fmol glucose an hour to lactic acid [P]."""


@compiled
def glutamine_rate(ph: float) -> float:
    """Return the rate of glutamine's decay to ammonia (1/s); outside pH 6.5 to 8.2 as at the edge."""
    return GLUTAMINE_PER_S_AT_7_2 * exp(GLUTAMINE_PER_PH * (min(8.2, max(6.5, ph)) - 7.2))


@compiled
def insulin_lost(albumin_mm: float) -> float:
    """Return the fraction of insulin lost at one pass through a pump; albumin protects it."""
    guarded = albumin_mm / (albumin_mm + ALBUMIN_HALF_MM)
    return INSULIN_PER_PASS * (1.0 - guarded)


@compiled
def multiplied(per_ml: float, dt_s: float) -> float:
    """Return the microbes (CFU/mL) after `dt_s`: logistic growth, exactly."""
    if per_ml <= 0.0:
        return 0.0
    limit = max(MAX_MICROBES_PER_ML, per_ml)
    return limit / (1.0 + (limit / per_ml - 1.0) * exp(-log(2.0) / MICROBE_DOUBLING_S * dt_s))
