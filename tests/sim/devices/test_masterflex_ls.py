"""The simulated L/S drive against the frames of open clients: numbering, runs, doses by revolutions, refusals."""

from __future__ import annotations

import asyncio

import pytest

from sim.devices.masterflex_ls import MasterflexLs
from tests.sim.bench import RecordingPlant, Talker, client_of, device_on_a_line

pytestmark = pytest.mark.virtual_time


async def drive(
    plant: RecordingPlant | None = None, number: bytes = b"P01", **settings: float | str | bool
) -> tuple[MasterflexLs, Talker]:
    device = device_on_a_line(MasterflexLs, plant or RecordingPlant(), settings=settings)
    assert isinstance(device, MasterflexLs)
    talker = await client_of(device)
    if number:
        assert await talker.ask(b"\x05") == b"\x02P?0\r"
        assert await talker.ask(b"\x02" + number + b"\r") == b"\x06"
        assert await talker.ask(b"\x05") == b""
    return device, talker


GOLDEN = [
    (b"\x02P01I\r", b"\x02P01I00010\r"),
    (b"\x02P01R\r", b"\x06"),
    (b"\x02P01S+060.0\r", b"\x06"),
    (b"\x02P01S\r", b"\x02S+060.0\r"),
    (b"\x02P01V00010.00\r", b"\x06"),
    (b"\x02P01I\r", b"\x02P01I10020\r"),
    (b"\x02P01E\r", b"\x02E00010.00\r"),
    (b"\x02P01G\r", b"\x06"),
    (b"\x02P01I\r", b"\x02P01I10030\r"),
    (b"\x02P01S-060.0\r", b"\x15"),  # not backwards while it runs
    (b"\x02P01I\r", b"\x02P01I10035\r"),
    (b"\x02P01H\r", b"\x06"),
    (b"\x02P01X\r", b"\x15"),
    (b"\x02P01I\r", b"\x02P01I10014\r"),
    (b"\x02P02H\r", b""),
    (b"P01\x18\x02P01Z\r", b"\x06"),
]


async def test_golden_frames() -> None:
    _, talker = await drive()
    for request, reply in GOLDEN:
        assert await talker.ask(request, 0.3) == reply, request


async def test_golden_frames_of_another_client() -> None:
    """It announces itself without STX, and puts several commands into a frame."""
    plant = RecordingPlant()
    _, talker = await drive(plant, b"", ul_per_rev=100.0)
    assert await talker.ask(bytes.fromhex("05 50 30 32 0D")) == b"\x02P?0\r\x06"
    assert await talker.ask(bytes.fromhex("02 50 30 32 53 2D 36 30 47 30 0D")) == b"\x06"  # S-60G0
    assert plant.last("d.pump") == pytest.approx(-6000.0)
    assert await talker.ask(bytes.fromhex("02 50 30 32 48 0D")) == b"\x06"
    assert plant.last("d.pump") == 0.0
    moved = plant.moved("d.pump", 1e6)
    assert await talker.ask(bytes.fromhex("02 50 30 32 56 31 30 47 0D"), 30) == b"\x06"  # V10G
    assert plant.moved("d.pump", 1e6) - moved == pytest.approx(-1000.0)


async def test_what_a_halted_dose_left_is_still_to_go() -> None:
    plant = RecordingPlant()
    _, talker = await drive(plant, ul_per_rev=100.0)
    await talker.ask(b"\x02P01S+60V10G\r", 3)
    assert await talker.ask(b"\x02P01H\r") == b"\x06"
    left = await talker.ask(b"\x02P01E\r")
    assert b"\x02E00006.9" < left < b"\x02E00007.1"
    assert await talker.ask(b"\x02P01ZV2G\r", 5) == b"\x06"
    assert plant.moved("d.pump", 1e6) == pytest.approx(500.0, rel=0.05)


async def test_a_power_cut_takes_number_and_motion() -> None:
    plant = RecordingPlant()
    device, talker = await drive(plant)
    await talker.ask(b"\x02P01S+60G0\r")
    device.power_cycle()
    assert plant.last("d.pump") == 0.0
    assert await talker.ask(b"\x02P01I\r") == b""
    assert await talker.ask(b"\x05") == b"\x02P?0\r"


async def test_go_for_ever_may_be_refused_and_run_all_the_same() -> None:
    plant = RecordingPlant()
    device, talker = await drive(plant, go0_nak=True)
    assert await talker.ask(b"\x02P01S+60G0\r") == b"\x15"
    assert plant.last("d.pump") > 0.0
    device.block()
    assert plant.last("d.pump") == 0.0
    assert await talker.ask(b"\x02P01I\r") == b"\x02P01I10060\r"
    assert await talker.ask(b"\x02P01G0\r") == b"\x15"


async def test_C2_noise_moves_nothing_in_any_chunking() -> None:
    plant = RecordingPlant()
    _, talker = await drive(plant)
    for noise in (b"\x00\xff\r", b"\x02P01" + b"S" * 200 + b"\r", b"\x02PxxG0\r", b"\x02P01G0", b"\x18\r"):
        for byte in noise:
            talker.say(bytes((byte,)))
        await asyncio.sleep(0.3)
    assert plant.log == []
    talker.received = b""
    assert await talker.ask(b"\x02P01S\r") == b"\x02S+000.0\r"
