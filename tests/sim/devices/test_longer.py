"""The simulated Longer pump against published frames: runs, stuffing, silence for what is wrong."""

from __future__ import annotations

import pytest

from sim.devices.longer import Longer, packed
from tests.sim.bench import RecordingPlant, Talker, client_of, device_on_a_line

pytestmark = pytest.mark.virtual_time


async def pump(
    plant: RecordingPlant | None = None, address: str = "1", **settings: float | str | bool
) -> tuple[Longer, Talker]:
    device = device_on_a_line(Longer, plant or RecordingPlant(), address=address, settings=settings)
    assert isinstance(device, Longer)
    return device, await client_of(device)


@pytest.mark.parametrize(
    ("address", "drive", "request_", "rpm"),
    [
        ("1", "wt600-2j", "E9 01 06 57 4A 00 96 01 01 8C", 150.0),
        ("4", "wt600-2j", "E9 04 06 57 4A 01 40 01 01 5E", 320.0),
        ("4", "wt600-2j", "E9 04 06 57 4A 00 32 01 00 2C", -50.0),
        ("4", "wt600-2j", "E9 04 06 57 4A 00 32 00 00 2D", 0.0),
        ("1", "t100-wx10", "E9 01 06 57 4A 01 F4 01 01 EF", 50.0),
        ("1", "t100-wx10", "E9 01 06 57 4A 00 00 00 01 1B", 0.0),
        ("1", "t100-wx10", "E9 01 06 57 4A 03 E8 00 01 01 F1", 100.0),
    ],
)
async def test_golden_frames(address: str, drive: str, request_: str, rpm: float) -> None:
    plant = RecordingPlant()
    _, talker = await pump(plant, address, drive=drive, ul_per_rev=10.0, max_rpm=600.0)
    reply = await talker.ask(bytes.fromhex(request_))
    assert reply == packed(int(address), b"WJ")
    assert plant.last("d.pump") == pytest.approx(rpm * 10.0)


async def test_golden_reply_and_a_new_address() -> None:
    device, talker = await pump()
    assert await talker.ask(bytes.fromhex("E9 01 06 57 4A 01 F4 01 01 EF")) == bytes.fromhex("E9 01 02 57 4A 1E")
    assert await talker.ask(bytes.fromhex("E9 01 02 52 4A 1B")) == packed(1, b"RJ\x01\xf4\x01\x01")
    assert await talker.ask(bytes.fromhex("E9 01 04 57 49 44 07 58")) == packed(1, b"WID")
    assert await talker.ask(bytes.fromhex("E9 01 02 52 4A 1B")) == b""
    assert await talker.ask(packed(7, b"RID")) == packed(7, b"RID\x07")
    assert device.memory_writes == 1


@pytest.mark.parametrize("order", ["state-direction", "direction-state"])
async def test_the_order_of_a_status_is_a_profile_option(order: str) -> None:
    _, talker = await pump(reply_order=order, ul_per_rev=10.0)
    await talker.ask(packed(1, b"WJ\x00\x64\x01\x00"))
    tail = b"\x01\x00" if order == "state-direction" else b"\x00\x01"
    assert await talker.ask(packed(1, b"RJ")) == packed(1, b"RJ\x00\x64" + tail)


@pytest.mark.parametrize(
    "noise",
    [
        "E9 01 06 57 4A 01 F4 01 01 EE",  # check byte
        "E9 02 06 57 4A 01 F4 01 01 EC",  # another address
        "E9 01 06 57 4A 01 F4",  # cut off
        "E9 01 FF 57 4A",
        "E9 01 06 E8 07 01 F4 01 01 EF",  # stuffing that cannot be
        "57 4A 01 F4 01 01",
    ],
)
async def test_C2_what_is_wrong_is_answered_by_silence_and_moves_nothing(noise: str) -> None:
    plant = RecordingPlant()
    _, talker = await pump(plant)
    assert await talker.ask(bytes.fromhex(noise)) == b""
    assert plant.log == []
    assert await talker.ask(packed(1, b"RID")) == packed(1, b"RID\x01")


async def test_broadcast_is_obeyed_in_silence_and_any_chunking_is_taken() -> None:
    plant = RecordingPlant()
    _, talker = await pump(plant, ul_per_rev=10.0)
    for byte in packed(31, b"WJ\x03\xe9\x01\x01"):
        talker.say(bytes([byte]))
    assert await talker.ask(b"") == b""
    assert plant.last("d.pump") == pytest.approx(1000.0)  # 100.1 rpm asked, 100 is the drive's most


async def test_full_speed_and_power() -> None:
    plant = RecordingPlant()
    device, talker = await pump(plant, ul_per_rev=10.0, max_rpm=90.0)
    await talker.ask(packed(1, b"WJ\x00\x64\x03\x01"))
    assert plant.last("d.pump") == pytest.approx(900.0)
    device.power_cycle()
    assert plant.last("d.pump") == 0.0
    assert await talker.ask(packed(1, b"RJ")) == packed(1, b"RJ\x00\x64\x00\x01")
