"""Parts of a controller: they register themselves, in a declared order, and one that fails ends nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from controller.alarms.states import AlarmState
from controller.core.clock import Clock
from controller.core.discarded import Discarded
from controller.journal.reader import JournalReader
from controller.process import parts as package
from controller.process.controller import Controller
from controller.process.core import ControllerCore, Storage
from controller.process.outside import with_causes
from controller.process.part import Part, TickStage
from controller.process.parts.alarm_levels import AlarmLevels
from controller.process.registry import Maker, registered
from controller.rig.loading import load_rig
from dashboards.auth import Role
from sim.lab import SimulatedLab
from tests.dashboards.world import world

RIG = load_rig(Path(__file__).parents[2] / "examples" / "rigs" / "bench.yaml")
pytestmark = pytest.mark.virtual_time


@asynccontextmanager
async def living(data: Path, *parts: Maker) -> AsyncIterator[Controller]:
    lab = SimulatedLab(RIG, seed=1)
    clock = Clock(follow_system=False, epoch=datetime(2026, 1, 1, tzinfo=UTC))
    controller = Controller(rig=RIG, opener=lab.opener, storage=Storage(data, durable=False), clock=clock, parts=parts)
    stop = asyncio.Event()
    try:
        await controller.start()
        ticking = asyncio.create_task(controller.run(stop))
        yield controller
        stop.set()
        await ticking
    finally:
        await controller.close()
        await lab.close()


def maker(name: str, stage: TickStage, **does: Callable[..., object]) -> Maker:
    return Maker(stage, lambda core: Part(name, **does))  # type: ignore[arg-type]


def test_the_order_is_declared() -> None:
    """By stage; the same whatever was imported first."""
    stages = [made.stage for made in registered()]
    assert set(stages) == set(TickStage), "each stage has a part"
    assert registered() == registered()


def test_names_are_unique_and_only_parts_are_found(tmp_path: Path) -> None:
    modules = {made.make.__module__.rpartition(".")[2] for made in registered()}
    assert modules == {path.stem for path in Path(package.__path__[0]).glob("[!_]*.py")}, "each module has a part"


async def test_parts_look_in_the_order_of_their_stages_whatever_the_order_in_which_they_were_given(
    tmp_path: Path,
) -> None:
    looked: list[str] = []
    given = [maker(stage.name, stage, update=lambda _, stage=stage: looked.append(stage.name)) for stage in TickStage]
    async with living(tmp_path, *reversed(given)):
        await asyncio.sleep(1.5)
    assert looked[: len(TickStage)] == [stage.name for stage in TickStage]


async def test_a_part_that_fails_is_an_alarm_and_the_others_go_on(tmp_path: Path) -> None:
    looked: list[float] = []

    def fail(*_: object) -> None:
        raise RuntimeError("a defect")

    first = maker("broken", TickStage.REGULATE, update=fail)
    last = maker("whole", TickStage.REPORT, update=lambda state: looked.append(state.at_s))
    async with living(tmp_path, first, last) as controller:
        await asyncio.sleep(3.5)
        assert ("defect", "broken") in {(alarm.kind, alarm.source) for alarm in controller.alarms.active()}
        assert len(looked) >= 3


async def test_a_late_part_that_cannot_be_made_is_an_alarm_and_an_early_one_refuses_the_start(tmp_path: Path) -> None:
    def fail(core: ControllerCore) -> Part:
        raise RuntimeError("a defect")

    (tmp_path / "early").mkdir()
    async with living(tmp_path, Maker(TickStage.REPORT, fail)) as controller:
        await asyncio.sleep(1.5)
        assert "defect" in {alarm.kind for alarm in controller.alarms.active()}
    with pytest.raises(RuntimeError, match="a defect"):
        async with living(tmp_path / "early", Maker(TickStage.BOOK, fail)):
            pytest.fail("it has started without what keeps the books")


@pytest.mark.parametrize("answer", [{("no_such_kind", "x"): "text"}, None, {"hazard_accepted": "text"}])
async def test_causes_that_are_none_hide_no_alarm_of_another_part(tmp_path: Path, answer: object) -> None:
    bad = maker("bad", TickStage.JUDGE, causes=lambda: answer)
    good = maker("good", TickStage.REPORT, causes=lambda: {("hazard_accepted", "x"): "by anna"})
    async with living(tmp_path, bad, good) as controller:
        await asyncio.sleep(3.5)
        found = {(alarm.kind, alarm.source) for alarm in controller.alarms.active()}
        assert {("hazard_accepted", "x"), ("defect", "bad")} <= found
        assert ("defect", "alarms") not in found


@pytest.mark.parametrize("name", ["alarms", "stimulation", "mine"])
async def test_a_second_part_of_a_name_is_an_alarm_and_the_first_stays(tmp_path: Path, name: str) -> None:
    looked: list[str] = []
    given = [maker(name, TickStage.REPORT, update=lambda _, n=n: looked.append(n)) for n in ("first", "second")]
    async with living(tmp_path, *given) as controller:
        await asyncio.sleep(2.5)
        assert [part.name for part in controller.parts].count(name) == 1
        assert set(looked) == ({"first"} if name == "mine" else set())
        assert "defect" in {alarm.kind for alarm in controller.alarms.active()}
        with pytest.raises(ValueError, match="a second part is called"):
            controller.parts.attach(maker("alarms", TickStage.REPORT))


async def test_an_early_part_that_cannot_be_made_leaves_the_outputs_to_the_guard(tmp_path: Path) -> None:
    """A start that failed half-way started the heart against a latched interlock, and dismissed the guard."""

    def fail(core: ControllerCore) -> Part:
        raise RuntimeError("a defect")

    async with living(tmp_path) as controller:
        await asyncio.sleep(2.5)
        row = {"interlock": "over_pressure_heart", "point": "p_heart.pressure", "detail": "wet"}
        controller.journal.append("safety.latch", row)
    with pytest.raises(RuntimeError, match="a defect"):
        async with living(tmp_path, Maker(TickStage.BOOK, fail)):
            pytest.fail("it has started without what keeps the books")
    rows = JournalReader(tmp_path / "journal.db")
    (second,) = [row.seq for row in rows.entries(kinds=("controller.started",))][1:]
    assert not [row for row in rows.entries(kinds=("act",)) if row.seq > second]
    assert not [row for row in rows.entries(kinds=("controller.stopped",)) if row.seq > second]
    rows.close()


async def test_a_part_that_does_not_close_keeps_no_output_from_its_basal_state(tmp_path: Path) -> None:
    async def hang() -> None:
        await asyncio.sleep(1e9)

    async with living(tmp_path, maker("hanging", TickStage.JUDGE, close=hang)):
        await asyncio.sleep(2.5)
    rows = JournalReader(tmp_path / "journal.db")
    assert rows.last("controller.stopped") is not None
    rows.close()


async def test_what_is_no_json_is_not_described_and_a_count_that_fails_hides_no_other(tmp_path: Path) -> None:
    def fail() -> object:
        raise RuntimeError("a defect")

    given = [
        maker("bytes", TickStage.JUDGE, describe=lambda: b"raw"),
        maker("nan", TickStage.JUDGE, describe=lambda: float("nan")),
        maker("broken", TickStage.RECORD, discarded=fail),
        maker("counting", TickStage.REPORT, discarded=lambda: [Discarded("mine", "rows", 3)]),
    ]
    async with living(tmp_path, *given) as controller:
        rows = {row["name"]: row["state"] for row in controller.parts.describe()}
        assert (rows["bytes"], rows["nan"]) == (None, None)
        assert Discarded("mine", "rows", 3) in controller.discarded()


async def test_causes_that_cannot_be_read_stand_as_they_were(tmp_path: Path) -> None:
    class Source:
        broken = False

        @property
        def causes(self) -> dict[tuple[str, str], str]:
            if self.broken:
                raise RuntimeError("a defect")
            return {("hazard_accepted", "x"): "by anna"}

    source = Source()
    async with living(tmp_path, with_causes("mine", source)) as controller:
        await asyncio.sleep(2.5)
        source.broken = True
        await asyncio.sleep(600.0)
        active = {(alarm.kind, alarm.source): alarm.state for alarm in controller.alarms.active()}
        assert active["hazard_accepted", "x"] is AlarmState.UNACKNOWLEDGED, "unknown is not over"
        assert ("defect", "mine") in active


async def test_each_part_is_described_and_one_that_cannot_be_hides_no_other(tmp_path: Path) -> None:
    def fail() -> object:
        raise RuntimeError("a defect")

    given = [
        maker("mine", TickStage.REPORT, describe=lambda: {"count": 3}),
        maker("broken", TickStage.REPORT, describe=fail),
    ]
    async with living(tmp_path, *given) as controller:
        rows = {row["name"]: row for row in controller.parts.describe()}
        assert rows["mine"] == {"name": "mine", "stage": "report", "state": {"count": 3}}
        assert rows["broken"]["state"] is None, "and a reader of the API raises no alarm"
        assert next(iter(rows)) in {"regulation", "wall clock"}
        assert "defect" not in {alarm.kind for alarm in controller.alarms.active()}


async def test_the_api_shows_the_parts() -> None:
    async with world() as w:
        (row,) = (await w.http(Role.VIEWER).get("/api/parts")).json()["parts"]
        assert (row["name"], row["stage"]) == ("scores", "judge")
        assert "viability" in row["state"]


async def test_a_part_of_the_same_name_replaces_the_former(tmp_path: Path) -> None:
    async with living(tmp_path) as controller:
        for text in ("one", "two"):
            controller.parts.attach(
                maker("mine", TickStage.REPORT, causes=lambda text=text: {("hazard_accepted", "x"): text})
            )
        found = controller.get(AlarmLevels).causes(controller.store.state)
        assert found["hazard_accepted", "x"] == "two"
        assert [part.name for part in controller.parts].count("mine") == 1
        names = [part.name for part in controller.parts]
        assert len(names) == len(set(names))


async def test_a_part_that_fails_at_the_end_keeps_no_output_from_its_basal_state(tmp_path: Path) -> None:
    async def fail() -> None:
        raise RuntimeError("a defect")

    async with living(tmp_path, maker("broken", TickStage.JUDGE, close=fail)):
        await asyncio.sleep(2.5)
    rows = JournalReader(tmp_path / "journal.db")
    assert rows.last("controller.stopped") is not None
    rows.close()
