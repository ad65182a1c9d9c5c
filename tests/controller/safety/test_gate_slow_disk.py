"""A slow disk: a dose waits for its row, nothing else does, and whatever happens meanwhile is obeyed."""

from __future__ import annotations

import asyncio

import pytest

from controller.core.state import Volume
from controller.gate.outcome import Outcome
from controller.journal.terms import JournalUnwritten
from drivers.commands import Dispense, Level, Run, Switch
from tests.controller.safety.bench import Bench
from tests.controller.safety.facts import AIR, FEED, HEART, HEATER, RIG
from tests.controller.safety.test_gate import DOSE

pytestmark = pytest.mark.virtual_time


async def ready(slow_s: float) -> Bench:
    bench = Bench()
    await bench.circulate()
    bench.rows.slow_s = slow_s
    return bench


def doses(bench: Bench) -> int:
    return sum(isinstance(command, Dispense) for command in bench.outputs[FEED].log)


def told(outcome: Outcome) -> str:
    assert not outcome.accepted
    return outcome.reasons[-1]


async def test_D2_no_byte_of_a_dose_leaves_before_its_row_is_on_the_disk_and_life_support_waits_for_none() -> None:
    bench = await ready(3.0)
    asked = asyncio.create_task(bench.ask(FEED, DOSE))
    await asyncio.sleep(0.5)
    begun_s = bench.loop.time()
    assert (await bench.ask(HEART, Run(2500.0))).ok
    assert (await bench.ask(HEATER, Switch(True, 10.0))).ok
    assert (await bench.ask(AIR, Level(40.0))).ok
    assert bench.loop.time() - begun_s < 0.5
    await asyncio.sleep(2.0)
    assert doses(bench) == 0
    assert (await asked).ok
    assert doses(bench) == 1


async def test_A9_a_stop_cancels_a_dose_that_waits_for_the_disk_and_waits_for_none_itself() -> None:
    bench = await ready(3.0)
    asked = asyncio.create_task(bench.ask(FEED, DOSE))
    await asyncio.sleep(0.5)
    begun_s = bench.loop.time()
    assert (await bench.gate.stop(FEED, "a test")).ok
    assert bench.loop.time() - begun_s < 0.5
    assert "stopped" in told(await asked)
    assert doses(bench) == 0
    assert "not sent" in bench.rows.of("act.outcome")[-1]["error"]


async def test_A9_an_emergency_stop_cancels_a_dose_that_waits_for_the_disk_also_when_it_is_reset_at_once() -> None:
    bench = await ready(3.0)
    asked = asyncio.create_task(bench.ask(FEED, DOSE))
    await asyncio.sleep(0.5)
    await bench.gate.estop("test", "a test")
    bench.gate.reset("test", "a test")
    assert not (await asked).accepted
    assert doses(bench) == 0


async def test_A4_a_vessel_that_fills_while_a_dose_waits_for_the_disk_gets_none() -> None:
    bench = Bench(books=True)
    await bench.circulate()
    bench.rows.slow_s = 3.0
    asked = asyncio.create_task(bench.ask(FEED, DOSE))
    await asyncio.sleep(0.5)
    bench.volumes["spent"] = Volume(RIG.vessels["spent"].capacity_ul, 50.0)
    assert "spent" in told(await asked)
    assert doses(bench) == 0
    assert "not sent" in bench.rows.of("act.outcome")[-1]["error"]


async def test_a_second_dose_of_the_same_pump_does_not_queue_behind_one_that_waits() -> None:
    bench = await ready(3.0)
    asked = asyncio.create_task(bench.ask(FEED, DOSE))
    await asyncio.sleep(0.5)
    assert "another dose" in told(await bench.ask(FEED, DOSE))
    assert (await asked).ok
    assert doses(bench) == 1


async def test_D2_a_row_that_cannot_be_written_withdraws_its_dose_by_a_row_of_its_own() -> None:
    bench = await ready(1.0)
    bench.rows.unwritten = JournalUnwritten("database or disk is full")
    assert "on the disk" in told(await bench.ask(FEED, DOSE))
    assert doses(bench) == 0
    assert "not sent" in bench.rows.of("act.outcome")[-1]["error"]
    bench.rows.unwritten, bench.rows.slow_s = None, 0.0
    assert (await bench.ask(FEED, DOSE)).ok


async def test_a_dose_whose_wait_is_cancelled_is_not_given() -> None:
    bench = await ready(3.0)
    asked = asyncio.create_task(bench.ask(FEED, DOSE))
    await asyncio.sleep(0.5)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert "not sent" in bench.rows.of("act.outcome")[-1]["error"]
    bench.rows.slow_s = 0.0
    assert (await bench.ask(FEED, DOSE)).ok
    assert doses(bench) == 1
