"""Corrupted readings and intermittent links: the whole stack on the bench rig, the plant is the judge (I2, I9)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from controller.core.clock import Clock
from controller.hazards.rest import rest_periods
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.readings.plausibility import Plausibility
from controller.rig.description import Rig, required
from controller.rig.loading import load_rig
from sim.faults.injector import Injector
from sim.faults.schedule import Fault
from sim.lab import SimulatedLab
from verification.campaign.readings import Tap

RIGS = Path(__file__).parents[2] / "examples" / "rigs"
RIG = load_rig(RIGS / "bench.yaml")

pytestmark = pytest.mark.virtual_time


class Believes(Plausibility):
    """A spoiled subject: it takes every number for good."""

    def judge(self, *_: object) -> None:
        return None


@asynccontextmanager
async def living(
    data: Path, rig: Rig = RIG, seed: int = 1, *, settle_s: float = 0.0, spoiled: bool = False
) -> AsyncIterator[tuple[Controller, SimulatedLab, Tap]]:
    lab = SimulatedLab(rig, seed=seed)
    clock = Clock(follow_system=False, epoch=datetime(2026, 1, 1, tzinfo=UTC))
    controller = Controller(rig=rig, opener=lab.opener, storage=Storage(data, durable=False), clock=clock)
    if spoiled:
        controller.store._plausible = Believes(rig)
    tap = Tap(rig, lab)
    tap.put_on(controller.store)
    await controller.start()
    stop = asyncio.Event()
    ticking = asyncio.create_task(controller.run(stop))
    await asyncio.sleep(settle_s)
    try:
        yield controller, lab, tap
    finally:
        stop.set()
        await ticking
        await controller.close()
        await lab.close()


async def under_noise(
    controller: Controller, lab: SimulatedLab, kind: str, share: float, seconds: float, links: int
) -> None:
    """Let each link in turn lose or double bytes; with all links at once, no pump answers and few readings are left."""
    injector = Injector(lab, [], seed=1)
    names = sorted(lab.lines)[:links]
    for link in names:
        begun = injector.inject(Fault(kind, link, 0.0, 0.0, share))
        await asyncio.sleep(seconds / len(names))
        assert begun is not None
        injector.end(begun)
        assert controller.health().ok


@pytest.mark.parametrize("kind", ["lost_byte", "doubled_byte"])
@pytest.mark.parametrize(("rig", "seed"), [("bench", 1), ("other_makers", 2)])
async def test_I9_no_corrupted_reading_is_published_as_good(kind: str, rig: str, seed: int, tmp_path: Path) -> None:
    """5 % of the bytes lost gave 336 degC, 3 degC, and 467 mL/min on a controller for 200."""
    async with living(tmp_path, load_rig(RIGS / f"{rig}.yaml"), seed) as (controller, lab, tap):
        await under_noise(controller, lab, kind, 0.05, 7200.0, len(lab.lines))
        assert [tally.worst for tally in tap.tallies.values() if tally.wrong] == []
        assert sum(tally.failed for tally in tap.tallies.values()) > 500, "the noise reached the drivers"
        assert all(tally.good > 100 for tally in tap.tallies.values() if tally.read > 300)


async def test_J1_with_plausibility_switched_off_the_judge_notices(tmp_path: Path) -> None:
    async with living(tmp_path, spoiled=True) as (controller, lab, tap):
        await under_noise(controller, lab, "lost_byte", 0.05, 7200.0, len(lab.lines))
        assert sum(tally.wrong for tally in tap.tallies.values()) > 5


async def test_I9_a_true_step_is_believed_at_the_second_reading(tmp_path: Path) -> None:
    """A technician puts 20 g on the balance: no line is bad, and nothing is dropped."""
    async with living(tmp_path, settle_s=60.0) as (controller, lab, _):
        before = controller.store.readings["balance.mass"].value
        lab.plant.faults.sensor_offset["balance.mass"] = 20.0
        await asyncio.sleep(rest_periods(RIG)["balance"] + 2.0 * RIG.devices["balance"].every_s)
        reading = controller.store.readings["balance.mass"]
        assert reading.quality.value == "good", reading.detail
        assert reading.value == pytest.approx(before + 20.0, abs=0.1)


@pytest.mark.parametrize(("up_s", "down_s"), [(4.0, 4.0), (2.0, 6.0)])
async def test_I9_an_intermittent_gas_link_swings_neither_oxygen_nor_pH(
    up_s: float, down_s: float, tmp_path: Path
) -> None:
    """Up and down every few seconds for an hour. Oxygen once went between 0 and 40 % of the gas with the link."""
    chance = random.Random(7)
    async with living(tmp_path, settle_s=1200.0) as (controller, lab, _):
        line, loop = lab.lines["sim:gas"], asyncio.get_running_loop()
        flows = [lab.devices[name] for name in ("gas_air", "gas_co2", "gas_o2")]
        lung, end_s = required(RIG.organs.lung, "organs.lung"), loop.time() + 3600.0
        before = oxygen = lab.plant.truth().concentrations[lung.vessel]["oxygen"]
        seen, moves, down = [vars(flow)["setpoint_ml_min"] for flow in flows], [0, 0, 0], False
        next_s = loop.time()
        while loop.time() < end_s:
            if loop.time() >= next_s:
                down = not down
                (line.unplug if down else line.plug)()
                next_s = loop.time() + chance.uniform(0.5, 1.5) * (down_s if down else up_s)
            await asyncio.sleep(0.5)
            truth, told = lab.plant.truth(), [vars(flow)["setpoint_ml_min"] for flow in flows]
            moves = [count + (now != was) for count, now, was in zip(moves, told, seen, strict=True)]
            seen, oxygen = told, truth.concentrations[lung.vessel]["oxygen"]
            assert 0.8 * before < oxygen < 1.2 * before
            assert abs(truth.ph[lung.vessel] - lung.ph_setpoint) < 0.1
        assert max(moves) <= 12, "no set-point moves with the link"
        assert told[2] == 0.0
        line.plug()
        await asyncio.sleep(180.0)
        assert controller.store.readings[lung.air].quality.value == "good"
