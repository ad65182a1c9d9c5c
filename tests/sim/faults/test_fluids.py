"""Every fault of liquids does to the plant what its meaning says; in health again, the plant is as one that never had it."""

from __future__ import annotations

import asyncio

import pytest

from sim.faults.injector import Injector
from sim.faults.kinds import KINDS
from sim.faults.schedule import Fault
from sim.lab import SimulatedLab
from sim.plant.truth import PlantTruth
from tests.sim.faults.bench import RIG, lab_with

pytestmark = pytest.mark.virtual_time

PUMPS = {name: line.pump for name, line in RIG.lines.items() if line.pump is not None}
MINUTE_S = 60.0


def pump(lab: SimulatedLab, line: str, ul_min: float) -> None:
    """Let a line's pump turn, its valve open."""
    if (valve := RIG.lines[line].valve) is not None:
        lab.drives.set_switch(valve, ul_min != 0)
    lab.drives.set_pump(PUMPS[line], ul_min)


async def moved(lab: SimulatedLab, line: str, minutes: float = 1.0) -> float:
    """What the line takes in a minute (µL/min)."""
    before = lab.plant.truth().moved_ul[line]
    await asyncio.sleep(minutes * MINUTE_S)
    return (lab.plant.truth().moved_ul[line] - before) / minutes


def arrived(before: PlantTruth, after: PlantTruth, vessel: str) -> float:
    return after.volumes_ul[vessel] - before.volumes_ul[vessel]


def inject(injector: Injector, kind: str, target: str, amount: float = 0.0, for_s: float = 0.0) -> None:
    assert injector.inject(Fault(kind, target, 0.0, for_s, amount)) is not None


async def test_an_occlusion_blocks_its_part_and_two_block_more() -> None:
    async with lab_with() as (lab, injector):
        pump(lab, "draw", 2000.0)
        healthy = await moved(lab, "draw")
        inject(injector, "occlusion", "draw", 0.5, 120.0)
        assert await moved(lab, "draw") == pytest.approx(healthy * 0.5, rel=0.02)
        inject(injector, "occlusion", "draw", 0.5, 60.0)
        assert await moved(lab, "draw") == pytest.approx(healthy * 0.25, rel=0.02)
        assert await moved(lab, "draw") == pytest.approx(healthy, rel=0.02)
        inject(injector, "occlusion", "draw")
        assert await moved(lab, "draw") == pytest.approx(0.0, abs=healthy / 100)
        injector.clear()
        assert await moved(lab, "draw") == pytest.approx(healthy, rel=0.02)


async def test_a_kink_of_the_heart_raises_pressure_before_it() -> None:
    async with lab_with() as (lab, injector):
        pump(lab, "heart", 2000.0)
        await asyncio.sleep(60.0)
        healthy = lab.plant.sense("p_heart.pressure")
        inject(injector, "heart_occlusion", "heart", 0.9, 30.0)
        await asyncio.sleep(20.0)
        assert lab.plant.sense("p_heart.pressure") > healthy + 60.0
        await asyncio.sleep(60.0)
        assert lab.plant.sense("p_heart.pressure") == pytest.approx(healthy, abs=1.0)


async def test_a_leak_loses_what_it_says_while_the_line_carries() -> None:
    async with lab_with() as (lab, injector):
        pump(lab, "draw", 2000.0)
        await asyncio.sleep(60.0)
        inject(injector, "leak", "draw", 100.0)
        inject(injector, "leak", "draw", 50.0)
        before = lab.plant.truth()
        await asyncio.sleep(10 * MINUTE_S)
        after = lab.plant.truth()
        lost = after.losses_ul["leak"] - before.losses_ul["leak"]
        assert lost == pytest.approx(1500.0, rel=0.02)
        took = after.moved_ul["draw"] - before.moved_ul["draw"]
        assert arrived(before, after, "spent") == pytest.approx(took - lost, rel=0.01)
        pump(lab, "draw", 0.0)
        at_rest = lab.plant.truth().losses_ul["leak"]
        await asyncio.sleep(10 * MINUTE_S)
        assert lab.plant.truth().losses_ul["leak"] == at_rest, "a line at rest does not leak"
        injector.clear()
        pump(lab, "draw", 2000.0)
        await asyncio.sleep(MINUTE_S)
        assert lab.plant.truth().losses_ul["leak"] == at_rest


async def test_a_bubble_takes_the_place_of_as_much_liquid_and_passes() -> None:
    async with lab_with() as (lab, injector), lab_with() as (twin, _):
        for each in (lab, twin):
            pump(each, "draw", 2000.0)
        await asyncio.sleep(60.0)
        inject(injector, "bubble", "draw", 300.0)
        await asyncio.sleep(60.0)
        missing = twin.plant.truth().volumes_ul["spent"] - lab.plant.truth().volumes_ul["spent"]
        assert missing == pytest.approx(300.0, rel=0.05)
        assert lab.plant.faults.bubble_ul == {}
        await asyncio.sleep(60.0)
        later = twin.plant.truth().volumes_ul["spent"] - lab.plant.truth().volumes_ul["spent"]
        assert later == pytest.approx(missing, rel=0.01)


async def test_worn_tubing_moves_less_and_new_tubing_as_before() -> None:
    async with lab_with() as (lab, injector):
        pump(lab, "return", 2000.0)
        healthy = await moved(lab, "return", 0.5)
        inject(injector, "worn_tubing", "return", 0.2, 30.0)
        worn = await moved(lab, "return", 0.5)
        assert 0.7 * healthy < worn < 0.9 * healthy
        pump(lab, "return", 2000.0)
        assert await moved(lab, "return", 0.25) == pytest.approx(healthy, rel=0.03)


async def test_a_clogged_filter_resists_and_a_torn_one_lets_through() -> None:
    async with lab_with() as (lab, injector):
        pump(lab, "draw", 4000.0)
        await asyncio.sleep(240.0)
        pump(lab, "draw", 0.0)
        pump(lab, "return", 3000.0)
        await asyncio.sleep(20.0)

        def pressure() -> float:
            return sum(lab.plant.sense("p_filter.pressure") for _ in range(20)) / 20

        healthy = pressure()
        assert healthy > 1.0
        inject(injector, "clogged_filter", "sterile", 5.0, 40.0)
        await asyncio.sleep(20.0)
        assert pressure() > 3.0 * healthy
        inject(injector, "clogged_filter", "sterile", 2.0, 10.0)
        assert lab.plant.faults.clog == 10.0
        await asyncio.sleep(40.0)
        assert pressure() == pytest.approx(healthy, rel=0.2)
        inject(injector, "torn_filter", "sterile", 0.0, 20.0)
        await asyncio.sleep(10.0)
        assert pressure() < 0.7 * healthy
        await asyncio.sleep(30.0)
        assert pressure() == pytest.approx(healthy, rel=0.2)


async def test_an_empty_bottle_gives_nothing() -> None:
    async with lab_with() as (lab, injector):
        inject(injector, "empty", "reservoir", 0.0, 120.0)
        for line in ("feed", "base"):
            pump(lab, line, 1000.0)
        assert await moved(lab, "feed") == pytest.approx(0.0, abs=10.0)
        assert await moved(lab, "base") == pytest.approx(1000.0, rel=0.15), "another bottle"
        await asyncio.sleep(61.0)
        assert await moved(lab, "feed") == pytest.approx(1000.0, rel=0.15)


async def test_a_contaminated_batch_grows() -> None:
    async with lab_with() as (lab, injector):

        def microbes() -> float:
            return lab.plant.truth().concentrations["loop"]["microbes"]

        assert microbes() == 0.0
        inject(injector, "contaminated", "loop", 50.0)
        await asyncio.sleep(60.0)
        first = microbes()
        assert first == pytest.approx(50.0, rel=0.1)
        await asyncio.sleep(3 * 3600.0)
        assert microbes() > 2.0 * first


async def test_a_wrong_medium_is_in_the_bottle_until_it_is_filled_again() -> None:
    async with lab_with() as (lab, injector):

        def glucose(vessel: str) -> float:
            return lab.plant.truth().concentrations[vessel]["glucose"]

        media = list(RIG.media)
        healthy = glucose("reservoir")
        assert healthy == pytest.approx(21.0)
        inject(injector, "wrong_medium", "reservoir", 1.0 + media.index("glucose_stock"), 600.0)
        inject(injector, "wrong_medium", "base", 0.0, 600.0)
        await asyncio.sleep(300.0)
        assert glucose("reservoir") == pytest.approx(60.0)
        assert glucose("base") == pytest.approx(21.0), "the first medium that is not its own"
        await asyncio.sleep(301.0)
        lab.plant.advance()
        await asyncio.sleep(3.0)
        assert glucose("reservoir") == pytest.approx(healthy)
        assert glucose("base") == 0.0
        inject(injector, "wrong_medium", "reservoir", 1.0 + media.index("base_stock"), 60.0)
        await asyncio.sleep(30.0)
        assert glucose("reservoir") == 0.0, "a second mistake is one as well"


async def test_a_drift_grows_with_time_and_goes() -> None:
    async with lab_with() as (lab, injector):

        def mass() -> float:
            return lab.plant.sense("balance.mass")

        healthy = mass()
        inject(injector, "drift", "balance.mass", 24.0, 7200.0)
        mass()
        await asyncio.sleep(3600.0)
        assert mass() - healthy == pytest.approx(1.0, abs=0.1)
        await asyncio.sleep(3660.0)
        assert mass() == pytest.approx(healthy, abs=0.1)


def test_every_fluid_is_shown_here() -> None:
    shown = {"occlusion", "heart_occlusion", "leak", "bubble", "worn_tubing", "clogged_filter", "torn_filter", "empty"}
    fluids = {name for name, kind in KINDS.items() if kind.group == "fluid"}
    assert fluids == shown | {"contaminated", "wrong_medium"}
