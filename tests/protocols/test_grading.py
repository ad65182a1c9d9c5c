"""The grades of biology.md §3.2: the worst variable decides, by its pessimistic end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.rig.grading import shipped_grading
from controller.runs.grading import rule_set
from protocols import grading
from protocols.grading import Grade, Letter, Sample, Turbidity
from protocols.interval import Interval

RULES = rule_set(shipped_grading())

GOOD = Sample(
    lactate_mm=Interval.exact(2.0),
    ammonia_mm=Interval.exact(0.1),
    glucose_share=Interval.exact(0.9),
    glucose_mm=Interval.exact(18.0),
    ph=Interval.exact(7.35),
    osmolality_change_pct=Interval.exact(0.0),
    oxygen_pct=Interval.exact(90.0),
    passes=Interval.exact(1.0),
    ldh_ratio=Interval.exact(1.0),
    insulin_share=Interval.exact(0.9),
    turbidity=Turbidity.NONE,
    sterile=True,
)
ORDER = "ABCD"


def grade(sample: Sample) -> Grade:
    """By the shipped rules."""
    return grading.grade(sample, RULES)


def but(variable: str, value: Any) -> Sample:
    """The good sample with one variable replaced."""
    changes: dict[str, Any] = {variable: value}
    return replace(GOOD, **changes)


TABLE = {
    "lactate_mm": {4.9: "A", 5.0: "B", 9.9: "B", 10.0: "C", 19.9: "C", 20.1: "D"},
    "ammonia_mm": {0.29: "A", 0.3: "B", 0.79: "B", 0.8: "C", 1.9: "C", 2.1: "D"},
    "glucose_share": {0.61: "A", 0.6: "B", 0.31: "B", 0.3: "C", 0.11: "C", 0.05: "D"},
    "glucose_mm": {2.5: "A", 2.4: "B", 1.5: "B", 1.4: "C", 0.5: "C", 0.49: "D"},
    "ph": {
        7.25: "A", 7.45: "A", 7.24: "B", 7.10: "B", 7.46: "B", 7.55: "B", 7.09: "C", 6.9: "C", 7.56: "C", 7.7: "C",
        6.89: "D", 7.71: "D",
    },
    "osmolality_change_pct": {3.0: "A", -3.0: "A", 3.1: "B", -7.0: "B", 7.1: "C", -12.0: "C", 12.1: "D", -13.0: "D"},
    "oxygen_pct": {60.0: "A", 59.0: "B", 40.0: "B", 39.0: "C", 20.0: "C", 19.0: "D"},
    "passes": {3.0: "A", 3.1: "B", 6.0: "B", 6.1: "C", 10.0: "C", 10.1: "D"},
    "ldh_ratio": {1.4: "A", 1.5: "B", 2.4: "B", 2.5: "C", 4.9: "C", 5.1: "D"},
    "insulin_share": {0.71: "A", 0.7: "B", 0.41: "B", 0.4: "C", 0.21: "C", 0.1: "D"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("variable", "value", "letter"),
    [(variable, value, letter) for variable, row in TABLE.items() for value, letter in row.items()],
)
def test_each_edge_of_the_table(variable: str, value: float, letter: str) -> None:
    graded = grade(but(variable, Interval.exact(value)))
    assert graded.letter == letter
    assert graded.of(variable) == letter
    if letter != "A":
        assert graded.limiting == variable
        assert any(variable in reason for reason in graded.reasons)


@pytest.mark.parametrize(
    ("turbidity", "letter"), [("none", "A"), ("particles", "B"), ("cloudy", "C"), ("microbial", "D")]
)
def test_turbidity(turbidity: str, letter: str) -> None:
    assert grade(replace(GOOD, turbidity=Turbidity(turbidity))).letter == letter


def test_a_good_batch_is_a_with_full_confidence() -> None:
    graded = grade(GOOD)
    assert (graded.letter, graded.limiting, graded.confidence, graded.missing) == (Letter.A, "none", 1.0, ())
    assert graded.version == "choroid-2"


def test_the_pessimistic_end_decides() -> None:
    graded = grade(replace(GOOD, lactate_mm=Interval(4.0, 2.0, 5.5)))
    assert graded.letter is Letter.B
    assert "pessimistic" in graded.reasons[0]
    assert graded.confidence < 1.0
    low = grade(replace(GOOD, glucose_mm=Interval(3.0, 2.0, 4.0)))
    assert low.letter is Letter.B
    band = grade(replace(GOOD, ph=Interval(7.3, 7.05, 7.4)))
    assert band.letter is Letter.C


def test_failed_sterility_is_a_veto_whatever_the_rest_says() -> None:
    graded = grade(replace(GOOD, sterile=False))
    assert graded.letter is Letter.D
    assert graded.limiting == "sterility"
    assert "quarantine" in graded.reasons[0]


@pytest.mark.parametrize("variable", [rule.name for rule in RULES.rules if rule.required] + ["sterile"])
def test_a_missing_required_reading_caps_at_c(variable: str) -> None:
    graded = grade(but(variable, None))
    assert graded.letter is Letter.C
    assert graded.confidence < 1.0
    worse = grade(replace(but(variable, None), turbidity=Turbidity.MICROBIAL))
    assert worse.letter is Letter.D


@pytest.mark.parametrize("variable", ["ldh_ratio", "insulin_share", "turbidity"])
def test_a_missing_advisory_reading_only_lowers_confidence(variable: str) -> None:
    graded = grade(but(variable, None))
    assert graded.letter is Letter.A
    assert graded.missing == (variable,)
    assert graded.confidence < 1.0


def test_an_empty_sample_is_c_with_no_confidence() -> None:
    graded = grade(Sample())
    assert graded.letter is Letter.C
    assert graded.confidence == 0.0
    assert len(graded.missing) == 12


@given(st.sampled_from([rule.name for rule in RULES.rules]), st.floats(0.0, 30.0), st.floats(0.0, 10.0))
def test_wider_bounds_never_make_a_better_grade(variable: str, value: float, width: float) -> None:
    narrow = grade(but(variable, Interval.exact(value)))
    wide = grade(but(variable, Interval(value, value - width, value + width)))
    assert ORDER.index(wide.letter) >= ORDER.index(narrow.letter)
    assert wide.confidence <= narrow.confidence


def test_a_grade_carries_inputs_limits_and_reasons() -> None:
    data = grade(replace(GOOD, lactate_mm=Interval(7.0, 6.0, 8.0))).to_json()
    assert data["grade"] == "B"
    assert data["variables"]["lactate_mm"] == {
        "grade": "B",
        "input": {"value": 7.0, "low": 6.0, "high": 8.0},
        "limits": "A < 5; B < 10; C < 20",
        "reason": "7 (6 to 8) mM: B",
    }
    assert set(data["variables"]) == {rule.name for rule in RULES.rules} | {"turbidity", "sterility"}
