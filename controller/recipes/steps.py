"""The steps of a recipe file become the steps of a program; one that is wrong is left out, and noted."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from controller.recipes.form import VERBS, WORD, Field
from controller.recipes.values import Values
from controller.rig.problems import Place, nearest
from protocols import recycle
from protocols.blocks import Call, End, If, Repeat, Together
from protocols.expression import PLAIN, Expression, constant, unit_text
from protocols.parameters import ParamError
from protocols.program import Step
from protocols.registry import Recipe
from protocols.steps import (
    MOVES,
    READS,
    Ask,
    Calibrate,
    Estimate,
    GradeBatch,
    Move,
    Note,
    Read,
    SetValues,
    Wait,
    WaitUntil,
    saved_units,
)

PROBE_VALID_S = 7 * 86_400.0
"""So long is a probe trusted after its calibration, unless a recipe says otherwise; as `choroid calibrate sensor`."""


@dataclass(slots=True, kw_only=True)
class Steps(Values, ABC):
    """Reads steps; where the recipes are that they call, knows who reads the file."""

    path: Path
    saved: set[str] = field(default_factory=set)
    """Names that the steps read so far save; of a branch, those of the branch."""

    @abstractmethod
    def called(self, name: str, place: Place) -> Recipe | None:
        """The recipe that a step calls; None, and noted, when there is none."""

    def steps(self, data: Any, place: Place) -> list[Step]:
        """The steps of a list."""
        if not isinstance(data, list) or not data:
            self.wrong(place, "there are no steps", "Write a list: each step on a line that begins with “- ”")
            return []
        made = [self._step(item, (*place, index)) for index, item in enumerate(data)]
        return [step for step in made if step is not None]

    def _step(self, item: Any, place: Place) -> Step | None:
        if isinstance(item, str):
            item = {item: None}
        if not isinstance(item, dict) or len(item) != 1:
            self.wrong(
                place, "a step is one verb with what it takes", "Write “- wait: 10 min”; begin each step with “- ”"
            )
            return None
        verb, body = next(iter(item.items()))
        known = VERBS.get(verb)
        if known is None:
            self.wrong((*place, verb), f"no step is called “{verb}”", nearest(verb, VERBS, "steps"))
            return None
        within = (*place, verb)
        before = len(self.problems)
        fields = self._fields(verb, body, within)
        if fields is None:
            return None
        step = self._made(verb, fields, within)
        return step if len(self.problems) == before else None

    def _fields(self, verb: str, body: Any, place: Place) -> dict[str, Any] | None:
        known = VERBS[verb]
        if verb == "set":
            if not isinstance(body, dict) or not body:
                self.wrong(place, "set wants names and values", "Write “- set: {missing: loop.target - loop.volume}”")
                return None
            return dict(body)
        if verb == "together":
            if not isinstance(body, dict) or len(body) < 2:
                self.wrong(place, "together wants two branches or more", "Give each a name and, below it, its steps")
                return None
            return dict(body)
        if body is None:
            body = {}
        elif not isinstance(body, dict):
            if known.short is None:
                self.wrong(place, f"{verb} wants its entries by name", f"Known: {', '.join(known.fields) or 'none'}")
                return None
            body = {known.short: body}
        for key in body:
            if key not in known.fields:
                self.wrong((*place, key), f"{verb} has no “{key}”", nearest(key, known.fields, "entries"))
                return None
        missing = [name for name, entry in known.fields.items() if entry.required and body.get(name) is None]
        if missing:
            self.wrong(place, f"{verb} lacks “{missing[0]}”", f"Add {missing[0]}: {known.fields[missing[0]].help}")
            return None
        return dict(body)

    def _made(self, verb: str, fields: dict[str, Any], place: Place) -> Step | None:
        where = f"{self.path}:{self.document.line(place)}"
        if verb == "set":
            return self._set(fields, place, where)
        if verb == "together":
            return self._together(fields, place, where)
        if verb in ("if", "repeat"):
            return self._block(verb, fields, place, where)
        if verb == "call":
            return self._call(fields, place, where)
        entries = VERBS[verb].fields

        def quantity_of(name: str, default: float = 0.0) -> Expression:
            entry = entries[name]
            if name not in fields:
                return constant(default, entry.unit or PLAIN)
            return self.expression(fields[name], entry, (*place, name))

        save = self.name(fields.get("as"), (*place, "as"))
        step: Step | None
        if verb in MOVES:
            step = Move(where=where, verb=verb, volume=quantity_of("volume"), save=save)
            unit = "uL"
        elif verb in READS:
            unit = READS[verb][0]
            settle = quantity_of("settle") if "settle" in entries else constant(0.0, "s")
            step = Read(where=where, verb=verb, point=None, unit=unit, settle_s=settle, save=save)
        elif verb == "measure":
            point = self.point(fields["point"], (*place, "point"))
            unit = self.unit(point, fields.get("unit"), (*place, "point"), needed=save is not None)
            step = Read(where=where, verb=verb, point=point, unit=unit, settle_s=quantity_of("settle"), save=save)
        elif verb == "liver.calibrate":
            unit, valid_s = "", quantity_of("valid", PROBE_VALID_S)
            place_set = self._choice(verb, "place", fields["place"], place)
            step = Calibrate(where=where, place_set=place_set, ph=quantity_of("ph"), valid_s=valid_s, save=save)
        elif verb == "estimate":
            unit, step = "mM", Estimate(where=where, save=save)
        elif verb == "grade":
            settle = quantity_of("settle", recycle.SETTLE_S)
            unit, step = "grade", GradeBatch(where=where, settle_s=settle, save=save)
        elif verb == "wait":
            unit, step = "", Wait(where=where, time_s=quantity_of("time"))
        elif verb == "wait_until":
            unit, step = "", self._wait_until(fields, place, where, quantity_of)
        elif verb == "ask_operator":
            text = fields["message"]
            unit, step = "", Ask(where=where, message=self.template(text, (*place, "message")))
        elif verb == "note":
            unit, step = "", self._note(fields, place, where)
        else:
            unit, step = "", End(where=where)
        if save:
            self._saves(saved_units(verb, save, unit), (*place, "as") if "as" in fields else place)
        return step

    def _choice(self, verb: str, key: str, given: Any, place: Place) -> str:
        """One of a field's choices; noted when it is none."""
        choices = VERBS[verb].fields[key].choices
        if given not in choices:
            self.wrong((*place, key), f"“{given}” is no choice", f"Choose {', '.join(choices)}")
        return str(given)

    def _saves(self, units: Mapping[str, str], place: Place) -> None:
        """From here on there are these names.

        A name keeps its kind: in a loop the text above is run again, with what was saved below it.
        """
        for name, unit in units.items():
            before = self.units.get(name, unit)
            if before != unit:
                what = f"“{name}” is {unit_text(before)} above and {unit_text(unit)} here"
                self.wrong(place, what, "Choose another name for one of them")
                return
        self.units |= units
        self.saved |= set(units)

    def _together(self, fields: dict[str, Any], place: Place, where: str) -> Step:
        """Each branch knows the names that were saved before; no two may save the same."""
        units, saved = dict(self.units), self.saved
        branches, savers, found = {}, dict[str, str](), dict[str, str]()
        for name, body in fields.items():
            checked = self.name(name, (*place, name), new=False)
            self.units, self.saved = dict(units), set()
            steps = self.steps(body, (*place, name))
            for word in sorted(self.saved):
                if word in savers:
                    what = f"the branches “{savers[word]}” and “{name}” both save “{word}”"
                    self.wrong((*place, name), what, "Choose two names: which is the later one nobody can tell")
                savers[word] = name
                found[word] = self.units[word]
            if checked:
                branches[checked] = tuple(steps)
        self.units, self.saved = units | found, saved | set(found)
        return Together(where=where, branches=branches)

    def _set(self, fields: dict[str, Any], place: Place, where: str) -> Step:
        values = {}
        for name, text in fields.items():
            checked = self.name(name, (*place, name))
            before = len(self.problems)
            value = self.expression(text, Field("quantity", "", None), (*place, name))
            if checked:
                if len(self.problems) == before or checked not in self.units:  # one error need not bring others
                    self._saves({checked: value.unit}, (*place, name))
                values[checked] = value
        return SetValues(where=where, values=values)

    def _block(self, verb: str, fields: dict[str, Any], place: Place, where: str) -> Step | None:
        entries = VERBS[verb].fields
        if verb == "if":
            condition = self.expression(fields["condition"], entries["condition"], (*place, "condition"))
            then = self.steps(fields["then"], (*place, "then"))
            other = self.steps(fields["else"], (*place, "else")) if fields.get("else") else []
            return If(where=where, condition=condition, then=tuple(then), otherwise=tuple(other))
        made = {
            name: self.expression(fields[name], entries[name], (*place, name))
            for name in ("times", "every", "while")
            if name in fields
        }
        at = self._clock(fields, place)
        if not made and at is None:
            self.wrong(place, "repeat lacks an end", "Add times, every, daily_at or while")
        if at is not None and "every" in made:
            self.wrong(place, "repeat has both “every” and “daily_at”", "Choose one")
        times = made.get("times")
        endless = times is not None and not times.names and times.number(lambda name: 0.0) == 0
        if endless and "every" not in made and at is None:
            self.wrong(place, "repeat goes round without end and without pause", "Add every or daily_at, or say times")
        every = made.get("every")
        if every is not None and not every.names and every.number(lambda name: 0.0) < 1.0:
            self.wrong((*place, "every"), "“every” is below one second", "Write at least 1 s")
        count = self.name(fields.get("count"), (*place, "count"))
        if count:
            self._saves({count: PLAIN}, (*place, "count"))
        steps = self.steps(fields["steps"], (*place, "steps"))
        return Repeat(
            where=where,
            times=times,
            every_s=every,
            condition=made.get("while"),
            at=at,
            count=count,
            steps=tuple(steps),
        )

    def _clock(self, fields: dict[str, Any], place: Place) -> tuple[str, str] | None:
        if "daily_at" not in fields:
            if "zone" in fields:
                self.wrong((*place, "zone"), "“zone” without “daily_at”", "Remove it, or add daily_at")
            return None
        at, zone = fields["daily_at"], fields.get("zone")
        if not isinstance(at, str) or not re.match(r"^([01]\d|2[0-3]):[0-5]\d$", at):
            self.wrong((*place, "daily_at"), f"“{at}” is no time of day", 'Write it in quotes, as in "09:00"')
            return None
        try:
            ZoneInfo(str(zone))
        except (KeyError, ValueError, OSError):
            what = f"“{zone}” is no time zone" if zone else "the time zone is missing"
            self.wrong((*place, "zone" if zone else "daily_at"), what, "Write one such as zone: Europe/Berlin")
            return None
        return at, str(zone)

    def _call(self, fields: dict[str, Any], place: Place, where: str) -> Step | None:
        name = fields["recipe"]
        if not isinstance(name, str):
            self.wrong((*place, "recipe"), "a recipe's name belongs here", "Write recipe: rinse")
            return None
        called = self.called(name, (*place, "recipe"))
        if called is None:
            return None
        given = {}
        params = {param.name: param for param in called.params}
        entries = fields.get("with") or {}
        if not isinstance(entries, dict):
            self.wrong((*place, "with"), "is not a mapping", "Write with: {volume: 2 mL}")
            return None
        for key, text in entries.items():
            within = (*place, "with", key)
            if key not in params:
                self.wrong(within, f"{called.name} has no parameter “{key}”", nearest(key, params, "parameters"))
                continue
            param = params[key]
            value = self.expression(text, Field("quantity", "", param.unit), within)
            if not value.names:
                try:
                    param.checked(value.number(lambda name: 0.0))
                except ParamError as error:
                    self.wrong(within, str(error), "It is for the called recipe")
            given[key] = value
        return Call(
            where=where, name=called.name, of=called.program or called.function, params=called.params, given=given
        )

    def _wait_until(
        self, fields: dict[str, Any], place: Place, where: str, quantity_of: Callable[..., Expression]
    ) -> Step:
        point = self.point(fields["read"], (*place, "read"))
        organ = point if point in READS else None
        unit = READS[organ][0] if organ else self.unit(point, fields.get("unit"), (*place, "read"), needed=True)
        read = Read(
            where=where,
            verb=organ or "measure",
            point=None if organ else point,
            unit=unit,
            settle_s=constant(0.0, "s"),
            save="value",
        )
        kept = dict(self.units)
        self.units["value"] = unit
        until = self.expression(fields["until"], VERBS["wait_until"].fields["until"], (*place, "until"))
        self.units = kept
        on_timeout = fields.get("on_timeout")
        choices = VERBS["wait_until"].fields["on_timeout"].choices
        if on_timeout is not None and on_timeout not in choices:
            self.wrong((*place, "on_timeout"), f"“{on_timeout}” is no choice", f"Choose {', '.join(choices)}")
        return WaitUntil(
            where=where,
            read=read,
            until=until,
            every_s=quantity_of("every", 60.0),
            timeout_s=quantity_of("timeout"),
            on_timeout=on_timeout,
        )

    def _note(self, fields: dict[str, Any], place: Place, where: str) -> Step:
        kind = self.name(fields["kind"], (*place, "kind"), new=False) or ""
        if kind in ("grade", "recycle", "exchange"):
            self.wrong((*place, "kind"), f"notes of kind “{kind}” are Choroid's own", "Choose another word")
        data: dict[str, Expression | str] = {}
        values = fields.get("values") or {}
        if not isinstance(values, dict):
            self.wrong((*place, "values"), "is not a mapping", "Write values: {drawn: drawn}")
            values = {}
        for name, text in values.items():
            if not re.match(WORD, name) or name == "step":
                self.wrong((*place, "values", name), f"“{name}” cannot be a name here", "Use small letters and _")
            else:
                data[name] = self.expression(text, Field("quantity", "", None), (*place, "values", name))
        return Note(where=where, kind=kind, data=data)
