"""The training jobs under work leases: signed manifests, and what their ranks report."""

from __future__ import annotations

import hashlib
import sqlite3

from controller.signed_log.public import fingerprint
from grid.errors import GridError, GridRefused
from grid.hub.store import Store
from grid.jobs.manifest import read_signed
from grid.jobs.node_statement import read_statement
from grid.wire import grid_pb2 as pb

ROW_S = 60.0
"""At most one row of the log in this time for the checkpoints of one job."""
MAX_TEXT = 300
MAX_SCORES, MAX_NAME = 8, 40


class WorkJobs:
    """Manifests and reports of the jobs at one hub."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._noted_s: dict[str, float] = {}
        """When a checkpoint of a lease was noted last."""

    def require(self, manifest: bytes, member: str, ranks: list[str]) -> None:
        """Check the manifest of a request.

        Args:
            manifest: As it was sent.
            member: Identity of the caller.
            ranks: Identities of the ranks.

        Raises:
            GridRefused: It is malformed, not signed by the caller, or for other members than these.
        """
        try:
            found, owner = read_signed(manifest)
        except GridError as error:
            raise GridRefused(str(error)) from None
        if fingerprint(owner) != member:
            raise GridRefused("the manifest is signed by another member. Next: submit your own")
        if len(ranks) != found.ranks.max:
            raise GridRefused(f"the job has {found.ranks.max} ranks, the request names {len(ranks)} members")
        found.require_ranks(ranks)
        if found.members and not set(ranks) <= set(found.members):
            raise GridRefused("the manifest does not admit all of these members. Next: name those that it lists")

    def keep(self, database: sqlite3.Connection, lease: str, manifest: bytes) -> None:
        """Keep the manifest of a lease, in the caller's transaction."""
        if manifest:
            database.execute("INSERT INTO work_manifests VALUES (?, ?)", (lease, manifest))

    def manifest(self, lease: str) -> bytes:
        """Return the manifest of a lease; empty if it has none."""
        found = self._store.query("SELECT manifest FROM work_manifests WHERE lease = ?", lease)
        return bytes(found[0]["manifest"]) if found else b""

    def named(self, lease: str) -> dict[str, str]:
        """Return the hash of the manifest of a lease, for the log."""
        manifest = self.manifest(lease)
        return {"manifest": read_signed(manifest)[0].id} if manifest else {}

    def register(self, lease: str, member: str, public: bytes, keys: bytes) -> None:
        """Register the keys of a rank of a federated job; the first that it sends are those of the lease.

        Args:
            lease: The lease.
            member: Identity of the rank.
            public: Its Ed25519 key.
            keys: As it has signed them.

        Raises:
            GridRefused: They are not signed by it for this lease, or others are registered.
        """
        read_statement(keys, lease, public)
        known = self.keys(lease).get(member)
        if known is None:
            self._store.database.execute("INSERT INTO work_keys VALUES (?, ?, ?)", (lease, member, keys))
            self._store.note("work.keys", {"lease": lease, "member": member, "keys": hashlib.sha256(keys).hexdigest()})
        elif read_statement(known, lease, public) != read_statement(keys, lease, public):
            raise GridRefused("its node has other keys than are registered for this lease. Next: submit the job again")

    def keys(self, lease: str) -> dict[str, bytes]:
        """Return the registered keys by identity."""
        found = self._store.query("SELECT member, keys FROM work_keys WHERE lease = ?", lease)
        return {str(row["member"]): bytes(row["keys"]) for row in found}

    def reports(self, lease: str) -> list[pb.WorkReport]:
        """Return the last report of each rank."""
        found = self._store.query("SELECT report FROM work_reports WHERE lease = ? ORDER BY rank", lease)
        return [pb.WorkReport.FromString(row["report"]) for row in found]

    def report(self, lease: str, ranks: list[str], rank: str, report: pb.WorkReport) -> None:
        """Keep what a rank reports; note its checkpoint in the log, for each job at most once a minute.

        Args:
            lease: A lease that runs.
            ranks: Identities of its ranks.
            rank: Identity of the one that reports.
            report: What it says.
        """
        report.DiscardUnknownFields()
        report.rank = ranks.index(rank)
        report.reason, report.checkpoint, report.state = (
            report.reason[:MAX_TEXT],
            report.checkpoint[:64],
            report.state[:20],
        )
        scores = dict(sorted(report.scores.items())[:MAX_SCORES])
        report.ClearField("scores")
        report.scores.update({name[:MAX_NAME]: value for name, value in scores.items()})
        now = self._store.utc()
        is_due = bool(report.checkpoint) and now >= self._noted_s.get(lease, 0.0) + ROW_S
        with self._store.transaction() as database:
            database.execute(
                "INSERT OR REPLACE INTO work_reports VALUES (?, ?, ?)", (lease, report.rank, report.SerializeToString())
            )
            if is_due:
                about = {"lease": lease, "rank": report.rank, "outer": report.outer, "checkpoint": report.checkpoint}
                self._store.note("work.checkpoint", about)
        if is_due:
            self._noted_s[lease] = now
