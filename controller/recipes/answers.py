"""Whether an answer is valid: text such as "8.2 mM" becomes a checked number in the internal unit of its question."""

from __future__ import annotations

import math

from controller.rig.quantities import QuantityError, parse_quantity
from protocols.answers import APPROVAL, ASSAY, CHOICE, LONGEST_TEXT, NUMBER, UPLOADED, Answer, AnswerForm

LONGEST_NAME = 100


class AnswerRefused(ValueError):
    """The answer is not valid; the run goes on waiting. The message says what to write."""


def checked(form: AnswerForm, given: str) -> Answer:
    """Return a valid answer in its internal unit; raise :class:`AnswerRefused` for any other."""
    text = given.strip()
    if form.kind in (NUMBER, ASSAY):
        return _number(form, text)
    if form.kind in UPLOADED:
        raise AnswerRefused(f"a text is no {form.kind}. Next: upload {form.wants}")
    if form.kind == APPROVAL:
        raise AnswerRefused(f"a text is no decision. Next: approve or reject; it takes {form.wants}")
    if form.kind == CHOICE:
        if text not in form.choices:
            raise AnswerRefused(f"“{_short(text)}” is no answer here. Next: answer {form.wants}")
        return text
    if not text or len(text) > LONGEST_TEXT or not text.replace("\n", " ").isprintable():
        what = "an empty text" if not text else f"a text of {len(text)} characters or with control characters"
        raise AnswerRefused(f"{what} is no answer here. Next: write {form.wants}")
    return text


def safe_name(name: str) -> str:
    """Return the name of a file for people: its last part, printable, at most 100 characters. It is never a path."""
    last = name.replace("\\", "/").rpartition("/")[2]
    shown = "".join(each for each in last if each.isprintable()).strip()[:LONGEST_NAME]
    return shown or "unnamed"


def _number(form: AnswerForm, text: str) -> float:
    try:
        value = parse_quantity(text, form.unit) * form.scale if form.unit else float(text)
    except QuantityError as error:
        what = str(error).partition("; ")[0]
        raise AnswerRefused(
            f"{what}. Next: answer {form.wants}, with its unit, such as “{form.text(form.assumed)}”"
        ) from None
    except ValueError:
        raise AnswerRefused(f"“{_short(text)}” is not a number. Next: answer {form.wants}") from None
    value = float(f"{value:.12g}")
    low, high = -math.inf if form.low is None else form.low, math.inf if form.high is None else form.high
    if not (math.isfinite(value) and low <= value <= high):
        raise AnswerRefused(
            f"{form.text(value)} is out of range. Likely cause: a slip of unit or digit. Next: answer {form.wants}"
        )
    return value


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT // 10 else f"{text[: LONGEST_TEXT // 10]}…"
