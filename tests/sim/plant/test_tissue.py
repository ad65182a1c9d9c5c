"""Spheres, growth, metabolism, turnover and heat against exact solutions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from choroid.common.examples import bench_rig
from controller.rig.loading import load_rig
from sim.plant import gas, heat, organoid, sphere, turnover
from sim.plant.columns import TISSUE, Shell
from sim.plant.fleet import Fleet
from sim.plant.parameters import PlantParameters
from sim.plant.settling import Care, settled
from sim.plant.tissue_models import REFERENCE

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
    tissue = np.zeros(1, TISSUE)[0]
    REFERENCE.write(tissue)
    tissue["viability"] = 1.0
    names = ("temperature_c", "ph", "glucose_mm", "lactate_mm", "ammonia_mm", "osmolality", "microbes_per_ml",
             "insulin")  # fmt: skip
    well = dict(zip(names, (37.0, 7.35, 5.0, 5.0, 0.3, 290.0, 0.0, 0.5), strict=True))
    assert organoid.harm_per_hour(tissue, **well) == 0.0
    for name, some, more in (
        ("temperature_c", 39.0, 40.0), ("temperature_c", 33.0, 30.0), ("ph", 7.0, 6.8),
        ("ph", 7.7, 7.9), ("glucose_mm", 0.5, 0.0), ("lactate_mm", 20.0, 30.0), ("ammonia_mm", 2.0, 5.0),
        ("osmolality", 350.0, 400.0), ("osmolality", 240.0, 200.0), ("microbes_per_ml", 1e5, 1e8),
        ("insulin", 0.05, 0.01),
    ):  # fmt: skip
        little, much = (organoid.harm_per_hour(tissue, **{**well, name: value}) for value in (some, more))
        assert 0 < little < much, name


def lived(living: float, oxygen_mm: float, hours: float, *, glucose_mm: float = 5.0, harm: float = 0.0) -> float:
    """Return the living share of a shell of a living organoid after some hours."""
    for _ in range(round(hours * 60)):
        living = organoid.survived(
            living, oxygen_mm, glucose_mm, harm, 1.0, 60.0, organoid.DEATH_OXYGEN_MM, organoid.ANOXIA_HARM_PER_H,
            organoid.REGROWTH_PER_H,
        )  # fmt: skip
    return living


def test_cells_die_without_oxygen_and_faster_without_glucose_as_well() -> None:
    assert lived(1.0, 0.0, 12.0) == pytest.approx(math.exp(-12 * organoid.ANOXIA_HARM_PER_H))
    assert lived(1.0, 0.0, 12.0) > 4 * lived(1.0, 0.0, 12.0, glucose_mm=0.0)
    assert lived(1.0, organoid.DEATH_OXYGEN_MM, 48.0) == 1.0


def test_tissue_regrows_where_there_is_oxygen_and_no_harm() -> None:
    assert 0.5 < lived(0.5, 0.1, 24.0) < 0.6
    assert lived(0.02, 0.19, 72.0) == pytest.approx(0.04, rel=0.1), "a doubling in three days"
    assert lived(0.5, 0.1, 24.0, harm=0.01) == pytest.approx(0.5 * math.exp(-0.24))
    assert lived(0.5, 0.1, 24.0) > lived(0.5, 0.01, 24.0), "slower with less oxygen"


def test_dead_tissue_stays_dead() -> None:
    found = organoid.survived(0.0, 0.19, 5.0, 0.0, 1.0, 864_000.0, 0.005, 0.06, 0.01)
    assert found == 0.0


def test_glutamine_decays_fourfold_faster_at_7_6() -> None:
    """+300 % from pH 7.2 to 7.6; half-lives of 6 to 20 days [V, S11]."""
    assert turnover.glutamine_rate(7.6) / turnover.glutamine_rate(7.2) == pytest.approx(4.0)
    assert 19 < math.log(2) / turnover.glutamine_rate(7.2) / 86_400 < 21
    assert turnover.glutamine_rate(12.0) == turnover.glutamine_rate(7.8)


def test_insulin_below_a_share_slows_growth_and_kills() -> None:
    tissue = np.zeros(1, TISSUE)[0]
    REFERENCE.write(tissue)
    assert organoid.sustained(REFERENCE.min_insulin, REFERENCE.min_insulin) == 1.0
    assert organoid.sustained(0.5 * REFERENCE.min_insulin, REFERENCE.min_insulin) == pytest.approx(0.5)
    assert organoid.sustained(0.0, 0.0) == 1.0, "tissue that needs none"
    none = organoid.harm_per_hour(tissue, 37.0, 7.35, 5.0, 5.0, 0.3, 290.0, 0.0, 0.0)
    assert none == pytest.approx(REFERENCE.insulin_harm)


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


@pytest.mark.parametrize("cultures", [100, pytest.param(1000, marks=pytest.mark.long)])
def test_uptake_dead_share_and_viability_never_contradict_each_other(cultures: int) -> None:
    """Random cultures, cares and harms: what lives is one state, whatever is done to it."""
    random = np.random.default_rng(4)
    for _ in range(cultures):
        radius, demand = float(np.exp(random.uniform(*np.log((0.1e-3, 2e-3))))), float(random.uniform(0.25, 1.9))
        care = Care(0.19, 0.0, float(10 ** random.uniform(-5, -2)), 1.0, demand, 0.005, 0.06, 0.01)
        rows = settled(care, radius)
        oxygen, living = rows[Shell.OXYGEN], rows[Shell.LIVING]
        healthy = sphere.living_share(sphere.SHELLS, living)
        uptakes, shares = [], []
        bulk_mm = float(random.uniform(0.0, 0.19))
        film = sphere.film_coefficient(2.0 * radius, float(10 ** random.uniform(-5, -2)))
        harm = float(random.choice((0.0, 10 ** random.uniform(-3, 0))))
        for _ in range(24):
            taken = sphere.solve(sphere.SHELLS, oxygen, living, radius, bulk_mm, film, organoid.V_MAX * demand, KM, D)
            uptakes.append(taken)
            shares.append(sphere.living_share(sphere.SHELLS, living))
            for shell in range(len(living)):
                living[shell] = organoid.survived(
                    living[shell], oxygen[shell], 5.0, harm, 1.0, 3600.0, 0.005, 0.06, 0.01
                )
        volume_m3 = 4.0 / 3.0 * math.pi * radius**3
        for taken, share in zip(uptakes, shares, strict=True):
            assert -1e-20 <= taken <= organoid.V_MAX * demand * volume_m3 * share * (1 + 1e-6), (
                "no more than what lives takes"
            )
        viability = shares[-1] / sphere.capacity(rows[Shell.CAPACITY], radius)
        assert viability <= 1.05
        if harm > 0.0:
            assert shares[-1] < shares[0], "harm lowers what lives"
            assert uptakes[-1] <= uptakes[0] * (1 + 1e-6), "and what it takes"
        if shares[-1] < 0.05 * healthy:
            assert uptakes[-1] < 0.3 * organoid.V_MAX * demand * volume_m3 * healthy, "dead tissue takes nothing"


@pytest.mark.parametrize("extreme", ["regrowth", "min_oxygen_mm", "lactate_sensitive", "anoxia_harm", "demand"])
def test_a_parameter_of_zero_gives_numbers(extreme: str) -> None:
    parameters = PlantParameters.from_json({"tissue": {extreme: 0.0}})
    fleet = Fleet(load_rig(bench_rig()), [1], parameters=parameters)
    fleet.advance(20.0, 30)
    assert all(0.0 <= float(fleet.tissues[0, 0][name]) <= 1.0 for name in ("viability", "dead_fraction"))
    assert np.isfinite(fleet.vessels).all()
