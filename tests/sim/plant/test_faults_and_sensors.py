"""Each fault does what it says; probes err as they should."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from controller.rig.description import DeviceSpec, Rig
from controller.rig.families import FAMILIES
from controller.rig.loading import load_rig
from drivers.registry import MODELS as DRIVERS
from sim.plant import hydraulics
from sim.plant.faults import Faults
from sim.plant.fleet import Fleet
from sim.plant.plant import Plant
from sim.plant.sensors import Model, Probe, models_of
from sim.plant.truth import PlantTruth

RIGS = Path(__file__).resolve().parents[3] / "examples" / "rigs"
BENCH = load_rig(RIGS / "bench.yaml")


class Bench:
    def __init__(self, seed: int = 1, rig: Rig = BENCH) -> None:
        self.now = 0.0
        self.plant = Plant(rig, seed=seed, now=lambda: self.now)
        self.plant.set_gas("gas_air.flow", 46.5)
        self.plant.set_gas("gas_co2.flow", 3.5)
        self.plant.set_switch("relay.return_valve", True)

    def after(self, seconds: float) -> PlantTruth:
        self.now += seconds
        return self.plant.truth()


def flow_of(bench: Bench, line: str, pump: str) -> float:
    bench.plant.set_pump(pump, 4000.0)
    return bench.plant.truth().flows_ul_min[line]


def test_an_occlusion_takes_flow_and_raises_pressure() -> None:
    free, kinked, shut = Bench(), Bench(), Bench()
    kinked.plant.faults.flow_scale["draw"] = 0.5
    shut.plant.faults.flow_scale["draw"] = 0.0
    whole = flow_of(free, "draw", "reglo.draw")
    assert flow_of(kinked, "draw", "reglo.draw") == pytest.approx(0.5 * whole)
    assert flow_of(shut, "draw", "reglo.draw") == 0.0
    pressures = [bench.plant.truth().pressures_kpa["draw"] for bench in (free, kinked, shut)]
    assert pressures[0] < 5 < pressures[1] < pressures[2] == hydraulics.P_STALL_KPA


def test_reversed_tubing_pumps_back() -> None:
    bench = Bench()
    bench.plant.faults.flow_scale["draw"] = -1.0
    bench.plant.set_pump("reglo.draw", 4000.0)
    before = bench.plant.truth()
    after = bench.after(30)
    assert after.volumes_ul["loop"] > before.volumes_ul["loop"] + 1500
    bench.after(120)
    assert any("draw pumped air: spent was empty" in text for _, text in bench.plant.events)


def test_a_leak_loses_what_it_says_and_no_more_than_there_is() -> None:
    bench = Bench()
    bench.plant.faults.leak_ul_min["draw"] = 100.0
    bench.plant.set_pump("reglo.draw", 4000.0)
    assert bench.after(60).losses_ul["leak"] == pytest.approx(100.0)
    bench.plant.faults.leak_ul_min["draw"] = 1e9
    before = bench.plant.truth()
    after = bench.after(60)
    assert after.volumes_ul["spent"] == pytest.approx(before.volumes_ul["spent"], abs=0.05)


def test_a_bubble_takes_the_place_of_liquid_once() -> None:
    with_air, without = Bench(), Bench()
    with_air.plant.faults.bubble_ul["draw"] = 250.0
    for bench in (with_air, without):
        bench.plant.set_pump("reglo.draw", 4000.0)
        bench.after(60)
    gap = without.plant.truth().moved_ul["draw"] - with_air.plant.truth().moved_ul["draw"]
    assert gap == pytest.approx(250.0)
    assert "draw" not in with_air.plant.faults.bubble_ul, "it has passed"
    missing = without.plant.truth().volumes_ul["spent"] - with_air.plant.truth().volumes_ul["spent"]
    assert missing == pytest.approx(250.0, rel=1e-3)
    assert with_air.plant.fleet.lines["bubble_ul"][0].sum() == 0.0
    assert not with_air.plant.events, "air in the line is not an empty vessel"
    truth = with_air.plant.truth()
    assert without.plant.truth().arrived_ul["draw"] == pytest.approx(without.plant.truth().moved_ul["draw"])
    assert truth.arrived_ul["draw"] == pytest.approx(truth.moved_ul["draw"], rel=1e-3), "the air has come out again"


def test_a_flow_sensor_sees_no_liquid_while_air_passes_and_the_sign_of_a_flow_backwards() -> None:
    bench = Bench(rig=load_rig(RIGS / "selector_wells.yaml"))
    for valve in ("giver.valve", "taker.valve"):
        bench.plant.set_position(valve, 1.0)
    bench.plant.faults.bubble_ul["dose"] = 100.0
    bench.plant.set_pump("reglo.dose", 1000.0)
    bench.after(2.0)
    assert bench.plant.sense("flow.flow") == pytest.approx(0.0, abs=20.0)
    bench.after(10.0)
    assert bench.plant.sense("flow.flow") == pytest.approx(1000.0, rel=0.1)
    bench.plant.set_pump("reglo.dose", -1000.0)
    assert bench.plant.sense("flow.flow") == pytest.approx(-1000.0, rel=0.1)


def test_what_comes_out_of_a_line_with_air_in_it_is_more_than_what_went_in() -> None:
    bench = Bench()
    bench.plant.faults.bubble_ul["draw"] = 100.0
    bench.plant.set_pump("reglo.draw", 4000.0)
    truth = bench.after(1.5)
    assert truth.moved_ul["draw"] < 5.0
    assert truth.arrived_ul["draw"] > 90.0, "the tube was full of liquid before"


def test_a_clogged_filter_resists_and_slows_and_a_torn_one_lets_pass() -> None:
    flows, pressures, microbes = [], [], []
    for fault in ("none", "clogged", "torn"):
        bench = Bench()
        bench.plant.faults.contamination["loop"] = 1000.0
        bench.plant.faults.clog = 20.0 if fault == "clogged" else 1.0
        bench.plant.faults.filter_torn = fault == "torn"
        bench.plant.set_pump("reglo.draw", 4000.0)
        bench.after(240)
        bench.plant.set_pump("reglo.draw", 0.0)
        before = bench.plant.truth().tally["filter"]["microbes"]
        bench.plant.set_pump("reglo.return", 4000.0)
        truth = bench.plant.truth()
        flows.append(truth.flows_ul_min["return"])
        pressures.append(truth.pressures_kpa["return"])
        bench.plant.set_pump("reglo.heart", 0.0)
        microbes.append(bench.after(120).tally["filter"]["microbes"] - before)
    assert flows[1] < 0.7 * flows[0] < 0.7 * flows[2]
    assert pressures[2] < pressures[0] < 80 < pressures[1]
    assert microbes[2] > 0.7 * microbes[0], "half of them stays back (negative: lost to the filter)"


def test_each_filter_fouls_by_what_passes_it() -> None:
    """A second filter on the feed line, of a quarter of the area: each has its own resistance."""
    sterile = BENCH.filters["sterile"]
    small = sterile.model_copy(update={"area_cm2": sterile.area_cm2 / 4})
    lines = BENCH.lines | {"feed": BENCH.lines["feed"].model_copy(update={"filter": "small"})}
    bench = Bench(rig=BENCH.model_copy(update={"filters": {"sterile": sterile, "small": small}, "lines": lines}))
    assert bench.plant.truth().filter_resistance == {"return": 1.0, "feed": 1.0}
    bench.plant.set_pump("dose_fresh.pump", 4000.0)
    first = bench.after(240.0)
    assert first.filter_resistance["return"] == 1.0
    assert first.filter_resistance["feed"] > 1.0
    assert first.pressures_kpa["feed"] > 0.0
    bench.plant.set_pump("dose_fresh.pump", 0.0)
    bench.plant.set_pump("reglo.return", 500.0)
    second = bench.after(240.0)
    assert second.filter_resistance["feed"] == first.filter_resistance["feed"]


def test_contamination_is_added_once_grows_and_kills() -> None:
    bench = Bench()
    bench.plant.set_pump("reglo.heart", 2000.0)
    bench.plant.faults.contamination["loop"] = 10.0
    first = bench.after(2).concentrations["loop"]["microbes"]
    assert first == pytest.approx(10.0, rel=0.01)
    later = bench.after(10 * 3600.0)
    assert later.concentrations["loop"]["microbes"] == pytest.approx(10.0 * 2**10, rel=0.2)
    bench.plant.faults.contamination["loop"] = 0.0
    assert bench.after(2).concentrations["loop"]["microbes"] > 1e3, "taking it back cleans nothing"
    end = bench.after(30 * 3600.0)
    assert end.ph["loop"] < 7.0
    assert end.viability < 0.5


def test_the_wrong_bottle_is_filled_once() -> None:
    bench = Bench()
    bench.plant.faults.wrong_medium["reservoir"] = "base_stock"
    truth = bench.after(2)
    assert truth.concentrations["reservoir"]["bicarbonate"] == pytest.approx(150.0, rel=0.01)
    assert truth.volumes_ul["reservoir"] == pytest.approx(500_000.0)
    assert truth.tally["fault"]["glucose"] == pytest.approx(-21.0 * 500_000)
    bench.plant.set_pump("dose_fresh.pump", 5000.0)
    volume = bench.after(60).volumes_ul["reservoir"]
    assert volume < 496_000, "it is not filled again"


def test_worn_tubing_moves_less_and_wear_comes_by_itself() -> None:
    bench, worn = Bench(), Bench()
    worn.plant.faults.wear["draw"] = 0.3
    assert flow_of(worn, "draw", "reglo.draw") == pytest.approx(0.7 * flow_of(bench, "draw", "reglo.draw"), rel=5e-3)
    heart = Bench()
    heart.plant.set_pump("reglo.heart", 2000.0)
    new = heart.after(10).flows_ul_min["heart"]
    old = heart.after(3 * 86_400.0).flows_ul_min["heart"]
    assert 0.85 < old / new < 0.97, "−5 to −15 % in the first days [R]"


def test_faults_are_neutral_in_health() -> None:
    one, other = Bench(), Bench()
    other.plant.faults.flow_scale["heart"] = 1.0
    other.plant.faults.wear["heart"] = 0.0
    for bench in (one, other):
        bench.plant.set_pump("reglo.heart", 2000.0)
        bench.after(100)
    assert one.plant.truth() == other.plant.truth()


# --- probes ---------------------------------------------------------------------------------------------------


def probe(model: Model, point: str = "x.y") -> Probe:
    return Probe(point, model, (1, 2), 0.0)


def test_a_probe_lags_drifts_and_fouls_by_its_laws() -> None:
    faults = Faults()
    lagging = probe(Model("ph", 0.0, 0.0, lag_s=10.0))
    assert lagging.read(0.0, 0.0, faults) == 0.0
    assert lagging.read(1.0, 10.0, faults) == pytest.approx(1 - math.exp(-1))
    fouling = probe(Model("ph", 0.0, 0.0, fouling=0.1, foot=7.0))
    assert fouling.read(8.0, 86_400.0, faults) == pytest.approx(7 + math.exp(-0.1))
    drifting = probe(Model("ph", 0.0, 0.0, drift=1.0))
    day = drifting.read(0.0, 86_400.0, faults)
    assert day != 0.0
    assert drifting.read(0.0, 2 * 86_400.0, faults) == pytest.approx(2 * day)


def test_noise_and_calibration_have_their_spread() -> None:
    faults = Faults()
    noisy = probe(Model("ph", 0.0, 0.5))
    readings = np.array([noisy.read(7.0, float(second), faults) for second in range(5000)])
    assert readings.std() == pytest.approx(0.5, rel=0.05)
    faults.sensor_noise["x.y"] = 4.0
    louder = np.array([noisy.read(7.0, float(second), faults) for second in range(5000)])
    assert louder.std() == pytest.approx(2.0, rel=0.05)
    offsets = [Probe("x.y", Model("ph", 0.2, 0.0), (seed, 0), 0.0).offset for seed in range(2000)]
    assert np.std(offsets) == pytest.approx(0.2, rel=0.06)


def test_faults_of_a_probe() -> None:
    faults = Faults()
    exact = probe(Model("ph", 0.0, 0.0))
    faults.sensor_drift_per_day["x.y"] = 2.0
    assert exact.read(7.0, 1000.0, faults) == 7.0, "it begins now"
    faults.sensor_offset["x.y"] = 0.5
    assert exact.read(7.0, 1000.0 + 43_200, faults) == pytest.approx(8.5)
    faults.sensor_drift_per_day.clear()
    assert exact.read(7.0, 50_000.0, faults) == 7.5
    faults.sensor_stuck["x.y"] = 3.0
    assert exact.read(9.0, 60_000.0, faults) == 3.0


def test_every_sensor_of_the_bench_has_a_model_and_reads_near_the_truth() -> None:
    bench = Bench()
    bench.plant.set_pump("reglo.heart", 2000.0)
    truth = bench.after(600)
    sensing = {name for name, family in FAMILIES.items() if any(p.kind == "sensor" for p in family.points.values())}
    without = {name for name in sensing if not models_of(DeviceSpec(model=name, link="sim:x"))}
    assert without == {"eurotherm-3200", "huber-pb", "julabo", "vici-actuator"}  # they have no plant
    assert bench.plant.sense("ph_loop.ph") == pytest.approx(truth.ph["loop"], abs=0.05)
    assert bench.plant.sense("t_chamber.temperature") == pytest.approx(truth.temperature_c, abs=0.3)
    assert bench.plant.sense("balance.mass") == pytest.approx(truth.volumes_ul["spent"] / 1000, abs=0.02)
    assert bench.plant.sense("p_heart.pressure") == pytest.approx(truth.pressures_kpa["heart"], abs=0.4)
    assert bench.plant.sense("gas_co2.flow") == pytest.approx(3.5, abs=0.1)


def test_enzyme_sensors_see_the_medium_and_lose_sensitivity() -> None:
    """The on-line sensor of `bench_monitored`, and an analyser described by its registers."""
    rig = load_rig(RIGS / "bench_monitored.yaml", models=DRIVERS)
    told = (RIGS.parent / "devices" / "metabolite-4-20ma.yaml").read_text(encoding="utf-8")
    trace = DeviceSpec(model="modbus-generic", link="sim:trace", at="spent", settings={"description": told})
    now = [0.0]
    plant = Plant(rig.model_copy(update={"devices": {**rig.devices, "trace": trace}}), seed=3, now=lambda: now[0])
    plant.set_pump("reglo.heart", 2000.0)
    now[0] = 600.0
    truth = plant.truth().concentrations
    assert plant.sense("six.glucose") == pytest.approx(truth["loop"]["glucose"], abs=0.5)
    assert plant.sense("six.lactate") == pytest.approx(truth["loop"]["lactate"], abs=0.4)
    assert plant.sense("trace.lactate") == pytest.approx(truth["spent"]["lactate"], abs=0.4)
    with pytest.raises(KeyError):
        plant.sense("trace.glucose")
    now[0] = 5.0 * 86_400.0
    lost = 1.0 - plant.sense("six.glucose") / plant.truth().concentrations["loop"]["glucose"]
    assert 0.04 < lost < 0.16  # 2 % a day


def test_asking_does_not_move_the_plant() -> None:
    quiet, asked = Bench(), Bench()
    for bench in (quiet, asked):
        bench.plant.set_pump("reglo.heart", 2000.0)
    for _ in range(300):
        asked.now += 2.0
        asked.plant.sense("ph_loop.ph")
        asked.plant.sense("p_heart.pressure")
    assert quiet.after(600).concentrations == asked.plant.truth().concentrations


# --- many rigs ------------------------------------------------------------------------------------------------


def test_many_rigs_are_each_as_if_alone() -> None:
    together = Fleet(BENCH, [1, 2, 3])
    alone = Fleet(BENCH, [2])
    for fleet in (together, alone):
        fleet.lines["command_ul_min"][:, 0] = 2000.0
        fleet.advance(2.0, 500)
    assert np.array_equal(together.vessels[1], alone.vessels[0])
    assert np.array_equal(together.state[1], alone.state[0])
    assert together.lines["gain"][0, 0] != together.lines["gain"][1, 0]


def test_pumps_differ_by_their_calibration() -> None:
    fleet = Fleet(BENCH, range(400))
    assert fleet.lines["gain"].std() == pytest.approx(hydraulics.GAIN_SPREAD, rel=0.1)
    assert fleet.lines["gain"].mean() == pytest.approx(1.0, abs=0.005)
