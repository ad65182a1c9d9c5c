"""What stands in the fields of a recipe file: names, sensors, quantities, expressions, texts; and what is wrong with it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from controller.recipes.form import POINT_UNITS, WORD
from controller.rig.document import Document
from controller.rig.problems import Finding, Place, Problem
from controller.rig.quantities import QuantityError, parse_quantity, usual_unit
from protocols import expression
from protocols.expression import BOOL, PLAIN, Expression, ExpressionError, constant
from protocols.parameters import Param
from protocols.program import NAMES
from protocols.steps import Template, template
from protocols.table import READINGS
from protocols.verbs import MAX_WAIT_S, READING_UNITS, UNITS, Argument

ANY_QUANTITY = Argument("quantity", "", None)
"""A value of whatever unit."""
RESERVED = ("and", "or", "not", "min", "max", "abs", "known", "value")
_EXAMPLES = {"uL": "“2 mL”", "s": "“10 min”", BOOL: "“ph < 7.2”", PLAIN: "“3”", "%": "“80 %”", "kPa": "“20 kPa”"}

_QUANTITY = re.compile(r"\s*[+-]?[\d.]+([eE][+-]?\d+)?\s*[^\W\d_%°]?.*")
_OPERATOR = re.compile(r"[-+*()<>,]|/\s*\w+\s*[*/]")


def quantity(text: str) -> tuple[float, str]:
    """Split a text into a number and its internal unit: `"2 mL"` into (2000.0, "uL"). A plain number has no unit. Raises
    :class:`QuantityError`.
    """
    try:
        return float(text), PLAIN
    except ValueError:
        pass
    usual = usual_unit(text, UNITS)
    for unit in UNITS if usual is None else (usual,):  # no two of them are of one kind
        try:
            return parse_quantity(text, unit), unit
        except QuantityError:
            continue
    raise QuantityError(f"“{text}” is none of the quantities of a recipe; write one such as “2 mL”, “10 min” or “80 %”")


@dataclass(slots=True)
class Values:
    """Reads fields, and collects what is wrong with them; for one that is wrong it gives a stand-in."""

    document: Document
    problems: list[Problem] = field(default_factory=list)
    units: dict[str, str] = field(default_factory=lambda: {name: unit for name, (unit, _) in NAMES.items()})
    """The unit of each name that is known here."""
    params: list[Param] = field(default_factory=list)

    def name(self, name: Any, place: Place, *, new: bool = True) -> str | None:
        """Return a name that is read (or, `new`, given) here; None when there is none or it cannot be one."""
        if name is None:
            return None
        if not isinstance(name, str) or not re.match(WORD, name) or (new and name in RESERVED):
            self.wrong(place, f"“{name}” cannot be a name here", "Use small letters, digits and _, such as “drawn”")
            return None
        if new and any(param.name == name for param in self.params):
            self.wrong(place, f"“{name}” is a parameter and keeps its value", "Choose another name")
            return None
        return name

    def point(self, text: Any, place: Place) -> str:
        """Return the name of a sensor, as device.point; empty when it cannot be one."""
        if not isinstance(text, str) or text.count(".") != 1:
            self.wrong(place, f"“{text}” is no sensor", f"Write device.point, or one of {', '.join(READINGS)}")
            return ""
        return text

    def unit(self, point: str, given: Any, place: Place, *, needed: bool) -> str:
        """Return the unit of a sensor: `given`, or the one that follows from its name."""
        if given is not None:
            if given not in READING_UNITS:
                self.wrong(place, f"“{given}” is no unit of a reading", f"Choose {', '.join(READING_UNITS)}")
            return PLAIN if given == "pH" else str(given)
        quantity_name = point.rpartition(".")[2]
        if quantity_name not in POINT_UNITS and needed and point:
            self.wrong(place, f"the unit of “{point}” is not known", f"Add unit: one of {', '.join(READING_UNITS)}")
        return POINT_UNITS.get(quantity_name, PLAIN)

    def template(self, text: Any, place: Place) -> Template:
        """Return a text with expressions in braces, read."""
        if not isinstance(text, str):
            self.wrong(place, "a text belongs here", "Write it in quotes")
            return Template(())
        return template(text, lambda piece: self.expression(piece, ANY_QUANTITY, place))

    def expression(self, text: Any, entry: Argument, place: Place) -> Expression:
        """Return an argument's expression, in the unit that it wants; a stand-in if it is wrong."""
        wanted = BOOL if entry.kind == "condition" else entry.unit
        if isinstance(text, bool) and wanted == BOOL:
            return Expression(str(text).lower(), BOOL, frozenset(), lambda values: text)
        made = self._parsed(text, wanted, place)
        if made is None or not self._of_unit(made, wanted, place):
            return constant(0.0, wanted or PLAIN)
        if made.unit != BOOL:
            self._in_range(made, entry, place)
        return made

    def _parsed(self, text: Any, wanted: str | None, place: Place) -> Expression | None:
        """Return the expression of a text or number; None, and noted, if it is none."""
        if isinstance(text, bool) or not isinstance(text, str | int | float):
            self.wrong(place, "a value belongs here", "Write a quantity such as “2 mL”, or an expression")
            return None
        shown = f"{text:g}" if isinstance(text, float) else str(text)
        try:
            if wanted and wanted != BOOL and _QUANTITY.fullmatch(shown):
                try:
                    return constant(parse_quantity(shown, wanted), wanted)
                except QuantityError as error:
                    # Not one quantity: perhaps an expression that begins with a number.
                    if _OPERATOR.search(shown.lstrip(" +-")) is None:
                        self.quantity_wrong(place, error)
                        return None
            return expression.parse(shown, self.units, quantity)
        except ExpressionError as error:
            self.wrong(place, error.what, error.fix)
            return None

    def _of_unit(self, made: Expression, wanted: str | None, place: Place) -> bool:
        """Return whether an expression is of the unit that is wanted (None: any); note a problem if it is not."""
        if wanted is None or made.unit == wanted:
            return True
        kind = {BOOL: "a condition (yes or no)", PLAIN: "a plain number"}.get(wanted, f"a quantity in {wanted}")
        got = {BOOL: "a condition", PLAIN: "a plain number"}.get(made.unit, made.unit)
        self.wrong(
            place, f"“{made.text}” is {got}; {kind} belongs here", f"Write for example {_EXAMPLES.get(wanted, '3')}"
        )
        return False

    def _in_range(self, made: Expression, entry: Argument, place: Place) -> None:
        """Note a value that is out of its argument's range by the parameters' defaults, or at one end of their ranges."""
        if entry.min_value is None and entry.maximum is None:
            return
        if not made.names <= {param.name for param in self.params}:
            return
        for end in ("default", "low", "high"):
            try:
                value = self._value_at(made, end)
            except ZeroDivisionError:
                self.wrong(place, f"“{made.text}” divides by zero", "Narrow the parameter's range")
                return
            if outside := entry.out_of_range(value):
                what = _range_fault(entry, value, outside)
                when = "" if not made.names else " at one end of its parameters' range"
                self.wrong(place, f"“{made.text}” is {what}{when}", f"Write a value {outside}")
                return

    def _value_at(self, made: Expression, end: Literal["default", "low", "high"]) -> float:
        """Return the value of an expression with every parameter at its default, or at one end of its range."""
        values = {param.name: float(getattr(param, end)) for param in self.params}
        return made.number(lambda name: values[name])

    def quantity_wrong(self, place: Place, error: QuantityError) -> None:
        """Note that a quantity is none."""
        what, _, fix = str(error).partition("; ")
        self.wrong(place, what, fix[:1].upper() + fix[1:])

    def wrong(self, place: Place, what: str, fix: str) -> None:
        """Note what is wrong at a place, and how to correct it."""
        self.problems.append(self.document.problem(Finding(place, what, fix)))


def _range_fault(entry: Argument, value: float, allowed: str) -> str:
    """Return what is wrong with a value out of its argument's range; `allowed` is the range in words."""
    if entry.maximum == MAX_WAIT_S and value > MAX_WAIT_S:
        return "longer than a year"
    if entry.min_value == 0.0 and value < 0:
        return {"s": "a negative time", "uL": "a negative volume"}.get(entry.unit or PLAIN, "negative")
    return f"out of range (it must be {allowed})"
