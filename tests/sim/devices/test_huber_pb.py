"""The simulated Huber thermostat against recorded telegrams."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.devices.huber_pb import HuberPb
from sim.virtual_time import run_virtual
from tests.sim.bench import RecordingPlant, Talker, client_of, device_on_a_line

pytestmark = pytest.mark.virtual_time


async def huber() -> tuple[HuberPb, Talker]:
    device = device_on_a_line(HuberPb, RecordingPlant())
    assert isinstance(device, HuberPb)
    return device, await client_of(device)


async def test_golden_telegrams() -> None:
    device, talker = await huber()
    device.setpoint = 1242
    assert await talker.ask(b"{M00****\r\n") == b"{S0004DA\r\n"
    assert await talker.ask(b"{M0007D0\r\n") == b"{S0007D0\r\n"
    assert await talker.ask(b"{M00F830\r\n") == b"{S00F830\r\n"
    assert await talker.ask(b"{M30****\r\n") == b"{S30EC78\r\n"
    assert await talker.ask(b"{M31****\r\n") == b"{S313A98\r\n"
    await talker.ask(b"{M00F2DF\r\n")
    assert device.setpoint == -3361
    assert await talker.ask(b"{M77****\r\n") == b""


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (b"{M07****\r\n", b"{S07C504\r\n"),
        (b"{M3A****\r\n", b"{S3AC504\r\n"),
        (b"{M01****\r\n", b"{S0107D0\r\n"),
        (b"{M0A****\r\n", b"{S0A0013\r\n"),
        (b"{M00FFFF\r\n", b"{S00FFFF\r\n"),
        (b"{M007FFF\r\n", b"{S0007D0\r\n"),  # beyond its limits: what stands
        (b"{M010000\r\n", b"{S0107D0\r\n"),  # cannot be written
        (b"{S00****\r\n", b""),
        (b"{M00***\r\n", b""),
        (b"{M00****\r", b""),
        (b"{M00GGGG\r\n", b""),
        (b"x{M00****\r\n", b""),
    ],
)
async def test_answers_and_silence(request_: bytes, answer: bytes) -> None:
    _, talker = await huber()
    assert await talker.ask(request_) == answer


async def test_the_bath_follows_and_a_locked_controller_does_not_obey() -> None:
    device, talker = await huber()
    await talker.ask(b"{M000E74\r\n")
    await asyncio.sleep(1200)
    assert await talker.ask(b"{M01****\r\n") == b"{S010E74\r\n"
    device.locked = True
    assert await talker.ask(b"{M0007D0\r\n") == b"{S000E74\r\n"
    device.process_sensor = True
    assert await talker.ask(b"{M07****\r\n") == b"{S070E4C\r\n"
    device.power_cycle()
    assert await talker.ask(b"{M00****\r\n") == b"{S000E74\r\n"
    assert await talker.ask(b"{M1B****\r\n") + await talker.ask(b"{M1C****\r\n") == b"{S1B0006\r\n{S1C1AE4\r\n"
    assert device.serial == 0x61AE4


async def test_control_and_circulation_are_switched() -> None:
    device, talker = await huber()
    await talker.ask(b"{M000E74\r\n")
    assert await talker.ask(b"{M14****\r\n") == b"{S140001\r\n"
    assert await talker.ask(b"{M140000\r\n", 7200) == b"{S140000\r\n"
    assert device.bath.temperature_c < 30.0
    assert await talker.ask(b"{M0A****\r\n") == b"{S0A0000\r\n"
    assert await talker.ask(b"{M160001\r\n") == b"{S160001\r\n"
    assert await talker.ask(b"{M0A****\r\n") == b"{S0A0012\r\n"
    assert await talker.ask(b"{M140001\r\n", 1200) == b"{S140001\r\n"
    assert device.bath.temperature_c == pytest.approx(37.0, abs=0.01)
    assert await talker.ask(b"{M160000\r\n") == b"{S160001\r\n"  # it regulates: it must circulate
    device.locked = True
    assert await talker.ask(b"{M140000\r\n") == b"{S140001\r\n"


async def _fed(chunks: list[bytes]) -> int:
    device, talker = await huber()
    for chunk in chunks:
        talker.say(chunk)
    await talker.ask(b"\r\n", 1.0)
    assert await talker.ask(b"{M31****\r\n") == b"{S313A98\r\n"
    return device.setpoints_taken


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=16), st.sampled_from((b"{M00", b"****", b"\r\n", b"{S"))), max_size=9))
def test_C2_any_bytes_never_raise_and_change_nothing(chunks: list[bytes]) -> None:
    assert run_virtual(_fed(chunks)) == 0
