"""The books over a real controller: drivers, wire, plant, runner, journal, and what the API tells of them."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from controller.core.run_states import RunState
from dashboards.app import create_app
from dashboards.auth import Auth, Role
from sim.lab import SimulatedLab
from tests.dashboards.world import BASE
from tests.execution.test_whole_stack import controlled, until
from tests.execution.world import RIG


@pytest.mark.virtual_time
async def test_a_cycle_is_told_with_its_reason_and_a_balance_that_closes(tmp_path: Path) -> None:
    lab = SimulatedLab(RIG, seed=6)
    async with controlled(lab, tmp_path) as controller:
        auth = Auth(None, demo=False, utc=controller.clock.utc)
        app = create_app(controller, auth)
        token = {"Authorization": f"Bearer {auth.issue('a viewer', Role.VIEWER)}"}
        run = await controller.runs.start(
            "recycle", {"min_batch": "6 mL", "batch": "6 mL", "cycles": "1"}, user="anna", reason="a test"
        )
        await until(lambda: controller.runs.get(run).state.ended, 7200.0)
        assert controller.runs.get(run).state is RunState.COMPLETE
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE, headers=token) as viewer:
            (told,) = (await viewer.get("/api/decisions")).json()["decisions"]
            books = (await viewer.get("/api/ledger")).json()
        note, grade = controller.journal.last("note.recycle"), controller.journal.last("note.grade")
        assert note is not None
        assert grade is not None
        assert (told["run"], told["seq"], told["of"]) == (run, note.seq, "batch")
        assert told["reason"] == note.body["decision"]["reason"]
        assert told["reason"].startswith(f"{told['action']}: {told['eur']:.2f} EUR")
        assert told["grade"] == grade.body["grade"]
        assert told["grade_reasons"] == grade.body["reasons"]
        assert told["drawn_ml"] == pytest.approx(6.0, abs=0.6)
        assert told["given_back_ml"] > 4.0
        assert len(told["others"]) >= 3
        assert abs(books["mass_balance_error_ml"]) <= books["mass_balance_uncertainty_ml"]
        assert 0.03 < books["mass_balance_uncertainty_ml"] < 0.2, "a litre stands in bottles, filled to within 5 mL"
    await lab.close()
