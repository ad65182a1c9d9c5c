"""What the ground truth of the benches found in our own drivers, each by itself."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from choroid.tools.conformance.benches import lab_bench
from drivers.commands import Level, PumpStatus, Run
from drivers.conformance.stage import on_stage
from drivers.errors import BadReply, Refused, WrongDevice
from drivers.transport.link import MAX_REPLY_BYTES

pytestmark = pytest.mark.virtual_time


async def test_F3_the_total_of_an_ezo_pmp_grows_when_it_pumps_backwards() -> None:
    async with on_stage(lab_bench("atlas-ezo-pmp")) as stage:
        pump = stage.device.actuators["pump"]
        totals = []
        for flow in (2000.0, -2000.0):
            await pump.apply(Run(flow))
            await asyncio.sleep(30.0)
            status = await pump.status()
            assert isinstance(status, PumpStatus)
            totals.append(status.delivered_ul)
        assert totals == pytest.approx([1000.0, 2000.0], abs=40.0)
        assert stage.far.delivered()["pump"] == pytest.approx(2000.0, abs=40.0)


@pytest.mark.parametrize("model", ["alicat-mfc", "bronkhorst-propar"])
async def test_A7_a_gas_flow_that_rounds_to_none_is_refused_and_none_is_the_nearest(model: str) -> None:
    async with on_stage(lab_bench(model)) as stage:
        flow = stage.device.actuators["flow"]
        with pytest.raises(Refused, match="finest step"):
            await flow.apply(Level(0.0004))
        assert flow.nearest(Level(0.0004)) == Level(0.0)
        await flow.apply(Level(0.02))
        assert stage.far.outputs()["flow"] == pytest.approx(0.02, rel=0.2)


async def test_A7_a_reglo_icc_refuses_a_flow_between_two_steps_of_its_motor() -> None:
    async with on_stage(lab_bench("ismatec-reglo-icc")) as stage:
        pump = stage.device.actuators["c1"]
        with pytest.raises(Refused, match="lies between its steps"):
            await pump.apply(Run(1.0))
        nearest = pump.nearest(Run(1.0))
        assert isinstance(nearest, Run)
        await pump.apply(nearest)
        assert stage.far.outputs()["c1"] == pytest.approx(nearest.flow_ul_min, rel=0.02)


@pytest.mark.parametrize(
    ("model", "impostor"), [("keller-x-line", "vaisala-gmp25x"), ("vaisala-gmp25x", "keller-x-line")]
)
async def test_A6_a_keller_and_a_vaisala_are_not_taken_for_each_other(model: str, impostor: str) -> None:
    bench = lab_bench(model)
    async with on_stage(bench, far=bench.impostors[impostor](bench.config), verified=False) as stage:
        assert isinstance(stage.link.failures[bench.config.name], WrongDevice)


async def test_C2_a_reply_that_does_not_end_is_given_up_before_its_time_out() -> None:
    bench = lab_bench("longer-0xe9")
    async with on_stage(replace(bench)) as stage:
        pieces = 4 * MAX_REPLY_BYTES // 1024
        stage.replies = lambda reply: [(1e-4 * n, b"0" * 1024) for n in range(pieces)]
        began_s = asyncio.get_running_loop().time()
        with pytest.raises(BadReply, match="is no end of a reply"):
            await stage.device.actuators["pump"].status()
        assert asyncio.get_running_loop().time() - began_s < 0.1
