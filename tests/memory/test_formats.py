"""Database files have a format number: one of another number is renamed and announced, never changed."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from controller.memory.file import open_database
from controller.memory.formats import Format
from controller.memory.history import History
from controller.memory.history_format import HISTORY
from controller.memory.history_reader import HistoryReader, HistoryUnreadable
from controller.memory.quarantine import SUFFIX, quarantined_files
from controller.telemetry.outbox import OUTBOX, Outbox
from tests.memory.test_history import BEGIN, EPOCH, values
from verification.bench.standing_clock import StandingClock


def of_format(path: Path, form: Format, number: int) -> None:
    """Write a file with the tables of `form` and another number."""
    open_database(path, form).close()
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute(f"PRAGMA user_version={number}")


@pytest.mark.parametrize("number", [0, 2])
def test_A11_a_history_of_another_format_is_renamed_and_a_new_one_begins(
    number: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "h.db"
    of_format(path, HISTORY, number)
    with contextlib.closing(History(path, StandingClock(EPOCH, 1000.0))) as history:
        assert history.problem is None
        history.insert("a.x", "kPa", [(BEGIN, 1.0)])
        assert values(history) == [1.0]
    assert quarantined_files(tmp_path) == [f"h.db{SUFFIX}1"]
    assert f"it has format {number}, this Choroid reads format 1. Likely cause: another release" in caplog.text
    assert f"it is kept as h.db{SUFFIX}1" in caplog.text


def test_a_reader_refuses_another_format_and_leaves_the_file(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    of_format(path, HISTORY, 2)
    with pytest.raises(HistoryUnreadable, match="has format 2, this Choroid reads format 1"):
        HistoryReader(path)
    assert quarantined_files(tmp_path) == []


def test_D1_an_outbox_of_another_format_is_renamed_and_a_new_one_begins(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    of_format(path, OUTBOX, 2)
    with contextlib.closing(Outbox(path)) as outbox:
        assert outbox.put(b"new") == 1
    assert quarantined_files(tmp_path) == [f"outbox.db{SUFFIX}1"]


@pytest.mark.parametrize("form", [HISTORY, OUTBOX])
def test_the_first_release_has_format_1(form: Format, tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    open_database(path, form).close()
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
