"""Typed questions over the API and the command line, on a whole simulated rig."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from choroid.operating import remote
from controller.recipes.catalogue import of_file
from controller.runs.runner import Runner
from dashboards.app import create_app
from dashboards.auth import Auth, Role
from sim.lab import SimulatedLab
from tests.dashboards.world import BASE
from tests.execution.test_whole_stack import controlled, until
from tests.execution.world import RIG

ASKING = """recipe: 1
name: asking
title: It asks
steps:
  - ask_operator: {message: Lactate, answer: number, unit: mM, min: 0 mM, max: 20 mM, default: 8 mM, as: lactate}
  - ask_operator: {message: Look, answer: choice, choices: [clear, cloudy], as: look}
  - ask_operator: Now resume
"""


async def asked(runs: Runner, run: str, step: int) -> None:
    def there() -> bool:
        question = runs.get(run).question
        return runs.get(run).state == "held" and question is not None and question.n == step

    await until(there, 60.0)


@pytest.mark.virtual_time
async def test_a_question_is_shown_answered_and_refused_over_the_api(tmp_path: Path) -> None:
    path = tmp_path / "asking.yaml"
    path.write_text(ASKING)
    lab = SimulatedLab(RIG, seed=6)
    async with controlled(lab, tmp_path) as controller:
        auth = Auth(None, demo=False)
        app = create_app(controller, auth)
        run = await controller.runs.start(of_file(path), {}, "anna", "a test")
        url = f"/api/runs/{run}"

        def client(role: Role) -> httpx.AsyncClient:
            token = {"Authorization": f"Bearer {auth.issue(f'a {role.name.lower()}', role)}"}
            return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE, headers=token)

        await asked(controller.runs, run, 1)
        async with client(Role.VIEWER) as viewer, client(Role.OPERATOR) as operator:
            shown: dict[str, Any] = (await viewer.get(url)).json()
            assert shown["question"] == {
                "step": 1,
                "message": "Lactate",
                "kind": "number",
                "wants": "a number in mM, 0 to 20",
                "unit": "mM",
                "choices": [],
                "default": "8 mM",
            }
            told = remote.as_text(shown)
            assert "waits for an answer to step 1: a number in mM, 0 to 20" in told
            assert 'next: choroid protocol answer "NUMBER mM"' in told
            assert (await viewer.post(f"{url}/answer", json={"answer": "8 mM"})).status_code == 403
            wrong = await operator.post(f"{url}/answer", json={"answer": "8 mL"})
            assert wrong.status_code == 422
            assert "not in mM" in wrong.json()["error"]["what"]
            assert wrong.json()["error"]["action"].startswith("answer a number in mM, 0 to 20")
            assert (await operator.post(f"{url}/resume", json={})).status_code == 409
            assert (await viewer.get(url)).json()["question"]["step"] == 1
            right = await operator.post(f"{url}/answer", json={"answer": "8.5 mM", "reason": "kit"})
            assert right.status_code == 200
            await asked(controller.runs, run, 2)
            late = await operator.post(f"{url}/answer", json={"answer": "8.5 mM", "step": 1})
            assert late.status_code == 409
            shown = (await viewer.get(url)).json()
            assert shown["question"]["choices"] == ["clear", "cloudy"]
            assert shown["progress"][0]["result"] == {"answer": "8.5 mM"}
            await operator.post(f"{url}/answer", json={"answer": "clear", "step": 2})
            await asked(controller.runs, run, 3)
            shown = (await viewer.get(url)).json()
            assert (shown["question"]["kind"], shown["question"]["message"]) == ("", "Now resume")
            await operator.post(f"{url}/resume", json={})
            await until(lambda: controller.runs.get(run).state.ended, 60.0)
            assert (await viewer.get(url)).json()["question"] is None
        (first, second) = controller.journal.entries(run=run, kinds=("step.answered",))
        assert (first.body["value"], first.body["user"], first.body["reason"]) == (8.5, "a operator", "kit")
        assert second.body["value"] == "clear"
    await lab.close()
