"""The stimulation ledger: what was asked, what was decided and why, what became of each pulse (N4).

SQLite in WAL mode. Rows are only ever added (triggers refuse anything else), and a pulse is written down
before it is handed to the array, so that a killed engine leaves at worst a pulse whose fate is marked
unknown, never a pulse without a record. A commit reaches the operating system, which survives the death of
this process; the file is synced to disk at each checkpoint, which another thread than the real-time thread makes.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from controller.core.database import Durability, keep, open_to_read, open_to_write
from nerves import ledger_head
from nerves.cards.contract import ArrayInfo, Pulse
from nerves.detections import Blank
from nerves.governor import Request, StimulationDecision
from nerves.past import INDEX, Past, past, settle
from nerves.ring import Gap

State = Literal["planned", "handed", "delivered", "dropped", "cancelled", "unknown"]
Fate = tuple[int, State, int | None, str]
"""Pulse, what became of it, at which frame, and why."""

_SCHEMA = """ CREATE TABLE IF NOT EXISTS session ( id INTEGER PRIMARY KEY, utc TEXT NOT NULL, array TEXT NOT
NULL, sample_rate_hz REAL NOT NULL, simulated INT NOT NULL); CREATE TABLE IF NOT EXISTS decision ( id
INTEGER PRIMARY KEY, session INT NOT NULL, frame INT NOT NULL, requester TEXT NOT NULL, lease TEXT NOT NULL,
purpose TEXT NOT NULL, electrodes TEXT NOT NULL, phases TEXT NOT NULL, at_frame INT NOT NULL, not_after INT
NOT NULL, pulses INT NOT NULL, period_frames INT NOT NULL, accepted INT NOT NULL, reasons TEXT NOT NULL,
limiting TEXT, charge_nc REAL NOT NULL); CREATE TABLE IF NOT EXISTS pulse ( id INTEGER PRIMARY KEY, decision
INT NOT NULL, electrode INT NOT NULL, at_frame INT NOT NULL, not_after INT NOT NULL); CREATE TABLE IF NOT
EXISTS fate ( id INTEGER PRIMARY KEY, pulse INT NOT NULL, state TEXT NOT NULL, frame INT, detail TEXT NOT
NULL); CREATE INDEX IF NOT EXISTS fate_of_pulse ON fate (pulse); CREATE INDEX IF NOT EXISTS
pulse_of_decision ON pulse (decision); CREATE TABLE IF NOT EXISTS gap (session INT NOT NULL, first_frame INT
NOT NULL, end_frame INT NOT NULL); CREATE TABLE IF NOT EXISTS blank ( session INT NOT NULL, electrode INT
NOT NULL, first_frame INT NOT NULL, end_frame INT NOT NULL); CREATE TABLE IF NOT EXISTS request_key (
requester TEXT NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL, decision INT NOT NULL, PRIMARY KEY
(requester, key)) WITHOUT ROWID; CREATE TABLE IF NOT EXISTS loop_tier (decision INTEGER PRIMARY KEY, tier
TEXT NOT NULL);
"""
_APPEND_ONLY = "".join(
    f"CREATE TRIGGER IF NOT EXISTS {table}_no_{verb} BEFORE {verb} ON {table}"
    f" BEGIN SELECT RAISE(ABORT, 'the stimulation ledger is append-only'); END;\n"
    for table in ("session", "decision", "pulse", "fate", "gap", "blank", "request_key", "loop_tier")
    for verb in ("update", "delete")
)
_RECORDS = "SELECT decision.*, session.utc, session.sample_rate_hz FROM decision JOIN session ON session.id = session"
_LATEST = """
SELECT * FROM (
SELECT decision.*, session.utc, session.sample_rate_hz FROM decision JOIN session ON session.id = session
WHERE decision.id < :top ORDER BY decision.id DESC LIMIT :looked)
WHERE (:requester IS NULL OR requester = :requester)
AND (:electrode IS NULL OR EXISTS (SELECT 1 FROM json_each(electrodes) WHERE value = :electrode))
ORDER BY id DESC LIMIT :limit
"""
VERSION = 1
"""The format of the file, kept as SQLite's `user_version`."""
MAX_ROWS = 1000
BUSY_S = 0.5
"""How long a statement waits for a lock (s)."""
MAX_LOOKED = 20_000
MAX_TEXT = 200
MAX_INTEGER = (1 << 63) - 1
"""SQLite's largest; only refused requests can name more."""


@dataclass(frozen=True, slots=True)
class PulseRecord:
    """One pulse: where, when planned, what became of it, and at which frame it was delivered."""

    electrode: int
    at_frame: int
    state: State
    delivered_frame: int | None
    detail: str


@dataclass(frozen=True, slots=True)
class StimulationRecord:
    """One decision with its pulses. `phases` are (µs, µA); `charge_nc` is what one pulse moves."""

    id: int
    session: int
    utc: str
    """When the session of this record began; frames count from there at `sample_rate_hz`."""
    sample_rate_hz: float
    frame: int
    requester: str
    lease: str
    purpose: str
    electrodes: tuple[int, ...]
    phases: tuple[tuple[float, float], ...]
    at_frame: int
    not_after: int
    accepted: bool
    reasons: tuple[str, ...]
    limiting: str | None
    charge_nc: float
    pulses: tuple[PulseRecord, ...]
    tier: str = "remote"
    """Which loop it closes: engine, uploaded or remote."""


class StimulationWatcher(Protocol):
    """Receives what the ledger holds from then on, after each commit, on the thread that commits. It must not wait."""

    def decided(
        self, number: int, frame: int, request: Request, decision: StimulationDecision, pulses: Sequence[Pulse]
    ) -> None:
        """Take a decision and its pulses."""
        ...

    def fates(self, rows: Sequence[Fate]) -> None:
        """Take what became of pulses."""
        ...

    def blanked(self, blanks: Sequence[Blank]) -> None:
        """Take blanked time."""
        ...


class StimulationLedger:
    """The writing end. One thread writes; nothing is lost that `commit` returned from.

    Raises sqlite3.Error when the file cannot be written; the engine then refuses all stimulation.
    """

    def __init__(self, path: Path, info: ArrayInfo, utc: str) -> None:
        self.path = path
        # The connection is made by the starting thread and then used by the real-time thread alone.
        self._db = open_to_write(path, busy_s=BUSY_S, threaded=True)
        try:
            self._begin_session(info, utc)
        except BaseException:
            self._db.close()
            raise
        self._open = False
        self.watcher: StimulationWatcher | None = None
        """Who receives what is committed."""
        self._news: list[Callable[[StimulationWatcher], None]] = []

    def _begin_session(self, info: ArrayInfo, utc: str) -> None:
        """Prepare the file and write the row of this session."""
        path = self.path
        keep(self._db, Durability.PROCESS)
        self._db.execute("PRAGMA wal_autocheckpoint=0")
        versioned = _has_version(self._db, path)
        self._db.executescript(_SCHEMA + INDEX + _APPEND_ONLY)
        if not versioned:
            self._db.execute(f"PRAGMA user_version={VERSION}")
        ledger_head.compare(self._db, path)
        self.unknown = settle(self._db, info.sample_rate_hz)
        """Pulses of earlier sessions that were handed to the array and never confirmed."""
        cursor = self._db.execute(
            "INSERT INTO session (utc, array, sample_rate_hz, simulated) VALUES (?, ?, ?, ?)",
            (utc, info.name, info.sample_rate_hz, info.simulated),
        )
        self.session = cursor.lastrowid or 0
        ledger_head.write(self._db, path, self.session, utc)
        self._file = _identity(path)
        self._next_decision = self._after("decision")
        self._next_pulse = self._after("pulse")

    def decided(self, request: Request, decision: StimulationDecision, frame: int) -> tuple[int, list[Pulse]]:
        """Write a decision and its pulses; returns the decision's number and the pulses, now with their
        own.
        """
        self._begin()
        number = self._next_decision
        self._next_decision += 1
        self._db.execute(
            "INSERT INTO decision VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                number,
                self.session,
                frame,
                request.requester[:MAX_TEXT],
                request.lease[:MAX_TEXT],
                request.purpose[:MAX_TEXT],
                _electrodes_text(request.electrodes),
                json.dumps(phases_of(request)),
                min(request.at_frame, MAX_INTEGER),
                min(request.not_after, MAX_INTEGER),
                min(request.pulses, MAX_INTEGER),
                min(request.period_frames, MAX_INTEGER),
                decision.accepted,
                json.dumps([reason.text for reason in decision.reasons], ensure_ascii=False),
                decision.limiting,
                decision.charge_nc,
            ),
        )
        if request.tier != "remote":
            self._db.execute("INSERT INTO loop_tier VALUES (?, ?)", (number, request.tier))
        pulses = []
        for start in decision.starts:
            for electrode in request.electrodes:
                pulses.append(Pulse(self._next_pulse, electrode, request.phases, start, start + decision.tolerance))
                self._next_pulse += 1
        self._db.executemany(
            "INSERT INTO pulse VALUES (?, ?, ?, ?, ?)",
            [(pulse.id, number, pulse.electrode, pulse.at_frame, pulse.not_after) for pulse in pulses],
        )
        self._tell(lambda watcher: watcher.decided(number, frame, request, decision, pulses))
        return number, pulses

    def name(self, requester: str, key: str, digest: str, decision: int) -> None:
        """Write down the idempotency key of a decision."""
        self._begin()
        self._db.execute("INSERT INTO request_key VALUES (?, ?, ?, ?)", (requester[:MAX_TEXT], key, digest, decision))

    def named(self, requester: str, key: str) -> tuple[str, StimulationRecord] | None:
        """Return the digest and the decision of a key that was used before."""
        found = self._db.execute(
            "SELECT digest, decision FROM request_key WHERE requester = ? AND key = ?", (requester[:MAX_TEXT], key)
        ).fetchone()
        if found is None:
            return None
        (row,) = self._db.execute(f"{_RECORDS} WHERE decision.id = ?", (found[1],)).fetchall()
        return str(found[0]), _record(self._db, row)

    def fates(self, rows: Iterable[Fate]) -> None:
        """Write what became of pulses: (pulse, state, frame, detail)."""
        self._begin()
        written = list(rows)
        self._db.executemany("INSERT INTO fate (pulse, state, frame, detail) VALUES (?, ?, ?, ?)", written)
        self._tell(lambda watcher: watcher.fates(written))

    def blanked(self, blanks: Sequence[Blank]) -> None:
        """Write down blanked time (N8)."""
        self._begin()
        self._db.executemany(
            "INSERT INTO blank VALUES (?, ?, ?, ?)",
            [(self.session, blank.electrode, blank.first_frame, blank.end_frame) for blank in blanks],
        )
        self._tell(lambda watcher: watcher.blanked(blanks))

    def lost(self, gap: Gap) -> None:
        """Write down frames that the array lost (N5)."""
        self._begin()
        self._db.execute("INSERT INTO gap VALUES (?, ?, ?)", (self.session, gap.first_frame, gap.end_frame))

    def commit(self) -> None:
        """Make everything written so far survive the death of this process."""
        if self._open:
            if _identity(self.path) != self._file:
                raise sqlite3.OperationalError(
                    f"the stimulation ledger {self.path} was removed or replaced. Likely cause: a person tidied up. Next:"
                    " restore the file; stimulation without a record of what was given is not allowed"
                )
            self._open = False
            self._db.execute("COMMIT")
            news, self._news = self._news, []
            if self.watcher is not None:
                for tell in news:
                    tell(self.watcher)

    def abandon(self) -> None:
        """Drop what was not committed, after a failed write."""
        self._open = False
        self._news.clear()
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    @property
    def first_utc(self) -> str:
        """When the record began: the first session's UTC."""
        return str(self._db.execute("SELECT utc FROM session ORDER BY id LIMIT 1").fetchone()[0])

    def past(self, sample_rate_hz: float) -> Past:
        """Return what earlier sessions gave the tissue, or may have given it, as if they had ended just before frame 0 of
        this one.

        The engine books it again, so that a restart is no way around a budget. The time between sessions is
        taken as none, which can only withhold.
        """
        return past(self._db, self.session, sample_rate_hz)

    def close(self) -> None:
        """Commit and close; what a lost file cannot take is dropped."""
        try:
            self.commit()
        finally:
            self.abandon()
            self._db.close()

    def _tell(self, tell: Callable[[StimulationWatcher], None]) -> None:
        """Keep news for the watcher until they are committed."""
        if self.watcher is not None:
            self._news.append(tell)

    def _begin(self) -> None:
        if not self._open:
            self._db.execute("BEGIN")
            self._open = True

    def _after(self, table: str) -> int:
        highest = self._db.execute(f"SELECT coalesce(max(id), 0) FROM {table}").fetchone()[0]  # noqa: S608
        return int(highest) + 1


def _has_version(db: sqlite3.Connection, path: Path) -> bool:
    """Return whether the ledger names its format; a new one does not.

    Raises:
        sqlite3.DatabaseError: A newer release wrote it.
    """
    (found,) = db.execute("PRAGMA user_version").fetchone()
    if found > VERSION:
        raise sqlite3.DatabaseError(
            f"{path} has format {found}, this Choroid writes {VERSION}. Likely cause: a newer release wrote it. Next: update"
            " Choroid; no stimulation is possible without the ledger"
        )
    return bool(found)


def _identity(path: Path) -> tuple[int, int] | None:
    """Device and inode; None for a file that is not there."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def read(path: Path, *, after: int = 0, limit: int = 100, requester: str | None = None) -> list[StimulationRecord]:
    """Return the records with a number above `after`, oldest first, at most `limit` (never above :data:`MAX_ROWS`).

    Opens the file read-only; any thread or process may call it, while the engine runs or after it was killed.
    """
    db = open_to_read(path, busy_s=BUSY_S)
    try:
        rows = db.execute(
            f"{_RECORDS} WHERE decision.id > ? AND (? IS NULL OR requester = ?) ORDER BY decision.id LIMIT ?",
            (after, requester, requester, max(0, min(limit, MAX_ROWS))),
        ).fetchall()
        return [_record(db, row) for row in rows]
    finally:
        db.close()


def latest(
    path: Path,
    *,
    before: int | None = None,
    limit: int = 50,
    requester: str | None = None,
    electrode: int | None = None,
) -> list[StimulationRecord]:
    """Return the records with a number below `before`, newest first, of one requester or electrode if given.

    Looks through :data:`MAX_LOOKED` records at most, so that a rare electrode costs no more time than that.
    """
    db = open_to_read(path, busy_s=BUSY_S)
    try:
        top = MAX_INTEGER if before is None else before
        rows = db.execute(
            _LATEST,
            {
                "top": top,
                "looked": MAX_LOOKED,
                "requester": requester,
                "electrode": electrode,
                "limit": max(0, min(limit, MAX_ROWS)),
            },
        ).fetchall()
        return [_record(db, row) for row in rows]
    finally:
        db.close()


def _record(db: sqlite3.Connection, row: tuple[object, ...]) -> StimulationRecord:
    (number, session, frame, requester, lease, purpose, electrodes, phases, at_frame, not_after) = row[:10]
    accepted, reasons, limiting, charge_nc, utc, sample_rate_hz = row[12:]
    pulses = db.execute(
        "SELECT electrode, pulse.at_frame, coalesce(state, 'planned'), frame, coalesce(detail, '') FROM pulse"
        " LEFT JOIN fate ON fate.id = (SELECT max(id) FROM fate WHERE fate.pulse = pulse.id)"
        " WHERE decision = ? ORDER BY pulse.id",
        (number,),
    ).fetchall()
    return StimulationRecord(
        id=int(str(number)),
        session=int(str(session)),
        utc=str(utc),
        sample_rate_hz=float(str(sample_rate_hz)),
        frame=int(str(frame)),
        requester=str(requester),
        lease=str(lease),
        purpose=str(purpose),
        electrodes=tuple(json.loads(str(electrodes))),
        phases=tuple((us, ua) for us, ua in json.loads(str(phases))),
        at_frame=int(str(at_frame)),
        not_after=int(str(not_after)),
        accepted=bool(accepted),
        reasons=tuple(json.loads(str(reasons))),
        limiting=None if limiting is None else str(limiting),
        charge_nc=float(str(charge_nc)),
        pulses=tuple(PulseRecord(*pulse) for pulse in pulses),
        tier=_tier(db, number),
    )


def _tier(db: sqlite3.Connection, decision: object) -> str:
    """Return the loop tier of a decision; a ledger that no engine of this release has opened knows remote ones only."""
    try:
        found = db.execute("SELECT tier FROM loop_tier WHERE decision = ?", (decision,)).fetchone()
    except sqlite3.OperationalError:
        return "remote"
    return "remote" if found is None else str(found[0])


def _electrodes_text(electrodes: Sequence[int]) -> str:
    return json.dumps(list(electrodes[:1024]))


def phases_of(request: Request) -> list[list[float | str]]:
    """Return the first phases of a request for JSON: µs and µA."""
    return [[readable(phase.duration_us), readable(phase.current_ua)] for phase in request.phases[:8]]


def readable(value: float) -> float | str:
    """Return a number for JSON, which has no word for NaN and infinity: they become text."""
    return value if value == value and abs(value) != float("inf") else repr(value)
