"""Recipe files: YAML becomes the same kind of recipe as a Python protocol. Whatever is wrong is told with file and line.

All of a file is checked before anything is opened or moved: verbs and fields, names, units, volumes and times that no
value of the parameters could mend, calls that come back to themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from controller.execution.recipe_form import FORMAT, NAME, POINT_UNITS, POLICIES, TOP, UNITS, VERBS, WORD, Field
from controller.execution.routes import Route, routes_of
from controller.rig.description import Rig
from controller.rig.document import Document, read_document
from controller.rig.problems import Finding, Place, Problem, RigError, nearest
from controller.rig.quantities import QuantityError, parse_quantity, quantity_text
from protocols import expression, grading, program, recycle
from protocols.expression import BOOL, PLAIN, Expression, ExpressionError, constant
from protocols.parameters import Param, ParamError
from protocols.program import NAMES, READS, Policies, Program, Step, saved_units, template
from protocols.registry import Recipe, UnknownProtocol, source_hash

EXAMPLE = "examples/protocols/weekend.yaml"
DEEPEST = 40
RESERVED = ("and", "or", "not", "min", "max", "abs", "known", "value")

Find = Callable[[str, tuple[Path, ...]], Recipe]
"""A recipe by its name; the files that are being read around it."""


class RecipeError(ParamError):
    """The recipe is not sound; `problems` holds everything that is wrong, by line."""

    def __init__(self, path: Path, problems: Sequence[Problem]) -> None:
        self.path = path
        self.problems = sorted(problems, key=lambda problem: (problem.line, problem.key))
        count = f"{len(problems)} problem{'s' * (len(problems) != 1)}"
        listed = "\n".join(f"  {problem}" for problem in self.problems)
        super().__init__(f"the recipe has {count}; nothing was opened or moved\n{listed}")


def unknown(name: str, around: tuple[Path, ...]) -> Recipe:
    """Where no recipe may be called by name."""
    raise UnknownProtocol(f"no protocol is called “{name}”. Next: name a file that ends in .yaml")


def read_recipe(path: Path, *, find: Find = unknown, around: tuple[Path, ...] = ()) -> Recipe:
    """Read and check a recipe file; `find` looks up recipes that it calls by name.

    Raises :class:`RecipeError` with every problem found, OSError when the file cannot be read.
    """
    path = path.resolve()
    try:
        document = read_document(path, example=EXAMPLE, deepest=DEEPEST)
    except RigError as error:
        raise RecipeError(path, error.problems) from None
    return _Reader(document, find, (*around, path)).recipe()


def check_on(recipe: Recipe, rig: Rig, params: Mapping[str, float]) -> None:
    """Check a recipe against a rig and the parameters of a run, as far as its text alone tells.

    Raises :class:`RecipeError`: a sensor that the rig lacks, a volume that no vessel of it holds.
    """
    made = recipe.program
    if made is None or not recipe.watched:
        return
    routes = routes_of(rig)
    problems: list[Problem] = []
    own = {param.name: params[param.key] for param in made.params}
    called = {id(step) for call in made.all_steps() if isinstance(call, program.Call) for step in _under(call)}
    for step in made.all_steps():
        found = _on_rig(step, rig, routes, {} if id(step) in called else own)
        if found is not None:
            file, _, line = step.where.rpartition(":")
            problems.append(Problem(Path(file), int(line), *found))
    if problems:
        raise RecipeError(recipe.watched[0][0], problems)


def _under(step: Step) -> Iterator[Step]:
    for inner in step.inner():
        yield inner
        yield from _under(inner)


def _on_rig(
    step: Step, rig: Rig, routes: Mapping[str, Route], values: Mapping[str, float]
) -> tuple[str, str, str] | None:
    """Key, what and fix of what is wrong with one step on this rig."""
    if isinstance(step, program.WaitUntil):
        step = step.read
    if isinstance(step, program.Read) and step.point is not None:
        device = step.point.partition(".")[0]
        if device not in rig.devices:
            return step.verb, f"the rig has no device “{device}”", nearest(device, rig.devices, "devices")
    if isinstance(step, program.Move) and step.volume.names <= set(values):
        volume_ul = step.volume.number(lambda name: values[name])
        route = routes[step.verb]
        source, target = rig.vessels[route.source], rig.vessels[route.target]
        shown = quantity_text(volume_ul, "uL")
        if volume_ul > target.limit_ul:
            limit = quantity_text(target.limit_ul, "uL")
            return step.verb, f"{shown} is more than “{route.target}” may hold ({limit})", "Move less at a time"
        if volume_ul > source.capacity_ul - source.floor_ul:
            limit = quantity_text(source.capacity_ul - source.floor_ul, "uL")
            return step.verb, f"{shown} is more than “{route.source}” can give ({limit})", "Move less at a time"
        if 0 < volume_ul < route.least_ul:
            least = quantity_text(route.least_ul, "uL")
            return step.verb, f"{shown} is less than its pump gives", f"Write at least {least}, or leave the step out"
    return None


def quantity(text: str) -> tuple[float, str]:
    """`"2 mL"` to (2000.0, "uL"); a plain number has no unit. Raises :class:`QuantityError`."""
    try:
        return float(text), PLAIN
    except ValueError:
        pass
    for unit in UNITS:
        try:
            return parse_quantity(text, unit), unit
        except QuantityError:
            continue
    raise QuantityError(f"“{text}” is none of the quantities of a recipe; write one such as “2 mL”, “10 min” or “80 %”")


@dataclass(slots=True)
class _Reader:
    """Reads one file; problems are collected, a step that is wrong is left out."""

    document: Document
    find: Find
    around: tuple[Path, ...]
    problems: list[Problem] = field(default_factory=list)
    units: dict[str, str] = field(default_factory=lambda: {name: unit for name, (unit, _) in NAMES.items()})
    params: list[Param] = field(default_factory=list)
    parts: dict[Path, Recipe] = field(default_factory=dict)
    """Recipes from files that this one calls."""
    called_hashes: list[str] = field(default_factory=list)
    saved: set[str] = field(default_factory=set)
    """Names that the steps read so far save; of a branch, those of the branch."""

    @property
    def path(self) -> Path:
        return self.around[-1]

    def recipe(self) -> Recipe:
        data = self.document.data
        self.problems.extend(self.document.problems)
        for key in data:
            if key not in TOP:
                self._wrong((key,), f"“{key}” is nothing that a recipe has", nearest(key, TOP, "entries"))
        if data.get("recipe") != FORMAT:
            self._wrong(("recipe",), "the format is missing or not known", f"Begin the file with “recipe: {FORMAT}”")
        name = self._text(data, "name", NAME, "write a word such as gentle-exchange")
        title = self._text(data, "title", r"^.{1,200}$", "Write one line that tells what it does")
        self._parameters(data.get("parameters") or {})
        policies = self._policies(data.get("policies") or {})
        steps = self._steps(data.get("steps"), ("steps",))
        if self.problems:
            raise RecipeError(self.path, self.problems)
        text = self.path.read_bytes()
        own = source_hash("\n".join([text.decode("utf-8-sig"), *_language(), *self.called_hashes]))
        import hashlib

        watched = {self.path: hashlib.sha256(text).hexdigest()}
        for part in self.parts.values():
            watched |= dict(part.watched)
        params = tuple(self.params)
        return Recipe(name, title, params, Program(params, tuple(steps), policies), own, tuple(watched.items()))

    # --- the head ---------------------------------------------------------------------------------------

    def _text(self, data: Mapping[str, Any], key: str, pattern: str, fix: str) -> str:
        text = data.get(key)
        if not isinstance(text, str) or not re.match(pattern, text):
            self._wrong((key,), f"“{key}” is missing or not of the right form", fix)
            return ""
        return text

    def _parameters(self, data: Any) -> None:
        if not isinstance(data, dict):
            self._wrong(
                ("parameters",), "is not a mapping", "Write “volume: {default: 2 mL, least: …, most: …, help: …}”"
            )
            return
        for name, body in data.items():
            place: Place = ("parameters", name)
            if not re.match(WORD, name) or name in RESERVED or name in self.units:
                self._wrong(
                    place,
                    f"“{name}” cannot be a parameter's name",
                    "Use small letters, digits and _; not a word of the language",
                )
                continue
            wanted = {"default", "least", "most", "help"}
            if not isinstance(body, dict) or set(body) != wanted:
                self._wrong(place, "a parameter has default, least, most and help", "Write all four, nothing else")
                continue
            numbers: list[float] = []
            unit: str | None = None
            for key in ("default", "least", "most"):
                try:
                    text = str(body[key])
                    value, own = (parse_quantity(text, unit), unit) if unit else quantity(text)
                except QuantityError as error:
                    self._quantity_wrong((*place, key), error)
                    break
                if unit is not None and own != unit:
                    self._wrong(
                        (*place, key), f"“{text}” is not of the kind of the default", "Write it with the same unit"
                    )
                    break
                unit = own
                numbers.append(value)
            if len(numbers) < 3 or unit is None:
                self.units[name] = unit or PLAIN
                continue
            default, low, high = numbers
            if not low <= default <= high:
                self._wrong(place, "the default is not between least and most", "Put them in order")
            self.params.append(Param(name, unit, default, low, high, str(body["help"])))
            self.units[name] = unit

    def _policies(self, data: Any) -> Policies:
        chosen = {}
        if not isinstance(data, dict):
            self._wrong(("policies",), "is not a mapping", f"Known policies: {', '.join(POLICIES)}")
            return Policies()
        for key, value in data.items():
            if key not in POLICIES:
                self._wrong(("policies", key), f"no policy is called “{key}”", nearest(key, POLICIES, "policies"))
            elif value not in POLICIES[key].choices:
                self._wrong(("policies", key), f"“{value}” is no choice", f"Choose {', '.join(POLICIES[key].choices)}")
            else:
                chosen[key] = str(value)
        return Policies(**chosen)

    # --- steps ------------------------------------------------------------------------------------------

    def _steps(self, data: Any, place: Place) -> list[Step]:
        if not isinstance(data, list) or not data:
            self._wrong(place, "there are no steps", "Write a list: each step on a line that begins with “- ”")
            return []
        made = [self._step(item, (*place, index)) for index, item in enumerate(data)]
        return [step for step in made if step is not None]

    def _step(self, item: Any, place: Place) -> Step | None:
        if isinstance(item, str):
            item = {item: None}
        if not isinstance(item, dict) or len(item) != 1:
            self._wrong(
                place, "a step is one verb with what it takes", "Write “- wait: 10 min”; begin each step with “- ”"
            )
            return None
        verb, body = next(iter(item.items()))
        known = VERBS.get(verb)
        if known is None:
            self._wrong((*place, verb), f"no step is called “{verb}”", nearest(verb, VERBS, "steps"))
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
                self._wrong(place, "set wants names and values", "Write “- set: {missing: loop.target - loop.volume}”")
                return None
            return dict(body)
        if verb == "together":
            if not isinstance(body, dict) or len(body) < 2:
                self._wrong(place, "together wants two branches or more", "Give each a name and, below it, its steps")
                return None
            return dict(body)
        if body is None:
            body = {}
        elif not isinstance(body, dict):
            if known.short is None:
                self._wrong(place, f"{verb} wants its entries by name", f"Known: {', '.join(known.fields) or 'none'}")
                return None
            body = {known.short: body}
        for key in body:
            if key not in known.fields:
                self._wrong((*place, key), f"{verb} has no “{key}”", nearest(key, known.fields, "entries"))
                return None
        missing = [name for name, entry in known.fields.items() if entry.required and body.get(name) is None]
        if missing:
            self._wrong(place, f"{verb} lacks “{missing[0]}”", f"Add {missing[0]}: {known.fields[missing[0]].help}")
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
            return self._expression(fields[name], entry, (*place, name))

        save = self._name(fields.get("as"), (*place, "as"))
        step: Step | None
        if verb in program.MOVES:
            step = program.Move(where=where, verb=verb, volume=quantity_of("volume"), save=save)
            unit = "uL"
        elif verb in READS:
            unit = READS[verb][0]
            settle = quantity_of("settle") if "settle" in entries else constant(0.0, "s")
            step = program.Read(where=where, verb=verb, point=None, unit=unit, settle_s=settle, save=save)
        elif verb == "measure":
            point = self._point(fields["point"], (*place, "point"))
            unit = self._unit(point, fields.get("unit"), (*place, "point"), needed=save is not None)
            step = program.Read(
                where=where, verb=verb, point=point, unit=unit, settle_s=quantity_of("settle"), save=save
            )
        elif verb == "estimate":
            unit, step = "mM", program.Estimate(where=where, save=save)
        elif verb == "grade":
            settle = quantity_of("settle", recycle.SETTLE_S)
            unit, step = "grade", program.GradeBatch(where=where, settle_s=settle, save=save)
        elif verb == "wait":
            unit, step = "", program.Wait(where=where, time_s=quantity_of("time"))
        elif verb == "wait_until":
            unit, step = "", self._wait_until(fields, place, where, quantity_of)
        elif verb == "ask_operator":
            text = fields["message"]
            unit, step = "", program.Ask(where=where, message=self._template(text, (*place, "message")))
        elif verb == "note":
            unit, step = "", self._note(fields, place, where)
        else:
            unit, step = "", program.End(where=where)
        if save:
            self._saves(saved_units(verb, save, unit))
        return step

    def _saves(self, units: Mapping[str, str]) -> None:
        """From here on there are these names."""
        self.units |= units
        self.saved |= set(units)

    def _together(self, fields: dict[str, Any], place: Place, where: str) -> Step:
        """Each branch knows the names that were saved before; no two may save the same."""
        units, saved = dict(self.units), self.saved
        branches, savers, found = {}, dict[str, str](), dict[str, str]()
        for name, body in fields.items():
            checked = self._name(name, (*place, name), new=False)
            self.units, self.saved = dict(units), set()
            steps = self._steps(body, (*place, name))
            for word in sorted(self.saved):
                if word in savers:
                    what = f"the branches “{savers[word]}” and “{name}” both save “{word}”"
                    self._wrong((*place, name), what, "Choose two names: which is the later one nobody can tell")
                savers[word] = name
                found[word] = self.units[word]
            if checked:
                branches[checked] = tuple(steps)
        self.units, self.saved = units | found, saved | set(found)
        return program.Together(where=where, branches=branches)

    def _set(self, fields: dict[str, Any], place: Place, where: str) -> Step:
        values = {}
        for name, text in fields.items():
            checked = self._name(name, (*place, name))
            before = len(self.problems)
            value = self._expression(text, Field("quantity", "", None), (*place, name))
            if checked:
                if len(self.problems) == before or checked not in self.units:  # one error need not bring others
                    self._saves({checked: value.unit})
                values[checked] = value
        return program.SetValues(where=where, values=values)

    def _block(self, verb: str, fields: dict[str, Any], place: Place, where: str) -> Step | None:
        entries = VERBS[verb].fields
        if verb == "if":
            condition = self._expression(fields["condition"], entries["condition"], (*place, "condition"))
            then = self._steps(fields["then"], (*place, "then"))
            other = self._steps(fields["else"], (*place, "else")) if fields.get("else") else []
            return program.If(where=where, condition=condition, then=tuple(then), otherwise=tuple(other))
        made = {
            name: self._expression(fields[name], entries[name], (*place, name))
            for name in ("times", "every", "while")
            if name in fields
        }
        at = self._clock(fields, place)
        if not made and at is None:
            self._wrong(place, "repeat lacks an end", "Add times, every, daily_at or while")
        if at is not None and "every" in made:
            self._wrong(place, "repeat has both “every” and “daily_at”", "Choose one")
        times = made.get("times")
        endless = times is not None and not times.names and times.number(lambda name: 0.0) == 0
        if endless and "every" not in made and at is None:
            self._wrong(place, "repeat goes round without end and without pause", "Add every or daily_at, or say times")
        every = made.get("every")
        if every is not None and not every.names and every.number(lambda name: 0.0) < 1.0:
            self._wrong((*place, "every"), "“every” is below one second", "Write at least 1 s")
        count = self._name(fields.get("count"), (*place, "count"))
        if count:
            self._saves({count: PLAIN})
        steps = self._steps(fields["steps"], (*place, "steps"))
        return program.Repeat(
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
                self._wrong((*place, "zone"), "“zone” without “daily_at”", "Remove it, or add daily_at")
            return None
        at, zone = fields["daily_at"], fields.get("zone")
        if not isinstance(at, str) or not re.match(r"^([01]\d|2[0-3]):[0-5]\d$", at):
            self._wrong((*place, "daily_at"), f"“{at}” is no time of day", 'Write it in quotes, as in "09:00"')
            return None
        try:
            ZoneInfo(str(zone))
        except (KeyError, ValueError, OSError):
            what = f"“{zone}” is no time zone" if zone else "the time zone is missing"
            self._wrong((*place, "zone" if zone else "daily_at"), what, "Write one such as zone: Europe/Berlin")
            return None
        return at, str(zone)

    def _call(self, fields: dict[str, Any], place: Place, where: str) -> Step | None:
        name = fields["recipe"]
        if not isinstance(name, str):
            self._wrong((*place, "recipe"), "a recipe's name belongs here", "Write recipe: rinse")
            return None
        called = self._called(name, (*place, "recipe"))
        if called is None:
            return None
        given = {}
        params = {param.name: param for param in called.params}
        entries = fields.get("with") or {}
        if not isinstance(entries, dict):
            self._wrong((*place, "with"), "is not a mapping", "Write with: {volume: 2 mL}")
            return None
        for key, text in entries.items():
            within = (*place, "with", key)
            if key not in params:
                self._wrong(within, f"{called.name} has no parameter “{key}”", nearest(key, params, "parameters"))
                continue
            param = params[key]
            value = self._expression(text, Field("quantity", "", param.unit), within)
            if not value.names:
                try:
                    param.checked(value.number(lambda name: 0.0))
                except ParamError as error:
                    self._wrong(within, str(error), "It is for the called recipe")
            given[key] = value
        return program.Call(
            where=where, name=called.name, of=called.program or called.function, params=called.params, given=given
        )

    def _called(self, name: str, place: Place) -> Recipe | None:
        path = (self.path.parent / name).resolve() if name.endswith((".yaml", ".yml")) else None
        try:
            if path is not None:
                if path in self.around:
                    chain = " → ".join(part.name for part in (*self.around[self.around.index(path) :], path))
                    self._wrong(place, f"the recipe calls itself ({chain})", "Take the call out; use repeat")
                    return None
                called = read_recipe(path, find=self.find, around=self.around)
            else:
                called = self.find(name, self.around)
        except OSError as error:
            self._wrong(place, f"the recipe “{name}” cannot be read ({error.strerror})", "Look at its name and place")
            return None
        except RecipeError as error:
            self.problems.extend(error.problems)
            return None
        except UnknownProtocol as error:
            what, _, fix = str(error).partition(". Next: ")
            self._wrong(place, what, f"Or name a file beside this one; {fix}")
            return None
        if called.watched:
            self.parts[called.watched[0][0]] = called
        self.called_hashes.append(called.source_sha256)
        return called

    def _wait_until(
        self, fields: dict[str, Any], place: Place, where: str, quantity_of: Callable[..., Expression]
    ) -> Step:
        point = self._point(fields["read"], (*place, "read"))
        organ = point if point in READS else None
        unit = READS[organ][0] if organ else self._unit(point, fields.get("unit"), (*place, "read"), needed=True)
        read = program.Read(
            where=where,
            verb=organ or "measure",
            point=None if organ else point,
            unit=unit,
            settle_s=constant(0.0, "s"),
            save="value",
        )
        kept = dict(self.units)
        self.units["value"] = unit
        until = self._expression(fields["until"], VERBS["wait_until"].fields["until"], (*place, "until"))
        self.units = kept
        on_timeout = fields.get("on_timeout")
        choices = VERBS["wait_until"].fields["on_timeout"].choices
        if on_timeout is not None and on_timeout not in choices:
            self._wrong((*place, "on_timeout"), f"“{on_timeout}” is no choice", f"Choose {', '.join(choices)}")
        return program.WaitUntil(
            where=where,
            read=read,
            until=until,
            every_s=quantity_of("every", 60.0),
            timeout_s=quantity_of("timeout"),
            on_timeout=on_timeout,
        )

    def _note(self, fields: dict[str, Any], place: Place, where: str) -> Step:
        kind = self._name(fields["kind"], (*place, "kind"), new=False) or ""
        if kind in ("grade", "recycle", "exchange"):
            self._wrong((*place, "kind"), f"notes of kind “{kind}” are Choroid's own", "Choose another word")
        data: dict[str, Expression | str] = {}
        values = fields.get("values") or {}
        if not isinstance(values, dict):
            self._wrong((*place, "values"), "is not a mapping", "Write values: {drawn: drawn}")
            values = {}
        for name, text in values.items():
            if not re.match(WORD, name) or name == "step":
                self._wrong((*place, "values", name), f"“{name}” cannot be a name here", "Use small letters and _")
            else:
                data[name] = self._expression(text, Field("quantity", "", None), (*place, "values", name))
        return program.Note(where=where, kind=kind, data=data)

    # --- what steps are made of -------------------------------------------------------------------------

    def _name(self, name: Any, place: Place, *, new: bool = True) -> str | None:
        if name is None:
            return None
        if not isinstance(name, str) or not re.match(WORD, name) or (new and name in RESERVED):
            self._wrong(place, f"“{name}” cannot be a name here", "Use small letters, digits and _, such as “drawn”")
            return None
        if new and any(param.name == name for param in self.params):
            self._wrong(place, f"“{name}” is a parameter and keeps its value", "Choose another name")
            return None
        return name

    def _point(self, text: Any, place: Place) -> str:
        if not isinstance(text, str) or text.count(".") != 1:
            self._wrong(place, f"“{text}” is no sensor", f"Write device.point, or one of {', '.join(READS)}")
            return ""
        return text

    def _unit(self, point: str, given: Any, place: Place, *, needed: bool) -> str:
        choices = VERBS["measure"].fields["unit"].choices
        if given is not None:
            if given not in choices:
                self._wrong(place, f"“{given}” is no unit of a reading", f"Choose {', '.join(choices)}")
            return PLAIN if given == "pH" else str(given)
        quantity_name = point.rpartition(".")[2]
        if quantity_name not in POINT_UNITS and needed and point:
            self._wrong(place, f"the unit of “{point}” is not known", f"Add unit: one of {', '.join(choices)}")
        return POINT_UNITS.get(quantity_name, PLAIN)

    def _template(self, text: Any, place: Place) -> program.Template:
        if not isinstance(text, str):
            self._wrong(place, "a text belongs here", "Write it in quotes")
            return program.Template(())
        return template(text, lambda piece: self._expression(piece, Field("quantity", "", None), place))

    def _expression(self, text: Any, entry: Field, place: Place) -> Expression:
        """A field's expression, with the unit that it wants; a stand-in when it is wrong."""
        wanted = BOOL if entry.kind == "condition" else entry.unit
        stand_in = constant(0.0, wanted or PLAIN)
        if isinstance(text, bool) and wanted == BOOL:
            return Expression(str(text).lower(), BOOL, frozenset(), lambda values: text)
        if isinstance(text, bool) or not isinstance(text, str | int | float):
            self._wrong(place, "a value belongs here", "Write a quantity such as “2 mL”, or an expression")
            return stand_in
        shown = f"{text:g}" if isinstance(text, float) else str(text)
        try:
            if wanted and wanted != BOOL and re.fullmatch(r"\s*[+-]?[\d.]+([eE][+-]?\d+)?\s*[^\W\d_%°]?.*", shown):
                try:
                    made = constant(parse_quantity(shown, wanted), wanted)
                except QuantityError as error:
                    # Not one quantity: perhaps an expression that begins with a number.
                    if re.search(r"[-+*()<>,]|/\s*\w+\s*[*/]", shown.lstrip(" +-")) is None:
                        self._quantity_wrong(place, error)
                        return stand_in
                    made = expression.parse(shown, self.units, quantity)
            else:
                made = expression.parse(shown, self.units, quantity)
        except ExpressionError as error:
            self._wrong(place, error.what, error.fix)
            return stand_in
        if wanted is not None and made.unit != wanted:
            kind = {BOOL: "a condition (yes or no)", PLAIN: "a plain number"}.get(wanted, f"a quantity in {wanted}")
            got = {BOOL: "a condition", PLAIN: "a plain number"}.get(made.unit, made.unit)
            self._wrong(
                place, f"“{shown}” is {got}; {kind} belongs here", f"Write for example {_EXAMPLES.get(wanted, '3')}"
            )
            return stand_in
        if wanted in ("uL", "s") or entry.help.startswith("how often"):
            self._not_negative(made, wanted or PLAIN, place)
        return made

    def _not_negative(self, made: Expression, unit: str, place: Place) -> None:
        """A volume or time that is negative whatever the parameters are, or at one end of their range."""
        if not made.names <= {param.name for param in self.params}:
            return
        for ends in ("default", "low", "high"):
            values = {param.name: float(getattr(param, ends)) for param in self.params}
            try:
                value = made.number(lambda name, values=values: values[name])  # type: ignore[misc]
            except ZeroDivisionError:
                self._wrong(place, f"“{made.text}” divides by zero", "Narrow the parameter's range")
                return
            if value < 0:
                what = "a negative time" if unit == "s" else "a negative volume" if unit == "uL" else "negative"
                when = "" if not made.names else " at one end of its parameters' range"
                self._wrong(place, f"“{made.text}” is {what}{when}", "Write a value of 0 or more")
                return

    def _quantity_wrong(self, place: Place, error: QuantityError) -> None:
        what, _, fix = str(error).partition("; ")
        self._wrong(place, what, fix[:1].upper() + fix[1:])

    def _wrong(self, place: Place, what: str, fix: str) -> None:
        self.problems.append(self.document.problem(Finding(place, what, fix)))


_EXAMPLES = {"uL": "“2 mL”", "s": "“10 min”", BOOL: "“acidity < 7.2”", PLAIN: "“3”", "%": "“80 %”", "kPa": "“20 kPa”"}


def _language() -> Iterator[str]:
    import inspect

    for module in (program, expression, grading, recycle):
        yield inspect.getsource(module)
