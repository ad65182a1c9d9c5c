"""Recipe files: YAML becomes the same kind of recipe as a Python protocol. Every error names file and line.

All of a file is checked before anything is opened or moved: verbs and fields, names, units, volumes and times that are
invalid for every value of the parameters, calls that lead back to the recipe itself.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from controller.recipes.form import FORMAT, FORMS, NAME, PARAMETER, POLICIES, TOP, WORD
from controller.recipes.steps import Steps
from controller.recipes.values import RESERVED, quantity
from controller.rig.document import read_document
from controller.rig.problems import Place, Problem, RigError, nearest
from controller.rig.quantities import QuantityError, parse_quantity
from protocols.expression import PLAIN
from protocols.parameters import Param, ParamError
from protocols.program import VERSION as PROGRAM_VERSION
from protocols.program import Policies, Program
from protocols.registry import Recipe, UnknownProtocol, source_hash

EXAMPLE = "examples/protocols/weekend.yaml"
DEEPEST = 40

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
    """Refuse every name of a recipe: for a recipe that may call none by name."""
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
    return _Reader(document, path=path, find=find, around=(*around, path)).recipe()


@dataclass(slots=True, kw_only=True)
class _Reader(Steps):
    """Reads one file; problems are collected, a step that is wrong is left out."""

    find: Find
    around: tuple[Path, ...]
    """The files that are being read, this one last."""
    parts: dict[Path, Recipe] = field(default_factory=dict)
    """Recipes from files that this one calls."""
    calls: list[Recipe] = field(default_factory=list)
    """Recipes that this one calls, in the order of its text."""

    def recipe(self) -> Recipe:
        data = self.document.data
        self.problems.extend(self.document.problems)
        for key in data:
            if key not in TOP:
                self.wrong((key,), f"“{key}” is nothing that a recipe has", nearest(key, TOP, "entries"))
        if data.get("recipe") != FORMAT:
            self.wrong(("recipe",), "the format is missing or not known", f"Begin the file with “recipe: {FORMAT}”")
        name = self._text(data, "name", NAME, "write a word such as gentle-exchange")
        title = self._text(data, "title", r"^.{1,200}$", "Write one line that tells what it does")
        self._parameters(data.get("parameters") or {})
        policies = self._policies(data.get("policies") or {})
        steps = self.steps(data.get("steps"), ("steps",))
        if self.problems:
            raise RecipeError(self.path, self.problems)
        watched = {self.path: hashlib.sha256(self.path.read_bytes()).hexdigest()}
        for part in self.parts.values():
            watched |= dict(part.watched)
        program = Program(tuple(self.params), tuple(steps), policies)
        return Recipe(name, title, program.params, program, self._hash(program), tuple(watched.items()))

    def _hash(self, program: Program) -> str:
        """Return the hash of what the course of the recipe depends on: not its comments, title and descriptions."""
        params = [(param.name, param.unit, param.default, param.low, param.high) for param in program.params]
        course = {
            "parameters": params,
            "policies": asdict(program.policies),
            "steps": _course(self.document.data["steps"]),
        }
        called = [recipe.source_sha256 for recipe in self.calls]
        return source_hash(f"recipes {PROGRAM_VERSION}", json.dumps(course, default=str), *called)

    # --- the head ---------------------------------------------------------------------------------------

    def _text(self, data: Mapping[str, Any], key: str, pattern: str, fix: str) -> str:
        text = data.get(key)
        if not isinstance(text, str) or not re.match(pattern, text):
            self.wrong((key,), f"“{key}” is missing or not of the right form", fix)
            return ""
        return text

    def _parameters(self, data: Any) -> None:
        if not isinstance(data, dict):
            self.wrong(("parameters",), "is not a mapping", "Write “volume: {default: 2 mL, min: …, max: …, help: …}”")
            return
        for name, body in data.items():
            place: Place = ("parameters", name)
            if not re.match(WORD, name) or name in RESERVED or name in self.units:
                self.wrong(
                    place,
                    f"“{name}” cannot be a parameter's name",
                    "Use small letters, digits and _; not a word of the language",
                )
            elif isinstance(body, dict) and set(body) == set(PARAMETER):
                self._parameter(name, body, place)
            else:
                self.wrong(
                    place, f"a parameter has {', '.join(PARAMETER[:-1])} and help", "Write all four, nothing else"
                )
                self.units[name] = _unit_of_default(body)

    def _parameter(self, name: str, body: Mapping[str, Any], place: Place) -> None:
        """Add a parameter. If one of its quantities is wrong, only its unit is known to the steps."""
        numbers, unit = self._parameter_range(body, place)
        if len(numbers) < 3 or unit is None:
            self.units[name] = unit or PLAIN
            return
        default, low, high = numbers
        if not low <= default <= high:
            self.wrong(place, "the default is not between min and max", "Put them in order")
        self.params.append(Param(name, unit, default, low, high, str(body["help"])))
        self.units[name] = unit

    def _parameter_range(self, body: Mapping[str, Any], place: Place) -> tuple[list[float], str | None]:
        """Return default, lowest and highest value of a parameter up to the first that is wrong, and their unit."""
        numbers: list[float] = []
        unit: str | None = None
        for key in ("default", "min", "max"):
            text = str(body[key])
            try:
                value, own = (parse_quantity(text, unit), unit) if unit else quantity(text)
            except QuantityError as error:
                self.quantity_wrong((*place, key), error)
                break
            if unit is not None and own != unit:
                self.wrong((*place, key), f"“{text}” is not of the kind of the default", "Write it with the same unit")
                break
            unit = own
            numbers.append(value)
        return numbers, unit

    def _policies(self, data: Any) -> Policies:
        chosen = {}
        if not isinstance(data, dict):
            self.wrong(("policies",), "is not a mapping", f"Known policies: {', '.join(POLICIES)}")
            return Policies()
        for key, value in data.items():
            if key not in POLICIES:
                self.wrong(("policies", key), f"no policy is called “{key}”", nearest(key, POLICIES, "policies"))
            elif value not in POLICIES[key].choices:
                self.wrong(("policies", key), f"“{value}” is no choice", f"Choose {', '.join(POLICIES[key].choices)}")
            else:
                chosen[key] = str(value)
        return Policies(**chosen)

    # --- recipes that this one calls ---------------------------------------------------------------------

    def called(self, name: str, place: Place) -> Recipe | None:
        path = (self.path.parent / name).resolve() if name.endswith((".yaml", ".yml")) else None
        try:
            if path is not None:
                if path in self.around:
                    chain = " → ".join(part.name for part in (*self.around[self.around.index(path) :], path))
                    self.wrong(place, f"the recipe calls itself ({chain})", "Take the call out; use repeat")
                    return None
                called = read_recipe(path, find=self.find, around=self.around)
            else:
                called = self.find(name, self.around)
        except OSError as error:
            self.wrong(place, f"the recipe “{name}” cannot be read ({error.strerror})", "Look at its name and place")
            return None
        except RecipeError as error:
            self.problems.extend(error.problems)
            return None
        except UnknownProtocol as error:
            what, _, fix = str(error).partition(". Next: ")
            self.wrong(place, what, f"Or name a file in the same folder; {fix}")
            return None
        if called.watched:
            self.parts[called.watched[0][0]] = called
        self.calls.append(called)
        return called


def _unit_of_default(body: Any) -> str:
    """Return the unit of a parameter whose attributes are wrong, so that the steps that use it are not wrong as well."""
    try:
        return quantity(str(body["default"]))[1]
    except (KeyError, TypeError, QuantityError):
        return PLAIN


def _course(data: Any) -> Any:
    """Return the data of steps without the texts that they show to people."""
    if isinstance(data, list):
        return [_course_of_step(item) for item in data]
    return {key: _course(value) for key, value in data.items()} if isinstance(data, dict) else data


def _course_of_step(item: Any) -> Any:
    """Return the data of one step without texts; the name alone of a step that only shows a text."""
    name = str(next(iter(item), "")) if isinstance(item, dict) else ""
    form = FORMS.get(name)
    texts = {} if form is None else {key for key, of in form.arguments.items() if of.kind == "text"}
    if not texts:
        return _course(item)
    body = item[name]
    left = {key: value for key, value in body.items() if key not in texts} if isinstance(body, dict) else {}
    return {name: _course(left)} if left else name
