"""Who belongs to the grid: requests, decisions of operators, revocation, standing."""

from __future__ import annotations

import ipaddress
import json
import sqlite3
from typing import Any
from urllib.parse import unquote

from controller.signed_log.public import fingerprint
from grid.errors import GridError, GridRefused
from grid.hub.store import Store
from grid.policy.policy import EnrolmentLimits
from grid.policy.standing import MemberStanding
from grid.wire import grid_pb2 as pb

SEEN_S = 5.0
"""Time between two marks of a connected member."""
DECISIONS = {"approve": "approved", "refuse": "refused", "revoke": "revoked"}


class Members:
    """The members and laboratories in the hub's database."""

    def __init__(self, store: Store, limits: EnrolmentLimits | None = None) -> None:
        self._store = store
        self._limits = limits or EnrolmentLimits()

    def request(self, request: pb.EnrolRequest, address: str = "") -> sqlite3.Row:
        """Record a checked request of an identity that is not known yet; return what is known of it.

        It is no row of the log: unknown clients cannot make that grow.

        Args:
            request: The request.
            address: Where it comes from (:func:`address_of`).

        Raises:
            GridRefused: Its name is another's, or too many requests from this address wait.
        """
        identity = fingerprint(request.public_key)
        with self._store.transaction() as database:
            if self._find(identity) is None:
                self._make_room(database, address)
                if self._store.query("SELECT 1 FROM members WHERE name = ?", request.name):
                    raise GridRefused(f"another member is named {request.name}. Next: choose another name (--name)")
                database.execute(
                    "INSERT INTO members (id, name, kind, public_key, state, requested_s, address)"
                    " VALUES (?, ?, ?, ?, 'pending', ?, ?)",
                    (identity, request.name, request.kind, request.public_key, self._store.utc(), address),
                )
        found = self._find(identity)
        if found is None:
            raise GridError("the request was not recorded. Next: try again")
        if found["kind"] != request.kind:
            raise GridRefused(f"{found['name']} is enrolled as {found['kind']}. Next: use another data folder")
        return found

    def _make_room(self, database: sqlite3.Connection, address: str) -> None:
        """Drop requests that have expired, and one from the address with the most when as many wait as may."""
        database.execute(
            "DELETE FROM members WHERE state = 'pending' AND requested_s <= ?",
            (self._store.utc() - self._limits.expire_s,),
        )
        waiting = self.waiting()
        if waiting.get(address, 0) >= self._limits.of_address:
            raise GridRefused(
                f"{waiting[address]} requests from {address} wait for a decision, which is the limit of one address. Next:"
                f" ask the hub's operator to decide about them; each ends after {self._limits.expire_s / 3600:g} h"
            )
        if sum(waiting.values()) >= self._limits.waiting:
            database.execute(
                "DELETE FROM members WHERE id = (SELECT id FROM members WHERE state = 'pending' AND address = ?"
                " ORDER BY requested_s DESC, id LIMIT 1)",
                (max(waiting, key=lambda each: waiting[each]),),
            )

    def waiting(self) -> dict[str, int]:
        """Return how many requests wait from each address, that with the oldest request first."""
        rows = self._store.query(
            "SELECT address, COUNT(*) AS number FROM members WHERE state = 'pending' GROUP BY address"
            " ORDER BY MIN(requested_s), address"
        )
        return {row["address"]: row["number"] for row in rows}

    def refuse_waiting(self, address: str, by: str, reason: str = "") -> int:
        """Refuse every request that waits; return how many.

        Args:
            address: Only those from there; empty takes all.
            by: The operator, for the log.
            reason: Why, for the members and the log.

        Raises:
            GridError: None waits from there.
        """
        with self._store.transaction() as database:
            found = self._store.query(
                "SELECT * FROM members WHERE state = 'pending' AND ? IN ('', address) ORDER BY requested_s", address
            )
            if not found:
                where = f" from {address}" if address else ""
                raise GridError(f"no request{where} waits. Next: list them with `choroid grid member list`")
            for row in found:
                self._decide(database, row, "refused", by, reason)
        return len(found)

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
            self._decide(database, found, DECISIONS[decision], by, reason)
        return str(found["name"])

    def _decide(self, database: sqlite3.Connection, row: sqlite3.Row, state: str, by: str, reason: str) -> None:
        name = str(row["name"])
        if row["state"] == "pending" and state != "approved":
            name = f"{name}~{row['id'][:16]}"  # what never was a member keeps no name
        update = "UPDATE members SET state = ?, reason = ?, name = ? WHERE id = ?"
        database.execute(update, (state, reason, name, row["id"]))
        about = {"id": row["id"], "name": row["name"], "kind": row["kind"], "by": by, "reason": reason}
        self._store.note(f"member.{state}", about)
        if state != "approved":
            database.execute("DELETE FROM tissues WHERE lab = ?", (row["id"],))

    def named(self, who: str) -> sqlite3.Row:
        """Return a member by name or by the beginning of its identity. Raises :class:`GridError` when there is none."""
        found = self._store.query("SELECT * FROM members WHERE name = ?", who)
        if not found and len(who) >= 8:
            found = self._store.query("SELECT * FROM members WHERE substr(id, 1, ?) = ?", len(who), who)
        if len(found) != 1:
            raise GridError(f"there is no member “{who}”. Next: list them with `choroid grid member list`")
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


def address_of(peer: str) -> str:
    """Return the address of a client as gRPC names it, without the port; of IPv6 its network of 64 bits.

    One subscriber has at least such a network, so its single addresses limit nothing.
    """
    kind, _, place = unquote(peer).partition(":")
    host = place.rpartition(":")[0].strip("[]").partition("%")[0]
    if kind == "ipv6":
        found = ipaddress.IPv6Address(host)
        return str(found.ipv4_mapped or ipaddress.IPv6Network((found, 64), strict=False))
    return host if kind == "ipv4" else peer


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
