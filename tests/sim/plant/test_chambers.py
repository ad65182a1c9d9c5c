"""Tissue by chamber, wells without a pump, zones, and rigs without heart, loop or kidney."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.rig.description import Rig
from controller.rig.loading import load_rig
from sim.faults.targets import drawn_targets, targets
from sim.plant import surfaces
from sim.plant.plant import Plant
from sim.plant.shapes import build, manifold, organoids, selected, shared_loop, wells
from verification.bench.plant import cpu_us_per_s

RIGS = Path(__file__).resolve().parents[3] / "examples" / "rigs"
DISH = {"kind": "chamber", "volume": "2 mL", "capacity": "3 mL"}


class Bench:
    """A plant with a clock in hand."""

    def __init__(self, rig: Rig) -> None:
        self.now = 0.0
        self.plant = Plant(rig, seed=1, now=lambda: self.now)


def test_each_chamber_has_its_own_tissue() -> None:
    tissue = {"c0": organoids(1, 1.0), "c1": organoids(6, 2.5)}
    bench = Bench(manifold(2, tissue=tissue))
    bench.plant.set_pump("pump.feed", 1000.0)
    bench.now = 3600.0
    truth = bench.plant.truth()
    small, large = truth.tissue["c0"], truth.tissue["c1"]
    assert large.oxygen_uptake_nmol_s > 10 * small.oxygen_uptake_nmol_s
    assert truth.oxygen_uptake_nmol_s == small.oxygen_uptake_nmol_s + large.oxygen_uptake_nmol_s
    assert small.diameter_mm < 1.1 < 2.4 < large.diameter_mm
    assert truth.concentrations["c1"]["oxygen"] < truth.concentrations["c0"]["oxygen"]


def test_the_chamber_whose_branch_is_plugged_suffers_alone() -> None:
    bench = Bench(manifold(2, tissue={"c0": organoids(4), "c1": organoids(4)}))
    bench.plant.set_pump("pump.feed", 2000.0)
    bench.plant.faults.flow_scale["to_c0"] = 0.0
    bench.now = 6 * 3600.0
    truth = bench.plant.truth()
    assert truth.tissue["c0"].viability < 0.8
    assert truth.tissue["c1"].viability > 0.95
    assert truth.viability == bench.plant.health == truth.tissue["c0"].viability


def test_a_well_breathes_at_its_surface_and_evaporates() -> None:
    bench = Bench(wells(1))
    bench.now = 86_400.0
    truth = bench.plant.truth()
    assert truth.tissue["w0"].viability > 0.9
    assert 0.02 < truth.concentrations["w0"]["oxygen"] < 0.17
    assert truth.losses_ul["evaporation"] == pytest.approx(200.0 - truth.volumes_ul["w0"], rel=1e-9)
    assert truth.concentrations["w0"]["osmoles"] > 290.0, "water leaves, salt stays"


def test_a_lid_of_medium_starves() -> None:
    """Twice the depth halves the oxygen that can come down: tissue that lives under 100 µL has less under 300."""
    oxygen = {}
    for volume_ul in (100.0, 300.0):
        bench = Bench(wells(1, volume_ul=volume_ul, diameter_mm=1.5))
        bench.now = 12 * 3600.0
        oxygen[volume_ul] = bench.plant.truth().tissue["w0"].oxygen_surface_mm
    assert oxygen[300.0] < oxygen[100.0]


def test_areas_of_wells_are_those_of_the_makers() -> None:
    assert surfaces.well_mm2(360.0) == 32.0
    assert surfaces.well_mm2(16_800.0) == 950.0
    assert surfaces.well_mm2(33_600.0) == 1900.0
    assert surfaces.saturation_pa(37.0) == pytest.approx(6280.0, rel=0.005)
    assert surfaces.evaporation_ul_s(32.0, 37.0, 1.0) == 0.0


def test_a_perfused_chamber_is_closed_unless_the_file_gives_its_surface() -> None:
    lines: dict[str, dict[str, Any]] = {
        "feed": {"from": "loop", "to": "dish", "pump": "p.one"},
        "back": {"from": "dish", "to": "loop", "passive": True},
    }
    loop = {"kind": "loop", "volume": "40 mL", "capacity": "60 mL"}
    hearts = {"heart": {"line": "feed", "flow": "1 mL/min", "basal": "1 mL/min", "min": "0.1 mL/min", "max": "2 mL/min",
                        "lease": "30 s"}}  # fmt: skip
    areas = []
    for surface in ({}, {"surface": "9.5 cm^2"}):
        made = build(
            {"loop": loop, "dish": {**DISH, **surface}}, lines, {"dish": organoids()}, organs={"hearts": hearts}
        )
        traits = Plant(made, seed=1, now=lambda: 0.0).fleet.traits
        areas.append(float(traits["surface_mm2"][1]))
    assert areas == [0.0, 950.0]


def test_chambers_in_two_zones_have_two_temperatures_and_two_gases() -> None:
    made = build(
        {"warm": DISH, "cold": {**DISH, "zone": "fridge"}}, {}, {"warm": organoids(), "cold": organoids()},
        zones={"incubator": {"temperature": "37 degC", "co2": "5 %"}, "fridge": {"temperature": "4 degC"}},
    )  # fmt: skip
    bench = Bench(made)
    bench.now = 7200.0
    truth = bench.plant.truth()
    assert (truth.tissue["warm"].temperature_c, truth.tissue["cold"].temperature_c) == (37.0, 4.0)
    assert truth.tissue["warm"].oxygen_uptake_nmol_s > 5 * truth.tissue["cold"].oxygen_uptake_nmol_s
    assert truth.ph["cold"] > truth.ph["warm"] + 0.2, "the CO2 leaves in the refrigerator"
    assert truth.tissue["cold"].viability < truth.tissue["warm"].viability


def test_faults_name_hearts_chambers_and_any_line() -> None:
    many = shared_loop(3)
    assert targets("heart_occlusion", many) == ("heart-c0", "heart-c1", "heart-c2")
    assert targets("occlusion", many) == ("from_c0", "from_c1", "from_c2")
    assert drawn_targets("occlusion", many) == ()
    assert "to_c1" in drawn_targets("occlusion", manifold(2))
    assert targets("contaminated", wells(2)) == ("w0", "w1")
    assert targets("heart_occlusion", wells(2)) == ()
    shipped = load_rig(RIGS / "bench.yaml")
    assert "overflow" in targets("leak", shipped)
    assert "overflow" not in drawn_targets("leak", shipped)
    assert drawn_targets("contaminated", shipped) == ("loop",)


@pytest.mark.parametrize("shape", [wells, manifold, shared_loop, selected])
def test_ninety_six_chambers_cost_less_than_ten_times_one(shape) -> None:  # type: ignore[no-untyped-def]
    """CPU time, best of five; the bound leaves room for a busy machine (`choroid verify bench plant` has the figures)."""
    assert cpu_us_per_s(shape(96)) < 15 * cpu_us_per_s(shape(1))
