"""The simulated Watson-Marlow pumps against the manuals: golden frames, silence, echo, doses by tacho."""

from __future__ import annotations

import asyncio

import pytest

from sim.devices.watson_marlow import WatsonMarlow
from tests.sim.bench import RecordingPlant, Talker, client_of, device_on_a_line

pytestmark = pytest.mark.virtual_time


async def pump(
    plant: RecordingPlant | None = None, address: str = "1", **settings: float | str | bool
) -> tuple[WatsonMarlow, Talker]:
    device = device_on_a_line(WatsonMarlow, plant or RecordingPlant(), address=address, settings=settings)
    assert isinstance(device, WatsonMarlow)
    return device, await client_of(device)


async def test_golden_commands_are_obeyed_in_silence() -> None:
    plant = RecordingPlant()
    _, talker = await pump(plant, "2", series="520", ul_per_rev=10.0)
    for request, flow in ((b"2SP220\r", 0.0), (b"2GO\r", 2200.0), (b"2RL\r", -2200.0), (b"2ST\r", 0.0)):
        assert await talker.ask(request) == b""
        assert plant.last("d.pump") == pytest.approx(flow)


async def test_golden_status_of_a_323_with_its_echo() -> None:
    _, talker = await pump(series="323", max_rpm=400.0)
    assert await talker.ask(b"1GO\r1RS\r") == b"1GO\r1RS\r323Du 110 CW 1 !\r"
    assert await talker.ask(b"1ZY\r") == b"1ZY\r1\r"
    quiet, talker = await pump(series="323", echo=False)
    assert await talker.ask(b"1RS\r") == b"323Du 110 CW 0 !\r"
    assert not quiet.motor.running


@pytest.mark.parametrize(
    ("series", "text"),
    [
        ("520", b"520Du 15.84 520R 9.6MM 220.0 CW P/N 1 0 1 !\r"),
        ("720", b"720Du 15.84 720R 9.6MM 220.0 CW P/N 1 0 1 !\r"),
    ],
)
async def test_golden_status(series: str, text: bytes) -> None:
    _, talker = await pump(series=series)
    talker.say(b"1SP220.0\r1TC\r1GO\r")
    assert await talker.ask(b"1RS\r", 0.1) == text


async def test_a_speed_with_a_blank_is_taken_too() -> None:
    device, talker = await pump(series="323", max_rpm=400.0)
    await talker.ask(b"1SP 123.000000\r")
    assert device.rpm == 123.0


async def test_a_dose_of_pulses_ends_by_itself_and_the_tacho_tells_it() -> None:
    plant = RecordingPlant()
    _, talker = await pump(plant, series="720", ul_per_rev=100.0)
    await talker.ask(b"1SP60\r1DO00109820\r")
    assert await talker.ask(b"1ZY\r") == b"1\r"
    await asyncio.sleep(20)
    assert plant.moved("d.pump", 1e6) == pytest.approx(1000.0)
    assert await talker.ask(b"1RT\r1TC\r1RT\r") == b"109820\r0\r"


@pytest.mark.parametrize(
    "request_",
    [b"1SP999\r", b"1SP-5\r", b"1SPnan\r", b"1DO0\r", b"1DO\r", b"1XX\r", b"2GO\r", b"GO\r", b"#RS\r", b"\xff\r"],
)
async def test_C2_what_cannot_be_done_is_ignored_in_silence(request_: bytes) -> None:
    plant = RecordingPlant()
    device, talker = await pump(plant, series="520")
    assert await talker.ask(request_) == b""
    assert device.rpm == 110.0
    assert plant.log == []


async def test_all_pumps_obey_the_number_sign() -> None:
    plant = RecordingPlant()
    device, talker = await pump(plant, "7", series="520", ul_per_rev=10.0)
    await talker.ask(b"#SP100\r#GO\r")
    assert plant.last("d.pump") == pytest.approx(1000.0)
    device.power_cycle()
    assert plant.last("d.pump") == 0.0


async def test_a_323_knows_no_doses() -> None:
    plant = RecordingPlant()
    await (await pump(plant, series="323"))[1].ask(b"1DO100\r")
    assert plant.log == []
