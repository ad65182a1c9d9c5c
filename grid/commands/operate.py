"""`choroid grid hub status`, `member` and `lease`: what an operator of the hub sees and decides, in the hub's own folder."""

from __future__ import annotations

import contextlib
import getpass
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grid.clock import as_text
from grid.errors import GridError
from grid.hub.lease_table import LeaseTable
from grid.hub.leases import LeaseBook
from grid.hub.members import Members
from grid.hub.owner import owned
from grid.hub.store import FILE, Store
from grid.hub.work import WorkBook
from grid.policy.policy import load_policy
from grid.policy.standing import MemberStanding, roofline

SHOWN_FIGURES = ("cores", "gemm_flop_s", "memory_bytes_s", "downlink_bit_s", "uplink_bit_s", "round_trip_s")


@contextlib.contextmanager
def opened(data: Path) -> Iterator[Store]:
    """Open the database of a hub that exists. Raises :class:`GridError` when there is none in `data`."""
    if not (data / FILE).exists():
        raise GridError(f"{data} is no folder of a hub. Next: name the hub's folder with --data, on the hub's machine")
    store = owned(data)
    try:
        yield store
    finally:
        store.close()


def operator() -> str:
    """Return the name of the user, for the log."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "operator"


def members(
    data: Path, *, decision: str = "", who: str = "", refuse_waiting: str = "", reason: str = ""
) -> dict[str, Any]:
    """Decide about a member or all requests from an address if asked to, and return all members.

    Raises:
        GridError: There is no such hub or member.
    """
    with opened(data) as store:
        known = Members(store)
        if decision:
            known.decide(who, decision, operator(), reason)
        if refuse_waiting:
            known.refuse_waiting("" if refuse_waiting == "all" else refuse_waiting, operator(), reason)
        return {"members": [_member(row) for row in known.every()], "waiting": known.waiting()}


def leases(data: Path, *, end: str = "", first: str = "", reason: str = "") -> dict[str, Any]:
    """End a lease or let it be the next one if named, and return the leases.

    Raises:
        GridError: There is no such hub or lease.
    """
    with opened(data) as store:
        members, policy = Members(store), load_policy()
        book, work = LeaseBook(store, members, policy.leases), WorkBook(store, members, policy.work)
        if end:
            of: LeaseTable = work if store.query("SELECT 1 FROM work WHERE id = ?", end) else book
            of.find(end)
            of.end(end, reason or "ended by an operator", by=operator())
        if first:
            book.put_first(first, operator())
        return {
            "leases": [_lease(row) for row in (*book.living(), *book.ended(20))],
            "work": [_work(row) for row in (*work.living(), *work.ended(20))],
        }


def status(data: Path) -> dict[str, Any]:
    """Return the figures of a hub. Raises :class:`GridError` when there is none."""
    with opened(data) as store:
        count = store.query("SELECT state, COUNT(*) AS number FROM members GROUP BY state")
        running = store.query("SELECT state, COUNT(*) AS number FROM leases GROUP BY state")
        working = store.query("SELECT state, COUNT(*) AS number FROM work GROUP BY state")
        return {
            "hub": store.name,
            "members": {row["state"]: row["number"] for row in count},
            "leases": {row["state"]: row["number"] for row in running},
            "work": {row["state"]: row["number"] for row in working},
            "tissues": store.query("SELECT COUNT(*) FROM tissues")[0][0],
            "log_rows": store.log.size,
            "log_cosigned_rows": store.log.cosigned_size(),
        }


def members_text(answer: dict[str, Any]) -> str:
    """Return the members as a table with the reasons of rejections."""
    lines = [f"{'name':<20}{'kind':<8}{'state':<10}{'identity':<18}{'seen':<22}roles"]
    for each in answer["members"]:
        seen = each["seen_utc"] or "never"
        lines.append(
            f"{each['name']:<20}{each['kind']:<8}{each['state']:<10}{each['id'][:16]:<18}{seen:<22}{', '.join(each['roles'])}"
        )
        if each["figures"]:
            lines.append(
                "    " + ", ".join(f"{n} {each['figures'][n]:.4g}" for n in SHOWN_FIGURES if n in each["figures"])
            )
        lines += [f"    no {role}: {'; '.join(why)}" for role, why in each["reasons"].items() if why]
    lines += [f"{count} requests wait from {address}" for address, count in answer["waiting"].items()]
    return "\n".join(lines)


def leases_text(answer: dict[str, Any]) -> str:
    """Return the leases as a table."""
    lines = [f"{'lease':<18}{'state':<9}{'mode':<11}{'organoid':<16}{'fence':<7}{'member':<18}reason"]
    for each in answer["leases"]:
        lines.append(
            f"{each['lease']:<18}{each['state']:<9}{each['mode']:<11}{each['organoid']:<16}{each['fence']:<7}"
            f"{each['member'][:16]:<18}{each['reason']}"
        )
    if answer["work"]:
        lines.append(f"{'work lease':<18}{'state':<9}{'fence':<7}{'ranks':<7}{'job':<20}reason")
    for each in answer["work"]:
        lines.append(
            f"{each['lease']:<18}{each['state']:<9}{each['fence']:<7}{len(each['ranks']):<7}{each['job'][:18]:<20}"
            f"{each['reason']}"
        )
    return "\n".join(line.rstrip() for line in lines)


def status_text(answer: dict[str, Any]) -> str:
    """Return the figures as lines."""
    return "\n".join(f"{name}: {value}" for name, value in answer.items())


def _member(row: sqlite3.Row) -> dict[str, Any]:
    standing = MemberStanding(**json.loads(row["standing"]))
    return {
        "id": row["id"],
        "name": row["name"],
        "kind": row["kind"],
        "state": row["state"],
        "reason": row["reason"],
        "address": row["address"],
        "working_on": row["working_on"],
        "seen_utc": as_text(row["seen_s"]) if row["seen_s"] else "",
        "roles": list(standing.roles),
        "reasons": dict(standing.reasons),
        "figures": dict(standing.figures),
        "roofline": roofline(standing.figures) if standing.figures else {},
    }


def _lease(row: sqlite3.Row) -> dict[str, Any]:
    names = ("mode", "organoid", "fence", "member", "lab", "state", "purpose", "reason", "charge_nc", "pulses")
    return {"lease": row["id"], "electrodes": json.loads(row["electrodes"]), **{name: row[name] for name in names}}


def _work(row: sqlite3.Row) -> dict[str, Any]:
    return {
        "lease": row["id"],
        "ranks": json.loads(row["ranks"]),
        **{name: row[name] for name in ("job", "fence", "member", "state", "reason")},
    }
