"""The grading rules of a rig: a versioned file of limits and prices, the shipped one or the lab's own.

The rules are read together with the rig file and are part of the rig, so that its hash covers every limit. Each number is
written with its unit. All mistakes are reported at once, with file and line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from controller.rig.document import Document, read_document
from controller.rig.problems import Finding, Place, Problem, RigError, nearest
from controller.rig.quantities import QuantityError, parse_quantity
from controller.rig.rules import Edge, Grading, Variable

FORMAT = 1
SHIPPED = Path(__file__).resolve().parents[2] / "protocols" / "grading.yaml"
LETTERS = ("A", "B", "C")
WORSE = ("higher", "lower", "outside")
EDGE = ("better", "worse")


@dataclass(frozen=True, slots=True)
class GradedVariable:
    """A variable that can be graded: its inner name, unit in the file, factor to the inner number, how it is said."""

    name: str
    unit: str
    said: str
    factor: float = 1.0
    required: bool = True
    """Without a reading of it no batch is better than C, so no rule file may leave it out."""


KNOWN: Mapping[str, GradedVariable] = {
    "lactate": GradedVariable("lactate_mm", "mM", "mM"),
    "ammonia": GradedVariable("ammonia_mm", "mM", "mM"),
    "glucose_share": GradedVariable("glucose_share", "%", "of set-point", 0.01),
    "glucose": GradedVariable("glucose_mm", "mM", "mM"),
    "ph": GradedVariable("ph", "pH", "pH"),
    "osmolality_change": GradedVariable("osmolality_change_pct", "%", "% from set-point"),
    "oxygen": GradedVariable("oxygen_pct", "%", "% air saturation"),
    "passes": GradedVariable("passes", "count", "times given back"),
    "ldh_ratio": GradedVariable("ldh_ratio", "%", "of baseline", 0.01, required=False),
    "insulin_share": GradedVariable("insulin_share", "%", "retained", 0.01, required=False),
    "age": GradedVariable("age_d", "day", "d since its bottle", required=False),
}
PRICES: Mapping[str, tuple[str, str, str]] = {
    "fresh_medium": ("fresh_eur_ml", "EUR/mL", "complete medium"),
    "basal_medium": ("basal_eur_ml", "EUR/mL", "dialysate: medium without supplements"),
    "glucose_stock": ("glucose_eur_ml", "EUR/mL", "glucose stock"),
    "base_stock": ("base_eur_ml", "EUR/mL", "bicarbonate stock"),
    "waste": ("waste_eur_ml", "EUR/mL", "getting rid of waste"),
    "filter": ("filter_eur", "EUR", "one sterile filter"),
    "filter_life": ("filter_life_ml", "mL", "what a filter passes before it is changed"),
    "dialyser": ("dialyser_eur", "EUR", "one dialyser"),
    "dialyser_life": ("dialyser_life_ml", "mL", "dialysate that it stands"),
    "harm_b": ("harm_b_eur_d", "EUR/day", "a day of tissue in medium beyond the edge of B"),
    "harm_c": ("harm_c_eur_d", "EUR/day", "a day of tissue in medium beyond the edge of C"),
    "horizon": ("horizon_d", "day", "how far ahead risk is reckoned"),
}
"""Key → inner name (a field of :class:`protocols.prices.Prices`), unit, meaning."""
_ABOVE_NOTHING = ("filter_life", "dialyser_life", "horizon")


@lru_cache(maxsize=1)
def shipped_grading() -> Grading:
    """Return the rules that come with Choroid."""
    return read_grading(SHIPPED)


def read_grading(path: Path) -> Grading:
    """Read a rule file; raises :class:`RigError` with everything wrong in it, OSError when it cannot be read."""
    document = read_document(path, example="protocols/grading.yaml")
    reader = _Reader(document)
    grading = reader.grading()
    problems = [*document.problems, *reader.problems]
    if problems or grading is None:
        raise RigError(path, problems)
    return grading


def take_grading(path: Path, data: dict[str, Any]) -> list[Problem]:
    """Replace the name of a rule file in the rig's data by its rules.

    A relative path is relative to the folder of the rig file. Anything but text is left to the validation of the rig.

    Args:
        path: The rig file.
        data: Its data, which are changed.

    Returns:
        The problems of the rule file.
    """
    named = data.get("grading")
    if not isinstance(named, str):
        return []
    del data["grading"]
    try:
        data["grading"] = read_grading(path.parent / named)
    except RigError as error:
        return list(error.problems)
    except OSError as error:
        what = f"the rule file “{named}” cannot be read ({error.strerror or error})"
        return [
            Problem(
                path,
                1,
                "grading",
                what,
                "Put it into the folder of the rig file, or leave “grading” out to use the shipped one",
            )
        ]
    return []


class _Reader:
    def __init__(self, document: Document) -> None:
        self._document = document
        self.problems: list[Problem] = []

    def grading(self) -> Grading | None:
        data = self._document.data
        self._unknown((), data, ("grading", "version", "variables", "prices"))
        if data.get("grading") != FORMAT:
            self._wrong(("grading",), "this is no rule file of format 1", "Begin the file with “grading: 1”")
        version = data.get("version")
        if not isinstance(version, str) or not 1 <= len(version) <= 40:
            self._wrong(
                ("version",), "the rules have no version", "Add “version: our-lab-1”, and raise it at each change"
            )
        variables = self._variables(data.get("variables"))
        prices = self._prices(data.get("prices"))
        if self.problems or self._document.problems or prices is None:
            return None
        meaning = {
            "variables": [v.model_dump(mode="json") for v in variables],
            "prices": prices,
        }
        canonical = json.dumps({"version": version, **meaning}, sort_keys=True, separators=(",", ":"))
        sha256 = hashlib.sha256(canonical.encode()).hexdigest()
        return Grading(version=str(version), sha256=sha256, variables=tuple(variables), prices=prices)

    def _variables(self, data: Any) -> list[Variable]:
        if not isinstance(data, dict):
            self._wrong(("variables",), "there are no variables", f"Write them below: {', '.join(KNOWN)}")
            return []
        self._check_names(data)
        made = [self._variable(name, data[name]) for name in KNOWN if name in data]
        return [variable for variable in made if variable is not None]

    def _check_names(self, data: dict[Any, Any]) -> None:
        """Report unknown variables, and required ones that are absent."""
        for name in data:
            if name not in KNOWN:
                self._wrong(("variables", name), f"no variable is called “{name}”", nearest(name, KNOWN, "variables"))
        for name, known in KNOWN.items():
            if known.required and name not in data:
                what = f"a gap: “{name}” has no limits, and every batch would pass by it"
                self._wrong(("variables",), what, f"Take “{name}” over from protocols/grading.yaml")

    def _variable(self, name: str, data: Any) -> Variable | None:
        place, known = ("variables", name), KNOWN[name]
        if not isinstance(data, dict):
            self._wrong(place, f"“{name}” is empty", "Write worse, edge, A, B, C, source and note below it, indented")
            return None
        self._unknown(place, data, ("worse", "edge", *LETTERS, "source", "note"))
        worse, edge = data.get("worse"), data.get("edge", "better")
        if worse not in WORSE:
            self._wrong((*place, "worse"), f"“{worse}” is no direction", f"Write one of: {', '.join(WORSE)}")
            return None
        if edge not in EDGE:
            self._wrong((*place, "edge"), f"“{edge}” is neither", f"Write one of: {', '.join(EDGE)}")
        if not isinstance(data.get("source"), str):
            self._wrong(
                (*place, "source"), "nothing tells where the limits come from", "Add “source: …” (a paper, a decision)"
            )
        edges = self._edges(place, data, worse, known)
        if edges is None:
            return None
        return Variable(
            name=known.name,
            said=known.said,
            worse=worse,
            strict=edge == "worse",
            edges=edges,
            required=known.required,
            source=str(data.get("source")),
            note=str(data.get("note", "")),
        )

    def _edges(
        self, place: Place, data: dict[Any, Any], worse: str, known: GradedVariable
    ) -> tuple[Edge, Edge, Edge] | None:
        """Return the edges of A, B and C, or None if one is wrong; their order is checked."""
        edges = [self._edge(place, letter, data.get(letter), worse, known) for letter in LETTERS]
        if any(each is None for each in edges):
            return None
        good, middle, bad = (each for each in edges if each is not None)
        for letter, inner, outer in (("B", good, middle), ("C", middle, bad)):
            if not _further(inner, outer, worse):
                what = f"the edges are out of order: {letter} is not beyond {LETTERS[LETTERS.index(letter) - 1]}"
                order = {"higher": "rising", "lower": "falling", "outside": "widening"}[worse]
                self._wrong((*place, letter), what, f"With “worse: {worse}” write {order} edges from A to C")
        return good, middle, bad

    def _edge(self, place: Place, letter: str, data: Any, worse: str, known: GradedVariable) -> Edge | None:
        here = (*place, letter)
        if data is None:
            self._wrong(here, f"a gap: there is no edge {letter}", f"Add “{letter}: … {known.unit}”")
            return None
        if worse != "outside":
            return self._number(here, data, known.unit, known.factor)
        if not isinstance(data, list) or len(data) != 2:
            self._wrong(here, "is not a pair", f"Write “{letter}: [lowest {known.unit}, highest {known.unit}]”")
            return None
        low, high = (self._number((*here, n), item, known.unit, known.factor) for n, item in enumerate(data))
        if low is None or high is None:
            return None
        if low >= high:
            self._wrong(here, "the lower end is not below the upper", "Swap them")
        return low, high

    def _prices(self, data: Any) -> dict[str, float] | None:
        if not isinstance(data, dict):
            self._wrong(("prices",), "there are no prices", "Take “prices:” over from protocols/grading.yaml")
            return None
        self._unknown(("prices",), data, PRICES)
        found: dict[str, float] = {}
        for key, (name, unit, meaning) in PRICES.items():
            if key not in data:
                self._wrong(("prices",), f"a gap: “{key}” ({meaning}) has no price", f"Add “{key}: … {unit}”")
                continue
            value = self._number(("prices", key), data[key], unit, 1.0)
            if value is None:
                continue
            if value < 0 or (value == 0 and key in _ABOVE_NOTHING):
                self._wrong(("prices", key), f"“{data[key]}” is out of range", "Write more than nothing")
            found[name] = value
        return found if len(found) == len(PRICES) else None

    def _number(self, place: Place, data: Any, unit: str, factor: float) -> float | None:
        try:
            return float(f"{parse_quantity(data if isinstance(data, str) else f'{data}', unit) * factor:.12g}")
        except QuantityError as error:
            what, _, fix = str(error).partition("; ")
            self._wrong(place, what, f"{fix[:1].upper()}{fix[1:]}")
            return None

    def _unknown(self, place: Place, data: Mapping[str, Any], known: Any) -> None:
        for key in data:
            if key not in known:
                self._wrong((*place, key), f"unknown key “{key}”", nearest(key, known, "here"))

    def _wrong(self, place: Place, what: str, fix: str) -> None:
        self.problems.append(self._document.problem(Finding(place, what, fix)))


def _further(inner: Edge, outer: Edge, worse: str) -> bool:
    """Return whether `outer` lies beyond `inner`, seen from the good side."""
    if isinstance(inner, tuple) or isinstance(outer, tuple):
        (low, high), (lower, higher) = _pair(inner), _pair(outer)
        return lower <= low and high <= higher and inner != outer
    return outer > inner if worse == "higher" else outer < inner


def _pair(edge: Edge) -> tuple[float, float]:
    return edge if isinstance(edge, tuple) else (edge, edge)


def schema() -> dict[str, Any]:
    """Return the JSON schema of a rule file, for editors; the reader above checks more (units, order, gaps)."""

    def quantity(unit: str) -> dict[str, Any]:
        return {"type": "string", "description": f"a quantity such as “1 {unit}”"}

    variables = {}
    for name, known in KNOWN.items():
        number = quantity(known.unit)
        edge = {"anyOf": [number, {"type": "array", "items": number, "minItems": 2, "maxItems": 2}]}
        variables[name] = {
            "type": "object",
            "description": f"{known.said} ({known.unit})",
            "additionalProperties": False,
            "required": ["worse", *LETTERS, "source"],
            "properties": {
                "worse": {"enum": list(WORSE), "description": "where the bad values are"},
                "edge": {
                    "enum": list(EDGE),
                    "description": "the grade that an edge value itself gets (default better)",
                },
                **dict.fromkeys(LETTERS, edge),
                "source": {"type": "string", "description": "a paper, a decision of the lab"},
                "note": {"type": "string"},
            },
        }
    prices = {key: quantity(unit) | {"title": meaning} for key, (_, unit, meaning) in PRICES.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Choroid grading rules",
        "type": "object",
        "additionalProperties": False,
        "required": ["grading", "version", "variables", "prices"],
        "properties": {
            "grading": {"const": FORMAT},
            "version": {"type": "string", "minLength": 1, "maxLength": 40},
            "variables": {
                "type": "object",
                "additionalProperties": False,
                "required": [name for name, known in KNOWN.items() if known.required],
                "properties": variables,
            },
            "prices": {
                "type": "object",
                "additionalProperties": False,
                "required": list(PRICES),
                "properties": prices,
            },
        },
    }
