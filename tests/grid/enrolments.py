"""Hostile requests to enrol, among which a laboratory must join: `python -m tests.grid.enrolments [REQUESTS]`.

Each unknown client has a key of its own and a signed request; names are those that others may want. They come from one
address, from some, or each from its own. The laboratory asks again and again, as `choroid grid join` does.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from grid.clock import perf_s
from grid.errors import GridRefused
from grid.hub.members import Members
from grid.hub.owner import owned
from grid.identity.keys import IdentityKey
from grid.identity.requests import check_request, signed_request
from grid.policy.policy import EnrolmentLimits
from grid.wire import grid_pb2 as pb

ORIGINS: dict[str, Callable[[int], str]] = {
    "one address": lambda _: "198.51.100.1",
    "a hundred addresses": lambda number: f"198.51.100.{number % 100}",
    "each its own address": lambda number: f"2001:db8:{number >> 16:x}:{number & 0xFFFF:x}::/64",
}
ASKS_EVERY = 20
"""Hostile requests between two of the laboratory, which asks every two seconds."""


@dataclass
class EnrolmentFigures:
    """What a group has reached. `faults` is empty if it has reached nothing."""

    requests: int = 0
    refused: int = 0
    waiting: int = 0
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)


def request_of(key: IdentityKey, name: str, now_s: float) -> pb.EnrolRequest:
    return signed_request(key, name, "lab", b"", b"", now_s)


def besieged(folder: Path, requests: int, origin: str, limits: EnrolmentLimits | None = None) -> EnrolmentFigures:
    """Let a group ask, and judge: the laboratory waits or is asked back at once, is approved, and names are free again."""
    limits = limits or EnrolmentLimits()
    now = [1_800_000_000.0]
    found, start = EnrolmentFigures(requests), perf_s()
    with closing(owned(folder, utc=lambda: now[0])) as store:
        store.database.execute("PRAGMA synchronous = OFF")
        members, known = Members(store, limits), IdentityKey.generate()
        absent = 0
        for number in range(requests):
            now[0] += 0.1
            asked = request_of(IdentityKey.generate(), f"lab-{number}", now[0])
            check_request(asked, now[0])
            try:
                members.request(asked, ORIGINS[origin](number))
            except GridRefused:
                found.refused += 1
            if number % ASKS_EVERY == 0:
                try:
                    members.request(request_of(known, "berlin", now[0]), "203.0.113.9")
                except GridRefused as error:
                    absent += 1
                    found.faults.append(f"the laboratory is refused: {error}")
        found.waiting = sum(members.waiting().values())
        if found.waiting > limits.waiting:
            found.faults.append(f"{found.waiting} requests wait; the limit is {limits.waiting}")
        if store.log.size:
            found.faults.append(f"unknown clients have made {store.log.size} rows of the log")
        if len(members.every()) > limits.waiting:
            found.faults.append(f"the database holds {len(members.every())} identities")
        try:
            members.request(request_of(known, "berlin", now[0]), "203.0.113.9")
            members.decide("berlin", "approve", "operator")
        except GridRefused as error:
            found.faults.append(f"the laboratory is not approved: {error}")
        taken = next((row["name"] for row in members.every() if row["state"] == "pending"), "")
        if taken:
            members.refuse_waiting("", "operator", "unknown clients")
            _free(members, taken, now[0], "a refusal", found)
            now[0] += limits.expire_s
            _free(members, f"{taken}-2", now[0], "", found)
            now[0] += limits.expire_s
            _free(members, f"{taken}-2", now[0], "its time", found)
        if [row["name"] for row in members.every() if row["state"] == "approved"] != ["berlin"]:
            found.faults.append("the laboratory is gone")
    found.seconds = perf_s() - start
    return found


def _free(members: Members, name: str, now_s: float, after: str, found: EnrolmentFigures) -> None:
    try:
        members.request(request_of(IdentityKey.generate(), name, now_s), "203.0.113.10")
    except GridRefused as error:
        found.faults.append(f"{name} is not free after {after}: {error}")


def main(requests: int) -> int:
    """Run every origin and print; the exit status says whether one has reached something."""
    failed = False
    for origin in ORIGINS:
        with tempfile.TemporaryDirectory() as folder:
            found = besieged(Path(folder), requests, origin)
        failed = failed or bool(found.faults)
        print(
            f"{origin}: {found.requests} requests, {found.refused} refused, {found.waiting} wait,"
            f" {1000 * found.seconds / requests:.2f} ms each; faults {found.faults[:3]}",
            flush=True,
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
