"""A journal that disappears or is damaged is noticed, at run time and at a start (F7)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from controller.core.clock import Clock
from controller.journal.degraded import degraded_times
from controller.journal.file import JournalFile, JournalInUse, read_head
from controller.journal.journal import Journal
from controller.journal.repair import apply
from controller.journal.terms import JournalLost
from controller.memory.history import History

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = 60


def opened(folder: Path, *, threaded: bool = False) -> Journal:
    clock = Clock(follow_system=False, epoch=EPOCH)
    return Journal(folder / "journal.db", clock, durable=True, threaded=threaded)


async def filled(folder: Path, *, clean: bool = True) -> Journal:
    journal = opened(folder)
    for n in range(ROWS):
        journal.append("act", {"n": n, "text": "x" * 300}, run="run-1")
    await journal.commit()
    if clean:
        journal.close()
    return journal


def remove(folder: Path) -> None:
    for path in folder.glob("journal.db*"):
        if path.name in ("journal.db", "journal.db-wal", "journal.db-shm"):
            path.unlink()


def copy_over(folder: Path) -> None:
    shutil.copyfile(folder / "journal.db", folder / "copy")
    (folder / "copy").rename(folder / "journal.db")


def truncate(folder: Path) -> None:
    wal = folder / "journal.db-wal"
    os.truncate(wal, wal.stat().st_size // 2)


def overwrite(folder: Path) -> None:
    with (folder / "journal.db-wal").open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(32)
        file.write(os.urandom(size - 32))


def foreign_row(folder: Path) -> None:
    with contextlib.closing(sqlite3.connect(folder / "journal.db")) as db, db:
        db.execute("INSERT INTO entries (at_s, utc, kind, body, hash) VALUES (0, '', 'act', '{}', 'x')")
    db.close()


def remove_all(folder: Path) -> None:
    for path in folder.glob("journal.db*"):
        path.unlink()


MISHAPS: dict[str, Callable[[Path], None]] = {
    "removed": remove,
    "removed with its head and its owner": remove_all,
    "the database alone removed": lambda folder: (folder / "journal.db").unlink(),
    "the WAL alone removed": lambda folder: (folder / "journal.db-wal").unlink(),
    "the shared memory alone removed": lambda folder: (folder / "journal.db-shm").unlink(),
    "replaced by a copy": copy_over,
    "truncated": truncate,
    "overwritten": overwrite,
    "written by another program": foreign_row,
}


@pytest.mark.parametrize("threaded", [False, True])
@pytest.mark.parametrize("mishap", MISHAPS)
async def test_F7_a_journal_that_is_lost_under_a_running_controller_is_noticed_before_the_next_dose(
    mishap: str, threaded: bool, tmp_path: Path
) -> None:
    """`rm journal.db*` once went unnoticed: health was ok, doses went on, and a restart began with an empty journal."""
    journal = opened(tmp_path, threaded=threaded)
    for n in range(ROWS):
        journal.append("act", {"n": n, "text": "x" * 300}, run="run-1")
    await journal.commit()
    last = next(journal.entries(newest_first=True))
    MISHAPS[mishap](tmp_path)
    seq = journal.append("act", {"n": ROWS}, run="run-1")
    with pytest.raises(JournalLost, match="choroid repair"):
        await journal.durable(seq)
    assert journal.lost is not None
    seq = journal.append("safety.estop", {"user": "test", "reason": "a test"})
    with pytest.raises(JournalLost):
        await journal.durable(seq)
    async with asyncio.timeout(20):
        while journal._on_disk < seq:
            await asyncio.sleep(0.01)
    assert [row.seq for row in journal.entries(after=ROWS)] == [ROWS + 1, ROWS + 2], "readers see what goes on"
    journal.close()
    (time,) = degraded_times(tmp_path)
    assert time.sound
    assert [row.kind for row in time.rows] == ["act", "safety.estop"]
    assert not time.at_start
    assert time.after_hash == last.hash, "it is chained to the journal's last row"
    with pytest.raises(JournalLost):
        opened(tmp_path)


@pytest.mark.parametrize("threaded", [False, True])
async def test_F7_a_loss_is_noticed_within_a_tick_when_nothing_is_written(tmp_path: Path, threaded: bool) -> None:
    journal = opened(tmp_path, threaded=threaded)
    journal.append("act", {})
    await journal.commit()
    journal.check()
    await asyncio.sleep(0.05)
    assert journal.problem is None
    remove(tmp_path)
    journal.check()
    async with asyncio.timeout(20):
        while journal.lost is None:
            await asyncio.sleep(0.01)
    assert "was removed" in (journal.problem or "")
    journal.close()


async def test_F7_stale_pages_of_the_WAL_that_are_overwritten_cost_no_row_even_if_the_process_is_killed_then(
    tmp_path: Path,
) -> None:
    journal = await filled(tmp_path, clean=False)
    with (tmp_path / "journal.db-wal").open("r+b") as file:
        file.seek(5000)
        file.write(os.urandom(20_000))
    await journal.durable(journal.append("act", {}))
    assert journal.lost is None
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for name in ("journal.db", "journal.db-wal", "journal.db.head"):
        shutil.copyfile(tmp_path / name, crashed / name)
    again = opened(crashed)
    assert again.verify() == ROWS + 1
    again.close()
    journal.close()


async def test_F7_a_journal_that_is_removed_in_the_middle_of_a_commit_has_taken_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With fsyncs of seconds that is when it happens."""
    journal = await filled(tmp_path, clean=False)
    assert isinstance(journal.file, JournalFile)
    last = journal.file._last

    def removed() -> tuple[int, str]:
        remove(tmp_path)
        return last()

    monkeypatch.setattr(journal.file, "_last", removed)
    with pytest.raises(JournalLost, match="was removed"):
        await journal.durable(journal.append("act", {"n": ROWS}, run="run-1"))
    journal.append("act", {"n": ROWS + 1}, run="run-1")
    journal.close()
    apply(tmp_path / "journal.db", Clock(follow_system=False, epoch=EPOCH))
    again = opened(tmp_path)
    assert [row.body.get("n") for row in again.entries(kinds=("act",))] == list(range(ROWS + 2)), "each row once"
    again.verify()
    again.close()


async def test_F7_an_owner_file_that_is_removed_lets_no_second_controller_in(tmp_path: Path) -> None:
    journal = await filled(tmp_path, clean=False)
    (tmp_path / "journal.db.owner").unlink()
    await journal.durable(journal.append("act", {}))
    assert journal.lost is None
    with pytest.raises(JournalInUse):
        opened(tmp_path)
    journal.close()


async def test_F7_a_file_that_was_only_touched_is_not_lost(tmp_path: Path) -> None:
    journal = await filled(tmp_path, clean=False)
    os.utime(tmp_path / "journal.db")
    os.utime(tmp_path / "journal.db-wal")
    with contextlib.closing(sqlite3.connect(tmp_path / "journal.db")) as reader, reader:
        reader.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        assert reader.execute("SELECT count(*) FROM entries").fetchone() == (ROWS,)
    reader.close()
    await journal.durable(journal.append("act", {}))
    assert journal.lost is None
    journal.close()


@pytest.mark.parametrize("what", ["removed", "blank", "zero bytes", "rolled back", "another", "WAL gone after a crash"])
async def test_F7_a_restart_refuses_a_journal_that_is_not_the_one_that_was_written(what: str, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    if what == "rolled back":
        first = opened(tmp_path)
        first.append("act", {})
        first.close()
        shutil.copyfile(path, tmp_path / "backup")
    if what == "WAL gone after a crash":
        alive = await filled(tmp_path, clean=False)
        (tmp_path / "crashed").mkdir()
        for name in (
            "journal.db",
            "journal.db.head",
        ):  # a copy of the files as they are while it lives, but for the WAL
            shutil.copyfile(tmp_path / name, tmp_path / "crashed" / name)
        alive.close()
        with pytest.raises(JournalLost):
            opened(tmp_path / "crashed")
        return
    await filled(tmp_path)
    match what:
        case "removed":
            path.unlink()
        case "zero bytes":
            os.truncate(path, 0)
        case "rolled back":
            shutil.copyfile(tmp_path / "backup", path)
        case "blank":
            path.unlink()
            (tmp_path / "elsewhere").mkdir()
            opened(tmp_path / "elsewhere").close()
            shutil.copyfile(tmp_path / "elsewhere" / "journal.db", path)
        case _:
            (tmp_path / "elsewhere").mkdir()
            journal = opened(tmp_path / "elsewhere")
            for n in range(ROWS + 1):
                journal.append("act", {"n": -n})
            journal.close()
            shutil.copyfile(tmp_path / "elsewhere" / "journal.db", path)
    with pytest.raises(JournalLost, match="choroid repair"):
        opened(tmp_path)


@pytest.mark.virtual_time
async def test_F7_an_absent_journal_next_to_a_populated_history_is_no_new_one(tmp_path: Path) -> None:
    clock = Clock(follow_system=False, epoch=EPOCH)
    history = History(tmp_path / "history.db", clock)
    history.close()
    opened(tmp_path).close()
    remove(tmp_path)
    opened(tmp_path).close()  # a history without readings is as new as the journal
    remove(tmp_path)
    history = History(tmp_path / "history.db", clock)
    history.insert("ph_loop.ph", "pH", [(1e9, 7.4)])
    history.close()
    with pytest.raises(JournalLost, match=r"history\.db has readings"):
        opened(tmp_path)
    assert not (tmp_path / "journal.db").exists(), "no blank journal was left behind"


async def test_F7_a_head_file_that_is_behind_absent_or_garbled_hides_no_journal(tmp_path: Path) -> None:
    await filled(tmp_path)
    head = tmp_path / "journal.db.head"
    kept = head.read_bytes()
    journal = opened(tmp_path)
    await journal.durable(journal.append("act", {}))
    journal.close()
    for text in (kept, b"", b"\0" * 128, None):
        head.unlink()
        if text is not None:
            head.write_bytes(text)
        journal = opened(tmp_path)
        await journal.durable(journal.append("act", {}))
        journal.close()
        assert read_head(tmp_path / "journal.db") == (journal.next_seq - 1, journal.sha256())
