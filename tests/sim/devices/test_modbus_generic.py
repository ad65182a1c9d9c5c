"""The simulated device of a description: golden frames, and silence or an exception where a real one would give it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.devices.modbus_generic import ModbusGeneric
from sim.devices.modbus_slave import sealed
from sim.virtual_time import run_virtual
from tests.sim.bench import RecordingPlant, Talker, client_of, device_on_a_line

EXAMPLES = Path(__file__).parents[3] / "examples/devices"

BOX = """
format: 1
name: box
max_gap: 1
check: {function: 4, register: 100, type: u16, equals: 7}
points:
  pv: {function: 3, register: 1, type: i16, scale: 0.1, unit: degC, example: 37.0}
  wide: {function: 3, register: 3, type: u32, word_order: low_first, example: 65538}
  sp: {function: 3, register: 20, type: i16, scale: 0.1, unit: degC, level: {limits: [30, 40], rest: -5, measured: pv}}
  gas: {function: 3, register: 21, type: f32, unit: mL/min, level: {limits: [1, 9], rest: 0}}
  far: {function: 3, register: 30, type: u16, group: g}
  away: {function: 3, register: 40, type: u16, group: g, bit: 2, example: 1}
  coil: {function: 1, register: 0, switch: {on: 1, off: 0}}
  bit: {function: 2, register: 9, example: 1}
"""


def hexed(text: str) -> bytes:
    return bytes.fromhex(text)


async def box(text: str = BOX, address: str = "1", **values: float) -> tuple[ModbusGeneric, Talker, RecordingPlant]:
    plant = RecordingPlant(**values)
    device = device_on_a_line(ModbusGeneric, plant, address=address, settings={"description": text})
    assert isinstance(device, ModbusGeneric)
    return device, await client_of(device), plant


@pytest.mark.virtual_time
async def test_golden_frames_of_three_makers() -> None:
    text = (EXAMPLES / "co2-probe.yaml").read_text(encoding="utf-8")
    _, talker, _ = await box(text, "240", d__co2=465.65997)
    assert await talker.ask(hexed("F0 03 00 00 00 02 D1 2A")) == hexed("F0 03 04 D4 7A 43 E8 33 AB")
    text = (EXAMPLES / "pressure-transmitter.yaml").read_text(encoding="utf-8")
    _, talker, _ = await box(text, d__pressure=98.765)
    assert await talker.ask(hexed("01 03 00 02 00 02 65 CB")) == hexed("01 03 04 3F 7C D6 A1 A8 27")
    text = (EXAMPLES / "thermostat.yaml").read_text(encoding="utf-8")
    _, talker, _ = await box(text, d__bath=37.0)
    assert await talker.ask(hexed("01 03 00 01 00 01 D5 CA")) == hexed("01 03 02 01 72 39 F1")
    text = (EXAMPLES / "relay-board.yaml").read_text(encoding="utf-8")
    _, talker, plant = await box(text)
    assert await talker.ask(hexed("01 05 00 00 FF 00 8C 3A")) == hexed("01 05 00 00 FF 00 8C 3A")
    assert plant.last("d.heater") == 1.0


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        ("01 03 00 01 00 04", "01 03 08 01 72 00 00 00 02 00 01"),
        ("01 03 00 14 00 01", "01 03 02 FF CE"),
        ("01 03 00 1E 00 0B", "01 03 16" + " 00" * 20 + " 00 04"),
        ("01 02 00 09 00 01", "01 02 01 01"),
        ("01 01 00 00 00 01", "01 01 01 00"),
        ("01 04 00 64 00 01", "01 04 02 00 07"),
        ("01 06 00 14 01 72", "01 06 00 14 01 72"),
        ("01 10 00 14 00 01 02 01 72", "01 10 00 14 00 01"),
        ("01 10 00 15 00 02 04 40 A0 00 00", "01 10 00 15 00 02"),
        ("01 0F 00 00 00 01 01 01", "01 0F 00 00 00 01"),
        ("01 03 00 00 00 01", "01 83 02"),
        ("01 03 00 05 00 01", "01 83 02"),
        ("01 03 00 01 00 7E", "01 83 03"),
        ("01 03 00 01 00 00", "01 83 03"),
        ("01 06 00 01 00 00", "01 86 02"),
        ("01 06 00 15 00 00", "01 86 02"),
        ("01 10 00 15 00 02 04 7F C0 00 00", "01 90 03"),
        ("01 10 00 14 00 02 02 01 72", "01 90 03"),
        ("01 05 00 00 12 34", "01 85 03"),
        ("01 05 00 01 FF 00", "01 85 02"),
        ("01 0F 00 00 00 02 01 03", "01 8F 03"),
        ("01 2B 0E 01 00", "01 AB 01"),
        ("01 07", "01 87 01"),
    ],
)
async def test_requests_and_refusals(request_: str, reply: str) -> None:
    _, talker, _ = await box()
    assert await talker.ask(sealed(hexed(request_))) == sealed(hexed(reply))


@pytest.mark.virtual_time
async def test_what_is_measured_follows_and_power_brings_all_to_rest() -> None:
    device, talker, plant = await box()
    await talker.ask(sealed(hexed("01 06 00 14 01 90")))  # 40.0
    await talker.ask(sealed(hexed("01 10 00 15 00 02 04 40 A0 00 00")))
    await talker.ask(sealed(hexed("01 05 00 00 FF 00")))
    assert (plant.last("d.gas"), plant.last("d.coil")) == (5.0, 1.0)
    await asyncio.sleep(60)
    raw = int.from_bytes((await talker.ask(sealed(hexed("01 03 00 01 00 01"))))[3:5], "big")
    assert 388 <= raw <= 390  # 37 + 3 (1 - 1/e) after one time constant
    assert device.writes == dict.fromkeys(device.writes, 0) | {"sp": 1, "gas": 1, "coil": 1}
    device.power_cycle()
    assert (plant.last("d.gas"), plant.last("d.coil")) == (0.0, 0.0)
    assert await talker.ask(sealed(hexed("01 03 00 14 00 01"))) == sealed(hexed("01 03 02 FF CE"))


async def _fed(chunks: list[bytes]) -> list[tuple[float, str, float]]:
    _, talker, plant = await box()
    for chunk in chunks:
        talker.say(chunk)
        await asyncio.sleep(0.02)
    await asyncio.sleep(1)
    assert (await talker.ask(sealed(hexed("01 04 00 64 00 01")))).endswith(sealed(hexed("01 04 02 00 07")))
    return plant.log


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=20),
            st.tuples(st.sampled_from((0, 1, 2)), st.binary(min_size=1, max_size=12)).map(
                lambda it: sealed(bytes((it[0],)) + it[1])
            ),
        ),
        max_size=8,
    )
)
def test_C2_any_bytes_and_any_sealed_request_never_raise(chunks: list[bytes]) -> None:
    run_virtual(_fed(chunks))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.binary(max_size=7), max_size=8))
def test_C2_noise_moves_nothing(chunks: list[bytes]) -> None:
    assert run_virtual(_fed(chunks)) == []
