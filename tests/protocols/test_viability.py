"""The first score: pure, bounded, and never better for knowing less."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.grading import Letter
from protocols.viability import CORNERS, LABEL, VITAL, WEIGHTS, Vitals, viability

WELL = Vitals(
    oxygen_pct=90.0,
    temperature_c=37.0,
    ph=7.35,
    ph_spread=0.1,
    grade=Letter.A,
    firing_ratio=1.0,
    lactate_ratio=1.0,
)
NAMES = [field.name for field in fields(Vitals)]


def but(vitals: Vitals, name: str, value: Any) -> Vitals:
    changes: dict[str, Any] = {name: value}
    return replace(vitals, **changes)


def some(low: float, high: float) -> st.SearchStrategy[float | None]:
    return st.one_of(st.none(), st.floats(low, high))


VITALS = st.builds(
    Vitals,
    oxygen_pct=some(-10.0, 300.0),
    temperature_c=some(0.0, 60.0),
    ph=some(0.0, 14.0),
    ph_spread=some(0.0, 3.0),
    grade=st.one_of(st.none(), st.sampled_from(list(Letter))),
    firing_ratio=some(0.0, 20.0),
    lactate_ratio=some(0.0, 20.0),
)


def test_a_rig_that_is_well_scores_one() -> None:
    made = viability(WELL)
    assert (made.score, made.confidence, made.missing, made.limiting) == (1.0, 1.0, (), "none")
    assert sum(WEIGHTS.values()) == pytest.approx(1.0)
    assert set(WEIGHTS) == set(NAMES)
    assert "not evidence of feeling" in LABEL
    assert made.to_json()["label"] == LABEL


@given(VITALS, st.sampled_from(NAMES))
def test_missing_data_never_raise_the_score_and_lower_the_confidence(vitals: Vitals, name: str) -> None:
    known = viability(vitals)
    less = viability(but(vitals, name, None))
    assert 0.0 <= less.score <= known.score <= 1.0
    if getattr(vitals, name) is None:
        assert less == known
    else:
        assert less.confidence == pytest.approx(known.confidence - WEIGHTS[name], abs=1e-5)
        assert name in less.missing


@pytest.mark.parametrize("name", VITAL)
def test_a_vital_sign_that_fails_is_not_outvoted(name: str) -> None:
    made = viability(but(WELL, name, CORNERS[name].zero_low))
    assert made.score == 0.0
    assert made.limiting == name


@pytest.mark.parametrize(("letter", "less_than"), [(Letter.B, 1.0), (Letter.C, 0.95), (Letter.D, 0.86)])
def test_a_worse_medium_scores_less(letter: Letter, less_than: float) -> None:
    made = viability(replace(WELL, grade=letter))
    assert made.score < less_than
    assert made.limiting == "grade"


@given(st.sampled_from(sorted(CORNERS)), st.floats(-100.0, 400.0), st.floats(0.0, 50.0))
def test_farther_from_the_good_band_is_never_better(name: str, value: float, step: float) -> None:
    corners = CORNERS[name]
    if value <= corners.one_low:
        assert corners.score(value - step) <= corners.score(value)
    if value >= corners.one_high:
        assert corners.score(value + step) <= corners.score(value)
    assert 0.0 <= corners.score(value) <= 1.0


def test_not_a_number_is_missing() -> None:
    made = viability(replace(WELL, oxygen_pct=float("nan")))
    assert made.score == 0.0
    assert made.missing == ("oxygen_pct",)
