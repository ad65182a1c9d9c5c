"""The simulated balance: golden lines, waiting for a stable weight, tare and zero, repeating."""

from __future__ import annotations

import asyncio

import pytest

from sim.devices.mettler_sics import MettlerSics
from tests.sim.bench import RecordingPlant, Talker, client_of, device_on_a_line


async def balance(grams: float = 100.0, **settings: float) -> tuple[MettlerSics, Talker, RecordingPlant]:
    plant = RecordingPlant(d__mass=grams)
    device = device_on_a_line(MettlerSics, plant, settings=settings)
    assert isinstance(device, MettlerSics)
    device.serial_number = "B021002593"
    return device, await client_of(device), plant


GOLDEN = [
    (b"S\r\n", b"S S     100.00 g\r\n"),
    (b"SI\r\n", b"S S     100.00 g\r\n"),
    (b"I4\r\n", b'I4 A "B021002593"\r\n'),
    (b"@\r\n", b'I4 A "B021002593"\r\n'),
    (b"M21 0 0\r\n", b"M21 A\r\n"),
    (b"M21 7 7\r\n", b"M21 L\r\n"),
    (b"T\r\n", b"T S     100.00 g\r\n"),
    (b"SI\r\n", b"S S       0.00 g\r\n"),
    (b"TA\r\n", b"TA A     100.00 g\r\n"),
    (b"TAC\r\n", b"TAC A\r\n"),
    (b"TA 20.5 g\r\n", b"TA A      20.50 g\r\n"),
    (b"SI\r\n", b"S S      79.50 g\r\n"),
    (b"TA 20.5 kg\r\n", b"TA L\r\n"),
    (b"@\r\n", b'I4 A "B021002593"\r\n'),
    (b"Z\r\n", b"Z +\r\n"),
    (b"I2\r\n", b'I2 A "MS3002S Standard 3200.00 g"\r\n'),
    (b"I3\r\n", b'I3 A "2.10 10.28.0.493.142"\r\n'),
    (b'D "feed"\r\n', b"D A\r\n"),
    (b"D feed\r\n", b"D L\r\n"),
    (b"DW\r\n", b"DW A\r\n"),
    (b"PWR 1\r\n", b"PWR A\r\n"),
    (b'I10 "spent"\r\n', b"I10 A\r\n"),
    (b"I10\r\n", b'I10 A "spent"\r\n'),
    (b"rubbish\r\n", b"ES\r\n"),
    (b"si\r\n", b"ES\r\n"),
    (b"\xff\r\n", b"ES\r\n"),
    (b"\r\n", b""),
]


@pytest.mark.virtual_time
async def test_golden_lines() -> None:
    _, talker, _ = await balance()
    for request, reply in GOLDEN:
        assert await talker.ask(request) == reply, request


@pytest.mark.virtual_time
async def test_list_of_commands_ends_with_a() -> None:
    _, talker, _ = await balance()
    lines = (await talker.ask(b"I0\r\n")).split(b"\r\n")[:-1]
    assert lines[0] == b'I0 B 0 "I0"'
    assert all(line.startswith(b"I0 B ") for line in lines[:-1])
    assert lines[-1].startswith(b"I0 A ")


@pytest.mark.virtual_time
async def test_four_decimals_and_a_negative_weight() -> None:
    _, talker, plant = await balance(0.0, decimals=4)
    await asyncio.sleep(1)
    plant.values["d.mass"] = -0.68
    assert await talker.ask(b"SI\r\n") == b"S D    -0.6800 g\r\n"


@pytest.mark.virtual_time
async def test_a_moving_weight_is_dynamic_and_s_waits_until_it_stands() -> None:
    _, talker, plant = await balance()
    loop = asyncio.get_running_loop()

    def fill(left: int) -> None:
        plant.values["d.mass"] += 0.05
        if left:
            loop.call_later(0.25, fill, left - 1)

    fill(11)
    await asyncio.sleep(0.6)
    assert (await talker.ask(b"SI\r\n", 0.4)).startswith(b"S D ")
    began = loop.time()
    talker.times.clear()
    assert await talker.ask(b"S\r\n", 5) == b"S S     100.60 g\r\n"
    assert 1.5 < talker.times[0] - began < 3.0


@pytest.mark.virtual_time
@pytest.mark.parametrize("command", [b"S", b"T", b"Z"])
async def test_a_weight_that_never_stands_is_not_executable(command: bytes) -> None:
    device, talker, plant = await balance()
    loop = asyncio.get_running_loop()
    plant.sense = lambda point: 50.0 + loop.time()  # type: ignore[method-assign]
    assert await talker.ask(command + b"\r\n", 12) == command + b" I\r\n"
    assert device.tare_g == 0.0


@pytest.mark.virtual_time
async def test_cancel_ends_a_wait_and_a_repeat() -> None:
    _, talker, plant = await balance()
    loop = asyncio.get_running_loop()
    plant.sense = lambda point: 50.0 + loop.time()  # type: ignore[method-assign]
    await talker.ask(b"S\r\n", 1)
    assert await talker.ask(b"@\r\n", 20) == b'I4 A "B021002593"\r\n'
    assert (await talker.ask(b"SIR\r\n", 1.01)).count(b"S D ") in (9, 10)
    await talker.ask(b"@\r\n", 0.2)
    assert await talker.ask(b"", 20) == b""


@pytest.mark.virtual_time
async def test_repeat_on_change_and_immediate_forms() -> None:
    _, talker, plant = await balance(10.0)
    assert await talker.ask(b"SR\r\n", 3) == b"S S      10.00 g\r\n"
    plant.values["d.mass"] = 12.0
    assert await talker.ask(b"", 3) == b"S S      12.00 g\r\n"
    assert await talker.ask(b"TI\r\n") == b"T S      12.00 g\r\n"
    assert await talker.ask(b"ZI\r\nSI\r\n") == b"ZI S\r\nS S       0.00 g\r\n"
    plant.values["d.mass"] = 11.0
    await asyncio.sleep(1)
    assert await talker.ask(b"SI\r\n") == b"S D      -1.00 g\r\n"
    assert await talker.ask(b"SI\r\n") == b"S S      -1.00 g\r\n"


@pytest.mark.virtual_time
@pytest.mark.parametrize(("grams", "reply"), [(4000.0, b"S +\r\n"), (-200.0, b"S -\r\n")])
async def test_beyond_the_range(grams: float, reply: bytes) -> None:
    _, talker, _ = await balance(grams)
    assert await talker.ask(b"SI\r\n") == reply
    assert await talker.ask(b"S\r\n") == reply


@pytest.mark.virtual_time
async def test_power_cut_forgets_the_tare_and_the_balance_greets() -> None:
    device, talker, _ = await balance()
    await talker.ask(b"T\r\n")
    device.power_off()
    assert await talker.ask(b"SI\r\n") == b""
    talker.received = b""
    device.power_on()
    assert await talker.ask(b"", 1) == b'I4 A "B021002593"\r\n'
    assert await talker.ask(b"SI\r\n") == b"S S     100.00 g\r\n"
