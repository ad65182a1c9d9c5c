"""X2: what the hub announces about leases, in which order."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from typing import Any

import pytest

from grid.hub.hub import TICK_S
from grid.hub.leases import LeaseBook
from grid.hub.members import Members
from grid.hub.owner import owned
from grid.member.membership import Membership
from grid.policy.policy import load_policy
from grid.wire import grid_pb2 as pb
from grid.wire import grid_pb2_grpc as pb_grpc
from tests.grid.filled_hub import fill
from tests.grid.test_clock_jumps import a_client, a_stand_in_lab
from tests.grid.world import a_hub, until


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_X2_the_end_of_a_lease_is_announced_before_the_offer_that_follows_it(
    names: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = iter((*names, "of-a-job"))
    monkeypatch.setattr(secrets, "token_hex", lambda _: next(wanted))
    keys = fill(tmp_path)
    store = owned(tmp_path)
    book = LeaseBook(store, Members(store), load_policy().leases)
    for row in book.unshown():
        book.mark_shown(row["id"], row["state"])
    first, second = names
    book.end(first, "over")
    book.advance({keys["lab-1"].id})
    assert [(row["id"], row["state"]) for row in book.unshown()] == [(first, "ended"), (second, "offered")]
    store.close()


async def test_X2_a_waiting_lease_is_offered_after_the_laboratory_has_said_what_it_serves(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub, a_client(tmp_path, hub, "alpha") as alpha:
        async with a_stand_in_lab(tmp_path, hub):
            """It has offered its tissue, and loses its connection."""
        await until(lambda: not hub.sessions.find(hub.members.named("lab")["id"]))
        request = pb.LeaseRequest(key="k", lab="lab", organoid="o1", electrodes=[1], mode="read", purpose="test")
        lease = (await alpha.stub.RequestLease(request)).lease
        channel = Membership.load(tmp_path / "lab").channel()
        call: Any = pb_grpc.HubStub(channel).Session()  # type: ignore[call-arg]
        await until(lambda: hub.sessions.find(hub.members.named("lab")["id"]))
        await asyncio.sleep(2 * TICK_S)
        assert hub.book.find(lease)["state"] == "queued"
        await call.write(pb.MemberMessage(hello=pb.Hello()))
        await until(lambda: hub.book.find(lease)["state"] == "offered")
        await call.write(pb.MemberMessage(verdict=pb.LeaseVerdict(lease=lease, accepted=True)))
        await until(lambda: hub.book.find(lease)["state"] == "active")
        call.cancel()
        await channel.close(None)
