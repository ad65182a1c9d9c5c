"""Gas, heat, valves and described devices: no bytes whatever crash a driver or become a number they do not spell (C2)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drivers.bronkhorst_propar import BronkhorstPropar
from drivers.device import Device, DeviceError, Level, Stop
from drivers.eurotherm_3200 import Eurotherm3200
from drivers.huber_pb import HuberPb
from drivers.julabo import Julabo
from drivers.modbus_generic import ModbusGeneric
from drivers.vici_actuator import ViciActuator
from sim.devices.bronkhorst_propar import BronkhorstPropar as SimulatedPropar
from sim.devices.eurotherm_3200 import Eurotherm3200 as SimulatedEurotherm
from sim.devices.huber_pb import HuberPb as SimulatedHuber
from sim.devices.julabo import Julabo as SimulatedJulabo
from sim.devices.modbus_generic import ModbusGeneric as SimulatedModbus
from sim.devices.vici_actuator import ViciActuator as SimulatedVici
from sim.virtual_time import run_virtual
from tests.drivers.against_sim import against
from tests.sim.bench import Build, RecordingPlant

DESCRIBED = """
format: 1
name: bath
points:
  pv: {function: 3, register: 1, type: i16, scale: 0.1, unit: degC, example: 37.0}
  sp: {function: 3, register: 2, type: i16, scale: 0.1, unit: degC, level: {limits: [30, 40], rest: 20, measured: pv}}
"""
Settings = dict[str, float | str | bool]
CASES: dict[str, tuple[type[Device], Build, str, Settings, float]] = {
    "propar-binary": (BronkhorstPropar, SimulatedPropar, "3", {"full_scale_ml_min": 100.0}, 40.0),
    "propar-ascii": (BronkhorstPropar, SimulatedPropar, "3", {"full_scale_ml_min": 100.0, "mode": "ascii"}, 40.0),
    "eurotherm": (Eurotherm3200, SimulatedEurotherm, "1", {}, 37.0),
    "vici": (ViciActuator, SimulatedVici, "", {"positions": 10}, 4.0),
    "julabo": (Julabo, SimulatedJulabo, "", {}, 37.0),
    "huber": (HuberPb, SimulatedHuber, "", {}, 37.0),
    "described": (ModbusGeneric, SimulatedModbus, "1", {"description": DESCRIBED}, 37.0),
}
PIECES = st.sampled_from(
    [
        *(
            b"\x10\x02",
            b"\x10\x03",
            b":0603020121",
            b":0403000005\r\n",
            b"\r\n",
            b"\r",
            b"\n",
            b"{S00",
            b"{S010E74\r\n",
        ),
        *(b"CP", b"CP04\r", b"37.0\n", b"1\n", b"JULABO\n", b"\x01\x03", b"\x01\x83\x02", b"\x01\x06\x00\x1a"),
    ]
)
NOISE = st.lists(st.one_of(st.binary(max_size=12), PIECES), max_size=5).map(b"".join)
WHERE = st.sampled_from(["before", "instead", "behind", "cut"])


async def _noisy(case: str, noises: list[tuple[str, bytes]]) -> None:
    driver, build, address, given_settings, value = CASES[case]
    plant = RecordingPlant(d__flow=0.0)
    async with against(driver, build, address=address, settings=given_settings, plant=plant) as pair:
        left = list(noises)

        def tamper(data: bytes) -> bytes:
            if not left:
                return data
            how, noise = left.pop()
            spoilt: dict[str, Callable[[], bytes]] = {
                "before": lambda: noise + data,
                "instead": lambda: noise,
                "behind": lambda: data + noise,
                "cut": lambda: data[: len(noise) % (len(data) or 1)],
            }
            return spoilt[how]()

        await asyncio.sleep(1)
        pair.line.tamper = tamper
        actuator = next(iter(pair.driver.actuators.values()))
        for work in (actuator.status, lambda: actuator.apply(Level(value)), actuator.status):
            try:
                await work()
            except DeviceError:
                continue
        for sensor in pair.driver.sensors.values():
            try:
                assert math.isfinite(await sensor.read())
            except DeviceError:
                continue
        left.clear()
        for _ in range(60):  # however confused it was, it comes back by itself
            await asyncio.sleep(1)
            if pair.driver.conversation.verified:
                break
        for attempt in range(3):
            try:
                await actuator.apply(Stop())
                break
            except DeviceError:
                if attempt == 2:
                    raise
                await asyncio.sleep(6)
        status = await actuator.status()
        assert getattr(status, "setpoint", None) == 0.0


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(noises=st.lists(st.tuples(WHERE, NOISE), max_size=8))
def test_C2_any_bytes_instead_of_answers(case: str, noises: list[tuple[str, bytes]]) -> None:
    run_virtual(_noisy(case, noises))
