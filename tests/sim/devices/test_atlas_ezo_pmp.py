"""The simulated EZO-PMP against captures of firmware 1.06 and the data sheet: doses, totals, calibration, errors."""

from __future__ import annotations

import asyncio

import pytest

from sim.devices.atlas_ezo_pmp import AtlasEzoPmp
from tests.sim.bench import RecordingPlant, Talker, client_of, device_on_a_line

POINT = "d.pump"


async def pump() -> tuple[AtlasEzoPmp, Talker, RecordingPlant]:
    plant = RecordingPlant()
    device = device_on_a_line(AtlasEzoPmp, plant)
    assert isinstance(device, AtlasEzoPmp)
    talker = await client_of(device)
    assert await talker.ask(b"C,0\r", 0.1) == b"*OK\r"
    return device, talker, plant


GOLDEN = [
    (b"i\r", "3F 49 2C 50 4D 50 2C 31 2E 30 36 0D", True),
    (b"Cal,?\r", "3F 43 41 4C 2C 30 0D", True),
    (b"D,?\r", b"?D,0.00,0\r".hex(), True),
    (b"DC,?\r", b"?MAXRATE,58.5\r".hex(), True),
    (b"P,?\r", b"?P,0\r".hex(), True),
    (b"TV,?\r", b"?TV,0.00\r".hex(), True),
    (b"ATV,?\r", b"?ATV,0.00\r".hex(), True),
    (b"PV,?\r", b"?PV,12.00\r".hex(), True),
    (b"Dstart,?\r", b"?DSTART,0.00\r".hex(), True),
    (b"Status\r", b"?STATUS,P,3.28\r".hex(), True),
    (b"R\r", b"0.00\r".hex(), True),
    (b"DC,25,40\r", "", True),
    (b"X\r", b"*DONE,0.83\r".hex(), False),
    (b"D,0.4\r", b"*MINVOL\r*ER\r".hex(), False),
    (b"D,-0.4\r", b"*MINVOL\r*ER\r".hex(), False),
    (b"DC,80.00,*\r", b"*TOOFAST\r*ER\r".hex(), False),
    (b"D,10,0.01\r", b"*TOOFAST\r*ER\r".hex(), False),
    (b"D,ten\r", b"*ER\r".hex(), False),
    (b"D,nan\r", b"*ER\r".hex(), False),
    (b"D,1e3\r", b"*ER\r".hex(), False),
    (b"D,10,\r", b"*ER\r".hex(), False),
    (b"D\r", b"*ER\r".hex(), False),
]


@pytest.mark.virtual_time
async def test_golden_frames() -> None:
    _, talker, _ = await pump()
    for request, data, with_code in GOLDEN:
        assert await talker.ask(request) == bytes.fromhex(data) + b"*OK\r" * with_code, request


@pytest.mark.virtual_time
async def test_boot_is_the_captured_one() -> None:
    device = device_on_a_line(AtlasEzoPmp, RecordingPlant())
    talker = await client_of(device, quiet=False)
    await asyncio.sleep(2.5)
    assert talker.received == bytes.fromhex("2A 52 53 0D 2A 52 45 0D") + b"0.00\r0.00\r"


@pytest.mark.virtual_time
async def test_a_dose_at_full_speed_takes_its_time_and_says_done() -> None:
    _, talker, plant = await pump()
    assert await talker.ask(b"D,10\r", 60) == b"*OK\r*DONE,10.00\r"
    assert plant.moved(POINT, 1e6) == pytest.approx(10_000, rel=1e-9)
    assert plant.log[-1][0] - plant.log[0][0] == pytest.approx(5.7, abs=0.1)
    assert await talker.ask(b"R\rTV,?\rATV,?\rD,?\r") == (
        b"10.00\r*OK\r?TV,10.00\r*OK\r?ATV,10.00\r*OK\r?D,10.00,0\r*OK\r"
    )


@pytest.mark.virtual_time
async def test_a_dose_over_time_ends_by_itself_with_every_client_gone() -> None:
    device, talker, plant = await pump()
    talker.say(b"D,15,1.5\r")
    assert device.line is not None
    device.line.disconnect(talker)
    await asyncio.sleep(3600)
    assert plant.moved(POINT, 1e6) == pytest.approx(15_000, rel=1e-9)
    assert plant.log[-1][0] - plant.log[0][0] == pytest.approx(90, rel=1e-9)
    assert not device.dosing


@pytest.mark.virtual_time
async def test_stop_tells_what_was_given_and_nothing_follows() -> None:
    _, talker, plant = await pump()
    await talker.ask(b"D,10,1\r", 6.0)
    assert await talker.ask(b"X\r", 600) == b"*DONE,1.00\r"
    assert plant.moved(POINT, 1e6) == pytest.approx(1000, rel=1e-3)
    assert await talker.ask(b"X\r", 60) == b"*DONE,1.00\r"


@pytest.mark.virtual_time
async def test_reverse_counts_down_in_the_total_and_up_in_the_absolute_one() -> None:
    _, talker, plant = await pump()
    await talker.ask(b"D,5\r", 60)
    await talker.ask(b"D,-2\r", 60)
    assert min(flow for _, _, flow in plant.log) == pytest.approx(-105_000)
    assert await talker.ask(b"TV,?\rATV,?\r") == b"?TV,3.00\r*OK\r?ATV,7.00\r*OK\r"
    assert await talker.ask(b"Clear\rTV,?\rATV,?\r") == b"*OK\r?TV,0.00\r*OK\r?ATV,0.00\r*OK\r"


@pytest.mark.virtual_time
async def test_pause_and_go_on() -> None:
    _, talker, plant = await pump()
    await talker.ask(b"D,10,1\r", 30)
    assert await talker.ask(b"P\rP,?\rD,?\r", 600) == b"*OK\r?P,1\r*OK\r?D,10.00,0\r*OK\r"
    assert await talker.ask(b"P\r", 60) == b"*OK\r*DONE,10.00\r"
    assert plant.moved(POINT, 1e6) == pytest.approx(10_000, rel=1e-9)


@pytest.mark.virtual_time
async def test_continuous_dosing_and_invert() -> None:
    _, talker, plant = await pump()
    assert await talker.ask(b"D,*\rD,?\r") == b"*OK\r?D,*,1\r*OK\r"
    assert plant.last(POINT) == 105_000
    assert await talker.ask(b"Invert\r") == b"*OK\r"
    assert plant.last(POINT) == -105_000
    await talker.ask(b"X\rInvert\rDC,-30,*\r")
    assert plant.last(POINT) == -30_000


@pytest.mark.virtual_time
async def test_report_while_dosing_only() -> None:
    _, talker, _ = await pump()
    assert await talker.ask(b"C,*\r", 5) == b"*OK\r"
    received = await talker.ask(b"D,1,0.1\r", 20)
    assert received.startswith(b"*OK\r")
    assert received.endswith(b"*DONE,1.00\r")
    assert 5 <= received.count(b"\r") - 2 <= 6


@pytest.mark.virtual_time
async def test_calibration_by_volume_and_by_time() -> None:
    _, talker, plant = await pump()
    await talker.ask(b"D,10\r", 60)
    assert await talker.ask(b"Cal,8.3\rCal,?\rDC,?\r") == b"*OK\r?CAL,1\r*OK\r?MAXRATE,58.5\r*OK\r"
    before = plant.moved(POINT, 1e6)
    await talker.ask(b"D,10\r", 60)
    assert plant.moved(POINT, 1e6) - before == pytest.approx(10_000 / 0.83, rel=1e-9)
    await talker.ask(b"D,10,1\r", 90)
    assert await talker.ask(b"Cal,9\rCal,?\rDC,?\r") == b"*OK\r?CAL,3\r*OK\r?MAXRATE,52.65\r*OK\r"
    await talker.ask(b"DC,20,*\r")
    assert plant.last(POINT) == pytest.approx(20_000 / 0.9)
    assert await talker.ask(b"X\rCal,clear\rCal,?\r") != b""
    assert await talker.ask(b"Cal,?\r") == b"?CAL,0\r*OK\r"


@pytest.mark.virtual_time
async def test_motor_without_supply_doses_nothing() -> None:
    device, talker, plant = await pump()
    device.motor_v = 0.05
    assert await talker.ask(b"D,10\r") == b"*UV,PUMPPWR,0.05\r*ER\r"
    assert await talker.ask(b"DC,80.00,*\r") == b"*UV,PUMPPWR,0.05\r*ER\r"
    assert plant.log == []


@pytest.mark.virtual_time
async def test_power_cut_ends_a_dose_and_zeroes_the_totals() -> None:
    device, talker, plant = await pump()
    await talker.ask(b"D,10,1\r", 30)
    device.power_off()
    assert plant.last(POINT) == 0.0
    assert await talker.ask(b"TV,?\r", 600) == b""
    device.power_on()
    await talker.ask(b"C,0\r")
    assert await talker.ask(b"TV,?\rD,?\r", 600) == b"?TV,0.00\r*OK\r?D,0.00,0\r*OK\r"
    assert plant.moved(POINT, 1e6) == pytest.approx(5000, rel=1e-3)


@pytest.mark.virtual_time
async def test_dose_at_start_is_stored_and_given_at_each_power_up() -> None:
    device, talker, plant = await pump()
    assert await talker.ask(b"Dstart,2\rDstart,?\r") == b"*OK\r?DSTART,2.00\r*OK\r"
    device.power_cycle()
    await asyncio.sleep(60)
    assert plant.moved(POINT, 1e6) == pytest.approx(2000, rel=1e-9)
    assert b"*OK" in await talker.ask(b"Dstart,off\r")


@pytest.mark.virtual_time
async def test_sleep_stops_the_pump() -> None:
    _, talker, plant = await pump()
    await talker.ask(b"D,10,1\r")
    assert await talker.ask(b"Sleep\r") == b"*OK\r*SL\r"
    assert plant.last(POINT) == 0.0
    assert await talker.ask(b"D,10\r") == b"*WA\r"
    assert plant.last(POINT) == 0.0
