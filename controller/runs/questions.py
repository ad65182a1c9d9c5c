"""Questions of a run to a person: which one is open."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from controller.core.run_states import RunState
from controller.steps.steps import StepRecord
from protocols.answers import AnswerForm
from protocols.language import ASKING

LATEST = 200
"""How many of the latest steps are searched for an open question: the question holds the whole run."""


_ASKING = frozenset(verb.name for verb in ASKING)


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """An open question: number of its step, message, and the form of its answer (None: the run is only to be resumed)."""

    n: int
    at: str
    """Position of the step."""
    message: str
    answer: AnswerForm | None


def question_text(n: int, message: str) -> str:
    """Return a question as the run's message shows it."""
    return f"step {n}: {message}"


def open_question(steps: dict[str, StepRecord], state: RunState, held_for: Iterable[str]) -> OpenQuestion | None:
    """Return the question that a held run waits for; None while none is open.

    A step that asks for no answer is open only while its message is among `held_for`: a run may be held for something else.
    """
    if state not in (RunState.HOLDING, RunState.HELD):
        return None
    latest = (steps[at] for at in islice(reversed(steps), LATEST))
    step = next((step for step in latest if step.verb in _ASKING and not step.done and step.answer is None), None)
    if step is None:
        return None
    data = step.args.get("answer")
    if data is None and not any(of_step(reason, step.n) for reason in held_for):
        return None
    form = None if data is None else AnswerForm.from_json(data)
    return OpenQuestion(step.n, step.at, str(step.args["message"]), form)


def of_step(reason: str, n: int) -> bool:
    """Return whether a run's message is the question of step `n`."""
    return reason.startswith(question_text(n, ""))
