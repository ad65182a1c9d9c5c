"""A simulated line: how long bytes take, which client receives what, what a pulled cable or a power cut loses."""

from __future__ import annotations

import asyncio

import pytest

from sim.devices.atlas_ezo import EzoPh
from sim.devices.mettler_sics import MettlerSics
from sim.devices.wire import Bus
from tests.sim.bench import RecordingPlant, Talker, client_of, device_on_a_line


async def ph() -> tuple[EzoPh, Bus, Talker]:
    device = device_on_a_line(EzoPh, RecordingPlant(d__ph=7.0))
    talker = await client_of(device)
    await talker.ask(b"C,0\r")
    assert isinstance(device, EzoPh)
    assert device.line is not None
    return device, device.line, talker


@pytest.mark.virtual_time
@pytest.mark.parametrize("baud", [300, 9600, 115200])
async def test_an_answer_takes_request_thought_and_answer_at_the_lines_speed(baud: int) -> None:
    device, line, talker = await ph()
    line.set_baud(baud)
    began = asyncio.get_running_loop().time()
    talker.times.clear()
    assert await talker.ask(b"i\r") == b"?I,pH,2.16\r*OK\r"
    assert talker.times == [pytest.approx(began + (2 + 15) * 10 / baud + device.think_s)]


@pytest.mark.virtual_time
async def test_each_client_receives_its_own_answers_and_all_receive_unrequested_messages() -> None:
    device, line, first = await ph()
    second = Talker(line)
    first.received = b""
    first.say(b"R\r")
    second.say(b"i\r")
    await asyncio.sleep(2)
    assert (first.received, second.received) == (b"7.000\r*OK\r", b"?I,pH,2.16\r*OK\r")
    first.received = second.received = b""
    device.power_cycle()
    await asyncio.sleep(0.5)
    assert first.received == second.received == b"*RS\r*RE\r"


@pytest.mark.virtual_time
async def test_an_answer_whose_asker_has_gone_is_lost() -> None:
    _, line, first = await ph()
    second = Talker(line)
    first.received = b""
    first.say(b"R\r")
    line.disconnect(first)
    await asyncio.sleep(2)
    assert first.received == second.received == b""


@pytest.mark.virtual_time
async def test_C1_a_pulled_cable_hangs_up_refuses_and_works_again() -> None:
    device, line, talker = await ph()
    talker.received = b""
    talker.say(b"R\r")
    line.unplug()
    assert talker.hung_up
    with pytest.raises(ConnectionRefusedError):
        Talker(line)
    await asyncio.sleep(5)
    line.plug()
    again = Talker(line)
    assert await again.ask(b"R\r") == b"7.000\r*OK\r"
    assert talker.received == b""
    assert device.boots == 1


@pytest.mark.virtual_time
async def test_a_power_cut_loses_what_is_under_way_even_when_power_is_back_at_once() -> None:
    device, _, talker = await ph()
    talker.received = b""
    talker.say(b"R\r")
    device.power_cycle()
    await asyncio.sleep(0.95)
    assert talker.received == b"*RS\r*RE\r"


@pytest.mark.virtual_time
async def test_an_echoing_converter_returns_each_request_before_the_answer() -> None:
    device = EzoPh("d", device_on_a_line(EzoPh, RecordingPlant(d__ph=7.0)).spec, RecordingPlant(d__ph=7.0))
    line = Bus("sim:echo", echo=True)
    line.attach(device)
    device.power_on()
    talker = await client_of(device)
    await talker.ask(b"C,0\r")
    assert await talker.ask(b"i\r") == b"i\r?I,pH,2.16\r*OK\r"


@pytest.mark.virtual_time
async def test_a_tampered_line_garbles_or_loses() -> None:
    _, line, talker = await ph()
    line.tamper = lambda data: data[:-1] + b"?"
    assert await talker.ask(b"i\r") == b"?I,pH,2.16\r*OK?"
    line.tamper = lambda data: b""
    assert await talker.ask(b"i\r") == b""


@pytest.mark.virtual_time
async def test_answers_that_are_waited_for_go_to_who_asked() -> None:
    device = device_on_a_line(MettlerSics, RecordingPlant(d__mass=5.0))
    assert device.line is not None
    first = await client_of(device)
    second = Talker(device.line)
    first.say(b"S\r\n")
    second.say(b"I11\r\n")
    await asyncio.sleep(2)
    assert first.received == b"S S       5.00 g\r\n"
    assert second.received == b'I11 A "MS3002S"\r\n'


@pytest.mark.virtual_time
async def test_S3_a_flood_neither_blocks_the_line_for_hours_nor_piles_up_answers() -> None:
    _, _, talker = await ph()
    for _ in range(1000):
        talker.say(b"R\r" * 10)
    assert len(asyncio.get_running_loop()._scheduled) < 200  # type: ignore[attr-defined]
    await asyncio.sleep(100)
    assert await talker.ask(b"i\r") == b"?I,pH,2.16\r*OK\r"
    talker.say(b"x" * 1_000_000)
    assert await talker.ask(b"\ri\r") == b"*ER\r?I,pH,2.16\r*OK\r"
