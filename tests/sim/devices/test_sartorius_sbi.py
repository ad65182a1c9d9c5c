"""The simulated SBI balance against the operating instructions: line forms, special codes, optional CR LF."""

from __future__ import annotations

import asyncio

import pytest

from sim.devices.sartorius_sbi import SartoriusSbi
from tests.sim.bench import RecordingPlant, Talker, client_of, device_on_a_line

pytestmark = pytest.mark.virtual_time

PRINT = b"\x1bP\r\n"


async def balance(grams: float = 123.56) -> tuple[SartoriusSbi, Talker, RecordingPlant]:
    plant = RecordingPlant(d__mass=grams)
    device = device_on_a_line(SartoriusSbi, plant)
    assert isinstance(device, SartoriusSbi)
    return device, await client_of(device), plant


async def test_golden_lines_of_both_forms() -> None:
    device, talker, _ = await balance()
    assert await talker.ask(bytes.fromhex("1B 50 0D 0A")) == b"+   123.56 g  \r\n"
    device.with_id = True
    assert await talker.ask(bytes.fromhex("1B 50 0D 0A")) == b"N     +   123.56 g  \r\n"


@pytest.mark.parametrize("request_", [b"\x1bP", b"\x1bP\r", b"\x1bP\n", b"noise\x1bP\r\n", b"\x1bx1\x1bP\r\n"])
async def test_the_line_end_is_optional_and_an_escape_begins_a_new_command(request_: bytes) -> None:
    _, talker, _ = await balance()
    assert await talker.ask(request_) == b"+   123.56 g  \r\n"


@pytest.mark.parametrize("request_", [b"P\r\n", b"\x1bp\r\n", b"\x1bX\r\n", b"\x1bx9_\r\n", b"\x1b_\r\n", b"\x1b1_"])
async def test_C2_what_is_no_command_is_met_with_silence(request_: bytes) -> None:
    _, talker, _ = await balance()
    assert await talker.ask(request_) == b""
    assert await talker.ask(PRINT) == b"+   123.56 g  \r\n"


async def test_it_tells_who_it_is() -> None:
    device, talker, _ = await balance()
    assert await talker.ask(b"\x1bx1_\r\n") == b"LE2202S\r\n"
    assert await talker.ask(b"\x1bx2_\x1bx3_") == device.serial.encode() + b"\r\n00-33-04\r\n"


async def test_a_moving_weight_has_no_unit() -> None:
    device, talker, plant = await balance(10.0)
    await talker.ask(PRINT)
    plant.values["d.mass"] = 12.0
    assert await talker.ask(PRINT) == b"+    12.00    \r\n"
    assert await talker.ask(PRINT) == b"+    12.00 g  \r\n"
    device.prints_when_still = True
    plant.values["d.mass"] = -3.5
    talker.times.clear()
    began = asyncio.get_running_loop().time()
    assert await talker.ask(PRINT) == b"-     3.50 g  \r\n"
    assert talker.times[0] - began > 0.25


@pytest.mark.parametrize(
    ("grams", "line"),
    [
        (0.001, b"      0.00 g  \r\n"),
        (2500.0, b"      H       \r\n"),
        (-200.0, b"      L       \r\n"),
        (2199.99, b"+  2199.99 g  \r\n"),
    ],
)
async def test_the_ends_of_its_range(grams: float, line: bytes) -> None:
    _, talker, _ = await balance(grams)
    assert await talker.ask(PRINT) == line


async def test_errors_and_adjustment() -> None:
    device, talker, _ = await balance()
    assert await talker.ask(b"\x1bZ") == b""
    assert await talker.ask(PRINT) == b"      C       \r\n"
    await asyncio.sleep(12)
    device.error = 54
    assert await talker.ask(PRINT) == b"Err 054       \r\n"
    device.with_id = True
    assert await talker.ask(PRINT) == b"Stat  Err 054       \r\n"


async def test_tare_zero_and_restart() -> None:
    device, talker, plant = await balance(20.0)
    await talker.ask(b"\x1bU")
    assert await talker.ask(PRINT) == b"      0.00 g  \r\n"
    plant.values["d.mass"] = 30.0
    await talker.ask(b"\x1bV" + PRINT)  # within the zero range: the tare is gone
    assert await talker.ask(PRINT) == b"      0.00 g  \r\n"
    assert (device.zero_g, device.tare_g) == (30.0, 0.0)
    assert await talker.ask(b"\x1bS" + PRINT) == b""
    await asyncio.sleep(1)
    assert await talker.ask(PRINT) == b"+    30.00 g  \r\n"
