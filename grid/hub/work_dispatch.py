"""What the hub announces of work leases: orders to their ranks, grants to the relays that join their tunnels."""

from __future__ import annotations

import json
import sqlite3

from grid.errors import GridRefused
from grid.hub.members import Members, address_of
from grid.hub.sessions import MemberSession, Sessions
from grid.hub.store import Store
from grid.hub.work import WorkBook
from grid.policy.policy import WorkLimits
from grid.wire import grid_pb2 as pb

REPORT_S = 1.0
"""At most one report of a rank is written to the database in this time."""
MAX_LEASE = 40
REFUSAL_S = 60.0
"""At most one row of the log in this time for what one relay refuses to one member."""


class WorkDispatch:
    """Turns the work leases in the database into messages. Every state is announced until it is noted as shown.

    Attributes:
        book: The work leases.
    """

    def __init__(self, store: Store, members: Members, sessions: Sessions, limits: WorkLimits) -> None:
        self.book = WorkBook(store, members, limits)
        self._store = store
        self._members = members
        self._sessions = sessions
        self._limits = limits
        self._relays: list[pb.RelayPoint] = []
        self._refused_s: dict[tuple[str, str], float] = {}
        self._reports: dict[tuple[str, str], pb.WorkReport] = {}
        """The last report of each rank, by lease and identity, that is not kept yet."""
        self._reported_s: dict[tuple[str, str], float] = {}

    def now(self) -> None:
        """Advance the queue, and announce what has changed: leases, and which relays there are; keep reports."""
        self._keep_reports()
        ready = {each.identity for each in self._sessions.every() if each.kind == "member" and each.greeted}
        self.book.advance(ready)
        relays = [_point(each) for each in self._sessions.every() if self._is_relay(each)]
        changed, self._relays = relays != self._relays, relays
        for row in self.book.unshown():
            self._announce(row)
        if changed:
            for row in self._active():
                self.renewed(row)

    def renewed(self, row: sqlite3.Row) -> None:
        """Pass a heartbeat on to the ranks and the relays."""
        if row["state"] == "active":
            self._order(pb.LeaseOrder.RENEW, row)

    def member_came(self, session: MemberSession) -> None:
        """Tell a member or relay that connects which of its leases have ended, which run, and which it is offered.

        Raises:
            GridRefused: It names another key for its relay than its own.
        """
        member = self._members.approved(session.identity)
        if session.hello.relay.port and (member is None or session.hello.relay.key != member["public_key"]):
            session.hello.ClearField("relay")
            raise GridRefused("a relay has the key of its own identity. Next: start it with `choroid grid relay`")
        open_ = {row["id"]: row for row in self.book.living() if row["state"] != "queued"}
        for lease in session.hello.leases:
            if lease not in open_:
                ended = pb.WorkInfo(lease=lease, reason="it has ended at the hub")
                session.send(pb.HubMessage(work=pb.WorkOrder(verb=pb.LeaseOrder.END, work=ended)))
                session.send(pb.HubMessage(grant=pb.RelayGrant(grant=lease)))
        for row in open_.values():
            info = self.book.info(row)
            active = row["state"] == "active"
            if any(rank.member == session.identity for rank in info.ranks):
                verb = pb.LeaseOrder.RENEW if active else pb.LeaseOrder.OFFER
                session.send(pb.HubMessage(work=self._message(verb, row, info)))
            if active and self._is_relay(session):
                session.send(pb.HubMessage(grant=_grant(info)))

    def report(self, session: MemberSession, report: pb.WorkReport) -> None:
        """Take a report of a rank; of those that come within a second of each other the last one is kept."""
        self._reports[report.lease[:MAX_LEASE], session.identity] = report
        self._keep_reports(session.identity)

    def _keep_reports(self, identity: str = "") -> None:
        """Keep the reports that are due, of all ranks or of one; nothing is kept of one without part in its lease."""
        now, living = self._store.utc(), {row["id"]: row for row in self.book.living()} if self._reports else {}
        self._reported_s = {each: at_s for each, at_s in self._reported_s.items() if at_s <= now < at_s + REPORT_S}
        for known in [each for each in self._reports if identity in ("", each[1]) and each not in self._reported_s]:
            report, row = self._reports.pop(known), living.get(known[0])
            ranks = json.loads(row["ranks"]) if row is not None and row["state"] == "active" else []
            if known[1] in ranks:
                self._reported_s[known] = now
                self.book.jobs.report(known[0], ranks, known[1], report)

    def refused(self, session: MemberSession, refusal: pb.RelayRefusal) -> None:
        """Note in the log whom a relay has refused, if it is a member: unknown clients cannot make the log grow."""
        member, now = self._members.approved(refusal.member), self._store.utc()
        known = (session.identity, refusal.member)
        if member is None or not self._is_relay(session) or now < self._refused_s.get(known, 0.0) + REFUSAL_S:
            return
        self._refused_s[known] = now
        about = {
            "relay": session.name,
            "member": member["name"],
            "lease": refusal.grant[:40],
            "peer": refusal.peer[:64],
        }
        with self._store.transaction():
            self._store.note("relay.refuse", {**about, "reason": refusal.reason[:200]})

    def _announce(self, row: sqlite3.Row) -> None:
        verbs = {"offered": pb.LeaseOrder.OFFER, "active": pb.LeaseOrder.RENEW, "ended": pb.LeaseOrder.END}
        if row["state"] in verbs:
            self._order(verbs[row["state"]], row)
        self.book.mark_shown(row["id"], row["state"])

    def _order(self, verb: pb.LeaseOrder.Verb.ValueType, row: sqlite3.Row) -> None:
        info = self.book.info(row)
        order = pb.HubMessage(work=self._message(verb, row, info))
        for rank in info.ranks:
            session = self._sessions.find(rank.member)
            if session is not None:
                session.send(order)
        if verb != pb.LeaseOrder.OFFER:
            for relay in self._relays:
                session = self._sessions.find(relay.member)
                if session is not None:
                    session.send(pb.HubMessage(grant=_grant(info)))

    def _message(self, verb: pb.LeaseOrder.Verb.ValueType, row: sqlite3.Row, info: pb.WorkInfo) -> pb.WorkOrder:
        ttl_s = info.left_s if verb == pb.LeaseOrder.RENEW else self._limits.ttl_s
        duration_s = row["duration_s"]
        info.ClearField("reports")  # those are for its holder
        return pb.WorkOrder(verb=verb, work=info, ttl_s=ttl_s, duration_s=duration_s, relays=self._relays)

    def _active(self) -> list[sqlite3.Row]:
        return [row for row in self.book.living() if row["state"] == "active"]

    def _is_relay(self, session: MemberSession) -> bool:
        return bool(session.hello.relay.port) and "relay" in self._members.standing(session.identity).roles


def _point(session: MemberSession) -> pb.RelayPoint:
    said = session.hello.relay
    return pb.RelayPoint(
        member=session.identity, key=said.key, host=said.host or address_of(session.peer), port=said.port
    )


def _grant(info: pb.WorkInfo) -> pb.RelayGrant:
    """Return what a relay may join under a lease; nothing when it does not run."""
    left_s = info.left_s if info.state == pb.LeaseInfo.ACTIVE else 0.0
    return pb.RelayGrant(grant=info.lease, parties=[rank.member for rank in info.ranks], left_s=left_s)
