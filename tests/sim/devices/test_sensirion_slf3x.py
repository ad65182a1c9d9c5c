"""The simulated SLF3x and its SCC1 cable against frames that the maker's library sends and accepts."""

from __future__ import annotations

import asyncio
import struct

import pytest

from sim.devices.sensirion_slf3x import SLF3S_0600F, SensirionSlf3x
from tests.sim.bench import RecordingPlant, Talker, client_of, device_on_a_line

pytestmark = pytest.mark.virtual_time


def hexed(text: str) -> bytes:
    return bytes.fromhex(text)


def framed(body: bytes) -> bytes:
    """A frame whose bytes need no escape."""
    return b"\x7e" + body + bytes((0xFF - sum(body) % 256,)) + b"\x7e"


async def cable(ul_min: float = 1250.0, celsius: float = 24.1) -> tuple[SensirionSlf3x, Talker, RecordingPlant]:
    plant = RecordingPlant(d__flow=ul_min, d__temperature=celsius)
    device = device_on_a_line(SensirionSlf3x, plant)
    assert isinstance(device, SensirionSlf3x)
    return device, await client_of(device), plant


SESSION = [
    ("7E 00 D1 00 2E 7E", "7E 00 D1 00 07 01 08 00 01 00 01 00 1C 7E"),
    ("7E 00 24 00 DB 7E", "7E 00 24 00 01 03 D7 7E"),
    ("7E 00 53 02 36 08 6C 7E", "7E 00 53 00 06 01 F4 08 45 00 00 64 7E"),
    ("7E 00 33 04 00 64 36 08 26 7E", "7E 00 33 00 00 CC 7E"),
    ("7E 00 35 01 03 C6 7E", "7E 00 35 00 06 02 71 12 D4 00 00 6B 7E"),
    ("7E 00 99 00 66 7E", "7E 00 99 02 00 64 7E"),
]


async def test_golden_session() -> None:
    _, talker, _ = await cable()
    for request, reply in SESSION:
        assert await talker.ask(hexed(request)) == hexed(reply), request


async def test_escapes_in_both_directions() -> None:
    device, talker, plant = await cable()
    device.address = 0x7E
    assert await talker.ask(hexed("7E 7D 5E D1 00 B0 7E")) == hexed("7E 7D 5E D1 00 07 01 08 00 01 00 01 00 9E 7E")
    # A vector from the maker's own tests. The device has no command 7D; its answer has escaped bytes.
    received = await talker.ask(hexed("7E 7D 5E 7D 5D 04 7D 31 12 7D 33 14 B6 7E"))
    assert received == hexed("7E 7D 5E 7D 5D 02 00 02 7E")
    device.address = 0
    plant.values |= {"d.flow": 0x1113 * 2.0, "d.temperature": 0x137E / 200.0}
    await talker.ask(hexed("7E 00 33 04 00 64 36 08 26 7E"))
    assert await talker.ask(hexed("7E 00 35 01 03 C6 7E")) == hexed(
        "7E 00 35 00 06 7D 31 7D 33 7D 33 7D 5E 00 00 0F 7E"
    )


@pytest.mark.parametrize(
    ("request_", "state"),
    [
        ("7E 00 D1 00 2F 7E", 5),  # checksum
        ("7E 00 D1 01 2D 7E", 1),  # length
        ("7E 00 24 01 03 D7 7E", 1),
        ("7E 00 53 02 36 09 6B 7E", 4),  # a liquid that it does not know
        ("7E 00 35 01 04 C5 7E", 4),
        ("7E 00 91 00 6E 7E", 2),
    ],
)
async def test_errors_are_told_in_the_state(request_: str, state: int) -> None:
    _, talker, _ = await cable()
    received = await talker.ask(hexed(request_))
    assert (received[3], received[4]) == (state, 0)


@pytest.mark.parametrize("frame", ["7E 01 D1 00 2D 7E", "7E 00 D1 7E", "00 D1 00 2E 7E", "7E 00 D1 00 2E", "7E" * 9])
async def test_C2_another_address_or_half_a_frame_is_met_with_silence(frame: str) -> None:
    _, talker, _ = await cable()
    assert await talker.ask(hexed(frame)) == b""


async def test_it_measures_when_started_and_the_first_measurement_takes_its_time() -> None:
    device, talker, _ = await cable()
    ask, interval = hexed("7E 00 35 01 03 C6 7E"), hexed("7E 00 33 00 CC 7E")
    nothing = framed(bytes((0, 0x35, 0, 0)))
    assert await talker.ask(interval) == framed(bytes((0, 0x33, 0, 0)))
    talker.say(hexed("7E 00 33 04 00 64 36 08 26 7E"))
    await asyncio.sleep(0.1)
    assert await talker.ask(ask, 0.1) == nothing
    assert len(await talker.ask(ask)) == 13
    assert await talker.ask(interval) == framed(bytes((0, 0x33, 0, 2, 0, 100)))
    assert (await talker.ask(hexed("7E 00 33 04 00 64 36 15 19 7E")))[3] == 3  # it runs for another liquid
    await talker.ask(hexed("7E 00 34 00 CB 7E"))
    await talker.ask(hexed("7E 00 33 04 00 64 36 15 19 7E"))
    assert device.liquid == 0x3615
    device.power_cycle()
    assert await talker.ask(ask) == nothing  # asked, it begins by itself, and for water
    assert (device.interval_ms, device.liquid) == (100, 0x3608)
    assert len(await talker.ask(ask)) == 13


async def test_flags_range_and_another_model() -> None:
    device, talker, plant = await cable(-70_000.0)
    ask = hexed("7E 00 35 01 03 C6 7E")
    await talker.ask(hexed("7E 00 33 04 00 64 36 08 26 7E"))
    received = await talker.ask(ask)
    assert received[5:11] == struct.pack(">hhH", -32500, 4820, 2)
    device.air = True
    received = await talker.ask(ask)
    assert received[5:11] == struct.pack(">hhH", 0, 4820, 3)
    device.air, device.variant = False, SLF3S_0600F
    plant.values["d.flow"] = 12.3
    received = await talker.ask(ask)
    assert received[5:11] == struct.pack(">hhH", 123, 4820, 0)
    assert (await talker.ask(hexed("7E 00 50 00 AF 7E")))[4:14] == b"\x7d\x3307030302"  # 19 bytes: escaped
