"""Who belongs to the grid: requests, decisions of operators, revocation, standing."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from grid.errors import GridError, GridRefused
from grid.hub.store import Store
from grid.identity.public import fingerprint
from grid.policy.standing import MemberStanding
from grid.wire import grid_pb2 as pb

MAX_PENDING = 1000
SEEN_S = 5.0
"""Time between two marks of a connected member."""
DECISIONS = {"approve": "approved", "refuse": "refused", "revoke": "revoked"}


class Members:
    """The members and laboratories in the hub's database."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def request(self, request: pb.EnrolRequest) -> sqlite3.Row:
        """Record a checked request of an identity that is not known yet; return what is known of it.

        Raises:
            GridRefused: Its name is another's, or too many requests wait.
        """
        identity = fingerprint(request.public_key)
        with self._store.transaction() as database:
            known = self._find(identity)
            if known is None:
                if self._store.query("SELECT 1 FROM members WHERE name = ?", request.name):
                    raise GridRefused(f"another member is named {request.name}. Next: choose another name (--name)")
                waiting = self._store.query("SELECT COUNT(*) FROM members WHERE state = 'pending'")[0][0]
                if waiting >= MAX_PENDING:
                    raise GridRefused(f"{waiting} requests wait for a decision. Next: try again later")
                row = (identity, request.name, request.kind, request.public_key, "pending", self._store.utc())
                database.execute(
                    "INSERT INTO members (id, name, kind, public_key, state, requested_s) VALUES (?, ?, ?, ?, ?, ?)",
                    row,
                )
                self._store.note("member.request", {"id": identity, "name": request.name, "kind": request.kind})
        found = self._find(identity)
        if found is None:
            raise GridError("the request was not recorded. Next: try again")
        if found["kind"] != request.kind:
            raise GridRefused(f"{found['name']} is enrolled as {found['kind']}. Next: use another data folder")
        return found

    def decide(self, who: str, decision: str, by: str, reason: str = "") -> str:
        """Approve, refuse or revoke a member; return its name.

        Args:
            who: Its name, or at least the first 8 characters of its identity.
            decision: approve, refuse or revoke.
            by: The operator, for the log.
            reason: Why, for the member and the log.

        Raises:
            GridError: There is no such member.
        """
        with self._store.transaction() as database:
            found = self.named(who)
            state = DECISIONS[decision]
            database.execute("UPDATE members SET state = ?, reason = ? WHERE id = ?", (state, reason, found["id"]))
            about = {"id": found["id"], "name": found["name"], "by": by, "reason": reason}
            self._store.note(f"member.{state}", about)
            if state != "approved":
                database.execute("DELETE FROM tissues WHERE lab = ?", (found["id"],))
        return str(found["name"])

    def named(self, who: str) -> sqlite3.Row:
        """Return a member by name or by the beginning of its identity. Raises :class:`GridError` when there is none."""
        found = self._store.query("SELECT * FROM members WHERE name = ?", who)
        if not found and len(who) >= 8:
            found = self._store.query("SELECT * FROM members WHERE substr(id, 1, ?) = ?", len(who), who)
        if len(found) != 1:
            raise GridError(f"there is no member “{who}”. Next: list them with `choroid grid members`")
        row: sqlite3.Row = found[0]
        return row

    def approved(self, identity: str) -> sqlite3.Row | None:
        """Return an approved member by identity."""
        found = self._find(identity)
        return found if found is not None and found["state"] == "approved" else None

    def approved_ones(self) -> set[str]:
        """Return the identities of all approved members and laboratories."""
        return {row["id"] for row in self._store.query("SELECT id FROM members WHERE state = 'approved'")}

    def every(self) -> list[sqlite3.Row]:
        """Return all members, by name."""
        return self._store.query("SELECT * FROM members ORDER BY name")

    def standing(self, identity: str) -> MemberStanding:
        """Return the standing of a member; empty before its first measurement."""
        found = self._find(identity)
        return MemberStanding(**json.loads(found["standing"])) if found else MemberStanding()

    def set_standing(self, identity: str, name: str, standing: MemberStanding) -> None:
        """Keep a standing; the log gets a row when the roles have changed."""
        before = self.standing(identity)
        with self._store.transaction() as database:
            database.execute("UPDATE members SET standing = ? WHERE id = ?", (json.dumps(standing.as_row()), identity))
            if set(before.roles) != set(standing.roles) or not before.figures:
                self._store.note("member.standing", {"id": identity, "name": name, **standing.as_row()})

    def set_claims(self, identity: str, claims: dict[str, Any]) -> None:
        """Keep what a member says of itself."""
        with self._store.transaction() as database:
            database.execute("UPDATE members SET claims = ? WHERE id = ?", (json.dumps(claims), identity))

    def seen(self, marks: dict[str, str]) -> None:
        """Note that members (identity → what they work on) are connected."""
        with self._store.transaction() as database:
            rows = [(self._store.utc(), work, identity) for identity, work in marks.items()]
            database.executemany("UPDATE members SET seen_s = ?, working_on = ? WHERE id = ?", rows)

    def _find(self, identity: str) -> sqlite3.Row | None:
        found = self._store.query("SELECT * FROM members WHERE id = ?", identity)
        return found[0] if found else None


def member_message(row: sqlite3.Row, connected: bool) -> pb.Member:
    """Return a member as the message of the service."""
    standing = MemberStanding(**json.loads(row["standing"]))
    return pb.Member(
        id=row["id"],
        name=row["name"],
        kind=row["kind"],
        state=row["state"],
        connected=connected,
        standing=standing_message(standing),
        working_on=row["working_on"],
        seen_utc_s=row["seen_s"],
    )


def standing_message(standing: MemberStanding) -> pb.Standing:
    """Return a standing as the message of the service."""
    roles = [pb.RoleStanding(role=r, granted=not why, reasons=list(why)) for r, why in standing.reasons.items()]
    return pb.Standing(roles=roles, figures=dict(standing.figures))
