"""What leases of every kind have in common: their table in the database, heartbeats, ends, and announcements.

Every change is in the database before it is announced.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from grid.errors import GridError, GridRefused
from grid.hub.store import Store
from grid.relay.grants import TunnelGrant

DAY_S = 86_400.0
VERDICT_WITHIN_S = 10.0
"""Who is asked answers an offer within this time, or the lease ends."""
LIVING = "('queued', 'offered', 'active')"
MAX_TEXT = 200
MAX_NAMED = 100
"""Leases in one heartbeat."""


class LeaseTable(ABC):
    """The leases of one kind at one hub; `TABLE` is their table, `KIND` begins the kind of their rows in the log."""

    TABLE: ClassVar[str]
    KIND: ClassVar[str]

    def __init__(self, store: Store, ttl_s: float) -> None:
        self._store = store
        self._ttl_s = ttl_s

    def resume(self) -> None:
        """Give each living lease one more time to live after a start of the hub: its heartbeats could not arrive.

        What lies in the future was noted by a clock that was wrong: it counts as of now.
        """
        now = self._store.utc()
        with self._store.transaction() as database:
            database.execute(
                f"UPDATE {self.TABLE} SET expires_s = ?, shown = '',"  # noqa: S608
                f" requested_s = MIN(requested_s, ?), granted_s = MIN(granted_s, ?) WHERE state IN {LIVING}",
                (now + self._ttl_s, now, now),
            )
            database.execute(
                f"UPDATE {self.TABLE} SET ended_s = ?, granted_s = MAX(granted_s - (ended_s - ?), 0)"  # noqa: S608
                " WHERE ended_s > ?",
                (now, now, now),
            )

    def move(self, by_s: float) -> None:
        """Move the times of living leases and of those of the last 24 h with the clock, in the caller's transaction."""
        self._store.database.execute(
            f"UPDATE {self.TABLE} SET requested_s = requested_s + :by_s, expires_s = expires_s + :by_s,"  # noqa: S608
            " granted_s = granted_s + (granted_s > 0) * :by_s, ended_s = ended_s + (ended_s > 0) * :by_s"
            f" WHERE state IN {LIVING} OR ended_s > :since",
            {"by_s": by_s, "since": self._store.utc() - DAY_S},
        )

    def renew(self, caller: str, leases: Iterable[str]) -> list[sqlite3.Row]:
        """Note a heartbeat for living leases of `caller`; return those that were named and are the caller's, each once.

        Raises:
            GridRefused: Too many are named.
        """
        named = dict.fromkeys(leases)
        if len(named) > MAX_NAMED:
            raise GridRefused(f"a heartbeat for {len(named)} leases; at most {MAX_NAMED}. Next: send several")
        found = [row for lease in named for row in self._of(lease, caller)]
        alive = [row["id"] for row in found if row["state"] != "ended"]
        if alive:
            expires_s = self._store.utc() + self._ttl_s
            with self._store.transaction() as database:
                database.executemany(
                    f"UPDATE {self.TABLE} SET expires_s = ? WHERE id = ? AND state IN {LIVING}",  # noqa: S608
                    [(expires_s, lease) for lease in alive],
                )
        return [self.find(row["id"]) for row in found]

    def release(self, caller: str, lease: str, reason: str) -> sqlite3.Row:
        """End a lease of `caller`. Raises :class:`GridRefused` when it is not its own."""
        if not self._of(lease, caller):
            raise GridRefused(f"{lease[:40]} is no lease of yours")
        self.end(lease, reason[:MAX_TEXT] or "released")
        return self.find(lease)

    def end(self, lease: str, reason: str, *, by: str = "") -> None:
        """End a lease that lives; nothing happens to one that has ended."""
        with self._store.transaction() as database:
            done = database.execute(
                f"UPDATE {self.TABLE} SET state = 'ended', reason = ?, ended_s = ?"  # noqa: S608
                f" WHERE id = ? AND state IN {LIVING}",
                (reason, self._store.utc(), lease),
            )
            if done.rowcount:
                self._store.note(f"{self.KIND}.end", {"lease": lease, "reason": reason, "by": by})

    def unshown(self) -> list[sqlite3.Row]:
        """Return the leases whose state was not announced yet: ends before offers, for one lease follows another."""
        return self._store.query(
            f"SELECT * FROM {self.TABLE} WHERE shown != state ORDER BY state != 'ended', fence, rowid"  # noqa: S608
        )

    def mark_shown(self, lease: str, state: str) -> None:
        """Note that a state was announced."""
        with self._store.transaction() as database:
            database.execute(f"UPDATE {self.TABLE} SET shown = ? WHERE id = ?", (state, lease))  # noqa: S608

    def find(self, lease: str) -> sqlite3.Row:
        """Return a lease by name. Raises :class:`GridError` when there is none."""
        found = self._store.query(f"SELECT * FROM {self.TABLE} WHERE id = ?", lease)  # noqa: S608
        if not found:
            raise GridError(f"there is no lease {lease[:40]}. Next: list them with `choroid grid lease list`")
        row: sqlite3.Row = found[0]
        return row

    def grant(self, lease: str) -> TunnelGrant:
        """Return what a lease grants that runs. Raises :class:`GridRefused` when it does not run."""
        row = self.find(lease)
        if row["state"] != "active":
            raise GridRefused(f"{row['id']} is no running lease of yours. Next: ask for a lease first")
        return TunnelGrant(row["id"], self._parties(row))

    def living(self) -> list[sqlite3.Row]:
        """Return the leases that have not ended, oldest first."""
        return self._store.query(f"SELECT * FROM {self.TABLE} WHERE state IN {LIVING} ORDER BY rowid")  # noqa: S608

    def ended(self, limit: int) -> list[sqlite3.Row]:
        """Return the leases that ended last."""
        return self._store.query(
            f"SELECT * FROM {self.TABLE} WHERE state = 'ended' ORDER BY ended_s DESC, rowid DESC LIMIT ?",  # noqa: S608
            limit,
        )

    def _offer(self, row: sqlite3.Row) -> None:
        with self._store.transaction() as database:
            fence = int(database.execute(f"SELECT COALESCE(MAX(fence), 0) + 1 FROM {self.TABLE}").fetchone()[0])  # noqa: S608
            database.execute(
                f"UPDATE {self.TABLE} SET state = 'offered', fence = ?, granted_s = ?, reason = 'offered' WHERE id = ?",  # noqa: S608
                (fence, self._store.utc(), row["id"]),
            )

    def _of(self, lease: str, caller: str) -> list[sqlite3.Row]:
        """Return the lease in a list if it is the caller's."""
        return self._store.query(f"SELECT * FROM {self.TABLE} WHERE id = ? AND member = ?", lease, caller)  # noqa: S608

    @abstractmethod
    def _parties(self, row: sqlite3.Row) -> tuple[str, ...]:
        """Return the identities that may open tunnels to each other under a lease."""
