"""The simulated Julabo: the manual's answers, silence after out_…, and commands that come too soon."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.devices.julabo import Julabo
from sim.virtual_time import run_virtual
from tests.sim.bench import RecordingPlant, Talker, client_of, device_on_a_line

pytestmark = pytest.mark.virtual_time


async def julabo(address: str = "", **more: bool) -> tuple[Julabo, Talker]:
    device = device_on_a_line(Julabo, RecordingPlant(), address=address, settings=more)
    assert isinstance(device, Julabo)
    return device, await client_of(device)


async def test_golden_answers() -> None:
    device, talker = await julabo()
    assert await talker.ask(b"out_sp_00 55.5\r") == b""
    assert await talker.ask(b"in_sp_00\r") == b"55.5\n"
    assert await talker.ask(b"in_mode_05\r") == b"0\n"
    assert await talker.ask(b"out_mode_05 1\r") == b""
    assert await talker.ask(b"in_mode_05\r") == b"1\n"
    device.end_of_line = "\r\n"
    assert await talker.ask(b"in_sp_00\r") == b"55.5\r\n"


async def test_golden_answers_with_an_address() -> None:
    _, talker = await julabo("32")
    await talker.ask(b"A032_out_sp_00 55.5\r")
    assert await talker.ask(b"A032_in_sp_00\r") == b"A032_55.5\n"
    assert await talker.ask(b"A033_in_sp_00\r") == b""
    assert await talker.ask(b"in_sp_00\r") == b""


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (b"version\r", b"JULABO FP50-MH VERSION 1.0\n"),
        (b"status\r", b"02 REMOTE STOP\n"),
        (b"in_pv_00\r", b"20.0\n"),
        (b"in_pv_01\r", b"0.0\n"),
        (b"in_pv_02\r", b"---.--\n"),
        (b"in_sp_03\r", b"200.0\n"),
        (b"in_sp_04\r", b"-50.0\n"),
        (b"in_par_06\r", b"0.4\n"),
        (b"in_xy_00\r", b""),
        (b"in_sp_00 1\r", b""),
        (b"out_sp_00\r", b""),
    ],
)
async def test_answers(question: bytes, answer: bytes) -> None:
    _, talker = await julabo()
    assert await talker.ask(question) == answer


@pytest.mark.parametrize("value", [b"nan", b"1e2", b"-51", b"201", b"", b"x"])
async def test_set_points_that_it_does_not_take(value: bytes) -> None:
    device, talker = await julabo()
    await talker.ask(b"out_sp_00 " + value + b"\r")
    assert device.setpoints[0] == 20.0


async def test_what_comes_too_soon_is_lost() -> None:
    device, talker = await julabo()
    assert await talker.ask(b"in_sp_00\rin_sp_00\r") == b"20.0\n"
    talker.received = b""
    talker.say(b"out_sp_00 37\r")
    await asyncio.sleep(0.2)
    talker.say(b"in_mode_05\r")
    await asyncio.sleep(1)
    assert talker.received == b""
    assert device.lost == 2


async def test_after_an_answer_it_is_ready_at_once_and_capitals_do() -> None:
    device, talker = await julabo()
    answered_s = 0.015 + (len(b"IN_SP_00\r") + len(b"20.0\n")) * 10 / device.baud
    assert await talker.ask(b"IN_SP_00\r", answered_s + 0.011) == b"20.0\n"
    assert await talker.ask(b"In_Mode_05\r") == b"0\n"
    await talker.ask(b"OUT_SP_00 37\r")
    assert device.setpoints[0] == 37.0
    assert device.lost == 0


async def test_local_mode_alarms_and_the_bath() -> None:
    device, talker = await julabo(external=True)
    device.remote = False
    await talker.ask(b"out_mode_05 1\r")
    assert not device.running
    device.remote = True
    await talker.ask(b"out_sp_00 37\r")
    await talker.ask(b"out_mode_05 1\r", 1200)
    assert await talker.ask(b"in_pv_00\r") == b"37.0\n"
    assert await talker.ask(b"in_pv_02\r") == b"36.7\n"
    assert await talker.ask(b"status\r") == b"03 REMOTE START\n"
    device.fail("-01 LOW LEVEL ALARM")
    assert await talker.ask(b"status\r") == b"-01 LOW LEVEL ALARM\n"
    await talker.ask(b"out_mode_05 1\r")
    assert await talker.ask(b"in_mode_05\r") == b"0\n"
    device.power_cycle()
    assert not device.running


async def _fed(chunks: list[bytes]) -> None:
    _, talker = await julabo()
    for chunk in chunks:
        talker.say(chunk)
        await asyncio.sleep(0.26)
    await talker.ask(b"\r", 0.3)
    assert await talker.ask(b"version\r") == b"JULABO FP50-MH VERSION 1.0\n"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.binary(max_size=16), st.sampled_from((b"in_pv_00\r", b"out_sp_00 3", b"9\r"))), max_size=8)
)
def test_C2_any_bytes_never_raise(chunks: list[bytes]) -> None:
    run_virtual(_fed(chunks))
