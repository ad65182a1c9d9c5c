"""Filters and dialysers against their differential equations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import solve_bvp, solve_ivp

from sim.plant import dialysis, membranes
from sim.plant.hydraulics import VISCOSITY_PA_S

LAWS = (membranes.COMPLETE, membranes.STANDARD, membranes.INTERMEDIATE, membranes.CAKE)


@pytest.mark.parametrize("law", LAWS)
def test_hermias_fluxes_solve_hermias_law(law: float) -> None:
    """d²t/dV² = k·(dt/dV)^n at constant pressure, as a system (t → V, x = dt/dV)."""
    k, j0 = 0.03, 0.8

    def rates(_t: float, y: np.ndarray) -> list[float]:
        x = y[1]
        return [1 / x, k * x**law / x]

    found = solve_ivp(rates, (0, 30.0), [0.0, 1 / j0], rtol=1e-11, atol=1e-13)
    assert membranes.flux(j0, k, 30.0, law) == pytest.approx(1 / found.y[1, -1], rel=1e-8)


@pytest.mark.parametrize("law", LAWS)
def test_fouling_at_constant_flow_is_the_same_law_over_volume(law: float) -> None:
    found = solve_ivp(lambda _v, r: 0.02 * r**law, (0, 20.0), [1.3], rtol=1e-11, atol=1e-13)
    assert membranes.fouled(1.3, 0.02 * 20, law) == pytest.approx(found.y[0, -1], rel=1e-8)


def test_a_filter_that_blocks_completely_is_infinite_resistance() -> None:
    """Complete blocking ends at a volume of 1/κ [V, S35]."""
    assert membranes.fouled(1.0, 0.999, membranes.COMPLETE) == pytest.approx(1000, rel=1e-6)
    assert membranes.fouled(1.0, 1.001, membranes.COMPLETE) == math.inf
    with pytest.raises(ValueError, match="no Hermia law"):
        membranes.flux(1, 1, 1, 3.0)


def test_the_plants_filter_obeys_darcy() -> None:
    """Flux = pressure / (viscosity · resistance): 4 mL/min through 4 cm² need 10 kPa."""
    kpa = membranes.filter_kpa_per_ul_min(4.0) * 4000
    flux_m_s = kpa * 1000.0 / (VISCOSITY_PA_S * membranes.MEMBRANE_PER_M)
    assert flux_m_s * 4e-4 * 1e9 * 60 == pytest.approx(4000)
    assert kpa == pytest.approx(10.0, rel=0.01)


def test_the_tests_of_a_filter() -> None:
    whole = membranes.integrity(4.0, 0.22)
    assert whole["bubble_point_kpa"] == pytest.approx(345, rel=0.01)
    assert whole["diffusion_ml_min"] < whole["diffusion_limit_ml_min"]
    assert membranes.bubble_point_kpa(0.44) == pytest.approx(whole["bubble_point_kpa"] / 2)
    assert membranes.bubble_point_kpa(0.22, 60.0) == pytest.approx(whole["bubble_point_kpa"] / 2)
    pinhole = membranes.integrity(4.0, 0.22, 10.0)
    assert pinhole["diffusion_ml_min"] > pinhole["diffusion_limit_ml_min"]
    assert membranes.hole_ml_min(1.0, 100.0) == 0.0, "water still holds"


@pytest.mark.parametrize(("koa", "qb", "qd"), [(800, 200, 500), (800, 400, 800), (500, 300, 300), (1000, 400, 350)])
def test_clearance_is_the_counter_current_exchanger(koa: float, qb: float, qd: float) -> None:
    def along(_x: np.ndarray, c: np.ndarray) -> np.ndarray:
        passing = koa * (c[0] - c[1])
        return np.array([-passing / qb, -passing / qd])  # dialysate runs the other way

    x = np.linspace(0, 1, 60)
    found = solve_bvp(along, lambda a, b: np.array([a[0] - 1.0, b[1]]), x, np.array([1 - x, 0.5 - 0.5 * x]), tol=1e-9)
    assert found.success
    assert dialysis.clearance(koa, qb, qd) == pytest.approx(qb * (1 - found.y[0, -1]), rel=1e-6)
