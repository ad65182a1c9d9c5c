"""Many connections without a credential do not block a client that has one (A9, S3)."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
import websockets

from dashboards.admission import ADDRESS_BURST, ADDRESS_REQUESTS_PER_S, BURST, Admission, AdmittedConnection
from dashboards.app import STATIC
from dashboards.auth import Role
from tests.dashboards.test_server import request, serving, spoken
from tests.processes import waited_s


@asynccontextmanager
async def idle_connections(port: int, count: int, sends: bytes = b"") -> AsyncIterator[list[socket.socket]]:
    """Open `count` connections from this machine that send `sends` and then nothing."""
    loop = asyncio.get_running_loop()
    sockets = []
    try:
        for _ in range(count):
            one = socket.socket()
            one.setblocking(False)
            await loop.sock_connect(one, ("127.0.0.1", port))
            if sends:
                await loop.sock_sendall(one, sends)
            sockets.append(one)
        yield sockets
    finally:
        for one in sockets:
            one.close()


@pytest.mark.parametrize("sends", [b"", b"POST /api/estop HT", b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"])
async def test_A9_300_idle_sockets_without_credentials_do_not_block_a_stop(sends: bytes) -> None:
    """The reproduction: /api/estop and /health answered 503."""
    async with serving() as (w, port), idle_connections(port, 300, sends):
        await asyncio.sleep(0.5)
        began_s = time.monotonic() - waited_s()
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60.0) as client:
            assert (await client.get("/health")).status_code == 200
            headers = {"Authorization": f"Bearer {w.tokens[Role.OPERATOR]}"}
            assert (await client.post("/api/estop", json={}, headers=headers)).status_code == 200
        assert time.monotonic() - waited_s() - began_s < 5.0, "without the time in which this process had no processor"
        assert w.controller.gate.emergency is not None


async def test_A9_a_page_that_is_signed_in_stays_and_the_longest_idle_of_many_connections_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Admission.__init__, "__kwdefaults__", {"time_scale": 1.0, "max_unknown": 100, "max_known": 192})
    async with serving() as (w, port):
        headers = {"Authorization": f"Bearer {w.tokens[Role.VIEWER]}"}
        async with (
            websockets.connect(f"ws://127.0.0.1:{port}/ws", additional_headers=headers) as page,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers) as client,
        ):
            assert (await client.get("/api/rig")).status_code == 200
            async with idle_connections(port, 250) as sockets:
                assert (await client.get("/api/rig")).status_code == 200
                assert await page.recv()
                gone = [closed(one) for one in sockets]
                assert gone == [True] * 150 + [False] * 100
            assert (await client.get("/api/rig")).status_code == 200


async def test_S3_requests_without_a_credential_are_served_slowly_and_a_head_without_end_is_refused() -> None:
    async with serving() as (w, port):
        endless = await spoken(port, b"GET / HTTP/1.1\r\n" + b"X" * 40_000)
        assert endless == b"" or endless.startswith(b"HTTP/1.1 400")
        ask = request("Host: 127.0.0.1\r\n", "/health", "GET")
        began_s = time.monotonic()
        count = int(ADDRESS_BURST) + 80
        many = asyncio.gather(*(spoken(port, ask) for _ in range(count)))
        await asyncio.sleep(0.5)
        token = f"Authorization: Bearer {w.tokens[Role.OPERATOR]}\r\nHost: 127.0.0.1:{port}\r\n"
        assert (await spoken(port, request(token, "/api/rig", "GET"))).startswith(b"HTTP/1.1 200")
        assert not many.done(), "a known caller passes the waiting ones"
        assert all(answer.startswith(b"HTTP/1.1 200") for answer in await many)
        assert time.monotonic() - began_s >= (count - ADDRESS_BURST) / ADDRESS_REQUESTS_PER_S


async def test_a_page_that_is_opened_five_times_at_once_comes_whole_each_time() -> None:
    """One script that is refused leaves a page that never starts; a page has a request for each of its files."""
    files = [path.relative_to(STATIC) for path in STATIC.rglob("*") if path.suffix in (".js", ".css", ".svg")]
    assert 5 * (len(files) + 1) <= ADDRESS_BURST
    async with serving() as (_, port), httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        for _ in range(5):
            answers = [await client.get(f"/static/{path.as_posix()}") for path in files]
            assert {answer.status_code for answer in answers} == {200}


def closed(one: socket.socket) -> bool:
    """Whether the far end has closed it."""
    try:
        return one.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


async def test_A9_1000_hostile_sockets_do_not_block_a_stop() -> None:
    """Idle, slow, half-sent, garbage, upgrades without credentials, coming and going: from another process."""
    async with serving() as (w, port):
        command = [sys.executable, "-m", "verification.bench.hostile", "127.0.0.1", str(port), "1000"]
        hostile = await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert hostile.stdin is not None
        assert hostile.stdout is not None
        try:
            async with asyncio.timeout(60):
                assert await hostile.stdout.readline() == b"ready\n"
            headers = {"Authorization": f"Bearer {w.tokens[Role.OPERATOR]}"}
            for _ in range(20):
                async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=5.0) as client:
                    answer = await client.post("/api/estop", json={}, headers=headers)
                    assert answer.status_code == 200
        finally:
            hostile.stdin.close()
            await hostile.wait()


class Connection:
    """A connection without a socket."""

    closed = False

    def close(self) -> None:
        self.closed = True


class SocketlessAdmission(Admission):
    """An admission of connections without sockets."""

    def new_connection(self, address: str) -> tuple[Connection, AdmittedConnection]:
        made = Connection()
        return made, self.admit(address, made.close)


@pytest.mark.virtual_time
async def test_S3_the_address_with_the_largest_number_is_closed_first_and_a_new_connection_never() -> None:
    admission = SocketlessAdmission(max_unknown=64)
    neighbour, _ = admission.new_connection("10.0.0.2")
    hostile = [admission.new_connection("10.0.0.66") for _ in range(63)]
    admission.active(hostile[0][1])
    newcomer, _ = admission.new_connection("10.0.0.2")
    assert [made.closed for made, _ in hostile[:3]] == [False, True, False], "the longest idle of the address with most"
    assert not neighbour.closed
    assert not newcomer.closed
    assert len(admission) == 64
    admission.close()
    assert newcomer.closed


@pytest.mark.virtual_time
async def test_S3_unknown_connections_are_closed_when_they_request_nothing_and_known_ones_are_not() -> None:
    admission = SocketlessAdmission()
    (idle, _), (asks, asking), (known, knows) = (admission.new_connection("10.0.0.2") for _ in range(3))
    admission.identified(knows, "anna", Role.VIEWER)
    for _ in range(6):
        await asyncio.sleep(5.0)
        admission.active(asking)
    assert (idle.closed, asks.closed, known.closed) == (True, False, False)
    admission.close()


@pytest.mark.virtual_time
async def test_A9_a_viewer_with_many_connections_blocks_no_operator() -> None:
    admission = SocketlessAdmission(max_known=50)
    operator, at_work = admission.new_connection("10.0.0.2")
    admission.identified(at_work, "ben", Role.OPERATOR)
    viewers = []
    for _ in range(150):
        made, admitted = admission.new_connection("10.0.0.3")
        admission.identified(admitted, "anna", Role.VIEWER)
        viewers.append(made)
    assert len(admission) == 50
    another, second = admission.new_connection("10.0.0.2")
    admission.identified(second, "ben", Role.OPERATOR)
    assert not operator.closed
    assert not another.closed
    assert viewers[0].closed
    assert not viewers[-1].closed
    admission.close()


@pytest.mark.virtual_time
async def test_S3_requests_without_a_credential_are_limited_for_an_address_and_altogether() -> None:
    admission = SocketlessAdmission()
    assert sum(admission.may_request("10.0.0.66") for _ in range(1000)) == ADDRESS_BURST
    assert admission.may_request("10.0.0.2"), "another address has a limit of its own"
    await asyncio.sleep(1.0)
    assert sum(admission.may_request("10.0.0.66") for _ in range(1000)) == 40
    await asyncio.sleep(10.0)
    assert sum(admission.may_request(f"10.1.0.{n}") for n in range(250) for _ in range(10)) == BURST


@pytest.mark.virtual_time
async def test_a_connection_that_is_closed_twice_is_removed_once() -> None:
    admission = SocketlessAdmission()
    _, admitted = admission.new_connection("10.0.0.2")
    admission.remove(admitted)
    admission.remove(admitted)
    admission.active(admitted)
    admission.identified(admitted, "anna", Role.VIEWER)
    assert len(admission) == 0
    admission.close()
