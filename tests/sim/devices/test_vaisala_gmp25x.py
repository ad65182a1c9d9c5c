"""The simulated GMP252 against the guide's frames: floats low word first, NaN, status, EEPROM and volatile values."""

from __future__ import annotations

import asyncio
import struct

import pytest

from sim.devices.modbus_slave import sealed
from sim.devices.vaisala_gmp25x import VaisalaGmp25x
from tests.sim.bench import RecordingPlant, Talker, client_of, device_on_a_line

pytestmark = pytest.mark.virtual_time

READ = bytes.fromhex("F0 03 00 00 00 02 D1 2A")


def hexed(text: str) -> bytes:
    return bytes.fromhex(text)


async def probe(ppm: float = 465.65997) -> tuple[VaisalaGmp25x, Talker, RecordingPlant]:
    plant = RecordingPlant(d__co2=ppm)
    device = device_on_a_line(VaisalaGmp25x, plant)
    assert isinstance(device, VaisalaGmp25x)
    return device, await client_of(device), plant


def number(reply: bytes) -> float:
    value: float = struct.unpack(">f", reply[5:7] + reply[3:5])[0]
    return value


async def test_golden_carbon_dioxide() -> None:
    _, talker, _ = await probe(struct.unpack(">f", bytes.fromhex("43E8D47A"))[0])
    assert await talker.ask(READ) == hexed("F0 03 04 D4 7A 43 E8 33 AB")
    assert await talker.ask(hexed("F0 03 08 00 00 02 D3 4A")) == sealed(hexed("F0 03 04 00 00 00 00"))


async def test_while_it_starts_up_there_is_no_number_and_the_status_says_so() -> None:
    device, talker, _ = await probe()
    device.power_cycle()
    assert await talker.ask(READ, 0.1) == sealed(hexed("F0 03 04 00 00 7F C0"))
    assert await talker.ask(hexed("F0 03 08 00 00 02 D3 4A"), 0.1) == sealed(hexed("F0 03 04 00 00 01 02"))
    assert await talker.ask(sealed(hexed("F0 03 01 00 00 02"))) == sealed(hexed("F0 03 04 80 00 80 00"))
    assert number(await talker.ask(READ)) == pytest.approx(465.66)
    assert await talker.ask(hexed("F0 03 08 00 00 02 D3 4A")) == sealed(hexed("F0 03 04 00 00 00 02"))
    await asyncio.sleep(10)
    assert await talker.ask(hexed("F0 03 08 00 00 02 D3 4A")) == sealed(hexed("F0 03 04 00 00 00 00"))
    assert number(await talker.ask(READ)) == pytest.approx(465.66)


async def test_integers_and_a_whole_block() -> None:
    _, talker, _ = await probe(50_000.0)
    reply = await talker.ask(sealed(hexed("F0 03 01 00 00 02")))
    assert struct.unpack(">hh", reply[3:-2]) == (32767, 5000)
    reply = await talker.ask(sealed(hexed("F0 03 00 00 00 04")))
    assert (number(reply), struct.unpack(">f", reply[9:11] + reply[7:9])[0]) == (50_000.0, 25.0)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ("F0 03 00 06 00 01", 2),
        ("F0 03 00 05 00 02", 2),
        ("F0 03 00 00 00 00", 3),
        ("F0 04 00 00 00 02", 1),
        ("F0 06 02 08 00 00", 1),
        ("F0 10 02 08 00 02 04 00 00 42 C8", 3),  # 100 hPa
        ("F0 10 02 09 00 02 04 00 00 44 7A", 2),  # the middle of a float
        ("F0 10 00 00 00 02 04 00 00 44 7A", 2),
    ],
)
async def test_only_what_is_outside_is_an_exception(request_: str, code: int) -> None:
    device, talker, _ = await probe()
    frame = hexed(request_)
    assert await talker.ask(sealed(frame)) == sealed(bytes((0xF0, frame[1] | 0x80, code)))
    assert device.volatile == device.stored == [1013.25, 25.0, 0.0, 0.0]


async def test_volatile_values_are_lost_at_a_reset_and_stored_ones_wear_the_memory() -> None:
    device, talker, _ = await probe()
    assert await talker.ask(sealed(hexed("F0 10 02 08 00 02 04 00 00 44 61"))) == sealed(hexed("F0 10 02 08 00 02"))
    assert (device.volatile[0], device.memory_writes) == (900.0, 0)
    await talker.ask(sealed(hexed("F0 10 02 08 00 02 04 00 00 7F C0")))
    assert device.volatile[0] == 900.0  # a NaN is ignored
    await talker.ask(sealed(hexed("F0 10 02 04 00 02 04 00 00 42 BE")))
    assert (device.stored[2], device.memory_writes) == (95.0, 1)
    device.power_cycle()
    assert device.volatile == [1013.25, 25.0, 95.0, 0.0]


async def test_it_tells_who_it_is() -> None:
    _, talker, _ = await probe()
    reply = await talker.ask(sealed(hexed("F0 2B 0E 01 00")))
    assert reply == sealed(hexed("F0 2B 0E 01 01 00 00 03 00 07") + b"Vaisala\x01\x06GMP252\x02\x051.3.0")
    assert await talker.ask(sealed(hexed("F0 2B 0D 01 00"))) == sealed(hexed("F0 AB 01"))
