"""Selectors in the plant: which port is open, what comes out first, closed ports, full and empty wells, slipped rotors."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from controller.rig.loading import load_rig
from sim.faults.injector import Injector
from sim.faults.schedule import Fault
from sim.lab import SimulatedLab
from sim.plant.plant import Plant
from sim.plant.shapes import selected
from tests.sim.plant.test_branches import Bench

TWO_SELECTORS = Path(__file__).resolve().parents[2] / "rigs" / "two_selectors.yaml"
CLOSED = 6
"""The closed port of four wells behind :func:`selected`; the port before leads to waste."""


def connected(supply: int = CLOSED, takeoff: int = CLOSED, choice: int = 1) -> Bench:
    bench = Bench(selected(4, inhabited=1))
    for valve, position in (("choice", choice), ("supply", supply), ("takeoff", takeoff)):
        bench.plant.set_position(f"{valve}.valve", position)
    return bench


def test_a_dose_goes_into_the_well_that_is_connected() -> None:
    bench = connected(supply=3)
    bench.plant.set_pump("pump.dose", 500.0)
    volumes = bench.after(60.0)
    gained = {well: volumes[well] - 1000.0 for well in ("w1", "w2", "w4")}
    assert volumes["w3"] - 1000.0 == pytest.approx(bench.moved("dose"), abs=1.0)
    assert all(abs(ul) < 0.5 for ul in gained.values()), gained  # they evaporate


def test_an_extraction_empties_the_well_that_is_connected_down_to_air() -> None:
    bench = connected(takeoff=2)
    bench.plant.set_pump("pump.take", 500.0)
    volumes = bench.after(60.0)
    assert 1000.0 - volumes["w2"] == pytest.approx(bench.moved("from_w2"), abs=1.0)
    assert bench.after(120.0)["w2"] == pytest.approx(0.0, abs=1.0)
    assert bench.plant.events
    assert volumes["w1"] == pytest.approx(1000.0, abs=0.5)


def test_a_closed_port_stalls_the_pump_and_its_pressure_is_seen_in_the_common_line() -> None:
    bench = connected(supply=3)
    bench.plant.set_pump("pump.dose", 500.0)
    bench.after(10.0)
    open_kpa = bench.plant.truth().pressures_kpa["dose"]
    bench.plant.set_position("supply.valve", CLOSED)
    before = bench.after(0.0)
    after = bench.after(60.0)
    assert after["w3"] == pytest.approx(before["w3"], abs=0.5)
    assert bench.plant.truth().pressures_kpa["dose"] == pytest.approx(200.0)
    assert open_kpa < 20.0
    bench.plant.set_position("supply.valve", 3.5)
    assert bench.plant.truth().flows_ul_min["dose"] == pytest.approx(0.0, abs=1e-9)


def test_what_passed_last_comes_out_first() -> None:
    """The line is full of the medium with glucose; the next well is to have the other one."""
    bench = connected(supply=5)
    bench.plant.set_pump("pump.dose", 500.0)
    bench.after(240.0)
    bench.plant.set_position("choice.valve", 2)
    bench.plant.set_position("supply.valve", 4)
    bench.after(12.0)
    early = bench.plant.truth().concentrations["w4"]["glucose"]
    assert early == pytest.approx(21.0, rel=0.02)
    bench.after(60.0)
    assert bench.plant.truth().concentrations["w4"]["glucose"] < 18.0


def test_dead_volume_delays_a_dose() -> None:
    rig = selected(2)
    spacious = {name: each.model_copy(update={"dead_volume_ul": 100.0}) for name, each in rig.selectors.items()}
    held = [Plant(each, seed=1, now=lambda: 0.0).truth().held_ul["dose"]
            for each in (rig, rig.model_copy(update={"selectors": spacious}))]  # fmt: skip
    assert held[1] - held[0] == pytest.approx(200.0)  # `choice` and `supply` share the line


def test_a_well_without_an_overflow_spills_and_another_one_stays_as_it_is() -> None:
    bench = connected(supply=3)
    bench.plant.set_pump("pump.dose", 500.0)
    volumes = bench.after(300.0)
    assert volumes["w3"] == pytest.approx(2000.0)
    assert bench.plant.losses_ul["overflow"] > 1000.0
    assert any("w3 overflowed" in text for _, text in bench.plant.events)


@pytest.mark.virtual_time
async def test_the_lab_begins_at_rest_and_a_slipped_rotor_doses_into_the_next_well() -> None:
    rig = load_rig(TWO_SELECTORS)
    lab = SimulatedLab(rig, seed=1)
    injector = Injector(lab, (), seed=1)
    lab.drives.set_pump("reglo.dose", 500.0)
    assert lab.plant.truth().flows_ul_min["dose"] == pytest.approx(0.0, abs=1e-9)
    lab.devices["giver"]._move(4, 1, "")  # type: ignore[attr-defined]
    await asyncio.sleep(3.0)
    assert lab.plant.truth().flows_ul_min["to04"] > 400.0
    assert injector.inject(Fault("slipped", "giver", 0.0, 10.0, 1.0)) is not None
    assert lab.plant.truth().flows_ul_min["to05"] > 400.0
    assert lab.plant.truth().flows_ul_min["to04"] == 0.0
    await asyncio.sleep(11.0)
    assert lab.plant.truth().flows_ul_min["to04"] > 400.0
    assert injector.inject(Fault("slipped", "giver", 0.0, 10.0, 0.5)) is not None
    assert lab.plant.truth().flows_ul_min["dose"] == pytest.approx(0.0, abs=1e-9)
    await lab.close()
