"""Faults by hand: injected and ended by operators, recorded, and only where the lab is simulated."""

from __future__ import annotations

import pytest

from dashboards.auth import Role
from tests.dashboards.world import world

pytestmark = pytest.mark.virtual_time
GAS = {"kind": "unplug", "target": "sim:gas", "for_s": 60, "reason": "to see"}


async def test_a_fault_is_injected_shown_ended_and_recorded() -> None:
    async with world() as w, w.http(Role.OPERATOR) as operator:
        assert (await operator.get("/api/rig")).json()["faults"] is True
        made = (await operator.post("/api/faults", json=GAS)).json()
        assert [(each["kind"], each["target"], each["left_s"]) for each in made["lasting"]] == [
            ("unplug", "sim:gas", 60)
        ]
        assert [each["targets"] for each in made["kinds"]] == [["sim:gas"]]
        row = w.controller.journal.rows[-1]
        assert (row.kind, row.body["user"], row.body["on"]) == ("fault.made", "a operator", "sim:gas")
        assert (await operator.delete("/api/faults/1")).json()["lasting"] == []
        assert w.controller.journal.rows[-1].kind == "fault.ended"
        again = await operator.delete("/api/faults/1")
        assert again.status_code == 404
        assert "is over" in again.json()["error"]["cause"]


async def test_what_cannot_be_is_refused_and_a_viewer_breaks_nothing() -> None:
    async with world() as w, w.http(Role.OPERATOR) as operator, w.http(Role.VIEWER) as viewer:
        for wrong in ({"target": "sim:moon"}, {"for_s": -1}, {"for_s": "NaN"}, {"kind": "kill"}):
            assert (await operator.post("/api/faults", json=GAS | wrong)).status_code == 422, wrong
        assert (await viewer.post("/api/faults", json=GAS)).status_code == 403
        assert (await viewer.get("/api/faults")).json()["lasting"] == []


async def test_a_real_rig_has_no_such_thing() -> None:
    async with world(simulated=False) as w, w.http(Role.ADMIN) as admin:
        assert (await admin.get("/api/rig")).json()["faults"] is False
        assert (await admin.get("/api/faults")).status_code == 404
        assert (await admin.post("/api/faults", json=GAS)).status_code == 404
