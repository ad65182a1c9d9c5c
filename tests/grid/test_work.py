"""G7: relays and the loopback addresses of a job, with hub, relays and members in one process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import struct
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from grid.errors import GridError, GridRefused
from grid.hub.hub import Hub
from grid.identity.keys import IdentityKey
from grid.member.tissue import GridClient
from grid.relay import lines as relay_lines
from grid.relay.lines import RelayLine, RelayLines
from grid.relay.messages import framed, read_message
from grid.relay.server import MAX_ENTERING, MAX_UNKNOWN, RelayServer
from grid.relay.splice import BUFFER_BYTES, spliced
from grid.wire import grid_pb2 as pb
from grid.work import listeners, network
from grid.work.listeners import MARK, Listeners
from grid.work.network import JobNetwork
from grid.work.relay import RelayDaemon
from grid.work.served import WorkingMember
from tests.grid.works import a_relay, echo, echoed, ready, workers
from tests.grid.world import a_hub, a_member, approved, running, until

NAMES = ("alpha", "beta", "gamma")


def networks(members: list[WorkingMember]) -> list[JobNetwork]:
    return [each.network for each in members if each.network is not None]


@contextlib.asynccontextmanager
async def a_job(folder: Path) -> AsyncIterator[tuple[Hub, RelayDaemon, list[WorkingMember], str]]:
    """A hub, a relay, and a work lease of three members that are joined; the last is the lease."""
    async with (
        a_hub(folder) as hub,
        a_relay(folder, hub, "relay") as relay,
        workers(folder, hub, *NAMES) as members,
        GridClient(folder / "alpha") as client,
        client.work("test", NAMES) as lease,
    ):
        await ready(members)
        yield hub, relay, members, lease.info.lease


async def reached(address: str, port: int, within_s: float = 10.0) -> bytes:
    """Send something to an echo server until it answers."""
    async with asyncio.timeout(within_s):
        while True:
            try:
                return await echoed(address, port, b"hello")
            except OSError:
                await asyncio.sleep(0.02)
            except asyncio.IncompleteReadError:
                await asyncio.sleep(0.02)


async def test_G7_each_rank_reaches_each_other_at_its_address_and_any_port(tmp_path: Path) -> None:
    async with a_job(tmp_path) as (_, _, members, lease):
        nets = networks(members)
        for to in range(3):
            async with echo(nets[to].addresses[to]) as port:
                for of in {0, 1, 2} - {to}:
                    assert await reached(nets[of].addresses[to], port) == b"hello"
        await until((tmp_path / "beta" / "work.json").exists)
        about = json.loads((tmp_path / "beta" / "work.json").read_text())
        assert (about["lease"], about["rank"], about["addresses"]) == (lease, 1, nets[1].addresses)
    assert not (tmp_path / "beta" / "work.json").exists()


async def test_G7_large_answers_arrive_whole(tmp_path: Path) -> None:
    async with a_job(tmp_path) as (_, _, members, _):
        nets, data = networks(members), os.urandom(8 << 20)
        async with echo(nets[0].addresses[0]) as port:
            await reached(nets[1].addresses[0], port)
            assert await echoed(nets[1].addresses[0], port, data) == data


async def test_G7_a_connection_of_which_nothing_is_read_does_not_keep_a_member_from_leaving(tmp_path: Path) -> None:
    async with a_job(tmp_path) as (_, _, members, _):
        nets = networks(members)
        async with echo(nets[0].addresses[0]) as port:
            await reached(nets[1].addresses[0], port)
            reader, writer = await asyncio.open_connection(nets[1].addresses[0], port)
            writer.write(bytes(8 << 20))
            await reader.readexactly(1)
    writer.close()


async def test_S3_what_waits_in_a_relay_for_a_slow_end_is_bounded() -> None:
    loop, ends = asyncio.get_running_loop(), [socket.socketpair() for _ in range(2)]
    opened = [(await loop.connect_accepted_socket(asyncio.Protocol, inner))[0] for inner, _ in ends]
    for transport in opened:
        transport.set_write_buffer_limits(BUFFER_BYTES)
    joined = asyncio.create_task(spliced(*opened))
    (source, sink), data = (outer for _, outer in ends), os.urandom(16 << 20)
    for each in (source, sink):
        each.setblocking(False)
    sending = asyncio.create_task(loop.sock_sendall(source, data))
    await asyncio.sleep(0.5)
    assert not sending.done()
    assert opened[1].get_write_buffer_size() <= 2 * BUFFER_BYTES
    received = bytearray()
    while len(received) < len(data):
        received += await loop.sock_recv(sink, 1 << 20)
    assert received == data
    await sending
    source.close()
    assert await loop.sock_recv(sink, 1) == b"", "an end that closes closes the other"
    sink.close()
    await joined


async def test_S3_what_waits_in_a_relay_is_dropped_when_the_right_to_a_tunnel_ends() -> None:
    loop, ends = asyncio.get_running_loop(), [socket.socketpair() for _ in range(2)]
    opened = [(await loop.connect_accepted_socket(asyncio.Protocol, inner))[0] for inner, _ in ends]
    source, sink = (outer for _, outer in ends)
    for each in (source, sink):
        each.setblocking(False)
    async with running(spliced(*opened)):
        sending = asyncio.create_task(loop.sock_sendall(source, bytes(16 << 20)))
        await until(lambda: opened[1].get_write_buffer_size() > 0)
    assert opened[1].get_write_buffer_size() == 0
    with pytest.raises(ConnectionError):
        await sending
    for each in (source, sink):
        each.close()


async def test_X8_a_change_of_the_relays_is_no_heartbeat(tmp_path: Path) -> None:
    async with a_job(tmp_path) as (hub, _, _, lease):
        hub.store.database.execute("UPDATE work SET expires_s = expires_s - 600")
        row = hub.work.book.find(lease)
        order = hub.work._message(pb.LeaseOrder.RENEW, row, hub.work.book.info(row))
        assert 0 < order.ttl_s <= 300


async def test_S3_a_rank_opens_only_so_many_ports_at_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "MAX_PORTS", 3)
    async with a_job(tmp_path) as (_, _, members, _):
        peer = networks(members)[1]._peers[members[0].link.membership.key.id]
        async with contextlib.AsyncExitStack() as opened:
            for _ in range(5):
                await opened.enter_async_context(echo(networks(members)[0].addresses[0]))
            await until(lambda: len(peer._open) == 3)


async def test_G7_a_port_is_open_everywhere_before_its_number_arrives(tmp_path: Path) -> None:
    """As Gloo does: open a port, send its number, and the other dials at once."""
    async with a_job(tmp_path) as (_, _, members, _):
        nets = networks(members)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while await reader.read(1):
                listening = socket.create_server((nets[0].addresses[0], 0))
                opened.append(listening)
                writer.write(listening.getsockname()[1].to_bytes(2, "big"))
            writer.close()

        opened: list[socket.socket] = []
        async with await asyncio.start_server(serve, nets[0].addresses[0], 0) as server:
            port = server.sockets[0].getsockname()[1]
            await until(lambda: port in nets[1]._peers[members[0].link.membership.key.id]._open)
            reader, writer = await asyncio.open_connection(nets[1].addresses[0], port)
            for _ in range(20):
                writer.write(b".")
                number = int.from_bytes(await reader.readexactly(2), "big")
                for net in nets[1:]:
                    (await asyncio.open_connection(net.addresses[0], number))[1].close()
            writer.close()
        for each in opened:
            each.close()


async def test_S3_only_what_the_job_listens_on_can_be_reached(tmp_path: Path) -> None:
    """A server on all addresses counts if its process has the lease in its environment."""
    script = (
        "import socket,sys; s=socket.create_server(('', 0)); print(s.getsockname()[1], flush=True); sys.stdin.read()"
    )
    async with a_job(tmp_path) as (_, _, members, lease):
        nets = networks(members)
        for mark, found in ((lease, True), ("another", False)):
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", script),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env={**os.environ, MARK: mark},
            )
            assert process.stdout is not None
            port = int(await process.stdout.readline())
            if found:
                await until(lambda port=port: port in nets[0]._ports)  # type: ignore[misc]
            else:
                await asyncio.sleep(0.5)
            assert (port in nets[0]._ports) is found
            if not found:
                with pytest.raises(GridError, match="closed the tunnel"):
                    async with nets[1]._tunnel(nets[1]._peers[members[0].link.membership.key.id], port) as channel:
                        await channel.read_exactly(1)
            await process.communicate(b"")


async def test_S1_a_peer_outside_the_grant_is_refused_and_logged(tmp_path: Path) -> None:
    async with a_job(tmp_path) as (hub, relay, members, lease):
        outsider = await approved(tmp_path, hub, "delta")
        alpha = members[0].link.membership.key
        point = hub.work._relays[0]
        tries = [
            (outsider.key, alpha.id, "is no running lease of yours"),
            (alpha, outsider.key.id, "has no part in the lease"),
            (IdentityKey.generate(), alpha.id, "is no running lease of yours"),
        ]
        for key, peer, reason in tries:
            line = RelayLine(key, point, lambda *_: None)
            with pytest.raises(GridRefused, match=reason):
                async with line.entered(pb.RelayEntry(grant=lease, peer=peer)):
                    pytest.fail("it was let in")
        line = RelayLine(outsider.key, point, lambda *_: None)
        with pytest.raises(GridRefused, match="no lease that runs here names you"):
            async with line.entered(pb.RelayEntry()):
                pytest.fail("it was let in")

        def logged() -> list[tuple[str, str]]:
            rows = [json.loads(body) for _, body in hub.store.log.rows(0, 100)]
            return [(row["about"]["member"], row["about"]["lease"]) for row in rows if row["kind"] == "relay.refuse"]

        await until(lambda: len(logged()) == 2)
        assert logged() == [("delta", lease), ("alpha", lease)], "the unknown key makes no row"
        with pytest.raises(GridError, match="no lease"):
            hub.book.grant(lease)
        assert relay.server.grants() == [lease]


async def test_S3_what_is_no_entry_is_refused_and_the_relay_goes_on(tmp_path: Path) -> None:
    async with a_job(tmp_path) as (hub, _, members, lease):
        point, alpha = hub.work._relays[0], members[0].link.membership.key
        other = pb.RelayPoint(member=point.member, key=IdentityKey.generate().public, host=point.host, port=point.port)
        with pytest.raises(GridRefused, match="the entry is for another relay"):
            async with RelayLine(alpha, other, lambda *_: None).entered(pb.RelayEntry()):
                pytest.fail("it was let in")
        unsigned = framed(pb.RelayMessage(entry=pb.RelayEntry(key=alpha.public, grant=lease)))
        for junk in (b"", b"\xff" * 70_000, b"GET / HTTP/1.1\r\n\r\n", b"\0\0", unsigned):
            reader, writer = await asyncio.open_connection(point.host, point.port)
            writer.write(junk)
            writer.write_eof()
            with contextlib.suppress(OSError):
                await reader.read()
            writer.close()
        with pytest.raises(GridRefused, match="no such tunnel"):
            async with RelayLine(alpha, point, lambda *_: None).entered(pb.RelayEntry(tunnel="0" * 32)):
                pytest.fail("it was let in")
        nets = networks(members)
        async with echo(nets[0].addresses[0]) as port:
            assert await reached(nets[1].addresses[0], port) == b"hello"


async def test_G7_tunnels_are_back_over_another_relay_when_one_is_lost(tmp_path: Path) -> None:
    async with a_job(tmp_path) as (hub, _, members, _):
        nets = networks(members)
        peer = members[1].link.membership.key.id
        async with echo(nets[1].addresses[1]) as port:
            second = RelayDaemon(await approved(tmp_path, hub, "relay-2"))
            await second.open("127.0.0.1", 0)
            async with running(second.run()):
                await until(lambda: len(nets[0]._lines.towards(peer)) == 2)
                last = [line.point.port for line in nets[0]._lines.towards(peer)]
                assert second._point.port in last
            await until(lambda: len(nets[0]._lines.towards(peer)) == 1)
            assert await reached(nets[0].addresses[1], port) == b"hello"


async def test_G7_the_shortest_measured_way_is_taken_first() -> None:
    lines = RelayLines(IdentityKey.generate(), lambda *_: None)
    lines.use([pb.RelayPoint(member=name, host="127.0.0.1", port=9) for name in "abc"])
    ways = {"a": {"peer": 0.05}, "b": {"peer": 0.02, "other": 0.2}, "c": {}}
    for line, _ in lines._lines.values():
        line.round_trips_s = ways[line.point.member]
    assert [line.point.member for line in lines.towards("peer")] == ["b", "a"]
    await lines.close()


async def test_S1_a_revoked_member_is_gone_within_seconds(tmp_path: Path) -> None:
    async with a_job(tmp_path) as (hub, relay, members, _):
        nets = networks(members)
        async with echo(nets[0].addresses[0]) as port:
            await reached(nets[2].addresses[0], port)
            reader, writer = await asyncio.open_connection(nets[2].addresses[0], port)
            writer.write(b"x")
            assert await reader.readexactly(1) == b"x"
            hub.members.decide("gamma", "revoke", "operator", "test")
            async with asyncio.timeout(5):
                with contextlib.suppress(ConnectionError):
                    assert await reader.read() == b""
                await until(lambda: not relay.server.grants() and not any(each.lease for each in members))
            writer.close()


async def test_X8_tunnels_open_without_the_hub_and_end_by_the_clock_of_the_member(tmp_path: Path) -> None:
    async with contextlib.AsyncExitStack() as rest, contextlib.AsyncExitStack() as of_hub:
        hub = await of_hub.enter_async_context(a_hub(tmp_path))
        relay = await rest.enter_async_context(a_relay(tmp_path, hub, "relay"))
        members = await rest.enter_async_context(workers(tmp_path, hub, *NAMES))
        client = await rest.enter_async_context(GridClient(tmp_path / "alpha"))
        lease = await rest.enter_async_context(client.work("test", NAMES))
        await ready(members)
        nets, order = networks(members), pb.WorkOrder(verb=pb.LeaseOrder.RENEW, ttl_s=0.5)
        await of_hub.aclose()
        async with echo(nets[0].addresses[0]) as port:
            assert await reached(nets[1].addresses[0], port) == b"hello"
        order.work.lease = lease.info.lease
        members[1]._order(order)
        await until(lambda: members[1].lease is None, 5)
        relay.server.granted(pb.RelayGrant(grant=lease.info.lease, parties=["a", "b"], left_s=0.5))
        await until(lambda: not relay.server.grants(), 5)
        assert members[0].lease is not None


async def test_a_member_that_takes_no_work_refuses(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub, a_member(tmp_path, hub, "plain"), GridClient(tmp_path / "plain") as client:
        with pytest.raises(GridRefused, match="plain refused: it takes no work"):
            async with client.work("test", ["plain"]):
                pytest.fail("it runs")


async def test_a_member_works_only_with_the_peers_that_its_operator_lists(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub, workers(tmp_path, hub, "alpha", "beta") as members:
        known = members[1].link.membership.key.id
        (tmp_path / "beta" / "peers.txt").write_text(f"{known}  # itself\n")
        async with GridClient(tmp_path / "alpha") as client:
            with pytest.raises(GridRefused, match=r"beta refused: .*peers\.txt does not list"):
                async with client.work("test", ["alpha", "beta"]):
                    pytest.fail("it runs")


def test_listeners_are_those_of_the_address_and_those_of_marked_processes(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.77.1.3", 0)) as own,
        socket.create_server(("::ffff:127.77.1.3", 0), family=socket.AF_INET6, dualstack_ipv6=True) as mapped,
        socket.create_server(("127.77.1.4", 0)),
        socket.create_server(("", 0)) as marked,
        socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as likewise,
        socket.create_server(("", 0)) as foreign,
    ):
        for pid, mark, server in (("10", "lease", marked), ("11", "lease", likewise), ("12", "other", foreign)):
            (tmp_path / pid / "fd").mkdir(parents=True)
            (tmp_path / pid / "environ").write_bytes(f"A=1\0{MARK}={mark}\0".encode())
            (tmp_path / pid / "fd" / "3").symlink_to(f"socket:[{os.fstat(server.fileno()).st_ino}]")
        found = Listeners("127.77.1.3", "lease", tmp_path)
        wanted = {each.getsockname()[1] for each in (own, mapped, marked, likewise)}
        assert found.ports() == wanted
        own.close()
        assert len(found.ports()) == 3
        found.close()


def test_listeners_of_another_user_count_only_if_they_are_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.77.1.5", 0)) as own:
        found = Listeners("127.77.1.5", "lease", tmp_path)
        assert found.ports() == {own.getsockname()[1]}
        other = os.getuid() + 1
        monkeypatch.setattr(os, "getuid", lambda: other)
        assert found.ports() == frozenset()
        found.close()


def test_a_late_answer_of_the_kernel_is_not_taken_for_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Listeners("127.77.1.6", "lease", tmp_path)

    def late(_: bytes) -> None:
        raise TimeoutError("timed out")

    with socket.create_server(("127.77.1.6", 0)) as own:
        with monkeypatch.context() as patched:
            patched.setattr(listeners, "_messages", late)
            with pytest.raises(TimeoutError):
                found.ports()
        assert found.ports() == {own.getsockname()[1]}
        own.close()
        assert found.ports() == frozenset()
    found.close()


async def test_G7_a_queued_job_runs_when_the_one_before_it_ends(tmp_path: Path) -> None:
    async with (
        a_hub(tmp_path) as hub,
        a_relay(tmp_path, hub, "relay"),
        workers(tmp_path, hub, "alpha", "beta") as members,
        GridClient(tmp_path / "alpha") as client,
        contextlib.AsyncExitStack() as opened,
    ):
        async with client.work("one", ["alpha", "beta"]):
            await ready(members)
            second = asyncio.create_task(opened.enter_async_context(client.work("two", ["alpha", "beta"])))
            await until(lambda: len(hub.work.book.living()) == 2)
        lease = await second
        await ready(members)
        assert [each.lease.lease for each in members if each.lease] == 2 * [lease.info.lease]


async def test_G7_an_offer_is_made_again_to_a_member_that_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer was lost with the connection."""
    async with (
        a_hub(tmp_path) as hub,
        a_relay(tmp_path, hub, "relay"),
        workers(tmp_path, hub, "alpha", "beta") as members,
        GridClient(tmp_path / "alpha") as client,
        contextlib.AsyncExitStack() as opened,
    ):
        link = members[1].link
        with monkeypatch.context() as patched:
            patched.setattr(link, "send", lambda _: None)
            waiting = asyncio.create_task(opened.enter_async_context(client.work("test", ["alpha", "beta"])))
            await until(lambda: members[1].lease is not None)
        session = hub.sessions.find(link.membership.key.id)
        assert session is not None
        session.end("test")
        lease = await waiting
        assert lease.info.state == pb.LeaseInfo.ACTIVE


async def test_G7_a_kernel_that_lists_no_sockets_for_a_moment_ends_nothing_and_for_long_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_job(tmp_path) as (hub, _, members, lease):
        before, kernel = members[1].network, networks(members)[1]._listeners
        asked, ports = [], kernel.ports

        def failing() -> frozenset[int]:
            asked.append(1)
            raise TimeoutError("timed out")

        monkeypatch.setattr(kernel, "ports", failing)
        await until(lambda: len(asked) == 2)
        monkeypatch.setattr(kernel, "ports", ports)
        await asyncio.sleep(0.5)
        assert members[1].network is before
        monkeypatch.setattr(kernel, "ports", failing)
        await until(lambda: not any(each.lease for each in members), 10)
        assert "beta refused: its tunnels have failed here" in hub.work.book.find(lease)["reason"]


async def test_G7_an_older_exchange_that_ends_late_leaves_the_newer_alone(tmp_path: Path) -> None:
    class Silent:
        async def read_exactly(self, _: int) -> bytes:
            await asyncio.Event().wait()
            return b""

        async def write(self, data: bytes) -> None:
            written.append(data)

    async with a_job(tmp_path) as (_, _, members, _):
        net, written = networks(members)[0], list[bytes]()
        peer = net._peers[members[1].link.membership.key.id]
        channel: Any = Silent()
        older, newer = (asyncio.create_task(net._exchange(peer, channel)) for _ in range(2))
        await until(lambda: len(written) >= 1)
        older.cancel()
        await asyncio.gather(older, return_exceptions=True)
        assert peer.here, "the newer one lives"
        newer.cancel()
        await asyncio.gather(newer, return_exceptions=True)
        assert not peer.here


@contextlib.asynccontextmanager
async def a_false_relay(*, silent: bool, reset: bool = False) -> AsyncIterator[tuple[RelayLine, asyncio.Server]]:
    """A server that accepts; it lets in what comes unless it is silent, and may then reset the connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        if silent:
            return
        writer.write(framed(pb.RelayMessage(nonce=bytes(32))))
        await read_message(reader.readexactly, pb.RelayMessage)
        writer.write(framed(pb.RelayMessage(answer=pb.RelayAnswer())))
        if reset:
            await asyncio.sleep(0.1)
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()

    writers: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    point = pb.RelayPoint(key=bytes(32), host="127.0.0.1", port=server.sockets[0].getsockname()[1])
    try:
        yield RelayLine(IdentityKey.generate(), point, lambda *_: None), server
    finally:
        server.close()
        for each in writers:
            each.transport.abort()


async def test_G7_a_silent_relay_and_one_that_resets_are_errors_of_the_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then another relay is tried, and the ports of two ranks go on being exchanged."""
    monkeypatch.setattr(relay_lines, "JOIN_S", 0.2)
    peer = IdentityKey.generate().public
    async with a_false_relay(silent=True) as (line, _):
        with pytest.raises(GridError, match="did not answer within"):
            async with line.channel(pb.RelayEntry(), peer):
                pytest.fail("it was let in")
    async with a_false_relay(silent=False, reset=True) as (line, _):
        with pytest.raises(GridError):
            async with line.channel(pb.RelayEntry(), peer):
                pytest.fail("it was let in")


async def test_G7_tunnels_end_when_the_host_of_a_relay_has_vanished(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SILENT_S", 0.2), ("GONE_S", 0.5), ("AGAIN_S", 0.1)):
        monkeypatch.setattr(relay_lines, name, value, raising=False)

    async def opened() -> None:
        async with line.channel(pb.RelayEntry(), IdentityKey.generate().public):
            pytest.fail("it is open")

    async with a_false_relay(silent=False) as (line, server), running(line.run()):
        channel = asyncio.create_task(opened())
        await asyncio.sleep(0.1)
        server.close()
        with pytest.raises(GridError, match="did not open"):
            async with asyncio.timeout(5):
                await channel


async def test_S1_a_relay_that_names_the_key_of_another_is_refused(tmp_path: Path) -> None:
    """It could pass entries on to that one, and enter it as the member that signed them."""
    said: list[str] = []
    async with a_hub(tmp_path) as hub:
        relay = RelayDaemon(await approved(tmp_path, hub, "relay"), said.append)
        await relay.open("127.0.0.1", 0)
        relay._point.key = IdentityKey.generate().public
        async with running(relay.run()):
            await until(lambda: any("a relay has the key of its own identity" in each for each in said), 20)
        assert not hub.work._relays


@contextlib.asynccontextmanager
async def a_relay_server() -> AsyncIterator[tuple[RelayServer, list[pb.RelayRefusal], pb.RelayPoint]]:
    key, refused = IdentityKey.generate().public, list[pb.RelayRefusal]()
    relay = RelayServer(key, refused.append)
    server = await asyncio.start_server(relay.serve, "127.0.0.1", 0)
    try:
        yield relay, refused, pb.RelayPoint(key=key, host="127.0.0.1", port=server.sockets[0].getsockname()[1])
    finally:
        server.close()
        await relay.close()


async def test_S3_refusals_to_unknown_clients_are_few_and_have_no_control_characters(tmp_path: Path) -> None:
    async with a_relay_server() as (relay, refused, point):
        member = IdentityKey.generate()
        relay.granted(pb.RelayGrant(grant="lease", parties=[member.id, "other"], left_s=60))

        async def enters(key: IdentityKey, grant: str) -> None:
            with pytest.raises(GridRefused):
                async with RelayLine(key, point, lambda *_: None).entered(pb.RelayEntry(grant=grant, peer="x")):
                    pytest.fail("it was let in")

        await enters(IdentityKey.generate(), "\x1b[2J\n")
        assert not refused
        for _ in range(MAX_UNKNOWN + 5):
            await enters(IdentityKey.generate(), "lease")
        assert len(refused) == MAX_UNKNOWN
        for _ in range(3):
            await enters(member, "lease")
        assert [each.member for each in refused[MAX_UNKNOWN:]] == [member.id], "one a minute"


async def test_S3_connections_that_do_not_enter_are_bounded_for_each_address() -> None:
    async with a_relay_server() as (_, _, point), contextlib.AsyncExitStack() as opened:
        for _ in range(MAX_ENTERING):
            reader, writer = await asyncio.open_connection(point.host, point.port)
            opened.callback(writer.close)
            await reader.readexactly(2)
        reader, writer = await asyncio.open_connection(point.host, point.port)
        opened.callback(writer.close)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        reader, writer = await asyncio.open_connection(point.host, point.port, local_addr=("127.0.0.2", 0))
        opened.callback(writer.close)
        assert (await read_message(reader.readexactly, pb.RelayMessage)).nonce
