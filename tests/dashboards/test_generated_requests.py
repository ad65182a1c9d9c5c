"""Requests that Schemathesis makes of the API's own schema, for each role, at a real controller (S1, S2, S3).

`python -m tests.dashboards.test_generated_requests 50 7` makes 50 of each route and role, from seed 7.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from fastapi import FastAPI
from fastapi.responses import JSONResponse
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from controller.process.controller import Controller
from dashboards.app import create_app
from dashboards.auth import Auth, Role
from dashboards.sign_ins import KIND as FAILED
from sim.lab import SimulatedLab
from sim.virtual_time import run_scaled
from tests.dashboards.world import BASE
from tests.execution.test_whole_stack import controlled
from tests.execution.world import RIG

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
Case = schemathesis.Case[Any]
ROLES: tuple[Role | None, ...] = (None, *Role)
CHANGES_NOTHING = (None, Role.VIEWER)
SESSION = "/api/session"
"""Everyone may sign in and out there; it changes nothing of the rig."""
SPEED = 5.0
ANSWER_S = 60.0 * SPEED
"""Longest time that an answer may take (s of the loop)."""


def generated(app: FastAPI, examples: int, number: int) -> Iterator[Case]:
    """Yield requests of each route."""
    for found in schemathesis.openapi.from_dict(app.openapi()).get_all_operations():
        assert isinstance(found, Ok)
        yield from _requests(found.ok(), examples, number)


def _requests(operation: Any, examples: int, number: int) -> list[Case]:
    cases: list[Case] = []

    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(case=operation.as_strategy())
    def collect(case: Case) -> None:
        cases.append(case)

    collect()
    return cases


def changes(controller: Controller) -> tuple[int, str | None, int]:
    """What a request could have changed: the journal (but for the count of failed sign-ins), the emergency stop, runs."""
    asked = [row.kind for row in controller.journal.entries() if "user" in row.body and row.kind != FAILED]
    return len(asked), controller.gate.emergency, len(controller.runs.list())


async def attack(
    folder: Path,
    role: Role | None,
    examples: int,
    number: int,
    spoil: Callable[[FastAPI, Controller], None] | None = None,
) -> tuple[Counter[str], list[str]]:
    """Send generated requests to a controller; return the answers by status, and what is wrong."""
    lab = SimulatedLab(RIG, seed=number)
    faults: list[str] = []
    answers: Counter[str] = Counter()
    async with controlled(lab, folder) as controller:
        auth = Auth(None, demo=False, utc=controller.clock.utc)
        app = create_app(controller, auth)
        if spoil is not None:
            spoil(app, controller)
        headers = {} if role is None else {"Authorization": f"Bearer {auth.issue('a person', role)}"}
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=BASE, headers=headers) as client:
            before = changes(controller)
            for case in generated(app, examples, number):
                what = f"{case.method} {case.path}"
                request = _request(client, case)
                try:
                    answer = await asyncio.wait_for(client.send(request), ANSWER_S)
                    answer.request = request
                    answers[str(answer.status_code)] += 1
                    case.validate_response(schemathesis.Response.from_httpx(answer, verify=False), checks=CHECKS)
                except (Exception, FailureGroup) as error:
                    parts = error.exceptions if isinstance(error, FailureGroup) else (error,)
                    told = "; ".join(f"{type(each).__name__}: {each}" for each in parts)
                    faults.append(f"{what}: {told}; {request.content[:200]!r}")
                now = changes(controller)
                if role in CHANGES_NOTHING and case.path != SESSION and now != before:
                    faults.append(f"{what}: it has changed {before} to {now}")
                before = now
        await asyncio.sleep(15.0)
        if not (health := controller.health()).ok:
            faults.append(f"the controller is not healthy: {health}")
    await lab.close()
    return answers, faults


def _request(client: httpx.AsyncClient, case: Case) -> httpx.Request:
    words: dict[str, Any] = {
        key: value
        for key, value in case.as_transport_kwargs(base_url=BASE).items()
        if key in ("method", "url", "headers", "params", "json", "data", "cookies", "files") and value is not None
    }
    if isinstance(words.get("data"), bytes):
        words["content"] = words.pop("data")
    return client.build_request(**words)


@pytest.mark.parametrize("role", ROLES, ids=lambda role: "none" if role is None else role.word)
def test_S3_generated_requests_give_no_error_of_the_server_and_change_only_what_the_role_may(
    role: Role | None, tmp_path: Path
) -> None:
    answers, faults = run_scaled(attack(tmp_path, role, 2, 1), speed=SPEED)
    assert faults == []
    assert answers.total() > 100


def test_J1_a_defect_an_open_route_and_an_answer_of_another_form_are_found(tmp_path: Path) -> None:
    def spoil(app: FastAPI, controller: Controller) -> None:
        routes = list(app.router.routes)
        app.router.routes.clear()

        @app.get("/api/defect")
        async def defect() -> None:
            raise ValueError("a slip")

        @app.post("/api/open")
        async def unguarded() -> None:
            controller.journal.append("users.issued", {"user": "anyone"})

        @app.get("/api/form", response_model=dict[str, int])
        async def form() -> JSONResponse:
            return JSONResponse(["another form"])

        app.router.routes += [route for route in routes if "/api/" not in getattr(route, "path", "")]
        app.openapi_schema = None

    _, faults = run_scaled(attack(tmp_path, None, 1, 1, spoil), speed=SPEED)
    assert len(faults) == 3
    for what in ("GET /api/defect: ", "POST /api/open: it has changed", "GET /api/form: "):
        assert any(fault.startswith(what) for fault in faults), faults


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="choroid-generated-") as name:
        yield Path(name)


def main(examples: int, number: int) -> int:
    """Print the answers and faults of each role; return 1 where there is a fault."""
    wrong = 0
    for role in ROLES:
        with _folder() as folder:
            answers, faults = run_scaled(attack(folder, role, examples, number), speed=SPEED)
        print(
            f"{'none' if role is None else role.word}: {dict(sorted(answers.items()))}, {len(faults)} faults",
            flush=True,
        )
        for fault in dict.fromkeys(faults):
            print(f"  {fault[:600]}", flush=True)
        wrong += len(faults)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
