"""The journal's writer thread: rows are queued at once, the barrier waits for the disk, and what fails is tried in order."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from controller.core.clock import Clock
from controller.journal import writer as journal_writer
from controller.journal.file import JournalFile
from controller.journal.journal import Journal
from controller.journal.terms import JournalLost, JournalUnwritten, Row

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Slow(JournalFile):
    """A file whose commits wait for `gate` and fail as long as `error` says so."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, durable=True, threaded=True)
        self.gate = threading.Event()
        self.gate.set()
        self.error: Exception | None = None
        self.fails_after_commit = False
        self.batches: list[list[int]] = []

    def commit(self, rows: Sequence[Row]) -> None:
        self.gate.wait(30)
        if self.fails_after_commit:
            super().commit(rows)
            self.fails_after_commit = False
            # As the file would be after an error of the last fsync: the rows are there, and SQLite has said no.
            self.seq, self.head = rows[0].seq - 1, self.before
            raise sqlite3.OperationalError("disk I/O error")
        if self.error is not None:
            raise self.error
        self.before = rows[-1].hash
        self.batches.append([row.seq for row in rows])
        super().commit(rows)

    before = "0" * 64


def opened(path: Path) -> tuple[Journal, Slow]:
    file = Slow(path)
    return Journal(path, Clock(follow_system=False, epoch=EPOCH), durable=True, threaded=True, file=file), file


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


async def test_R2_rows_are_taken_at_once_while_the_disk_stands_and_committed_together(tmp_path: Path) -> None:
    """An fsync of 3 s once stalled the control loop for 4.8 s, and the guard killed the controller."""
    journal, file = opened(tmp_path / "journal.db")
    file.gate.clear()
    begun = time.monotonic()
    first = journal.append("act", {"n": 0}, run="run-1")
    await asyncio.sleep(0.05)  # the thread has taken it, and stands
    for n in range(1, 200):
        journal.append("act" if n % 2 else "note", {"n": n}, run="run-1")
    assert time.monotonic() - begun < 15.0, "a row that waits for the disk waits 30 s here"
    assert not journal.on_disk(first)
    waiting = asyncio.create_task(journal.durable(first))
    all_of_them = asyncio.create_task(journal.commit())
    await asyncio.sleep(0.05)
    assert not waiting.done()
    # Readers see what is queued, in order, by kind and run, and newest first.
    assert [row.body["n"] for row in journal.entries()] == list(range(200))
    assert [row.body["n"] for row in journal.entries(kinds=("note", "act"), newest_first=True, limit=3)] == [
        199,
        198,
        197,
    ]
    assert [row.seq for row in journal.entries(kinds=("note",), run="run-1", after=100, limit=2)] == [101, 103]
    last = journal.last("note")
    assert last is not None
    assert last.body == {"n": 198}
    file.gate.set()
    await asyncio.gather(waiting, all_of_them)
    assert [len(batch) for batch in file.batches] == [1, 199], "what is queued is one transaction"
    assert [row.body["n"] for row in journal.entries()] == list(range(200))
    assert journal.verify() == 200
    journal.close()


async def test_D2_rows_behind_one_that_fails_are_written_in_order_and_the_chain_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_writer, "RETRY_S", 0.02)
    journal, file = opened(tmp_path / "journal.db")
    await journal.durable(journal.append("act", {"n": 1}))
    file.error = sqlite3.OperationalError("database or disk is full")
    seq = journal.append("act", {"n": 2})
    with pytest.raises(JournalUnwritten, match="full"):
        await journal.durable(seq)
    assert "full" in (journal.problem or "")
    journal.append("act", {"n": 3})
    assert [row.body["n"] for row in journal.entries()] == [1, 2, 3]
    assert journal.verify() == 3
    file.error = None
    await until(lambda: journal.on_disk(3))
    assert journal.problem is None
    assert journal.lost is None
    assert journal.verify() == 3
    journal.close()
    again = Journal(tmp_path / "journal.db", Clock(follow_system=False, epoch=EPOCH), durable=True)
    assert again.verify() == 3
    again.close()


async def test_rows_that_were_written_although_the_commit_failed_are_not_written_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_writer, "RETRY_S", 0.02)
    journal, file = opened(tmp_path / "journal.db")
    await journal.durable(journal.append("act", {"n": 1}))
    file.fails_after_commit = True
    journal.append("act", {"n": 2})
    await until(lambda: journal.on_disk(2))
    await journal.durable(journal.append("act", {"n": 3}))
    assert journal.verify() == 3
    journal.close()


async def test_F7_a_foreign_row_in_the_file_is_no_place_to_go_on(tmp_path: Path) -> None:
    journal, _ = opened(tmp_path / "journal.db")
    await journal.durable(journal.append("act", {"n": 1}))
    with contextlib.closing(sqlite3.connect(tmp_path / "journal.db")) as db, db:
        db.execute("INSERT INTO entries (at_s, utc, kind, body, hash) VALUES (0, '', 'act', '{}', 'x')")
    db.close()
    with pytest.raises(JournalLost, match="lost"):
        await journal.durable(journal.append("act", {"n": 2}))
    assert journal.lost is not None
    with pytest.raises(JournalLost):
        await journal.commit()
    journal.close()


async def test_a_disk_that_does_not_answer_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.journal.journal.SLOW_AFTER_S", 0.05)
    journal, file = opened(tmp_path / "journal.db")
    file.gate.clear()
    journal.append("act", {})
    assert journal.problem is None
    await asyncio.sleep(0.1)
    assert "has not taken 1 rows" in (journal.problem or "")
    file.gate.set()
    await journal.commit()
    assert journal.problem is None
    journal.close()


async def test_what_waits_in_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.journal.journal.MAX_WAITING_ROWS", 3)
    journal, file = opened(tmp_path / "journal.db")
    file.gate.clear()
    for n in range(3):
        journal.append("act", {"n": n})
    with pytest.raises(JournalUnwritten, match="3 rows wait"):
        journal.append("act", {"n": 3})
    file.gate.set()
    await journal.commit()
    assert journal.append("act", {"n": 3}) == 4, "a row that was not taken has no number"
    journal.close()


async def test_an_orderly_end_writes_what_is_queued(tmp_path: Path) -> None:
    journal, _ = opened(tmp_path / "journal.db")
    for n in range(100):
        journal.append("act", {"n": n})
    journal.close()
    journal.close()
    again = Journal(tmp_path / "journal.db", Clock(follow_system=False, epoch=EPOCH), durable=True)
    assert again.verify() == 100
    again.close()
