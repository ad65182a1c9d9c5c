"""`choroid agent` and /api/agents: an agent is issued, renewed and revoked on a running rig, by an admin only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from httpx import ASGITransport, AsyncClient

from choroid.operating.agents import as_text
from dashboards.app import create_app
from dashboards.auth import Auth, Role
from nerves.access import AgentAccess
from nerves.credentials import AgentCredentials
from tests.dashboards.fake_rig import FakeController


@pytest.fixture
def applied() -> list[int]:
    return []


@pytest.fixture
def auth() -> Auth:
    return Auth(demo=False, utc=lambda: datetime(2026, 1, 1, tzinfo=UTC))


@asynccontextmanager
async def page(tmp_path: Path, auth: Auth, applied: list[int]) -> AsyncIterator[AsyncClient]:
    credentials = AgentCredentials(tmp_path, lambda: "2026-01-01T00:00:00Z")

    async def apply() -> None:
        applied.append(len(credentials.grants()))

    app = create_app(FakeController().as_controller(), auth, agents=AgentAccess(credentials, apply))
    async with AsyncClient(transport=ASGITransport(app), base_url="http://127.0.0.1") as client:
        client.headers["authorization"] = f"Bearer {auth.issue('anna', Role.ADMIN)}"
        yield client


async def test_S2_an_admin_issues_renews_and_revokes_agents(tmp_path: Path, auth: Auth, applied: list[int]) -> None:
    async with page(tmp_path, auth, applied) as client:
        await _issue_renew_and_revoke(client, applied)


async def _issue_renew_and_revoke(client: AsyncClient, applied: list[int]) -> None:
    body = {"name": "pong", "role": "agent", "electrodes": [0, 1], "nc_s": 5.0, "reason": "game"}
    issued = await client.post("/api/agents", json=body)
    assert issued.status_code == 201, issued.text
    token = issued.json()["token"]
    assert len(token) > 40
    assert (await client.post("/api/agents", json=body)).status_code == 409
    assert (await client.post("/api/agents", json={"name": "controller"})).status_code == 409
    assert (await client.post("/api/agents", json={"name": "x", "nc_s": -1.0})).status_code == 422
    listed = await client.get("/api/agents")
    assert token not in listed.text
    (agent,) = listed.json()["agents"]
    assert (agent["name"], agent["electrodes"], agent["nc_s"], agent["pulses_min"]) == ("pong", [0, 1], 5.0, None)
    assert (await client.post("/api/agents/pong/renew", json={})).json()["token"] != token
    revoked = (await client.post("/api/agents/pong/revoke", json={"reason": "over"})).json()
    assert revoked["agents"][0]["revoked_utc"]
    assert (await client.post("/api/agents/pong/renew", json={})).status_code == 404
    assert applied == [1, 1, 0]
    assert "pong" in as_text(revoked)
    assert "shown only now" in as_text(issued.json())


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.ENGINEER])
async def test_S2_no_lower_role_sees_or_changes_agents(
    tmp_path: Path, auth: Auth, applied: list[int], role: Role
) -> None:
    async with page(tmp_path, auth, applied) as client:
        client.headers["authorization"] = f"Bearer {auth.issue('ben', role)}"
        assert (await client.get("/api/agents")).status_code == 403
        assert (await client.post("/api/agents", json={"name": "pong"})).status_code == 403
        assert (await client.post("/api/agents/pong/revoke", json={})).status_code == 403
