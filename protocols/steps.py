"""The single steps of a recipe, and what each saves.

A verb is a step by its own record (:class:`Move`, :class:`Read`, :class:`Do`). Steps that only recipes have are declared
here, with the :class:`protocols.verbs.StepForm` of each; steps with steps inside them in :mod:`protocols.blocks`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from protocols.answers import AnswerForm
from protocols.calendar import ClockTime
from protocols.expression import BOOL, GRADE, PLAIN, Expression, MissingValue, is_text
from protocols.host import ProtocolError
from protocols.language import DECISIONS
from protocols.program import Now, Step
from protocols.recycle import SETTLE_S, judge
from protocols.results import NOTHING, Measurement
from protocols.verbs import (
    MAX_WAIT_S,
    READING_UNITS,
    SAVE_AS,
    Argument,
    ReadingVerb,
    SavedValue,
    StepForm,
    TransferVerb,
    Verb,
)

GRADE_BATCH = StepForm(
    "grade",
    "grade the batch in the spent vessel, A to D",
    {"settle": Argument("quantity", "wait before the reading", "s", default=SETTLE_S), "as": SAVE_AS},
    "as",
    {"": SavedValue("letter", GRADE), ".sterility": SavedValue("", GRADE)},
)
WAIT_UNTIL = StepForm(
    "wait_until",
    "read repeatedly until a condition is met",
    {
        "read": Argument("point", "an organ's reading (lung.oxygen) or a device.point", required=True),
        "unit": Argument("choice", "unit of the reading, if the point has no standard name", choices=READING_UNITS),
        "until": Argument("condition", "a condition on “value”", required=True),
        "every": Argument("quantity", "time between readings (default 1 min)", "s", default=60.0, maximum=MAX_WAIT_S),
        "timeout": Argument("quantity", "maximum time to wait", "s", required=True, maximum=MAX_WAIT_S),
        "on_timeout": Argument("choice", "what to do after the timeout (default: the policy)", choices=DECISIONS),
    },
)
SET = StepForm("set", "give names to values", any_names="values")
STEPS = (GRADE_BATCH, WAIT_UNTIL, SET)
"""Forms of the single steps that only recipes have."""


def units_saved(form: StepForm, name: str, unit: str | None = None) -> dict[str, str]:
    """Return the names that a step saves under `name`, with their units; `unit` replaces that of the record."""
    return {f"{name}{end}": saved.unit if unit is None else unit for end, saved in form.saves.items()}


def values_saved(form: StepForm, name: str, result: object) -> dict[str, Any]:
    """Return the values of `result` that a step saves under `name`; None for one that is missing."""
    return {f"{name}{end}": _attribute(result, saved.attribute) for end, saved in form.saves.items() if saved.attribute}


def _attribute(result: Any, path: str) -> Any:
    for part in path.split("."):
        if result is None:
            return None
        result = getattr(result, part)
    return result


async def too_small(now: Now, place: str, verb: str, volume_ul: float, min_ul: float) -> bool:
    """Return whether a volume is below the minimum of its pump; the recipe's policy says what follows."""
    if volume_ul >= min_ul:
        return False
    if now.policies.small_dose == "hold":
        await now.lab.ask(
            f"{place}: {verb} of {volume_ul:g} µL is less than the {min_ul:g} µL that its pump gives. Likely cause: a"
            " computed volume is too small. Next: find out why; when you resume, nothing is moved here, and the recipe"
            " continues"
        )
    await now.lab.note("not_moved", {"verb": verb, "requested_ul": volume_ul, "min_ul": min_ul})
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Move(Step):
    """Move a volume (µL) by a transfer verb."""

    verb: TransferVerb
    form: StepForm
    volume: Expression
    save: str | None

    @property
    def acts(self) -> bool:
        return True

    async def run(self, now: Now) -> None:
        volume_ul = await now.number(self.volume, self.place)
        dose = self.verb.of(now.lab)
        min_ul = now.lab.min_ul(self.verb.name)
        batch_ul = now.lab.volumes()["spent"].ul if self.verb.dialyses else 0.0
        too_little = await too_small(now, self.place, self.verb.name, volume_ul, min_ul)
        moved = NOTHING if too_little else await dose(volume_ul)
        if self.save:
            now.values |= values_saved(self.form, self.save, moved)
            if self.verb.dialyses:
                fibres = now.lab.kidney.dialyser
                share = 0.0 if fibres is None else fibres.exchanged(moved.ul, batch_ul)
                now.values[f"{self.save}.exchanged"] = 100.0 * share


@dataclass(frozen=True, slots=True, kw_only=True)
class Read(Step):
    """Take a settled reading by an organ's verb, or of any `device.point`."""

    verb: Verb
    form: StepForm
    point: str | None
    unit: str
    settle_s: Expression
    save: str | None
    heart: str = ""
    """Name of the heart, for a reading of one heart; empty: of all."""

    @property
    def takes_time(self) -> bool:
        return True

    async def run(self, now: Now) -> None:
        await self.taken(now)

    async def taken(self, now: Now) -> Measurement:
        """Return the reading, and save it."""
        settle_s = await now.number(self.settle_s, self.place)
        verb = self.verb.of(now.lab)
        if self.point is not None:
            reading: Measurement = await verb(self.point, settle_s)
        else:
            given = (settle_s,) if isinstance(self.verb, ReadingVerb) else ()
            reading = await verb(*given, heart=self.heart)
        unit = PLAIN if reading.unit == "pH" else reading.unit
        if reading.interval is not None and self.save and unit != self.unit:
            raise ProtocolError(
                f"{self.place}: {reading.point} is in {reading.unit}, the recipe says {self.unit or 'a plain number'}."
                f" Next: write unit: {reading.unit}"
            )
        if self.save:
            now.values |= values_saved(self.form, self.save, reading)
        return reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Do(Step):
    """Carry out any other verb, with the arguments of its record."""

    verb: Verb
    form: StepForm
    given: Mapping[str, Expression | Template | str]
    """Argument's name → what the recipe says."""
    save: str | None

    @property
    def takes_time(self) -> bool:
        return True

    async def run(self, now: Now) -> None:
        known = self.form.arguments
        arguments = {
            known[name].parameter or name: await self._value(name, given, now) for name, given in self.given.items()
        }
        result = await self.verb.of(now.lab)(**arguments)
        if self.save:
            now.values |= values_saved(self.form, self.save, result)

    async def _value(self, name: str, given: Expression | Template | str, now: Now) -> float | str:
        if isinstance(given, str):
            return given
        if isinstance(given, Template):
            return given.filled(now)
        argument = self.form.arguments[name]
        value = await now.number(given, self.place)
        if problem := argument.out_of_range(value):
            raise ProtocolError(
                f"{self.place}: “{given.text}” is {value:g} {argument.unit}. Next: write a {name} {problem}"
            )
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class GradeBatch(Step):
    """Grade what is in the spent vessel, as `recycle` does; write the note `grade`."""

    settle_s: Expression
    save: str | None

    @property
    def takes_time(self) -> bool:
        return True

    async def run(self, now: Now) -> None:
        estimate = await now.lab.estimate()
        ph = await now.lab.liver.ph(await now.number(self.settle_s, self.place))
        verdict = await judge(now.lab, estimate, ph)
        await now.lab.note("grade", {"cycle": 0, **verdict.to_json(), "estimate": estimate.to_json()})
        if self.save:
            now.values |= {self.save: verdict.letter, f"{self.save}.sterility": verdict.of("sterility")}


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitUntil(Step):
    """Read again and again until a condition on `value` is met; `timeout_s` / `every_s` readings at most."""

    read: Read
    until: Expression
    every_s: Expression
    timeout_s: Expression
    on_timeout: str | None

    @property
    def takes_time(self) -> bool:
        return True

    async def run(self, now: Now) -> None:
        every_s = max(await now.number(self.every_s, self.place), 1.0)
        times = max(1, math.ceil(await now.number(self.timeout_s, self.place) / every_s))
        asking = now
        for turn in range(times):
            if turn:
                await now.lab.sleep(every_s)
            await self.read.taken(now)
            # A reading that cannot be had is no reason to ask while there is time left: it may come back.
            if now.values[str(self.read.save)] is None:
                continue
            met = await asking.valued(self.until, self.place, None)
            if met:
                return
            if met is None:  # of what was saved before something is missing, and stays so: a person is asked once
                asking = replace(now, policies=replace(now.policies, missing="go_on"))
        await now.decide(
            self.on_timeout or now.policies.timeout,
            f"{self.place}: “{self.until.text}” has not come true of {self.read.point or self.read.verb.name} within"
            f" {self.timeout_s.text}. Next: look why, then resume or abort",
        )


@dataclass(frozen=True, slots=True)
class Template:
    """A text with `{expression}` in it."""

    parts: tuple[str | Expression, ...]

    def filled(self, now: Now) -> str:
        """Return the text with the values of its expressions."""
        return "".join(part if isinstance(part, str) else _shown(part, now) for part in self.parts)


def _shown(expression: Expression, now: Now) -> str:
    try:
        value = expression.evaluate(now.value)
    except (MissingValue, ZeroDivisionError):
        return "unknown"
    if expression.unit in (BOOL, GRADE) or is_text(expression.unit):
        return str(value)
    if expression.unit == "uL":
        return f"{value / 1000.0:.4g} mL"
    return f"{value:.4g} {expression.unit}".strip()


_BRACES = re.compile(r"\{([^{}]*)\}")


def template(text: str, parse: Callable[[str], Expression]) -> Template:
    """Read a text with `{expression}` in it."""
    parts: list[str | Expression] = []
    for number, piece in enumerate(_BRACES.split(text)):
        parts.append(parse(piece) if number % 2 else piece)
    return Template(tuple(parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitForClock(Step):
    """Wait for the next time of day of a calendar; the same step does not wait for the same date twice."""

    clock: ClockTime

    @property
    def takes_time(self) -> bool:
        return True

    async def run(self, now: Now) -> None:
        key = f"#{self.where}"  # no name of a recipe begins so
        after = now.values.get(key) if self.clock.at else None
        clock = self.clock
        due = await now.lab.sleep_until_clock(clock.at, clock.zone, after=after, calendar=clock.calendar)
        now.values[key] = due


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask(Step):
    """Ask a person: hold until the run is resumed or, with `answer`, until a valid answer is given; `save` names it."""

    message: Template
    answer: AnswerForm | None
    save: str | None

    @property
    def takes_time(self) -> bool:
        return True

    async def run(self, now: Now) -> None:
        answer = await now.lab.ask(self.message.filled(now), self.answer)
        if self.save:
            now.values[self.save] = answer


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAssay(Step):
    """Hold until a person has entered the result of an assay; `save` names it."""

    message: Template
    form: AnswerForm
    save: str | None

    @property
    def takes_time(self) -> bool:
        return True

    async def run(self, now: Now) -> None:
        form = self.form
        default = None if form.default is None else float(form.default)
        result = await now.lab.assay(form.analyte, form.vessel, self.message.filled(now), default=default)
        if self.save:
            now.values[self.save] = result


@dataclass(frozen=True, slots=True, kw_only=True)
class Approve(Step):
    """Hold until a person has approved or rejected; `save` names the decision."""

    message: Template
    role: str
    other_person: bool
    default: str | None
    on_reject: str
    save: str | None

    @property
    def takes_time(self) -> bool:
        return True

    async def run(self, now: Now) -> None:
        message = self.message.filled(now)
        found = await now.lab.approve(message, self.role, other_person=self.other_person, default=self.default)
        if self.save:
            now.values[self.save] = found.decision
        if not found.approved:
            await now.decide(
                self.on_reject,
                f"{self.place}: “{message}” was rejected by {found.user}: {found.reason}. Next: resume"
                " to go on all the same, or abort the run",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Note(Step):
    """Write values and texts to the journal, as kind `note.<kind>`."""

    kind: str
    data: Mapping[str, Expression | Template | str]

    async def run(self, now: Now) -> None:
        values: dict[str, Any] = {}
        for name, what in self.data.items():
            if isinstance(what, Template):
                values[name] = what.filled(now)
                continue
            try:
                values[name] = what if isinstance(what, str) else what.evaluate(now.value)
            except (MissingValue, ZeroDivisionError):
                values[name] = None
        await now.lab.note(self.kind, values)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetValues(Step):
    """Give names to values: numbers, conditions, grades. What is made of a missing value is missing as well."""

    values: Mapping[str, Expression]

    @property
    def sets(self) -> set[str]:
        return set(self.values)

    async def run(self, now: Now) -> None:
        for name, expression in self.values.items():
            now.values[name] = await now.valued(expression, self.place, None)
