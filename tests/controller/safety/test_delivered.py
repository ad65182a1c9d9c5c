"""A pump that is stopped, slowed or reversed behind the gate, on each family of pumps: an alarm comes in time (A12).

A second master on the same line sends what the family's own driver sends. The pump is the heart of the bench rig, and its
regulator restarts it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from choroid.tools.conformance.benches import lab_bench
from controller.gate.delivered import GAP_S, WINDOWS_S, Delivered
from controller.hazards.timing import FOLLOWS_S
from controller.regulation.heart import HeartRegulator
from drivers.atlas_ezo_pmp import AtlasEzoPmp
from drivers.commands import Command, Dispense, Level, LevelStatus, PumpStatus, Run, Status, Stop, Switch, SwitchStatus
from drivers.device import Actuator, ChannelConfig, Device, DeviceConfig
from drivers.ismatec_reglo_icc import IsmatecRegloIcc
from drivers.registry import MODELS
from drivers.transport.link import Link
from drivers.transport.opener import Streams
from drivers.transport.url import LineSettings, LinkUrl
from sim.devices.atlas_ezo_pmp import AtlasEzoPmp as SimEzoPmp
from sim.devices.catalogue import DEVICES
from sim.devices.ismatec_reglo_icc import IsmatecRegloIcc as SimRegloIcc
from sim.serving import open_in_memory
from tests.controller.safety.bench import Bench
from tests.controller.safety.facts import LIMITS, RIG
from tests.controller.test_life import HEART as BENCH_HEART
from tests.controller.test_life import alarms, living
from tests.drivers.test_rotary_pumps import CASES
from tests.sim.bench import Build, RecordingPlant, device_on_a_line

HEART = LIMITS.hearts[0].pump
FLOW_UL_MIN = 2000.0
BASAL = LIMITS.basal[HEART]
assert isinstance(BASAL, Run)
ALARM_S = 10.0
HARD_S = 150.0


@dataclass(frozen=True)
class Family:
    driver: type[Device]
    build: Build
    config: DeviceConfig
    channels: dict[str, tuple[str, float | None]] | None = None
    reports_rate: bool = True
    reports_direction: bool = True


FAMILIES = {
    case.name: Family(
        case.driver,
        case.build,
        DeviceConfig("d", case.address, dict(case.settings)),
        reports_direction=case.name not in ("reglo-digital", "ipc"),
    )
    for case in CASES
} | {
    "ezo-pmp": Family(AtlasEzoPmp, SimEzoPmp, DeviceConfig("d"), reports_rate=False, reports_direction=False),
    "reglo-icc": Family(
        IsmatecRegloIcc,
        SimRegloIcc,
        DeviceConfig("d", channels={"1": ChannelConfig("pump", {"tubing_mm": 1.02})}),
        {"1": ("pump", 1.02)},
    ),
}
ONLY_DOSES = {"tecan-cavro"}
"""Syringe pumps give no continuous flow."""
FAMILIES |= {
    model: Family(
        driver,
        DEVICES[model],
        lab_bench(model).config,
        reports_rate="flow" not in DEVICES[model].bench.untold,
        reports_direction="direction" not in DEVICES[model].bench.untold,
    )
    for model, driver in MODELS.items()
    if driver.model.kind == "pump"
    and driver not in {each.driver for each in FAMILIES.values()}
    and model not in ONLY_DOSES
}
"""Further models, as on their bench."""
each_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)


class Rig:
    """A heart of one family with its regulator, and a second master of the same line."""

    def __init__(self, pump: Actuator, other: Actuator, plant: RecordingPlant) -> None:
        self.bench = Bench(real={HEART: pump})
        self.pump, self.other, self.plant = pump, other, plant
        self.regulator = HeartRegulator(RIG.organs.hearts["heart"], HEART, "heart")
        self.loop = asyncio.get_running_loop()

    async def live(self, seconds: float) -> None:
        """Tick once a second as a controller does, and ask the pump at its period at rest, or sooner if it strays."""
        gate, store = self.bench.gate, self.bench.store
        for _ in range(int(seconds)):
            self.bench.sample()
            if int(self.loop.time()) % FOLLOWS_S == 0:
                await gate.poll(HEART)
            state = store.snapshot(self.loop.time(), "", gate.observe())
            await asyncio.gather(*(gate.submit(intent) for intent in self.regulator.intents(state)))
            await gate.tick(state.trips)
            await asyncio.sleep(max(0.0, int(self.loop.time()) + 1.0 - self.loop.time()))

    def alarmed(self) -> bool:
        return bool(self.bench.alarms) or HEART in self.bench.gate.shortfalls

    async def alarm_after_s(self, within_s: float) -> float:
        begun_s = self.loop.time()
        while not self.alarmed() and self.loop.time() < begun_s + within_s:
            await self.live(1)
        assert self.alarmed(), f"no alarm within {within_s:g} s"
        return self.loop.time() - begun_s

    def moved(self) -> float:
        return self.plant.moved("d.pump", self.loop.time())


@asynccontextmanager
async def heart_of(family: Family) -> AsyncIterator[Rig]:
    plant = RecordingPlant()
    settings = dict(family.config.settings)
    sim = device_on_a_line(
        family.build, plant, address=family.config.address, settings=settings, channels=family.channels
    )
    line = sim.line
    assert line is not None

    async def opener(_url: LinkUrl, _settings: LineSettings) -> Streams:
        return open_in_memory(line)

    links = [Link(LinkUrl.parse("sim:pump"), opener, line=family.driver.line) for _ in range(2)]
    devices = [family.driver(link, family.config) for link in links]
    for link in links:  # one after the other: both verify the same device
        assert not await link.start()
    rig = Rig(devices[0].actuators["pump"], devices[1].actuators["pump"], plant)
    try:
        await rig.live(20)
        assert rig.bench.alarms == []
        assert plant.last("d.pump") != 0.0
        yield rig
    finally:
        for link in links:
            await link.close()
        sim.power_off()


Blow = Callable[[Rig], Command]
BLOWS: dict[str, Blow] = {
    "stop": lambda rig: Stop(),
    "a tenth of the flow": lambda rig: rig.other.nearest(Run(FLOW_UL_MIN / 10.0)),
    "reversal": lambda rig: rig.other.nearest(Run(-FLOW_UL_MIN)),
}


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("family", "blow"),
    [
        pytest.param(family, blow, id=f"{name}-{blow}")
        for name, family in FAMILIES.items()
        for blow in BLOWS
        if blow != "reversal" or family.reports_direction  # else a pressure gauge shows it (heart_backwards)
    ],
)
async def test_A12_one_foreign_command_to_a_heart_is_an_alarm_within_ten_seconds(family: Family, blow: str) -> None:
    async with heart_of(family) as rig:
        await rig.other.apply(BLOWS[blow](rig))
        measured = family.reports_rate or blow == "stop"
        within_s = ALARM_S if measured else ALARM_S + 60.0  # by its own count, over a minute
        assert await rig.alarm_after_s(within_s) <= within_s


@pytest.mark.virtual_time
@each_family
async def test_A12_a_heart_that_is_stopped_again_and_again_is_an_alarm_although_it_is_restarted(family: Family) -> None:
    """A second master, the protection of the motor and a supply that breaks down look the same: it stands again at once."""
    async with heart_of(family) as rig:

        async def again() -> None:
            while True:
                if rig.plant.last("d.pump") != 0.0:
                    await asyncio.sleep(0.3)
                    await rig.other.apply(Stop())
                await asyncio.sleep(0.05)

        stopping = asyncio.create_task(again())
        try:
            assert await rig.alarm_after_s(ALARM_S) <= ALARM_S
            before_ul, begun_s = rig.moved(), rig.loop.time()
            await rig.live(HARD_S)
            minutes = (rig.loop.time() - begun_s) / 60.0
            assert abs(rig.moved() - before_ul) < 0.5 * FLOW_UL_MIN * minutes, "it hardly moves"
            assert HEART in rig.bench.gate.shortfalls, "what is missing is counted"
            assert any(kind == "foreign_command" for kind, _, _ in rig.bench.alarms), "so are the stops"
        finally:
            stopping.cancel()
            await asyncio.gather(stopping, return_exceptions=True)
        await rig.live(700)
        assert rig.bench.gate.shortfalls == {}, "it gives everything again"
        assert abs(rig.plant.last("d.pump")) == pytest.approx(FLOW_UL_MIN, rel=0.02)


@pytest.mark.virtual_time
async def test_A12_a_heart_that_is_stopped_again_and_again_has_an_alarm_of_its_own(tmp_path: Path) -> None:
    async with living(tmp_path) as (controller, lab):
        sim = lab.devices[BENCH_HEART.partition(".")[0]]
        assert isinstance(sim, SimRegloIcc)
        number = next(number for number, each in RIG.devices["reglo"].channels.items() if each.point == "heart")
        loop = asyncio.get_running_loop()
        end_s = loop.time() + HARD_S
        while loop.time() < end_s:
            if lab.drives.moving[BENCH_HEART] != 0.0:
                await asyncio.sleep(0.3)
                sim.command(f"{number}I")
            await asyncio.sleep(0.05)
        assert {f"heart_short:{BENCH_HEART}", f"foreign_command:{BENCH_HEART}"} <= alarms(controller)


# --- the rule ---------------------------------------------------------------------------------------------------------


def course(given: Command, statuses: Sequence[tuple[float, Status]]) -> dict[str, str]:
    delivered = Delivered()
    for at_s, status in statuses:
        delivered.note("x", given, status, at_s)
    return delivered.shortfalls


def pump(flow: float, *, total_ul: float = 0.0, step_ul: float = 1000.0) -> PumpStatus:
    return PumpStatus(flow != 0.0, flow, total_ul, step_ul)


GOOD: dict[str, tuple[Command, Status]] = {
    "pump": (Run(100.0), pump(100.0)),
    "pump backwards": (Run(-100.0), pump(-99.0)),
    "gas": (Level(5.0), LevelStatus(5.0, 4.8)),
    "agitation": (Switch(True), SwitchStatus(True)),
}
SHORT: dict[str, tuple[Command, Status]] = {
    "pump that stands": (Run(100.0), pump(0.0)),
    "slow pump": (Run(100.0), pump(60.0)),
    "reversed pump": (Run(100.0), pump(-100.0)),
    "pump whose count stands": (Run(1000.0), pump(1000.0, step_ul=10.0)),
    "empty bottle of gas": (Level(5.0), LevelStatus(5.0, 0.2)),
    "agitation": (Switch(True), SwitchStatus(False)),
}


@pytest.mark.parametrize("name", GOOD)
def test_an_output_that_follows_is_never_short(name: str) -> None:
    given, status = GOOD[name]
    assert course(given, [(5.0 * n, status) for n in range(200)]) == {}


@pytest.mark.parametrize("name", SHORT)
def test_an_output_that_gives_less_is_found_within_a_minute(name: str) -> None:
    given, status = SHORT[name]
    assert course(given, [(5.0 * n, status) for n in range(13)]).keys() == {"x"}


def test_one_dropout_is_none_and_three_within_ten_minutes_are() -> None:
    def with_dropouts(at: set[int]) -> dict[str, str]:
        return course(Run(100.0), [(5.0 * n, pump(0.0 if n in at else 100.0)) for n in range(100)])

    assert with_dropouts({10}) == {}
    assert with_dropouts({10, 40, 70, 90}) != {}


@pytest.mark.parametrize("given", [Stop(), Dispense(100.0, 100.0, "a"), Switch(True, for_s=2.0), None])
def test_what_ends_by_itself_is_not_compared(given: Command | None) -> None:
    delivered = Delivered()
    for n in range(100):
        delivered.note("x", given, pump(0.0), 5.0 * n)
    assert delivered.shortfalls == {}


def test_a_surplus_makes_up_for_nothing_and_a_lost_link_begins_again() -> None:
    alternating = [(5.0 * n, pump(500.0 if n % 4 < 2 else 0.0)) for n in range(30)]
    assert course(Run(100.0), alternating) != {}
    gap = [*alternating, (150.0 + GAP_S + 1.0, pump(100.0))]
    assert course(Run(100.0), gap) == {}


def test_A12_the_running_sums_are_the_sums_of_what_lies_in_each_window() -> None:
    """Gaps, stops, other flows and counts of a pump for three hours, counted again from the statuses at each step."""
    draw, delivered = random.Random(27), Delivered()
    at_s, counted_ul = 0.0, 0.0
    intervals: list[tuple[float, float]] = []
    told = 0
    before: tuple[float, float, float] | None = None
    while at_s < 10_800.0:
        at_s += draw.choice((0.5, 1.0, 5.0, 20.0))
        flow = draw.choice((FLOW_UL_MIN, FLOW_UL_MIN, FLOW_UL_MIN, 0.0))
        counted_ul += flow * 0.01
        status = PumpStatus(running=flow > 0.0, flow_ul_min=flow, delivered_ul=counted_ul, resolution_ul=1e6)
        delivered.note("p", Run(FLOW_UL_MIN), status, at_s)
        if before is not None:
            share = min(flow, before[1]) / FLOW_UL_MIN
            intervals.append((at_s, (1.0 - share) * (at_s - before[0])))
        before = (at_s, flow, counted_ul)
        missing = any(
            sum(lost_s for end_s, lost_s in intervals if end_s > at_s - window_s) > max_lost_s
            for window_s, max_lost_s in WINDOWS_S
        )
        assert ("p" in delivered.shortfalls) == missing, at_s
        told += missing
    assert 0 < told < len(intervals)
