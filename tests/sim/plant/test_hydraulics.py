"""Pumps and lines against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.plant import evaporation, hydraulics


@pytest.mark.parametrize(
    ("bore_mm", "flow_ul_min", "kpa"),
    [(0.51, 15, 0.108), (0.51, 1000, 7.2), (0.25, 15, 1.9), (0.25, 1000, 125)],
)
def test_resistance_of_a_metre(bore_mm: float, flow_ul_min: float, kpa: float) -> None:
    """biology.md §2, lines."""
    assert hydraulics.tube_kpa_per_ul_min(bore_mm, 1.0) * flow_ul_min == pytest.approx(kpa, rel=0.03)


@given(st.floats(-30_000, 30_000), st.floats(0, 1))
@settings(deadline=None)
def test_a_loaded_pump_obeys_its_law(free: float, resistance: float) -> None:
    flow = hydraulics.loaded(free, resistance)
    pressure = resistance * abs(flow)
    assert flow == pytest.approx(free * (1 - pressure / hydraulics.P_STALL_KPA), rel=1e-9, abs=1e-9)
    assert pressure < hydraulics.P_STALL_KPA


def test_wear_begins_at_nothing_and_ends_at_a_tenth() -> None:
    assert hydraulics.wear(0.0) == 1.0
    assert hydraulics.wear(1e9) == pytest.approx(0.9)
    assert hydraulics.wear(hydraulics.WEAR_REVOLUTIONS) == pytest.approx(1 - 0.1 * (1 - math.exp(-1)))


def push(cells: np.ndarray, inflow: np.ndarray, courant: float, backwards: bool = False) -> np.ndarray:
    out: np.ndarray = np.empty_like(inflow)
    hydraulics.pass_along(cells, inflow, out, courant, backwards)
    return out


@pytest.mark.parametrize("steps", [1, 3, 50, 1000])
@pytest.mark.parametrize("volumes", [0.5, 1.0, 2.0, 5.0])
def test_a_step_comes_out_by_erlangs_law_whatever_the_step(steps: int, volumes: float) -> None:
    """Four mixed cells: after `volumes` of the line, 1 − e^(−x)·Σ x^k/k!, x = 4·volumes, of the new is in the last."""
    cells = np.zeros((hydraulics.CELLS, 1))
    x = hydraulics.CELLS * volumes
    for _ in range(steps):
        push(cells, np.array([x / steps]), x / steps)
    left = math.exp(-x) * sum(x**k / math.factorial(k) for k in range(hydraulics.CELLS))
    assert cells[-1, 0] == pytest.approx(1 - left, rel=1e-9)


def test_the_mean_delay_is_the_dead_volume() -> None:
    """A short pulse leaves after one volume of the line on average."""
    cells = np.zeros((hydraulics.CELLS, 1))
    step = 0.002
    leaving = [push(cells, np.array([1.0 if number == 0 else 0.0]), step)[0] for number in range(20_000)]
    when = np.arange(len(leaving)) * step / hydraulics.CELLS
    assert np.sum(leaving) == pytest.approx(1.0, rel=1e-9)
    assert np.dot(when, leaving) / np.sum(leaving) == pytest.approx(1.0, rel=2e-3)


@given(st.floats(0, 60), st.lists(st.floats(0, 1e6), min_size=5, max_size=5), st.booleans())
@settings(deadline=None)
def test_pushing_conserves_and_leaves_no_negative_amount(courant: float, amounts: list[float], backwards: bool) -> None:
    if courant == 0.0:
        return
    cells = np.array(amounts[:4])[:, None]
    before = cells.sum() + amounts[4]
    out = push(cells, np.array(amounts[4:]), courant, backwards)
    assert (cells >= 0).all()
    assert cells.sum() + out[0] == pytest.approx(before, rel=1e-12, abs=1e-9)
    assert out[0] >= -1e-9 * before


def test_backwards_is_the_mirror() -> None:
    there, back = np.arange(4.0)[:, None], np.arange(4.0)[::-1, None].copy()
    assert push(there, np.array([7.0]), 1.3) == pytest.approx(push(back, np.array([7.0]), 1.3, backwards=True))
    assert there[::-1] == pytest.approx(back)


def test_ripple_is_rollers_times_turns() -> None:
    assert hydraulics.ripple_hz(840.0, 84.0) == pytest.approx(8 * 10 / 60)


@pytest.mark.parametrize(
    ("bore", "outer", "low", "high"), [(0.51, 2.1, 28, 58), (1.02, 3.0, 36, 76), (1.6, 4.8, 36, 75)]
)
def test_water_lost_by_a_metre_of_silicone(bore: float, outer: float, low: float, high: float) -> None:
    """biology.md §1.3, µL a metre and day at 90 % humidity: low with D of PDMS, high with 40,000 Barrer."""
    lost = evaporation.tube_loss_ul_s(bore, outer, 1.0) * 86_400
    assert low < lost < high
    most = evaporation.tube_loss_ul_s(bore, outer, 1.0, permeability_barrer=40_000.0) * 86_400
    assert most == pytest.approx(high, rel=0.03)
    assert evaporation.tube_loss_ul_s(bore, outer, 1.0, humidity=0.5) * 86_400 == pytest.approx(5 * lost)
