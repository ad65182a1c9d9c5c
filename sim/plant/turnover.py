"""What happens to medium by itself: glutamine decays, factors fade, pumps precipitate insulin, microbes multiply.

All rates are first order at 37 °C and follow a Q10. Sources: biology.md §1.6.
"""

from __future__ import annotations

from math import exp, log

from sim.plant.compiled import compiled

DAY_S = 86_400.0
REFERENCE_C = 37.0
GLUTAMINE_PER_S_AT_7_2 = 0.035 / DAY_S
GLUTAMINE_PER_PH = log(4.0) / 0.4
"""First order, 0.035 a day at pH 7.2 and fourfold at 7.6: half-lives of 20 to 5 days [V, S11; D]."""
MIN_PH, MAX_PH = 6.8, 7.8
"""Range in which that was measured [V, S12]."""
GLUTAMINE_Q10 = 2.6
"""Brings 0.035 a day at 37 °C to 0.9 % a day at 23 °C and 0.15 % at 4 °C [D]; measured 0.7 to 0.9 and 0.1 to 0.2 [V, S97]."""
DIPEPTIDE_RATE = 0.02
"""Decay of L-alanyl-L-glutamine over that of glutamine [P]; it gives no ammonia. In ten days none was seen [V, S98]."""
INSULIN_PER_S = log(2) / (20.0 * DAY_S)
INSULIN_Q10 = 3.0
"""Half-life of 20 days in medium at 37 °C [P, 7–60]; formulated insulin keeps its potency for 30 months at 5 °C [V, S99]."""
TROPHIC_PER_S = log(2) / (1.5 * DAY_S)
"""Half-life 1.5 d of labile factors at 37 °C [P, 0.06–3 d]: ascorbate 1 to 2 h [V, S100], native FGF2 less than a fifth after
three days [V, S101]."""
TROPHIC_Q10 = 2.5
"""Half-life of a month at 4 °C [D]: complete medium may be used for two to four weeks there [V, S102]. Ascorbate has 4.4
(S100)."""
FRESH_TROPHIC = 1.0
"""Labile factors of fresh complete medium: the unit [P]; tissue by itself keeps :data:`sim.plant.organoid.TROPHIC_UNITS`."""
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
def thermal(q10: float, temperature_c: float) -> float:
    """Return a rate over that at 37 °C."""
    rate: float = q10 ** ((temperature_c - REFERENCE_C) / 10.0)
    return rate


@compiled
def glutamine_rate(ph: float, temperature_c: float = REFERENCE_C) -> float:
    """Return the rate of glutamine's decay to ammonia (1/s); outside the measured range of pH as at its edge."""
    at_37 = GLUTAMINE_PER_S_AT_7_2 * exp(GLUTAMINE_PER_PH * (min(MAX_PH, max(MIN_PH, ph)) - 7.2))
    return at_37 * thermal(GLUTAMINE_Q10, temperature_c)


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
