"""An engine that dies or hangs: its last figures are not the tissue's, and an alarm follows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import grpc
import grpc.aio
import pytest

from choroid.client.wire import nerves_pb2 as pb
from choroid.client.wire import nerves_pb2_grpc as pb_grpc
from choroid.running import nerves_source
from choroid.running.nerves_source import GatewayNerves
from choroid.running.simulated_card import simulated_card
from controller.core.clock import Clock
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.process.outside import with_nerves
from controller.rig.loading import load_rig
from drivers.commands import Quality
from nerves.summary import NervesSource, NervesSummary, StimulationTreatment
from sim.lab import SimulatedLab

RIG = load_rig(Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml")
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
LOST = "device_lost:nerves"
POINTS = ("nerves.firing_rate", "nerves.active_electrodes", "nerves.evoked_ratio")
RATE = simulated_card(electrodes=32, seed=1).info.sample_rate_hz


class ScriptedSource:
    """A source that returns what the test sets: "fresh", "standing", "deaf" or "nothing"."""

    def __init__(self, says: str = "fresh") -> None:
        self._says = says
        self._at_s = 0.0
        self.evoked: float | None = 0.9

    def say(self, says: str) -> None:
        self._says = says

    async def summary(self) -> NervesSummary | None:
        if self._says == "fresh":
            self._at_s = asyncio.get_running_loop().time()
        if self._says == "deaf":
            states = ("ok",) * 15 + ("dead",) * 17
            rates = (2.5,) * 15 + (0.0,) * 17
            return NervesSummary(asyncio.get_running_loop().time(), 2.5, 14, 32, rates, None, 15, states)
        kept = StimulationTreatment(0.1, 20.0, self.evoked, False, 1, "open", "")
        return (
            None
            if self._says == "nothing"
            else NervesSummary(self._at_s, 2.5, 29, 32, (2.5,) * 32, kept, muted_pct=1.5)
        )

    def recent_spikes(self) -> list[tuple[float, int]]:
        return []

    async def close(self) -> None:
        pass


@asynccontextmanager
async def living(data: Path, source: NervesSource | None) -> AsyncIterator[Controller]:
    """A controller that ticks over a lab and listens to `source`."""
    lab = SimulatedLab(RIG, seed=1)
    clock = Clock(follow_system=False, epoch=EPOCH)
    controller = Controller(
        rig=RIG, opener=lab.opener, storage=Storage(data, durable=False), clock=clock, parts=(with_nerves(source),)
    )
    stop = asyncio.Event()
    await controller.start()
    ticking = asyncio.create_task(controller.run(stop))
    try:
        yield controller
    finally:
        stop.set()
        await ticking
        await controller.close()
        await lab.close()


def points(controller: Controller, point: str) -> list[float]:
    controller.history.flush()
    return [at for at, *_ in controller.history.query(point, 0.0, 4e9, 10_000)]


def lost(controller: Controller) -> list[str]:
    return [alarm.state.value for alarm in controller.alarms.active() if alarm.id == LOST]


@pytest.mark.virtual_time
@pytest.mark.parametrize(("how", "within_s"), [("nothing", 45.0), ("standing", 75.0)])
async def test_an_engine_that_falls_silent_is_an_alarm_and_leaves_no_figures(
    tmp_path: Path, how: str, within_s: float
) -> None:
    source = ScriptedSource()
    async with living(tmp_path, source) as controller:
        await asyncio.sleep(120.0)
        assert controller.nerves_summary is not None
        assert lost(controller) == []
        assert controller.store.state.readings["nerves.muted"].value == 1.5
        source.say(how)
        await asyncio.sleep(11.0)
        known = {point: points(controller, point) for point in POINTS}
        assert all(len(seen) > 8 for seen in known.values())
        await asyncio.sleep(within_s - 11.0)
        assert controller.nerves_summary is None
        assert lost(controller) == ["unacknowledged"]
        readings = controller.store.state.readings
        assert [readings[point].quality for point in POINTS[:2]] == [Quality.MISSING] * 2
        await asyncio.sleep(600.0)
        assert {point: points(controller, point) for point in POINTS} == known
        source.say("fresh")
        source.evoked = None  # an engine that was started again has no answers to tell of yet
        await asyncio.sleep(60.0)
        assert controller.nerves_summary is not None
        assert lost(controller) == ["return_to_normal_unacknowledged"]
        assert all(len(points(controller, point)) > len(known[point]) for point in POINTS[:2])


@pytest.mark.virtual_time
async def test_N8_an_array_with_an_array_with_nearly_all_electrodes_muted_is_an_alarm_and_gives_no_figures(
    tmp_path: Path,
) -> None:
    source = ScriptedSource()
    async with living(tmp_path, source) as controller:
        await asyncio.sleep(120.0)
        known = points(controller, POINTS[0])
        source.say("deaf")
        await asyncio.sleep(60.0)
        assert lost(controller) == ["unacknowledged"]
        (alarm,) = [alarm for alarm in controller.alarms.active() if alarm.id == LOST]
        assert "15 of 32 electrodes" in str(alarm)
        assert controller.store.state.readings[POINTS[0]].quality is Quality.MISSING
        assert len(points(controller, POINTS[0])) <= len(known) + 1
        assert controller.nerves_summary is not None, "the page shows which electrodes are muted"
        source.say("fresh")
        await asyncio.sleep(60.0)
        assert lost(controller) == ["return_to_normal_unacknowledged"]


@pytest.mark.virtual_time
async def test_readings_carry_the_time_of_the_arrays_last_frame(tmp_path: Path) -> None:
    source = ScriptedSource()
    async with living(tmp_path, source) as controller:
        await asyncio.sleep(60.0)
        source.say("standing")
        await asyncio.sleep(25.0)
        assert controller.nerves_summary is not None  # old, and not yet too old
        reading = controller.store.state.readings["nerves.firing_rate"]
        assert reading.quality is Quality.GOOD
        assert reading.at_s == controller.nerves_summary.at_s <= asyncio.get_running_loop().time() - 20.0


@pytest.mark.virtual_time
async def test_an_engine_that_is_starting_is_no_alarm_and_one_that_never_starts_is(tmp_path: Path) -> None:
    source = ScriptedSource("nothing")
    async with living(tmp_path, source) as controller:
        await asyncio.sleep(55.0)
        assert lost(controller) == []
        assert "nerves.firing_rate" not in controller.store.state.readings
        await asyncio.sleep(60.0)
        assert lost(controller) == ["unacknowledged"]
        assert points(controller, "nerves.firing_rate") == []


@pytest.mark.virtual_time
async def test_a_rig_without_a_reader_of_its_nerves_has_no_such_alarm(tmp_path: Path) -> None:
    async with living(tmp_path, None) as controller:
        await asyncio.sleep(300.0)
        assert lost(controller) == []


class Standing(pb_grpc.NervesServicer):
    """A service whose array stands still at a frame, and whose first answer to Info is nonsense."""

    def __init__(self) -> None:
        self.frame = 1000
        self.asked = 0

    async def Info(self, request: pb.InfoRequest, context: object) -> pb.InfoReply:
        self.asked += 1
        return pb.InfoReply(sample_rate_hz=0.0 if self.asked == 1 else RATE)

    async def StreamSummary(self, request: object, context: object) -> AsyncIterator[pb.SummaryReply]:
        while True:
            yield pb.SummaryReply(frame=self.frame, mean_active_hz=2.0, active_electrodes=3, electrodes=4)
            await asyncio.sleep(0.02)

    async def StreamSpikes(self, request: object, context: object) -> AsyncIterator[pb.SpikesReply]:
        yield pb.SpikesReply(frames=[900, 950], electrodes=[1, 2], uv=[50.0, 50.0], next_frame=self.frame)
        await asyncio.sleep(60.0)


async def until(true: Callable[[], bool]) -> None:
    """Wait for it; the test's own limit ends what never comes."""
    while not true():
        await asyncio.sleep(0.02)


async def test_a_standing_array_grows_old_and_a_defect_ends_no_listening(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(nerves_source, "RETRY_S", 0.1)
    monkeypatch.setattr(nerves_source, "RECENT_S", 3.0)
    service, server = Standing(), grpc.aio.server()  # type: ignore[abstract]  # the other calls are never made
    pb_grpc.add_NervesServicer_to_server(service, server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    nerves = GatewayNerves(address, "token")
    try:
        with caplog.at_level(logging.ERROR):
            await until(lambda: bool(nerves.recent_spikes()))
        assert service.asked == 2, "what went wrong at first was tried again"
        assert [record.name for record in caplog.records] == ["choroid.running.nerves_source"]
        assert [(round(at * RATE), electrode) for at, electrode in nerves.recent_spikes()] == [(900, 1), (950, 2)]
        first = await nerves.summary()
        assert first is not None
        await asyncio.sleep(0.2)  # ten answers that say the same
        assert await nerves.summary() is first
        service.frame += 500
        await asyncio.sleep(0.2)
        second = await nerves.summary()
        assert second is not None
        assert second.at_s > first.at_s
        await asyncio.sleep(3.1)
        assert nerves.recent_spikes() == [], "they are of a moment that is over"
    finally:
        await nerves.close()
        await server.stop(None)
