"""Remote commands that are late or come twice are refused and logged (A8)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dashboards.auth import Role
from dashboards.freshness import COMMAND_ID, MAX_AGE_S, REMEMBERED, SEEN
from tests.dashboards.world import World, world

pytestmark = pytest.mark.virtual_time
START = {"protocol": "recycle", "params": {}, "reason": "test"}


def _seen(w: World, age_s: float) -> str:
    return (w.controller.clock.utc() - timedelta(seconds=age_s)).isoformat()


def _refused(w: World) -> list[str]:
    return [str(row.body["reason"]) for row in w.controller.journal.rows if row.kind == "command.refused"]


async def test_A8_a_command_that_comes_twice_is_carried_out_once_and_logged() -> None:
    async with world() as w, w.http(Role.OPERATOR) as operator:
        named = {COMMAND_ID: "4f1c2d3e4a5b"}
        first = await operator.post("/api/runs", json=START, headers=named)
        assert first.status_code in (200, 201)
        runs = len(w.controller.runs.list())
        again = await operator.post("/api/runs", json=START, headers=named)
        assert again.status_code == 409
        assert "received before" in again.json()["error"]["what"]
        assert len(w.controller.runs.list()) == runs
        assert len(_refused(w)) == 1
        paused = f"/api/runs/{first.json()['id']}/pause"
        other = await operator.post(paused, json={"reason": "test"}, headers={COMMAND_ID: "4f1c2d3e4a5c"})
        assert other.status_code == 200, "another name is another command"


async def test_A8_a_command_decided_on_an_old_state_is_refused_and_logged() -> None:
    async with world(simulated=False) as w, w.http(Role.OPERATOR) as operator:
        for age_s in (MAX_AGE_S + 1.0, -60.0, 86_400.0):
            late = await operator.post("/api/runs", json=START, headers={SEEN: _seen(w, age_s)})
            assert late.status_code == 409
            assert "s old" in late.json()["error"]["what"]
        assert w.controller.runs.list() == []
        assert len(_refused(w)) == 3
        fresh = await operator.post("/api/runs", json=START, headers={SEEN: _seen(w, MAX_AGE_S - 1.0)})
        assert fresh.status_code in (200, 201)


async def test_A8_a_fast_simulation_counts_the_age_in_real_time() -> None:
    async with world() as w, w.http(Role.OPERATOR) as operator:
        w.app.state.speed.speed = 60.0
        fresh = await operator.post("/api/runs", json=START, headers={SEEN: _seen(w, 50 * MAX_AGE_S)})
        assert fresh.status_code in (200, 201)


async def test_A8_A9_an_emergency_stop_is_never_too_late() -> None:
    async with world() as w, w.http(Role.OPERATOR) as operator:
        headers = {SEEN: _seen(w, 3600.0), COMMAND_ID: "stop-everything"}
        for _ in range(2):
            stopped = await operator.post("/api/estop", json={"reason": "test"}, headers=headers)
            assert stopped.status_code == 200


@pytest.mark.parametrize(("header", "value"), [(COMMAND_ID, "short"), (COMMAND_ID, "a b c d e f g h"), (SEEN, "noon")])
async def test_S3_a_malformed_header_is_refused(header: str, value: str) -> None:
    async with world() as w, w.http(Role.OPERATOR) as operator:
        answer = await operator.post("/api/runs", json=START, headers={header: value})
        assert answer.status_code == 422
        assert w.controller.runs.list() == []


async def test_S1_an_unknown_client_uses_up_no_names_and_writes_no_rows() -> None:
    async with world() as w, w.http() as unknown, w.http(Role.OPERATOR) as operator:
        headers = {COMMAND_ID: "4f1c2d3e4a5b"}
        before = w.changes()
        for _ in range(2):
            assert (await unknown.post("/api/runs", json=START, headers=headers)).status_code == 401
        assert w.changes() == before
        assert (await operator.post("/api/runs", json=START, headers=headers)).status_code in (200, 201)


async def test_the_names_that_are_kept_are_bounded() -> None:
    async with world() as w, w.http(Role.OPERATOR) as operator:
        for number in range(REMEMBERED + 1):
            await operator.post("/api/nowhere", headers={COMMAND_ID: f"command-{number}"})
        kept = await operator.post("/api/nowhere", headers={COMMAND_ID: f"command-{REMEMBERED}"})
        forgotten = await operator.post("/api/nowhere", headers={COMMAND_ID: "command-0"})
        assert (kept.status_code, forgotten.status_code) == (409, 404)
