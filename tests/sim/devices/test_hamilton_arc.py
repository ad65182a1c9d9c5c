"""The simulated Hamilton Arc sensors against the manual's frames: whole blocks, levels, units, calibration, wear."""

from __future__ import annotations

import struct

import pytest

from sim.devices.hamilton_arc import HamiltonArc, HamiltonPhArc, HamiltonVisifermDo
from sim.devices.modbus_slave import sealed
from tests.sim.bench import RecordingPlant, Talker, client_of, device_on_a_line

pytestmark = pytest.mark.virtual_time


def hexed(text: str) -> bytes:
    return bytes.fromhex(text)


async def sensor(kind: type[HamiltonArc] = HamiltonPhArc) -> tuple[HamiltonArc, Talker, RecordingPlant]:
    plant = RecordingPlant(d__ph=4.02503, d__oxygen=80.0, d__temperature=24.35834)
    device = device_on_a_line(kind, plant, address="1")
    assert isinstance(device, HamiltonArc)
    return device, await client_of(device), plant


GOLDEN = [
    (
        "01 03 08 29 00 0A 16 65",
        "01 03 14 10 00 00 00 CD 0C 40 80 00 00 00 00 00 00 00 00 00 00 41 60 77 0D",
    ),
    (
        "01 03 09 69 00 0A 16 4D",
        "01 03 14 00 04 00 00 DD E1 41 C2 00 00 00 00 00 00 C1 A0 00 00 43 02 8D 2D",
    ),
    ("01 03 13 07 00 02 71 4E", "01 03 04 00 00 42 C8 CB 05"),
    ("01 03 07 FF 00 02 F5 4F", "01 03 04 06 E1 00 00 AA 8D"),
    ("01 10 10 BF 00 04 08 00 0C 00 00 5D EA 01 14 21 07", "01 10 10 BF 00 04 F4 EE"),
    ("01 10 14 29 00 02 04 00 00 00 00 CE DD", "01 10 14 29 00 02 95 F0"),
    ("01 03 14 25 00 06 D1 F3", "01 03 0C 00 00 00 00 10 00 00 00 51 EC 40 80 73 15"),
]


async def test_golden_frames() -> None:
    device, talker, _ = await sensor()
    for request, reply in GOLDEN:
        assert await talker.ask(hexed(request)) == hexed(reply), request
    assert device.level == 0x0C
    device.level = 0x30
    assert await talker.ask(hexed("01 03 10 BF 00 04 71 2D")) == hexed("01 03 08 00 30 00 00 00 00 00 00 A5 D4")


async def test_input_registers_are_the_same_registers() -> None:
    _, talker, _ = await sensor()
    reply = await talker.ask(sealed(hexed("01 04 13 07 00 02")))
    assert reply == sealed(hexed("01 04 04 00 00 42 C8"))


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ("01 03 08 29 00 02", 3),  # a part of a block
        ("01 03 08 2B 00 02", 2),  # from the middle of a block
        ("01 03 08 29 00 0B", 3),
        ("01 03 00 00 00 01", 2),
        ("01 06 08 29 10 00", 1),
        ("01 03 14 29 00 02", 2),  # for writing only
        ("01 10 08 29 00 02 04 00 00 00 20", 3),  # mV, but at level U
        ("01 10 14 29 00 02 04 00 00 00 00", 3),  # a calibration at level U
        ("01 10 10 BF 00 04 08 00 30 00 00 00 01 00 00", 3),  # a wrong password
        ("01 10 10 BF 00 02 04 00 30 00 00", 3),
        ("01 03 0F FF 00 02", 3),  # the address, at level U
        ("01 10 13 07 00 02 04 00 00 00 00", 2),
    ],
)
async def test_what_is_not_allowed_is_refused_and_changes_nothing(request_: str, code: int) -> None:
    device, talker, _ = await sensor()
    frame = hexed(request_)
    assert await talker.ask(sealed(frame)) == sealed(bytes((1, frame[1] | 0x80, code)))
    assert (device.level, device.unit, device.memory_writes) == (0x03, 0x1000, 0)


async def test_the_level_falls_back_at_power_up_and_the_unit_stays() -> None:
    device, talker, plant = await sensor()
    await talker.ask(sealed(hexed("01 10 10 BF 00 04 08 00 30 00 00 79 CE 00 F4")))
    assert device.level == 0x30
    assert await talker.ask(sealed(hexed("01 10 08 29 00 02 04 00 00 00 20"))) == sealed(hexed("01 10 08 29 00 02"))
    plant.values["d.ph"] = 6.0
    reply = await talker.ask(sealed(hexed("01 03 08 29 00 0A")))
    assert reply[3:7] == hexed("00 00 00 20")
    assert struct.unpack(">f", reply[9:11] + reply[7:9])[0] == pytest.approx(59.16)
    device.power_cycle()
    assert (device.level, device.unit, device.memory_writes) == (0x03, 0x200000, 1)


async def test_a_status_tells_warnings_errors_and_a_temperature_out_of_range() -> None:
    device, _, plant = await sensor()
    assert device.status() == 0
    device.warnings[3] = 1
    assert device.status() == 0x08
    device.errors[0] = 1
    plant.values["d.temperature"] = 150.0
    assert device.status() == 0x08 | 0x10 | 0x01 | 0x02


async def test_a_calibration_in_no_buffer_is_a_warning_and_changes_nothing() -> None:
    device, talker, plant = await sensor()
    device.level = 0x0C
    plant.values["d.ph"] = 5.5
    await talker.ask(sealed(hexed("01 10 14 29 00 02 04 00 00 00 00")))
    assert device.warnings[1] == 2
    assert device.primary()[0] == 5.5
    plant.values["d.ph"] = 7.2
    await talker.ask(sealed(hexed("01 10 14 29 00 02 04 00 00 00 00")))
    assert device.warnings[1] == 0
    assert device.primary()[0] == pytest.approx(7.0)


async def test_oxygen_in_percent_of_air_and_by_volume() -> None:
    device, talker, plant = await sensor(HamiltonVisifermDo)
    reply = await talker.ask(sealed(hexed("01 03 08 29 00 0A")))
    assert reply[3:7] == hexed("00 20 00 00")
    assert struct.unpack(">f", reply[9:11] + reply[7:9])[0] == 80.0
    device.unit = 0x10
    assert list(device.primary()) == pytest.approx([16.76, 0.0, 62.85])
    device.level = 0x0C
    plant.values["d.oxygen"] = 95.0
    await talker.ask(sealed(hexed("01 10 14 29 00 02 04 00 00 00 00")))
    assert device.primary()[0] == pytest.approx(20.95)
