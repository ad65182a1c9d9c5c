"""Leases on tissue: exclusive stimulation, shared reading, a fair queue, quotas, fencing tokens.

The hub offers; the laboratory and its electrode engine decide. Every change is in the database before it is announced. A
lease that is not renewed ends by the hub's clock here and by the laboratory's own clock there: each end is safe without the
other.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from typing import Any

from grid.errors import GridError, GridRefused
from grid.hub.lease_table import DAY_S, LIVING, MAX_TEXT, VERDICT_WITHIN_S, LeaseTable
from grid.hub.members import Members
from grid.hub.store import Store
from grid.policy.policy import LeaseLimits
from grid.wire import grid_pb2 as pb

MODES = ("read", "stimulate")


class LeaseBook(LeaseTable):
    """The leases on tissue of one hub."""

    TABLE, KIND = "leases", "lease"

    def __init__(self, store: Store, members: Members, limits: LeaseLimits) -> None:
        super().__init__(store, limits.ttl_s)
        self._members = members
        self._limits = limits

    def request(self, member: str, request: pb.LeaseRequest) -> sqlite3.Row:
        """Record a request; it waits in the queue until :meth:`advance`.

        Args:
            member: Identity of the caller.
            request: What it asks for. A repeat with the same key returns the lease of the first.

        Raises:
            GridRefused: The tissue is unknown, a limit or a quota is exceeded, the form is wrong.
        """
        known = self._store.query("SELECT * FROM leases WHERE member = ? AND key = ?", member, request.key)
        if known:
            first: sqlite3.Row = known[0]
            return first
        lab, electrodes = self._checked(request)
        duration_s = request.duration_s or self._limits.max_duration_s
        if not 0 < duration_s <= self._limits.max_duration_s:
            raise GridRefused(f"a lease of {duration_s:g} s; the longest is {self._limits.max_duration_s:g} s")
        with self._store.transaction() as database:
            self._check_member(member, request, duration_s)
            lease, now = secrets.token_hex(8), self._store.utc()
            row = (
                lease,
                request.key,
                member,
                lab,
                request.organoid,
                json.dumps(electrodes),
                request.mode,
                request.purpose,
            )
            database.execute(
                "INSERT INTO leases (id, key, member, lab, organoid, electrodes, mode, purpose, state, requested_s,"
                " expires_s, duration_s, reason) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'queued', ?, ?, ?, 'waits for its turn')",
                (*row, now, now + self._limits.ttl_s, duration_s),
            )
        return self.find(lease)

    def put_first(self, lease: str, by: str) -> None:
        """Let a queued lease be the next one (operator). Raises :class:`GridError` when it does not wait."""
        with self._store.transaction() as database:
            done = database.execute("UPDATE leases SET first = 1 WHERE id = ? AND state = 'queued'", (lease,))
            if not done.rowcount:
                raise GridError(f"{lease} does not wait. Next: list the leases with `choroid grid lease list`")
            self._store.note("lease.first", {"lease": lease, "by": by})

    def verdict(self, lab: str, verdict: pb.LeaseVerdict) -> None:
        """Take the answer of a laboratory to an offer."""
        found = self._offered(verdict.lease, lab)
        if found is None:
            return
        if not verdict.accepted:
            self.end(verdict.lease, f"the laboratory refused: {verdict.reason[:MAX_TEXT]}")
            return
        now = self._store.utc()
        with self._store.transaction() as database:
            database.execute(
                "UPDATE leases SET state = 'active', granted_s = ?, expires_s = ?, reason = '' WHERE id = ?",
                (now, now + self._limits.ttl_s, verdict.lease),
            )
            about = {key: found[key] for key in ("member", "lab", "organoid", "mode", "purpose", "fence")}
            self._store.note(
                "lease.grant", {"lease": verdict.lease, **about, "electrodes": json.loads(found["electrodes"])}
            )

    def use(self, lab: str, use: pb.LeaseUse) -> None:
        """Take what a laboratory reports of a lease: charge, pulses, its end."""
        with self._store.transaction() as database:
            database.execute(
                "UPDATE leases SET charge_nc = MAX(charge_nc, ?), pulses = MAX(pulses, ?) WHERE id = ? AND lab = ?",
                (use.charge_nc, use.pulses, use.lease, lab),
            )
        if use.ended and self._store.query("SELECT 1 FROM leases WHERE id = ? AND lab = ?", use.lease, lab):
            self.end(use.lease, use.reason[:MAX_TEXT] or "the laboratory ended it")

    def advance(self, connected_labs: set[str]) -> None:
        """End what is over and offer what has its turn, in fair order.

        Args:
            connected_labs: Identities of the laboratories that offers can be sent to.
        """
        now = self._store.utc()
        for row in self._store.query(f"SELECT * FROM leases WHERE state IN {LIVING} ORDER BY rowid"):  # noqa: S608
            reason = self._over(row, now)
            if reason:
                self.end(row["id"], reason)
        living = self.living()
        waiting = [row for row in living if row["state"] == "queued" and row["lab"] in connected_labs]
        held = [row for row in living if row["state"] != "queued"]
        for row in self._in_order(waiting):
            if not any(_exclude(row, other) for other in held):
                self._offer(row)
            held.append(row)  # later ones must not overtake it on the same electrodes

    def info(self, row: sqlite3.Row) -> pb.LeaseInfo:
        """Return a lease as the message of the service."""
        lab = self._members.approved(row["lab"])
        ahead = 0
        if row["state"] == "queued":
            waiting = self._store.query(
                "SELECT * FROM leases WHERE state = 'queued' AND lab = ? AND organoid = ? ORDER BY rowid",
                row["lab"],
                row["organoid"],
            )
            ahead = [each["id"] for each in self._in_order(waiting)].index(row["id"]) + 1
        return pb.LeaseInfo(
            lease=row["id"],
            state=pb.LeaseInfo.State.Value(row["state"].upper()),
            member=row["member"],
            lab=row["lab"],
            organoid=row["organoid"],
            electrodes=json.loads(row["electrodes"]),
            mode=row["mode"],
            fence=row["fence"],
            expires_utc_s=row["expires_s"],
            until_utc_s=(row["granted_s"] or row["requested_s"]) + row["duration_s"],
            reason=row["reason"],
            position=ahead,
            lab_key=lab["public_key"] if lab else b"",
            purpose=row["purpose"],
            charge_nc=row["charge_nc"],
            pulses=row["pulses"],
            left_s=max(row["expires_s"] - self._store.utc(), 0.0),
        )

    def _checked(self, request: pb.LeaseRequest) -> tuple[str, list[int]]:
        lab = self._members.named(request.lab)["id"]
        offers = self._store.query("SELECT offer FROM tissues WHERE lab = ? AND organoid = ?", lab, request.organoid)
        if not offers:
            raise GridRefused(
                f"{request.lab} offers no organoid “{request.organoid[:60]}”. Next: `choroid grid hub status`"
            )
        offer = pb.TissueOffer.FromString(offers[0]["offer"])
        if request.mode not in MODES:
            raise GridRefused(f"the mode “{request.mode[:20]}” is unknown. Next: write read or stimulate")
        if request.mode == "stimulate" and not offer.stimulation:
            raise GridRefused(f"{request.organoid} may not be stimulated at present: {offer.reason}")
        if not 0 < len(request.key) <= 64 or len(request.purpose) > MAX_TEXT:
            raise GridRefused("key: 1 to 64 characters; purpose: at most 200")
        electrodes = sorted(set(request.electrodes)) or list(range(offer.electrodes))
        if electrodes[-1] >= offer.electrodes:
            raise GridRefused(f"there is no electrode {electrodes[-1]}; {request.organoid} has {offer.electrodes}")
        return lab, electrodes

    def _check_member(self, member: str, request: pb.LeaseRequest, duration_s: float) -> None:
        standing = self._members.standing(member)
        if request.mode == "stimulate" and "agent_host" not in standing.roles:
            why = "; ".join(standing.reasons.get("agent_host", ["it was not measured yet"]))
            raise GridRefused(f"stimulation needs the role agent_host, which this member has not: {why}")
        waiting = self._store.query("SELECT COUNT(*) FROM leases WHERE member = ? AND state = 'queued'", member)[0][0]
        if waiting >= self._limits.max_queued:
            raise GridRefused(f"{waiting} requests of yours wait already. Next: wait, or release one")
        if request.mode == "stimulate":
            self._check_quotas(member, request, duration_s)

    def _check_quotas(self, member: str, request: pb.LeaseRequest, duration_s: float) -> None:
        limits, now = self._limits, self._store.utc()
        used_s, charge_nc = self._used("member = ?", member, now)
        if used_s + duration_s > limits.stimulation_s_day:
            raise GridRefused(
                f"stimulation quota: {used_s:.0f} s of {limits.stimulation_s_day:g} s in 24 h are used. Next: ask for less,"
                " or read until then"
            )
        if charge_nc >= limits.charge_nc_day:
            raise GridRefused(f"charge quota: {charge_nc:.0f} nC of {limits.charge_nc_day:g} nC in 24 h are used")
        busy_s, _ = self._used("organoid = ?", request.organoid, now)
        if DAY_S - busy_s - duration_s < limits.rest_s_day:
            raise GridRefused(
                f"rest quota: {request.organoid} was leased for stimulation for {busy_s:.0f} s of the last 24 h, and"
                f" {limits.rest_s_day:g} s are its rest. Next: ask for less, or try tomorrow"
            )

    def _used(self, where: str, value: str, now: float) -> tuple[float, float]:
        """Return seconds of stimulation leases and charge (nC) of the last 24 h."""
        since = now - DAY_S
        rows = self._store.query(
            "SELECT granted_s, ended_s, state, charge_nc FROM leases WHERE mode = 'stimulate' AND granted_s > 0"  # noqa: S608
            f" AND (state != 'ended' OR ended_s > ?) AND {where}",
            since,
            value,
        )
        spans = [(row["ended_s"] if row["state"] == "ended" else now) - max(row["granted_s"], since) for row in rows]
        return sum(spans), sum(row["charge_nc"] for row in rows)

    def _in_order(self, waiting: list[sqlite3.Row]) -> list[sqlite3.Row]:
        """Return queued leases, given by age, in fair order: put first by an operator, then by least use in 24 h."""
        now = self._store.utc()
        used = {member: self._used("member = ?", member, now)[0] for member in {row["member"] for row in waiting}}
        return sorted(waiting, key=lambda row: (-row["first"], used[row["member"]]))

    def _over(self, row: sqlite3.Row, now: float) -> str:
        if self._members.approved(row["member"]) is None:
            return "its member was revoked"
        if self._members.approved(row["lab"]) is None:
            return "its laboratory was revoked"
        if row["state"] == "offered":
            late = now > row["granted_s"] + VERDICT_WITHIN_S
            return "the laboratory did not answer the offer" if late else ""
        if now > row["expires_s"]:
            return f"no heartbeat for {self._limits.ttl_s:g} s"
        if row["state"] == "active" and now > row["granted_s"] + row["duration_s"]:
            return f"its {row['duration_s']:g} s are over"
        if row["charge_nc"] >= self._limits.charge_nc_day:
            return "charge quota of 24 h"
        return ""

    def _parties(self, row: sqlite3.Row) -> tuple[str, ...]:
        return row["member"], row["lab"]

    def _offered(self, lease: str, lab: str) -> sqlite3.Row | None:
        found = self._store.query("SELECT * FROM leases WHERE id = ? AND lab = ? AND state = 'offered'", lease, lab)
        return found[0] if found else None


def _exclude(one: Any, other: Any) -> bool:
    """Return whether two leases cannot run at the same time: both stimulate a common electrode."""
    return bool(
        one["mode"] == other["mode"] == "stimulate"
        and (one["lab"], one["organoid"]) == (other["lab"], other["organoid"])
        and set(json.loads(one["electrodes"])) & set(json.loads(other["electrodes"]))
    )
