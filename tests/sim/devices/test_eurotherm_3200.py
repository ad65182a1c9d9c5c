"""The simulated 3200 controller: golden frames, EEPROM that wears, and a remote set-point that is forgotten."""

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.devices.eurotherm_3200 import Eurotherm3200
from sim.devices.modbus_slave import sealed
from sim.virtual_time import run_virtual
from tests.sim.bench import RecordingPlant, Talker, client_of, device_on_a_line

pytestmark = pytest.mark.virtual_time


def hexed(text: str) -> bytes:
    return bytes.fromhex(text)


async def controller(**given: float) -> tuple[Eurotherm3200, Talker]:
    device = device_on_a_line(Eurotherm3200, RecordingPlant(), address="1", settings=given)
    assert isinstance(device, Eurotherm3200)
    return device, await client_of(device)


async def test_golden_frames() -> None:
    device, talker = await controller()
    device.bath._from_c, device.bath._since_s = 37.0, asyncio.get_running_loop().time() + 0.05
    device.bath.goal_c = 37.0
    device._stored[24] = 370
    assert await talker.ask(hexed("01 03 00 01 00 01 D5 CA")) == hexed("01 03 02 01 72 39 F1")
    assert await talker.ask(hexed("01 06 00 02 01 72 A9 BF")) == hexed("01 06 00 02 01 72 A9 BF")


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        ("01 03 00 02 00 02", "01 03 04 00 C8 00 00"),
        ("01 03 00 0B 00 02", "01 03 04 FF 9C 03 E8"),
        ("01 03 00 6B 00 01", "01 03 02 02 10"),
        ("01 03 00 83 00 01", "01 03 02 00 01"),
        ("01 10 00 1A 00 01 02 01 72", "01 10 00 1A 00 01"),
        ("01 03 00 00 00 01", "01 83 02"),
        ("01 03 00 01 00 00", "01 83 03"),
        ("01 06 00 1A 7F FF", "01 86 03"),
        ("01 06 00 01 00 10", "01 86 02"),
        ("01 06 03 00 00 10", "01 86 02"),
        ("01 10 00 18 00 02 04 00 01 00 02", "01 90 03"),
        ("01 01 00 00 00 01", "01 81 01"),
        ("01 04 00 01 00 01", "01 84 01"),
    ],
)
async def test_requests_and_refusals(request_: str, reply: str) -> None:
    _, talker = await controller()
    assert await talker.ask(sealed(hexed(request_))) == sealed(hexed(reply))


async def working(talker: Talker) -> int:
    return int.from_bytes((await talker.ask(sealed(hexed("01 03 00 05 00 01")), 0.1))[3:5], "big")


async def test_the_remote_set_point_is_believed_for_five_seconds_and_wears_nothing() -> None:
    device, talker = await controller()
    await talker.ask(sealed(hexed("01 06 00 1A 01 72")), 0.1)
    assert await working(talker) == 370
    await asyncio.sleep(4)
    assert await working(talker) == 370
    await asyncio.sleep(2)
    assert await working(talker) == 200
    assert device.bath.goal_c == 20.0
    assert device.memory_writes == 0
    device.remote_s = math.inf
    await talker.ask(sealed(hexed("01 06 00 1A 01 72")), 600)
    assert device.bath.temperature_c == pytest.approx(37.0, abs=0.2)
    await talker.ask(sealed(hexed("01 06 00 02 01 2C")), 0.1)
    assert device.memory_writes == 1
    assert await working(talker) == 370
    device.power_cycle()
    assert await working(talker) == 300


async def test_what_was_not_selected_is_not_followed() -> None:
    device, talker = await controller()
    device.remote_selected = False
    await talker.ask(sealed(hexed("01 06 00 1A 01 72")), 0.1)
    assert await working(talker) == 200
    device.sensor_broken = True
    assert (await talker.ask(sealed(hexed("01 03 00 01 00 01"))))[3:5] == b"\x7f\xff"


async def test_the_bath_heats_cools_and_takes_power() -> None:
    device, talker = await controller(decimals=2)
    device.remote_s = math.inf
    await talker.ask(sealed(hexed("01 06 00 1A 0E 74")), 0.1)  # 37.00
    assert (await talker.ask(sealed(hexed("01 03 00 04 00 01")), 0.1))[3:5] == hexed("27 10")
    await asyncio.sleep(1200)
    power = int.from_bytes((await talker.ask(sealed(hexed("01 03 00 04 00 01")), 0.1))[3:5], "big") / 100
    assert power == pytest.approx(0.8 * 17, abs=0.5)
    device.power_off()
    await asyncio.sleep(3600)
    assert device.bath.temperature_c == pytest.approx(20 + 17 * math.exp(-1), abs=0.2)


async def _fed(chunks: list[bytes]) -> int:
    device, talker = await controller()
    for chunk in chunks:
        talker.say(chunk)
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.1)
    assert await talker.ask(sealed(hexed("01 03 00 6B 00 01"))) == sealed(hexed("01 03 02 02 10"))
    return device.memory_writes


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.one_of(st.binary(max_size=12), st.binary(min_size=3, max_size=10).map(lambda b: sealed(b"\x01" + b))),
        max_size=8,
    )
)
def test_C2_any_bytes_and_any_sealed_request_never_raise(chunks: list[bytes]) -> None:
    run_virtual(_fed(chunks))
