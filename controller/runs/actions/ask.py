"""Hold a run until a person has resumed it or answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.runs.action import Action
from controller.runs.context import LiveRun
from controller.runs.paper import Assumed, Paper
from controller.runs.questions import question_text
from controller.steps.steps import StepRecord
from protocols.answers import APPROVAL, UPLOADED, AnswerForm
from protocols.language import ASKING


class AskPerson(Action, verbs=ASKING, needs=("message",)):
    """Asks a person; `{value, text}` of an answer, and `{user, reason}` of a decision, else None."""

    async def perform(self, live: LiveRun, step: StepRecord, args: Mapping[str, Any]) -> dict[str, Any] | None:
        """Hold until a person resumes, or until the answer is recorded; one from before a restart counts."""
        text, answer = question_text(step.n, args["message"]), _form(args)
        if answer is None:
            if not live.run.answered(text):
                await live.run.hold(text)
            return None
        while step.answer is None:
            await live.run.hold(text)
        told = {"value": step.answer, "text": step.reply.get("text", answer.text(step.answer))}
        if answer.kind in UPLOADED:
            return {**told, "file": step.answer}
        return told if answer.kind != APPROVAL else {**told, "user": step.reply["user"], "reason": step.reply["reason"]}

    async def rehearse(self, paper: Paper, step: StepRecord, args: Mapping[str, Any]) -> dict[str, Any] | None:
        answer = _form(args)
        if answer is None:
            return None
        paper.out.assumed.append(Assumed(step.n, paper.now_s, args["message"], answer))
        told = {"value": answer.assumed, "text": answer.text(answer.assumed)}
        return told if answer.kind != APPROVAL else {**told, "user": "assumed", "reason": answer.assumed_because}


def _form(args: Mapping[str, Any]) -> AnswerForm | None:
    return None if args.get("answer") is None else AnswerForm.from_json(args["answer"])
