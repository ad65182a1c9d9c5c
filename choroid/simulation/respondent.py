"""A simulated person who answers what a run asks, with the declared default: `choroid plan` and `choroid simulate`."""

from __future__ import annotations

import asyncio
import io
from typing import Any

from PIL import Image

from controller.attachments.store import Attachment
from controller.core.run_states import RunState
from controller.process.controller import Controller
from controller.runs.people import Person
from protocols.answers import APPROVAL, APPROVED, ASSAY, PHOTO_TYPES, ROLES, UPLOADED, AnswerForm
from sim.lab import SimulatedLab

ANSWER_S = 60.0
"""Maximum time from a question to its answer (s)."""
DONE = "assumed to be done"
APPROVER = "simulated person"
"""Who decides: another person than the one who starts a simulated run."""


class Respondent:
    """Answers the questions of a controller's runs; a run that is held for anything else stays held.

    `assumed` lists the answers, the oldest first: `at_s` since the beginning, `step`, `message`, `answer` and `because`.
    """

    def __init__(self, controller: Controller, lab: SimulatedLab, *, user: str, only_answers: bool = False) -> None:
        """`only_answers`: a run that only waits to be resumed is left to another person, such as the technician."""
        self._only_answers = only_answers
        self._controller = controller
        self._lab = lab
        self._user = user
        self.assumed: list[dict[str, Any]] = []

    async def attend(self) -> None:
        """Look every minute until cancelled."""
        loop = asyncio.get_running_loop()
        begin_s = loop.time()
        while True:
            await asyncio.sleep(ANSWER_S)
            await self.update(loop.time() - begin_s)

    async def update(self, at_s: float) -> None:
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
            shown, because, given = await self._given(form)
            self.assumed.append({**told, "answer": shown, "because": because})
            by = Person(APPROVER if form.kind == APPROVAL else self._user, ROLES[-1])
            await runs.answer(held.id, given, by, f"assumed: {because}", step=question.n, sure=True)

    async def _given(self, form: AnswerForm) -> tuple[str, str, str | bool | Attachment]:
        """Return the assumed answer as text, where it comes from, and what is given."""
        shown, because = form.text(form.assumed), form.assumed_because
        if form.kind in UPLOADED:
            name, content = placeholder(form)
            return name, because, await self._controller.attachments.take(form, content, name)
        if form.kind == APPROVAL:
            return shown, because, form.assumed == APPROVED
        if form.kind == ASSAY and form.default is None:
            value = self._lab.plant.truth().concentrations[self._controller.assays.place(form.vessel)].get(form.analyte)
            if value is not None:
                shown, because = f"{value:.4g} {form.unit}", "what the simulated medium has"
        return shown, because, shown


def placeholder(form: AnswerForm) -> tuple[str, bytes]:
    """Return name and content of the smallest upload of the first type that a form permits."""
    kind = form.types[0]
    name = form.assumed if form.default is not None else f"assumed.{kind}"
    texts = {"pdf": b"%PDF-1.4\n", "xlsx": b"PK\x03\x04", "json": b"{}"}
    if kind not in (*PHOTO_TYPES, "tif"):
        return str(name), texts.get(kind, b"assumed\n")
    content = io.BytesIO()
    Image.new("L", (8, 8)).save(content, {"jpg": "JPEG", "tif": "TIFF"}.get(kind, kind))
    return str(name), content.getvalue()


def assumed_lines(assumed: list[dict[str, Any]]) -> list[str]:
    """Return the assumed answers as text, one line for each."""
    return [
        f"assumed answer to step {each['step']} ({each['message']}): {each['answer']} ({each['because']})"
        for each in assumed
    ]
