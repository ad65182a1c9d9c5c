"""Replies to the question of a run: each checked against the form of the answer, and ready for the journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.attachments.store import Attachment
from controller.estimator.assays import Assays, AssayTwice
from controller.recipes.answers import AnswerRefused, checked
from controller.runs.people import Person, objection
from controller.runs.questions import OpenQuestion
from protocols.answers import APPROVAL, APPROVED, ASSAY, MEDIA_TYPES, REJECTED, ROLES, UPLOADED, Answer, AnswerForm


@dataclass(frozen=True, slots=True)
class QuestionReply:
    """A valid reply: value, its text for people, and what else the journal keeps."""

    value: Answer
    text: str
    more: Mapping[str, Any] = field(default_factory=dict)


def by_text(form: AnswerForm, given: str) -> QuestionReply:
    """Return a number, a choice or a text; raise :class:`AnswerRefused` for what is not valid."""
    value = checked(form, given)
    return QuestionReply(value, form.text(value))


def by_file(form: AnswerForm, given: Attachment) -> QuestionReply:
    """Return an upload that was kept; raise :class:`AnswerRefused` if the question asks for something else."""
    permitted = {MEDIA_TYPES[each] for each in form.types}
    if form.kind not in UPLOADED or given.media_type not in permitted or given.bytes > form.max_bytes:
        raise AnswerRefused(f"{given.text} is no answer here. Next: answer {form.wants}")
    return QuestionReply(given.sha256, given.text, {"file": {"name": given.name, "media_type": given.media_type}})


def by_decision(form: AnswerForm, *, approved: bool, by: Person, starter: str, reason: str) -> QuestionReply:
    """Return a decision; raise :class:`AnswerRefused` where this person may not take it, or gives no reason."""
    if form.kind != APPROVAL:
        raise AnswerRefused(f"a decision is no answer here. Next: answer {form.wants}")
    if by.role not in ROLES or ROLES.index(by.role) < ROLES.index(form.role):
        held = f"the role {by.role}" if by.role else "no role"
        raise AnswerRefused(
            f"{by.name} has {held}, and the decision takes the role {form.role}. Next: ask a person with that role"
        )
    if form.other_person and (why := objection(by, (starter,))):
        raise AnswerRefused(f"the decision takes another person than “{starter}”, who started the run: {why}")
    if not approved and not reason.strip():
        raise AnswerRefused("a rejection needs a reason. Next: write why")
    value = APPROVED if approved else REJECTED
    return QuestionReply(value, f"{value} by {by.name} ({by.role})", {"role": by.role})


@dataclass(frozen=True, slots=True)
class AssayReply:
    """Enters the results of assays that runs ask for."""

    assays: Assays

    def fits(self, question: OpenQuestion | None, analyte: str, vessel: str) -> bool:
        """Return whether a question asks for an assay of this analyte in this vessel."""
        form = None if question is None else question.answer
        return (
            form is not None
            and form.kind == ASSAY
            and form.analyte == analyte.strip().lower()
            and self.assays.place(form.vessel) == self.assays.place(vessel)
        )

    def by_row(self, question: OpenQuestion, row: Mapping[str, Any]) -> QuestionReply:
        """Return the reply that an assay on record is."""
        value = float(row["value"])
        text = f"{value:g}" if question.answer is None else question.answer.text(value)
        return QuestionReply(value, text, {"assay": row["id"]})

    def entered(
        self, run: str, question: OpenQuestion, given: str, *, by: Person, reason: str, taken: str, sure: bool
    ) -> QuestionReply:
        """Enter a result through the path of all assays; return it.

        Raises:
            AnswerRefused: The question asks for something else.
            AssayError: The result is impossible, or is not used.
        """
        form = question.answer
        if form is None or form.kind != ASSAY:
            raise AnswerRefused("the run asks for no assay. Next: answer its question")
        try:
            row = self.assays.enter(
                form.analyte,
                given,
                vessel=form.vessel,
                taken=taken,
                user=by.name,
                reason=reason,
                sure=sure,
                step=(run, question.n),
            )
        except AssayTwice as known:  # it was entered by hand before: it counts once, and answers the question
            row = {"id": known.seq, "value": known.value}
        return self.by_row(question, row)
