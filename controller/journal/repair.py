"""Repair of a journal: keep its sound rows, record what is lost and open, and continue the chain.

Only rows with a valid hash are kept, up to the first invalid one; nothing is guessed. The files are read from copies and
kept unchanged. Open runs are held for a person, open doses become unknown, and records of degraded times are added.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from controller.core.clock import Clock
from controller.core.database import READ_BUSY_S, open_to_write
from controller.core.disk import remedy
from controller.core.run_states import TRANSITIONS, RunEvent, RunState
from controller.journal.degraded import DegradedTime, degraded_times
from controller.journal.file import RECORDS, SCHEMA, HeadFile, head_path, own, read_head
from controller.journal.terms import GENESIS, VERSION, JournalError, Row, chain, chained, encode

FOLDER_SUFFIX = "-old-"
"""Between the journal's name and a number, in the name of the folder."""


def journal_files(journal: Path) -> list[Path]:
    """Return the existing files of a journal: database, WAL, head, rescued copies, degraded times."""
    database = [journal.with_name(journal.name + suffix) for suffix in ("", "-wal", "-shm")]
    rescued = sorted(journal.parent.glob(f"{journal.name}.rescued-*"))
    found = [*database, head_path(journal), *rescued, *sorted(journal.parent.glob(RECORDS))]
    return [path for path in found if path.exists()]


def move_old_files(journal: Path) -> Path:
    """Move every file of a journal into a new folder next to it. Return the folder. Nothing is deleted."""
    prefix = f"{journal.stem}{FOLDER_SUFFIX}"
    folder = next(path for n in range(1, 10_000) if not (path := journal.with_name(f"{prefix}{n}")).exists())
    folder.mkdir()
    for path in journal_files(journal):
        path.rename(folder / path.name)
    descriptor = os.open(journal.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return folder


NEW = ".new"
"""Suffix of a repaired journal that is not in its place yet."""
READINGS = 10
"""Maximum number of times that files which change while they are read are read."""
_INSERT = "INSERT INTO entries (seq, at_s, utc, kind, run, body, hash) VALUES (?, ?, ?, ?, ?, ?, ?)"
_SELECT = "SELECT seq, at_s, utc, kind, run, body, hash FROM entries"
_SAFETY = ("safety.estop", "safety.latch", "safety.reset")


@dataclass(frozen=True, slots=True)
class OpenDose:
    """A dose without an outcome."""

    run: str
    n: int
    act: int
    line: str
    ul: float


@dataclass(slots=True)
class Sound:
    """The sound part of one file: its rows from the first on, as far as the chain is valid."""

    source: str
    rows: int = 0
    head: str = GENESIS
    last_utc: str = ""
    damage: str | None = None
    """What is wrong with the next row, or None if the file ends there."""
    readable_after: int = 0
    """Number of rows after the damage that can be read but are not connected to the sound ones by the chain."""
    runs: dict[str, RunState] = field(default_factory=dict)
    """State of each run that has not ended."""
    protocols: dict[str, str] = field(default_factory=dict)
    doses: dict[str, OpenDose] = field(default_factory=dict)
    """Open doses by run and step."""
    volumes: Mapping[str, Any] = field(default_factory=dict)
    volumes_utc: str = ""

    def take(self, row: Row) -> None:
        """Add a valid row."""
        self.rows, self.head, self.last_utc = row.seq, row.hash, row.utc
        if row.run is None:
            return
        body = json.loads(row.body)
        key = f"{row.run} {body.get('n')}"
        if row.kind == "run.start":
            self.runs[row.run], self.protocols[row.run] = RunState.IDLE, str(body.get("protocol", ""))
        elif row.kind == "run.state":
            self.runs[row.run] = RunState(body["to"])
            if self.runs[row.run].ended:
                del self.runs[row.run]
        elif row.kind == "step.act":
            self.doses[key] = OpenDose(row.run, body["n"], body["act"], body["line"], body["ul"])
        elif row.kind in ("moved", "step.refused"):
            self.doses.pop(key, None)
        if "volumes" in body:
            self.volumes, self.volumes_utc = body["volumes"], row.utc


@dataclass(frozen=True, slots=True)
class Survey:
    """What can be recovered of the journal in a data folder."""

    journal: Path
    best: Sound
    others: tuple[Sound, ...]
    expected: int | None
    """Number of the last row ever committed, by the head file."""
    degraded: tuple[DegradedTime, ...]

    @property
    def missing(self) -> int:
        """Number of committed rows that are not among the sound ones."""
        return max((self.expected or 0) - self.best.rows, 0)

    @property
    def needed(self) -> bool:
        """Whether anything needs repair."""
        sound = self.best.damage is None and not self.missing and self.best.source == self.journal.name
        return not sound or bool(self.degraded)


def survey(journal: Path) -> Survey:
    """Examine a journal, its rescued copies and its records of degraded times, without changing anything.

    A controller may write while the files are read. A copy taken in the middle of a commit or a checkpoint looks damaged,
    so files that seem to need repair and changed meanwhile are read again.
    """
    for _ in range(READINGS):
        before = _file_state(journal)
        found = _surveyed(journal)
        if not found.needed or _file_state(journal) == before:
            break
    return found


def _file_state(journal: Path) -> dict[str, tuple[int, int, int]]:
    """Return inode, size and time of change (ns) of each file of the journal and each record of a degraded time."""
    found = {}
    for path in (*journal.parent.glob(f"{journal.name}*"), *journal.parent.glob(RECORDS)):
        with contextlib.suppress(FileNotFoundError):
            status = path.stat()
            found[path.name] = (status.st_ino, status.st_size, status.st_mtime_ns)
    return found


def _surveyed(journal: Path) -> Survey:
    """Examine the files as they are now."""
    head = read_head(journal)  # first: it never leads the journal, so a row committed from now on does not look lost
    rescued = sorted(journal.parent.glob(f"{journal.name}.rescued-*"))
    names = [
        *([journal] if journal.is_file() else []),
        *(path for path in rescued if not path.name.endswith("-wal")),
        _new(journal),
    ]
    found = [_sound(path) for path in names if path.exists()] or [Sound(journal.name, damage="there is no such file")]
    best = max(found, key=lambda each: each.rows)  # of equally long ones, the first
    return Survey(
        journal,
        best,
        tuple(each for each in found if each is not best),
        None if head is None else head[0],
        tuple(degraded_times(journal.parent)),
    )


def apply(journal: Path, clock: Clock) -> Path:
    """Replace a journal by a repaired one. Return the folder with the old files.

    The files are examined once the journal is owned: until then a controller may have added rows.

    Raises:
        JournalError: a controller owns the journal, or the folder cannot be written.
    """
    try:
        with own(journal), tempfile.TemporaryDirectory(prefix="choroid-repair-") as folder:
            found = survey(journal)
            source = _copied(journal.with_name(found.best.source), Path(folder))
            building = journal.with_name(journal.name + ".building")
            building.unlink(missing_ok=True)
            _write(found, building, source, clock)
            building.replace(_new(journal))
            old_files = move_old_files(journal)
            _put_in_place(journal)
            return old_files
    except OSError as error:
        raise JournalError(
            f"the journal {journal} cannot be repaired: {error}. {remedy(error)}; then repair again; nothing is lost"
        ) from error


def begin_new_journal(journal: Path, reason: str, clock: Clock) -> Path:
    """Replace the journal by an empty one with `reason` as its first row. Return the folder with the old files."""
    with own(journal):
        building = _new(journal)
        building.unlink(missing_ok=True)
        with contextlib.closing(_made(building)) as db:
            body = encode({"reason": reason})
            row = chained(GENESIS, 1, clock.now_s(), clock.utc_text(), "journal.begun", None, body)
            db.execute(_INSERT, row)
        old_files = move_old_files(journal)
        _put_in_place(journal)
        return old_files


# --- reading ----------------------------------------------------------------------------------------------


def _sound(path: Path) -> Sound:
    """Read one file as far as its chain is valid."""
    found = Sound(path.name)
    if path.stat().st_size == 0:
        found.damage = "the file is empty"
        return found
    try:
        with tempfile.TemporaryDirectory(prefix="choroid-repair-") as folder:
            copy = _copied(path, Path(folder))
            with contextlib.closing(open_to_write(copy, busy_s=READ_BUSY_S)) as db:
                try:
                    for row in _rows(db):
                        if row.seq != found.rows + 1:
                            found.damage = f"row {found.rows + 1} is missing; row {row.seq} follows"
                            break
                        if chain(found.head, *row[:-1]) != row.hash:
                            found.damage = f"row {row.seq} is not what was written"
                            break
                        found.take(row)
                except (sqlite3.Error, ValueError, TypeError, KeyError) as error:
                    found.damage = f"row {found.rows + 1} cannot be read ({error})"
                if found.damage is not None:
                    found.readable_after = _readable(db, found.rows + 1)
    except (sqlite3.Error, OSError) as error:
        found.damage = f"the file cannot be read ({error})"
    return found


def _rows(db: sqlite3.Connection) -> Iterator[Row]:
    for values in db.execute(f"{_SELECT} ORDER BY seq"):
        yield Row._make(values)


def _readable(db: sqlite3.Connection, after: int) -> int:
    count = 0
    with contextlib.suppress(sqlite3.Error):
        for (seq,) in db.execute("SELECT max(seq) FROM entries").fetchall():
            for wanted in range(after + 1, min(seq or 0, after + 100_000) + 1):
                with contextlib.suppress(sqlite3.Error):
                    count += db.execute("SELECT body FROM entries WHERE seq = ?", (wanted,)).fetchone() is not None
    return count


def _copied(path: Path, folder: Path) -> Path:
    """Copy a database with its WAL, if there is one."""
    copy = folder / path.name
    for suffix in ("", "-wal"):
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
    return copy


def _new(journal: Path) -> Path:
    return journal.with_name(journal.name + NEW)


# --- writing ----------------------------------------------------------------------------------------------


class _Chain:
    """Appends rows to a repaired journal."""

    def __init__(self, db: sqlite3.Connection, sound: Sound, clock: Clock) -> None:
        self.sound = sound
        self._db = db
        self._clock = clock

    def verbatim(self, row: Row) -> None:
        """Append a row that is chained to the last one already."""
        self._db.execute(_INSERT, row)
        self.sound.take(row)

    def add(self, kind: str, body: Mapping[str, Any], run: str | None = None) -> None:
        """Append a row of the repair."""
        at_s, utc = self._clock.now_s(), self._clock.utc_text()
        self.verbatim(chained(self.sound.head, self.sound.rows + 1, at_s, utc, kind, run, encode(body)))


def _write(found: Survey, path: Path, source: Path, clock: Clock) -> None:
    """Write the repaired journal to `path`."""
    with contextlib.closing(_made(path)) as db:
        db.execute("BEGIN")
        rows = Sound(found.best.source)
        adding = _Chain(db, rows, clock)
        if found.best.rows:
            with contextlib.closing(open_to_write(source, busy_s=READ_BUSY_S)) as old:
                for values in old.execute(f"{_SELECT} WHERE seq <= ? ORDER BY seq", (found.best.rows,)):
                    adding.verbatim(Row._make(values))
        degraded = [_take_in(adding, time) for time in found.degraded]
        held = dict(rows.runs)
        adding.add(
            "journal.repaired",
            {
                "source": found.best.source,
                "kept": found.best.rows,
                "kept_until_utc": found.best.last_utc,
                "expected": found.expected,
                "damage": found.best.damage,
                "readable_after": found.best.readable_after,
                "degraded": degraded,
                "open_runs": {run: str(state) for run, state in held.items()},
                "open_doses": [asdict(dose) for dose in rows.doses.values()],
            },
        )
        _leave_to_people(adding, held)
        db.execute("COMMIT")


def _take_in(adding: _Chain, time: DegradedTime) -> dict[str, Any]:
    """Add the rows of a degraded time: unchanged if they continue the chain, else quoted in rows of the repair."""
    joined = {time.after_hash, *(row.hash for row in time.rows)}
    verbatim = not time.at_start and bool(time.rows) and adding.sound.head in joined
    kept = adding.sound.rows
    for row in time.rows:
        if verbatim:
            if row.seq > kept:  # earlier ones are in the file already
                adding.verbatim(row)
            continue
        body = json.loads(row.body)
        adding.add(f"degraded.{row.kind}", {"seq": row.seq, "utc": row.utc, "hash": row.hash, "body": body})
        if row.kind in _SAFETY:  # a stop or latch of that time still stands
            adding.add(row.kind, body)
    return {
        "file": time.path.name,
        "sha256": hashlib.sha256(time.path.read_bytes()).hexdigest(),
        "rows": len(time.rows),
        "verbatim": verbatim,
        "why": time.why,
        "damage": time.damage,
    }


def _leave_to_people(adding: _Chain, runs: Mapping[str, RunState]) -> None:
    """Hold every open run, and put every open dose in doubt."""
    why = "the journal was repaired; rows may be missing. Next: look at the vessels, enter their levels, then resume or abort"
    for dose in list(adding.sound.doses.values()):
        adding.add("step.doubted", {"n": dose.n, "act": dose.act, "why": "the journal was repaired"}, dose.run)
    for run, state in runs.items():
        adding.add("run.message", {"text": why}, run)
        for event in (RunEvent.START, RunEvent.FAULT):
            after = TRANSITIONS.get((state, event))
            if after is not None:
                adding.add("run.state", {"event": event, "from": state, "to": after, "reason": why}, run)
                state = after


def _made(path: Path) -> sqlite3.Connection:
    db = open_to_write(path, busy_s=READ_BUSY_S)
    try:
        db.execute("PRAGMA synchronous=FULL")
        db.executescript(SCHEMA)
        db.execute(f"PRAGMA user_version={VERSION}")
    except BaseException:
        db.close()
        raise
    return db


def _put_in_place(journal: Path) -> None:
    """Move the new file into place, and write its last row into the head file."""
    _new(journal).replace(journal)
    with contextlib.closing(open_to_write(journal, busy_s=READ_BUSY_S)) as db:
        seq, head = db.execute("SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
    mark = HeadFile(journal)
    mark.write(seq, head)
    mark.close()
    for path in (head_path(journal), journal.parent):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
