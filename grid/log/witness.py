"""A hub as the witness of another hub's log (C2SP tlog-witness): it confirms only what continues what it confirmed before.

What contradicts that and is signed with the log's key is kept: it shows two histories of one log to everyone.
"""

from __future__ import annotations

import base64
import binascii
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass

from controller.signed_log import merkle
from controller.signed_log.notes import Checkpoint, NoteKey, signature_time, signed_only_by
from controller.signed_log.public import verified
from grid.clock import as_text
from grid.errors import GridError, GridRefused
from grid.log.ledger import GridLog

MAX_PROOF = 63
MAX_BODY = 16_384
SIGNED = b"choroid grid add-checkpoint v1\n"
"""Begins what the log's key signs of a request."""


class Conflict(GridRefused):
    """The caller's old size is not the witness's.

    Attributes:
        size: The size that the witness has.
    """

    def __init__(self, size: int) -> None:
        super().__init__(f"the witness has confirmed {size} rows. Next: prove from there")
        self.size = size


class Contradiction(GridRefused):
    """The request contradicts what was confirmed.

    Attributes:
        confirmed: The checkpoint that was confirmed last.
    """

    def __init__(self, reason: str, confirmed: str) -> None:
        super().__init__(reason)
        self.confirmed = confirmed


@dataclass(frozen=True, slots=True)
class WatchedLog:
    """A log that is witnessed.

    Attributes:
        key: Its verifier key.
        size: Rows of the checkpoint that was confirmed last; 0 for none.
        note: That checkpoint with the cosignature; empty for none.
        confirmed_utc_s: When; 0 for never.
        other: A checkpoint with the log's signature that contradicts an earlier one; empty for none.
        reason: What contradicts what; empty when nothing does.
        found_utc_s: When that was found.
    """

    key: NoteKey
    size: int
    note: str
    confirmed_utc_s: float
    other: str
    reason: str
    found_utc_s: float

    @property
    def words(self) -> str:
        """Return the contradiction in words; empty when there is none."""
        if not self.reason:
            return ""
        return f"two histories, found {as_text(self.found_utc_s)}: {self.reason}"


class Witness:
    """Which logs are witnessed, the last checkpoint of each that was confirmed, and contradictions."""

    def __init__(self, database: sqlite3.Connection, log: GridLog, utc_s: Callable[[], float]) -> None:
        self._database = database
        self._log = log
        self._utc_s = utc_s

    def watch(self, key: NoteKey) -> None:
        """Witness the log with this verifier key from now on. Raises :class:`GridError` for a second key of one log."""
        found = self._database.execute("SELECT key FROM watched WHERE origin = ?", (key.name,)).fetchone()
        if found is not None and found[0] != str(key):
            raise GridError(f"{key.name} is witnessed with another key. Next: compare the keys with its operator")
        with self._database:
            self._database.execute("INSERT OR IGNORE INTO watched (origin, key) VALUES (?, ?)", (key.name, str(key)))

    def every(self) -> list[WatchedLog]:
        """Return the logs that are witnessed, by name."""
        rows = self._database.execute(
            "SELECT key, size, note, confirmed_s, COALESCE(other, ''), COALESCE(reason, ''), COALESCE(found_s, 0)"
            " FROM watched LEFT JOIN contradictions USING (origin) ORDER BY origin"
        )
        return [WatchedLog(NoteKey.parse(row[0]), *row[1:]) for row in rows]

    def find(self, origin: str) -> WatchedLog:
        """Return a log that is witnessed. Raises :class:`GridRefused` when it is not."""
        for each in self.every():
            if each.key.name == origin:
                return each
        raise GridRefused(f"the log {origin[:80]} is not witnessed here. Next: ask this hub's operator")

    def add_checkpoint(self, body: str, signature: bytes = b"") -> str:
        """Answer a request to confirm a checkpoint.

        Args:
            body: `old N`, the lines of the consistency proof (base64), a blank line, the checkpoint.
            signature: Of :data:`SIGNED` and the body, with the key of the log. A wrong proof says nothing of a log unless the
                log has signed it: anyone could send a sound checkpoint with rubbish.

        Returns:
            The line with the cosignature.

        Raises:
            Conflict: N is not the size that was confirmed last.
            Contradiction: The past of the log was changed; that is kept if the log has signed it.
            GridRefused: The log is unknown, the signature false, or the proof wrong.
        """
        old, proof, note = _parsed(body)
        checkpoint = Checkpoint.parse(note)
        with self._database:
            self._database.execute("BEGIN IMMEDIATE")
            known = self.find(checkpoint.origin)
            if signature_time(note, known.key) is None:
                raise GridRefused(f"the checkpoint has no valid signature of {known.key.name}")
            note = signed_only_by(note, known.key)
            root = Checkpoint.parse(known.note).root if known.note else merkle.EMPTY_ROOT
            fault = _fault(known.size, root, checkpoint, proof)
            twice = checkpoint.size == known.size and checkpoint.root != root
            if old != known.size and not twice:
                raise Conflict(known.size)
            if not fault:
                line = self._log.cosign(note, int(self._utc_s()))
                self._database.execute(
                    "UPDATE watched SET size = ?, root = ?, note = ?, confirmed_s = ? WHERE origin = ?",
                    (checkpoint.size, checkpoint.root, note + line, self._utc_s(), checkpoint.origin),
                )
                return line
            if twice or verified(known.key.public, SIGNED + body.encode(), signature):
                self._keep(known, note, fault)
        raise Contradiction(fault, known.note)

    def _keep(self, known: WatchedLog, note: str, fault: str) -> None:
        """Keep a contradiction, the first of each log, with a row in the own log."""
        row = (known.key.name, known.note, note, fault, self._utc_s())
        done = self._database.execute("INSERT OR IGNORE INTO contradictions VALUES (?, ?, ?, ?, ?)", row)
        if done.rowcount:
            about = {"log": known.key.name, "confirmed": known.note, "other": note, "reason": fault}
            self._log.append("witness.contradiction", as_text(self._utc_s()), about)


def request_body(old: int, proof: list[bytes], note: str) -> str:
    """Return the request that asks a witness to confirm a checkpoint."""
    return f"old {old}\n" + "".join(f"{base64.b64encode(each).decode()}\n" for each in proof) + "\n" + note


def _fault(size: int, root: bytes, checkpoint: Checkpoint, proof: list[bytes]) -> str:
    """Return why a checkpoint does not continue the one of `size` rows with `root`; empty when it does."""
    if checkpoint.size < size:
        return f"the log has shrunk from {size} rows to {checkpoint.size}: its past was changed"
    if checkpoint.size == size and size and checkpoint.root != root:
        return f"there are two logs of {size} rows with different contents: its past was changed"
    if not merkle.verify_consistency(size, checkpoint.size, root, checkpoint.root, proof):
        return f"the proof does not show that the log still begins with its first {size} rows"
    return ""


def _parsed(body: str) -> tuple[int, list[bytes], str]:
    head, _, note = body.partition("\n\n")
    lines = head.split("\n")
    word, _, number = lines[0].partition(" ")
    try:
        if len(body) > MAX_BODY:
            raise ValueError(f"it is longer than {MAX_BODY} characters")
        if word != "old" or not number.isdecimal() or len(number) > 18 or len(lines) > MAX_PROOF + 1:
            raise ValueError("its first line is not “old N”")
        proof = [base64.b64decode(line, validate=True) for line in lines[1:]]
    except (ValueError, binascii.Error) as error:
        raise GridRefused(f"the request cannot be read ({error})") from None
    return int(number), proof, note
