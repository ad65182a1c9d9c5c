"""Answers to the typed questions of a trial's run: the declared defaults, given over the API as by a person."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from choroid.client.transport import Address, ApiCall, Transport
from choroid.operating.remote import call
from choroid.simulation.respondent import placeholder
from controller.journal.reader import JournalReader
from protocols.answers import APPROVAL, APPROVED, UPLOADED, AnswerForm


def answer(endpoint: dict[str, str], view: Mapping[str, Any], data: Path) -> bool:
    """Answer the open question of a held run with what a plan assumes; return whether it has one that takes an answer.

    Args:
        endpoint: Where the controller answers.
        view: The run as the API shows it.
        data: The controller's data folder: its journal has the default.

    Raises:
        UserError: The controller refuses the answer, or does not answer.
        ClientError: It refuses an upload, or does not answer.
    """
    question = view.get("question")
    if question is None or not question["kind"]:
        return False
    form = _form(data, str(view["id"]), int(question["step"]))
    path, step = f"/api/runs/{view['id']}", question["step"]
    if form.kind in UPLOADED:
        name, content = placeholder(form)
        upload = ApiCall("POST", f"{path}/upload?{urlencode({'name': name, 'step': step})}", dict, content=content)
        Transport(Address.parse(endpoint["url"])[0], endpoint["token"]).do(upload)
    elif form.kind == APPROVAL:
        body = {"approve": form.assumed == APPROVED, "reason": form.assumed_because, "step": step}
        call(endpoint, "POST", f"{path}/decision", body)
    else:
        given = {"answer": form.text(form.assumed), "step": step, "sure": True, "reason": form.assumed_because}
        call(endpoint, "POST", f"{path}/answer", given)
    return True


def _form(data: Path, run: str, step: int) -> AnswerForm:
    """Return what the question of a step takes as an answer."""
    journal = JournalReader(data / "journal.db")
    try:
        rows = journal.entries(run=run, kinds=("step",), newest_first=True)
        return AnswerForm.from_json(next(row.body["args"]["answer"] for row in rows if row.body["n"] == step))
    finally:
        journal.close()
