"""A clock that is set while leases run: by an hour, forward and backward, at the hub, a member or a laboratory."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grid.clock import utc_s
from grid.errors import GridError
from grid.grading.store import BoardStore
from grid.hub.hub import TICK_S, Hub
from grid.hub.leases import LeaseBook
from grid.hub.members import Members
from grid.hub.owner import owned
from grid.hub.store import Store
from grid.identity.authority import Authority
from grid.lab.daemon import LabDaemon
from grid.lab.engine import EngineAccess
from grid.member.tissue import GridClient, TissueLease
from grid.page.reading import HubReader
from grid.policy.policy import load_policy
from grid.wire import grid_pb2 as pb
from tests.grid.filled_hub import fill
from tests.grid.test_lease_ends import Desk, EngineWords, Laboratory
from tests.grid.world import a_hub, approved, membership, running, until

HOUR_S = 3600.0
TTL_S = 2.0
BOTH = pytest.mark.parametrize("jump_s", [HOUR_S, -HOUR_S])


class StandInEngine(EngineAccess):
    """An electrode engine that always allows stimulation."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, Desk(), "grid-")
        self._client = EngineWords()  # type: ignore[assignment]

    async def open(self) -> None:
        """Nothing has to be opened."""

    async def close(self) -> None:
        """Nothing has to be closed."""


@contextlib.asynccontextmanager
async def a_stand_in_lab(folder: Path, hub: Hub) -> AsyncIterator[LabDaemon]:
    daemon = LabDaemon(await approved(folder, hub, "lab", "lab"), StandInEngine(folder), "o1")
    async with running(daemon.run()):
        await until(lambda: any(each.offer.stimulation for each in hub.dispatch.tissues().tissues))
        yield daemon


@contextlib.asynccontextmanager
async def a_client(folder: Path, hub: Hub, name: str) -> AsyncIterator[GridClient]:
    found = await approved(folder, hub, name)
    async with GridClient(found.folder) as client:
        yield client


def reading(client: GridClient) -> Any:
    return client.lease("lab", "o1", [1], mode="read", purpose="test")


@BOTH
async def test_a_jump_of_the_hubs_clock_neither_ends_nor_extends_a_lease_and_is_followed(
    jump_s: float, tmp_path: Path
) -> None:
    jump = [0.0]
    async with (
        a_hub(tmp_path, rules={"leases": {"max_duration_s": 6.0}}, utc=lambda: utc_s() + jump[0]) as hub,
        a_stand_in_lab(tmp_path, hub) as lab,
        a_client(tmp_path, hub, "alpha") as alpha,
        a_client(tmp_path, hub, "beta") as beta,
    ):
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with reading(alpha) as held, contextlib.AsyncExitStack() as later:
            lease = held.info.lease
            jump[0] = jump_s
            await until(lambda: abs(hub.store.utc() - utc_s() - jump_s) < 1.0)
            await asyncio.sleep(4 * TICK_S)
            assert hub.book.find(lease)["state"] == "active"
            assert lab.leases.names() == [lease]
            await later.enter_async_context(reading(beta))
            await until(lambda: hub.book.find(lease)["state"] == "ended")
            assert loop.time() - began > 5.9
            await until(lambda: held.info.state == pb.LeaseInfo.ENDED)
            assert "6 s are over" in held.info.reason
        await until(lambda: not lab.leases.names() and not hub.book.living())
        kinds = [b'"kind":"hub.clock"' in body for _, body in hub.store.log.rows(0, 100)]
        assert sum(kinds) == 1
        newcomer = membership(tmp_path, hub, "gamma", utc=lambda: utc_s() + jump_s)
        assert (await newcomer.enrol()).state == pb.EnrolReply.PENDING


@BOTH
async def test_after_a_jump_of_the_hubs_clock_a_silent_holder_loses_its_lease_in_time(
    jump_s: float, tmp_path: Path
) -> None:
    jump = [0.0]
    async with (
        a_hub(tmp_path, rules={"leases": {"ttl_s": TTL_S}}, utc=lambda: utc_s() + jump[0]) as hub,
        a_stand_in_lab(tmp_path, hub) as lab,
        a_client(tmp_path, hub, "alpha") as alpha,
    ):
        request = pb.LeaseRequest(key="k", lab="lab", organoid="o1", electrodes=[1], mode="read", purpose="test")
        lease = (await alpha.stub.RequestLease(request)).lease
        await until(lab.leases.names)
        jump[0] = jump_s
        await until(lambda: not lab.leases.names() and hub.book.find(lease)["state"] == "ended")


@BOTH
def test_a_hub_that_starts_with_another_clock_gives_no_lease_more_than_its_time(jump_s: float, tmp_path: Path) -> None:
    now = [utc_s()]
    keys = fill(tmp_path)
    with opened(tmp_path, now) as (_, before):
        (active,) = (row for row in before.living() if row["state"] == "active")
        duration_s = active["duration_s"]
    now[0] += jump_s
    with opened(tmp_path, now) as (store, book):
        book.resume()
        restarted_s = now[0]
        while book.find(active["id"])["state"] != "ended" and now[0] < restarted_s + 2 * HOUR_S + duration_s:
            book.renew(active["member"], [active["id"]])
            book.advance({keys["lab-1"].id})
            now[0] += 10.0
        assert now[0] - restarted_s <= duration_s + 20.0
        used_s, _ = book._used("member = ?", active["member"], store.utc())
        assert 0.0 <= used_s <= duration_s + 20.0


def test_leases_that_ended_in_the_future_do_not_use_up_a_quota_for_ever(tmp_path: Path) -> None:
    year_s = 365 * 86_400.0
    now = [utc_s() + year_s]
    fill(tmp_path)
    with opened(tmp_path, now) as (_, book):
        (active,) = (row for row in book.living() if row["state"] == "active")
        book.end(active["id"], "over")
    now[0] -= year_s
    with opened(tmp_path, now) as (store, book):
        book.resume()
        now[0] += 86_400.0 + 1.0
        assert book._used("member = ?", active["member"], store.utc()) == (0, 0)


@contextlib.contextmanager
def opened(folder: Path, now: list[float]) -> Any:
    store = owned(folder, utc=lambda: now[0])
    try:
        yield store, LeaseBook(store, Members(store), load_policy().leases)
    finally:
        store.close()


@pytest.mark.virtual_time
@pytest.mark.parametrize("off_s", [0.0, -240.0, 240.0, -HOUR_S, HOUR_S])
async def test_heartbeats_do_not_depend_on_the_members_clock(off_s: float, tmp_path: Path) -> None:
    beats: list[float] = []
    loop = asyncio.get_running_loop()

    async def renewed(request: pb.RenewRequest, timeout: float) -> pb.LeasesReply:
        beats.append(loop.time())
        info = pb.LeaseInfo(lease="l1", state=pb.LeaseInfo.ACTIVE, expires_utc_s=utc_s() + 15.0, left_s=15.0)
        return pb.LeasesReply(leases=[info])

    client = SimpleNamespace(
        stub=SimpleNamespace(RenewLeases=renewed), membership=SimpleNamespace(utc=lambda: utc_s() + off_s)
    )
    held = TissueLease(client, pb.LeaseInfo(lease="l1", state=pb.LeaseInfo.ACTIVE))  # type: ignore[arg-type]
    async with running(held.beat()):
        await asyncio.sleep(120.0)
    gaps = [after - before for before, after in itertools.pairwise(beats)]
    assert min(gaps) > 2.0
    assert max(gaps) < 7.5


@pytest.mark.virtual_time
async def test_the_laboratory_ends_a_lease_after_its_duration_however_often_the_hub_renews(tmp_path: Path) -> None:
    async with Laboratory(tmp_path).running() as lab:
        lab.order(pb.LeaseOrder.OFFER, duration_s=60.0)
        for _ in range(100):
            await asyncio.sleep(1.0)
            lab.order(pb.LeaseOrder.RENEW, duration_s=60.0)
            if lab.ends():
                break
        assert lab.ends() == ["its 60 s are over"]
        assert not lab.desk.valid()


@BOTH
async def test_a_member_with_another_clock_keeps_trying_and_goes_on_when_it_is_set(
    jump_s: float, tmp_path: Path
) -> None:
    off = [0.0]
    said: list[str] = []
    async with a_hub(tmp_path) as hub:
        member = await approved(tmp_path, hub, "lab", "lab")
        member.utc = lambda: utc_s() + off[0]
        (member.folder / "certificate.pem").unlink()
        off[0] = jump_s
        daemon = LabDaemon(member, StandInEngine(tmp_path), "o1", said.append)
        async with running(daemon.run()) as task:
            await until(lambda: any("the clocks differ" in line and "timedatectl" in line for line in said))
            assert not task.done()
            off[0] = 0.0
            await until(daemon.link.connected.is_set)


async def test_a_certificate_that_cannot_be_renewed_for_the_clock_is_used_until_it_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_hub(tmp_path) as hub:
        member = await approved(tmp_path, hub, "alpha")
        member.utc = lambda: utc_s() + HOUR_S
        await member.require_certificate(1e9)
        assert "the clocks differ by +3600 s" in caplog.text


async def test_a_connection_lasts_although_its_certificate_ends_soon_and_cannot_be_renewed_for_the_clock(
    tmp_path: Path,
) -> None:
    said: list[str] = []
    async with a_hub(tmp_path) as hub:
        member = await approved(tmp_path, hub, "lab", "lab")
        member.utc = lambda: utc_s() + 21 * HOUR_S
        daemon = LabDaemon(member, StandInEngine(tmp_path), "o1", said.append)
        async with running(daemon.run()):
            await until(daemon.link.connected.is_set)
            await asyncio.sleep(3.0)
            assert [line for line in said if "connected" in line] == [f"connected to {hub.store.name}"]
            assert daemon.link.connected.is_set()


def test_a_hub_whose_authority_begins_later_names_the_clock(tmp_path: Path) -> None:
    Authority.in_folder(tmp_path, lambda: utc_s() + 3 * 86_400.0)
    with pytest.raises(GridError, match=r"clock of this machine.*authority begins"):
        Authority.in_folder(tmp_path)


def test_a_member_that_went_while_the_clock_was_ahead_is_not_shown_as_connected(tmp_path: Path) -> None:
    fill(tmp_path)
    reader = HubReader(tmp_path, utc=lambda: utc_s() - HOUR_S)
    assert [each.name for each in reader.read().members if each.connected] == []
    reader.close()


def test_calls_and_submissions_of_the_future_do_not_use_up_a_quota(tmp_path: Path) -> None:
    fill(tmp_path)
    store: Store = owned(tmp_path)
    boards = BoardStore(tmp_path, None, hub=store)
    store.database.execute("pragma query_only = 0")
    now = utc_s()
    assert boards.call_counted("b@1", "m", now + HOUR_S, now + HOUR_S - 60) == 1
    assert boards.call_counted("b@1", "m", now, now - 60) == 1
    (row,) = boards.rows("decode-stimulus@3", 1)
    boards.move(HOUR_S, now - 86_400.0)
    boards.not_after(now)
    assert boards.submitted_since("decode-stimulus@3", row.member, now - 1.0) == 1
    assert boards.submitted_since("decode-stimulus@3", row.member, now) == 0
    store.close()


def test_the_queue_is_served_by_age_even_if_the_clock_was_set_back_in_between(tmp_path: Path) -> None:
    now = [utc_s()]
    keys = fill(tmp_path)
    with opened(tmp_path, now) as (_, book):
        for row in book.living():
            book.end(row["id"], "over")
        now[0] += 2 * 86_400.0
        order = []
        for name in ("member-0", "member-1"):
            request = pb.LeaseRequest(
                key=f"again {name}", lab="lab-1", organoid="o1", electrodes=[1], mode="stimulate", purpose="test"
            )
            order.append(book.request(keys[name].id, request)["id"])
            now[0] -= HOUR_S
        assert [row["id"] for row in book.living()] == order
        assert [book.info(book.find(each)).position for each in order] == [1, 2]
