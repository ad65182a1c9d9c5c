"""The form of an answer as a recipe file writes it: `answer: number, unit: mM, min: 0 mM, max: 50 mM`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controller.recipes.answers import AnswerRefused, checked, safe_name
from controller.recipes.values import Values, quantity
from controller.rig.problems import Place
from controller.rig.quantities import QuantityError, parse_quantity, usual_factor
from protocols.answers import (
    CHOICE,
    FILE,
    KINDS,
    LONGEST_CHOICE,
    MAX_FILE_BYTES,
    MEDIA_TYPES,
    NUMBER,
    PHOTO,
    PHOTO_TYPES,
    TEXT,
    UPLOADED,
    AnswerForm,
)
from protocols.assay import Analyte
from protocols.expression import PLAIN, choice_unit
from protocols.expression import TEXT as TEXT_UNIT
from protocols.verbs import UNITS

PARTS: Mapping[str, tuple[str, ...]] = {
    NUMBER: ("answer", "unit", "min", "max", "default"),
    CHOICE: ("answer", "choices", "default"),
    TEXT: ("answer", "default"),
    PHOTO: ("answer", "types", "max_size", "default"),
    FILE: ("answer", "types", "max_size", "default"),
}
"""Kind of an answer → the entries that it may have."""


def unit_of(form: AnswerForm) -> str:
    """Return the unit of a name that holds an answer of this form."""
    if form.kind == NUMBER:
        return form.internal
    return choice_unit(form.choices) if form.kind == CHOICE else TEXT_UNIT


def assay_form(values: Values, place: Place, known: Analyte, entries: Mapping[str, Any]) -> AnswerForm:
    """Return the form of an assay's result; a wrong default is noted in `values`."""
    form = AnswerForm(
        kind="assay",
        unit=known.unit,
        internal=known.unit,
        low=known.low,
        high=known.high,
        analyte=known.name,
        vessel=str(entries["vessel"]),
    )
    if entries.get("default") is None:
        return form
    try:
        return AnswerForm.from_json({**form.to_json(), "default": checked(form, str(entries["default"]))})
    except AnswerRefused as error:
        what, _, fix = str(error).partition(". Next: ")
        values.wrong((*place, "default"), what, fix[:1].upper() + fix[1:])
        return form


class _WrongEntry(Exception):
    """An entry is wrong: its key, what is wrong, how to correct it."""

    def __init__(self, key: str, what: str, fix: str) -> None:
        super().__init__(what)
        self.key = key
        self.what = what
        self.fix = fix


@dataclass(slots=True)
class AnswerReader:
    """Reads the entries of one question; what is wrong is noted in `values`."""

    values: Values
    place: Place
    given: Mapping[str, Any]

    def form(self) -> AnswerForm | None:
        """Return the form of the answer; None, and noted, if it is wrong."""
        try:
            return self._with_default(self._of_kind())
        except _WrongEntry as error:
            place = (*self.place, error.key) if error.key in self.given else self.place
            self.values.wrong(place, error.what, error.fix)
            return None

    def _of_kind(self) -> AnswerForm:
        kind = self.given.get("answer")
        if kind not in KINDS:
            what = f"“{kind}” is no kind of an answer" if kind is not None else "the kind of the answer is missing"
            raise _WrongEntry("answer", what, f"Choose {', '.join(KINDS)}")
        for key in self.given:
            if key not in PARTS[kind]:
                raise _WrongEntry(key, f"the answer “{kind}” has no “{key}”", f"Known: {', '.join(PARTS[kind])}")
        if kind in UPLOADED:
            return self._upload(kind)
        return {NUMBER: self._number, CHOICE: self._choice, TEXT: self._text}[kind]()

    def _upload(self, kind: Any) -> AnswerForm:
        known = PHOTO_TYPES if kind == PHOTO else tuple(MEDIA_TYPES)
        types = self.given.get("types", list(known))
        if not isinstance(types, list) or not types or any(each not in known for each in types):
            raise _WrongEntry("types", f"“{types}” are no types of a {kind}", f"Choose among {', '.join(known)}")
        text = str(self.given.get("max_size", f"{MAX_FILE_BYTES} byte"))
        try:
            max_bytes = parse_quantity(text, "byte")
        except QuantityError as error:
            what = str(error).partition("; ")[0]
            raise _WrongEntry("max_size", what, "Write a size such as 5 MB") from None
        if not 1000.0 <= max_bytes <= MAX_FILE_BYTES:
            fix = f"Write a size from 1 kB to {MAX_FILE_BYTES / 1e6:g} MB"
            raise _WrongEntry("max_size", f"“{text}” is no size of an upload", fix)
        return AnswerForm(kind=kind, types=tuple(types), max_bytes=int(max_bytes))

    def _text(self) -> AnswerForm:
        return AnswerForm(kind="text")

    def _choice(self) -> AnswerForm:
        choices = self.given.get("choices")
        if not isinstance(choices, list) or len(choices) < 2:
            raise _WrongEntry("choices", "a choice needs two answers or more", "Write choices: [clear, cloudy]")
        for text in choices:
            if not isinstance(text, str):
                raise _WrongEntry("choices", f"“{text}” is no text", 'Write each answer in quotes, such as "yes"')
            if not 0 < len(text.strip()) == len(text) <= LONGEST_CHOICE or set(text) & set(",'\"\n"):
                fix = f"Write up to {LONGEST_CHOICE} characters, without comma and quotes"
                raise _WrongEntry("choices", f"“{text}” cannot be an answer", fix)
        if len(set(choices)) != len(choices):
            raise _WrongEntry("choices", "an answer stands twice", "Remove one of the two")
        return AnswerForm(kind="choice", choices=tuple(choices))

    def _number(self) -> AnswerForm:
        unit = self.given.get("unit", "")
        internal, scale = PLAIN, 1.0
        if unit not in ("", "pH"):
            try:
                _, internal = quantity(f"1 {unit}")
                factor = usual_factor(str(unit), internal)
            except QuantityError:
                factor = None
            if factor is None:
                raise _WrongEntry("unit", f"“{unit}” is no unit of an answer", f"Choose for example {', '.join(UNITS)}")
            scale = factor
        form = AnswerForm(kind="number", unit="" if internal == PLAIN else str(unit), internal=internal, scale=scale)
        limits: dict[str, float | None] = {}
        for key in ("min", "max"):
            try:
                limits[key] = self._limit(form, key)
            except (QuantityError, ValueError) as error:
                what, _, fix = str(error).partition("; ")
                raise _WrongEntry(key, what, fix[:1].upper() + fix[1:] or "Write a number") from None
        low, high = limits["min"], limits["max"]
        if low is not None and high is not None and low >= high:
            raise _WrongEntry("max", "“max” is not above “min”", "Put them in order")
        if (low is None or high is None) and "default" not in self.given:
            fix = "Add min and max, or a default: plan and simulate need one"
            raise _WrongEntry("answer", "the number has no range and no default", fix)
        return AnswerForm(kind="number", unit=form.unit, internal=internal, scale=scale, low=low, high=high)

    def _limit(self, form: AnswerForm, key: str) -> float | None:
        if key not in self.given:
            return None
        text = str(self.given[key])
        value = parse_quantity(text, form.internal) if form.unit else float(text)
        if not math.isfinite(value):
            raise ValueError(f"“{text}” is not a finite number")
        return value

    def _with_file_name(self, form: AnswerForm, default: str) -> AnswerForm:
        """Return the form with the name of the file that plan and simulate assume."""
        if safe_name(default) != default:
            raise _WrongEntry("default", f"“{default}” is no name of a file", "Write a name such as chamber.jpg")
        return AnswerForm.from_json({**form.to_json(), "default": default})

    def _with_default(self, form: AnswerForm) -> AnswerForm:
        """Return the form with its default, which has to be a valid answer itself."""
        if "default" not in self.given:
            return form
        default = self.given["default"]
        if isinstance(default, bool):
            raise _WrongEntry("default", f"“{default}” is no text", "Write it in quotes")
        if form.kind in UPLOADED:
            return self._with_file_name(form, str(default))
        try:
            value = checked(form, str(default))
        except AnswerRefused as error:
            what, _, fix = str(error).partition(". Next: ")
            raise _WrongEntry("default", what, fix[:1].upper() + fix[1:]) from None
        return AnswerForm.from_json({**form.to_json(), "default": value})
