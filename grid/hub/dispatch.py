"""What the hub announces: offers, renewals and ends to laboratories, changes to members, the lists of the page."""

from __future__ import annotations

import logging
import sqlite3

from grid.errors import GridError
from grid.hub.leases import LeaseBook
from grid.hub.members import Members, member_message
from grid.hub.relaying import Tunnels
from grid.hub.sessions import MemberSession, Sessions
from grid.hub.store import Store
from grid.policy.policy import LeaseLimits
from grid.wire import grid_pb2 as pb

logger = logging.getLogger(__name__)


class Dispatch:
    """Turns the database's state into messages. Every state is announced until it is noted as shown."""

    def __init__(
        self,
        store: Store,
        members: Members,
        book: LeaseBook,
        sessions: Sessions,
        tunnels: Tunnels,
        limits: LeaseLimits,
    ) -> None:
        self._store = store
        self._members = members
        self._book = book
        self._sessions = sessions
        self._tunnels = tunnels
        self._limits = limits

    def now(self) -> None:
        """Advance the queue and announce what has changed."""
        self._book.advance(self._sessions.labs())
        for row in self._book.unshown():
            self._announce(row)

    def renewed(self, row: sqlite3.Row) -> None:
        """Pass a heartbeat on to the laboratory."""
        lab = self._sessions.find(row["lab"])
        if row["state"] == "active" and lab is not None:
            lab.send(self._order(pb.LeaseOrder.RENEW, row))

    def lab_came(self, session: MemberSession, serves: list[str]) -> None:
        """Tell a laboratory that connects which of its leases have ended; it has ended the others itself."""
        living = {row["id"]: row for row in self._book.living() if row["lab"] == session.identity}
        for lease in serves:
            if lease not in living:
                session.send(
                    pb.HubMessage(
                        lease=pb.LeaseOrder(
                            verb=pb.LeaseOrder.END, lease=pb.LeaseInfo(lease=lease, reason="it has ended at the hub")
                        )
                    )
                )
        for lease, row in living.items():
            if row["state"] != "queued" and lease not in serves:
                self._book.end(lease, "the laboratory does not serve it any more")

    def from_lab(self, session: MemberSession, kind: str, message: pb.MemberMessage) -> None:
        """Take a message that only laboratories send."""
        if kind == "tissue":
            self._offer(session, message.tissue)
        elif kind == "verdict":
            self._book.verdict(session.identity, message.verdict)
        elif kind == "use":
            self._book.use(session.identity, message.use)
        self.now()

    def tissues(self) -> pb.TissuesReply:
        """Return the tissue that laboratories offer."""
        living = self._book.living()
        names = {row["id"]: row["name"] for row in self._members.every()}
        reply = pb.TissuesReply()
        for row in self._store.query("SELECT * FROM tissues ORDER BY lab, organoid"):
            here = [each for each in living if (each["lab"], each["organoid"]) == (row["lab"], row["organoid"])]
            running = [each["mode"] for each in here if each["state"] == "active"]
            reply.tissues.append(
                pb.Tissue(
                    lab=names.get(row["lab"], row["lab"]),
                    offer=pb.TissueOffer.FromString(row["offer"]),
                    connected=self._sessions.find(row["lab"]) is not None,
                    readers=running.count("read"),
                    stimulators=running.count("stimulate"),
                    queued=sum(each["state"] == "queued" for each in here),
                )
            )
        return reply

    def members(self) -> pb.MembersReply:
        """Return all members and laboratories."""
        rows = self._members.every()
        return pb.MembersReply(
            members=[member_message(row, self._sessions.find(row["id"]) is not None) for row in rows]
        )

    def _offer(self, session: MemberSession, offer: pb.TissueOffer) -> None:
        with self._store.transaction() as database:
            row = (session.identity, offer.organoid[:60], offer.SerializeToString())
            database.execute("INSERT OR REPLACE INTO tissues VALUES (?, ?, ?)", row)
        if not offer.stimulation:
            for lease in self._book.living():
                if (lease["lab"], lease["organoid"], lease["mode"]) == (session.identity, offer.organoid, "stimulate"):
                    self._book.end(lease["id"], f"no stimulation at present: {offer.reason}")

    def _announce(self, row: sqlite3.Row) -> None:
        lab, member = self._sessions.find(row["lab"]), self._sessions.find(row["member"])
        if row["state"] == "offered":
            if lab is None or not lab.greeted:
                return
            lab.send(self._order(pb.LeaseOrder.OFFER, row))
        if row["state"] == "ended":
            self._tunnels.close_grant(row["id"])
            if lab is not None:
                lab.send(self._order(pb.LeaseOrder.END, row))
        if member is not None:
            member.send(pb.HubMessage(changed=self._book.info(row)))
        self._book.mark_shown(row["id"], row["state"])

    def _order(self, verb: pb.LeaseOrder.Verb.ValueType, row: sqlite3.Row) -> pb.HubMessage:
        member = self._members.approved(row["member"])
        if member is None and verb != pb.LeaseOrder.END:
            raise GridError("the member of this lease is not approved any more")
        return pb.HubMessage(
            lease=pb.LeaseOrder(
                verb=verb,
                lease=self._book.info(row),
                member_key=member["public_key"] if member else b"",
                ttl_s=self._limits.ttl_s,
                nc_s=self._limits.nc_s,
                pulses_min=self._limits.pulses_min,
                charge_nc=self._limits.charge_nc_day,
                duration_s=row["duration_s"],
            )
        )
