"""Junctions, passive outlets, straws, cassettes and check valves: closed forms and mass balances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from controller.rig.description import Rig
from sim.plant.columns import Content, TallyCause
from sim.plant.fleet import Fleet
from sim.plant.plant import Plant
from sim.plant.shapes import build, manifold, organoids, shared_loop

CHAMBER: dict[str, Any] = {"kind": "chamber", "volume": "2 mL", "capacity": "3 mL"}
SOURCE: dict[str, Any] = {"kind": "source", "volume": "100 mL", "capacity": "120 mL"}
WASTE: dict[str, Any] = {"kind": "waste", "contains": None, "volume": "0 mL", "capacity": "200 mL"}
THIN = {"bore": "0.5 mm", "length": "0.2 m"}


class Bench:
    """A plant with a clock in hand."""

    def __init__(self, rig: Rig) -> None:
        self.now = 0.0
        self.plant = Plant(rig, seed=1, now=lambda: self.now)
        self.before = self.plant.fleet.contents()[0]

    def after(self, seconds: float) -> dict[str, float]:
        """Volumes after some time; checks that the books close."""
        self.now += seconds
        truth = self.plant.truth()
        tally = self.plant.fleet.tally[0]
        off = np.abs(self.plant.fleet.contents()[0] - self.before - tally.sum(axis=0))
        assert (off <= 1e-9 * (np.abs(self.before) + np.abs(tally).sum(axis=0)) + 1e-12).all()
        return truth.volumes_ul

    def moved(self, line: str) -> float:
        return self.plant.truth().moved_ul[line]


def passive(start: str, end: str, **rest: Any) -> dict[str, Any]:
    return {"from": start, "to": end, "passive": True, **rest}


def pumped(start: str, end: str, pump: str = "p.one", **rest: Any) -> dict[str, Any]:
    return {"from": start, "to": end, "pump": pump, **rest}


# --- branches -----------------------------------------------------------------------------------------------


def test_a_chamber_gets_its_share_and_gives_it_back() -> None:
    bench = Bench(manifold(3, bores_mm=(1.0, 1.0, 1.4)))
    bench.plant.set_pump("pump.feed", 1500.0)
    volumes = bench.after(600.0)
    shares = [bench.moved(f"to_c{n}") for n in range(3)]
    assert sum(shares) == pytest.approx(bench.moved("feed"), rel=1e-9)
    assert shares[2] / shares[0] == pytest.approx(1.4**4, rel=1e-9)
    assert [volumes[f"c{n}"] for n in range(3)] == pytest.approx([2000.0] * 3)
    for n in range(3):
        assert bench.moved(f"from_c{n}") == pytest.approx(bench.plant.truth().arrived_ul[f"to_c{n}"], rel=1e-3)


def test_a_branch_delays_by_its_dead_volume() -> None:
    """What enters a branch of 0.3 m and 1 mm (236 µL) comes out later, spread as four mixed cells spread it."""
    bench = Bench(manifold(2))
    bench.plant.faults.contamination["loop"] = 1000.0
    bench.plant.set_pump("pump.feed", 1000.0)
    feed_ul = bench.plant.fleet.lines["cell_ul"][0, 0] * 4
    early = feed_ul / 1010.0 * 60.0 * 0.4
    bench.after(early)
    assert bench.plant.truth().concentrations["c0"]["microbes"] < 100.0
    bench.after(8 * early)
    assert bench.plant.truth().concentrations["c0"]["microbes"] > 200.0


def test_a_valve_shuts_one_branch() -> None:
    made = manifold(2)
    lines = dict(made.lines)
    lines["to_c0"] = lines["to_c0"].model_copy(update={"valve": "relay.c0"})
    bench = Bench(made.model_copy(update={"lines": lines}))
    bench.plant.set_pump("pump.feed", 1000.0)
    assert bench.plant.truth().flows_ul_min["to_c0"] == 0.0
    alone = bench.plant.truth().flows_ul_min["to_c1"]
    assert alone == pytest.approx(bench.plant.truth().flows_ul_min["feed"], rel=1e-9)
    bench.plant.set_switch("relay.c0", True)
    assert bench.plant.truth().flows_ul_min["to_c0"] == pytest.approx(bench.plant.truth().flows_ul_min["to_c1"])


def test_all_branches_shut_stall_the_pump_and_move_nothing() -> None:
    bench = Bench(manifold(2))
    bench.plant.faults.flow_scale.update(to_c0=0.0, to_c1=0.0)
    bench.plant.set_pump("pump.feed", 1000.0)
    bench.after(60.0)
    truth = bench.plant.truth()
    assert bench.moved("feed") == pytest.approx(0.0, abs=1e-6)
    assert truth.pressures_kpa["feed"] == pytest.approx(200.0, rel=1e-6)


def test_a_half_occluded_branch_gets_a_third() -> None:
    bench = Bench(manifold(2))
    bench.plant.faults.flow_scale["to_c0"] = 0.5
    bench.plant.set_pump("pump.feed", 1000.0)
    flows = bench.plant.truth().flows_ul_min
    assert flows["to_c0"] == pytest.approx(flows["feed"] / 3, rel=1e-9)


def test_a_tree_of_junctions_halves_twice() -> None:
    lines = {
        "feed": pumped("loop", "root"),
        **{f"arm{n}": passive("root", f"fork{n}", **THIN) for n in range(2)},
        **{f"twig{n}": passive(f"fork{n // 2}", f"c{n}", **THIN) for n in range(4)},
        **{f"back{n}": passive(f"c{n}", "loop") for n in range(4)},
    }
    vessels = {"loop": {"kind": "loop", "volume": "40 mL", "capacity": "60 mL"}, **{f"c{n}": CHAMBER for n in range(4)}}
    junctions: dict[str, Any] = {"root": {}, "fork0": {}, "fork1": {}}
    bench = Bench(build(vessels, lines, {f"c{n}": organoids() for n in range(4)}, junctions=junctions))
    bench.plant.set_pump("p.one", 2000.0)
    bench.after(300.0)
    flows = bench.plant.truth().flows_ul_min
    assert [flows[f"twig{n}"] for n in range(4)] == pytest.approx([flows["feed"] / 4] * 4, rel=1e-9)
    assert flows["arm0"] == pytest.approx(flows["feed"] / 2, rel=1e-9)


def test_a_pump_draws_from_two_wells_through_a_junction() -> None:
    lines = {
        "a": passive("c0", "join", **THIN), "b": passive("c1", "join", **{**THIN, "length": "0.4 m"}),
        "out": pumped("join", "waste"),
    }  # fmt: skip
    vessels = {"c0": CHAMBER, "c1": CHAMBER, "waste": WASTE}
    bench = Bench(build(vessels, lines, {"c0": organoids(), "c1": organoids()}, junctions={"join": {}}))
    bench.plant.set_pump("p.one", 300.0)
    volumes = bench.after(120.0)
    assert bench.moved("a") == pytest.approx(2 * bench.moved("b"), rel=1e-9)
    assert volumes["waste"] == pytest.approx(bench.moved("a") + bench.moved("b"), rel=1e-6)
    assert not bench.plant.events


def test_a_check_valve_keeps_a_branch_from_running_backwards() -> None:
    made = manifold(2)
    lines = dict(made.lines)
    lines["to_c0"] = lines["to_c0"].model_copy(update={"check_valve": True})
    bench = Bench(made.model_copy(update={"lines": lines}))
    bench.plant.set_pump("pump.feed", -800.0)
    bench.after(60.0)
    flows = bench.plant.truth().flows_ul_min
    assert flows["to_c0"] == 0.0
    assert flows["to_c1"] == pytest.approx(flows["feed"], rel=1e-9)
    bench.plant.set_pump("pump.feed", 800.0)
    assert bench.plant.truth().flows_ul_min["to_c0"] > 300.0, "it opens again"


# --- passive outlets ----------------------------------------------------------------------------------------


def chain(**first: Any) -> Rig:
    """A source feeds `a`, which runs over into `b`, which runs over into the waste."""
    lines = {
        "feed": pumped("source", "a"), "ab": passive("a", "b"), "bw": passive("b", "waste"),
    }  # fmt: skip
    vessels = {"source": SOURCE, "a": {**CHAMBER, **first}, "b": CHAMBER, "waste": WASTE}
    return build(vessels, lines, {"a": organoids(), "b": organoids()})


def test_an_overflow_runs_on_through_a_chain() -> None:
    bench = Bench(chain())
    bench.plant.set_pump("p.one", 1000.0)
    volumes = bench.after(300.0)
    assert (volumes["a"], volumes["b"]) == pytest.approx((2000.0, 2000.0))
    assert volumes["waste"] == pytest.approx(bench.moved("feed"), rel=1e-3), "but for what evaporates"
    assert bench.moved("ab") == pytest.approx(bench.moved("bw"), rel=1e-3)


def test_it_begins_at_the_height_of_the_spout() -> None:
    bench = Bench(chain(overflow="2.5 mL"))
    bench.plant.set_pump("p.one", 1000.0)
    assert bench.after(27.0)["b"] == pytest.approx(2000.0, abs=0.1)
    assert bench.after(270.0)["a"] == pytest.approx(2500.0)


def test_a_plugged_outlet_fills_its_vessel_until_it_spills() -> None:
    bench = Bench(chain())
    bench.plant.faults.flow_scale["ab"] = 0.0
    bench.plant.set_pump("p.one", 1000.0)
    bench.after(300.0)
    truth = bench.plant.truth()
    assert truth.volumes_ul["a"] == pytest.approx(3000.0)
    assert truth.losses_ul["overflow"] > 3000.0
    assert any("a overflowed" in text for _, text in bench.plant.events)


def test_a_leaking_outlet_loses_its_part() -> None:
    bench = Bench(chain())
    bench.plant.faults.leak_ul_min["ab"] = 100.0
    bench.plant.set_pump("p.one", 1000.0)
    volumes = bench.after(600.0)
    assert bench.plant.truth().losses_ul["leak"] == pytest.approx(1000.0, rel=1e-6)
    assert volumes["waste"] == pytest.approx(bench.moved("feed") - 1000.0, rel=1e-3)


def test_a_collector_leads_several_overflows_to_the_waste_and_holds_them_back_when_plugged() -> None:
    lines = {
        "fa": pumped("source", "a", "p.one"), "fb": pumped("source", "b", "p.two"),
        "oa": passive("a", "drain"), "ob": passive("b", "drain"), "out": passive("drain", "waste"),
    }  # fmt: skip
    vessels = {"source": SOURCE, "a": CHAMBER, "b": CHAMBER, "waste": WASTE}
    rig = build(vessels, lines, {"a": organoids(), "b": organoids()}, junctions={"drain": {}})
    bench = Bench(rig)
    bench.plant.set_pump("p.one", 500.0)
    bench.plant.set_pump("p.two", 800.0)
    volumes = bench.after(300.0)
    assert volumes["waste"] == pytest.approx(bench.moved("fa") + bench.moved("fb"), rel=1e-3)
    bench.plant.faults.flow_scale["out"] = 0.0
    assert bench.after(60.0)["waste"] == pytest.approx(volumes["waste"], rel=1e-9)
    assert bench.plant.truth().volumes_ul["a"] > 2400.0


def test_outlets_in_a_circle_lose_nothing() -> None:
    lines = {"feed": pumped("source", "a"), "ab": passive("a", "b"), "ba": passive("b", "a")}
    bench = Bench(build({"source": SOURCE, "a": CHAMBER, "b": CHAMBER}, lines, {"a": organoids()}))
    bench.plant.set_pump("p.one", 100.0)
    bench.after(120.0)


# --- straws and cassettes -----------------------------------------------------------------------------------


def test_a_straw_keeps_the_level_and_air_in_it_is_no_event() -> None:
    lines = {"out": pumped("vial", "waste", draws_above="1.5 mL", **THIN)}
    bench = Bench(build({"vial": CHAMBER, "waste": WASTE}, lines, {"vial": organoids()}))
    bench.plant.set_pump("p.one", 1000.0)
    volumes = bench.after(120.0)
    assert volumes["vial"] == pytest.approx(1500.0, abs=1.0)
    assert bench.moved("out") == pytest.approx(500.0, abs=1.0)
    assert not bench.plant.events


def test_one_motor_turns_two_cassettes_each_with_its_own_gain_and_bore() -> None:
    lines = {
        "thin": pumped("source", "a", bore="1.0 mm", length="0.1 m"),
        "wide": pumped("source", "b", bore="2.0 mm", length="0.1 m"),
    }
    bench = Bench(build({"source": SOURCE, "a": WASTE, "b": WASTE, "c": CHAMBER}, lines, {"c": organoids()}))
    bench.plant.set_pump("p.one", 100.0)
    flows, gains = bench.plant.truth().flows_ul_min, bench.plant.fleet.lines["gain"][0]
    assert gains[0] != gains[1]
    assert flows["thin"] == pytest.approx(100.0 * gains[0], rel=1e-3)
    assert flows["wide"] == pytest.approx(100.0 * 2.0**2.08 * gains[1], rel=1e-3)
    assert bench.plant.commanded_ul_min == {"p.one": 100.0}


# --- many ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", [manifold(30), shared_loop(30)], ids=["manifold", "shared loop"])
def test_chambers_that_take_turns_end_where_they_would_without(made: Rig) -> None:
    """An hour with 30 chambers in turns, against the same in single steps for all."""
    turns = Fleet(made, [1])
    whole = Fleet(made, [1])
    assert turns.sizes.stride > 1
    whole.nodes["group"] = -1
    whole.links["group"] = -1
    packed = [whole.links.view(np.int64).ravel(), whole.nodes.view(np.int64).ravel()]
    whole.plumbing[: sum(map(len, packed))] = np.concatenate(packed)
    for fleet in (turns, whole):
        for beating in made.organs.hearts.values():
            fleet.lines["command_ul_min"][:, fleet.line_names.index(beating.line)] = beating.flow_ul_min
    turns.advance(4.0, 900)
    whole.advance(1.0, 3600)
    for column in (Content.GLUCOSE, Content.OXYGEN, Content.LACTATE):
        there, exact = turns.vessels[0, 1:31, column], whole.vessels[0, 1:31, column]
        assert there == pytest.approx(exact, rel=0.03)
        booked = [fleet.tally[0, TallyCause.METABOLISM, column] for fleet in (turns, whole)]
        assert booked[0] == pytest.approx(booked[1], rel=0.02)
