"""Every output ends off: cancelled at any await (A2), closed (A3), or cut off in the middle (C1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from drivers.alicat_mfc import AlicatMfc
from drivers.atlas_ezo_pmp import AtlasEzoPmp
from drivers.device import (
    Command,
    Device,
    DeviceConfig,
    DeviceError,
    Dispense,
    Level,
    LinkDown,
    NoReply,
    Run,
    Stop,
    Switch,
)
from drivers.ismatec_reglo_icc import IsmatecRegloIcc
from drivers.modbus_coil_relay import ModbusCoilRelay
from tests.drivers.fakes import FakeAlicat, FakeBus, FakePmp, FakeReglo
from tests.drivers.peer import Peer, linked

pytestmark = pytest.mark.virtual_time


@dataclass(frozen=True)
class Case:
    driver: type[Device]
    fake: Callable[[], Any]
    config: DeviceConfig
    point: str
    command: Command

    def __str__(self) -> str:
        return f"{self.driver.__name__}-{self.command}"


CASES = [
    Case(IsmatecRegloIcc, FakeReglo, FakeReglo.config, "heart", Run(2000.0)),
    Case(IsmatecRegloIcc, FakeReglo, FakeReglo.config, "heart", Run(-2000.0)),
    Case(IsmatecRegloIcc, FakeReglo, FakeReglo.config, "draw", Dispense(2000.0, 4000.0, "d")),
    Case(AtlasEzoPmp, FakePmp, FakePmp.config, "pump", Run(10000.0)),
    Case(AtlasEzoPmp, FakePmp, FakePmp.config, "pump", Dispense(5000.0, 10000.0, "d")),
    Case(ModbusCoilRelay, FakeBus, FakeBus.relay_config, "heater", Switch(True)),
    Case(ModbusCoilRelay, FakeBus, FakeBus.relay_config, "heater", Switch(True, for_s=20.0)),
    Case(AlicatMfc, FakeAlicat, FakeAlicat.config, "flow", Level(10.0)),
]
each_case = pytest.mark.parametrize("case", CASES, ids=str)


@asynccontextmanager
async def rigged(case: Case) -> AsyncIterator[tuple[Device, Any, Peer]]:
    fake = case.fake()
    peer = Peer(fake)
    async with linked(case.driver, peer, case.config) as device:
        await asyncio.sleep(1)
        yield device, fake, peer


async def time_needed(case: Case) -> float:
    async with rigged(case) as (device, fake, _):
        begun = asyncio.get_running_loop().time()
        await device.actuators[case.point].apply(case.command)
        assert fake.on
        return asyncio.get_running_loop().time() - begun


@each_case
async def test_A2_cancelled_at_every_await_the_output_is_off(case: Case) -> None:
    whole_s = await time_needed(case)
    steps = 60
    for step in range(steps):
        async with rigged(case) as (device, fake, _):
            applying = asyncio.ensure_future(device.actuators[case.point].apply(case.command))
            await asyncio.sleep(whole_s * step / steps)
            applying.cancel()
            with pytest.raises(asyncio.CancelledError):
                await applying
            assert not fake.on, f"cancelled {whole_s * step / steps:.4f} s into it"
            assert not _is_on(await device.actuators[case.point].status())


@each_case
async def test_A2_cancelled_again_while_it_is_being_turned_off(case: Case) -> None:
    whole_s = await time_needed(case)
    async with rigged(case) as (device, fake, _):
        applying = asyncio.ensure_future(device.actuators[case.point].apply(case.command))
        await asyncio.sleep(whole_s - 0.005)
        for _ in range(20):
            applying.cancel()
            await asyncio.sleep(0.003)
        with pytest.raises(asyncio.CancelledError):
            await applying
        assert not fake.on


@each_case
async def test_A2_a_lost_confirmation_ends_off(case: Case) -> None:
    async with rigged(case) as (device, fake, peer):
        answers = peer.answers

        def loses_what_turns_on(request: bytes) -> Any:
            was_on, answer = fake.on, answers(request)
            return None if fake.on and not was_on else answer

        peer.answers = loses_what_turns_on
        with pytest.raises(NoReply):
            await device.actuators[case.point].apply(case.command)
        assert not fake.on


@each_case
async def test_A3_close_turns_everything_off_and_says_so_twice_without_harm(case: Case) -> None:
    async with rigged(case) as (device, fake, _):
        await device.actuators[case.point].apply(case.command)
        assert fake.on
        await device.close()
        assert not fake.on
        await device.close()


@each_case
async def test_A3_leaving_the_block_by_an_error_turns_off(case: Case) -> None:
    async with rigged(case) as (device, fake, _):

        async def fails_inside() -> None:
            async with device:
                await device.actuators[case.point].apply(case.command)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fails_inside()
        assert not fake.on


@each_case
async def test_A3_close_is_finished_even_when_it_is_cancelled(case: Case) -> None:
    async with rigged(case) as (device, fake, _):
        await device.actuators[case.point].apply(case.command)
        closing = asyncio.ensure_future(device.close())
        await asyncio.sleep(0.001)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert not fake.on


async def test_A3_close_turns_off_the_others_when_one_fails() -> None:
    reglo = FakeReglo()
    peer = Peer(reglo)
    async with linked(IsmatecRegloIcc, peer, FakeReglo.config) as pump:
        await pump.actuators["heart"].apply(Run(1000.0))
        await pump.actuators["draw"].apply(Run(1000.0))
        peer.answers = lambda request: b"#" if request == b"1I\r" else reglo(request)
        with pytest.raises(DeviceError):
            await pump.close()
        assert not reglo.running["2"]


@each_case
async def test_A6_no_command_is_sent_to_an_unverified_device(case: Case) -> None:
    fake = case.fake()
    peer = Peer(lambda request: None)
    async with linked(case.driver, peer, case.config, verified=False) as device:
        peer.sent.clear()
        peer.answers = fake
        with pytest.raises(LinkDown):
            await device.actuators[case.point].apply(case.command)
        with pytest.raises(LinkDown):
            await device.actuators[case.point].apply(Stop())
        assert peer.sent == []


@each_case
async def test_A6_verification_never_changes_an_output(case: Case) -> None:
    async with rigged(case) as (device, fake, _):
        await device.actuators[case.point].apply(case.command)
        assert fake.on
        await device.verify()
        assert fake.on


@each_case
async def test_A4_twice_equals_once(case: Case) -> None:
    async with rigged(case) as (device, fake, _):
        actuator = device.actuators[case.point]
        await actuator.apply(case.command)
        first = await actuator.status()
        await actuator.apply(case.command)
        assert await actuator.status() == first
        assert len(getattr(fake, "starts", [])) <= 1


@each_case
async def test_C1_a_pulled_cable_in_the_middle_of_a_command_leaves_a_usable_device(case: Case) -> None:
    whole_s = await time_needed(case)
    for step in range(12):
        async with rigged(case) as (device, fake, peer):
            asyncio.get_running_loop().call_later(whole_s * step / 12, peer.hang_up)
            with pytest.raises(DeviceError):
                await device.actuators[case.point].apply(case.command)
            await asyncio.sleep(8)
            assert device.conversation.verified
            await device.actuators[case.point].apply(Stop())
            assert not fake.on


def _is_on(status: object) -> bool:
    return bool(getattr(status, "running", False) or getattr(status, "on", False) or getattr(status, "setpoint", 0))
