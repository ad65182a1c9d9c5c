"""Files of earlier releases: converted with nothing lost, whatever happens meanwhile, and never while the loop waits."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from controller.memory.file import open_database
from controller.memory.formats import Format, Migration, backup_path, sql
from controller.memory.history import History
from controller.memory.history_format import HISTORY
from controller.memory.history_reader import HistoryReader, HistoryUnreadable
from controller.memory.quarantine import SUFFIX, quarantined_files
from controller.telemetry.outbox import Outbox
from drivers.commands import Quality
from tests.memory.test_history import BEGIN, EPOCH, reading, values
from verification.bench.standing_clock import StandingClock

HOURS = 5
POINTS = {"ph_loop.ph": "pH", "balance.mass": "g"}

FORMAT_0 = """
CREATE TABLE IF NOT EXISTS series (id INTEGER PRIMARY KEY, point TEXT NOT NULL UNIQUE, unit TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS raw (
    series INTEGER NOT NULL, at REAL NOT NULL, value REAL NOT NULL, PRIMARY KEY (series, at)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rollup (
    level INTEGER NOT NULL, series INTEGER NOT NULL, bucket INTEGER NOT NULL,
    n INTEGER NOT NULL, total REAL NOT NULL, least REAL NOT NULL, most REAL NOT NULL,
    PRIMARY KEY (level, series, bucket)
) WITHOUT ROWID;
"""
"""As the first releases created it (levels 30, 300 and 3600 s)."""
FORMAT_2 = """
CREATE TABLE IF NOT EXISTS series (
    id INTEGER PRIMARY KEY, point TEXT NOT NULL, unit TEXT NOT NULL, UNIQUE (point, unit)
);
CREATE TABLE IF NOT EXISTS raw (
    series INTEGER NOT NULL, at REAL NOT NULL, value REAL NOT NULL, PRIMARY KEY (series, at)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rollup (
    level INTEGER NOT NULL, series INTEGER NOT NULL, bucket INTEGER NOT NULL,
    n INTEGER NOT NULL, total REAL NOT NULL, least REAL NOT NULL, most REAL NOT NULL,
    PRIMARY KEY (level, series, bucket)
) WITHOUT ROWID;
PRAGMA user_version=2;
"""
"""As releases created it before suspect readings were kept."""
OUTBOX_0 = """
CREATE TABLE IF NOT EXISTS outbox (seq INTEGER PRIMARY KEY AUTOINCREMENT, payload BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
INSERT OR IGNORE INTO counters VALUES ('bytes', 0), ('dropped', 0);
"""

LEVELS = {FORMAT_0: (30, 300, 3600), FORMAT_2: (30, 120, 600, 3600, 14400)}
KILLED = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path
from controller.memory.file import open_database
from controller.memory.history_format import HISTORY

def killed(db):
    db.execute("PRAGMA cache_size=10")  # pages that do not fit go into the write-ahead log before the end
    HISTORY.migrations[0].apply(db)
    os.kill(os.getpid(), signal.SIGKILL)

first, *others = HISTORY.migrations
open_database(Path(sys.argv[1]), replace(HISTORY, migrations=(replace(first, apply=killed), *others)))
"""


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"


def readings() -> dict[str, list[tuple[float, float]]]:
    """Points with times that no two levels share a boundary of, and values whose extremes are rare."""
    chance = random.Random(5)
    return {
        point: [(BEGIN + number * 7.3, chance.gauss(7.0, 1.0)) for number in range(HOURS * 3600 * 10 // 73)]
        for point in POINTS
    }


def written_by_an_earlier_release(path: Path, schema: str) -> None:
    """A history file as that release wrote it: its tables, raw points, and its levels."""
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA journal_mode=WAL")
        db.executescript(schema)
        for number, (point, kept) in enumerate(readings().items(), 1):
            db.execute("INSERT INTO series VALUES (?, ?, ?)", (number, point, POINTS[point]))
            db.executemany("INSERT INTO raw VALUES (?, ?, ?)", [(number, at, value) for at, value in kept])
            for level in LEVELS[schema]:
                buckets: dict[int, list[float]] = {}
                for at, value in kept:
                    buckets.setdefault(int(at // level), []).append(value)
                rows = [(level, number, n, len(v), sum(v), min(v), max(v)) for n, v in buckets.items()]
                db.executemany("INSERT INTO rollup VALUES (?, ?, ?, ?, ?, ?, ?)", rows)


def assert_nothing_lost(history: History, tmp_path: Path) -> None:
    """Every window looks as it would had the present release taken the readings in itself."""
    fresh = History(tmp_path / "fresh.db", StandingClock(EPOCH, 1000.0))
    for point, kept in readings().items():
        fresh.insert(point, POINTS[point], kept)
    assert history.series() == POINTS
    for point in POINTS:
        for begin_h, end_h, most in ((0, HOURS, 10_000), (0, HOURS, 400), (0, HOURS, 60), (0, HOURS, 2), (1, 2, 25)):
            window = BEGIN + begin_h * 3600.0, BEGIN + end_h * 3600.0, most
            found, expected = history.query(point, *window), fresh.query(point, *window)
            assert len(found) == len(expected) > 0
            for one, other in zip(found, expected, strict=True):
                assert one == pytest.approx(other)
    fresh.close()


def version(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(path)) as db:
        return int(db.execute("PRAGMA user_version").fetchone()[0])


@pytest.mark.parametrize(("schema", "number"), [(FORMAT_0, 0), (FORMAT_2, 2)])
def test_D5_a_history_of_an_earlier_release_goes_on(schema: str, number: int, tmp_path: Path) -> None:
    path, clock = tmp_path / "h.db", StandingClock(EPOCH, 1000.0)
    written_by_an_earlier_release(path, schema)
    history = History(path, clock)
    assert history.problem is None
    assert_nothing_lost(history, tmp_path)
    assert quarantined_files(tmp_path) == []
    assert version(path) == HISTORY.version
    assert version(backup_path(path, number)) == number, "the file as it was is kept"
    with contextlib.closing(sqlite3.connect(backup_path(path, number))) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("SELECT count(*) FROM raw").fetchone()[0] == sum(map(len, readings().values()))

    clock.at_s += 100.0
    history.add(clock.at_s, "", {"balance.mass": reading(3.0, clock.at_s, unit="g")})
    history.add(clock.at_s, "", {"ph_loop.ph": reading(99.0, clock.at_s, Quality.SUSPECT, unit="pH")})
    assert history.flush(), history.problem
    assert [value for _, value, _ in history.doubted("ph_loop.ph", 0.0, 2e9)] == [99.0]
    history.close()
    assert len(list(tmp_path.glob("h.db.format-*"))) == 1
    again = History(path, StandingClock(EPOCH, 1000.0))
    assert 3.0 in values(again, "balance.mass")
    again.close()


def test_D2_a_process_killed_in_mid_migration_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    written_by_an_earlier_release(path, FORMAT_0)
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert path.with_name("h.db-wal").stat().st_size > 0, "it was killed between its writes"
    assert version(path) == 0
    history = History(path, StandingClock(EPOCH, 1000.0))
    assert history.problem is None
    assert_nothing_lost(history, tmp_path)
    history.close()


def full_disk(db: sqlite3.Connection) -> None:
    """A migration on a disk that has no page left."""
    (pages,) = db.execute("PRAGMA page_count").fetchone()
    db.execute(f"PRAGMA max_page_count={pages}")
    HISTORY.migrations[0].apply(db)


def test_D2_a_disk_full_in_mid_migration_loses_nothing_and_it_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, clock = tmp_path / "h.db", StandingClock(EPOCH, 1000.0)
    written_by_an_earlier_release(path, FORMAT_0)
    first, *others = HISTORY.migrations
    with monkeypatch.context() as patch:
        patch.setattr(
            "controller.memory.history.HISTORY", replace(HISTORY, migrations=(replace(first, apply=full_disk), *others))
        )
        history = History(path, clock)
        history.add(clock.at_s, "", {"balance.mass": reading(3.0, clock.at_s, unit="g")})
        assert not history.flush()
        assert "full" in str(history.problem)
        assert version(path) == 0
    assert history.flush()
    assert history.problem is None
    assert 3.0 in values(history, "balance.mass")
    assert quarantined_files(tmp_path) == []
    history.close()


def test_D2_without_room_for_the_copy_the_file_waits_for_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "h.db"
    written_by_an_earlier_release(path, FORMAT_0)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=path.stat().st_size))
        history = History(path, StandingClock(EPOCH, 1000.0))
        assert "has to be converted, which needs" in str(history.problem)
        assert "free" in str(history.problem)
    assert sorted(each.name for each in tmp_path.glob("h.db.format*")) == []
    assert history.flush() or history.problem is None
    history.close()
    history = History(path, StandingClock(EPOCH, 1000.0))
    assert_nothing_lost(history, tmp_path)
    history.close()


def slowed(begun: threading.Event, may_end: threading.Event | None) -> Format:
    """The history's format, whose first migration lasts until `may_end` is set, or for ever."""
    first, *others = HISTORY.migrations

    def apply(db: sqlite3.Connection) -> None:
        begun.set()
        if may_end is None:
            db.execute(ENDLESS).fetchone()
        else:
            may_end.wait(10.0)
        first.apply(db)

    return replace(HISTORY, migrations=(replace(first, apply=apply), *others))


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file counts as too large to be converted while the loop waits."""
    monkeypatch.setattr("controller.memory.file.CHECKED_BYTES", 0)


@pytest.mark.usefixtures("large")
def test_R2_a_large_history_is_converted_while_the_loop_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, clock = tmp_path / "h.db", StandingClock(EPOCH, 1000.0)
    begun, may_end = threading.Event(), threading.Event()
    written_by_an_earlier_release(path, FORMAT_0)
    monkeypatch.setattr("controller.memory.history.HISTORY", slowed(begun, may_end))
    history = History(path, clock, autocheckpoint=False)
    assert begun.wait(10.0)
    assert "is being converted" in str(history.problem)
    assert "wait" in str(history.problem)
    for tick in range(100):
        clock.at_s += 1.0
        history.add(clock.at_s, "", {"balance.mass": reading(1000.0 + tick, clock.at_s, unit="g")})
    assert history.problem is not None
    may_end.set()
    history._conversion._thread.join(10.0)  # type: ignore[union-attr]
    assert history.flush()
    assert history.problem is None
    assert [value for value in values(history, "balance.mass") if value >= 1000.0] == [1000.0 + n for n in range(100)]
    assert version(backup_path(path, 0)) == 0
    history.close()


@pytest.mark.usefixtures("large")
def test_R2_a_controller_that_ends_meanwhile_waits_for_no_conversion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, begun = tmp_path / "h.db", threading.Event()
    written_by_an_earlier_release(path, FORMAT_0)
    monkeypatch.setattr("controller.memory.history.HISTORY", slowed(begun, None))
    history = History(path, StandingClock(EPOCH, 1000.0), autocheckpoint=False)
    assert begun.wait(10.0)
    conversion = history._conversion
    assert conversion is not None
    history.close()
    assert conversion.ended
    assert version(path) == 0
    monkeypatch.undo()
    again = History(path, StandingClock(EPOCH, 1000.0))
    assert_nothing_lost(again, tmp_path)
    again.close()


@pytest.mark.usefixtures("large")
def test_R2_a_large_file_that_only_gains_a_table_is_not_copied(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    written_by_an_earlier_release(path, FORMAT_2)
    history = History(path, StandingClock(EPOCH, 1000.0), autocheckpoint=False)
    assert history.problem is None
    assert_nothing_lost(history, tmp_path)
    assert not list(tmp_path.glob("h.db.format*"))
    history.close()


@pytest.mark.usefixtures("large")
def test_A11_a_large_file_that_cannot_be_converted_is_quarantined(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE rollup (of_another_program)")
    history = History(path, StandingClock(EPOCH, 1000.0), autocheckpoint=False)
    assert history._conversion is not None
    history._conversion._thread.join(10.0)
    history.insert("a.x", "kPa", [(BEGIN, 1.0)])
    assert values(history) == [1.0]
    assert quarantined_files(tmp_path) == [f"h.db{SUFFIX}1"]
    history.close()


def test_a_reader_takes_an_earlier_format_that_holds_the_same_and_names_the_next_action_for_others(
    tmp_path: Path,
) -> None:
    for schema, name in ((FORMAT_2, "two.db"), (FORMAT_0, "none.db")):
        written_by_an_earlier_release(tmp_path / name, schema)
    with contextlib.closing(HistoryReader(tmp_path / "two.db")) as reader:
        assert reader.series == POINTS
    with pytest.raises(HistoryUnreadable, match="start the controller once"):
        HistoryReader(tmp_path / "none.db")


def test_D1_an_outbox_of_an_earlier_release_keeps_its_messages_and_its_count_of_lost_ones(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.executescript(OUTBOX_0)
        db.executemany("INSERT INTO outbox (payload) VALUES (?)", [(f"message {n}".encode(),) for n in range(9)])
        db.execute("DELETE FROM outbox WHERE seq <= 4")
        db.execute("UPDATE counters SET value = 3 WHERE name = 'dropped'")
    outbox = Outbox(path)
    assert [parcel.seq for parcel in outbox.oldest()] == [5, 6, 7, 8, 9]
    assert outbox.oldest()[0].payload == b"message 4"
    assert outbox.dropped == 3
    assert outbox.put(b"new") == 10
    outbox.close()
    assert quarantined_files(tmp_path) == []


def test_the_tables_of_migrations_lead_from_every_format_to_the_present_one() -> None:
    known = {step.from_version for step in HISTORY.migrations}
    assert all(HISTORY.path_from(each) for each in known)
    assert HISTORY.path_from(HISTORY.version) == ()
    assert HISTORY.path_from(HISTORY.version + 1) is None
    backwards = Format(2, "", (Migration(3, 2, sql()), Migration(5, 5, sql())))
    assert backwards.path_from(3) is None
    assert backwards.path_from(5) is None


def test_a_step_that_fails_leaves_neither_its_changes_nor_an_open_connection(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    open_database(path, Format(1, "CREATE TABLE kept (x);")).close()

    def failing(db: sqlite3.Connection) -> None:
        db.execute("CREATE TABLE half_done (x)")
        raise sqlite3.OperationalError("database is locked")

    with pytest.raises(sqlite3.OperationalError, match="locked"):
        open_database(path, Format(2, "", (Migration(1, 2, failing),)))
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert [name for (name,) in db.execute("SELECT name FROM sqlite_master")] == ["kept"]
    assert not [each for each in os.listdir("/proc/self/fd") if _names(each, path)]


def _names(descriptor: str, path: Path) -> bool:
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/self/fd/{descriptor}").startswith(str(path))
    return False
