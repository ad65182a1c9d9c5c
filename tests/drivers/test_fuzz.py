"""No bytes whatever crash a driver or become a number they do not spell (C2)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drivers.alicat_mfc import AlicatMfc
from drivers.atlas_ezo import AtlasEzoDo, AtlasEzoPh, AtlasEzoRtd
from drivers.atlas_ezo_pmp import AtlasEzoPmp
from drivers.device import Device, DeviceConfig, DeviceError, Dispense, Level, Run, Switch
from drivers.ismatec_reglo_icc import IsmatecRegloIcc
from drivers.keller_x_line import KellerXLine
from drivers.mettler_sics import MettlerSics
from drivers.modbus_coil_relay import ModbusCoilRelay
from sim.virtual_time import run_virtual
from tests.drivers.fakes import FakeAlicat, FakeBalance, FakeBus, FakeEzo, FakePmp, FakeReglo, crc
from tests.drivers.peer import Peer, Say, linked

Work = Callable[[Any], Coroutine[Any, Any, object]]
PIECES = st.sampled_from(  # beginnings, ends and whole answers of all families
    [
        *(
            b"*OK\r",
            b"*ER\r",
            b"*",
            b"#",
            b"+",
            b"-",
            b"\r",
            b"\n",
            b"\r\n",
            b"?",
            b"ES\r\n",
            b"*RS\r",
            b"*DONE,",
        ),
        *(b"?I,", b"?D,", b"?TV,", b"S S ", b"A ", b"^X1|A", b"7.35\r", b"1300E-3\r\n", b"0000000001\r\n"),
        *(b"\x01\x03\x04", b"\x03\x01\x01"),
    ]
)
NOISE = st.lists(st.one_of(st.binary(max_size=12), PIECES), max_size=6).map(b"".join)


def first_sensor(device: Device) -> Coroutine[Any, Any, float]:
    return next(iter(device.sensors.values())).read()


CASES: dict[str, tuple[type[Device], Callable[[], Any], DeviceConfig, list[Work]]] = {
    "ph": (AtlasEzoPh, lambda: FakeEzo(b"pH", b"7.35"), FakeEzo.config, [first_sensor]),
    "oxygen": (AtlasEzoDo, lambda: FakeEzo(b"DO", b"91.4"), FakeEzo.config, [first_sensor]),
    "temperature": (AtlasEzoRtd, lambda: FakeEzo(b"RTD", b"37.0"), FakeEzo.config, [first_sensor]),
    "keller": (KellerXLine, FakeBus, FakeBus.keller_config, [first_sensor]),
    "balance": (MettlerSics, FakeBalance, FakeBalance.config, [first_sensor]),
    "alicat": (
        AlicatMfc,
        FakeAlicat,
        FakeAlicat.config,
        [
            first_sensor,
            lambda d: d.actuators["flow"].status(),
            lambda d: d.actuators["flow"].apply(Level(5.0)),
        ],
    ),
    "relay": (
        ModbusCoilRelay,
        FakeBus,
        FakeBus.relay_config,
        [
            lambda d: d.actuators["heater"].status(),
            lambda d: d.actuators["heater"].apply(Switch(True, for_s=2.0)),
        ],
    ),
    "pmp": (
        AtlasEzoPmp,
        FakePmp,
        FakePmp.config,
        [lambda d: d.pump.status(), lambda d: d.pump.apply(Dispense(5000.0, 10000.0, "d"))],
    ),
    "reglo": (
        IsmatecRegloIcc,
        FakeReglo,
        FakeReglo.config,
        [
            lambda d: d.actuators["heart"].status(),
            lambda d: d.actuators["heart"].apply(Run(1000.0)),
            lambda d: d.actuators["draw"].apply(Dispense(2000.0, 4000.0, "d")),
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(noises=st.lists(NOISE, min_size=1, max_size=4), instead=st.booleans())
def test_C2_any_bytes_before_or_instead_of_replies(name: str, noises: list[bytes], instead: bool) -> None:
    run_virtual(_noisy(name, noises, instead))


async def _noisy(name: str, noises: list[bytes], instead: bool) -> None:
    driver, make, config, works = CASES[name]
    fake = make()
    peer = Peer(fake)
    async with linked(driver, peer, config) as device:
        left = list(noises)

        def noisy(request: bytes) -> list[Say]:
            said = fake(request)
            answer: list[Say] = [] if said is None else [said] if isinstance(said, bytes) else list(said)
            if not left:
                return answer
            return [(0.005, left.pop()), *([] if instead else answer)]

        peer.answers = noisy
        for work in works:
            try:
                value = await work(device)
            except DeviceError as error:
                assert "Likely cause:" in str(error)  # noqa: PT017  (any device error will do, nothing else may come)
                assert "Next:" in str(error)  # noqa: PT017
            else:
                if isinstance(value, float):
                    assert math.isfinite(value)
        peer.answers = fake
        await asyncio.sleep(15)
        assert device.conversation.verified  # and it is all well again by itself
        if device.sensors:
            await first_sensor(device)


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(noises=st.lists(NOISE, min_size=1, max_size=8), instead=st.booleans())
def test_C2_any_bytes_while_verifying(name: str, noises: list[bytes], instead: bool) -> None:
    run_virtual(_noisy_beginning(name, noises, instead))


async def _noisy_beginning(name: str, noises: list[bytes], instead: bool) -> None:
    driver, make, config, _ = CASES[name]
    fake = make()
    left = list(noises)

    def noisy(request: bytes) -> list[Say]:
        said = fake(request)
        answer: list[Say] = [] if said is None else [said] if isinstance(said, bytes) else list(said)
        return [(0.005, left.pop()), *([] if instead else answer)] if left else answer

    async with linked(driver, Peer(noisy), config, verified=False) as device:
        await asyncio.sleep(40)
        assert device.conversation.verified
        assert not getattr(fake, "on", False)


@given(st.integers(0, 8), st.integers(0, 7))
def test_C2_a_flipped_bit_never_passes_the_checksum(at: int, bit: int) -> None:
    flipped = bytearray(crc(bytes([1, 3, 4, 0x3F, 0x7C, 0xD6, 0xA1])))
    flipped[at] ^= 1 << bit
    run_virtual(_refuses(bytes(flipped)))


async def _refuses(frame: bytes) -> None:
    peer = Peer(FakeBus())
    async with linked(KellerXLine, peer, FakeBus.keller_config) as gauge:
        peer.answers = lambda request: frame
        with pytest.raises(DeviceError):
            await gauge.read()
