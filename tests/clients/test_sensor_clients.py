"""Clients that others wrote, against simulated devices on pseudo-terminals: they agree with the plant."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from sim.devices.bronkhorst_propar import BronkhorstPropar
from sim.devices.hamilton_arc import HamiltonPhArc
from sim.devices.keller_bus import KellerBus
from sim.devices.sensirion_slf3x import SLF3S_0600F, SLF3S_1300F, SensirionSlf3x, Variant
from sim.devices.vaisala_gmp25x import VaisalaGmp25x
from sim.devices.wire import WireDevice
from sim.serving import PseudoTerminal
from tests.clients.environments import answer, environment
from tests.sim.bench import Build, RecordingPlant, device_on_a_line

MINIMALMODBUS = ("minimalmodbus==2.1.1", "pyserial==3.5")


@asynccontextmanager
async def on_a_terminal(build: Build, plant: RecordingPlant) -> AsyncIterator[tuple[WireDevice, str]]:
    device = device_on_a_line(build, plant)
    assert device.line is not None
    terminal = PseudoTerminal(device.line)
    try:
        assert os.path.exists(terminal.path)
        yield device, terminal.path
    finally:
        terminal.close()
        device.power_off()


@pytest.mark.parametrize(
    ("variant", "product", "unit"), [(SLF3S_0600F, "SLF3S_600", 0x0844), (SLF3S_1300F, "SLF3S_1300", 0x0845)]
)
async def test_the_makers_client_measures_a_flow_of_liquid(variant: Variant, product: str, unit: int) -> None:
    python = environment("sensirion-uart-scc1==2.0.0", "sensirion-shdlc-driver==1.0.2")
    plant = RecordingPlant(d__flow=1250.0, d__temperature=36.5)
    async with on_a_terminal(SensirionSlf3x, plant) as (device, path):
        assert isinstance(device, SensirionSlf3x)
        device.variant = variant
        found = await answer(python, "scc1_flow.py", path)
        assert found == {
            "product": product,
            "serial": int(device.serial, 16),
            "unit": unit,
            "interval_ms": [None, 50, None],
            "flow": pytest.approx(1250.0 if unit == 0x0844 else 1.25),
            "temperature": 36.5,
            "flags": 0,
        }


async def test_the_makers_client_reads_a_transmitter_on_kellers_bus() -> None:
    python = environment("keller-protocol==1.0.22", "pyserial==3.5")
    plant = RecordingPlant(d__pressure=42.0, d__temperature=36.5)
    async with on_a_terminal(KellerBus, plant) as (device, path):
        assert isinstance(device, KellerBus)
        found = await answer(python, "keller_transmitter.py", path)
        assert found == {
            "firmware": "5.20-12.40",
            "serial": device.serial,
            "pressure_bar": pytest.approx(0.42),
            "tob1": 36.5,
            "tob1_integer": 3650,
        }


async def test_minimalmodbus_reads_an_arc_by_whole_blocks_and_logs_in() -> None:
    python = environment(*MINIMALMODBUS)
    plant = RecordingPlant(d__ph=7.25, d__temperature=36.5)
    async with on_a_terminal(HamiltonPhArc, plant) as (_, path):
        found = await answer(python, "minimalmodbus_probes.py", path, "hamilton")
        assert found == {
            "units": [0x1000, 0x4],
            "values": [7.25, 36.5],
            "level": [0x0C, 0, 0, 0],
            "a part of a block": "IllegalRequestError",
        }


async def test_minimalmodbus_reads_carbon_dioxide_and_sets_a_volatile_compensation() -> None:
    python = environment(*MINIMALMODBUS)
    plant = RecordingPlant(d__co2=50_000.0)
    async with on_a_terminal(VaisalaGmp25x, plant) as (device, path):
        assert isinstance(device, VaisalaGmp25x)
        found = await answer(python, "minimalmodbus_probes.py", path, "vaisala")
        assert found == {"co2": 50_000.0, "status": [0, 0], "pressure": [1013.25, 950.0]}
        assert device.memory_writes == 0


async def test_the_makers_client_sets_a_flow_of_gas() -> None:
    python = environment("bronkhorst-propar==1.3.0", "pyserial==3.5")
    plant = RecordingPlant(d__flow=0.0)
    async with on_a_terminal(BronkhorstPropar, plant) as (device, path):
        assert isinstance(device, BronkhorstPropar)
        found = await answer(python, "propar_gas.py", path, "16000")
        assert found == {
            "serial": device.serial.decode(),
            "tag": "USERTAG",
            "setpoint": 16_000,
            "measure": pytest.approx(16_000, abs=1),
            "flow": pytest.approx(0.5 * device.full_scale, rel=1e-3),
            "capacity": pytest.approx(device.capacity),
        }
        assert plant.last("d.flow") == pytest.approx(0.5 * device.full_scale, rel=1e-3)
