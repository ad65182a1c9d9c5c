"""The simulated bus: relay board and Keller transmitters against golden frames; silence where a bus is silent."""

from __future__ import annotations

import asyncio
import math
import struct

import pytest

from sim.devices.keller_x_line import KellerXLine
from sim.devices.modbus_coil_relay import ModbusCoilRelay
from sim.devices.modbus_slave import crc16, sealed
from sim.devices.wire import Bus
from tests.sim.bench import RecordingPlant, Talker, client_of, device_on_a_line, spec


def hexed(text: str) -> bytes:
    return bytes.fromhex(text)


async def relay() -> tuple[ModbusCoilRelay, Talker, RecordingPlant]:
    plant = RecordingPlant()
    channels = {"0": ("heater", None), "1": ("return_valve", None)}
    device = device_on_a_line(ModbusCoilRelay, plant, address="1", channels=channels)
    assert isinstance(device, ModbusCoilRelay)
    return device, await client_of(device), plant


RELAY_GOLDEN = [
    ("01 05 00 00 FF 00 8C 3A", "01 05 00 00 FF 00 8C 3A"),
    ("01 01 00 00 00 08 3D CC", "01 01 01 01 90 48"),
    ("01 05 00 00 00 00 CD CA", "01 05 00 00 00 00 CD CA"),
    ("01 05 00 01 FF 00 DD FA", "01 05 00 01 FF 00 DD FA"),
    ("01 05 00 03 FF 00 7C 3A", "01 05 00 03 FF 00 7C 3A"),
    ("01 05 02 00 00 07 8D B0", "01 05 02 00 00 07 8D B0"),
    ("01 0F 00 00 00 08 01 FF BE D5", "01 0F 00 00 00 08 54 0D"),
]


@pytest.mark.virtual_time
async def test_relay_golden_frames() -> None:
    _, talker, plant = await relay()
    for request, reply in RELAY_GOLDEN:
        assert await talker.ask(hexed(request)) == hexed(reply), request
    assert plant.last("d.heater") == plant.last("d.return_valve") == 1.0


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ("01 03 00 00 00 01", 2),
        ("01 04 00 00 00 01", 1),
        ("01 2B 0E 01 00", 1),
        ("01 05 00 08 FF 00", 2),
        ("01 05 00 00 12 34", 3),
        ("01 05 02 00 00 00", 3),
        ("01 05 02 00 80 00", 3),
        ("01 05 02 09 00 01", 2),
        ("01 05 03 00 00 01", 2),
        ("01 01 00 00 00 00", 3),
        ("01 01 00 04 00 08", 2),
        ("01 0F 00 00 00 08 02 FF FF", 3),
        ("01 0F 00 00 00 09 02 FF FF", 2),
        ("01 0F 00 00 00 08 00", 3),
        ("01 06 40 00 00 00", 3),
    ],
)
async def test_relay_refuses_with_the_right_exception_and_moves_nothing(request_: str, code: int) -> None:
    _, talker, plant = await relay()
    frame = hexed(request_)
    assert await talker.ask(sealed(frame)) == sealed(bytes((1, frame[1] | 0x80, code)))
    assert plant.log == []


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    "frame", ["02 05 00 00 FF 00 8C 09", "01 05 00 00 FF 00 8C 3B", "01 05 00 00 FF 00 3A 8C", "01 05 00 00 FF", ""]
)
async def test_C2_wrong_address_or_checksum_or_length_is_met_with_silence(frame: str) -> None:
    _, talker, plant = await relay()
    assert await talker.ask(hexed(frame)) == b""
    assert plant.log == []
    assert await talker.ask(hexed("01 05 00 00 FF 00 8C 3A")) == hexed("01 05 00 00 FF 00 8C 3A")


@pytest.mark.virtual_time
async def test_broadcast_acts_without_an_answer() -> None:
    _, talker, plant = await relay()
    assert await talker.ask(sealed(hexed("00 05 00 00 FF 00"))) == b""
    assert plant.last("d.heater") == 1.0


@pytest.mark.virtual_time
async def test_flash_on_falls_back_to_off_by_itself_with_every_client_gone() -> None:
    device, talker, plant = await relay()
    talker.say(sealed(hexed("01 05 02 00 00 C8")))  # 20 s
    assert device.line is not None
    device.line.disconnect(talker)
    await asyncio.sleep(19.9)
    assert device.closed[0]
    await asyncio.sleep(0.2)
    assert not device.closed[0]
    assert [value for _, _, value in plant.log] == [1.0, 0.0]


@pytest.mark.virtual_time
async def test_flash_given_again_is_a_lease_renewed_and_off_ends_it() -> None:
    device, talker, plant = await relay()
    for _ in range(5):
        await talker.ask(sealed(hexed("01 05 02 00 00 C8")), 10)
    assert plant.log == [(0.5, "d.heater", 1.0)]
    await talker.ask(sealed(hexed("01 05 00 00 00 00")), 60)
    assert len(plant.log) == 2
    await talker.ask(sealed(hexed("01 05 00 01 FF 00")))
    await talker.ask(sealed(hexed("01 05 04 01 00 05")), 0.3)
    assert not device.closed[1]
    await asyncio.sleep(0.4)
    assert device.closed[1]


@pytest.mark.virtual_time
async def test_all_flip_address_and_power() -> None:
    device, talker, plant = await relay()
    await talker.ask(sealed(hexed("01 05 00 FF FF 00")))
    assert all(device.closed)
    await talker.ask(sealed(hexed("01 05 00 02 55 00")))
    assert not device.closed[2]
    assert await talker.ask(sealed(hexed("01 03 80 00 00 01"))) == sealed(hexed("01 03 02 00 C8"))
    assert await talker.ask(sealed(hexed("01 06 40 00 00 07"))) == sealed(hexed("01 06 40 00 00 07"))
    assert await talker.ask(sealed(hexed("07 03 40 00 00 01"))) == sealed(hexed("07 03 02 00 07"))
    device.power_cycle()
    assert not any(device.closed)
    assert plant.last("d.heater") == 0.0


@pytest.mark.virtual_time
async def test_frames_arrive_byte_by_byte_merged_and_after_noise() -> None:
    _, talker, _ = await relay()
    frame = hexed("01 01 00 00 00 08 3D CC")
    reply = hexed("01 01 01 00 51 88")
    talker.received = b""
    for byte in frame:
        talker.say(bytes((byte,)))
        await asyncio.sleep(0.002)
    await asyncio.sleep(0.5)
    assert talker.received == reply
    assert await talker.ask(frame * 3) == reply * 3
    assert await talker.ask(hexed("02 01 00 00 00 08 3D FF") + frame) == reply
    assert await talker.ask(b"\xff\x00\x80noise", 0.1) == b""
    assert await talker.ask(frame) == reply
    talker.say(frame[:5])
    await asyncio.sleep(0.1)  # the line fell silent inside a frame: it is lost
    assert await talker.ask(frame) == reply


async def transmitter(kpa: float = 98.765) -> tuple[KellerXLine, Talker, RecordingPlant]:
    plant = RecordingPlant(d__pressure=kpa)
    device = device_on_a_line(KellerXLine, plant, address="1")
    assert isinstance(device, KellerXLine)
    return device, await client_of(device), plant


@pytest.mark.virtual_time
async def test_keller_golden_frames_of_both_protocols() -> None:
    device, talker, _ = await transmitter()
    device.serial = 0x00ABCDEF
    assert await talker.ask(hexed("01 03 00 02 00 02 65 CB")) == hexed("01 03 04 3F 7C D6 A1 A8 27")
    refused = bytes((1, 69 | 0x80, 32))
    assert await talker.ask(hexed("01 45 D3 C1")) == refused + crc16(refused).to_bytes(2, "big")
    assert await talker.ask(hexed("01 30 34 00")) == hexed("01 30 05 14 0C 28 08 01 CA C4")
    assert (await talker.ask(hexed("01 45 D3 C1")))[:6] == hexed("01 45 00 AB CD EF")
    assert await talker.ask(hexed("01 49 01 50 D6")) == hexed("01 49 3F 7C D6 A1 00 64 90")
    assert (await talker.ask(hexed("01 30 34 00")))[7] == 0  # not the first time since power-up


def high_first(frame: bytes) -> bytes:
    return frame + crc16(frame).to_bytes(2, "big")


@pytest.mark.virtual_time
async def test_keller_registers_floats_integers_and_what_is_not_fitted() -> None:
    _, talker, _ = await transmitter(50.0)
    reply = await talker.ask(sealed(hexed("01 03 00 00 00 0A")))
    calculated, p1, p2, temperature, tob1 = struct.unpack(">5f", reply[3:-2])
    assert p1 == pytest.approx(0.5)
    assert tob1 == 25.0
    assert all(map(math.isnan, (calculated, p2, temperature)))
    reply = await talker.ask(sealed(hexed("01 03 00 12 00 02")))
    assert struct.unpack(">i", reply[3:-2]) == (50_000,)
    reply = await talker.ask(sealed(hexed("01 03 00 03 00 01")))
    assert reply[3:-2] == struct.pack(">f", 0.5)[2:]
    for bad in ("01 03 00 0A 00 02", "01 03 00 02 00 0A", "01 03 01 00 00 01", "01 03 FF FF 00 02"):
        assert (await talker.ask(sealed(hexed(bad))))[1:3] == b"\x83\x02"
    assert (await talker.ask(sealed(hexed("01 03 00 00 00 00"))))[1:3] == b"\x83\x03"
    assert (await talker.ask(sealed(hexed("01 06 00 00 00 00"))))[1:3] == b"\x86\x01"
    assert await talker.ask(sealed(hexed("01 08 00 00 12 34"))) == sealed(hexed("01 08 00 00 12 34"))


@pytest.mark.virtual_time
@pytest.mark.parametrize(("kpa", "value"), [(1500.0, math.inf), (-150.0, -math.inf), (-50.0, -0.5)])
async def test_keller_beyond_its_range_is_infinite(kpa: float, value: float) -> None:
    _, talker, _ = await transmitter(kpa)
    reply = await talker.ask(hexed("01 03 00 02 00 02 65 CB"))
    assert struct.unpack(">f", reply[3:-2]) == (value,)


@pytest.mark.virtual_time
async def test_keller_zero_by_modbus_and_by_its_own_bus() -> None:
    _, talker, _ = await transmitter(2.0)
    read = hexed("01 03 00 02 00 02 65 CB")
    set_zero = sealed(hexed("01 10 FF 00 00 02 04 00 00 00 00"))
    assert await talker.ask(set_zero) == sealed(hexed("01 10 FF 00 00 02"))
    assert struct.unpack(">f", (await talker.ask(read))[3:-2]) == (pytest.approx(0.0, abs=1e-9),)
    await talker.ask(sealed(hexed("01 10 FF 02 00 02 04 00 00 00 00")))
    assert struct.unpack(">f", (await talker.ask(read))[3:-2]) == (pytest.approx(0.02),)
    await talker.ask(high_first(b"\x01\x30"))
    assert await talker.ask(high_first(b"\x01\x5f\x00")) == high_first(b"\x01\x5f\x00")
    assert struct.unpack(">f", (await talker.ask(read))[3:-2]) == (pytest.approx(0.0, abs=1e-9),)
    assert await talker.ask(high_first(b"\x01\x5f\x02")) == high_first(b"\x01\xdf\x02")


@pytest.mark.virtual_time
async def test_keller_addresses() -> None:
    _, talker, _ = await transmitter()
    assert (await talker.ask(high_first(b"\xfa\x30")))[0] == 250
    assert await talker.ask(high_first(b"\x01\x42\x09")) == high_first(b"\x01\x42\x09")
    assert await talker.ask(hexed("01 03 00 02 00 02 65 CB")) == b""
    assert (await talker.ask(sealed(hexed("09 03 00 02 00 02"))))[:3] == hexed("09 03 04")


@pytest.mark.virtual_time
async def test_three_slaves_share_a_bus_and_each_answers_for_itself() -> None:
    plant = RecordingPlant(a__pressure=10.0, b__pressure=20.0)
    line = Bus("sim:rs485")
    for device in (
        KellerXLine("a", spec(address="1"), plant),
        KellerXLine("b", spec(address="2"), plant),
        ModbusCoilRelay("r", spec(address="3", channels={"0": ("heater", None)}), plant),
    ):
        line.attach(device)
        device.power_on()
    talker = Talker(line)
    for address, bar in ((1, 0.1), (2, 0.2)):
        reply = await talker.ask(sealed(bytes((address, 3, 0, 2, 0, 2))))
        assert reply[0] == address
        assert struct.unpack(">f", reply[3:-2])[0] == pytest.approx(bar)
    assert await talker.ask(sealed(hexed("03 05 00 00 FF 00"))) == sealed(hexed("03 05 00 00 FF 00"))
    assert await talker.ask(sealed(hexed("04 05 00 00 FF 00"))) == b""


def test_checksum_is_the_standards_own() -> None:
    assert crc16(b"123456789") == 0x4B37
