"""Jobst SIX: the frame of the reference, resynchronisation, calibration, and values that are refused."""

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.errors import DeviceFault, NoReply, WrongDevice
from drivers.jobst_six import JobstSix, take_frame
from drivers.settings import BadSetting
from sim.devices import jobst_six as sim
from tests.drivers.against_sim import against
from tests.drivers.facts import DriverFacts
from tests.sim.bench import RecordingPlant

FACTS = {
    "jobst-six": DriverFacts(
        line="9600 8N1", queries=frozenset({""}), no_health="its loss of enzyme is followed by assays"
    ),
}

GOLDEN = bytes.fromhex("68 13 13 68 04 01 90 16 04 FF FE 00 00 7F FF 80 00 02 50 00 00 A0 28 C4 16")
"""By hand: 400, 5636 (with 16 and 04 among its bytes), -2, 0, 32767, -32768; 37.0 °C; device 41000."""

pytestmark = pytest.mark.virtual_time


GAINS = {"lactate_gain": 0.5, "glucose_gain": 0.5, "blank_gain": 0.5}


def plant(lactate: float = 4.0, glucose: float = 15.0, celsius: float = 37.0) -> RecordingPlant:
    return RecordingPlant(d__lactate=lactate, d__glucose=glucose, d__temperature=celsius)


def test_the_golden_frame_is_read_and_written_the_same() -> None:
    frame = take_frame(bytearray(GOLDEN))
    assert frame is not None
    assert frame.counts == (400, 5636, -2, 0, 32767, -32768)
    assert (frame.temperature_c, frame.number) == (37.0, 41_000)
    assert sim.telegram(frame.counts, 37.0, 41_000) == GOLDEN


@given(st.binary(max_size=60), st.integers(0, 24), st.integers(0, 7))
def test_C2_a_frame_is_found_after_any_bytes_and_never_with_a_wrong_bit(noise: bytes, at: int, bit: int) -> None:
    buffer = bytearray(noise + GOLDEN)
    found = []
    while (frame := take_frame(buffer)) is not None:
        found.append(frame)
    assert found
    assert len(buffer) < 25
    wrong = bytearray(GOLDEN)
    wrong[at] ^= 1 << bit
    frame = take_frame(wrong)
    assert frame is None or (at < 4 and frame.counts[0] == 400)


async def test_it_reads_what_the_sheet_says_less_the_electrode_without_enzyme() -> None:
    settings = {"lactate_gain": 0.8, "lactate_tc": 3.0, "glucose_gain": 2.0, "gain_factor": 5.0, "blank_gain": 0.4}
    async with against(JobstSix, sim.JobstSix, settings=settings, plant=plant(celsius=31.5)) as pair:
        values = [await sensor.read() for sensor in pair.driver.sensors.values()]
        assert values == pytest.approx([4.0, 15.0, 31.5], abs=0.11)
        assert pair.driver.identity is not None
        assert pair.driver.identity.serial == str(pair.box.number)


async def test_a_wrong_temperature_coefficient_matters_by_its_size() -> None:
    """The golden frame of the simulator is taken with 3 %/K, and the driver has none: 5.5 K are a factor of 0.85."""
    async with against(
        JobstSix, sim.JobstSix, settings=GAINS, box_settings=GAINS | {"lactate_tc": 3.0}, plant=plant(celsius=31.5)
    ) as pair:
        value = await pair.driver.sensors["lactate"].read()
        assert value == pytest.approx(4.3 * math.exp(-0.165) - 0.3, abs=0.02)


@pytest.mark.parametrize("point", ["lactate", "glucose"])
async def test_I2_a_saturated_channel_is_a_fault_and_no_number(point: str) -> None:
    async with against(JobstSix, sim.JobstSix, settings=GAINS, plant=plant()) as pair:
        pair.box.saturated = True
        with pytest.raises(DeviceFault, match="at its limit"):
            await pair.driver.sensors[point].read()


async def test_I2_values_beyond_the_linear_range_are_refused() -> None:
    async with against(JobstSix, sim.JobstSix, settings=GAINS, plant=plant(lactate=25.6, glucose=-1.4)) as pair:
        for point in ("lactate", "glucose"):
            with pytest.raises(DeviceFault, match="outside its linear range"):
                await pair.driver.sensors[point].read()
        pair.plant.values["d.temperature"] = 130.0
        await asyncio.sleep(1.1)
        with pytest.raises(DeviceFault, match="no temperature"):
            await pair.driver.sensors["temperature"].read()


async def test_C3_a_device_that_no_longer_sends_is_no_value() -> None:
    async with against(JobstSix, sim.JobstSix, settings=GAINS, plant=plant()) as pair:
        await pair.driver.sensors["lactate"].read()
        pair.box.hung = True
        await asyncio.sleep(1.1)
        with pytest.raises(NoReply):
            await pair.driver.sensors["glucose"].read()


async def test_A6_an_exchanged_potentiostat_is_refused_since_its_sensor_has_other_gains() -> None:
    async with against(JobstSix, sim.JobstSix, settings=GAINS, plant=plant()) as pair:
        await pair.driver.sensors["lactate"].read()
        pair.box.number += 1
        await asyncio.sleep(1.1)
        with pytest.raises(WrongDevice, match="it was"):
            await pair.driver.sensors["glucose"].read()


@pytest.mark.parametrize(
    "settings",
    [
        {**GAINS, "gain_factor": 2.0},
        {**GAINS, "lactate_channel": 1.5},
        {**GAINS, "blank_channel": 1.0},
        {**GAINS, "lactate_gain": 0.0},
        {"lactate_gain": 0.5, "glucose_gain": 0.5},
    ],
)
async def test_D7_wrong_settings_are_named(settings: dict[str, float | str | bool]) -> None:
    with pytest.raises(BadSetting):
        async with against(JobstSix, sim.JobstSix, settings=settings, box_settings={}, plant=plant()):
            pass
