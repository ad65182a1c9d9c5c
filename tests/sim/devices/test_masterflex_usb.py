"""The simulated Masterflex USB drive against the maker's own client: acknowledgements, serial mode, timed batches."""

from __future__ import annotations

import asyncio

import pytest

from sim.devices.masterflex_usb import MasterflexUsb
from tests.sim.bench import RecordingPlant, Talker, client_of, device_on_a_line

pytestmark = pytest.mark.virtual_time


async def drive(
    plant: RecordingPlant | None = None, *, enabled: bool = True, **settings: float | str | bool
) -> tuple[MasterflexUsb, Talker]:
    device = device_on_a_line(MasterflexUsb, plant or RecordingPlant(), settings=settings)
    assert isinstance(device, MasterflexUsb)
    talker = await client_of(device)
    if enabled:
        assert (await talker.ask(b"1RE1\r")).strip() == b"*"
    return device, talker


GOLDEN = [
    (b"1RC\r", b"1,0,0\r\n"),
    (b"1K\r", b"*\r\n"),
    (b"1RC\r", b"1,0,1\r\n"),
    (b"1J\r", b"*\r\n"),
    (b"1S00500\r", b"*\r\n"),
    (b"1S\r", b"50.0\r\n"),
    (b"1R012345\r", b"*\r\n"),
    (b"1R\r", b"123.45\r\n"),
    (b"1RA05\r", b"*\r\n"),
    (b"1RA\r", b"05\r\n"),
    (b"1RV0001305\r", b"*\r\n"),
    (b"1RV\r", b"00:01:30.5\r\n"),
    (b"1V\r", b"905\r\n"),
    (b"1VM002\r", b"*\r\n"),
    (b"1RT0000010\r", b"*\r\n"),
    (b"1RT\r", b"00:00:01.0\r\n"),
    (b'1"00003\r', b"*\r\n"),
    (b'1"\r', b"0/3\r\n"),
    (b'1R"\r', b"*\r\n"),
    (b"1H\r", b"*\r\n"),
    (b"1RC\r", b"1,1,0\r\n"),
    (b"1E\r", b"+\r\n"),
    (b"1K\r", b"#\r\n"),
    (b"1I\r", b"*\r\n"),
    (b"1#\r", b"MFLX-LS 2\r\n"),
    (b"1*\r", b"*\r\n"),
    (b"1R999999\r", b"#\r\n"),
    (b"1RV0099000\r", b"#\r\n"),
    (b"1nonsense\r", b"#\r\n"),
    (b"2H\r", b""),
    (b"@2\r", b"*\r\n"),
    (b"2RC\r", b"2,0,0\r\n"),
]


async def test_golden_frames() -> None:
    _, talker = await drive()
    for request, reply in GOLDEN:
        assert await talker.ask(request, 0.3) == reply, request


async def test_out_of_serial_mode_valid_commands_do_nothing_and_say_so() -> None:
    plant = RecordingPlant()
    device, talker = await drive(plant, enabled=False)
    assert await talker.ask(b"1H\r1RC\r1nonsense\r") == b"~\r\n~\r\n#\r\n"
    assert plant.log == []
    assert await talker.ask(b"1RE1\r1H\r") == b"*\r\n*\r\n"
    device.power_cycle()
    assert plant.last("d.pump") == 0.0
    assert await talker.ask(b"1RC\r") == b"~\r\n"


async def test_acknowledgements_may_be_bare() -> None:
    _, talker = await drive(bare=True)
    assert await talker.ask(b"1H\r1RC\r1I\r") == b"*1,1,0\r\n*"


async def test_batches_in_time_mode_end_by_themselves() -> None:
    plant = RecordingPlant()
    _, talker = await drive(plant, ul_per_rev=100.0)
    talker.say(b'1N\r1R006000\r1RV0000300\r1RT0000100\r1"00002\r1R"\r1H\r')
    await asyncio.sleep(35)
    assert await talker.ask(b"1RC\r", 0.1) == b"1,1,0\r\n"  # it waits between two batches
    await asyncio.sleep(100)
    assert plant.moved("d.pump", 1e6) == pytest.approx(2 * 3000.0)
    assert await talker.ask(b'1RC\r1RB\r1:\r1"\r') == b"1,0,0\r\n60.000\r\n6.000 ml\r\n2/2\r\n"
    assert await talker.ask(b"1W\r1RB\r") == b"*\r\n0.000\r\n"
