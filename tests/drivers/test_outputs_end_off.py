"""What the conformance kit does not try: an output ends off though its command is cancelled twice (A2) or its owner fails
(A3), and verification never touches one (A6).
"""

from __future__ import annotations

import asyncio

import pytest

from choroid.tools.conformance.benches import lab_bench
from drivers.commands import Command, Run
from drivers.conformance.peer import Peer
from drivers.conformance.stage import SETTLE_S, Stage, accepted_commands, is_on, on_stage
from drivers.errors import DeviceError
from drivers.ismatec_reglo_icc import IsmatecRegloIcc
from drivers.registry import MODELS
from tests.drivers.fakes import FakeReglo
from tests.drivers.peer import linked

pytestmark = pytest.mark.virtual_time

each_model = pytest.mark.parametrize(
    "model", [model for model, driver in sorted(MODELS.items()) if driver.model.capabilities != ("read",)]
)


@each_model
async def test_A2_cancelled_again_while_it_is_being_turned_off(model: str) -> None:
    for point, command in await accepted_commands(lab_bench(model)):
        async with on_stage(lab_bench(model)) as stage:
            actuator = stage.device.actuators[point]
            begun_s = asyncio.get_running_loop().time()
            await actuator.apply(command)
            whole_s = asyncio.get_running_loop().time() - begun_s
        async with on_stage(lab_bench(model)) as stage:
            applying = asyncio.ensure_future(stage.device.actuators[point].apply(command))
            await asyncio.sleep(whole_s - 0.005)
            for _ in range(20):
                applying.cancel()
                await asyncio.sleep(0.003)
            with pytest.raises(asyncio.CancelledError):
                await applying
            await asyncio.sleep(SETTLE_S)
            assert not stage.moved, command


@each_model
async def test_A3_leaving_the_block_by_an_error_turns_off(model: str) -> None:
    for point, command in await accepted_commands(lab_bench(model)):
        async with on_stage(lab_bench(model)) as stage:
            with pytest.raises(ZeroDivisionError):
                await _fails_inside(stage, point, command)
            await asyncio.sleep(SETTLE_S)
            assert not stage.moved, command
            await stage.device.close()  # twice does no harm


async def _fails_inside(stage: Stage, point: str, command: Command) -> None:
    async with stage.device as device:
        await device.actuators[point].apply(command)
        raise ZeroDivisionError


@each_model
async def test_A3_close_is_finished_even_when_it_is_cancelled(model: str) -> None:
    for point, command in await accepted_commands(lab_bench(model)):
        async with on_stage(lab_bench(model)) as stage:
            await stage.device.actuators[point].apply(command)
            closing = asyncio.ensure_future(stage.device.close())
            await asyncio.sleep(0.001)
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            await asyncio.sleep(SETTLE_S)
            assert not stage.moved, command


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


@each_model
async def test_A6_verification_never_changes_an_output(model: str) -> None:
    for point, command in await accepted_commands(lab_bench(model)):
        async with on_stage(lab_bench(model)) as stage:
            actuator = stage.device.actuators[point]
            resting = await actuator.status()
            await actuator.apply(command)
            await asyncio.sleep(SETTLE_S)
            before = dict(stage.far.outputs())
            await stage.device.verify()
            await asyncio.sleep(SETTLE_S)
            assert dict(stage.far.outputs()) == before
            assert is_on(await actuator.status(), resting) or stage.moved
