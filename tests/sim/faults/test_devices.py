"""Every fault of a device does what its meaning says, on the wire and to the plant, and is taken back wholly."""

from __future__ import annotations

import asyncio
import struct
from typing import cast

import pytest

from sim.devices.atlas_ezo import EzoDo, EzoPh
from sim.devices.atlas_ezo_pmp import AtlasEzoPmp
from sim.devices.ismatec_reglo_icc import FACTORY_TUBING, IsmatecRegloIcc
from sim.devices.keller_x_line import KellerXLine
from sim.devices.modbus_coil_relay import ModbusCoilRelay
from sim.devices.modbus_slave import sealed
from sim.faults.kinds import KINDS
from sim.faults.schedule import Fault
from sim.lab import SimulatedLab
from tests.sim.faults.bench import lab_with, listener_on

pytestmark = pytest.mark.virtual_time

SERIAL_QUESTIONS = {
    "reglo": b"1~\r",
    "t_chamber": b"i\r",
    "balance": b"I11\r\n",
    "gas_air": b"A\r",
    "dose_base": b"i\r",
}
RELAY_ON = sealed(bytes.fromhex("03050000FF00"))
RELAYS = sealed(bytes.fromhex("030100000008"))


def flow_of(lab: SimulatedLab, pump: str) -> float:
    """What a pump turns at (µL/min by the maker's chart, signed)."""
    return lab.drives.moving.get(pump, 0.0)


@pytest.mark.parametrize("name", SERIAL_QUESTIONS)
@pytest.mark.parametrize("kind", ["silent", "power_cut"])
async def test_a_silent_or_dark_device_says_nothing_and_comes_back(kind: str, name: str) -> None:
    async with lab_with() as (lab, injector):
        target = lab.rig.devices[name].link.removeprefix("sim:")
        listener = await listener_on(lab, target)
        await listener.ask(b"C,0\r" if name in ("t_chamber", "dose_base") else b"", 0.5)
        healthy = await listener.ask(SERIAL_QUESTIONS[name])
        assert healthy
        first = injector.inject(Fault(kind, name, 0.0))
        second = injector.inject(Fault(kind, name, 0.0))
        assert first is not None
        assert second is not None
        for each in (first, second):
            assert await listener.ask(SERIAL_QUESTIONS[name]) == b""
            injector.end(each)
        await listener.listen(1.5)  # greetings after a boot
        if kind == "power_cut":
            await listener.ask(b"C,0\r" if name in ("t_chamber", "dose_base") else b"", 0.5)
        again = await listener.ask(SERIAL_QUESTIONS[name])
        assert again[:10] == healthy[:10]
        assert lab.devices[name].boots == (2 if kind == "power_cut" else 1)


async def test_a_silent_pump_goes_on_and_a_dark_one_stands() -> None:
    async with lab_with() as (lab, injector):
        listener = await listener_on(lab, "reglo")
        for request in (b"1~1\r", b"1M\r", b"1f2000+0\r", b"1H\r"):
            await listener.ask(request, 0.2)
        before = flow_of(lab, "reglo.heart")
        assert before == pytest.approx(2000.0, rel=0.02)
        injector.inject(Fault("silent", "reglo", 0.0, 10.0))
        assert await listener.ask(b"1I\r") == b"", "it does not execute what it does not receive"
        assert flow_of(lab, "reglo.heart") == before
        await asyncio.sleep(10.0)
        injector.inject(Fault("power_cut", "reglo", 0.0, 10.0))
        assert flow_of(lab, "reglo.heart") == 0.0
        await asyncio.sleep(11.0)
        assert flow_of(lab, "reglo.heart") == 0.0, "nothing starts by itself"


async def test_a_reboot_brings_defaults_and_ends_what_ran() -> None:
    async with lab_with() as (lab, injector):
        listener = await listener_on(lab, "reglo")
        for request in (b"1~1\r", b"1M\r", b"1f2000+0\r", b"1H\r"):
            await listener.ask(request, 0.2)
        applied = injector.inject(Fault("reboot", "reglo", 0.0))
        assert applied is not None
        assert applied.ended_s == applied.begun_s
        assert await listener.ask(b"1~\r") == b"0\r\n"
        assert flow_of(lab, "reglo.heart") == 0.0


async def test_a_device_that_ignores_says_yes_and_shows_the_truth() -> None:
    async with lab_with() as (lab, injector):
        pump, dose, gas, relay = [await listener_on(lab, name) for name in ("reglo", "dose_base", "gas", "rs485")]
        await dose.ask(b"C,0\r")
        for request in (b"1~1\r", b"2O\r", b"2v5000+0\r", b"2f2000+0\r"):
            await pump.ask(request, 0.2)
        for name in ("reglo", "dose_base", "gas_co2", "relay"):
            injector.inject(Fault("ignores", name, 0.0, 60.0))
        assert await pump.ask(b"2H\r") == b"*"
        assert await pump.ask(b"2E\r") == b"-"
        assert await pump.ask(b"2f4000+0\r") == b"2000E+0\r\n"
        assert await dose.ask(b"D,5\r") == b"*OK\r"
        assert await dose.ask(b"D,?\r") == b"?D,0.00,0\r*OK\r"
        before = await gas.ask(b"B\r")
        assert (await gas.ask(b"BS5.00\r")).split()[5] == before.split()[5] == b"+00.000"
        assert await relay.ask(RELAY_ON) == RELAY_ON
        assert await relay.ask(RELAYS) == sealed(bytes.fromhex("03010100"))
        truth = lab.plant.truth()
        assert not any(truth.moved_ul.values())
        await asyncio.sleep(60.0)
        assert await pump.ask(b"2H\r") == b"*"
        assert await pump.ask(b"2E\r") == b"+"
        assert await dose.ask(b"D,5\r", 0.5) == b"*OK\r"
        assert (await gas.ask(b"BS5.00\r")).split()[5] == b"+05.000"
        await relay.ask(RELAY_ON)
        assert await relay.ask(RELAYS) == sealed(bytes.fromhex("03010101"))


async def test_a_running_pump_that_ignores_cannot_be_stopped() -> None:
    async with lab_with() as (lab, injector):
        pump, dose = await listener_on(lab, "reglo"), await listener_on(lab, "dose_base")
        for request in (b"1~1\r", b"1M\r", b"1f2000+0\r", b"1H\r"):
            await pump.ask(request, 0.2)
        await dose.ask(b"D,500,60\r")
        injector.inject(Fault("ignores", "reglo", 0.0, 20.0))
        injector.inject(Fault("ignores", "dose_base", 0.0, 20.0))
        assert await pump.ask(b"1I\r") == b"*"
        assert await pump.ask(b"1E\r") == b"+"
        await dose.ask(b"X\r")
        assert flow_of(lab, "dose_base.pump") > 0
        await asyncio.sleep(20.0)
        await pump.ask(b"1I\r")
        await dose.ask(b"X\r")
        assert flow_of(lab, "reglo.heart") == flow_of(lab, "dose_base.pump") == 0.0


async def test_other_address_answers_for_the_neighbour() -> None:
    async with lab_with() as (lab, injector):
        bus, gas = await listener_on(lab, "rs485"), await listener_on(lab, "gas")
        who = [sealed(bytes((number,)) + bytes.fromhex("0300080002")) for number in (1, 2)]
        injector.inject(Fault("other_address", "p_heart", 0.0, 30.0))
        injector.inject(Fault("other_address", "gas_co2", 0.0, 30.0))
        assert await bus.ask(who[0]) == b""
        assert len(await bus.ask(who[1])) == 18, "both answer"
        assert await gas.ask(b"B\r") == b""
        await gas.ask(b"CS5.00\r")
        assert lab.plant._gases["gas_co2.flow"] == lab.plant._gases["gas_o2.flow"] == 5.0
        await asyncio.sleep(30.0)
        for request in who:
            assert len(await bus.ask(request)) == 9
        assert (await gas.ask(b"B\r"))[:1] == b"B"


async def test_a_worn_eeprom_forgets_until_it_is_stored_again() -> None:
    async with lab_with() as (lab, injector):
        ph, do, pump = (lab.devices[name] for name in ("ph_loop", "do_loop", "dose_base"))
        pressure, reglo = cast(KellerXLine, lab.devices["p_heart"]), cast(IsmatecRegloIcc, lab.devices["reglo"])
        assert isinstance(ph, EzoPh)
        assert isinstance(do, EzoDo)
        assert isinstance(pump, AtlasEzoPmp)
        ph.command("Cal,mid,7.00")
        do.command("O,%,1")
        do.command("Cal")
        pump.command("D,1")
        await asyncio.sleep(5.0)
        pump.command("Cal,1.1")
        pressure.zero_bar = 0.25
        reglo.command("1*")
        first = ph.reading()
        assert float(first) == pytest.approx(7.0, abs=0.05)
        names = ("ph_loop", "do_loop", "dose_base", "p_heart", "reglo")
        for name in names:
            injector.inject(Fault("eeprom", name, 0.0, 100.0))
        injector.inject(Fault("eeprom", "p_heart", 0.0, 50.0))  # two overlap: the end of one is not the end of both
        assert all(lab.devices[name].boots > 1 for name in names)
        assert float(ph.reading()) == pytest.approx(7.35, abs=0.1) != float(first)
        assert not do.outputs["%"]
        assert pump._by_volume == 1.0
        assert [channel.settings.tubing for channel in reglo.channels.values()] == [FACTORY_TUBING] * 4
        await asyncio.sleep(60.0)
        assert pressure.zero_bar == 0.0
        await asyncio.sleep(45.0)
        assert float(ph.reading()) == pytest.approx(7.0, abs=0.05)
        assert do.outputs["%"]
        assert pump._by_volume == pytest.approx(1.1, abs=0.001)
        assert pressure.zero_bar == 0.25
        assert [channel.settings.tubing for channel in reglo.channels.values()] == [102] * 4


async def test_a_reversed_motor_turns_back_at_once_and_forward_again() -> None:
    async with lab_with() as (lab, injector):
        pump = await listener_on(lab, "reglo")
        for request in (b"1~1\r", b"2M\r", b"2f2000+0\r", b"2H\r"):
            await pump.ask(request, 0.2)
        await asyncio.sleep(60.0)
        spent = lab.plant.truth().volumes_ul["spent"]
        first = injector.inject(Fault("reversed", "reglo.draw", 0.0, 60.0))
        second = injector.inject(Fault("reversed", "reglo.draw", 0.0, 30.0))
        assert flow_of(lab, "reglo.draw") == pytest.approx(-2000.0, rel=0.02)
        assert await pump.ask(b"2E\r", 0.2) == b"+", "its electronics know nothing of it"
        await asyncio.sleep(60.0)
        assert lab.plant.truth().volumes_ul["spent"] < spent
        assert flow_of(lab, "reglo.draw") == pytest.approx(2000.0, rel=0.02)
        assert first is not None
        assert second is not None
        assert first.ended_s != second.ended_s


# --- readings -----------------------------------------------------------------------------------------------


async def pressure(lab: SimulatedLab) -> float:
    """What the heart's transmitter says over the wire (kPa)."""
    listener = await listener_on(lab, "rs485")
    reply = await listener.ask(sealed(bytes.fromhex("010300020002")))
    listener.writer.close()
    return float(struct.unpack(">f", reply[3:7])[0]) * 100.0


async def test_stuck_offset_and_noise_come_through_the_wire() -> None:
    async with lab_with() as (lab, injector):
        point = "p_heart.pressure"
        applied = injector.inject(Fault("stuck", point, 0.0))
        values = {await pressure(lab) for _ in range(5)}
        assert len(values) == 1
        assert applied is not None
        injector.end(applied)
        assert len({await pressure(lab) for _ in range(5)}) == 5
        for amount in (20.0, 5.0):
            injector.inject(Fault("offset", point, 0.0, 10.0, amount))
        assert await pressure(lab) == pytest.approx(25.0, abs=0.5)
        await asyncio.sleep(10.0)
        assert await pressure(lab) == pytest.approx(0.0, abs=0.5)
        stuck_off = injector.inject(Fault("stuck", point, 0.0, 10.0, 70.0))
        assert stuck_off is not None
        assert await pressure(lab) == pytest.approx(70.0, abs=0.5)
        await asyncio.sleep(10.0)
        noise = injector.inject(Fault("noise", point, 0.0, 0.0, 50.0))
        values = {await pressure(lab) for _ in range(30)}
        assert max(values) - min(values) > 1.5
        assert noise is not None
        injector.end(noise)
        values = {await pressure(lab) for _ in range(30)}
        assert max(values) - min(values) < 0.5


def test_every_kind_of_this_file_is_a_device_kind() -> None:
    shown = {
        "silent",
        "power_cut",
        "reboot",
        "ignores",
        "other_address",
        "eeprom",
        "reversed",
        "stuck",
        "offset",
        "noise",
    }
    assert {name for name, kind in KINDS.items() if kind.group == "device"} == shown | {"drift", "slipped"}


async def test_the_relays_of_a_dark_relay_board_open() -> None:
    async with lab_with() as (lab, injector):
        relay = await listener_on(lab, "rs485")
        await relay.ask(RELAY_ON)
        board = cast(ModbusCoilRelay, lab.devices["relay"])
        assert board.closed[0]
        injector.inject(Fault("power_cut", "relay", 0.0, 5.0))
        assert not board.closed[0]
