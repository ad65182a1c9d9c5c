"""No file of the data folder stops the life of the tissue, whatever has become of it (A11).

The names come from the folder that a real `choroid run` has left, so that a new file is damaged here as well. Each file and
damage is tried in virtual time; files of the other processes (guard, electrode engine) in real ones, all at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from choroid.running.data_folder import open_folder
from choroid.running.guarding import stop, write_plan
from choroid.running.journal_opening import JOURNAL, open_journal
from choroid.running.run import _notices
from choroid.running.sinks import sinks_of
from controller.core.clock import Clock
from controller.delivery.people import people_of
from controller.guard.guarding import guard_plan
from controller.guard.wire import SOCKET
from controller.memory.identity import kept_identity
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.process.outside import with_notices, with_people, with_sink
from controller.rig.description import Rig
from controller.rig.loading import load_rig
from dashboards.auth import Auth
from dashboards.local import SOCKET as PAGE_SOCKET
from drivers.commands import LevelStatus, PumpStatus
from sim.lab import SimulatedLab
from tests.processes import BENCH, Bench, until

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
CLOSED_PORT = "127.0.0.1:1"
TELEMETRY = f"""\
telemetry:
  mqtt: {{broker: "{CLOSED_PORT}", prefix: choroid}}
  influx: {{url: "http://{CLOSED_PORT}", org: lab, bucket: rig}}
alarms:
  notify:
    channels:
      display: {{mqtt: true, min_priority: low}}
    escalation: [[display]]
"""
OCCASIONAL = (
    "emergency-stop.json",
    "calibrations.jsonl",
    "recipes",
    "controller.log",
    "journal.db-wal",
    "history.db-wal",
    PAGE_SOCKET,
)
"""Files that a run of a few seconds need not leave."""
EMERGENCY = "emergency-stop.json"
REWRITTEN = (
    "guard.",
    "endpoint.json",
    "nerves.json",
    "controller.log",
    "journal.db.owner",
    "journal.db.head",
    "stimulation.db.head",
)
"""Files that each start writes again, or does without: nothing is lost with them."""


def garbage(path: Path) -> None:
    _remove(path)
    path.write_bytes(os.urandom(5000))


def wrong_json(path: Path) -> None:
    """Text that a parser accepts and a reader does not expect."""
    _remove(path)
    path.write_text('[{"version": 1, "tokens": 7}, null]\n')


def torn(path: Path) -> None:
    """A sound beginning, as a failing disk leaves it."""
    kept = path.read_bytes()[:4096] if path.is_file() else b""
    _remove(path)
    path.write_bytes(kept + os.urandom(40_000))


def emptied(path: Path) -> None:
    _remove(path)
    path.touch()


def directory(path: Path) -> None:
    _remove(path)
    path.mkdir()
    (path / "something").touch()


def dead_link(path: Path) -> None:
    _remove(path)
    path.symlink_to(path.parent / "gone" / "nothing")


DAMAGES: tuple[Callable[[Path], None], ...] = (garbage, torn, wrong_json, emptied, directory, dead_link)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _rig_file(folder: Path) -> Path:
    text = BENCH.read_text(encoding="utf-8")
    begin = text.index("telemetry:")
    assert "\n\n" not in text[begin:].strip(), "nothing follows telemetry"
    path = folder / "rig.yaml"
    path.write_text(text[:begin] + TELEMETRY, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of a real run that was killed."""
    folder = tmp_path_factory.mktemp("left")
    bench = Bench(folder, _rig_file(folder), array=True)
    try:
        controller = bench.run()
        until((bench.data / "stimulation.db").exists, "the electrode engine runs")
        until((bench.data / "notices.db").exists, "an alarm waits for delivery")
        controller.send_signal(signal.SIGKILL)
        controller.wait()
        until(lambda: not (bench.data / SOCKET).exists(), "the guard has brought the rig to rest")
        (bench.data / PAGE_SOCKET).unlink()  # it cannot be copied
        for path in bench.data.glob("*.db"):
            with contextlib.closing(sqlite3.connect(path)) as db:  # else all of it is in the write-ahead log
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        bench.end()
    return bench.data


class Start:
    """One start of a controller on a folder, as `choroid run` makes it, in virtual time and without a guard."""

    def __init__(self, data: Path, rig: Rig) -> None:
        self.lab = SimulatedLab(rig, seed=1)
        clock = Clock(follow_system=False, epoch=EPOCH)
        folder = open_folder(data, guard_plan(rig).to_json())
        assert folder.records == data
        self.journal = open_journal(data / JOURNAL, clock, folder.problem, threaded=False)
        self.auth = Auth(data, demo=False, utc=clock.utc)
        write_plan(rig, data)
        self.sinks = sinks_of(rig, data, kept_identity(data))
        self.controller = Controller(
            rig=rig,
            opener=self.lab.opener,
            storage=Storage(data, journal=self.journal),
            clock=clock,
            parts=(
                *map(with_sink, self.sinks),
                with_people(people_of(rig, data, clock, self.journal.append)),
                with_notices(_notices(folder, self.auth)),
            ),
        )

    async def lives(self, seconds: float) -> None:
        await self.controller.start()
        for sink in self.sinks:
            self.controller.edges.keep(sink.name, sink.live, alarm=("telemetry_lost", sink.name))
        self.stop = asyncio.Event()
        self.ticking = asyncio.create_task(self.controller.run(self.stop))
        await asyncio.sleep(seconds)

    async def end(self) -> None:
        self.stop.set()
        await self.ticking
        await self.controller.close()
        await self.lab.close()

    def alarms(self) -> set[str]:
        return {alarm.kind for alarm in self.controller.alarms.active()}

    def cared_for(self) -> None:
        outputs = self.controller.store.state.actuators
        heart, air = outputs["reglo.heart"].status, outputs["gas_air.flow"].status
        assert isinstance(heart, PumpStatus)
        assert isinstance(air, LevelStatus)
        assert heart.running
        assert air.setpoint > 0.0
        assert "defect" not in self.alarms()
        if self.controller.gate.emergency is None:
            co2 = outputs["gas_co2.flow"].status
            assert isinstance(co2, LevelStatus)
            assert co2.setpoint > 0.0
            assert self.lab.plant.truth().temperature_c == pytest.approx(37.0, abs=0.5)


@pytest.mark.long
@pytest.mark.virtual_time
async def test_A11_each_file_of_the_data_folder_may_be_damaged_and_the_rig_is_cared_for(
    left: Path, tmp_path: Path
) -> None:
    rig = load_rig(left.parent / "rig.yaml")
    shutil.copytree(left, tmp_path / "sound")
    start = Start(tmp_path / "sound", rig)
    await start.lives(40.0)
    start.cared_for()
    usual = start.alarms()
    await start.end()
    assert not usual & {"journal_lost", "credentials_lost", "file_quarantined", "data_folder_lost", "history_lost"}
    names = {path.name for path in left.iterdir()} | set(OCCASIONAL)
    assert {"journal.db", "history.db", "outbox.db", "outbox-influx.db", "notices.db", "stimulation.db"} <= names
    untold, failed = [], []
    for name in sorted(names):
        for damage in DAMAGES:
            if damage is wrong_json and ".json" not in name:
                continue
            case = f"{name}: {damage.__name__}"
            data = tmp_path / "data"
            shutil.copytree(left, data)
            damage(data / name)
            if name.endswith(".db"):  # else the write-ahead log may hold every page
                _remove(data / f"{name}-wal")
                _remove(data / f"{name}-shm")
            try:
                start = Start(data, rig)
                await start.lives(40.0)
                start.cared_for()
                if name == EMERGENCY:
                    assert "emergency_stop" in start.alarms()
                    await start.controller.emergency_reset("test", "a test")
                if _must_tell(name, damage) and not start.alarms() - usual:
                    untold.append(case)
                assert start.auth.by_token(start.auth.command_line_token()) is not None
                await start.end()
            except Exception as error:
                failed.append(f"{case}: {error!r}")
            shutil.rmtree(data)
    assert not failed, "\n".join(failed)
    assert not untold, "\n".join(untold)


OF_THE_ENGINE = ("stimulation.db", "nerves-credentials.json", "nerves-local.json")
"""Files that the electrode engine reads, which is not started here."""


OF_THE_NOTARY = ("audit.key.pub", "journal.checkpoints")
"""Files that only the process of signed checkpoints reads; tests/front/test_audit.py spoils them."""


def _must_tell(name: str, damage: Callable[[Path], None]) -> bool:
    if name in OF_THE_NOTARY:
        return False
    if damage in (directory, dead_link):
        return (name, damage) != ("recipes", directory)
    if name.startswith(REWRITTEN) or name.endswith(("-wal", "-shm")) or name in OF_THE_ENGINE:
        return False
    return damage is not emptied or name in ("journal.db", "credentials.json")


@pytest.mark.parametrize(
    "damage",
    [pytest.param(garbage, marks=pytest.mark.long), pytest.param(directory, marks=pytest.mark.long), dead_link],
)
def test_A11_guard_and_controller_start_with_every_other_file_damaged(
    damage: Callable[[Path], None], left: Path, tmp_path: Path
) -> None:
    bench = Bench(tmp_path, left.parent / "rig.yaml", array=True)
    try:
        shutil.copytree(left, bench.data)
        for path in list(bench.data.iterdir()):
            if not path.name.startswith("journal.db"):
                damage(path)
        controller = bench.run()

        def cared_for() -> bool:
            outputs = bench.get("/api/state")["actuators"]
            return all((outputs[name]["status"] or {}).get("on") for name in ("reglo.heart", "gas_co2.flow"))

        until(cared_for, "the heart turns and gas flows")
        told = {alarm["kind"] for alarm in bench.get("/api/alarms")["alarms"]}
        assert told & {"file_quarantined", "credentials_lost"}
        assert "stop" in stop(bench.data, reason="a test")
        controller.send_signal(signal.SIGTERM)
        assert controller.wait(120) == 0
    finally:
        bench.end()
