"""Turn the steps of a recipe file into the steps of a program; a step that is wrong is left out and noted."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.recipes.answer_form import AnswerReader, assay_form, unit_of
from controller.recipes.clock_form import clock_time
from controller.recipes.form import FORMS, PART, STEP_OF, VERB_OF, WORD
from controller.recipes.step_fields import StepFields, Written
from controller.recipes.values import ANY_QUANTITY
from controller.rig.problems import Place, nearest
from protocols import blocks
from protocols.answers import DECISIONS as DECIDED
from protocols.answers import KINDS
from protocols.assay import ANALYTES
from protocols.blocks import Call, End, If, Repeat, Together
from protocols.calendar import ClockTime
from protocols.chamber_steps import EACH, FOR_EACH, DoseChamber, ForEach
from protocols.chambers import ALL_CHAMBERS
from protocols.expression import PLAIN, Expression, choice_unit, constant
from protocols.language import OTHER_PERSON, Lab
from protocols.parameters import ParamError
from protocols.program import CHAMBER_NAMES, Step
from protocols.registry import Recipe
from protocols.steps import (
    GRADE_BATCH,
    SET,
    WAIT_UNTIL,
    Approve,
    Ask,
    Do,
    GradeBatch,
    Move,
    Note,
    Read,
    RequestAssay,
    SetValues,
    Template,
    WaitForClock,
    WaitUntil,
)
from protocols.table import READINGS
from protocols.verbs import AnyReadingVerb, Argument, ChamberVerb, StepForm, TransferVerb

OWN_NOTES = ("grade", "recycle", "exchange")
"""Kinds of notes that Choroid writes itself."""


@dataclass(slots=True, kw_only=True)
class Steps(StepFields, ABC):
    """Reads steps. A subclass finds the recipes that they call."""

    @abstractmethod
    def called(self, name: str, place: Place) -> Recipe | None:
        """Return the recipe that a step calls; None, and noted, when there is none."""

    def steps(self, data: Any, place: Place) -> list[Step]:
        """Return the steps of a list."""
        if not isinstance(data, list) or not data:
            self.wrong(place, "there are no steps", "Write a list: each step on a line that begins with “- ”")
            return []
        made = [self._step(item, (*place, index)) for index, item in enumerate(data)]
        return [step for step in made if step is not None]

    def _step(self, item: Any, place: Place) -> Step | None:
        if isinstance(item, str):
            item = {item: None}
        if isinstance(item, dict) and set(item) == {FOR_EACH.step, "do"}:
            return self._for_each_do(item, place)
        if not isinstance(item, dict) or len(item) != 1:
            self.wrong(
                place, "a step is one verb with what it takes", "Write “- wait: 10 min”; begin each step with “- ”"
            )
            return None
        name, body = next(iter(item.items()))
        form = FORMS.get(name)
        if form is None:
            self.wrong((*place, name), f"no step is called “{name}”", nearest(name, FORMS, "steps"))
            return None
        within = (*place, name)
        before = len(self.problems)
        entries = self._any_entries(form, body, within) if form.any_names else self._entries(form, body, within)
        if entries is None:
            return None
        step = self._made(Written(form, entries, within, f"{self.path}:{self.document.line(within)}"))
        return step if len(self.problems) == before else None

    def _any_entries(self, form: StepForm, body: Any, place: Place) -> dict[str, Any] | None:
        """Return the entries of a step whose names the recipe chooses."""
        step = form.step
        if form.any_names == "values" and (not isinstance(body, dict) or not body):
            self.wrong(
                place, f"{step} wants names and values", f"Write “- {step}: {{missing: loop.target - loop.volume}}”"
            )
            return None
        if form.any_names == "steps" and (not isinstance(body, dict) or len(body) < 2):
            self.wrong(place, f"{step} wants two branches or more", "Give each a name and, below it, its steps")
            return None
        return dict(body)

    def _entries(self, form: StepForm, body: Any, place: Place) -> dict[str, Any] | None:
        """Return the entries of a step by their names, checked against its form."""
        known = form.arguments
        if body is None:
            body = {}
        elif not isinstance(body, dict):
            if form.short is None:
                self.wrong(place, f"{form.step} wants its entries by name", f"Known: {', '.join(known) or 'none'}")
                return None
            body = {form.short: body}
        for key in body:
            if key not in known:
                self.wrong((*place, key), f"{form.step} has no “{key}”", nearest(key, known, "entries"))
                return None
        missing = [name for name in form.required if body.get(name) is None]
        if missing:
            self.wrong(place, f"{form.step} lacks “{missing[0]}”", f"Add {missing[0]}: {known[missing[0]].help}")
            return None
        return dict(body)

    def _made(self, written: Written) -> Step | None:
        """Return the step; what it saves is known to the steps after it."""
        form = written.form
        own = _OWN.get(form.step)
        if own is not None:
            return own(self, written)
        save = self.save_name(written)
        verb = VERB_OF.get(form.step)
        step: Step
        if isinstance(verb, TransferVerb):
            volume = self.quantity(written, "volume")
            step = Move(where=written.where, verb=verb, form=form, volume=volume, save=save)
        elif isinstance(verb, ChamberVerb):
            step = self._dose(written, verb, save)
        elif isinstance(verb, AnyReadingVerb):
            settle_s = self.quantity(written, "settle") if "settle" in form.arguments else constant(0.0, "s")
            step = Read(
                where=written.where,
                verb=verb,
                form=form,
                point=None,
                unit=verb.unit,
                settle_s=settle_s,
                save=save,
                heart=self.part(written, "heart"),
            )
        else:
            given = {name: self.given(written, name) for name in form.arguments if name != "as"}
            step = Do(where=written.where, verb=VERB_OF[form.step], form=form, given=given, save=save)
        self.saves_as(written, save)
        return step

    def _dose(self, written: Written, verb: ChamberVerb, save: str | None) -> Step:
        bound = None
        if "max_carry_over" in written.entries:
            bound = self.quantity(written, "max_carry_over")
        return DoseChamber(
            where=written.where,
            verb=verb,
            form=written.form,
            at=self.part(written, verb.place),
            source=self.part(written, verb.source) if verb.source else "",
            volume=self.quantity(written, "volume"),
            max_carry_over=bound,
            save=save,
        )

    def _for_each_do(self, item: dict[str, Any], place: Place) -> Step | None:
        """Return a `for_each` whose steps are in a key of the same item, `do`."""
        which = item[FOR_EACH.step]
        known = {name: argument for name, argument in FOR_EACH.arguments.items() if name != "do"}
        if which == EACH:
            which = {}
        if not isinstance(which, dict) or not set(which) <= set(known):
            what = f"“{which}” names no chambers"
            self.wrong((*place, FOR_EACH.step), what, "Write chamber, or {group: …}, or {chambers: […]}")
            return None
        before = len(self.problems)
        entries = {**which, "do": item["do"]}
        step = self._for_each(Written(FOR_EACH, entries, place, f"{self.path}:{self.document.line(place)}"))
        return step if len(self.problems) == before else None

    def _for_each(self, written: Written) -> Step:
        """Read a loop over chambers. Inside, the names of the chamber are known; what it saves is not known after it."""
        place, entries = written.place, written.entries
        if "group" in entries and "chambers" in entries:
            self.wrong(place, "for_each has both “group” and “chambers”", "Choose one")
        group = entries.get("group", ALL_CHAMBERS)
        if not isinstance(group, str):
            self.wrong((*place, "group"), f"“{group}” is no name of a group", "Write it as in the rig file")
        names = entries.get("chambers", [])
        if not isinstance(names, list) or not all(isinstance(name, str) and re.match(PART, name) for name in names):
            self.wrong((*place, "chambers"), "a list of chambers belongs here", "Write chambers: [w01, w02]")
            names = []
        units, saved = dict(self.units), set(self.saved)
        self.units |= dict.fromkeys(CHAMBER_NAMES, "uL")
        steps = self.steps(entries["do"], (*place, "do"))
        self.units, self.saved = units, saved
        return ForEach(where=written.where, group=str(group), chambers=tuple(names), steps=tuple(steps))

    def _measure(self, written: Written) -> Step:
        save = self.save_name(written)
        place = (*written.place, "point")
        point = self.point(written.entries["point"], place)
        unit = self.unit(point, written.entries.get("unit"), place, needed=save is not None)
        settle_s = self.quantity(written, "settle")
        self.saves_as(written, save, unit)
        return Read(
            where=written.where,
            verb=Lab.measure,
            form=written.form,
            point=point,
            unit=unit,
            settle_s=settle_s,
            save=save,
        )

    def _grade(self, written: Written) -> Step:
        save = self.save_name(written)
        settle_s = self.quantity(written, "settle")
        self.saves_as(written, save)
        return GradeBatch(where=written.where, settle_s=settle_s, save=save)

    def _together(self, written: Written) -> Step:
        """Read parallel branches. Each knows the names that were saved before; no two may save the same."""
        place = written.place
        units, saved = dict(self.units), self.saved
        branches, savers, found = {}, dict[str, str](), dict[str, str]()
        for name, body in written.entries.items():
            checked = self.name(name, (*place, name), new=False)
            self.units, self.saved = dict(units), set()
            steps = self.steps(body, (*place, name))
            for word in sorted(self.saved):
                if word in savers:
                    what = f"the branches “{savers[word]}” and “{name}” both save “{word}”"
                    self.wrong((*place, name), what, "Choose two names: the order of the two is not known")
                savers[word] = name
                found[word] = self.units[word]
            if checked:
                branches[checked] = tuple(steps)
        self.units, self.saved = units | found, saved | set(found)
        return Together(where=written.where, branches=branches)

    def _set(self, written: Written) -> Step:
        place, values = written.place, {}
        for name, text in written.entries.items():
            checked = self.name(name, (*place, name))
            before = len(self.problems)
            value = self.expression(text, ANY_QUANTITY, (*place, name))
            if checked:
                if len(self.problems) == before or checked not in self.units:  # one error need not bring others
                    self.saves({checked: value.unit}, (*place, name))
                values[checked] = value
        return SetValues(where=written.where, values=values)

    def _if(self, written: Written) -> Step:
        place, entries = written.place, written.entries
        condition = self.quantity(written, "condition")
        then = self.steps(entries["then"], (*place, "then"))
        other = self.steps(entries["else"], (*place, "else")) if entries.get("else") else []
        return If(where=written.where, condition=condition, then=tuple(then), otherwise=tuple(other))

    def _repeat(self, written: Written) -> Step:
        place, entries = written.place, written.entries
        given: list[str] = [name for name in ("times", "every", "while") if name in entries]
        made = {name: self.quantity(written, name) for name in given}
        at = clock_time(self, entries, place, key="daily_at")
        self._ends(made, at, place)
        count = self.name(entries.get("count"), (*place, "count"))
        if count:
            self.saves({count: PLAIN}, (*place, "count"))
        steps = self.steps(entries["steps"], (*place, "steps"))
        made_repeat = Repeat(
            where=written.where,
            times=made.get("times"),
            every_s=made.get("every"),
            condition=made.get("while"),
            at=at,
            count=count,
            steps=tuple(steps),
        )
        if made_repeat.endless:
            self.wrong(
                place,
                "repeat goes round without end and without pause: no step of it waits, reads or moves, or sets a name of its"
                " condition",
                "Add every or daily_at, or a wait to its steps",
            )
        return made_repeat

    def _ends(self, made: Mapping[str, Expression], at: ClockTime | None, place: Place) -> None:
        """Note a repeat that never ends, or never pauses."""
        if not made and at is None:
            self.wrong(place, "repeat lacks an end", "Add times, every, daily_at or while")
        if at is not None and "every" in made:
            self.wrong(place, "repeat has both “every” and “daily_at”", "Choose one")
        endless = _constant_value(made.get("times")) == 0
        if endless and "every" not in made and at is None:
            self.wrong(place, "repeat goes round without end and without pause", "Add every or daily_at, or say times")
        every_s = _constant_value(made.get("every"))
        if every_s is not None and every_s < 1.0:
            self.wrong((*place, "every"), "“every” is below one second", "Write at least 1 s")

    def _wait_for_clock(self, written: Written) -> Step | None:
        if "at" not in written.entries and "quiet" not in written.entries:
            self.wrong(written.place, "wait_for_clock lacks “at”", 'Add at: "09:00", or quiet: "20:00-07:00"')
            return None
        clock = clock_time(self, written.entries, written.place, key="at")
        return None if clock is None else WaitForClock(where=written.where, clock=clock)

    def _call(self, written: Written) -> Step | None:
        place = written.place
        name = written.entries["recipe"]
        if not isinstance(name, str):
            self.wrong((*place, "recipe"), "a recipe's name belongs here", "Write recipe: rinse")
            return None
        called = self.called(name, (*place, "recipe"))
        if called is None:
            return None
        return Call(
            where=written.where,
            name=called.name,
            of=called.program or called.function,
            params=called.params,
            given=self._with(called, written.entries.get("with") or {}, (*place, "with")),
        )

    def _with(self, called: Recipe, entries: Any, place: Place) -> dict[str, Expression]:
        """Return the parameters that a step gives to the recipe that it calls."""
        given: dict[str, Expression] = {}
        if not isinstance(entries, dict):
            self.wrong(place, "is not a mapping", "Write with: {volume: 2 mL}")
            return given
        params = {param.name: param for param in called.params}
        for key, text in entries.items():
            within = (*place, key)
            if key not in params:
                self.wrong(within, f"{called.name} has no parameter “{key}”", nearest(key, params, "parameters"))
                continue
            param = params[key]
            value = self.expression(text, Argument("quantity", "", param.unit), within)
            if not value.names:
                try:
                    param.checked(value.number(lambda name: 0.0))
                except ParamError as error:
                    self.wrong(within, str(error), "It is for the called recipe")
            given[key] = value
        return given

    def _wait_until(self, written: Written) -> Step:
        place, entries = written.place, written.entries
        point = self.point(entries["read"], (*place, "read"))
        organ = READINGS.get(point)
        unit = organ.unit if organ else self.unit(point, entries.get("unit"), (*place, "read"), needed=True)
        verb = organ or Lab.measure
        read = Read(
            where=written.where,
            verb=verb,
            form=FORMS[verb.name],
            point=None if organ else point,
            unit=unit,
            settle_s=constant(0.0, "s"),
            save="value",
        )
        kept = dict(self.units)
        self.units["value"] = unit
        until = self.quantity(written, "until")
        self.units = kept
        return WaitUntil(
            where=written.where,
            read=read,
            until=until,
            every_s=self.quantity(written, "every"),
            timeout_s=self.quantity(written, "timeout"),
            on_timeout=None if entries.get("on_timeout") is None else self.choice(written, "on_timeout"),
        )

    def _note(self, written: Written) -> Step:
        place = written.place
        kind = self.name(written.entries["kind"], (*place, "kind"), new=False) or ""
        if kind in OWN_NOTES:
            self.wrong((*place, "kind"), f"notes of kind “{kind}” are Choroid's own", "Choose another word")
        data: dict[str, Expression | Template | str] = {}
        if written.entries.get("text") is not None:
            data["text"] = self.template(written.entries["text"], (*place, "text"))
        values = written.entries.get("values") or {}
        if not isinstance(values, dict):
            self.wrong((*place, "values"), "is not a mapping", "Write values: {drawn: drawn}")
            values = {}
        for name, text in values.items():
            if not re.match(WORD, name) or name == "step" or name in data:
                self.wrong((*place, "values", name), f"“{name}” cannot be a name here", "Use small letters and _")
            else:
                data[name] = self.expression(text, ANY_QUANTITY, (*place, "values", name))
        return Note(where=written.where, kind=kind, data=data)

    def _ask(self, written: Written) -> Step:
        place, entries = written.place, written.entries
        message = self.template(entries["message"], (*place, "message"))
        given = {key: value for key, value in entries.items() if key not in ("message", "as") and value is not None}
        form = AnswerReader(self, place, given).form() if given else None
        save = self.save_name(written)
        if save and form is None:
            self.wrong((*place, "as"), "“as” without “answer”", f"Add answer: one of {', '.join(KINDS)}")
        elif save and form is not None:
            self.saves_as(written, save, unit_of(form))
        return Ask(where=written.where, message=message, answer=form, save=save)

    def _assay(self, written: Written) -> Step | None:
        entries = written.entries
        analyte = ANALYTES.get(self.choice(written, "analyte"))
        if analyte is None:
            return None
        form = assay_form(self, written.place, analyte, entries)
        message = self.template(entries.get("message") or f"Assay {form.analyte} in {form.vessel}", written.place)
        save = self.save_name(written)
        self.saves_as(written, save, "mM" if analyte.unit == "mmol/L" else PLAIN)
        return RequestAssay(where=written.where, message=message, form=form, save=save)

    def _approve(self, written: Written) -> Step:
        chosen = {
            key: self.choice(written, key)
            for key in ("role", "person", "on_reject", "default")
            if written.entries.get(key) is not None
        }
        save = self.save_name(written)
        self.saves_as(written, save, choice_unit(DECIDED))
        return Approve(
            where=written.where,
            message=self.template(written.entries["message"], (*written.place, "message")),
            role=chosen.get("role", "engineer"),
            other_person=chosen.get("person") == OTHER_PERSON,
            default=chosen.get("default"),
            on_reject=chosen.get("on_reject", "end"),
            save=save,
        )

    def _end(self, written: Written) -> Step:
        return End(where=written.where)


_OWN: Mapping[str, Callable[[Steps, Written], Step | None]] = {
    Lab.measure.name: Steps._measure,
    Lab.note.name: Steps._note,
    STEP_OF[Lab.ask.name]: Steps._ask,
    STEP_OF[Lab.assay.name]: Steps._assay,
    STEP_OF[Lab.approve.name]: Steps._approve,
    STEP_OF[Lab.sleep_until_clock.name]: Steps._wait_for_clock,
    GRADE_BATCH.step: Steps._grade,
    WAIT_UNTIL.step: Steps._wait_until,
    SET.step: Steps._set,
    FOR_EACH.step: Steps._for_each,
    blocks.IF.step: Steps._if,
    blocks.REPEAT.step: Steps._repeat,
    blocks.TOGETHER.step: Steps._together,
    blocks.CALL.step: Steps._call,
    blocks.END.step: Steps._end,
}
"""Steps that are read by code of their own; every other one is read by its form alone."""


def _constant_value(expression: Expression | None) -> float | None:
    """Return the value of an expression without names; None for any other, or for no expression."""
    return None if expression is None or expression.names else expression.number(lambda name: 0.0)
