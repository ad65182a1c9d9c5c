"""The simulated VICI actuator: the replies of the maker's note, the direction it turns, and what it ignores."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.devices.vici_actuator import ViciActuator
from sim.virtual_time import run_virtual
from tests.sim.bench import RecordingPlant, Talker, client_of, device_on_a_line

pytestmark = pytest.mark.virtual_time


async def actuator(ident: str = "", **more: float) -> tuple[ViciActuator, Talker, RecordingPlant]:
    plant = RecordingPlant()
    device = device_on_a_line(ViciActuator, plant, address=ident, settings={"positions": 10.0, **more})
    assert isinstance(device, ViciActuator)
    return device, await client_of(device), plant


async def test_golden_replies() -> None:
    device, talker, plant = await actuator()
    assert await talker.ask(b"CP\r") == b"CP01\r"
    assert await talker.ask(b"GO3\r") == b""
    assert plant.last("d.valve") == 3.0
    assert await talker.ask(b"AM\r") == b"AM3\r"
    device.moves = 12
    assert await talker.ask(b"CNT\r") == b"CNT00012\r"
    assert await talker.ask(b"NP\r") == b"NP10\r"
    assert (await talker.ask(b"VR\r")).count(b"\r") == 5
    device.long = True
    assert await talker.ask(b"CP\r") == b'Position is  = "03"\r'
    device.end_of_line = "\r\n"
    assert await talker.ask(b"cp\r") == b'Position is  = "03"\r\n'


@pytest.mark.parametrize(
    ("commands", "position", "seconds"),
    [
        ([b"GO9\r"], 9, 2 * 0.15),
        ([b"GO6\r"], 6, 5 * 0.15),
        ([b"CW9\r"], 9, 8 * 0.15),
        ([b"CC9\r"], 9, 2 * 0.15),
        ([b"CC\r"], 10, 0.15),
        ([b"GO\r", b"CW\r", b"HM\r"], 1, 8 * 0.15),
        ([b"GO1\r"], 1, 0.0),
    ],
)
async def test_the_way_it_turns(commands: list[bytes], position: int, seconds: float) -> None:
    device, talker, _ = await actuator()
    for command in commands:
        began_s = asyncio.get_running_loop().time()
        talker.say(command)
        while device._turning is not None:
            await asyncio.sleep(0.01)
    assert device.position == position
    assert asyncio.get_running_loop().time() - began_s == pytest.approx(seconds, abs=0.02)


async def test_moves_may_be_answered_and_commands_during_a_move_are_ignored() -> None:
    device, talker, _ = await actuator()
    await talker.ask(b"IFM1\r")
    talker.received = b""
    talker.say(b"GO5\r")
    await asyncio.sleep(0.1)
    talker.say(b"CP\rGO9\r")
    await asyncio.sleep(2)
    assert talker.received == b"GO5\r"
    assert device.position == 5


async def test_the_number_of_positions_and_the_mode_can_be_set() -> None:
    """A head with as many ports is fitted; there is no other mode than the one for many positions."""
    device, talker, _ = await actuator()
    assert await talker.ask(b"AM3\r") == b""
    assert await talker.ask(b"NP8\r") == b""
    assert await talker.ask(b"NP\r") == b"NP08\r"
    assert (await talker.ask(b"GO9\r")).endswith(b"Bad command\r")
    for refused in (b"AM1\r", b"NP1\r", b"NP97\r"):
        assert (await talker.ask(refused)).endswith(b"Bad command\r")
    assert device.positions == 8


async def test_an_id_once_set_must_be_named() -> None:
    _, talker, _ = await actuator("7")
    assert await talker.ask(b"CP\r") == b""
    assert await talker.ask(b"7CP\r") == b"CP01\r"
    assert await talker.ask(b"*CP\r") == b"CP01\r"
    assert await talker.ask(b"8CP\r") == b""


@pytest.mark.parametrize("command", [b"GO11\r", b"GO0\r", b"GOx\r", b"XY\r", b"CP1\r", b"IFM9\r"])
async def test_bad_commands_move_nothing(command: bytes) -> None:
    device, talker, plant = await actuator()
    assert (await talker.ask(command)).endswith(b"Bad command\r")
    assert device.position == 1
    assert plant.log == []


async def test_power_stops_the_motor_and_the_valve_stays_between_two_ports() -> None:
    device, talker, plant = await actuator(rest_position=2)
    talker.say(b"GO7\r")
    await asyncio.sleep(0.2)
    device.power_cycle()
    await asyncio.sleep(5)
    assert device.position == 3
    assert await talker.ask(b"CP\r") == b"CP03\r"
    assert plant.last("d.valve") == 3.5


async def test_on_its_way_the_rotor_passes_the_ports_between() -> None:
    _, talker, plant = await actuator()
    talker.say(b"GO8\r")
    await asyncio.sleep(2)
    assert [value for _, point, value in plant.log if point == "d.valve"] == [10.0, 9.0, 8.0]


async def _fed(chunks: list[bytes]) -> None:
    _, talker, _ = await actuator()
    for chunk in chunks:
        talker.say(chunk)
        await asyncio.sleep(0.02)
    await asyncio.sleep(5)
    await talker.ask(b"\r")
    assert (await talker.ask(b"NP\r")).startswith(b"NP10")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(st.binary(max_size=16), st.sampled_from((b"CP\r", b"GO4\r", b"GO", b"9\r", b"LG1\r"))), max_size=8
    )
)
def test_C2_any_bytes_never_raise(chunks: list[bytes]) -> None:
    run_virtual(_fed(chunks))
