"""Sensors and balances: no bytes whatever crash a driver or become a number, and it is well again afterwards (C2)."""

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drivers.atlas_ezo import AtlasEzoEc, AtlasEzoOrp
from drivers.device import Device, DeviceError
from drivers.hamilton_arc import HamiltonPhArc, HamiltonVisifermDo
from drivers.keller_bus_transmitter import KellerBus
from drivers.sartorius_sbi import SartoriusSbi
from drivers.sensirion_slf3x import SensirionSlf3x
from drivers.vaisala_gmp25x import VaisalaGmp25x
from sim.devices import atlas_ezo, hamilton_arc, keller_bus, sartorius_sbi, sensirion_slf3x, vaisala_gmp25x
from sim.virtual_time import run_virtual
from tests.drivers.sensor_bench import simulated
from tests.sim.bench import Build, RecordingPlant

CASES: dict[type[Device], Build] = {
    HamiltonPhArc: hamilton_arc.HamiltonPhArc,
    HamiltonVisifermDo: hamilton_arc.HamiltonVisifermDo,
    SensirionSlf3x: sensirion_slf3x.SensirionSlf3x,
    VaisalaGmp25x: vaisala_gmp25x.VaisalaGmp25x,
    SartoriusSbi: sartorius_sbi.SartoriusSbi,
    AtlasEzoEc: atlas_ezo.EzoEc,
    AtlasEzoOrp: atlas_ezo.EzoOrp,
    KellerBus: keller_bus.KellerBus,
}
POINTS = {
    **dict.fromkeys(("ph", "oxygen", "temperature", "co2", "mass", "orp", "conductivity"), 7.0),
    "flow": 700.0,
    "pressure": 12.5,
}
PIECES = st.sampled_from(
    [
        *(
            b"\x01\x03\x14",
            b"\x01\x03\x04",
            b"\x01\x10",
            b"\xf0\x03\x04",
            b"\xf0\x2b\x0e\x01\x01\x00\x00\xff",
            b"\x01\x49",
        ),
        *(
            b"\x7e",
            b"\x7d",
            b"\x7e\x00\x35\x00\x06",
            b"\x7e\x00\xd1\x00\x07",
            b"+   ",
            b" g  \r\n",
            b"Stat  ",
            b"H",
            b"Err ",
        ),
        *(b"\r", b"\n", b"*OK\r", b"*ER\r", b"*RS\r", b"?I,EC,", b"?O,", b"?K,"),
    ]
)
NOISE = st.lists(st.one_of(st.binary(max_size=12), PIECES), max_size=6).map(b"".join)


@pytest.mark.parametrize("driver", CASES)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(noises=st.lists(NOISE, min_size=1, max_size=6), place=st.sampled_from(["before", "after", "instead"]))
def test_C2_any_bytes_around_or_instead_of_replies(driver: type[Device], noises: list[bytes], place: str) -> None:
    run_virtual(_noisy(driver, noises, place))


async def _noisy(driver: type[Device], noises: list[bytes], place: str) -> None:
    plant = RecordingPlant(**{f"d__{point}": value for point, value in POINTS.items()})
    left = list(noises)

    def tamper(said: bytes) -> bytes:
        if not left:
            return said
        noise = left.pop()
        return {"before": noise + said, "after": said + noise, "instead": noise}[place]

    async with simulated(driver, CASES[driver], plant) as (device, simulator):
        assert simulator.line is not None
        simulator.line.tamper = tamper
        for _ in range(8):
            for point, sensor in device.sensors.items():
                try:
                    value = await sensor.read()
                except DeviceError as error:
                    assert "Likely cause:" in str(error)  # noqa: PT017  (any device error will do, nothing else may come)
                else:
                    assert math.isfinite(value), point
        left.clear()
        await asyncio.sleep(40)
        assert device.conversation.verified
        for point, sensor in device.sensors.items():
            assert await sensor.read() == pytest.approx(POINTS.get(point, 0.0))
