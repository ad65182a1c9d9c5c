"""Acid, base and gas in medium.

Bicarbonate/CO2 with a non-bicarbonate buffer. pK 6.1 and CO2 solubility 0.0307 mmol/(L·mmHg) [R, checked against human
CSF: biology.md §5, V1]; oxygen solubility 0.0105 mmol/(L·kPa) at 37 °C [V, S21]; non-bicarbonate buffer 3 mM/pH [P, 2–5]
where a medium does not declare its own.
Two numbers are conserved and therefore the state: alkalinity and total inorganic carbon. Carbonate is left out (below
1 % of bicarbonate under pH 8 [R]), so above pH 8.5 this is only qualitative.
"""

from __future__ import annotations

from math import exp, log

from sim.plant.compiled import compiled

PK = 6.1
CO2_MM_PER_MMHG = 0.0307
O2_MM_PER_KPA = 0.0105
BUFFER_MM_PER_PH = 3.0
BUFFER_REFERENCE_PH = 7.4
MMHG_PER_KPA = 7.50062
DRY_KPA = 101.325 - 6.28
"""Atmosphere less saturated water vapour at 37 °C."""

_LN10 = log(10.0)


def ph_of(alkalinity_mm: float, co2_mm: float, guess: float = 7.4, buffer: float = BUFFER_MM_PER_PH) -> float:
    """Return the pH at `alkalinity_mm` (bicarbonate plus buffer base above pH 7.4) and dissolved CO2, both mmol/L.

    Solves CO2·10^(pH−pK) + β·(pH−7.4) = alkalinity by Newton's method; monotonic, so it always converges. β is `buffer`, the
    capacity of all other buffers (mmol/L per pH).
    """
    co2 = max(co2_mm, 1e-6)
    ph = guess
    for _ in range(40):
        bicarbonate = co2 * 10.0 ** (ph - PK)
        excess = bicarbonate + buffer * (ph - BUFFER_REFERENCE_PH) - alkalinity_mm
        step = max(-0.5, min(0.5, excess / (bicarbonate * _LN10 + buffer)))
        ph -= step
        if abs(step) < 1e-9:
            break
    return ph


@compiled
def ph_closed(alkalinity_mm: float, carbon_mm: float, guess: float, buffer: float = BUFFER_MM_PER_PH) -> float:
    """Return the pH of a closed medium with this alkalinity and this total inorganic carbon (mmol/L).

    Solves carbon/(1 + 10^(pK−pH)) + β·(pH−7.4) = alkalinity by Newton's method, steps held to 0.5; the left side
    rises with pH everywhere, so there is one root and it is found from any `guess`.
    """
    ph = guess
    for _ in range(60):
        share = 1.0 / (1.0 + exp(_LN10 * (PK - ph)))
        excess = carbon_mm * share + buffer * (ph - BUFFER_REFERENCE_PH) - alkalinity_mm
        slope = carbon_mm * _LN10 * share * (1.0 - share) + buffer
        step = max(-0.5, min(0.5, excess / slope))
        ph -= step
        if abs(step) < 1e-11:
            break
    return ph


@compiled
def co2_of(carbon_mm: float, ph: float) -> float:
    """Return the dissolved CO2 (mmol/L) of this total inorganic carbon at this pH."""
    return carbon_mm / (1.0 + exp(_LN10 * (ph - PK)))


@compiled
def co2_per_carbon(carbon_mm: float, ph: float, buffer: float = BUFFER_MM_PER_PH) -> float:
    """Return the share of a little added carbon that stays dissolved CO2 (0 to 1); the rest becomes bicarbonate."""
    share = 1.0 / (1.0 + exp(_LN10 * (PK - ph)))
    capacity = carbon_mm * _LN10 * share * (1.0 - share) + buffer
    return 1.0 - buffer * share / capacity


def bicarbonate_of(alkalinity_mm: float, ph: float, buffer: float = BUFFER_MM_PER_PH) -> float:
    """Return the bicarbonate (mmol/L) at this alkalinity and pH."""
    return alkalinity_mm - buffer * (ph - BUFFER_REFERENCE_PH)


def oxygen_mm(fraction: float) -> float:
    """Return the oxygen (mmol/L) in equilibrium with a humid gas at 37 °C with `fraction` of oxygen (0..1)."""
    return O2_MM_PER_KPA * fraction * DRY_KPA


def co2_mm(fraction: float) -> float:
    """Return the CO2 (mmol/L) in equilibrium with a humid gas at 37 °C with `fraction` of CO2 (0..1)."""
    return CO2_MM_PER_MMHG * fraction * DRY_KPA * MMHG_PER_KPA


AIR_SATURATION_MM = oxygen_mm(0.209)
"""What a dissolved-oxygen probe calls 100 %."""
O2_MM_PER_FRACTION = oxygen_mm(1.0)
CO2_MM_PER_FRACTION = co2_mm(1.0)
