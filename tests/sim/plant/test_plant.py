"""The plant: conservation, closed forms, and what harms tissue."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from controller.rig.description import required
from controller.rig.loading import load_rig
from sim.plant.columns import SPECIES
from sim.plant.plant import Plant

BENCH = load_rig(Path(__file__).resolve().parents[3] / "examples" / "rigs" / "bench.yaml")
PUMPS = [line.pump for line in BENCH.lines.values() if line.pump]


class Bench:
    """A plant with a clock in hand."""

    def __init__(self, seed: int = 1) -> None:
        self.now = 0.0
        self.plant = Plant(BENCH, seed=seed, now=lambda: self.now)
        lung = required(BENCH.organs.lung, "organs.lung")
        self.plant.set_gas(lung.air, 46.5)
        self.plant.set_gas(lung.co2, 3.5)

    def live(self, seconds: float, *, warm: bool = True) -> None:
        end = self.now + seconds
        while self.now < end:
            if warm:
                self.plant.set_switch("relay.heater", self.plant.sense("t_chamber.temperature") < 37.0)
            self.now = min(self.now + 20.0, end)
            self.plant.advance()


def total(plant: Plant, species: str) -> float:
    truth = plant.truth()
    inside = sum(truth.concentrations[name][species] * truth.volumes_ul[name] for name in truth.volumes_ul)
    return inside + sum(held[species] for held in truth.held.values())


def water(plant: Plant) -> float:
    truth = plant.truth()
    return sum(truth.volumes_ul.values()) + sum(truth.held_ul.values())


def test_what_is_pumped_is_neither_made_nor_lost() -> None:
    bench = Bench()
    before, glucose = total(bench.plant, "osmoles"), total(bench.plant, "glucose")
    volume = water(bench.plant)
    bench.plant.set_switch("relay.return_valve", True)
    for pump, flow in (("reglo.heart", 2000.0), ("reglo.draw", 4000.0), ("dose_fresh.pump", 3000.0)):
        bench.plant.set_pump(pump, flow)
    bench.live(120)
    bench.plant.set_pump("reglo.draw", 0.0)
    bench.plant.set_pump("dose_fresh.pump", 0.0)
    bench.plant.set_pump("reglo.return", 4000.0)
    bench.live(120)
    after = bench.plant.truth()
    burnt = glucose - total(bench.plant, "glucose")
    assert burnt > 0.0
    assert total(bench.plant, "osmoles") == pytest.approx(before - burnt, rel=1e-9)
    assert water(bench.plant) + sum(after.losses_ul.values()) == pytest.approx(volume, rel=1e-12)
    assert not bench.plant.events


def test_carbon_and_nitrogen_are_accounted_for() -> None:
    """The carbon of glucose becomes lactate and CO2; acid lowers alkalinity; ammonia comes from glutamine."""
    bench = Bench()
    bench.plant.set_pump("reglo.heart", 2000.0)
    names = ("glucose", "lactate", "ammonia", "glutamine", "alkalinity", "oxygen", "carbon")
    before = {name: total(bench.plant, name) for name in names}
    bench.live(6 * 3600)
    after = {name: total(bench.plant, name) for name in names}
    gas = bench.plant.truth().tally["gas"]
    burnt = before["oxygen"] + gas["oxygen"] - after["oxygen"]
    made = after["carbon"] - gas["carbon"] - before["carbon"]
    used, lactate = before["glucose"] - after["glucose"], after["lactate"] - before["lactate"]
    assert used > 1000
    assert made == pytest.approx(burnt, rel=1e-9), "one CO2 for one O2"
    assert 6 * used == pytest.approx(3 * lactate + made, rel=1e-9), "carbon"
    assert before["alkalinity"] - after["alkalinity"] == pytest.approx(lactate, rel=1e-9)
    assert before["ammonia"] + before["glutamine"] == pytest.approx(after["ammonia"] + after["glutamine"], rel=1e-9)
    assert 1.0 < lactate / used < 1.9, "lactate yield between aerobic and anaerobic, biology.md §1.1"


def test_a_well_kept_organoid_stays_well() -> None:
    bench = Bench()
    bench.plant.set_pump("reglo.heart", 2000.0)
    bench.live(24 * 3600)
    truth = bench.plant.truth()
    assert truth.viability > 0.95
    assert 36.5 < truth.temperature_c < 37.5
    loop = truth.concentrations["loop"]
    assert 0.5 < loop["lactate"] < 4.0
    assert 0.05 < loop["ammonia"] - 0.02 < 0.3


@pytest.mark.parametrize("harm", ["heart stands", "heater stuck", "no oxygen"])
def test_what_kills(harm: str) -> None:
    bench = Bench()
    bench.plant.set_pump("reglo.heart", 0.0 if harm == "heart stands" else 2000.0)
    if harm == "no oxygen":
        bench.plant.set_gas("gas_air.flow", 0.0)
    if harm == "heater stuck":
        bench.plant.set_switch("relay.heater", True)
    bench.live(4 * 3600, warm=harm != "heater stuck")
    assert bench.plant.truth().viability < 0.85


def test_an_empty_vessel_pumps_air_and_a_full_one_overflows() -> None:
    bench = Bench()
    bench.plant.set_pump("reglo.discard", 4000.0)
    bench.live(300)
    assert "spent was empty" in bench.plant.events[0][1]
    bench.plant.set_pump("reglo.discard", 0.0)
    bench.plant.set_pump("dose_fresh.pump", 20_000.0)
    bench.live(200)
    assert any("spent overflowed" in text for _, text in bench.plant.events)
    assert bench.plant.truth().volumes_ul["spent"] <= BENCH.vessels["spent"].capacity_ul * (1 + 1e-12)


def test_a_closed_valve_lets_nothing_pass_and_shows_on_the_gauge() -> None:
    bench = Bench()
    bench.plant.set_pump("reglo.return", 4000.0)
    before = bench.plant.truth().volumes_ul["loop"]
    bench.live(60)
    assert bench.plant.truth().volumes_ul["loop"] <= before
    assert bench.plant.sense("p_filter.pressure") > 80.0


def test_same_seed_same_world_another_seed_another() -> None:
    def world(seed: int) -> list[float]:
        bench = Bench(seed)
        bench.plant.set_pump("reglo.draw", 4000.0)
        bench.live(60)
        return [bench.plant.sense("ph_loop.ph"), bench.plant.sense("balance.mass")]

    assert world(3) == world(3)
    assert world(3) != world(4)


@settings(max_examples=40, deadline=None)
@example([("reglo.draw", 2504.0, 600.0), ("reglo.heart", 12214.0, 519.0), ("reglo.heart", 15501.0, 597.0)])
@example(
    [("reglo.discard", 4821.0, 0.0), ("dose_fresh.pump", 1.0, 30.0), ("dose_fresh.pump", 2.2328880037277e-235, 10.0),
     ("reglo.return", -13825.0, 529.0)]
)  # fmt: skip
@given(st.lists(st.tuples(st.sampled_from(PUMPS), st.floats(-20_000, 20_000), st.floats(0, 600)), max_size=12))
def test_I7_nothing_ever_becomes_negative(commands: list[tuple[str, float, float]]) -> None:
    bench = Bench()
    bench.plant.set_switch("relay.return_valve", True)
    for pump, flow, seconds in commands:
        bench.plant.set_pump(pump, flow)
        bench.live(seconds)
    truth = bench.plant.truth()
    assert all(volume >= 0 for volume in truth.volumes_ul.values())
    for name, found in truth.concentrations.items():
        for species in SPECIES:
            if species != "alkalinity":  # a difference of charges: below zero in strong acid
                assert found[species] >= -1e-9, (name, species)
