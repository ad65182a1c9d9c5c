"""Life support without a journal (A11): the rig is kept alive, doses and stimulation are refused; and `choroid repair`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from choroid.operating.repair import as_text, repair
from choroid.running.journal_opening import open_journal
from controller.core.clock import Clock
from controller.core.run_states import RunState
from controller.journal.degraded import degraded_times
from controller.journal.file import JournalFile, JournalInUse
from controller.journal.journal import Journal
from controller.journal.repair import apply, begin_new_journal, journal_files, survey
from controller.journal.terms import JournalError, JournalUnwritten
from controller.process.controller import Controller
from controller.process.core import Storage
from drivers.commands import LevelStatus, PumpStatus
from sim.lab import SimulatedLab
from tests.sim.faults.bench import RIG

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
RUN = {"batch": "8 mL", "min_batch": "8 mL", "every": "2 h"}

pytestmark = pytest.mark.virtual_time


class Stimulator:
    """An electrode engine that receives a request to stop."""

    ledger_problem = ""
    card_problem = ""
    recording_problem = ""

    def __init__(self) -> None:
        self.said: list[str] = []

    def forbid_stimulation(self, why: str) -> None:
        self.said.append(why)

    async def stop_stimulation(self, why: str) -> str:
        self.said.append(why)
        return "confirmed"

    async def allow_stimulation(self) -> None:
        self.said.append("allowed")


class World:
    """One lab, and one controller after the other."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.lab = SimulatedLab(RIG, seed=1)
        self.nerves = Stimulator()
        self.clock = Clock(follow_system=False, epoch=EPOCH)

    async def begin(self, journal: Journal | None = None) -> Controller:
        journal = journal or Journal(self.data / "journal.db", self.clock, durable=True)
        controller = self.controller = Controller(
            rig=RIG,
            opener=self.lab.opener,
            storage=Storage(self.data, journal=journal),
            clock=self.clock,
            stimulator=self.nerves,
        )
        await controller.start()
        self.stop = asyncio.Event()
        self.ticking = asyncio.create_task(controller.run(self.stop))
        return controller

    async def end(self, *, leave_running: bool = False) -> None:
        self.stop.set()
        await self.ticking
        await self.controller.close(leave_running=leave_running)

    def degraded(self) -> Journal:
        """As `choroid run` opens a journal that is damaged."""
        with pytest.raises((JournalError, sqlite3.Error, OSError)) as why:
            Journal(self.data / "journal.db", self.clock, durable=True)
        return Journal.degraded(self.data / "journal.db", self.clock, why.value)


def cared_for(world: World) -> None:
    controller = world.controller
    heart, gas = (controller.store.state.actuators[name].status for name in ("reglo.heart", "gas_co2.flow"))
    assert isinstance(heart, PumpStatus)
    assert isinstance(gas, LevelStatus)
    assert heart.running
    assert heart.flow_ul_min == pytest.approx(RIG.organs.hearts["heart"].flow_ul_min, rel=0.1)
    assert gas.setpoint > 0.0
    assert world.lab.plant.truth().temperature_c == pytest.approx(37.0, abs=0.5)
    moving = {line for line, flow in world.lab.plant.truth().flows_ul_min.items() if flow}
    assert moving <= {"heart", "overflow"}, moving


def doses_given(controller: Controller) -> int:
    """How many doses have left for a device."""
    return sum("status" in row.body for row in controller.journal.entries(kinds=("act.outcome",)))


def garbage_header(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(os.urandom(100))


def edited(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("DROP TRIGGER entries_are_not_edited")
        db.execute("UPDATE entries SET body = '{}' WHERE seq = 5")
    db.close()


def flipped(path: Path) -> None:
    with path.open("r+b") as file:
        for at in range(4096 * 4 + 200, path.stat().st_size, 4096):
            file.seek(at)
            file.write(os.urandom(2000))


def as_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Callable[[Path], None]] = {
    "zero length": lambda path: os.truncate(path, 0),
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2 // 4096 * 4096),
    "garbage header": garbage_header,
    "bytes flipped in pages": flipped,
    "a row edited": edited,
    "removed": Path.unlink,
    "not to be opened": as_directory,
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_A11_heart_skin_and_lung_run_with_a_damaged_journal_and_doses_do_not(damage: str, tmp_path: Path) -> None:
    """A corrupt journal once stopped heat, flow and gas until a person restored it."""
    world = World(tmp_path)
    controller = await world.begin()
    run_id = await controller.runs.start("recycle", RUN, user="test", reason="a test")
    await asyncio.sleep(60.0)
    await world.end(leave_running=True)
    rows = controller.journal.next_seq - 1
    DAMAGES[damage](tmp_path / "journal.db")

    controller = await world.begin(world.degraded())
    await asyncio.sleep(600.0)
    cared_for(world)
    assert not controller.health().ok
    assert "choroid repair" in controller.health().reasons[0]
    assert "journal_lost" in {alarm.kind for alarm in controller.alarms.active()}
    assert world.nerves.said
    with pytest.raises(JournalUnwritten, match="choroid repair"):
        await controller.runs.start("recycle", RUN, user="test", reason="a test")
    await controller.emergency_stop("test", "a test")
    await controller.emergency_reset("test", "a test")
    assert "allowed" not in world.nerves.said
    await world.end()
    assert [time.sound for time in degraded_times(tmp_path)] == [True]

    found = survey(tmp_path / "journal.db")
    assert found.needed
    if damage == "a row edited":
        assert found.best.rows == 4
        assert found.best.readable_after == rows - 5
    old_files = apply(tmp_path / "journal.db", world.clock)
    assert not survey(tmp_path / "journal.db").needed
    assert (old_files / "journal.db").exists() == (damage != "removed")
    controller = await world.begin()
    controller.journal.verify()
    assert controller.health().ok
    told = controller.journal.last("journal.repaired")
    assert told is not None
    assert told.body["expected"] == rows
    assert told.body["degraded"][0]["rows"] > 0
    if run_id in told.body["open_runs"]:
        await asyncio.sleep(300.0)
        assert controller.runs.get(run_id).state is RunState.HELD
    await world.end()
    await world.lab.close()


@pytest.mark.parametrize("at_s", [5.0, 40.0, 100.0])
async def test_F7_A11_a_journal_removed_in_a_run_stops_new_doses_and_is_recovered_whole(
    at_s: float, tmp_path: Path
) -> None:
    world = World(tmp_path)
    controller = await world.begin()
    run_id = await controller.runs.start("recycle", RUN, user="test", reason="a test")
    await asyncio.sleep(at_s)
    for path in tmp_path.glob("journal.db*"):
        if not path.name.endswith((".owner", ".head")):
            path.unlink()
    await asyncio.sleep(3.0)
    assert not controller.health().ok
    assert "was removed" in controller.health().reasons[0]
    lost = [alarm for alarm in controller.alarms.active() if alarm.kind == "journal_lost"]
    assert lost
    assert lost[0].priority == "critical"
    assert world.nerves.said
    given = doses_given(controller)
    await asyncio.sleep(900.0)
    cared_for(world)
    assert doses_given(controller) == given, "a dose under way ends, and no other is given"
    given_ul = world.lab.plant.truth().volumes_ul
    await world.end(leave_running=True)
    assert not (tmp_path / "journal.db").exists()

    await world.begin(world.degraded())  # a restart before anybody has repaired anything
    await asyncio.sleep(60.0)
    cared_for(world)
    await world.end(leave_running=True)
    assert len(degraded_times(tmp_path)) == 2

    found = survey(tmp_path / "journal.db")
    assert found.missing == 0, "the rescued copy has every row that was committed"
    assert run_id in found.best.runs
    apply(tmp_path / "journal.db", world.clock)
    controller = await world.begin()
    controller.journal.verify()
    told = controller.journal.last("journal.repaired")
    assert told is not None
    assert [time["verbatim"] for time in told.body["degraded"]] == [True, False]
    await asyncio.sleep(300.0)
    view = controller.runs.get(run_id)
    assert view.state is RunState.HELD, "a person decides"
    assert any("repaired" in message for message in view.messages)
    truth = world.lab.plant.truth().volumes_ul
    assert truth["spent"] == pytest.approx(given_ul["spent"], abs=100.0), "nothing more was moved"
    assert abs(controller.ledger.volumes()["spent"].ul - truth["spent"]) < 300.0, "what was moved is booked"
    await world.end()
    await world.lab.close()


async def test_F2_a_dose_that_is_open_at_the_last_sound_row_comes_back_as_unknown(tmp_path: Path) -> None:
    world = World(tmp_path)
    controller = await world.begin()
    run_id = await controller.runs.start("recycle", RUN, user="test", reason="a test")
    while not any(True for _ in controller.journal.entries(kinds=("step.act",))):
        await asyncio.sleep(1.0)
    await asyncio.sleep(10.0)
    (act,) = controller.journal.entries(kinds=("step.act",))
    await world.end(leave_running=True)
    with contextlib.closing(sqlite3.connect(tmp_path / "journal.db")) as db, db:
        db.execute("DROP TRIGGER entries_are_not_removed")
        db.execute("DELETE FROM entries WHERE seq > ?", (act.seq,))
    db.close()
    found = survey(tmp_path / "journal.db")
    assert [dose.line for dose in found.best.doses.values()] == ["draw"]
    assert found.missing > 0
    apply(tmp_path / "journal.db", world.clock)
    controller = await world.begin()
    await asyncio.sleep(600.0)
    view = controller.runs.get(run_id)
    assert view.state is RunState.HELD
    moved = [row.body for row in controller.journal.entries(kinds=("moved",))]
    assert [body["end"] for body in moved] == ["unknown"]
    await world.end()
    await world.lab.close()


async def test_A9_an_emergency_stop_of_a_degraded_time_stands_after_the_repair_and_after_each_restart(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    await world.begin()
    await asyncio.sleep(5.0)
    await world.end()
    garbage_header(tmp_path / "journal.db")
    controller = await world.begin(world.degraded())
    await controller.emergency_stop("anna", "smoke")
    await world.end()
    (tmp_path / "emergency-stop.json").unlink()  # the record alone has to be enough
    controller = await world.begin(world.degraded())
    assert controller.gate.emergency == "anna: smoke"
    await world.end()
    (tmp_path / "emergency-stop.json").unlink(missing_ok=True)
    apply(tmp_path / "journal.db", world.clock)
    controller = await world.begin()
    assert controller.gate.emergency == "anna: smoke"
    await world.end()
    await world.lab.close()


async def test_A11_a_folder_that_cannot_be_written_is_no_reason_to_stop_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may write anywhere: here there is no such folder, and opening a file in it fails as on a read-only disk."""
    elsewhere = tmp_path / "tmp"
    elsewhere.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(elsewhere))
    clock = Clock(follow_system=False, epoch=EPOCH)
    gone = tmp_path / "gone" / "journal.db"
    with pytest.raises(OSError, match="gone") as why:
        Journal(gone, clock, durable=True)
    journal = Journal.degraded(gone, clock, why.value)
    journal.append("act", {})
    assert journal.problem is not None
    journal.close()
    assert [json.loads(line) for path in elsewhere.glob("degraded-*.jsonl") for line in path.read_text().splitlines()]


async def test_A11_who_owns_the_journal_is_not_disturbed_by_a_second_controller_nor_by_a_repair(tmp_path: Path) -> None:
    clock = Clock(follow_system=False, epoch=EPOCH)
    journal = Journal(tmp_path / "journal.db", clock, durable=True)
    journal.append("act", {})
    garbage = tmp_path / "degraded-1.jsonl"
    garbage.write_text("garbage\n")
    with pytest.raises(JournalInUse):
        open_journal(tmp_path / "journal.db", clock)
    with pytest.raises(JournalInUse):
        apply(tmp_path / "journal.db", clock)
    with pytest.raises(JournalInUse):
        begin_new_journal(tmp_path / "journal.db", "a test", clock)
    journal.close()


@pytest.mark.parametrize("meanwhile", ["a commit", "a checkpoint between database and WAL"])
async def test_D3_a_journal_in_use_does_not_look_damaged(
    meanwhile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller commits while `choroid repair` reads the files."""
    journal = Journal(tmp_path / "journal.db", Clock(follow_system=False, epoch=EPOCH), durable=True)
    assert isinstance(journal.file, JournalFile)
    for n in range(30):
        journal.append("act", {"n": n})
    copy, writes = shutil.copyfile, 0

    def copied(source: str, target: str) -> None:
        nonlocal writes
        assert isinstance(journal.file, JournalFile)
        copy(source, target)
        if source.endswith("-wal") == (meanwhile == "a commit") and writes < 3:
            writes += 1
            journal.append("act", {"n": writes})
            if meanwhile != "a commit":
                journal.file._compare()
                journal.file._note()
                journal.append("act", {"n": writes})

    monkeypatch.setattr("controller.journal.repair.shutil.copyfile", copied)
    found = survey(tmp_path / "journal.db")
    assert not found.needed, (found.best.damage, found.missing)
    assert found.best.rows >= 30
    journal.close()


async def test_D3_rows_that_a_controller_adds_before_it_is_stopped_are_kept_by_the_repair(tmp_path: Path) -> None:
    clock = Clock(follow_system=False, epoch=EPOCH)
    journal = Journal(tmp_path / "journal.db", clock, durable=True)
    journal.append("act", {"n": 1})
    (tmp_path / "degraded-1.jsonl").write_text("garbage\n")
    found = survey(tmp_path / "journal.db")
    assert found.needed
    journal.append("act", {"n": 2})
    journal.close()
    apply(found.journal, clock)
    again = Journal(tmp_path / "journal.db", clock, durable=True)
    assert [row.body["n"] for row in again.entries(kinds=("act",))] == [1, 2]
    again.close()


async def test_D3_repair_keeps_evidence_and_a_second_one_finds_nothing_to_do(tmp_path: Path) -> None:
    clock = Clock(follow_system=False, epoch=EPOCH)
    journal = Journal(tmp_path / "journal.db", clock, durable=True)
    for n in range(30):
        journal.append("act", {"n": n})
    journal.close()
    assert not survey(tmp_path / "journal.db").needed
    edited(tmp_path / "journal.db")
    before = {path.name: path.read_bytes() for path in journal_files(tmp_path / "journal.db")}
    survey(tmp_path / "journal.db")
    assert {path.name: path.read_bytes() for path in journal_files(tmp_path / "journal.db")} == before, "it only looks"
    old_files = apply(tmp_path / "journal.db", clock)
    assert {path.name: path.read_bytes() for path in sorted(old_files.iterdir())} == before
    again = Journal(tmp_path / "journal.db", clock, durable=True)
    assert again.verify() == 5
    assert [row.kind for row in again.entries()] == ["act"] * 4 + ["journal.repaired"]
    again.close()
    assert not survey(tmp_path / "journal.db").needed


async def test_D3_a_repair_that_is_killed_before_its_end_can_be_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(follow_system=False, epoch=EPOCH)
    journal = Journal(tmp_path / "journal.db", clock, durable=True)
    for n in range(30):
        journal.append("act", {"n": n})
    journal.close()
    edited(tmp_path / "journal.db")

    def killed(journal: Path) -> None:
        raise KeyboardInterrupt

    for place in ("move_old_files", "_put_in_place"):
        with monkeypatch.context() as patched:
            patched.setattr(f"controller.journal.repair.{place}", killed)
            with pytest.raises(KeyboardInterrupt):
                apply(tmp_path / "journal.db", clock)
    found = survey(tmp_path / "journal.db")
    assert found.best.rows >= 5
    apply(tmp_path / "journal.db", clock)
    again = Journal(tmp_path / "journal.db", clock, durable=True)
    assert [row.kind for row in again.entries()][:5] == ["act"] * 4 + ["journal.repaired"]
    again.verify()
    again.close()


def test_the_command_reports_repairs_and_begins_a_new_journal(tmp_path: Path) -> None:
    async def fill() -> None:
        clock = Clock(follow_system=True)
        journal = Journal(tmp_path / "journal.db", clock, durable=True)
        body = {"protocol": "recycle", "volumes": {"loop": {"ul": 12_000.0, "sd_ul": 100.0}}}
        journal.append("run.start", body, run="run-1")
        for n in range(30):
            journal.append("act", {"n": n})
        journal.close()

    asyncio.run(fill())
    assert "nothing to repair" in as_text(repair(tmp_path, do=False))
    edited(tmp_path / "journal.db")
    answer = repair(tmp_path, do=False)
    assert (answer["needed"], answer["sound_rows"], answer["missing_rows"]) == (True, 4, 27)
    text = as_text(answer)
    assert "run-1 (recycle), idle: it will be held" in text
    assert "12.00 ± 0.10 mL" in text
    assert "nothing was changed" in text
    assert "old files are kept in" in as_text(repair(tmp_path, do=True))
    assert not repair(tmp_path, do=False)["needed"]
    shutil.rmtree(next(tmp_path.glob("journal-old-*")))
    (tmp_path / "journal.db").unlink()
    assert repair(tmp_path, do=False)["needed"]
    assert "new journal begins" in as_text(repair(tmp_path, do=True, new_journal=True, reason="a new rig"))
    assert not repair(tmp_path, do=False)["needed"]
