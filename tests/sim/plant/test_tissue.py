"""Spheres, growth, metabolism, turnover and heat against exact solutions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from sim.plant import gas, heat, organoid, sphere, turnover

KM, D = organoid.KM_OXYGEN_MM, organoid.DIFFUSIVITY


def uptake(
    radius: float, bulk: float, v_max: float, km: float = KM, film: float = 1e3, nodes: int = 640
) -> tuple[float, np.ndarray]:
    profile = np.full(nodes, bulk)
    return sphere.one(sphere.geometry(nodes), profile, radius, bulk, film, v_max, km, D), profile


@pytest.mark.parametrize("thiele", [0.1, 1.0, 5.0, 20.0])
def test_first_order_uptake(thiele: float) -> None:
    """Far below Km: 4πRD·c·(φ·coth φ − 1)."""
    radius, bulk, km = 5e-4, 1e-4, 100.0
    v_max = km * D * (thiele / radius) ** 2
    exact = 4 * math.pi * radius * D * bulk * (thiele / math.tanh(thiele) - 1)
    assert uptake(radius, bulk, v_max, km)[0] == pytest.approx(exact, rel=1e-3)


def test_zero_order_profile() -> None:
    """Far above Km: c = c0 − V/(6D)·(R² − r²), uptake V·volume."""
    radius, bulk, v_max = 3e-4, 0.19, 0.012
    found, profile = uptake(radius, bulk, v_max, km=1e-9)
    assert found == pytest.approx(v_max * 4 / 3 * math.pi * radius**3, rel=1e-6)
    r = sphere.geometry(640)[2, :640] * radius
    assert profile == pytest.approx(bulk - v_max / (6 * D) * (radius**2 - r**2), abs=2e-4)


def test_the_film_is_in_series() -> None:
    """All that is taken up passes the film: c_surface = c_bulk − U/(h·A)."""
    radius, film = 1e-3, 1e-5
    found, profile = uptake(radius, 0.19, 0.024, film=film)
    surface = 0.19 - found / (film * 4 * math.pi * radius**2)
    again, _ = uptake(radius, surface, 0.024)
    assert again == pytest.approx(found, rel=1e-3)
    assert profile[-1] < surface


@pytest.mark.parametrize("radius", [1e-4, 3e-4, 6e-4, 1.25e-3, 1.9e-3])
def test_the_plants_forty_shells_are_enough(radius: float) -> None:
    for film in (2e-6, 2e-5):
        fine, _ = uptake(radius, 0.17, organoid.V_MAX, film=film)
        coarse, _ = uptake(radius, 0.17, organoid.V_MAX, film=film, nodes=sphere.NODES)
        assert coarse == pytest.approx(fine, rel=2e-3)


@pytest.mark.parametrize(("v_max", "pmol_s"), [(0.006, 48), (0.012, 72), (0.024, 106)])
def test_uptake_of_three_millimetres(v_max: float, pmol_s: float) -> None:
    """biology.md §1.2."""
    assert uptake(1.5e-3, 0.19, v_max)[0] * 1e12 == pytest.approx(pmol_s, rel=0.05)


def test_any_start_finds_the_same_profile() -> None:
    shells = sphere.SHELLS
    ends = []
    for start in (0.0, 1e-6, 0.19, 5.0):
        profile = np.full(sphere.NODES, start)
        sphere.one(shells, profile, 1.2e-3, 0.17, 2e-5, organoid.V_MAX, KM, D)
        ends.append(profile)
    for end in ends[1:]:
        assert end == pytest.approx(ends[0], abs=1e-8)


def test_a_core_is_where_oxygen_is_not() -> None:
    profile = np.full(sphere.NODES, 0.19)
    assert sphere.core_radius(sphere.SHELLS, profile, 1e-3, 0.002) == 0.0
    sphere.one(sphere.SHELLS, profile, 1.25e-3, 0.17, 2e-5, organoid.V_MAX, KM, D)
    assert 0.9e-3 < sphere.core_radius(sphere.SHELLS, profile, 1.25e-3, 0.002) < 1.25e-3
    assert sphere.core_radius(sphere.SHELLS, np.zeros(sphere.NODES), 1e-3, 0.002) == 1e-3


def test_a_still_film_is_diffusion_into_the_open() -> None:
    """Sh → 2 in still medium."""
    assert sphere.film_coefficient(1e-3, 0.0) == pytest.approx(2 * 3e-9 / 1e-3)


def test_growth_is_gompertz() -> None:
    def rates(_t: float, v: np.ndarray) -> np.ndarray:
        return np.asarray(-0.04 * np.log(v / organoid.CEILING_MM3) * v)

    found = solve_ivp(rates, (0, 30.0), [0.065], rtol=1e-10, atol=1e-12)
    assert organoid.grown(0.065, 1.0, 30 * 86_400.0) == pytest.approx(found.y[0, -1], rel=1e-7)
    diameter = (6 * organoid.grown(0.065, 1.0, 30 * 86_400.0) / math.pi) ** (1 / 3)
    assert diameter == pytest.approx(2.1, abs=0.1), "biology.md §1.2: 2.1 mm at day 30"


def test_pasteur_and_fuel() -> None:
    assert organoid.glucose_uptake(1.0, 1e9, 0.0) == pytest.approx(organoid.V_GLUCOSE)
    assert organoid.glucose_uptake(1.0, 1e9, 1.0) == pytest.approx(3 * organoid.V_GLUCOSE)
    assert organoid.glucose_uptake(1.0, organoid.KM_GLUCOSE_MM, 0.0) == pytest.approx(organoid.V_GLUCOSE / 2)
    assert organoid.burnable(5.0, 1.0, 0.0) == 5.0, "glucose is enough"
    assert organoid.burnable(8.0, 1.0, 0.0) == 6.0, "it is not, and there is no lactate"
    assert organoid.burnable(8.0, 1.0, organoid.KM_LACTATE_MM) == 7.0


def test_pace_with_temperature() -> None:
    """−6 to −7 % a degree of cooling [V, S9] is what a Q10 of 2.19 gives; above 42 °C it falls."""
    assert organoid.pace(37.0) == 1.0
    assert organoid.pace(36.0) == pytest.approx(0.925, abs=0.01)
    assert organoid.pace(43.0) < organoid.pace(42.0)
    assert organoid.pace(47.0) == 0.0


def test_harm_has_a_dead_zone_and_grows_outside_it() -> None:
    names = ("oxygen_mm", "temperature_c", "ph", "glucose_mm", "lactate_mm", "ammonia_mm", "osmolality")
    well = dict(zip(names, (0.15, 37.0, 7.35, 5.0, 5.0, 0.3, 290.0), strict=True))
    assert organoid.harm_per_hour(**well) == 0.0
    for name, some, more in (
        ("oxygen_mm", 0.03, 0.0), ("temperature_c", 39.0, 40.0), ("temperature_c", 33.0, 30.0), ("ph", 7.0, 6.8),
        ("ph", 7.7, 7.9), ("glucose_mm", 0.5, 0.0), ("lactate_mm", 20.0, 30.0), ("ammonia_mm", 2.0, 5.0),
        ("osmolality", 350.0, 400.0), ("osmolality", 240.0, 200.0), ("microbes_per_ml", 1e5, 1e8),
    ):  # fmt: skip
        little, much = (organoid.harm_per_hour(**{**well, name: value}) for value in (some, more))
        assert 0 < little < much, name


def test_tissue_comes_back_slowly_and_a_core_faster_dies_than_heals() -> None:
    assert organoid.viability_rate_per_hour(0.5, 0.0, 1e9) == pytest.approx(0.01 * 0.5)
    assert organoid.viability_rate_per_hour(0.5, 0.2, 1e9) == pytest.approx(-0.1)
    assert organoid.core_after(0.0, 0.4, 86_400.0) == pytest.approx(0.4 * (1 - math.exp(-1)))
    assert organoid.core_after(0.4, 0.0, 86_400.0) == pytest.approx(0.4 * math.exp(-0.1))


def test_glutamine_decays_fourfold_faster_at_7_6() -> None:
    """+300 % from pH 7.2 to 7.6; half-lives of 6 to 20 days [V, S11]."""
    assert turnover.glutamine_rate(7.6) / turnover.glutamine_rate(7.2) == pytest.approx(4.0)
    assert 19 < math.log(2) / turnover.glutamine_rate(7.2) / 86_400 < 21
    assert turnover.glutamine_rate(12.0) == turnover.glutamine_rate(8.2)


def test_albumin_guards_insulin() -> None:
    """Massai 2017 [V, S29]: low-protein media lose it, albumin rescues."""
    assert turnover.insulin_lost(0.0) == turnover.INSULIN_PER_PASS
    assert turnover.insulin_lost(turnover.SUPPLEMENT_ALBUMIN_MM) < 0.15 * turnover.INSULIN_PER_PASS


def test_microbes_double_each_hour_up_to_a_maximum() -> None:
    assert turnover.multiplied(10.0, 3600.0) == pytest.approx(20.0, rel=1e-6)
    assert turnover.multiplied(10.0, 1e6) == pytest.approx(turnover.MAX_MICROBES_PER_ML)
    assert turnover.multiplied(turnover.multiplied(5e8, 900.0), 900.0) == pytest.approx(
        turnover.multiplied(5e8, 1800.0)
    )
    assert turnover.multiplied(0.0, 1e6) == 0.0


def test_heat_is_exponential() -> None:
    constant = heat.CAPACITY_J_PER_K / heat.LOSS_W_PER_K
    assert heat.warmed(24.0, 5.5, 24.0, 0.0, 0.0, constant) == pytest.approx(24 + 10 * (1 - math.exp(-1)))
    assert heat.warmed(37.0, 0.0, 24.0, 0.0, 0.0, 1e9) == pytest.approx(24.0)


@pytest.mark.parametrize(
    ("bore", "outer", "nmol_s", "per_h"), [(0.51, 2.1, 4.5, 400), (1.02, 3.0, 4.8, 107), (1.6, 4.8, 4.8, 43)]
)
def test_silicone_tubing_as_a_lung(bore: float, outer: float, nmol_s: float, per_h: float) -> None:
    """biology.md §1.3: uptake into anoxic medium per metre (0.199 mM outside), and kLa."""
    assert gas.tube_conductance_m2_s(bore, outer) * 0.199 * 1e9 == pytest.approx(nmol_s, rel=0.02)
    assert gas.tube_kla_per_s(bore, outer) * 3600 == pytest.approx(per_h, rel=0.02)


def test_gas_mixes_by_flow() -> None:
    assert gas.mixed(0.0, 0.0, 0.0) is None
    assert gas.mixed(50.0, 0.0, 50.0) == pytest.approx(((0.209 + 1) / 2, 0.0002))


def test_oxygen_relaxes_exponentially_and_carbon_solves_its_equation() -> None:
    from sim.plant import chemistry

    assert 0.1 + gas.oxygen_gain(0.1, 0.2, 0.02, 50.0) == pytest.approx(
        chemistry.oxygen_mm(0.2) + (0.1 - chemistry.oxygen_mm(0.2)) * math.exp(-1)
    )
    alkalinity, carbon = 27.0, 29.0

    def rates(_t: float, c: np.ndarray) -> list[float]:
        co2 = chemistry.co2_of(c[0], chemistry.ph_closed(alkalinity, c[0], 7.4))
        return [0.02 * (chemistry.co2_mm(0.09) - co2)]

    exact = solve_ivp(rates, (0, 200.0), [carbon], rtol=1e-10, atol=1e-12).y[0, -1]
    worst = []
    for steps in (25, 50, 100):
        c = carbon
        for _ in range(steps):
            c += gas.carbon_gain(c, chemistry.ph_closed(alkalinity, c, 7.4), 0.09, 0.02, 200.0 / steps)
        worst.append(abs(c - exact))
    assert worst[0] / worst[1] > 3.5, "second order"
    assert worst[1] / worst[2] > 3.5
