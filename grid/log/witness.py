"""A hub as the witness of another hub's log (C2SP tlog-witness): it confirms only what continues what it confirmed before."""

from __future__ import annotations

import base64
import binascii
import sqlite3
from collections.abc import Callable

from grid.errors import GridError, GridRefused
from grid.log import merkle
from grid.log.ledger import GridLog
from grid.log.notes import Checkpoint, NoteKey, signature_time

SCHEMA = """
CREATE TABLE IF NOT EXISTS witnessed (origin TEXT PRIMARY KEY, key TEXT NOT NULL, size INTEGER NOT NULL, root BLOB NOT NULL);
"""
MAX_PROOF = 63


class Conflict(GridRefused):
    """The caller's old size is not the witness's.

    Attributes:
        size: The size that the witness has.
    """

    def __init__(self, size: int) -> None:
        super().__init__(f"the witness has confirmed {size} rows. Next: prove from there")
        self.size = size


class Witness:
    """Which logs are witnessed, and the last checkpoint of each that was confirmed."""

    def __init__(self, database: sqlite3.Connection, log: GridLog, utc_s: Callable[[], float]) -> None:
        self._database = database
        self._log = log
        self._utc_s = utc_s
        database.executescript(SCHEMA)

    def watch(self, key: NoteKey) -> None:
        """Witness the log with this verifier key from now on. Raises :class:`GridError` for a second key of one log."""
        found = self._database.execute("SELECT key FROM witnessed WHERE origin = ?", (key.name,)).fetchone()
        if found is not None and found[0] != str(key):
            raise GridError(f"{key.name} is witnessed with another key. Next: compare the keys with its operator")
        with self._database:
            self._database.execute("INSERT OR IGNORE INTO witnessed VALUES (?, ?, 0, x'')", (key.name, str(key)))

    def add_checkpoint(self, body: str) -> str:
        """Answer a request to confirm a checkpoint.

        Args:
            body: `old N`, the lines of the consistency proof (base64), a blank line, the checkpoint.

        Returns:
            The line with the cosignature.

        Raises:
            Conflict: N is not the size that was confirmed last.
            GridRefused: The log is unknown, the signature false, or the proof wrong: the past was changed.
        """
        old, proof, note = _parsed(body)
        checkpoint = Checkpoint.parse(note)
        with self._database:
            self._database.execute("BEGIN IMMEDIATE")
            found = self._database.execute(
                "SELECT key, size, root FROM witnessed WHERE origin = ?", (checkpoint.origin,)
            ).fetchone()
            if found is None:
                raise GridRefused(
                    f"the log {checkpoint.origin[:80]} is not witnessed here. Next: ask this hub's operator"
                )
            key, size, root = NoteKey.parse(found[0]), int(found[1]), bytes(found[2])
            if signature_time(note, key) is None:
                raise GridRefused(f"the checkpoint has no valid signature of {key.name}")
            if old != size:
                raise Conflict(size)
            if checkpoint.size < size:
                raise GridRefused(f"the log has shrunk from {size} rows to {checkpoint.size}: its past was changed")
            if not merkle.verify_consistency(size, checkpoint.size, root, checkpoint.root, proof):
                raise GridRefused(f"the proof does not show that the log still begins with its first {size} rows")
            line = self._log.cosign(note, int(self._utc_s()))
            self._database.execute(
                "UPDATE witnessed SET size = ?, root = ? WHERE origin = ?",
                (checkpoint.size, checkpoint.root, checkpoint.origin),
            )
        return line


def request_body(old: int, proof: list[bytes], note: str) -> str:
    """Return the request that asks a witness to confirm a checkpoint."""
    return f"old {old}\n" + "".join(f"{base64.b64encode(each).decode()}\n" for each in proof) + "\n" + note


def _parsed(body: str) -> tuple[int, list[bytes], str]:
    head, _, note = body.partition("\n\n")
    lines = head.split("\n")
    word, _, number = lines[0].partition(" ")
    try:
        if word != "old" or not number.isdecimal() or len(lines) > MAX_PROOF + 1:
            raise ValueError("its first line is not “old N”")
        proof = [base64.b64decode(line, validate=True) for line in lines[1:]]
    except (ValueError, binascii.Error) as error:
        raise GridRefused(f"the request cannot be read ({error})") from None
    return int(number), proof, note
