"""The durable state of the boards, in the database of the hub: rotations, submissions, verdicts, scores.

The secret of a present rotation, from which its seeds follow, is encrypted there (:mod:`grid.grading.sealing`), so that who
reads the database cannot know the seeds. It is one row with its rotation, which is one transaction with its row in the log.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from controller.core.database import Durability, keep, open_to_write
from grid.boards.manifest import ModelManifest, read_manifest
from grid.errors import GridError
from grid.grading.agreement import GraderVerdict
from grid.grading.rotation import Rotation

SCHEMA = """
create table if not exists rotation (
  board text, number integer, secret blob not null, began_s real not null, ended_s real, baselines text,
  sealed blob not null default x'', primary key (board, number)) without rowid;
create table if not exists submission (
  id text primary key, board text not null, author text not null, member text not null, manifest text not null,
  received_s real not null, unique (board, author, received_s, id));
create table if not exists result (
  submission text, rotation integer, state text not null, published real, reason text not null default '',
  detail text not null default '', settled_s real, primary key (submission, rotation)) without rowid;
create table if not exists claim (
  submission text, rotation integer, grader text, until_s real not null, verdict text,
  primary key (submission, rotation, grader)) without rowid;
create table if not exists ladder (
  board text, rotation integer, author text, best real not null, primary key (board, rotation, author)) without rowid;
create table if not exists call (board text, member text, at_s real);
create index if not exists call_of on call (board, member, at_s);
"""
FILE = "hub.sqlite"
BUSY_S = 10.0


class HubDatabase(Protocol):
    """The database of a hub: a change of the boards and its row in the log are one transaction."""

    database: sqlite3.Connection

    def transaction(self) -> AbstractContextManager[object]:
        """Make one change, whole or not at all."""
        ...


class Seal(Protocol):
    """Encrypts and decrypts: :class:`grid.grading.sealing.SecretSeal`."""

    def sealed(self, secret: bytes, about: str) -> bytes:
        """Return a secret, encrypted and bound to what it is about."""
        ...

    def opened(self, sealed: bytes, about: str) -> bytes:
        """Return a secret that was sealed."""
        ...


@dataclass(frozen=True, slots=True)
class BoardRow:
    """A line of a board: an author's model with its published score."""

    submission: str
    name: str
    member: str
    received_s: float
    state: str
    published: float | None
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {name: getattr(self, name) for name in self.__slots__}


class BoardStore:
    """The store in a hub's folder: `hub.sqlite`, and each model as a file that its owner alone can read."""

    def __init__(self, folder: Path, seal: Seal | None = None, *, hub: HubDatabase | None = None) -> None:
        """Open the store.

        Args:
            folder: The hub's data folder.
            seal: Of the secrets; None only reads, and never a secret: SQLite refuses every change.
            hub: The open database of the hub in this process; without it a connection of its own is opened.
        """
        self.models = folder / "models"
        self._hub = hub
        self._seal = seal
        if seal is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.models.mkdir(mode=0o700, exist_ok=True)
        self._db = open_to_write(folder / FILE, busy_s=BUSY_S) if hub is None else hub.database
        self._db.row_factory = sqlite3.Row
        if seal is None:
            self._db.execute("pragma query_only = 1")
            return
        keep(self._db, Durability.POWER_LOSS)
        self._db.executescript(SCHEMA)

    def close(self) -> None:
        """Close the connection, unless it is the hub's."""
        if self._hub is None:
            self._db.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction: all of the block or nothing, and no other process in between."""
        if self._hub is not None:
            with self._hub.transaction():
                yield
            return
        self._db.execute("begin immediate")
        try:
            yield
        except BaseException:
            self._db.execute("rollback")
            raise
        self._db.execute("commit")

    def has_table(self, name: str) -> bool:
        """Whether the database has a table; a hub that has not graded yet has none of the boards."""
        return self._one("select 1 from sqlite_master where type = 'table' and name = ?", name) is not None

    # --- rotations --------------------------------------------------------------------------------------

    def rotation(self, board: str, number: int | None = None) -> Rotation | None:
        """Return a rotation of a board (`name@version`), by default the newest.

        Raises:
            GridError: This process cannot open its secret.
        """
        where = "board = ? order by number desc limit 1" if number is None else "board = ? and number = ?"
        row = self._one(f"select * from rotation where {where}", board, *([] if number is None else [number]))  # noqa: S608
        return row and Rotation(board, row["number"], self._secret_of(row), row["began_s"])

    def rotation_number(self, board: str) -> int | None:
        """Return the number of the newest rotation of a board, without its secret."""
        found = self._one("select max(number) as newest from rotation where board = ?", board)["newest"]
        return None if found is None else int(found)

    def begin_rotation(self, rotation: Rotation) -> None:
        """Add a rotation, and end the one before it, whose secret is then public."""
        former = self.rotation(rotation.board, rotation.number - 1)
        if former is not None:
            self.end_rotation(former, rotation.began_s)
        sealed = self._secrets.sealed(rotation.secret, _about(rotation.board, rotation.number))
        row = (rotation.board, rotation.number, sealed, rotation.began_s)
        self._db.execute("insert into rotation (board, number, secret, sealed, began_s) values (?, ?, x'', ?, ?)", row)

    def end_rotation(self, rotation: Rotation, now_s: float) -> None:
        """End a rotation, whose secret is then public; nothing happens to one that has ended."""
        ended = (
            "update rotation set ended_s = ?, secret = ?, sealed = x''"
            " where board = ? and number = ? and ended_s is null"
        )
        self._db.execute(ended, (now_s, rotation.secret, rotation.board, rotation.number))

    def is_ended(self, rotation: Rotation) -> bool:
        """Whether a rotation is over."""
        row = self._one("select ended_s from rotation where board = ? and number = ?", rotation.board, rotation.number)
        return row is not None and row["ended_s"] is not None

    def ended_rotations(self, board: str) -> list[Rotation]:
        """Return the rotations that are over, whose secrets are public."""
        rows = self._db.execute(
            "select * from rotation where board = ? and ended_s is not null order by number", (board,)
        )
        return [Rotation(board, row["number"], row["secret"], row["began_s"]) for row in rows]

    def baselines(self, board: str, number: int) -> dict[str, list[float]] | None:
        """Return the exact scores of the baselines in a rotation, or None before they were measured."""
        row = self._one("select baselines from rotation where board = ? and number = ?", board, number)
        return None if row is None or row["baselines"] is None else dict(json.loads(row["baselines"]))

    def set_baselines(self, board: str, number: int, scores: dict[str, list[float]]) -> None:
        """Keep the exact scores of the baselines of a rotation."""
        text = json.dumps(scores)
        with self.writing():
            self._db.execute("update rotation set baselines = ? where board = ? and number = ?", (text, board, number))

    # --- submissions ------------------------------------------------------------------------------------

    def add(self, manifest: ModelManifest, model: bytes, *, member: str, now_s: float, rotation: int) -> None:
        """Add a submission that is to be graded in a rotation; its model is on the disk before its row."""
        path = self.model_path(manifest.model_sha256)
        partial = path.with_suffix(".part")
        try:
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(model)
                file.flush()
                os.fsync(descriptor)
            partial.replace(path)
        except OSError as error:
            raise GridError(
                f"the model cannot be kept in {self.models} ({error.strerror}); nothing was changed. Likely cause: the disk"
                " of the hub is full, or its folder read-only. Next: the hub's operator frees space or makes it writable;"
                " then submit again"
            ) from None
        row = (manifest.id, manifest.board, manifest.author, member, json.dumps(manifest.to_json()), now_s)
        self._db.execute("insert into submission values (?, ?, ?, ?, ?, ?)", row)
        self.queue(manifest.id, rotation)

    def queue(self, submission: str, rotation: int) -> None:
        """Let a submission be graded in a rotation."""
        row = (submission, rotation, "queued")
        self._db.execute("insert or ignore into result (submission, rotation, state) values (?, ?, ?)", row)

    def put_off(self, submission: str, rotation: int, later: int, now_s: float) -> None:
        """Let a submission that a rotation has not graded be graded in a later one."""
        reason = f"rotation {rotation} ended before it was graded; it is graded in rotation {later}"
        self.settle(submission, rotation, state="refused", published=None, reason=reason, detail="", now_s=now_s)
        self.queue(submission, later)

    def model_path(self, sha256: str) -> Path:
        """Return the file of a model."""
        return self.models / f"{sha256}.onnx"

    def manifest(self, submission: str) -> ModelManifest | None:
        """Return the manifest of a submission."""
        row = self._one("select manifest from submission where id = ?", submission)
        return row and read_manifest(json.loads(row["manifest"]))

    def manifest_of(self, submission: str) -> ModelManifest:
        """Return the manifest of a known submission; raise :class:`GridError` without one."""
        found = self.manifest(submission)
        if found is None:
            raise GridError(f"the store of the boards has no submission {submission}. Next: restore hub.sqlite")
        return found

    def member_of(self, submission: str) -> str | None:
        """Return the member who submitted."""
        row = self._one("select member from submission where id = ?", submission)
        return row and str(row["member"])

    def has_model(self, board: str, model_sha256: str) -> bool:
        """Whether a model is on a board already."""
        rows = self._db.execute("select manifest from submission where board = ?", (board,))
        return any(json.loads(row["manifest"])["model_sha256"] == model_sha256 for row in rows)

    def submitted_since(self, board: str, member: str, since_s: float) -> int:
        """Return how many models a member submitted since a time."""
        return self._count("submission where board = ? and member = ? and received_s > ?", board, member, since_s)

    def submissions_in(self, board: str, rotation: int) -> int:
        """Return how many submissions came in a rotation of a board; those of earlier ones do not count."""
        return self._count(
            "result r join submission on id = r.submission where board = ? and r.rotation = ? and not exists"
            " (select 1 from result e where e.submission = r.submission and e.rotation < r.rotation)",
            board,
            rotation,
        )

    # --- results ----------------------------------------------------------------------------------------

    def result(self, submission: str, rotation: int) -> sqlite3.Row:
        """Return state, published score, reason and detail; raise :class:`GridError` if it is not graded in a rotation."""
        row = self._one("select * from result where submission = ? and rotation = ?", submission, rotation)
        if row is None:
            raise GridError(f"submission {submission} is not graded in rotation {rotation}. Next: restore hub.sqlite")
        found: sqlite3.Row = row
        return found

    def newest_rotation_of(self, submission: str) -> int | None:
        """Return the newest rotation in which a submission is graded."""
        row = self._one("select max(rotation) as newest from result where submission = ?", submission)
        return None if row is None or row["newest"] is None else int(row["newest"])

    def settle(
        self,
        submission: str,
        rotation: int,
        *,
        state: str,
        published: float | None,
        reason: str,
        detail: str,
        now_s: float,
    ) -> None:
        """Set the result of a submission."""
        self._db.execute(
            "update result set state = ?, published = ?, reason = ?, detail = ?, settled_s = ?"
            " where submission = ? and rotation = ?",
            (state, published, reason, detail, now_s, submission, rotation),
        )

    def rows(self, board: str, rotation: int) -> list[BoardRow]:
        """Return the lines of a board: graded ones by score, then the others, each group by age."""
        found = self._db.execute(
            "select s.id, s.manifest, s.member, s.received_s, r.state, r.published, r.reason from result r"
            " join submission s on s.id = r.submission where s.board = ? and r.rotation = ?"
            " order by r.state != 'graded', r.published desc, s.rowid",
            (board, rotation),
        )
        return [
            BoardRow(
                row["id"],
                json.loads(row["manifest"])["name"],
                row["member"],
                row["received_s"],
                row["state"],
                row["published"],
                row["reason"],
            )
            for row in found
        ]

    def ladder_best(self, board: str, rotation: int, author: str) -> float | None:
        """Return the score that was published last for an author."""
        row = self._one(
            "select best from ladder where board = ? and rotation = ? and author = ?", board, rotation, author
        )
        return row and float(row["best"])

    def set_ladder(self, board: str, rotation: int, author: str, best: float) -> None:
        """Keep the score that was published for an author."""
        self._db.execute("insert or replace into ladder values (?, ?, ?, ?)", (board, rotation, author, best))

    # --- graders ----------------------------------------------------------------------------------------

    def claim(self, grader: str, now_s: float, until_s: float, graders: int) -> tuple[str, int] | None:
        """Give a grader the oldest submission that it has not graded and that fewer than `graders` are at.

        A claim that is past its time does not count: a grader that hangs or is too slow loses it.
        """
        with self.writing():
            row = self._one(
                "select r.submission, r.rotation from result r join submission s on s.id = r.submission"
                " where r.state = 'queued'"
                " and not exists (select 1 from claim c where c.submission = r.submission and c.rotation = r.rotation"
                "   and c.grader = :grader and (c.verdict is not null or c.until_s > :now))"
                " and (select count(*) from claim c where c.submission = r.submission and c.rotation = r.rotation"
                "   and (c.verdict is not null or c.until_s > :now)) < :graders"
                " order by s.rowid limit 1",
                {"grader": grader, "now": now_s, "graders": graders},
            )
            if row is None:
                return None
            claim = (row["submission"], row["rotation"], grader, until_s)
            self._db.execute("insert or replace into claim values (?, ?, ?, ?, null)", claim)
        return str(row["submission"]), int(row["rotation"])

    def postpone(self, grader: str, until_s: float) -> None:
        """Let the claim of a grader that failed last until a time; others are graded before it claims this one again."""
        with self.writing():
            self._db.execute("update claim set until_s = ? where grader = ? and verdict is null", (until_s, grader))

    def close_board(self, board: str, reason: str, now_s: float) -> int:
        """Refuse what is queued for a board; return how much that was."""
        text = (
            "update result set state = 'refused', reason = ?, settled_s = ? where state = 'queued'"
            " and submission in (select id from submission where board = ?)"
        )
        return self._db.execute(text, (reason, now_s, board)).rowcount

    def boards(self) -> list[str]:
        """Return the boards (`name@version`) that have had a rotation."""
        return [row["board"] for row in self._db.execute("select distinct board from rotation order by board")]

    def give_back(self, grader: str) -> None:
        """End the claim of a grader that has no verdict."""
        with self.writing():
            self._db.execute("delete from claim where grader = ? and verdict is null", (grader,))

    def waiting(self) -> int:
        """Return how many submissions are to be graded."""
        return self._count("result where state = 'queued'")

    def claimed_until(self, submission: str, rotation: int, grader: str) -> float | None:
        """Return the end of a claim without a verdict, or None without such a claim."""
        row = self._one(
            "select until_s from claim where submission = ? and rotation = ? and grader = ? and verdict is null",
            submission,
            rotation,
            grader,
        )
        return row and float(row["until_s"])

    def keep_verdict(self, verdict: GraderVerdict) -> None:
        """Keep the verdict of a claim."""
        self._db.execute(
            "update claim set verdict = ? where submission = ? and rotation = ? and grader = ?",
            (json.dumps(verdict.to_json()), verdict.submission, verdict.rotation, verdict.grader),
        )

    def verdicts(self, submission: str, rotation: int) -> list[GraderVerdict]:
        """Return the verdicts on a submission."""
        rows = self._db.execute(
            "select verdict from claim where submission = ? and rotation = ? and verdict is not null order by grader",
            (submission, rotation),
        )
        return [GraderVerdict.from_json(json.loads(row["verdict"])) for row in rows]

    # --- the clock --------------------------------------------------------------------------------------

    def move(self, by_s: float, since_s: float) -> None:
        """Move present rotations, claims, and submissions since a time with the clock, in the caller's transaction."""
        self._db.execute("update rotation set began_s = began_s + ? where ended_s is null", (by_s,))
        self._db.execute("update claim set until_s = until_s + ? where verdict is null", (by_s,))
        self._db.execute("update submission set received_s = received_s + ? where received_s > ?", (by_s, since_s))

    def not_after(self, now_s: float) -> None:
        """Let what was noted by a clock that was ahead count as of now."""
        with self.writing():
            began = "update rotation set began_s = ? where ended_s is null and began_s > ?"
            self._db.execute(began, (now_s, now_s))
            self._db.execute("update submission set received_s = ? where received_s > ?", (now_s, now_s))

    # --- calls ------------------------------------------------------------------------------------------

    def call_counted(self, board: str, member: str, now_s: float, since_s: float) -> int:
        """Count one call of a board's model by a member; return how many there were since a time, this one included."""
        with self.writing():
            self._db.execute("delete from call where at_s <= ? or at_s > ?", (since_s, now_s))
            self._db.execute("insert into call values (?, ?, ?)", (board, member, now_s))
            return self._count("call where board = ? and member = ?", board, member)

    # --- inside -----------------------------------------------------------------------------------------

    @property
    def _secrets(self) -> Seal:
        if self._seal is None:
            raise GridError("this process only reads the boards, without their secrets. Next: ask the hub")
        return self._seal

    def _secret_of(self, row: sqlite3.Row) -> bytes:
        sealed = bytes(row["sealed"])
        return self._secrets.opened(sealed, _about(row["board"], row["number"])) if sealed else bytes(row["secret"])

    def _one(self, text: str, *values: Any) -> Any:
        given = values[0] if len(values) == 1 and isinstance(values[0], dict) else values
        return self._db.execute(text, given).fetchone()

    def _count(self, rest: str, *values: Any) -> int:
        row = self._db.execute(f"select count(*) from {rest}", values).fetchone()  # noqa: S608  (our own text)
        return int(row[0])


def _about(board: str, number: int) -> str:
    return f"rotation {number} of {board}"
