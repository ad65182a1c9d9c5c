"""Expressions of recipes: values, units, and texts that are none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.recipes.values import quantity
from protocols.expression import ExpressionError, MissingValue, parse
from protocols.grading import Letter

UNITS = {
    "batch": "uL",
    "loop.volume": "uL",
    "ph": "",
    "o2": "%",
    "n": "",
    "verdict": "grade",
    "t": "s",
    "flow": "uL/min",
    "look": "one of: clear, cloudy",
    "remark": "text",
}
VALUES: dict[str, Any] = {
    "batch": 18_000.0,
    "loop.volume": 40_000.0,
    "ph": 7.2,
    "o2": None,
    "n": 3.0,
    "verdict": Letter.B,
    "t": 60.0,
    "flow": 4000.0,
    "look": "cloudy",
    "remark": "none",
}


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("2 mL", "uL", 2000.0),
        ("2 mL + 500 uL", "uL", 2500.0),
        ("min(batch, loop.volume - 30 mL, 25 mL)", "uL", 10_000.0),
        ("max(batch, 1 mL) / 2", "uL", 9000.0),
        ("batch / loop.volume", "", 0.45),
        ("2 * 3 + 4 * (1 - n)", "", -2.0),
        ("-batch + 20 mL", "uL", 2000.0),
        ("10 min + t", "s", 660.0),
        ("abs(1 - n)", "", 2.0),
        ("4 mL/min", "uL/min", 4000.0),
        ("80 %", "%", 80.0),
        ("37 °C", "degC", 37.0),
        ("ph < 7.3 and not n == 2", "yes or no", True),
        ("ph > 7.3 or n >= 3", "yes or no", True),
        ("verdict >= B", "yes or no", True),
        ("verdict > B", "yes or no", False),
        ("verdict == D", "yes or no", False),
        ("known(o2)", "yes or no", False),
        ("loop.volume * 50 %", "uL", 20_000.0),
        ("50 % * loop.volume", "uL", 20_000.0),
        ("batch / 50 %", "uL", 36_000.0),
        ("80 % * 50 %", "%", 40.0),
        ("80 % / 40 %", "", 2.0),
        ("flow * t", "uL", 4000.0),
        ("2 min * flow", "uL", 8000.0),
        ("batch / flow", "s", 270.0),
        ("batch / (9 min)", "uL/min", 2000.0),
        ("look == 'cloudy'", "yes or no", True),
        ("'clear' != look and remark == 'none'", "yes or no", True),
        ("look == remark", "yes or no", False),
        ("known(ph) and ph > 7", "yes or no", True),
        ("known(o2) and o2 > 50 %", "yes or no", False),
    ],
)
def test_values_and_units(text: str, unit: str, value: object) -> None:
    made = parse(text, UNITS, quantity)
    assert made.unit == unit
    assert made.evaluate(VALUES.get) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("2 mL + 3 min", "a quantity in uL combined with a quantity in s"),
        ("batch < 3", "a quantity in uL combined with a plain number"),
        ("batch * batch", "uL times uL"),
        ("1 / batch", "a plain number divided by uL"),
        ("bath + 1 mL", "Did you mean “batch”?"),
        ("batch +", "ends too early"),
        ("(batch", "“)” is missing"),
        ("batch batch", "too much"),
        ("verdict + 1", "cannot be calculated with"),
        ("batch and ph", "a quantity in uL stands where a condition belongs"),
        ("2 parsec", "none of the quantities"),
        ("__import__('os')", "nothing here is called “__import__”"),
        ("9**9", "“*” does not belong there"),
        ("(" * 40 + "1" + ")" * 40, "nested too deeply"),
        ("1+" * 300 + "1", "characters"),
        ("min()", "does not belong there"),
        ("look == 'dark'", "“dark” is no answer of “look”. Choose clear, cloudy"),
        ("look > 'clear'", "texts cannot be compared by >"),
        ("look == 3", "a text combined with a plain number. Write a text in quotes"),
        ("look + 1", "a text cannot be calculated with"),
        ("max(look, look)", "a text cannot be calculated with"),
        ("remark and ph > 7", "a text stands where a condition belongs"),
        ("flow * flow", "uL/min times uL/min"),
        ("3 / 50 %", "a plain number divided by %"),
    ],
)
def test_what_is_no_expression_is_told(text: str, says: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text, UNITS, quantity)
    assert says in str(caught.value)


def test_a_missing_value_is_named() -> None:
    with pytest.raises(MissingValue) as caught:
        parse("o2 > 50 %", UNITS, quantity).evaluate(VALUES.get)
    assert caught.value.name == "o2"


@given(st.text(alphabet="abn '\".()+-*/<>=,0123456789mLinuds%ABCD", max_size=60))
def test_S3_any_text_is_an_expression_or_told_to_be_none(text: str) -> None:
    try:
        made = parse(text, UNITS, quantity)
    except ExpressionError:
        return
    assert made.names <= set(UNITS)


@given(st.integers(0, 50), st.integers(0, 50), st.integers(1, 50))
def test_arithmetic_is_that_of_numbers(a: int, b: int, c: int) -> None:
    made = parse(f"{a} - {b} * {c} / {c} + ({a} - {b})", {}, quantity)
    assert made.number(lambda name: 0.0) == pytest.approx(a - b * c / c + (a - b))
