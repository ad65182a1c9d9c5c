"""A simulated person who answers what a run asks, with the declared default: `choroid plan` and `choroid simulate`."""

from __future__ import annotations

import asyncio
from typing import Any

from controller.core.run_states import RunState
from controller.process.controller import Controller

ANSWER_S = 60.0
"""Maximum time from a question to its answer (s)."""
DONE = "assumed to be done"


class Respondent:
    """Answers the questions of a controller's runs; a run that is held for anything else stays held.

    `assumed` lists the answers, the oldest first: `at_s` since the beginning, `step`, `message`, `answer` and `because`.
    """

    def __init__(self, controller: Controller, *, user: str, only_answers: bool = False) -> None:
        """`only_answers`: a run that only waits to be resumed is left to another person, such as the technician."""
        self._only_answers = only_answers
        self._controller = controller
        self._user = user
        self.assumed: list[dict[str, Any]] = []

    async def attend(self) -> None:
        """Look every minute until cancelled."""
        loop = asyncio.get_running_loop()
        begin_s = loop.time()
        while True:
            await asyncio.sleep(ANSWER_S)
            await self.look(loop.time() - begin_s)

    async def look(self, at_s: float) -> None:
        """Answer the open question, or resume a run that only asks for a person."""
        runs = self._controller.runs
        held = runs.active
        question = held.question if held is not None and held.state is RunState.HELD else None
        if held is None or question is None or (question.answer is None and self._only_answers):
            return
        told = {"at_s": round(at_s, 1), "step": question.n, "message": question.message}
        form = question.answer
        if form is None:
            self.assumed.append({**told, "answer": DONE, "because": "the step asks for no answer"})
            await runs.resume(held.id, self._user, DONE)
        else:
            shown = form.text(form.assumed)
            self.assumed.append({**told, "answer": shown, "because": form.assumed_because})
            await runs.answer(held.id, shown, self._user, f"assumed: {form.assumed_because}", step=question.n)


def assumed_lines(assumed: list[dict[str, Any]]) -> list[str]:
    """Return the assumed answers as text, one line for each."""
    return [
        f"assumed answer to step {each['step']} ({each['message']}): {each['answer']} ({each['because']})"
        for each in assumed
    ]
