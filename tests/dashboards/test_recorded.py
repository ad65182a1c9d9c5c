"""Answers to commands wait for the journal; a stop does not."""

from __future__ import annotations

import pytest

from controller.journal.terms import JournalUnwritten
from dashboards.auth import Role
from tests.dashboards.world import world

pytestmark = pytest.mark.virtual_time

WHY = {"reason": "a test"}


async def test_D2_a_command_is_confirmed_when_it_is_on_record() -> None:
    async with world() as w, w.http(Role.OPERATOR) as operator:
        assert (await operator.post("/api/estop/reset", json=WHY)).status_code == 200
        assert w.controller.journal.committed == len(w.controller.journal.rows) > 0


async def test_D2_a_command_that_is_not_on_record_says_so_and_an_emergency_stop_waits_for_no_disk() -> None:
    async with world() as w, w.http(Role.OPERATOR) as operator:
        w.controller.journal.unwritten = JournalUnwritten("database or disk is full")
        answer = await operator.post("/api/estop/reset", json=WHY)
        assert answer.status_code == 503
        assert "not on record" in answer.json()["error"]["what"]
        assert (await operator.post("/api/estop", json=WHY)).status_code == 200
        assert (await operator.get("/api/alarms")).status_code == 200
