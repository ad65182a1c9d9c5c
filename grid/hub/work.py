"""Work leases: the members of a job may reach each other through tunnels. The hub offers; each member decides.

No tissue is at risk: a work lease outlives a hub that is away for a quarter of an hour.
"""

from __future__ import annotations

import json
import secrets
import sqlite3

from grid.errors import GridRefused
from grid.hub.lease_table import MAX_TEXT, VERDICT_WITHIN_S, LeaseTable
from grid.hub.members import Members
from grid.hub.store import Store
from grid.hub.work_jobs import WorkJobs
from grid.policy.policy import WorkLimits
from grid.wire import grid_pb2 as pb

RANK_ROLES = ("compute", "storage")


class WorkBook(LeaseTable):
    """The work leases of one hub.

    Attributes:
        jobs: What is trained under them.
    """

    TABLE, KIND = "work", "work"

    def __init__(self, store: Store, members: Members, limits: WorkLimits) -> None:
        super().__init__(store, limits.ttl_s)
        self.jobs = WorkJobs(store)
        self._members = members
        self._limits = limits

    def request(self, member: str, request: pb.WorkRequest) -> sqlite3.Row:
        """Record a request; it waits until every rank is connected and has no other work.

        Args:
            member: Identity of the caller, the holder of the lease.
            request: What it asks for. A repeat with the same key returns the lease of the first.

        Raises:
            GridRefused: A rank is unknown, has not the role or is named twice, a limit is exceeded, the form is wrong.
        """
        known = self._store.query("SELECT * FROM work WHERE member = ? AND key = ?", member, request.key)
        if known:
            first: sqlite3.Row = known[0]
            return first
        limits, duration_s = self._limits, request.duration_s or self._limits.max_duration_s
        if not 0 < duration_s <= limits.max_duration_s:
            raise GridRefused(f"a work lease of {duration_s:g} s; the longest is {limits.max_duration_s:g} s")
        if not 0 < len(request.key) <= 64 or not 0 < len(request.job) <= MAX_TEXT:
            raise GridRefused("key: 1 to 64 characters; job: 1 to 200 characters")
        if len([row for row in self.living() if row["member"] == member]) >= limits.max_living:
            raise GridRefused(f"you hold {limits.max_living} work leases, the most. Next: release one")
        ranks = self._ranks(member, request)
        if request.manifest:
            self.jobs.require(request.manifest, member, ranks)
        lease, now = secrets.token_hex(8), self._store.utc()
        with self._store.transaction() as database:
            database.execute(
                "INSERT INTO work (id, key, member, job, ranks, state, requested_s, expires_s, duration_s, reason)"
                " VALUES (?, ?, ?, ?, ?, 'queued', ?, ?, ?, 'waits for its members')",
                (lease, request.key, member, request.job, json.dumps(ranks), now, now + limits.ttl_s, duration_s),
            )
            self.jobs.keep(database, lease, request.manifest)
        return self.find(lease)

    def verdict(self, rank: str, verdict: pb.LeaseVerdict) -> None:
        """Take a member's answer to an offer; it may also leave a lease that runs."""
        found = [row for row in self._of(verdict.lease, rank) if rank in json.loads(row["ranks"])]
        if not found or found[0]["state"] not in ("offered", "active"):
            return
        (row,) = found
        if not verdict.accepted:
            self.end(row["id"], f"{self._name(rank)} refused: {verdict.reason[:MAX_TEXT]}")
            return
        member = self._members.approved(rank)
        if verdict.keys and member is not None:
            try:
                with self._store.transaction():
                    self.jobs.register(row["id"], rank, member["public_key"], verdict.keys)
            except GridRefused as error:
                self.end(row["id"], f"{self._name(rank)}: {error}"[:MAX_TEXT])
                return
        ranks, accepted = json.loads(row["ranks"]), {*json.loads(row["accepted"]), rank}
        with self._store.transaction() as database:
            database.execute("UPDATE work SET accepted = ? WHERE id = ?", (json.dumps(sorted(accepted)), row["id"]))
            if row["state"] == "offered" and accepted >= set(ranks):
                now = self._store.utc()
                database.execute(
                    "UPDATE work SET state = 'active', granted_s = ?, expires_s = ?, reason = '' WHERE id = ?",
                    (now, now + self._limits.ttl_s, row["id"]),
                )
                about = {"lease": row["id"], "job": row["job"], "member": row["member"], "ranks": ranks}
                about |= self.jobs.named(row["id"])
                self._store.note("work.grant", {**about, "fence": row["fence"]})

    def advance(self, connected: set[str]) -> None:
        """End what is over, and offer what can run, oldest first: each member works for one job at a time.

        Args:
            connected: Identities that offers can be sent to.
        """
        now = self._store.utc()
        busy: set[str] = set()
        waiting = []
        for row in self.living():
            reason = self._over(row, now)
            if reason:
                self.end(row["id"], reason)
            elif row["state"] == "queued":
                waiting.append(row)
            else:
                busy |= set(json.loads(row["ranks"]))
        for row in waiting:
            ranks = set(json.loads(row["ranks"]))
            if ranks <= connected:  # it keeps its members free of later jobs only when they are all there
                if not ranks & busy:
                    self._offer(row)
                busy |= ranks

    def resume(self) -> None:
        """Go on after a start of the hub; what was offered is offered again when its members are connected."""
        super().resume()
        with self._store.transaction() as database:
            database.execute(
                "UPDATE work SET state = 'queued', accepted = '[]', reason = 'waits for its members'"
                " WHERE state = 'offered'"
            )

    def info(self, row: sqlite3.Row) -> pb.WorkInfo:
        """Return a lease as the message of the service."""
        ranks, keys = [], self.jobs.keys(row["id"])
        for identity in json.loads(row["ranks"]):
            known = self._members.approved(identity)
            name, key = (known["name"], known["public_key"]) if known else ("", b"")
            ranks.append(pb.WorkRank(member=identity, name=name, key=key, keys=keys.get(identity, b"")))
        return pb.WorkInfo(
            lease=row["id"],
            state=pb.LeaseInfo.State.Value(row["state"].upper()),
            member=row["member"],
            job=row["job"],
            ranks=ranks,
            fence=row["fence"],
            reason=row["reason"],
            left_s=max(row["expires_s"] - self._store.utc(), 0.0),
            manifest=self.jobs.manifest(row["id"]),
            reports=self.jobs.reports(row["id"]),
        )

    def _ranks(self, holder: str, request: pb.WorkRequest) -> list[str]:
        found: list[str] = []
        role = request.role or "compute"
        if role not in RANK_ROLES:
            raise GridRefused(f"role “{role[:20]}” of the ranks; it is {' or '.join(RANK_ROLES)}")
        number, most = len(request.ranks), self._limits.max_ranks
        refusal = f"a job has 1 to {most} ranks, each another member; got {number}"
        if not 0 < number <= most:
            raise GridRefused(refusal)
        for who in request.ranks:
            row = self._members.named(who)
            standing = self._members.standing(row["id"])
            if row["state"] != "approved" or row["kind"] != "member":
                raise GridRefused(f"{who[:60]} is no approved member. Next: `choroid grid hub status`")
            if role not in standing.roles and not (role == "storage" and row["id"] == holder):
                why = "; ".join(standing.reasons.get(role, ["it was not measured yet"]))
                raise GridRefused(f"{row['name']} has not the role {role}: {why}")
            found.append(str(row["id"]))
        if len(set(found)) < number:
            raise GridRefused(refusal)
        return found

    def _over(self, row: sqlite3.Row, now: float) -> str:
        for identity in (row["member"], *json.loads(row["ranks"])):
            if self._members.approved(identity) is None:
                return f"{self._name(identity)} was revoked"
        if row["state"] == "offered" and now > row["granted_s"] + VERDICT_WITHIN_S:
            absent = set(json.loads(row["ranks"])) - set(json.loads(row["accepted"]))
            return f"no answer to the offer from {', '.join(sorted(map(self._name, absent)))}"
        if row["state"] != "offered" and now > row["expires_s"]:
            return f"no heartbeat for {self._limits.ttl_s:g} s"
        if row["state"] == "active" and now > row["granted_s"] + row["duration_s"]:
            return f"its {row['duration_s']:g} s are over"
        return ""

    def _name(self, identity: str) -> str:
        found = self._store.query("SELECT name FROM members WHERE id = ?", identity)
        return str(found[0]["name"]) if found else identity[:16]

    def _parties(self, row: sqlite3.Row) -> tuple[str, ...]:
        return tuple(json.loads(row["ranks"]))

    def _of(self, lease: str, caller: str) -> list[sqlite3.Row]:
        found = self._store.query("SELECT * FROM work WHERE id = ?", lease)
        return [row for row in found if caller == row["member"] or caller in json.loads(row["ranks"])]
