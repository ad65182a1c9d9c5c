"""The simulated transmitter on Keller's bus: golden frames, initialisation, temperature and status."""

from __future__ import annotations

import struct

import pytest

from sim.devices.keller_bus import KellerBus
from sim.devices.modbus_slave import crc16
from tests.sim.bench import RecordingPlant, Talker, client_of, device_on_a_line

pytestmark = pytest.mark.virtual_time


def hexed(text: str) -> bytes:
    return bytes.fromhex(text)


def high_first(frame: bytes) -> bytes:
    return frame + crc16(frame).to_bytes(2, "big")


async def transmitter() -> tuple[KellerBus, Talker, RecordingPlant]:
    plant = RecordingPlant(d__pressure=98.765, d__temperature=36.5)
    device = device_on_a_line(KellerBus, plant, address="1")
    assert isinstance(device, KellerBus)
    return device, await client_of(device), plant


async def test_golden_frames_and_that_48_comes_first() -> None:
    device, talker, _ = await transmitter()
    assert await talker.ask(hexed("01 49 01 50 D6")) == high_first(hexed("01 C9 20"))
    assert await talker.ask(hexed("01 30 34 00")) == hexed("01 30 05 14 0C 28 08 01 CA C4")
    assert await talker.ask(hexed("01 49 01 50 D6")) == hexed("01 49 3F 7C D6 A1 00 64 90")
    assert await talker.ask(hexed("01 45 D3 C1")) == high_first(hexed("01 45") + device.serial.to_bytes(4, "big"))
    device.power_cycle()
    assert await talker.ask(hexed("01 45 D3 C1")) == high_first(hexed("01 C5 20"))


async def test_temperature_and_status_travel_with_the_value() -> None:
    device, talker, plant = await transmitter()
    await talker.ask(hexed("01 30 34 00"))
    device.status = 0x02
    plant.values["d.temperature"] = 37.25
    assert await talker.ask(high_first(b"\x01\x49\x04")) == high_first(b"\x01\x49" + struct.pack(">f", 37.25) + b"\x02")
    assert await talker.ask(high_first(b"\x01\x4a\x04")) == high_first(b"\x01\x4a" + struct.pack(">i", 3725) + b"\x02")
    assert await talker.ask(high_first(b"\x01\x49\x05")) == high_first(b"\x01\xc9\x02")
    assert (await talker.ask(hexed("01 30 34 00")))[-3] == 0  # the second time since power-up


async def test_C2_the_low_byte_first_is_met_with_silence() -> None:
    _, talker, _ = await transmitter()
    assert await talker.ask(hexed("01 30 00 34")) == b""
    assert (await talker.ask(hexed("01 30 34 00")))[:2] == b"\x01\x30"
