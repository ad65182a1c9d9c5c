"""A bus that many devices share: dead ones cost a bounded share of it, and no reply is taken for another device's."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from controller.links.connect import connect
from controller.rig.loading import load_rig
from sim.lab import SimulatedLab
from sim.plant.plant import Plant
from verification.bench.bus import bench_bus

RIG = load_rig(Path(__file__).parents[2] / "examples" / "rigs" / "bench.yaml")


def test_31_devices_of_which_3_are_dead_are_polled_near_the_wires_own_limit() -> None:
    found = bench_bus()
    assert found["ratio"] <= 1.3, found
    assert found["readings_missed"] == 0, found
    assert found["longest_between_readings_s"] <= 1.05 * found["period_s"], found


@pytest.mark.virtual_time
@pytest.mark.parametrize("times", [2, 3])
async def test_C2_a_reply_that_comes_twice_is_never_the_next_devices(times: int) -> None:
    plant = Plant(RIG, seed=1, now=asyncio.get_running_loop().time)
    plant.sense = lambda point: {"p_heart.pressure": 40.0, "p_filter.pressure": 2.0}.get(point, 7.0)  # type: ignore[method-assign]
    lab = SimulatedLab(RIG, seed=1, plant=plant)
    found = await connect(RIG, lab.opener)
    lab.lines[RIG.devices["p_heart"].link].tamper = lambda data: data * times
    heart, filtered = (found.devices[name].sensors["pressure"] for name in ("p_heart", "p_filter"))
    loop = asyncio.get_running_loop()
    for _ in range(200):
        assert await heart.read() == pytest.approx(40.0, abs=0.1)
        began_s = loop.time()
        assert await filtered.read() == pytest.approx(2.0, abs=0.1)
        assert loop.time() - began_s < 0.06
    await asyncio.gather(*(link.close() for link in found.links.values()))
    await lab.close()
