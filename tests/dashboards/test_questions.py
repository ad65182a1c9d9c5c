"""Typed questions over the API and the command line, on a whole simulated rig."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import httpx
import pytest

from choroid.operating import remote
from choroid.operating.library import as_text
from controller.recipes.catalogue import of_file
from controller.runs.runner import Runner
from dashboards.app import create_app
from dashboards.auth import Auth, Role
from dashboards.request_filter import MAX_BODY_BYTES
from protocols.answers import ROLES
from sim.lab import SimulatedLab
from tests.dashboards.world import BASE
from tests.execution.test_replies import image
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
        auth = Auth(None, demo=False, utc=controller.clock.utc)
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
                "accept": [],
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


UPLOADING = """recipe: 1
name: uploading
title: It asks for a photo and an approval
steps:
  - ask_operator: {message: Photo, answer: photo, types: [png], as: picture}
  - approve: {message: Go on, role: engineer, person: other_than_starter}
"""


@pytest.mark.virtual_time
async def test_an_upload_and_a_decision_take_the_role_and_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "uploading.yaml"
    path.write_text(UPLOADING)
    lab = SimulatedLab(RIG, seed=6)
    async with controlled(lab, tmp_path) as controller:
        auth = Auth(None, demo=False, utc=controller.clock.utc)
        app = create_app(controller, auth)

        def client(role: Role, name: str = "") -> httpx.AsyncClient:
            token = {"Authorization": f"Bearer {auth.issue(name or f'a {role.name.lower()}', role)}"}
            return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE, headers=token)

        run = await controller.runs.start(of_file(path), {}, "anna", "a test")
        url = f"/api/runs/{run}"
        await asked(controller.runs, run, 1)
        photo = image(size=(400, 300))
        assert len(photo) > MAX_BODY_BYTES
        there: dict[str, str | int] = {"name": "../../a.png", "step": 1}
        async with client(Role.VIEWER) as viewer, client(Role.OPERATOR) as operator:
            assert (await viewer.get(url)).json()["question"]["accept"] == ["image/png"]
            assert (await viewer.post(f"{url}/upload", params=there, content=photo)).status_code == 413
            assert (await viewer.post(f"{url}/upload", params=there, content=b"x")).status_code == 403
            unknown = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE)
            assert (await unknown.post(f"{url}/upload", params=there, content=photo)).status_code == 413
            assert (await unknown.get(f"/api/attachments/{'0' * 64}")).status_code == 401
            too_large = await operator.post(f"{url}/upload", params=there, content=bytes(16_000_001))
            assert too_large.status_code == 413
            assert (await operator.post(f"{url}/answer", content=bytes(70_000))).status_code == 413
            assert (await operator.post("/api/runs/run-0/upload", params=there, content=photo)).status_code == 404
            wrong = await operator.post(f"{url}/upload", params=there, content=photo[:-5000])
            assert wrong.status_code == 422
            assert "does not decode" in wrong.json()["error"]["what"]
            late = await operator.post(f"{url}/upload", params=there | {"step": 5}, content=photo)
            assert late.status_code == 409
            right = await operator.post(f"{url}/upload", params=there, content=photo)
            assert right.status_code == 200, right.text
            (kept,) = (await viewer.get("/api/attachments")).json()["attachments"]
            assert (kept["name"], kept["sha256"]) == ("a.png", hashlib.sha256(photo).hexdigest())
            await asked(controller.runs, run, 2)
            assert (await viewer.get(url)).json()["progress"][0]["result"]["file"] == kept["sha256"]
            again = await operator.post(f"{url}/upload", params=there, content=photo)
            assert again.status_code == 409
            decision = f"{url}/decision"
            assert (await operator.post(decision, json={"approve": True})).status_code == 422
        async with client(Role.ADMIN, "anna") as starter:
            own = await starter.post(decision, json={"approve": True})
            assert (own.status_code, "anna is the same person" in own.text) == (422, True)
            headers = {"Authorization": f"Bearer {auth.command_line_token()}"}
            shared = await starter.post(decision, json={"approve": True}, headers=headers)
            assert (shared.status_code, "does not tell which person" in shared.text) == (422, True)
        async with client(Role.ENGINEER, "ben") as engineer:
            assert (await engineer.post(decision, json={"approve": True, "step": 2})).status_code == 200
        await until(lambda: controller.runs.get(run).state.ended, 60.0)
        assert controller.runs.get(run).state == "complete"
    await lab.close()


def test_the_roles_that_approve_are_the_roles_of_accounts() -> None:
    assert tuple(role.word for role in Role if role is not Role.VIEWER) == ROLES


@pytest.mark.virtual_time
async def test_the_library_over_the_api_takes_two_people(tmp_path: Path) -> None:
    lab = SimulatedLab(RIG, seed=6)
    async with controlled(lab, tmp_path) as controller:
        auth = Auth(None, demo=False, utc=controller.clock.utc)
        app = create_app(controller, auth)

        def client(name: str, role: Role) -> httpx.AsyncClient:
            token = {"Authorization": f"Bearer {auth.issue(name, role)}"}
            return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE, headers=token)

        anna, ben, vera = client("anna", Role.OPERATOR), client("ben", Role.ENGINEER), client("vera", Role.VIEWER)
        body = {"file": "asking.yaml", "text": ASKING}
        assert (await vera.post("/api/library", json=body)).status_code == 403
        wrong = await anna.post("/api/library", json={**body, "text": ASKING.replace("mM, min", "mL, min")})
        assert (wrong.status_code, "problem" in wrong.text) == (422, True)
        made = await anna.post("/api/library", json=body)
        assert made.status_code == 201, made.text
        sha256 = made.json()["sha256"]
        assert (await vera.get(f"/api/library/{sha256}")).json()["text"] == ASKING
        assert (await anna.post("/api/runs", json={"protocol": "asking"})).status_code == 404
        assert (await anna.post(f"/api/library/{sha256}/review", json={"accept": True})).status_code == 403
        early = await ben.post(f"/api/library/{sha256}/release", json={})
        assert early.status_code == 409
        assert (await ben.post(f"/api/library/{sha256}/review", json={"accept": True})).json()["state"] == "reviewed"
        assert (await ben.post(f"/api/library/{sha256}/release", json={})).json()["released_by"] == "ben"
        listed = (await vera.get("/api/library")).json()["versions"]
        assert as_text({"versions": listed}).startswith(f"{sha256[:12]}  released   asking.yaml  (submitted by anna")
        assert "asking" in [each["name"] for each in (await vera.get("/api/protocols")).json()["protocols"]]
        run = (await anna.post("/api/runs", json={"protocol": "asking"})).json()["id"]
        await asked(controller.runs, run, 1)
        assert (await ben.post(f"/api/library/{sha256}/withdraw", json={})).status_code == 200
        await anna.post(f"/api/runs/{run}/answer", json={"answer": "8 mM"})
        await asked(controller.runs, run, 2)
        assert (await vera.get("/api/library/..%2fjournal.db")).status_code in (404, 409)
        for each in (anna, ben, vera):
            await each.aclose()
    await lab.close()
