"""Clients that other labs wrote for thermostats, balances, pumps and valves, and other Modbus masters: they agree with us.

A comment next to each client says what its own code rules out. Some of them have licences (GPL) that Choroid could not
take in: they run as programs of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from sim.devices import julabo
from sim.devices.eurotherm_3200 import Eurotherm3200
from sim.devices.huber_pb import HuberPb
from sim.devices.ismatec_reglo_digital import IsmatecRegloDigital
from sim.devices.ismatec_reglo_icc import IsmatecRegloIcc
from sim.devices.julabo import Julabo
from sim.devices.longer import Longer
from sim.devices.masterflex_ls import MasterflexLs
from sim.devices.mettler_sics import MettlerSics
from sim.devices.modbus_coil_relay import ModbusCoilRelay
from sim.devices.sartorius_sbi import SartoriusSbi
from sim.devices.vici_actuator import ViciActuator
from sim.devices.wire import Bus, WireDevice
from sim.serving import PseudoTerminal, TcpClient
from tests.clients.environments import answer, environment
from tests.sim.bench import Build, RecordingPlant, device_on_a_line, spec

BENCH = (
    "huber==0.9.0",
    "julabo==2.3.0",
    "matterlab-pumps==1.2.1",
    "matterlab-valves==1.2.1",
    "modbus_tk==1.1.5",
    "plateflo==0.3.4",
    "pylabrobot==0.2.2",
    "pymodbus==3.16.1",
    "pyserial==3.5",
    "sartorius==0.7.1",
    "SartoriUSB==0.2.5",
    "uModbus==1.0.4",
    "vicivalve==0.1.0",
)


@asynccontextmanager
async def on_a_terminal(build: Build, plant: RecordingPlant) -> AsyncIterator[tuple[WireDevice, Bus, str]]:
    device = device_on_a_line(build, plant)
    assert device.line is not None
    terminal = PseudoTerminal(device.line)
    try:
        yield device, device.line, terminal.path
    finally:
        terminal.close()
        device.power_off()


@asynccontextmanager
async def over_tcp(build: Build) -> AsyncIterator[tuple[WireDevice, int]]:
    device = device_on_a_line(build, RecordingPlant())
    line = device.line
    assert line is not None
    server = await asyncio.get_running_loop().create_server(lambda: TcpClient(line), "127.0.0.1", 0)
    try:
        yield device, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        line.unplug()
        device.power_off()


async def test_julabo_starts_and_stops_a_circulator(monkeypatch: pytest.MonkeyPatch) -> None:
    """It writes its commands in capitals, and keeps its gaps: 250 ms after a command, 10 ms after an answer.

    Gaps that end where a busy computer reads late are shorter than the client kept them, so they are not held against it.
    """
    monkeypatch.setattr(julabo, "AFTER_COMMAND_S", 0.0)
    monkeypatch.setattr(julabo, "AFTER_ANSWER_S", 0.0)
    async with over_tcp(Julabo) as (device, port):
        assert isinstance(device, Julabo)
        found = await answer(environment(*BENCH), "julabo_bath.py", f"tcp://127.0.0.1:{port}", "37.25")
        assert found == {
            "version": "JULABO FP50-MH VERSION 1.0",
            "before": ["02 REMOTE STOP", False],
            "setpoint": 37.25,
            "during": ["03 REMOTE START", True],
            "bath": pytest.approx(20.0, abs=0.5),
            "power": pytest.approx(100.0),
            "after": ["02 REMOTE STOP", False],
        }
        assert device.setpoints[0] == 37.25


async def test_huber_sets_and_switches_a_thermostat() -> None:
    async with over_tcp(HuberPb) as (device, port):
        assert isinstance(device, HuberPb)
        found = await answer(environment(*BENCH), "huber_bath.py", str(port), "37.25")
        assert found == {
            "setpoint": 37.25,
            "bath": pytest.approx(20.0, abs=0.5),
            "pressure": 0.0,
            "speed": 0,
            "status": {"controlling": True, "circulating": True, "pumping": True, "error": False, "warning": False},
            "on": [False, True],
        }
        assert device.bath.goal_c == 37.25


async def test_two_clients_weigh_on_a_sartorius_balance() -> None:
    plant = RecordingPlant(d__mass=123.456)
    async with on_a_terminal(SartoriusSbi, plant) as (device, _, path):
        assert isinstance(device, SartoriusSbi)
        read = {"mode": "unknown", "unit": "g", "stable": True, "message": None}
        found = await answer(environment(*BENCH), "sartorius_scales.py", path, "16")
        assert found == {"before": read | {"value": "+123.46"}, "after": read | {"value": "0.00"}}
        assert device.tare_g == pytest.approx(123.456)
        device.tare_g, device.with_id = 0.0, True
        found = await answer(environment(*BENCH), "sartorius_scales.py", path, "22")
        assert found["before"] == read | {"mode": "N", "value": "+123.46"}
        assert found["reading"] == {"mass": 123.46, "units": "g", "stable": True, "measurement": "net"}
        told = found["info"]
        assert [word.split()[-1] for word in (told["model"], told["serial"], told["software"])] == [
            device.model,
            device.serial,
            device.software,
        ]


async def test_matterlab_runs_a_longer_pump() -> None:
    """Its `direction` is the bit as it goes over the line; which way that is it believes otherwise than the maker."""
    plant = RecordingPlant()
    async with on_a_terminal(Longer, plant) as (_, _, path):
        found = await answer(environment(*BENCH), "longer_pump.py", path, "1", "50", "0.3")
        assert found == {
            "during": {"rpm": 50.0, "on": True, "direction": True},
            "after": {"rpm": 50.0, "on": False, "direction": True},
        }
    assert [(point, flow) for _, point, flow in plant.log] == [("d.pump", 5000.0), ("d.pump", 0.0)]


async def test_matterlab_turns_a_valve() -> None:
    plant = RecordingPlant()
    async with on_a_terminal(ViciActuator, plant) as (device, _, path):
        assert isinstance(device, ViciActuator)
        found = await answer(environment(*BENCH), "valco_valve.py", path, "4")
        assert found == {"ports": 10, "home": 1, "port": 4}
        assert device.position == 4
    assert plant.last("d.valve") == 4


async def test_vicivalve_turns_a_valve() -> None:
    """It believes a move that is said back as it was commanded."""
    async with on_a_terminal(ViciActuator, RecordingPlant()) as (device, _, path):
        assert isinstance(device, ViciActuator)
        found = await answer(environment(*BENCH), "vicivalve_valve.py", path, "4")
        assert found == {"before": 1, "moved": True, "after": 4}
        assert device.position == 4


async def test_plateflo_runs_a_channel_of_a_reglo_icc() -> None:
    """It names the pump behind the command of a channel."""
    plant = RecordingPlant()
    device = device_on_a_line(IsmatecRegloIcc, plant, channels={"1": ("heart", 1.02)})
    assert isinstance(device, IsmatecRegloIcc)
    assert device.line is not None
    device.channels["1"].settings.tubing = 102
    terminal = PseudoTerminal(device.line)
    try:
        found = await answer(environment(*BENCH), "plateflo_pump.py", terminal.path, "1", "4.0", "0.3")
    finally:
        terminal.close()
        device.power_off()
    assert [flow for _, _, flow in plant.log] == [pytest.approx(4000.0, rel=0.02), 0.0]
    assert found.pop("max") > 4.0
    assert found == {
        "set": pytest.approx(4.0, rel=0.02),
        "flow": pytest.approx(4.0, rel=0.02),
        "directions": [-1, 1],
        "start": 1,
        "running": 1,
        "stop": 1,
        "stands": 0,
    }


async def test_plateflo_runs_a_reglo_digital() -> None:
    """It reads the four digits of a flow as a whole number; `mantissa` tells the driver and the lab which pump this is."""
    plant = RecordingPlant()
    device = device_on_a_line(IsmatecRegloDigital, plant, settings={"tubing_mm": 1.02, "mantissa": "whole"})
    assert device.line is not None
    terminal = PseudoTerminal(device.line)
    try:
        found = await answer(environment(*BENCH), "plateflo_digital.py", terminal.path, "4.0", "0.3")
    finally:
        terminal.close()
        device.power_off()
    assert found == {
        "direction": 1,
        "set": pytest.approx(4.0, rel=0.01),
        "flow": pytest.approx(4.0, rel=0.01),
        "start": 1,
        "running": 1,
        "stop": 1,
        "stands": 0,
    }
    assert [flow for _, _, flow in plant.log] == [pytest.approx(-4000.0, rel=0.01), 0.0]


async def test_pylabrobot_weighs_and_tares() -> None:
    async with on_a_terminal(MettlerSics, RecordingPlant(d__mass=12.345)) as (device, _, path):
        assert isinstance(device, MettlerSics)
        found = await answer(environment(*BENCH), "pylabrobot_bench.py", path, "balance")
        assert found == {
            "serial": device.serial_number,
            "weight": pytest.approx(12.345, abs=0.01),
            "tare": pytest.approx(12.345, abs=0.01),
            "net": pytest.approx(0.0, abs=0.01),
        }


async def test_pylabrobot_turns_a_masterflex_drive() -> None:
    """This version never reads what the drive answers, so that only what it sends is tried."""
    plant = RecordingPlant()
    async with on_a_terminal(MasterflexLs, plant) as (device, _, path):
        assert isinstance(device, MasterflexLs)
        await answer(environment(*BENCH), "pylabrobot_bench.py", path, "drive")
        assert device.number == 2
    assert [flow for _, _, flow in plant.log] == [120_000.0, 0.0, -60_000.0, 0.0]  # 1 mL a revolution
    began, ended = plant.log[0][0], plant.log[1][0]
    assert ended - began == pytest.approx(2.0, abs=0.4)  # four revolutions at 120 a minute


@pytest.mark.parametrize("master", ["umodbus", "modbus-tk", "pymodbus"])
async def test_other_modbus_masters_on_one_line(master: str) -> None:
    plant = RecordingPlant()
    async with on_a_terminal(Eurotherm3200, plant) as (controller, line, path):
        channels = {"0": ("first", None), "1": ("second", None)}
        board = ModbusCoilRelay("relay", spec(address="3", channels=channels), plant)
        line.attach(board)
        board.power_on()
        found = await answer(environment(*BENCH), "modbus_masters.py", path, master)
        board.power_off()
    assert found.pop("values") == [pytest.approx(200, abs=5), 372, 0, 1000, 372]
    assert found == {"written": 372, "coils": [1, [0, 1]], "all": [2, [1, 0]], "refused": 2}
    assert controller.memory_writes == 0  # the remote set-point is not kept in EEPROM
    assert [(point, on) for _, point, on in plant.log][:3] == [
        ("relay.second", 1.0),
        ("relay.first", 1.0),
        ("relay.second", 0.0),
    ]
