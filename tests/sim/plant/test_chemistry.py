"""Acid, base and gas against closed forms and published fluids."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.plant import chemistry


@pytest.mark.parametrize(
    ("start_mm", "lactate_mm", "ph"),
    [(29, 0, 7.52), (29, 10, 7.34), (29, 25, 6.66), (26, 0, 7.48), (26, 15, 7.10), (44, 0, 7.70), (44, 20, 7.44)],
)
def test_titration_agrees_with_henderson_hasselbalch(start_mm: float, lactate_mm: float, ph: float) -> None:
    """biology.md §1.3: lactic acid titrates bicarbonate 1:1 at 5 % CO2 (35.6 mmHg), here without other buffer."""
    co2 = chemistry.CO2_MM_PER_MMHG * 35.6
    left = start_mm - lactate_mm
    # The table has no other buffer. The model has one, so it is compared at the pH of the same bicarbonate.
    alkalinity = left + chemistry.BUFFER_MM_PER_PH * (ph - chemistry.BUFFER_REFERENCE_PH)
    assert chemistry.ph_of(alkalinity, co2) == pytest.approx(ph, abs=0.012)


@settings(deadline=None)  # the first call compiles
@given(st.floats(0.1, 300), st.floats(0.01, 5))
def test_ph_solves_its_own_equation(alkalinity: float, co2: float) -> None:
    ph = chemistry.ph_of(alkalinity, co2)
    bicarbonate = co2 * 10 ** (ph - chemistry.PK)
    assert bicarbonate == pytest.approx(chemistry.bicarbonate_of(alkalinity, ph), abs=1e-5)


def test_human_fluids_v1() -> None:
    """biology V1: cerebrospinal fluid 48.5 mmHg, 24.9 mM -> 7.323; venous blood 41.3 mmHg, 25.3 mM -> 7.400."""
    for pco2, bicarbonate, ph in ((48.5, 24.9, 7.323), (41.3, 25.3, 7.400)):
        assert chemistry.PK + math.log10(bicarbonate / (0.0307 * pco2)) == pytest.approx(ph, abs=0.002)


@settings(deadline=None)  # the first call compiles
@given(st.floats(4.0, 9.5), st.floats(0.01, 300), st.floats(5.0, 9.0))
def test_closed_carbon_finds_the_ph_that_made_it_from_any_guess(ph: float, carbon: float, guess: float) -> None:
    bicarbonate = carbon - chemistry.co2_of(carbon, ph)
    alkalinity = bicarbonate + chemistry.BUFFER_MM_PER_PH * (ph - chemistry.BUFFER_REFERENCE_PH)
    found = chemistry.ph_closed(alkalinity, carbon, guess)
    assert found == pytest.approx(ph, abs=1e-8)
    assert chemistry.bicarbonate_of(alkalinity, found) == pytest.approx(bicarbonate, rel=1e-6, abs=1e-6)


@settings(deadline=None)  # the first call compiles
@given(st.floats(5, 60), st.floats(5, 60))
def test_how_much_added_carbon_stays_gas_is_the_slope_of_the_curve(alkalinity: float, carbon: float) -> None:
    step = 1e-4
    ph = chemistry.ph_closed(alkalinity, carbon, 7.4)
    above = chemistry.co2_of(carbon + step, chemistry.ph_closed(alkalinity, carbon + step, 7.4))
    below = chemistry.co2_of(carbon - step, chemistry.ph_closed(alkalinity, carbon - step, 7.4))
    assert chemistry.co2_per_carbon(carbon, ph) == pytest.approx((above - below) / (2 * step), rel=1e-4, abs=1e-6)


def test_oxygen_of_a_humid_incubator() -> None:
    """biology.md §1.3: 18.7 % of oxygen at 5 % CO2 gives 0.199 mM (of the whole atmosphere, 18.9 kPa)."""
    assert pytest.approx(0.199, abs=0.001) == chemistry.O2_MM_PER_KPA * 18.9
    assert chemistry.oxygen_mm(0.209 * 0.95) == pytest.approx(0.199, abs=0.002)
    assert chemistry.co2_mm(0.05) == pytest.approx(1.09, abs=0.01)


@pytest.mark.parametrize("buffer", [0.7, 3.0, 9.3])
def test_a_stronger_buffer_loses_less_pH_to_the_same_acid(buffer: float) -> None:
    """Sealed and under CO2, each against the capacity by its definition: acid over the change of pH."""
    co2 = chemistry.co2_mm(0.05)
    before = chemistry.ph_of(24.0, co2, buffer=buffer)
    after = chemistry.ph_of(23.9, co2, buffer=buffer)
    bicarbonate = chemistry.bicarbonate_of(24.0, before, buffer)
    assert 0.1 / (before - after) == pytest.approx(buffer + math.log(10.0) * bicarbonate, rel=0.01)
    carbon = co2 + bicarbonate
    assert chemistry.ph_closed(24.0, carbon, 7.0, buffer) == pytest.approx(before, abs=1e-6)
    closed = buffer + math.log(10.0) * co2 * bicarbonate / carbon
    assert 0.1 / (before - chemistry.ph_closed(23.9, carbon, 7.4, buffer)) == pytest.approx(closed, rel=0.03)
