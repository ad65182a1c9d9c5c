"""A disk that takes nothing: read-only, full, quota, rights and others are named, each with its next action."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest

from controller.core.clock import Clock
from controller.core.disk import BY_ERRNO, DAMAGED, HELD, OTHER, remedy
from controller.journal import writer as journal_writer
from controller.journal.journal import Journal
from controller.memory.history import History
from controller.process.controller import Controller
from controller.process.core import Storage
from sim.lab import SimulatedLab
from tests.disks import Ext4, ext4, small_disk
from tests.sim.faults.bench import RIG
from verification.campaign.storage import Disk, FrailDatabase

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
READ_ONLY, FULL, QUOTA = BY_ERRNO[errno.EROFS], BY_ERRNO[errno.ENOSPC], BY_ERRNO[errno.EDQUOT]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Ext4]:
    with ext4(tmp_path) as found:
        yield found


def clock() -> Clock:
    return Clock(follow_system=False, epoch=EPOCH)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def of_sqlite(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("words of SQLite")
    error.sqlite_errorcode = code
    return error


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_writer, "RETRY_S", 0.05)


@pytest.mark.usefixtures("quick")
async def test_D2_a_journal_on_a_disk_that_becomes_read_only_says_so_and_is_written_again_after_the_repair(
    disk: Ext4,
) -> None:
    journal = Journal(disk.folder / "journal.db", clock(), durable=True, threaded=True)
    try:
        await journal.durable(journal.append("act", {"n": 1}))
        disk.fail()
        journal.append("act", {"n": 2})
        await until(lambda: journal.problem)
        problem = str(journal.problem)
        assert str(READ_ONLY) in problem
        assert "dmesg" in problem
        assert FULL.cause not in problem
        assert QUOTA.cause not in problem
        assert journal.lost is None, "what it holds is sound"
    finally:
        journal.close()


@pytest.mark.usefixtures("quick")
async def test_D2_a_journal_on_a_full_disk_says_so_and_is_written_again_when_there_is_room(tmp_path: Path) -> None:
    with small_disk(tmp_path, 2048) as folder:
        journal = Journal(folder / "journal.db", clock(), durable=True, threaded=True)
        try:
            await journal.durable(journal.append("act", {"n": 1}))
            ballast = folder / "ballast"
            with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
                while file.write(bytes(4096)):
                    pass
            last = journal.append("act", {"text": "x" * 300_000})
            await until(lambda: journal.problem)
            problem = str(journal.problem)
            assert str(FULL) in problem
            assert READ_ONLY.cause not in problem
            ballast.unlink()
            await until(lambda: journal.on_disk(last))
            assert journal.problem is None
            assert journal.verify() == 2
        finally:
            journal.close()


async def test_D2_a_history_on_a_read_only_disk_says_so(disk: Ext4) -> None:
    history = History(disk.folder / "history.db", clock())
    try:
        history.insert("bath.temperature", "degC", [(1.0, 37.0)])
        assert history.problem is None
        disk.fail()
        history.insert("bath.temperature", "degC", [(2.0, 37.0)])
        assert str(READ_ONLY) in str(history.problem)
    finally:
        history.close()


ERRORS = {
    "read-only": (errno.EROFS, READ_ONLY),
    "full": (errno.ENOSPC, FULL),
    "quota": (errno.EDQUOT, QUOTA),
    "failed": (errno.EIO, BY_ERRNO[errno.EIO]),
    "rights": (errno.EACCES, BY_ERRNO[errno.EACCES]),
    "file server": (errno.ESTALE, BY_ERRNO[errno.ESTALE]),
    "unknown": (errno.EXDEV, OTHER),
}


@pytest.mark.parametrize("error", ERRORS)
def test_each_error_of_the_system_has_a_cause_and_a_next_action_of_its_own(error: str) -> None:
    number, expected = ERRORS[error]
    assert remedy(OSError(number, os.strerror(number))) == expected
    others = [each.action for name, (_, each) in ERRORS.items() if name != error]
    assert expected.action not in others


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("code", [sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN])
def test_what_SQLite_does_not_say_is_found_by_a_trial(
    error: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite says “disk I/O error” of a quota, of a read-only file system and of a failed disk."""
    number, expected = ERRORS[error]

    def refused(descriptor: int, data: bytes) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "write", refused)
    assert remedy(of_sqlite(code), tmp_path) == expected
    assert not list(tmp_path.iterdir()), "the trial leaves nothing"


def test_a_full_disk_and_another_program_are_known_without_a_trial(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    assert remedy(of_sqlite(sqlite3.SQLITE_FULL), gone) == FULL
    assert remedy(of_sqlite(sqlite3.SQLITE_BUSY_SNAPSHOT), gone) == HELD
    assert remedy(of_sqlite(sqlite3.SQLITE_LOCKED), gone) == HELD
    assert remedy(of_sqlite(sqlite3.SQLITE_IOERR), tmp_path, DAMAGED) == DAMAGED


@pytest.mark.virtual_time
@pytest.mark.parametrize(("fault", "expected"), [("full", FULL), ("locked", HELD)])
async def test_D6_alarm_and_health_name_the_cause_and_the_next_action(
    fault: str, expected: object, tmp_path: Path
) -> None:
    lab, failing, stop = SimulatedLab(RIG, seed=1), Disk(), asyncio.Event()
    controller = Controller(rig=RIG, opener=lab.opener, storage=Storage(tmp_path), clock=clock())
    controller.journal.file.db = cast(sqlite3.Connection, FrailDatabase(controller.journal.file.db, failing))
    await controller.start()
    ticking = asyncio.create_task(controller.run(stop))
    await asyncio.sleep(60.0)
    setattr(failing, fault, True)
    controller.journal.append("act", {})
    await asyncio.sleep(60.0)
    (alarm,) = [each for each in controller.alarms.active() if each.kind == "journal_unwritten"]
    assert str(expected) in alarm.detail
    health = controller.health()
    assert not health.ok
    assert str(expected) in " ".join(health.reasons)
    setattr(failing, fault, False)
    await asyncio.sleep(60.0)
    assert controller.health().ok
    stop.set()
    await ticking
    await controller.close()
    await lab.close()


MOUNTS = {
    "read-only": ("mount --bind {0} {0} && mount -o remount,ro,bind {0}", READ_ONLY),
    "full": ("mount -t tmpfs -o size=4k,mode=0700 full {0}", FULL),
}
LOOK = """
import sys
from pathlib import Path
from choroid.running.folder_probe import probe_folder
print(probe_folder(Path(sys.argv[1]), ""))
"""


@pytest.mark.parametrize("mount", MOUNTS)
def test_A11_the_look_at_a_data_folder_tells_read_only_and_full_apart(mount: str, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting a disk needs root (CAP_SYS_ADMIN)")
    words, expected = MOUNTS[mount]
    script = f'{words.format(tmp_path)} && exec "$@"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", sys.executable, "-c", LOOK, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"cause={expected.cause!r}" in done.stdout
    assert f"action={expected.action!r}" in done.stdout
