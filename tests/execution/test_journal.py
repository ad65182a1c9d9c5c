"""The journal: append-only, chained, the same bytes for the same virtual run."""

from __future__ import annotations

import asyncio
import contextlib
import math
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from controller.core.clock import Clock
from controller.guard.liveness import SILENCE_S
from controller.journal import file as journal_file
from controller.journal.file import RESERVE_BYTES
from controller.journal.journal import Journal
from controller.journal.terms import GENESIS, JournalDamaged, JournalError, JournalUnwritten, chain
from sim.virtual_time import run_virtual

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def clock() -> Clock:
    return Clock(follow_system=False, epoch=EPOCH)


async def _filled(path: Path, *, durable: bool = False, extra: str = "") -> str:
    journal = Journal(path, clock(), durable=durable)
    for number in range(20):
        await asyncio.sleep(0.1)
        journal.append("act", {"number": number, "µ": [1.5, None, True], "text": "“ä”" + extra}, run="run-1")
    journal.append("plain", {})
    head = journal.sha256()
    journal.close()
    return head


def _raw(path: Path, *statements: str) -> None:
    """Edit a row as with an SQLite editor: the triggers are dropped first."""
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("DROP TRIGGER entries_are_not_edited")
        db.execute("DROP TRIGGER entries_are_not_removed")
        for statement in statements:
            db.execute(statement)
    db.close()


async def _verify(path: Path) -> int:
    journal = Journal(path, clock(), durable=False)
    try:
        return journal.verify()
    finally:
        journal.close()


def test_same_run_same_bytes(tmp_path: Path) -> None:
    heads = {run_virtual(_filled(tmp_path / f"{name}.db")) for name in ("one", "two")}
    heads.add(run_virtual(_filled(tmp_path / "three.db", durable=True)))
    assert len(heads) == 1
    assert run_virtual(_filled(tmp_path / "four.db", extra="!")) not in heads


@pytest.mark.virtual_time
async def test_rows_come_back_in_order_and_filtered(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await _filled(path)
    journal = Journal(path, clock(), durable=False)
    assert journal.next_seq == 22
    assert [entry.seq for entry in journal.entries(run="run-1", after=18)] == [19, 20]
    assert [entry.kind for entry in journal.entries(kinds=("plain", "nothing"))] == ["plain"]
    assert [entry.seq for entry in journal.entries(newest_first=True, limit=2)] == [21, 20]
    last = journal.last("act")
    assert last is not None
    assert last.body == {"number": 19, "µ": [1.5, None, True], "text": "“ä”"}
    assert journal.last("never") is None
    assert journal.verify() == 21
    journal.close()
    journal.close()


@pytest.mark.virtual_time
async def test_a_few_of_several_kinds_newest_first_read_no_more_than_a_few(tmp_path: Path) -> None:
    """A page asks for the latest decisions every few seconds, and the journal of a year has half a million rows."""
    journal = Journal(tmp_path / "j.db", clock(), durable=False)
    for number in range(900):
        journal.append(("note.recycle", "note.grade", "act")[number % 3], {"number": number}, run=f"run-{number % 2}")
    asked: list[str] = []
    journal._db.set_trace_callback(asked.append)
    kinds = ("note.recycle", "note.grade", "note.recycle")
    rows = journal.entries(kinds=kinds, newest_first=True)
    assert [next(rows).body["number"] for _ in range(4)] == [898, 897, 895, 894]
    limited = list(journal.entries(kinds=kinds, newest_first=True, limit=3, run="run-0", after=2))
    assert [row.body["number"] for row in limited] == [898, 894, 892]
    assert len(list(journal.entries(kinds=kinds, newest_first=True))) == 600
    journal._db.set_trace_callback(None)
    assert asked
    for query in asked:
        plan = [row[-1] for row in journal._db.execute(f"EXPLAIN QUERY PLAN {query}")]
        assert not any("TEMP B-TREE" in step or step.startswith("SCAN") for step in plan), (query, plan)
    journal.close()


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("statement", "row"),
    [
        ("UPDATE entries SET body = replace(body, '7', '8') WHERE seq = 8", 8),
        ("UPDATE entries SET utc = '2026-01-01T00:00:09.000Z' WHERE seq = 5", 5),
        ("UPDATE entries SET at_s = at_s + 1 WHERE seq = 5", 5),
        ("UPDATE entries SET kind = 'note' WHERE seq = 21", 21),
        ("UPDATE entries SET run = NULL WHERE seq = 3", 3),
        ("DELETE FROM entries WHERE seq = 9", 9),
        ("DELETE FROM entries WHERE seq >= 20", 20),
        ("DELETE FROM entries", 1),
    ],
)
async def test_D3_edits_are_found_with_their_row(statement: str, row: int, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await _filled(path)
    assert await _verify(path) == 21
    _raw(path, statement)
    with pytest.raises(JournalDamaged) as caught:
        await _verify(path)
    assert caught.value.seq == row


@pytest.mark.virtual_time
async def test_D3_a_forged_row_with_a_fitting_hash_breaks_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await _filled(path)
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        at_s, utc, run = db.execute("SELECT at_s, utc, run FROM entries WHERE seq = 1").fetchone()
    db.close()
    forged = chain(GENESIS, 1, at_s, utc, "act", run, "{}")
    _raw(path, f"UPDATE entries SET body = '{{}}', hash = '{forged}' WHERE seq = 1")
    with pytest.raises(JournalDamaged) as caught:
        await _verify(path)
    assert caught.value.seq == 2


@pytest.mark.virtual_time
async def test_D3_the_file_itself_refuses_edits(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await _filled(path)
    db = sqlite3.connect(path)
    for statement in ("UPDATE entries SET kind = 'x'", "DELETE FROM entries"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            db.execute(statement)
    db.close()


@pytest.mark.virtual_time
async def test_what_is_not_json_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db", clock(), durable=False)
    with pytest.raises(ValueError, match="JSON"):
        journal.append("bad", {"x": math.nan})
    with pytest.raises(TypeError):
        journal.append("bad", {"x": object()})
    assert journal.sha256() == GENESIS
    assert journal.append("good", {}) == 1
    assert journal.verify() == 1
    journal.close()


@pytest.mark.virtual_time
async def test_one_writer_at_a_time(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db", clock(), durable=False)
    with pytest.raises(JournalError, match="another controller"):
        Journal(tmp_path / "journal.db", clock(), durable=False)
    journal.close()
    Journal(tmp_path / "journal.db", clock(), durable=False).close()


@pytest.mark.virtual_time
async def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    Journal(tmp_path / "journal.db", clock(), durable=False).close()
    with contextlib.closing(sqlite3.connect(tmp_path / "journal.db")) as db, db:
        db.execute("PRAGMA user_version=9")
    db.close()
    with pytest.raises(JournalError, match="format 9"):
        Journal(tmp_path / "journal.db", clock(), durable=False)


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from controller.core.clock import Clock
from controller.journal.journal import Journal

async def main():
    journal = Journal(Path(sys.argv[1]), Clock(follow_system=True), durable=True)
    for number in range(1000):
        journal.append("row", {"number": number})
        if number == 99:
            print(journal.sha256(), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.virtual_time
async def test_every_durable_row_survives_sigkill(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == -9, done.stderr
    journal = Journal(path, clock(), durable=True)
    assert journal.verify() == 100
    assert journal.sha256() == done.stdout.strip()
    assert journal.append("row", {"number": 100}) == 101
    journal.verify()
    journal.close()


async def test_D2_a_journal_that_is_there_opens_where_nothing_can_be_written(tmp_path: Path) -> None:
    """A start once wrote the number of the format again, and failed if another program held the file."""
    path = tmp_path / "journal.db"
    first = Journal(path, clock(), durable=True)
    first.append("act", {})
    first.close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    journal = Journal(path, clock(), durable=True)
    assert [row.kind for row in journal.entries()] == ["act"]
    other.execute("ROLLBACK")
    other.close()
    assert journal.append("act", {}) == 2
    journal.verify()
    journal.close()


async def test_D2_what_was_put_by_makes_room_to_open_it_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, owner = tmp_path / "journal.db", tmp_path / "journal.db.owner"
    Journal(path, clock(), durable=True).close()
    assert owner.stat().st_size == RESERVE_BYTES
    opening = journal_file.opened

    def without_room(file: Path, *, durable: bool, threaded: bool) -> sqlite3.Connection:
        if owner.stat().st_size > 0:
            raise sqlite3.OperationalError("disk I/O error")
        return opening(file, durable=durable, threaded=threaded)

    monkeypatch.setattr(journal_file, "opened", without_room)
    journal = Journal(path, clock(), durable=True)
    assert journal.append("act", {}) == 1
    journal.close()
    assert owner.stat().st_size == RESERVE_BYTES, "there is room again, and it is put by again"


async def test_R2_a_file_that_another_program_locks_holds_the_loop_up_for_less_than_the_guard_waits(
    tmp_path: Path,
) -> None:
    journal = Journal(tmp_path / "journal.db", clock(), durable=True, threaded=True)
    other = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    begun_s = asyncio.get_running_loop().time()
    seq = journal.append("act", {})
    assert asyncio.get_running_loop().time() - begun_s < SILENCE_S / 2, "the guard kills a controller that is silent"
    waiting = asyncio.create_task(journal.durable(seq))
    held_s = 0.0
    while not waiting.done():
        before_s = asyncio.get_running_loop().time()
        await asyncio.sleep(0.01)
        held_s = max(held_s, asyncio.get_running_loop().time() - before_s)
    assert held_s < SILENCE_S / 2, "the loop turns while the journal waits"
    with pytest.raises(JournalUnwritten, match="locked"):
        await waiting
    other.execute("ROLLBACK")
    other.close()
    assert journal.append("act", {}) == 2
    await journal.commit()
    assert [row.seq for row in journal.entries()] == [1, 2], "the row that waited was written before the next one"
    journal.verify()
    journal.close()
