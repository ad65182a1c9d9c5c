"""The witnesses of a log: where each listens, its key, what it has confirmed, and what is wrong with it."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from controller.signed_log.notes import COSIGNATURE, DASH, NoteKey, signature_time
from grid.errors import GridError
from grid.log.ledger import GridLog


@dataclass(frozen=True, slots=True)
class LogWitness:
    """A witness of this log.

    Attributes:
        key: Its verifier key.
        address: Where it listens: host:port#fingerprint.
        trouble: Why it has not confirmed the latest checkpoint that it was asked for; empty when it has.
        rows: Size of the latest checkpoint that it has confirmed; 0 for none.
        confirmed_utc_s: When; 0 for never.
    """

    key: NoteKey
    address: str
    trouble: str
    rows: int
    confirmed_utc_s: float


class LogWitnesses:
    """The witnesses of one log, in the hub's database."""

    def __init__(self, database: sqlite3.Connection, log: GridLog) -> None:
        self._database = database
        self._log = log

    def add(self, key: NoteKey, address: str) -> None:
        """Ask this witness from now on; a known one gets the new address, in the caller's transaction.

        Raises:
            GridError: The key is not that of a witness, or another key has its name.
        """
        if key.algorithm != COSIGNATURE:
            raise GridError(f"the key of {key.name} is that of a log. Next: take the line `witness` of its keys")
        found = self._database.execute("SELECT key FROM witnesses WHERE name = ?", (key.name,)).fetchone()
        if found is not None and found[0] != str(key):
            raise GridError(f"{key.name} is a witness with another key. Next: compare the keys with its operator")
        self._database.execute(
            "INSERT INTO witnesses (name, key, address) VALUES (?, ?, ?)"
            " ON CONFLICT (name) DO UPDATE SET address = excluded.address, trouble = ''",
            (key.name, str(key), address),
        )

    def every(self) -> list[LogWitness]:
        """Return the witnesses, by name."""
        rows = self._database.execute("SELECT key, address, trouble FROM witnesses ORDER BY name").fetchall()
        return [self._known(NoteKey.parse(key), address, trouble) for key, address, trouble in rows]

    def confirmed(self, size: int, line: str) -> None:
        """Keep a cosignature that the caller has verified, in the caller's transaction."""
        self._log.add_cosignature(size, line)
        self._database.execute("UPDATE witnesses SET trouble = '' WHERE name = ?", (line.split(" ")[1],))

    def refused(self, key: NoteKey, trouble: str) -> None:
        """Note why a witness has not confirmed, in the caller's transaction."""
        self._database.execute("UPDATE witnesses SET trouble = ? WHERE name = ?", (trouble, key.name))

    def contradicted(self, key: NoteKey, note: str) -> None:
        """Keep a checkpoint of this log that the witness has confirmed and that is not in its history, as above."""
        self._database.execute("INSERT OR IGNORE INTO other_histories VALUES (?, ?)", (key.name, note))

    def other_histories(self) -> list[str]:
        """Return the checkpoints with this log's signature that witnesses hold against it."""
        return [note for (note,) in self._database.execute("SELECT note FROM other_histories ORDER BY name, note")]

    def _known(self, key: NoteKey, address: str, trouble: str) -> LogWitness:
        begins = f"{DASH}{key.name} "
        query = "SELECT size FROM cosignatures WHERE substr(line, 1, ?) = ? ORDER BY size DESC LIMIT 1"
        for (size,) in self._database.execute(query, (len(begins), begins)):
            time_s = signature_time(self._log.cosigned(size), key)
            if time_s is not None:
                return LogWitness(key, address, trouble, size, float(time_s))
        return LogWitness(key, address, trouble, 0, 0.0)
