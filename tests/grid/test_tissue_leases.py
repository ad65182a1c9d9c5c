"""X2: leases over hub, laboratory and a real electrode engine. The engine has the final word."""

from __future__ import annotations

import asyncio
import json
import runpy
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from choroid.client.errors import NervesError
from choroid.client.nerves import AsyncNervesClient
from choroid.client.nerves_terms import PulsePhase
from choroid.client.wire import nerves_pb2 as nerves_pb
from grid.errors import GridError, GridRefused
from grid.identity.keys import IdentityKey
from grid.member.tissue import GridClient
from grid.relay.tls import TlsChannel
from grid.wire import grid_pb2 as pb
from tests.grid.labs import a_lab
from tests.grid.world import a_hub, a_member, approved, free_ports, running, until
from tests.nerves.test_gateway import ROOT, Engine, start, stop

PULSE = [PulsePhase(100, -0.2), PulsePhase(100, 0.2)]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    found = start(tmp_path_factory.mktemp("grid-engine"))
    yield found
    assert stop(found) == 0


async def test_X2_a_member_stimulates_through_the_tunnel_and_everything_is_recorded(
    tmp_path: Path, engine: Engine
) -> None:
    async with a_hub(tmp_path) as hub, a_member(tmp_path, hub, "alpha"), a_lab(tmp_path, hub, engine):
        async with GridClient(tmp_path / "alpha") as client:
            (tissue,) = await client.tissues()
            assert (tissue.lab, tissue.offer.organoid, tissue.offer.electrodes) == ("lab", "o1", 32)
            async with (
                client.lease("lab", "o1", [3, 4], mode="stimulate", purpose="test") as lease,
                lease.engine() as nerves,
            ):
                assert (await nerves.info()).electrodes == 32
                reply = await stimulate(nerves, 3)
                assert reply.accepted, reply.reasons
                with pytest.raises(NervesError, match="does not reach"):
                    await nerves.acquire_lease([5])
                name = lease.info.lease
            await until(lambda: hub.book.find(name)["pulses"] == 1)
            assert hub.book.find(name)["charge_nc"] == pytest.approx(0.04)
        kinds = [json.loads(body)["kind"] for _, body in hub.store.log.rows(0, 100)]
        assert kinds[-2:] == ["lease.grant", "lease.end"]


async def stimulate(nerves: AsyncNervesClient, electrode: int) -> nerves_pb.StimulateReply:
    held = await nerves.acquire_lease([electrode], ttl_ms=5000)
    try:
        reply = await nerves.stimulate(held.lease, [electrode], PULSE, purpose="grid test")
    finally:
        await nerves.release_lease(held.lease)
    return reply


async def test_X2_stimulation_is_exclusive_and_reading_is_shared(tmp_path: Path, engine: Engine) -> None:
    async with (
        a_hub(tmp_path) as hub,
        a_member(tmp_path, hub, "alpha"),
        a_member(tmp_path, hub, "beta"),
        a_lab(tmp_path, hub, engine),
        GridClient(tmp_path / "alpha") as alpha,
        GridClient(tmp_path / "beta") as beta,
    ):
        async with alpha.lease("lab", "o1", [1, 2], mode="stimulate", purpose="a") as first:
            with pytest.raises(GridRefused, match="position 1"):
                async with beta.lease("lab", "o1", [2, 3], mode="stimulate", purpose="b", wait_s=1.0):
                    pytest.fail("two holders of electrode 2")
            async with (
                beta.lease("lab", "o1", [5], mode="stimulate", purpose="b") as other,
                beta.lease("lab", "o1", purpose="b") as reading,
                reading.engine() as nerves,
            ):
                assert other.info.fence > first.info.fence
                assert (await nerves.summary()).electrodes == 32
                with pytest.raises(NervesError, match="scope"):
                    await nerves.acquire_lease([7])
            waiting = asyncio.create_task(one_lease(beta))
            await until(lambda: any(row["state"] == "queued" for row in hub.book.living()))
        assert await waiting > first.info.fence


async def test_X8_the_example_agent_waits_for_hub_laboratory_and_queue_and_says_so(
    tmp_path: Path, engine: Engine
) -> None:
    example = runpy.run_path(str(ROOT / "examples" / "grid_agent.py"))
    ports: dict[str, Any] = dict(zip(("enrolment_port", "member_port"), map(int, free_ports()), strict=True))
    said: list[str] = []
    async with a_hub(tmp_path, **ports) as hub, a_member(tmp_path, hub, "alpha"):
        pass
    async with running(example["listen"](str(tmp_path / "alpha"), said.append)) as agent:
        await until(lambda: any("the hub did not answer" in line for line in said))
        async with a_hub(tmp_path, **ports) as hub:
            await until(lambda: "waiting: no laboratory is connected" in said)
            async with a_lab(tmp_path, hub, engine):
                await until(agent.done)
    agent.result()
    assert "the lease on o1 is at position 1 of the queue" in said or "the laboratory decides on the lease" in said
    assert said[-1].endswith("spikes of o1 in lab within 2 s")


async def test_X5_a_new_connection_to_the_hub_cancels_neither_calls_nor_tunnels_that_are_under_way(
    tmp_path: Path, engine: Engine
) -> None:
    async with (
        a_hub(tmp_path) as hub,
        a_member(tmp_path, hub, "alpha"),
        a_lab(tmp_path, hub, engine),
        GridClient(tmp_path / "alpha") as alpha,
    ):
        async with alpha.lease("lab", "o1", purpose="a") as lease, lease.engine() as nerves:
            asking = asyncio.create_task(alpha.members())
            await asyncio.sleep(0)
            await alpha.reconnect()
            assert {each.name for each in await asking} == {"alpha", "lab"}
            assert (await nerves.info()).electrodes == 32
            assert len(await alpha.leases()) == 1
        await until(lambda: not alpha._former)


async def one_lease(client: GridClient) -> int:
    async with client.lease("lab", "o1", [2, 3], mode="stimulate", purpose="b") as lease:
        return lease.info.fence


async def test_X2_a_revoked_member_loses_lease_and_engine_within_seconds(tmp_path: Path, engine: Engine) -> None:
    async with (
        a_hub(tmp_path) as hub,
        a_member(tmp_path, hub, "alpha"),
        a_lab(tmp_path, hub, engine) as lab,
        GridClient(tmp_path / "alpha") as client,
        client.lease("lab", "o1", [1], mode="stimulate", purpose="a") as lease,
        lease.engine() as nerves,
    ):
        token = lab.leases.find(lease.info.lease).token  # type: ignore[union-attr]
        hub.members.decide("alpha", "revoke", "operator", "test")
        await until(lambda: not lab.leases.names(), 10)
        direct = AsyncNervesClient(engine.address, token)
        with pytest.raises(NervesError, match="does not know this token"):
            await direct.acquire_lease([1])
        await direct.close()
        with pytest.raises(NervesError):
            await nerves.info()


async def test_X2_an_emergency_stop_of_the_rig_ends_the_lease_until_it_is_lifted(
    tmp_path: Path, engine: Engine
) -> None:
    async with (
        a_hub(tmp_path) as hub,
        a_member(tmp_path, hub, "alpha"),
        a_lab(tmp_path, hub, engine) as lab,
        GridClient(tmp_path / "alpha") as client,
    ):
        async with client.lease("lab", "o1", [1], mode="stimulate", purpose="a") as lease, lease.engine() as nerves:
            order(engine, 1, "emergency stop")
            await until(lambda: lease.info.state == pb.LeaseInfo.ENDED)
            assert "emergency stop" in lease.info.reason
            assert not lab.leases.names()
            with pytest.raises(NervesError):
                await nerves.acquire_lease([1])
        await until(lambda: not hub.dispatch.tissues().tissues[0].offer.stimulation)
        with pytest.raises(GridRefused, match="may not be stimulated at present"):
            await hold(client)
        order(engine, 2, "")
        await until(lambda: hub.dispatch.tissues().tissues[0].offer.stimulation)
        await hold(client)


def order(engine: Engine, number: int, stopped: str) -> None:
    """Stop stimulation, or allow it again, over the pipe that only the engine's parent has."""
    assert engine.process.stdin is not None
    assert engine.process.stdout is not None
    engine.process.stdin.write(json.dumps({"order": number, "stopped": stopped}).encode() + b"\n")
    engine.process.stdin.flush()
    assert json.loads(engine.process.stdout.readline()) == {"done": number}


async def test_X8_the_laboratory_ends_leases_without_the_hub(tmp_path: Path, engine: Engine) -> None:
    rules = {"leases": {"ttl_s": 2}}
    async with (
        a_hub(tmp_path, rules=rules) as hub,
        a_member(tmp_path, hub, "alpha"),
        a_lab(tmp_path, hub, engine) as lab,
        GridClient(tmp_path / "alpha") as client,
        client.lease("lab", "o1", [1], mode="stimulate", purpose="a"),
    ):
        assert lab.leases.names()
        lab.link._take = lambda _: None  # nothing of the hub arrives any more
        await until(lambda: not lab.leases.names(), 10)
        agents = await lab._engine._desk.names()
        left = [n for n, valid in agents.items() if valid and n.startswith("grid-") and "watch" not in n]
        assert not left


async def test_X2_an_operator_ends_a_lease_and_lets_another_be_first(tmp_path: Path, engine: Engine) -> None:
    async with (
        a_hub(tmp_path) as hub,
        a_member(tmp_path, hub, "alpha"),
        a_member(tmp_path, hub, "beta"),
        a_lab(tmp_path, hub, engine),
        GridClient(tmp_path / "alpha") as alpha,
        GridClient(tmp_path / "beta") as beta,
        alpha.lease("lab", "o1", [1], mode="stimulate", purpose="a") as held,
    ):
        requests = [
            await client.stub.RequestLease(
                pb.LeaseRequest(key=f"k{n}", lab="lab", organoid="o1", electrodes=[1], mode="stimulate", purpose="q")
            )
            for n, client in enumerate((alpha, beta, beta))
        ]
        assert [each.position for each in requests] in ([1, 1, 2], [1, 2, 3], [3, 1, 2])
        hub.book.put_first(requests[2].lease, "operator")
        hub.book.end(held.info.lease, "operator's order", by="operator")
        await until(lambda: hub.book.find(requests[2].lease)["state"] == "active")
        await until(lambda: held.info.state == pb.LeaseInfo.ENDED)
        assert held.info.reason == "operator's order"
        again = await beta.stub.RequestLease(
            pb.LeaseRequest(key="k2", lab="lab", organoid="o1", electrodes=[1], mode="stimulate", purpose="q")
        )
        assert again.lease == requests[2].lease  # a repeated request is the same lease


async def test_X2_a_new_lease_takes_the_place_of_one_that_the_rig_was_too_busy_to_revoke(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        a_hub(tmp_path) as hub,
        a_member(tmp_path, hub, "alpha"),
        a_member(tmp_path, hub, "beta"),
        a_lab(tmp_path, hub, engine) as lab,
        GridClient(tmp_path / "alpha") as alpha,
        GridClient(tmp_path / "beta") as beta,
        alpha.lease("lab", "o1", [1, 2], mode="stimulate", purpose="a") as held,
    ):
        dismiss, failures = lab._engine.dismiss, iter([GridError("the rig is busy")])

        async def busy_once(name: str) -> None:
            for error in failures:
                raise error
            await dismiss(name)

        monkeypatch.setattr(lab._engine, "dismiss", busy_once)
        hub.book.end(held.info.lease, "operator's order", by="operator")
        async with beta.lease("lab", "o1", [2, 3], mode="stimulate", purpose="b") as lease:
            assert lab.leases.names() == [lease.info.lease]
        assert not next(failures, None)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"stimulation_s_day": 100}, "stimulation quota"),
        ({"rest_s_day": 86_000}, "rest quota"),
        ({"max_duration_s": 10}, "the longest is 10 s"),
    ],
)
async def test_X2_quotas(limits: dict[str, float], message: str, tmp_path: Path, engine: Engine) -> None:
    async with (
        a_hub(tmp_path, rules={"leases": limits}) as hub,
        a_member(tmp_path, hub, "alpha"),
        a_lab(tmp_path, hub, engine),
        GridClient(tmp_path / "alpha") as client,
    ):
        with pytest.raises(GridRefused, match=message):
            await hold(client, duration_s=500)
        with pytest.raises(GridRefused, match="no electrode 99"):
            await hold(client, electrodes=[99])
        with pytest.raises(GridRefused, match="offers no organoid"):
            await hold(client, organoid="nemo")


async def hold(
    client: GridClient, *, organoid: str = "o1", electrodes: Iterable[int] = (1,), duration_s: float = 5
) -> None:
    async with client.lease("lab", organoid, electrodes, mode="stimulate", purpose="q", duration_s=duration_s):
        pass


async def test_X2_a_used_up_charge_ends_the_lease(tmp_path: Path, engine: Engine) -> None:
    rules = {"leases": {"charge_nc_day": 0.03}}
    async with (
        a_hub(tmp_path, rules=rules) as hub,
        a_member(tmp_path, hub, "alpha"),
        a_lab(tmp_path, hub, engine),
        GridClient(tmp_path / "alpha") as client,
    ):
        async with client.lease("lab", "o1", [9], mode="stimulate", purpose="c") as lease, lease.engine() as nerves:
            await stimulate(nerves, 9)
            await until(lambda: lease.info.state == pb.LeaseInfo.ENDED, 15)
        assert "charge" in lease.info.reason
        with pytest.raises(GridRefused, match="charge quota"):
            await hold(client)


async def test_X2_a_member_cannot_use_the_lease_of_another(tmp_path: Path, engine: Engine) -> None:
    async with (
        a_hub(tmp_path) as hub,
        a_member(tmp_path, hub, "alpha"),
        a_lab(tmp_path, hub, engine),
        GridClient(tmp_path / "alpha") as alpha,
    ):
        await approved(tmp_path, hub, "mallory")
        async with GridClient(tmp_path / "mallory") as mallory, alpha.lease("lab", "o1", purpose="a") as lease:
            for call in (
                mallory.stub.ReleaseLease(pb.ReleaseRequest(lease=lease.info.lease)),
                mallory.stub.Relay(iter([pb.RelayFrame(lease=lease.info.lease)])).read(),
            ):
                with pytest.raises(grpc.aio.AioRpcError, match="of yours"):
                    await call
            renewed = await mallory.stub.RenewLeases(pb.RenewRequest(leases=[lease.info.lease]))
            assert not renewed.leases
            with pytest.raises(GridRefused, match="agent_host, which this member has not"):
                await hold(mallory)


async def test_the_hub_sees_no_payload_and_cannot_take_an_end(tmp_path: Path) -> None:
    lab, member, thief = (IdentityKey.generate() for _ in range(3))
    seen: list[bytes] = []

    async def ends(server_key: IdentityKey, client_key: IdentityKey) -> tuple[TlsChannel, TlsChannel]:
        there: asyncio.Queue[bytes] = asyncio.Queue()
        back: asyncio.Queue[bytes] = asyncio.Queue()

        async def forward(data: bytes) -> None:
            seen.append(data)
            await there.put(data)

        async def backward(data: bytes) -> None:
            seen.append(data)
            await back.put(data)

        client, server = TlsChannel(forward, back.get), TlsChannel(backward, there.get)
        tasks = [
            asyncio.create_task(client.open(client_key, lab.public, server_side=False)),
            asyncio.create_task(server.open(server_key, member.public, server_side=True)),
        ]
        done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        for task in done:
            task.result()
        return client, server

    client, server = await ends(lab, member)
    await client.write(b"a secret of the tissue")
    assert await server.read() == b"a secret of the tissue"
    await server.write(b"x" * 100_000)
    received = b""
    while len(received) < 100_000:
        received += await client.read()
    assert not any(b"secret" in data for data in seen)
    for wrong in ((thief, member), (lab, thief)):
        with pytest.raises(GridError, match="is not"):
            await ends(*wrong)
