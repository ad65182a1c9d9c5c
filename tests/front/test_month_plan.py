"""The month's recipe is planned from the morning after the change of the clocks, in YAML and in Python."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from choroid.simulation.plan import as_text, plan
from controller.core.clock import Clock
from controller.journal.journal import Journal
from tests.execution.world import BENCH

MORNING = datetime(2026, 3, 30, 6, 40, tzinfo=UTC)
"""A Monday in Berlin: 08:40 of daylight saving time, which began the day before."""


@pytest.mark.parametrize("name", ["month.yaml", "month.py"])
def test_a_change_and_an_assay_are_planned_and_simulated(name: str, tmp_path: Path) -> None:
    async def begin() -> None:
        journal = Journal(tmp_path / "journal.db", Clock(follow_system=False, epoch=MORNING), durable=False)
        journal.append("note.begin", {"step": 0})
        journal.close()

    asyncio.run(begin())
    path = BENCH.parents[1] / "protocols" / name
    keywords: dict[str, Any] = {
        "path": BENCH,
        "protocol": str(path),
        "params": {"changes": "1", "assays": "1"},
        "hours": 1.5,
        "seed": 1,
        "data": tmp_path,
    }
    found = plan(**keywords)
    assert found["feasible"], as_text(found)
    assay, photo = found["assumed"]
    assert photo["message"] == "Photograph the chamber before change 1"
    assert 1200.0 <= photo["at_s"] <= 1380.0, "09:00 in Berlin is 07:00 UTC from that day on"
    assert assay["message"] == "Assay lactate of week 1"
    assert 900.0 <= assay["at_s"] <= 1080.0
    lines = [(step["line"], step["ml"]) for step in found["steps"] if "line" in step]
    assert [line for line, _ in lines] == ["draw", "discard", "feed", "return"]
    assert lines[0][1] == pytest.approx(20.0, rel=0.05)
