"""The simulated Bronkhorst controller against the manual's messages, in both forms."""

from __future__ import annotations

import asyncio
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.devices.bronkhorst_propar import BronkhorstPropar
from sim.virtual_time import run_virtual
from tests.sim.bench import RecordingPlant, Talker, client_of, device_on_a_line


async def controller(node: str = "3", **more: float) -> tuple[BronkhorstPropar, Talker, RecordingPlant]:
    plant = RecordingPlant(d__flow=0.0)
    device = device_on_a_line(BronkhorstPropar, plant, address=node, settings={"full_scale_ml_min": 100.0} | more)
    assert isinstance(device, BronkhorstPropar)
    return device, await client_of(device), plant


def binary(text: str) -> bytes:
    return bytes.fromhex(text)


@pytest.mark.virtual_time
async def test_golden_ascii() -> None:
    device, talker, plant = await controller()
    device.setpoint = 16000
    plant.values["d.flow"] = 50.0
    assert await talker.ask(b":06030401210120\r\n") == b":06030201213E80\r\n"
    assert await talker.ask(b":06030401210121\r\n") == b":06030201213E80\r\n"
    assert await talker.ask(b":06800101217D00\r\n") == b":0480000005\r\n"
    assert plant.last("d.flow") == 100.0
    device.total, device._since_s = 5023.96, asyncio.get_running_loop().time()
    device._given = 0.0
    reply = await talker.ask(b":06030468416841\r\n")
    assert reply[:13] == b":080302684145"
    assert reply == b":0803026841459CFFAE\r\n"


@pytest.mark.virtual_time
async def test_golden_binary_and_the_dle_is_doubled() -> None:
    _, talker, plant = await controller("128")
    plant.values["d.flow"] = 50.0
    assert await talker.ask(binary("10 02 01 80 05 04 01 20 01 20 10 03")) == binary(
        "10 02 01 80 05 02 01 20 3E 80 10 03"
    )
    assert await talker.ask(binary("10 02 02 80 05 01 01 21 7D 00 10 03")) == binary("10 02 02 80 03 00 00 05 10 03")
    assert plant.last("d.flow") == 100.0
    assert await talker.ask(binary("10 02 10 10 80 05 01 01 21 10 10 10 10 10 03")) == binary(
        "10 02 10 10 80 03 00 00 05 10 03"
    )
    assert await talker.ask(binary("10 02 03 80 05 04 01 21 01 21 10 03")) == binary(
        "10 02 03 80 05 02 01 21 10 10 10 10 10 03"
    )


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        (b":06030401250120\r\n", b":06030201250000\r\n"),  # any index is given back
        (b":0603044141014D\r\n", b":080302414142C80000\r\n"),
        (b":06030421432143\r\n", b":08030221430 0000000\r\n".replace(b" ", b"")),
        (b":06030401210122\r\n", b":0403000403\r\n"),
        (b":06030409210920\r\n", b":0403000302\r\n"),
        (b":06030401410120\r\n", b":0403000502\r\n"),
        (b":0603040141014 1\r\n".replace(b" ", b""), b":0403000503\r\n"),
        (b":0603010121FFFF\r\n", b":0403000603\r\n"),
        (b":0703014142C80000\r\n", b":0403000403\r\n"),
        (b":0503010121FF\r\n", b":0403000203\r\n"),
        (b":03030921\r\n", b":0403000200\r\n"),
        (b":07030471637163 00\r\n".replace(b" ", b""), b""),
        (b":06030401210121", b""),
        (b":05030401210121\r\n", b""),
        (b":0604040121012 0\r\n".replace(b" ", b""), b""),
        (b":06 030401210120\r\n", b""),
        (b"06030401210120\r\n", b""),
    ],
)
async def test_answers_and_refusals(request_: bytes, reply: bytes) -> None:
    _, talker, _ = await controller()
    if request_.startswith(b":0703047163"):
        told = await talker.ask(request_)
        raw = bytes.fromhex(told[1:-2].decode())
        assert raw[1:5] == bytes((3, 2, 0x71, 0x63))
        assert raw[5] == len(raw) - 6
        assert raw[6:].startswith(b"M")
        return
    assert await talker.ask(request_) == reply


@pytest.mark.virtual_time
async def test_floats_chained_writes_and_broadcast() -> None:
    _, talker, plant = await controller()
    assert await talker.ask(b":0803012143" + struct.pack(">f", 25.0).hex().upper().encode() + b"\r\n") == (
        b":0403000007\r\n"
    )
    assert plant.last("d.flow") == 25.0
    await talker.ask(b":0C030181213E802143" + struct.pack(">f", 75.0).hex().upper().encode() + b"\r\n")
    assert plant.last("d.flow") == 75.0
    assert await talker.ask(b":06030301210000\r\n") == b""
    assert plant.last("d.flow") == 0.0


@pytest.mark.virtual_time
async def test_measure_beyond_full_scale_and_below_nothing() -> None:
    _, talker, plant = await controller()
    for flow, raw in ((131.0, b"A3C0"), (500.0, b"A3D6"), (-1.0, b"FEC0"), (-500.0, b"A3D7")):
        plant.values["d.flow"] = flow
        assert await talker.ask(b":06030401210120\r\n") == b":0603020121" + raw + b"\r\n"


@pytest.mark.virtual_time
async def test_a_deaf_controller_acknowledges_and_does_not_follow_and_power_closes_the_valve() -> None:
    device, talker, plant = await controller()
    device.listens = False
    assert await talker.ask(b":06030101217D00\r\n") == b":0403000005\r\n"
    assert plant.log == []
    device.listens = True
    await talker.ask(b":06030101217D00\r\n")
    await asyncio.sleep(60)
    assert struct.unpack(">f", bytes.fromhex((await talker.ask(b":06030468416841\r\n"))[11:-2].decode()))[
        0
    ] == pytest.approx(0.1, rel=0.05)
    device.power_cycle()
    assert plant.last("d.flow") == 0.0


@pytest.mark.virtual_time
async def test_a_gas_that_the_plant_does_not_know_flows_as_it_is_set() -> None:
    _, talker, plant = await controller()
    del plant.values["d.flow"]
    assert await talker.ask(b":06030401210120\r\n") == b":06030201210000\r\n"
    await talker.ask(b":06030101213E80\r\n")
    del plant.values["d.flow"]
    assert await talker.ask(b":06030401210120\r\n") == b":06030201213E80\r\n"


async def _fed(chunks: list[bytes]) -> list[tuple[float, str, float]]:
    _, talker, plant = await controller()
    for chunk in chunks:
        talker.say(chunk)
    await asyncio.sleep(1)
    talker.say(b"\x10\x03\r\n" + b"\0" * 200 + b"\r\n")  # whatever had begun ends here
    await asyncio.sleep(1)
    assert await talker.ask(b"\r\n:06030401210120\r\n") != b""
    return plant.log


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=20),
            st.sampled_from((b":", b"\r\n", b"\x10\x02", b"\x10\x03", b"\x10\x10", b":06030401210120", b"0603")),
        ),
        max_size=10,
    )
)
def test_C2_any_bytes_never_raise_and_move_nothing(chunks: list[bytes]) -> None:
    assert run_virtual(_fed(chunks)) == []
