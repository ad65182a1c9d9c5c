"""Clients that others wrote, against the lab on pseudo-terminals: they understand its bytes and agree with the plant."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from controller.rig.loading import load_rig
from sim.lab import SimulatedLab
from tests.clients.environments import answer, environment

RIG = load_rig(Path(__file__).parents[2] / "examples" / "rigs" / "bench.yaml")


@asynccontextmanager
async def lab_on_terminals() -> AsyncIterator[tuple[SimulatedLab, dict[str, str]]]:
    lab = SimulatedLab(RIG, seed=5)
    try:
        yield lab, await lab.serve_pty()
    finally:
        await lab.close()


def end_of(ends: dict[str, str], device: str) -> str:
    return ends[RIG.devices[device].link]


async def test_minimalmodbus_reads_a_transmitter_and_switches_a_relay() -> None:
    python = environment("minimalmodbus==2.1.1", "pyserial==3.5")
    async with lab_on_terminals() as (_, ends):
        found = await answer(python, "minimalmodbus_bus.py", end_of(ends, "p_heart"))
        assert found["pressure_bar"] * 100.0 == pytest.approx(0.0, abs=0.5)  # kPa: the heart stands
        assert found["coils"] == [[0, 0], [1, 0], [0, 0]]


async def test_alicat_reads_and_sets_a_mass_flow_controller() -> None:
    python = environment("alicat==0.9.0")
    async with lab_on_terminals() as (_, ends):
        found = await answer(python, "alicat_gas.py", end_of(ends, "gas_co2"), "B", "4.0")
        assert found["before"]["gas"] == "CO2"
        assert found["after"]["setpoint"] == pytest.approx(4.0, abs=0.05)
        assert found["after"]["mass_flow"] == pytest.approx(4.0, abs=0.2)


async def test_a_balance_client_reads_what_stands_on_it() -> None:
    # serial_interface imports pkg_resources, which a new environment lacks from Python 3.12 on.
    python = environment("mettler_toledo_device==1.5.0", "serial_interface==1.0.2", "setuptools==80.9.0")
    async with lab_on_terminals() as (lab, ends):
        found = await answer(python, "mettler_balance.py", end_of(ends, "balance"))
        true_g = lab.plant.truth().volumes_ul["spent"] / 1000.0
        assert found["weight"][0] == pytest.approx(true_g, abs=0.05)
        assert found["weight"][1] == "g"
        assert found["stable"][0] == pytest.approx(true_g, abs=0.05)


async def test_a_pump_client_gives_a_dose_that_the_plant_receives() -> None:
    """This client addresses the pump as a whole, which the pump takes for its first channel: the heart."""
    python = environment("ismatec==1.5.2")
    async with lab_on_terminals() as (lab, ends):
        found = await answer(python, "ismatec_pump.py", end_of(ends, "reglo"), "1", "4.0", "0.4")
        assert found["asked"] == {
            "flow_ml_min": pytest.approx(4.0, rel=0.02),
            "volume_ml": pytest.approx(0.4, rel=0.01),
        }
        assert found["max_ml_min"] == pytest.approx(6.3, rel=0.01)  # the manual's table for 1.02 mm tubing
        assert lab.plant.truth().moved_ul["heart"] == pytest.approx(400.0, rel=0.12)
