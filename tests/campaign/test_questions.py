"""Campaign and kill matrix answer typed questions with what a plan assumes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from choroid.client.transport import Transport
from controller.core.clock import Clock
from controller.core.run_states import RunState
from controller.journal.journal import Journal
from controller.recipes.catalogue import of_file
from protocols.answers import PHOTO_TYPES, AnswerForm
from sim.lab import SimulatedLab
from tests.execution.test_whole_stack import controlled
from tests.execution.world import EPOCH, RIG
from verification.campaign.trial import let_go_on
from verification.kills import replies

ASKING = """recipe: 1
name: asking
title: It asks
steps:
  - ask_operator: {message: A, answer: number, unit: mM, min: 0 mM, max: 20 mM, default: 8 mM, as: lactate}
  - ask_operator: {message: B, answer: choice, choices: [clear, cloudy], as: look}
  - ask_operator: {message: C, answer: photo, as: picture}
  - ask_operator: Resume
  - approve: {message: D, role: admin, person: other_than_starter, as: decision}
  - note: {kind: seen, values: {lactate: lactate, look: look, decision: decision}}
"""


@pytest.mark.virtual_time
async def test_a_campaign_answers_with_the_declared_defaults_and_resumes_what_asks_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "asking.yaml"
    path.write_text(ASKING)
    lab = SimulatedLab(RIG, seed=6)
    async with controlled(lab, tmp_path) as controller:
        run = await controller.runs.start(of_file(path), {}, "campaign", "a test")
        for _ in range(20):
            await asyncio.sleep(30.0)
            await let_go_on(controller, lab)
        assert controller.runs.get(run).state is RunState.COMPLETE, controller.runs.get(run).messages
        (note,) = controller.journal.entries(run=run, kinds=("note.seen",))
        assert {key: note.body[key] for key in ("lactate", "look", "decision")} == {
            "lactate": 8.0,
            "look": "clear",
            "decision": "approved",
        }
    await lab.close()


FORMS = {
    1: AnswerForm(kind="number", unit="mM", internal="mM", low=0.0, high=20.0, default=8.0),
    2: AnswerForm(kind="choice", choices=("clear", "cloudy")),
    3: AnswerForm(kind="photo", types=PHOTO_TYPES),
    4: AnswerForm(kind="approval", role="engineer", default="rejected"),
}


async def test_the_kill_matrix_answers_over_the_api_like_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path / "journal.db", Clock(follow_system=False, epoch=EPOCH), durable=False)
    for n, form in FORMS.items():
        args = {"message": "?", "answer": form.to_json()}
        journal.append("step", {"n": n, "at": str(n), "verb": "ask", "args": args, "policy": "ask"}, run="run-1")
    journal.close()
    sent: list[tuple[Any, ...]] = []
    monkeypatch.setattr(replies, "call", lambda _, method, path, body: sent.append((method, path, body)))
    monkeypatch.setattr(Transport, "do", lambda _, call: sent.append((call.method, call.path, call.content)))
    endpoint = {"url": "http://127.0.0.1:1", "token": "x"}
    for n, form in FORMS.items():
        view = {"id": "run-1", "question": {"step": n, "kind": form.kind}}
        assert replies.answer(endpoint, view, tmp_path)
    assert not replies.answer(endpoint, {"id": "run-1", "question": {"step": 5, "kind": ""}}, tmp_path)
    assert not replies.answer(endpoint, {"id": "run-1", "question": None}, tmp_path)
    number, choice, photo, approval = sent
    assert number[1] == "/api/runs/run-1/answer"
    assert (number[2]["answer"], number[2]["step"]) == ("8 mM", 1)
    assert choice[2]["answer"] == "clear"
    assert photo[1] == "/api/runs/run-1/upload?name=assumed.jpg&step=3"
    assert photo[2].startswith(b"\xff\xd8")
    assert approval[1:] == (
        "/api/runs/run-1/decision",
        {"approve": False, "reason": "the declared default", "step": 4},
    )
