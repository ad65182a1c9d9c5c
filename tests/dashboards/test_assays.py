"""Assays over the API: who may enter them, what comes back, and how it says no."""

from __future__ import annotations

import pytest

from dashboards.auth import Role
from tests.dashboards.world import world

pytestmark = pytest.mark.virtual_time

LACTATE = {"analyte": "lactate", "value": "8.2 mM", "vessel": "spent", "taken": "10:40", "method": "strip"} | {
    "volume": "0.5 mL"
}


async def test_an_assay_is_entered_with_who_and_how() -> None:
    async with world() as w, w.http(Role.OPERATOR) as operator:
        answer = await operator.post("/api/assays", json=LACTATE | {"reason": "daily"})
        assert answer.status_code == 201, answer.text
        assert answer.json()["before"] == {"value": 6.1, "low": 5.2, "high": 7.0}
        (row,) = (await operator.get("/api/assays")).json()["assays"]
        assert (row["text"], row["volume"], row["method"], row["reason"]) == ("8.2 mM", "0.5 mL", "strip", "daily")
        assert row["user"]
        story = (await operator.get("/api/audit")).json()["entries"]
        assert story[0]["kind"] == "assay"


async def test_what_cannot_be_and_what_was_entered_before_are_told_apart() -> None:
    async with world() as w, w.http(Role.OPERATOR) as operator:
        wrong = await operator.post("/api/assays", json=LACTATE | {"analyte": "lactose"})
        assert wrong.status_code == 422
        assert wrong.json()["error"]["action"] == "choose lactate"
        await operator.post("/api/assays", json=LACTATE)
        again = await operator.post("/api/assays", json=LACTATE)
        assert again.status_code == 409
        assert again.json()["error"]["cause"] == "a command was repeated"
        more = await operator.post("/api/assays", json=LACTATE | {"vessels": "loop"})
        assert more.status_code == 422


async def test_a_viewer_sees_the_medium_and_enters_nothing() -> None:
    async with world() as w, w.http(Role.VIEWER) as viewer:
        medium = (await viewer.get("/api/medium")).json()
        assert medium["spent"]["ammonia_mm"]["low"] < medium["spent"]["ammonia_mm"]["high"]
        assert (await viewer.post("/api/assays", json=LACTATE)).status_code == 403
