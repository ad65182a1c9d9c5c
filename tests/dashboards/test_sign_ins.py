"""Failed sign-ins are counted, recorded in few rows, and slowed; a valid credential never waits."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from dashboards import limits
from dashboards.access import CONNECTION
from dashboards.admission import ADDRESS_FAILURE_BURST, Admission
from dashboards.auth import MAX_SESSIONS, Role
from dashboards.limits import RequestLimits
from dashboards.rates import MAX_ADDRESSES
from dashboards.sign_ins import KIND, MAX_PAUSE_S, MAX_SOURCES, source_of
from tests.dashboards.test_server import serving
from tests.dashboards.world import BASE, World, world

HOSTILE = 10_000
COOKIE = "choroid_session_8080"


class LimitedPage:
    """The page behind its limits, as the server builds it, for clients of any address."""

    def __init__(self, w: World) -> None:
        self.admission = Admission()
        self._limits = RequestLimits(w.app, self.admission, 1.0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"] = {CONNECTION: self.admission.admit(scope["client"][0], lambda: None)}
        try:
            await self._limits(scope, receive, send)
        finally:
            self.admission.remove(scope["state"][CONNECTION])

    def client(self, address: str, **headers: str) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(self, client=(address, 40_000))
        return httpx.AsyncClient(transport=transport, base_url=BASE, headers=headers)


def rows(w: World) -> list[dict[str, Any]]:
    return [dict(row.body) for row in w.controller.journal.rows if row.kind == KIND]


@pytest.mark.virtual_time
async def test_P5_S3_ten_thousand_hostile_sign_ins_sign_out_no_person_and_fill_neither_memory_nor_journal() -> None:
    loop = asyncio.get_running_loop()
    async with world() as w:
        limited = LimitedPage(w)
        async with limited.client("10.0.0.1", authorization=f"Bearer {w.tokens[Role.OPERATOR]}") as operator:
            person = (await operator.post("/api/session")).cookies[COOKIE]
        answers: dict[int, int] = {}

        async def attack(number: int) -> None:
            address = f"10.1.{number // 5 % 2000 // 250}.{number // 5 % 250}"
            async with limited.client(address, authorization=f"Bearer guess-{number}") as hostile:
                status = (await hostile.post("/api/session")).status_code
            answers[status] = answers.get(status, 0) + 1

        async def person_works() -> None:
            begin_s = loop.time()
            async with limited.client("10.0.0.1", Cookie=f"{COOKIE}={person}", Origin=BASE) as browser:
                assert (await browser.post("/api/estop/reset", json={"reason": "none stands"})).status_code < 500
                assert (await browser.get("/api/rig")).json()["role"] == "operator"
            async with limited.client("10.1.0.0", authorization=f"Bearer {w.tokens[Role.VIEWER]}") as same_address:
                assert (await same_address.get("/api/rig")).status_code == 200
            assert loop.time() == begin_s, "a valid credential waits for nothing"

        for first in range(0, HOSTILE, 200):
            async with asyncio.TaskGroup() as group:
                for number in range(first, first + 200):
                    group.create_task(attack(number))
                await person_works()
        assert sum(answers.values()) == HOSTILE
        assert set(answers) == {401, 429}
        assert answers[429] > HOSTILE * 0.9, "most are held and refused"
        assert len(limited.admission) == 0
        assert len(limited.admission._failures) <= MAX_ADDRESSES
        assert len(limited.admission._requests) <= MAX_ADDRESSES

        viewer = w.tokens[Role.VIEWER]
        for _ in range(HOSTILE):
            assert w.auth.sign_in(viewer) is not None
        (held,) = [user["sessions"] for user in w.auth.users() if user["name"] == "a viewer"]
        assert held == MAX_SESSIONS
        await person_works()

        assert w.app.state.failures.count == HOSTILE
        await asyncio.sleep(2 * MAX_PAUSE_S)
        recorded = rows(w)
        assert sum(row["count"] for row in recorded) == HOSTILE
        assert len(recorded) < 12
        assert all(row["sources"] <= MAX_SOURCES and len(row["most"]) <= 5 for row in recorded)


@pytest.mark.virtual_time
async def test_P5_failures_are_recorded_at_once_then_summed_and_again_at_once_after_a_quiet_time() -> None:
    async with world() as w, w.http(None, authorization="Bearer wrong") as hostile:
        for _ in range(5):
            await hostile.get("/api/rig")
        assert [row["count"] for row in rows(w)] == [1]
        await asyncio.sleep(61.0)
        assert [row["count"] for row in rows(w)] == [1, 4]
        assert rows(w)[1]["most"] == {"127.0.0.1": 4}
        await asyncio.sleep(600.0)
        await hostile.get("/api/rig")
        assert [row["count"] for row in rows(w)] == [1, 4, 1]
        async with w.http(Role.ADMIN) as admin:
            told = (await admin.get("/api/users")).json()["failed_sign_ins"]
        assert (told["count"], told["last_source"]) == (6, "127.0.0.1")


@pytest.mark.virtual_time
async def test_a_request_without_a_credential_is_no_failed_sign_in() -> None:
    async with world() as w, w.http() as unknown:
        assert (await unknown.get("/api/rig")).status_code == 401
        assert w.app.state.failures.count == 0
        async with w.http(None, Cookie=f"{COOKIE}=guess") as guessing:
            assert (await guessing.get("/api/rig")).status_code == 401
        assert w.app.state.failures.count == 1


async def test_P5_failing_sign_ins_of_one_address_are_held_and_other_addresses_and_valid_tokens_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "HELD_S", 0.05)
    async with serving() as (w, port):
        url = f"http://127.0.0.1:{port}/api/session"

        def client(address: str, token: str) -> httpx.AsyncClient:
            transport = httpx.AsyncHTTPTransport(local_address=address)
            return httpx.AsyncClient(transport=transport, headers={"Authorization": f"Bearer {token}"}, timeout=60)

        statuses = []
        for _ in range(int(ADDRESS_FAILURE_BURST) + 5):
            async with client("127.0.0.1", "wrong") as hostile:
                statuses.append((await hostile.post(url)).status_code)
        assert statuses[: int(ADDRESS_FAILURE_BURST)] == [401] * int(ADDRESS_FAILURE_BURST)
        assert 429 in statuses[int(ADDRESS_FAILURE_BURST) :]
        async with client("127.0.0.2", "wrong") as slip:
            assert (await slip.post(url)).status_code == 401
        async with client("127.0.0.1", w.tokens[Role.VIEWER]) as person:
            assert (await person.post(url)).status_code == 200


async def test_P5_a_password_of_a_proxy_is_no_failed_sign_in() -> None:
    """A browser sends it with every request, also before it has signed in to the page."""
    async with world() as w:
        limited = LimitedPage(w)
        for _ in range(3 * int(ADDRESS_FAILURE_BURST)):
            async with limited.client("10.0.0.1", authorization="Basic YW5uYTpzZWNyZXQ=") as browser:
                assert (await browser.get("/")).status_code == 200
        assert w.app.state.failures.count == 0


async def test_P5_a_page_whose_session_has_ended_is_still_loaded() -> None:
    async with world() as w:
        limited = LimitedPage(w)
        for _ in range(3 * int(ADDRESS_FAILURE_BURST)):
            async with limited.client("10.0.0.1", Cookie=f"{COOKIE}=ended") as browser:
                assert (await browser.get("/")).status_code == 200


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:aaaa::1", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("x" * 500, "x" * 64),
    ],
)
def test_the_hosts_of_one_ipv6_network_are_one_source(address: str, source: str) -> None:
    assert source_of(address) == source
