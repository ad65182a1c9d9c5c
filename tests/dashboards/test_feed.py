"""The live feed: the whole state first, then the changes. A slow client loses its own data; unknown ones are refused."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from datetime import timedelta

import pytest

from dashboards.auth import SESSION_AGE, Role, Token, User
from dashboards.feed import KNOWN_FOR_S, MAX_CLIENTS, MAX_RECEIVED, PERIOD_S, QUEUE_MESSAGES, SEND_TIME_S
from dashboards.feed_changes import changed
from tests.dashboards.world import HOST, world

pytestmark = pytest.mark.virtual_time


async def test_a_page_gets_everything_then_only_what_changes() -> None:
    async with world() as w, w.socket(Role.VIEWER) as page:
        first = await page.body()
        assert first["whole"] is True
        assert first.keys() >= {"readings", "actuators", "volumes", "run", "alarms", "ledger", "scores", "speed"}
        assert len(first["spikes"]) > 50
        second = await page.body()
        assert "whole" not in second
        assert "readings" not in second  # nothing has ticked meanwhile
        w.controller.failing["ph_loop.ph"] = "no reply"
        w.controller.silent = set(w.controller.store.state.readings) - {"ph_loop.ph", "balance.mass"}
        w.controller.tick()
        third = await page.body()
        assert third["readings"]["ph_loop.ph"]["quality"] == "missing"


async def test_messages_come_no_faster_than_four_a_second() -> None:
    async with world() as w, w.socket(Role.VIEWER) as page:
        begin_s = asyncio.get_running_loop().time()
        for _ in range(20):
            await page.body()
        assert asyncio.get_running_loop().time() - begin_s >= 19 * PERIOD_S - 1e-6


async def test_each_spike_is_sent_once() -> None:
    async with world() as w, w.socket(Role.VIEWER) as page:
        seen = [tuple(spike) for spike in (await page.body())["spikes"]]
        for _ in range(8):
            seen += [tuple(spike) for spike in (await page.body())["spikes"]]
        assert len(seen) == len(set(seen))
        assert [at for at, _ in seen] == sorted(at for at, _ in seen)


async def test_N6_a_slow_page_loses_its_own_data_and_delays_no_other() -> None:
    async with world() as w, w.socket(Role.VIEWER) as slow, w.socket(Role.VIEWER) as quick:
        await slow.body()
        await quick.body()
        slow.may_take.clear()
        for _ in range(3 * QUEUE_MESSAGES):
            await quick.body()
        slow.may_take.set()
        kept: list[dict[str, object]] = []
        while not kept or "whole" not in kept[-1]:
            kept.append(await slow.body())
        assert len(kept) <= QUEUE_MESSAGES + 3  # the rest was dropped, and the whole state makes up for it


async def test_a_page_that_takes_nothing_is_let_go() -> None:
    async with world() as w:
        async with w.socket(Role.VIEWER) as stuck:
            await stuck.body()
            stuck.may_take.clear()
            await asyncio.sleep(SEND_TIME_S + 2 * PERIOD_S)
            assert w.app.state.feed.clients == 0
        assert w.app.state.feed.clients == 0


async def test_a_change_of_speed_does_not_leave_the_page_waiting() -> None:
    async with world() as w, w.socket(Role.VIEWER) as page, w.http(Role.OPERATOR) as operator:
        await operator.put("/api/speed", json={"speed": 600})
        while (await page.body()).get("speed") != 600:
            pass
        begin_s = asyncio.get_running_loop().time()
        await asyncio.sleep(1)
        await operator.put("/api/speed", json={"speed": 1})
        while (await page.body()).get("speed") != 1:
            pass
        assert asyncio.get_running_loop().time() - begin_s < 2


async def test_S1_no_client_receives_the_feed_without_a_credential() -> None:
    async with world() as w:
        for headers in ({}, {"authorization": "Bearer wrong"}, {"cookie": "choroid_session_8080=guess"}):
            async with w.socket(None, **headers) as unknown:
                assert (await unknown.body())["error"]["action"]
                closed = await unknown.next()
                assert (closed["type"], closed["code"]) == ("websocket.close", 4401)
        assert w.app.state.feed.clients == 0


@pytest.mark.parametrize("how", ["revoked", "revoked session", "signed out", "run out"])
async def test_S1_a_client_whose_credential_ends_receives_no_more(how: str) -> None:
    async with world() as w:
        auth, clock = w.auth, w.controller.clock
        user, now = User("a viewer", Role.VIEWER), clock.utc()
        until = now + timedelta(seconds=2) if how == "run out" else now + SESSION_AGE
        cookie = auth.open_session(user, token=Token("1", user, "", now, until))
        token = {"authorization": f"Bearer {w.tokens[Role.VIEWER]}"}
        session = {"cookie": f"choroid_session_8080={cookie}"}
        async with w.socket(None, **(token if how == "revoked" else session)) as page:
            for _ in range(4):
                await page.body()
            begin_s = asyncio.get_running_loop().time()
            if how.startswith("revoked"):
                auth.revoke("a viewer")
            elif how == "signed out":
                auth.close_session(cookie)
            while (message := await page.next())["type"] != "websocket.close":
                assert asyncio.get_running_loop().time() - begin_s < 2 * KNOWN_FOR_S, "it still receives"
            assert message["code"] == 4401
        assert w.app.state.feed.clients == 0


async def test_a_client_whose_credential_stays_valid_keeps_receiving() -> None:
    async with world() as w, w.socket(Role.VIEWER) as page:
        begin_s = asyncio.get_running_loop().time()
        while asyncio.get_running_loop().time() - begin_s < 3 * KNOWN_FOR_S:
            assert (await page.next())["type"] == "websocket.send"


async def test_S1_a_page_of_another_site_cannot_listen() -> None:
    async with world() as w:
        for headers in ({"origin": "http://evil.example"}, {"host": "evil.example"}):
            async with w.socket(Role.ADMIN, **headers) as unknown:
                assert (await unknown.body())["error"]["where"]
                assert (await unknown.next())["code"] == 4403
        async with w.socket(Role.ADMIN, origin=f"http://{HOST}") as own:
            assert (await own.body())["whole"]


async def test_S3_a_page_that_talks_without_end_is_shut_out() -> None:
    async with world() as w, w.socket(Role.ADMIN) as page:
        await page.body()
        for _ in range(MAX_RECEIVED):
            page.say('{"estop": true}')
        while (message := await page.next())["type"] != "websocket.close":
            pass
        assert message["code"] == 1008
        assert w.controller.gate.emergency is None


async def test_S3_there_are_only_so_many_pages_at_once() -> None:
    async with world() as w:
        sockets = [w.socket(Role.VIEWER) for _ in range(MAX_CLIENTS)]
        for each in sockets:
            await each.__aenter__()
            await each.body()
        async with w.socket(Role.VIEWER) as late:
            assert (await late.next())["code"] == 1013
        for each in sockets:
            await each.__aexit__()


async def test_no_message_is_made_without_a_page_and_closing_ends_every_page() -> None:
    async with world() as w:
        feed = w.app.state.feed
        async with w.socket(Role.VIEWER) as page:
            await page.body()
            feed.close()
            while (message := await page.next())["type"] != "websocket.close":
                pass
            assert message["code"] == 1012
        assert feed.clients == 0
        assert [task for task in asyncio.all_tasks() if task.get_name() == "live feed"] == []


async def test_a_defect_in_one_message_does_not_end_the_feed(caplog: pytest.LogCaptureFixture) -> None:
    async with world() as w, w.socket(Role.VIEWER) as page:
        await page.body()
        state = w.controller.store.state
        w.controller.store.state = None  # type: ignore[assignment]
        await asyncio.sleep(3 * PERIOD_S)
        w.controller.store.state = state
        while not page.sent.empty():
            page.sent.get_nowait()
        await page.body()
        assert "could not show the state" in caplog.text


async def test_a_number_that_is_not_finite_is_sent_as_null() -> None:
    async with world() as w, w.socket(Role.VIEWER) as page, w.http(Role.VIEWER) as http:
        await page.body()
        state = w.controller.store.state
        volumes = {vessel: replace(volume, sd_ul=math.nan) for vessel, volume in state.volumes.items()}
        w.controller.store.state = replace(state, at_s=math.inf, volumes=volumes)
        message = await page.body()
        assert message["at_s"] is None
        assert {volume["sd_ul"] for volume in message["volumes"].values()} == {None}
        answer = await http.get("/api/state")
        assert answer.status_code == 200
        assert answer.json()["at_s"] is None


def test_changes_of_keyed_parts_are_only_the_entries_that_changed() -> None:
    before = {"readings": {"a": 1, "b": 2, "gone": 3}, "alarms": [1], "utc": "x"}
    now = {"readings": {"a": 1, "b": 5, "new": 6}, "alarms": [1], "utc": "y", "speed": None}
    assert changed(before, now) == {"readings": {"b": 5, "new": 6, "gone": None}, "utc": "y", "speed": None}
    assert changed({}, now) == now
