"""Expressions of recipe files: `min(batch, loop.spare)`, `ph < 7.2 and verdict >= B`. Units are checked on reading.

Deliberately small: numbers with units, names, + - * /, comparisons, and/or/not, min, max, abs, known. No loops, no
calls into Python, nothing that could run longer than its text (S3). Sums and comparisons need one unit on both
sides; products and quotients of two units are those of :data:`_PRODUCTS` and :data:`_QUOTIENTS`, and shares in %. A text
(an answer of a person) can only be compared with another one: `look == 'cloudy'`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from protocols.grading import Letter

LONGEST = 400
DEEPEST = 30
BOOL, GRADE, PLAIN, TEXT = "yes or no", "grade", "", "text"
_CHOICE = "one of: "
_PRODUCTS: Mapping[tuple[str, str], tuple[str, float]] = {
    ("uL/min", "s"): ("uL", 1.0 / 60.0),
    ("s", "uL/min"): ("uL", 1.0 / 60.0),
}
"""Units of two factors → unit of their product, and what to multiply the numbers by."""
_QUOTIENTS: Mapping[tuple[str, str], tuple[str, float]] = {
    ("uL", "s"): ("uL/min", 60.0),
    ("uL", "uL/min"): ("s", 60.0),
}
"""Units of dividend and divisor → unit of the quotient, and what to multiply the numbers by."""

Values = Callable[[str], Any]
"""Returns a name's value: a number in its unit, a Letter, or None if it is unavailable."""
ReadQuantity = Callable[[str], tuple[float, str]]
"""Converts `"2 mL"` to (2000.0, "uL"); raises ValueError."""

_TOKEN = re.compile(
    r"\s*(?:(?P<quantity>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?"
    r"(?:\s*(?:(?!(?:and|or|if)\b)[^\W\d_]|[%°])[^\W\d_]*(?:/(?:min|h|s|L|l|kg|d|cm)\b)?)?)"
    r"|(?P<text>'[^'\"]*'|\"[^'\"]*\")"
    r"|(?P<name>[a-z_][a-z0-9_]*(?:\.[a-z_][a-z0-9_]*)*)|(?P<grade>[ABCD]\b)|(?P<op><=|>=|==|!=|[-+*/()<>,]))"
)
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
    "==": lambda a, b: bool(a == b),
    "!=": lambda a, b: bool(a != b),
}
_MERIT = {letter: merit for merit, letter in enumerate(reversed(Letter))}


class ExpressionError(ValueError):
    """The text is not a valid expression: `what` is wrong, `fix` corrects it."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(f"{what}. {fix}")
        self.what = what
        self.fix = fix


class MissingValue(Exception):
    """A value that the expression needs is unavailable; `name` is its name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"“{name}” could not be measured")
        self.name = name


@dataclass(frozen=True, slots=True)
class Expression:
    """A checked expression: `unit` of its value ("" plain, :data:`BOOL`, :data:`GRADE`), the names that it uses."""

    text: str
    unit: str
    names: frozenset[str]
    evaluate: Callable[[Values], Any]
    """Raises :class:`MissingValue`; a division by zero raises ZeroDivisionError."""

    def number(self, values: Values) -> float:
        """Return the value as a number."""
        return float(self.evaluate(values))


def constant(value: float, unit: str) -> Expression:
    """Return a number as an expression."""
    return Expression(f"{value:g} {unit}".strip(), unit, frozenset(), lambda values: value)


def choice_unit(choices: Sequence[str]) -> str:
    """Return the unit of a name that holds one of `choices`; it can be compared with these texts only."""
    return f"{_CHOICE}{', '.join(choices)}"


def is_text(unit: str) -> bool:
    """Return whether values of a unit are texts."""
    return unit == TEXT or unit.startswith(_CHOICE)


def parse(text: str, units: Mapping[str, str], quantity: ReadQuantity) -> Expression:
    """Parse `text`; `units` holds the unit of every allowed name. Raise :class:`ExpressionError` for an invalid
    text.
    """
    if len(text) > LONGEST:
        raise ExpressionError(f"an expression of {len(text)} characters", f"Write at most {LONGEST}; use “set” steps")
    return _Parser(text, units, quantity).whole()


class _Parser:
    """Recursive descent; each method returns a node with its unit."""

    def __init__(self, text: str, units: Mapping[str, str], quantity: ReadQuantity) -> None:
        self._text = text
        self._units = units
        self._quantity = quantity
        self._tokens = self._split(text)
        self._at = 0
        self._depth = 0

    def _split(self, text: str) -> list[tuple[str, str]]:
        tokens, at = [], 0
        while at < len(text.rstrip()):
            match = _TOKEN.match(text, at)
            if match is None:
                raise ExpressionError(
                    f"“{text}”: “{text[at:].strip()[:12]}” cannot be read", "Look at docs/protocols.md"
                )
            tokens.append((str(match.lastgroup), match[str(match.lastgroup)]))
            at = match.end()
        return tokens

    def whole(self) -> Expression:
        node = self._or()
        if self._at < len(self._tokens):
            raise self._wrong(f"“{self._tokens[self._at][1]}” is too much")
        return Expression(self._text, node.unit, node.names, node.evaluate)

    def _wrong(self, what: str, fix: str = "Write for example “min(batch, 5 mL)” or “ph < 7.2”") -> ExpressionError:
        return ExpressionError(f"“{self._text}”: {what}", fix)

    def _peek(self, *words: str) -> str | None:
        if self._at < len(self._tokens):
            kind, word = self._tokens[self._at]
            if kind in ("op", "name") and word in words:
                return word
        return None

    def _take(self, *words: str) -> str | None:
        word = self._peek(*words)
        self._at += word is not None
        return word

    def _or(self) -> Expression:
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._wrong("it is nested too deeply")
        left = self._and()
        while self._take("or"):
            left = self._logic(left, self._and(), any)
        self._depth -= 1
        return left

    def _and(self) -> Expression:
        left = self._not()
        while self._take("and"):
            left = self._logic(left, self._not(), all)
        return left

    def _logic(self, left: Expression, right: Expression, how: Callable[[Any], bool]) -> Expression:
        self._want(left, BOOL)
        self._want(right, BOOL)
        # a generator: the right side is only evaluated where the left one does not decide
        return Expression(
            "",
            BOOL,
            left.names | right.names,
            lambda values: how(node.evaluate(values) for node in (left, right)),
        )

    def _not(self) -> Expression:
        if self._take("not"):
            self._depth += 1
            if self._depth > DEEPEST:
                raise self._wrong("it is nested too deeply")
            inner = self._not()
            self._want(inner, BOOL)
            return Expression("", BOOL, inner.names, lambda values: not inner.evaluate(values))
        return self._comparison()

    def _comparison(self) -> Expression:
        left = self._sum()
        sign = self._take(*_COMPARE)
        if sign is None:
            return left
        right = self._sum()
        if is_text(left.unit) or is_text(right.unit):
            self._same_text(left, right, sign)
        else:
            self._same(left, right)
        compare = _COMPARE[sign]
        if left.unit == GRADE:  # “>= B” means: B or better
            return Expression(
                "",
                BOOL,
                left.names | right.names,
                lambda values: compare(_MERIT[left.evaluate(values)], _MERIT[right.evaluate(values)]),
            )
        return Expression(
            "", BOOL, left.names | right.names, lambda values: compare(left.evaluate(values), right.evaluate(values))
        )

    def _same_text(self, left: Expression, right: Expression, sign: str) -> None:
        """Check a comparison of texts: by == or !=, and a choice only with one of its own."""
        if sign not in ("==", "!="):
            raise self._wrong(f"texts cannot be compared by {sign}", "Write == or !=")
        if not (is_text(left.unit) and is_text(right.unit)):
            raise self._wrong(
                f"{unit_text(left.unit)} combined with {unit_text(right.unit)}",
                "Write a text in quotes: look == 'cloudy'",
            )
        for name, other in ((left, right), (right, left)):
            known = name.unit.removeprefix(_CHOICE).split(", ")
            if name.unit != TEXT and not other.names and other.text not in known:
                raise self._wrong(f"“{other.text}” is no answer of “{name.text}”", f"Choose {', '.join(known)}")

    def _sum(self) -> Expression:
        left = self._product()
        while sign := self._take("+", "-"):
            left = self._added(left, self._product(), 1.0 if sign == "+" else -1.0)
        return left

    def _added(self, left: Expression, right: Expression, sign: float) -> Expression:
        self._number(left)
        self._same(left, right)
        return Expression(
            "",
            left.unit,
            left.names | right.names,
            lambda values: left.evaluate(values) + sign * right.evaluate(values),
        )

    def _product(self) -> Expression:
        left = self._signed()
        while sign := self._take("*", "/"):
            left = self._scaled(left, self._signed(), times=sign == "*")
        return left

    def _scaled(self, left: Expression, right: Expression, *, times: bool) -> Expression:
        self._number(left)
        self._number(right)
        names = left.names | right.names
        unit, factor = self._scaled_unit(left.unit, right.unit, times=times)
        if times:
            return Expression("", unit, names, lambda values: left.evaluate(values) * right.evaluate(values) * factor)
        return Expression("", unit, names, lambda values: left.evaluate(values) / right.evaluate(values) * factor)

    def _scaled_unit(self, left: str, right: str, *, times: bool) -> tuple[str, float]:
        """Return the unit of a product or quotient, and the factor that belongs to it."""
        if times:
            known = _PRODUCTS.get((left, right))
            if known is None and PLAIN in (left, right):
                known = (left or right, 1.0)
            if known is None and "%" in (left, right):  # a share of a quantity
                known = (left if right == "%" else right, 0.01)
            if known is None:
                raise self._wrong(f"{left} times {right}", "Multiply by a plain number or by a share in %")
            return known
        if right == PLAIN:
            return left, 1.0
        if right == left:
            return PLAIN, 1.0
        known = (left, 100.0) if right == "%" and left != PLAIN else _QUOTIENTS.get((left, right))
        if known is None:
            raise self._wrong(f"{left or 'a plain number'} divided by {right}", "Divide by a plain number")
        return known

    def _signed(self) -> Expression:
        if self._take("-"):
            self._depth += 1
            if self._depth > DEEPEST:
                raise self._wrong("it is nested too deeply")
            inner = self._signed()
            self._number(inner)
            return Expression("", inner.unit, inner.names, lambda values: -inner.evaluate(values))
        return self._atom()

    def _atom(self) -> Expression:
        if self._at >= len(self._tokens):
            raise self._wrong("it ends too early")
        kind, word = self._tokens[self._at]
        self._at += 1
        if kind == "quantity":
            return self._constant(word)
        if kind == "text":
            return Expression(word[1:-1], TEXT, frozenset(), lambda values: word[1:-1])
        if kind == "grade":
            letter = Letter(word)
            return Expression(word, GRADE, frozenset(), lambda values: letter)
        if word == "(":
            inner = self._or()
            self._close()
            return inner
        if kind == "name" and self._peek("(") and word in ("min", "max", "abs", "known"):
            return self._function(word)
        if kind == "name" and word not in ("and", "or", "not"):
            return self._named(word)
        raise self._wrong(f"“{word}” does not belong there")

    def _constant(self, word: str) -> Expression:
        try:
            value, unit = self._quantity(word)
        except ValueError as error:
            raise self._wrong(str(error)) from None
        return constant(value, unit)

    def _close(self) -> None:
        """Take the closing parenthesis."""
        if not self._take(")"):
            raise self._wrong("a “)” is missing")

    def _named(self, name: str) -> Expression:
        if name not in self._units:
            from difflib import get_close_matches

            close = get_close_matches(name, self._units, n=1, cutoff=0.5)
            known = ", ".join(sorted(name for name in self._units if name.count(".") < 2))
            fix = f"Did you mean “{close[0]}”?" if close else f"Known here: {known}"
            raise self._wrong(f"nothing here is called “{name}”", fix)

        def look_up(values: Values) -> Any:
            value = values(name)
            if value is None:
                raise MissingValue(name)
            return value

        return Expression(name, self._units[name], frozenset((name,)), look_up)

    def _function(self, word: str) -> Expression:
        self._take("(")
        if word == "known":
            return self._known()
        nodes = self._arguments()
        names = frozenset().union(*(node.names for node in nodes))
        if word == "abs":
            if len(nodes) != 1:
                raise self._wrong("abs() takes one value")
            return Expression("", nodes[0].unit, names, lambda values: abs(nodes[0].evaluate(values)))
        choose = min if word == "min" else max
        return Expression("", nodes[0].unit, names, lambda values: choose(node.evaluate(values) for node in nodes))

    def _known(self) -> Expression:
        """Parse the rest of `known(NAME)`: whether the name has a value."""
        kind, name = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
        if kind != "name":
            raise self._wrong("known() needs a name")
        self._at += 1
        inner = self._named(name)
        self._close()
        return Expression("", BOOL, inner.names, lambda values: values(inner.text) is not None)

    def _arguments(self) -> list[Expression]:
        """Parse the arguments of a function up to its closing parenthesis: one or more numbers of the same unit."""
        nodes = [self._sum()]
        while self._take(","):
            nodes.append(self._sum())
        self._close()
        for node in nodes:
            self._number(node)
            self._same(nodes[0], node)
        return nodes

    def _want(self, node: Expression, unit: str) -> None:
        if node.unit != unit:
            raise self._wrong(f"{unit_text(node.unit)} stands where {unit_text(unit)} belongs")

    def _number(self, node: Expression) -> None:
        if node.unit in (BOOL, GRADE) or is_text(node.unit):
            raise self._wrong(f"{unit_text(node.unit)} cannot be calculated with")

    def _same(self, left: Expression, right: Expression) -> None:
        if left.unit != right.unit:
            what = f"{unit_text(left.unit)} combined with {unit_text(right.unit)}"
            raise self._wrong(what, "Both sides must have the same unit; write numbers with their unit")


def unit_text(unit: str) -> str:
    """Return a unit for messages."""
    if is_text(unit):
        return "a text"
    return {BOOL: "a condition", GRADE: "a grade", PLAIN: "a plain number"}.get(unit, f"a quantity in {unit}")
