"""Viability, welfare and happiness: pure, bounded, and never better for knowing less."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols import activity, care_rating, happiness, welfare
from protocols.activity import FiringMeasures
from protocols.care_rating import CORNERS, MediumGrade, Vitals
from protocols.grading import Letter
from protocols.interval import Interval
from protocols.scoring import FLOOR, Corners, Score
from protocols.welfare import Treatment


def exact(value: float) -> Interval:
    return Interval.exact(value)


WELL = Vitals(
    temperature_c=exact(37.0),
    oxygen_short_s=exact(0.0),
    ldh=exact(1.0),
    oxygen_uptake=exact(1.0),
    growth=exact(0.03),
    lactate_yield=exact(1.2),
    grade=MediumGrade(Letter.A, Letter.A),
    firing=FiringMeasures(exact(1.0), exact(0.0), exact(0.8), exact(0.2), exact(1.0), exact(1.0), exact(1.0)),
)
KEPT = Treatment(exact(0.2), exact(0.05), exact(1.0), exact(0.1), exact(20.0), exact(0.0))
VITAL_NAMES = [
    each.name for each in fields(Vitals) if each.type != "bool" and each.name not in ("firing", "oxygen_uptake_by")
]
FIRING_NAMES = [each.name for each in fields(FiringMeasures) if each.type != "bool"]
TREATED_NAMES = [each.name for each in fields(Treatment) if each.type != "bool"]


def but(whole: Any, name: str, value: Any) -> Any:
    return replace(whole, **{name: value})


def some(low: float, high: float) -> st.SearchStrategy[Interval | None]:
    ends = st.lists(st.floats(low, high), min_size=3, max_size=3).map(sorted)
    return st.one_of(st.none(), ends.map(lambda v: Interval(v[1], v[0], v[2])))


LETTERS = st.sampled_from(list(Letter))
GRADES = st.tuples(LETTERS, LETTERS).map(lambda two: MediumGrade(max(two), min(two)))
FIRINGS = st.builds(
    FiringMeasures,
    active_ratio=some(0.0, 2.0),
    rate_z=some(-20.0, 10.0),
    burst_cv=some(0.0, 4.0),
    sttc=some(-1.0, 1.0),
    branching=some(0.0, 2.0),
    evoked_ratio=some(0.0, 2.0),
    signal_quality=some(0.0, 1.0),
    seizure_like=st.booleans(),
)
VITALS = st.builds(
    Vitals,
    temperature_c=some(30.0, 42.0),
    oxygen_short_s=some(0.0, 1500.0),
    sterility_failed=st.booleans(),
    ldh=some(0.0, 8.0),
    oxygen_uptake=some(0.0, 4.0),
    growth=some(-0.2, 0.5),
    lactate_yield=some(0.0, 3.0),
    grade=st.one_of(st.none(), GRADES),
    firing=FIRINGS,
)
TREATMENTS = st.builds(
    Treatment,
    temperature_spread_c=some(0.0, 6.0),
    ph_spread=some(0.0, 1.0),
    osmolality_spread_pct=some(0.0, 20.0),
    stimulation_load=some(0.0, 2.0),
    rest_h=some(0.0, 24.0),
    own_band=some(-20.0, 10.0),
    seizure_like=st.booleans(),
)


def no_better(less: Score, known: Score) -> None:
    """What knowing less may do to a score."""
    assert 0.0 <= less.low <= less.score <= less.high <= 1.0
    assert less.score <= known.score
    assert less.low <= known.low
    assert less.high >= known.high
    assert less.coverage <= known.coverage


def test_an_organoid_that_is_well_scores_one() -> None:
    made = care_rating.care_rating(WELL)
    assert (made.score, made.low, made.high, made.coverage) == (1.0, 1.0, 1.0, 1.0)
    assert (made.of_known, made.missing, made.limiting) == (1.0, (), "none")
    kept = welfare.welfare(KEPT)
    assert (kept.score, kept.low, kept.high, kept.coverage) == (1.0, 1.0, 1.0, 1.0)
    assert happiness.happiness(made, kept).score == 1.0


def test_what_is_known_of_happiness_is_the_root_of_both_and_never_the_score() -> None:
    alive, kept = care_rating.care_rating(but(WELL, "ldh", None)), welfare.welfare(KEPT)
    rating = happiness.happiness(alive, kept)
    assert rating.of_known == 1.0
    assert rating.score == pytest.approx(alive.score**0.5)
    assert rating.score < 1.0
    assert happiness.happiness(alive, welfare.welfare(Treatment())).of_known is None


def test_weights_are_those_of_the_proposal_and_sum_to_one() -> None:
    """biology.md §4 and electrodes.md §5."""
    for weights in (care_rating.WEIGHTS, welfare.WEIGHTS, activity.WEIGHTS):
        assert sum(weights.values()) == pytest.approx(1.0)
    assert list(care_rating.WEIGHTS.values()) == [0.20, 0.20, 0.20, 0.15, 0.10, 0.15]
    assert list(activity.WEIGHTS.values()) == [0.25, 0.20, 0.15, 0.15, 0.10, 0.15]
    steady = sum(weight for name, weight in welfare.WEIGHTS.items() if "spread" in name)
    assert steady == pytest.approx(0.35)
    assert [welfare.WEIGHTS[name] for name in ("stimulation_load", "rest_h", "own_band")] == [0.25, 0.20, 0.20]


def test_the_labels_say_what_it_is() -> None:
    for label in (care_rating.LABEL, welfare.LABEL, happiness.LABEL):
        assert label.startswith("care-quality proxy, not evidence of feeling")
    assert "nickname" in happiness.LABEL
    assert care_rating.care_rating(WELL).to_json()["label"] == care_rating.LABEL


@given(VITALS, st.sampled_from([*VITAL_NAMES, *FIRING_NAMES]))
def test_missing_data_never_raise_the_care_rating_and_never_narrow_its_interval(vitals: Vitals, name: str) -> None:
    known = care_rating.care_rating(vitals)
    assert 0.0 <= known.low <= known.score <= known.high <= 1.0
    deaf = name in FIRING_NAMES
    less = replace(vitals, firing=but(vitals.firing, name, None)) if deaf else but(vitals, name, None)
    no_better(care_rating.care_rating(less), known)


@given(TREATMENTS, st.sampled_from(TREATED_NAMES))
def test_missing_data_never_raise_welfare_and_never_narrow_its_interval(treated: Treatment, name: str) -> None:
    no_better(welfare.welfare(but(treated, name, None)), welfare.welfare(treated))


@given(VITALS, TREATMENTS, st.sampled_from(VITAL_NAMES))
def test_missing_data_never_raise_happiness(vitals: Vitals, treated: Treatment, name: str) -> None:
    kept = welfare.welfare(treated)
    known = happiness.happiness(care_rating.care_rating(vitals), kept)
    less = happiness.happiness(care_rating.care_rating(but(vitals, name, None)), kept)
    assert less.score <= known.score
    assert less.low <= known.low
    assert less.high >= known.high
    assert less.coverage <= known.coverage
    assert known.low <= known.score <= known.high


@given(VITALS)
def test_a_wider_reading_gives_no_narrower_interval(vitals: Vitals) -> None:
    if vitals.oxygen_uptake is None:
        return
    seen = vitals.oxygen_uptake
    wider = replace(vitals, oxygen_uptake=Interval(seen.value, seen.low - 0.1, seen.high + 0.1))
    known, less = care_rating.care_rating(vitals), care_rating.care_rating(wider)
    assert less.low <= known.low
    assert less.high >= known.high
    assert less.score == known.score


@given(VITALS, TREATMENTS)
def test_a_journalled_score_can_be_recomputed(vitals: Vitals, treated: Treatment) -> None:
    again = Vitals.from_json(json.loads(json.dumps(vitals.to_json())))
    assert again == vitals
    assert care_rating.care_rating(again) == care_rating.care_rating(vitals)
    assert Treatment.from_json(json.loads(json.dumps(treated.to_json()))) == treated


@pytest.mark.parametrize(
    ("name", "value", "gate"),
    [
        ("temperature_c", exact(32.9), "temperature"),
        ("temperature_c", exact(39.1), "temperature"),
        ("temperature_c", None, "temperature"),
        ("oxygen_short_s", exact(601.0), "oxygen"),
        ("oxygen_short_s", None, "oxygen"),
        ("sterility_failed", True, "sterility"),
    ],
)
def test_a_gate_that_is_shut_is_outvoted_by_nothing(name: str, value: Any, gate: str) -> None:
    made = care_rating.care_rating(but(WELL, name, value))
    assert made.score == made.low == 0.0
    assert made.limiting == gate
    assert made.high == (1.0 if value is None else 0.0)
    assert gate in made.to_json()["gates"]


@given(VITALS)
def test_the_shut_gate_is_the_one_that_limits(vitals: Vitals) -> None:
    made = care_rating.care_rating(vitals)
    shut = care_rating.shut_gate(vitals)
    assert (shut is not None) == (made.score == 0.0)
    if shut is not None:
        assert made.limiting == shut


def test_a_reading_across_a_gate_widens_the_interval_only() -> None:
    made = care_rating.care_rating(replace(WELL, temperature_c=Interval(38.8, 38.5, 39.1)))
    assert (made.low, made.score, made.high) == (0.0, 1.0, 1.0)


def test_the_score_is_the_product_of_the_proposal() -> None:
    made = care_rating.care_rating(replace(WELL, ldh=exact(3.25), oxygen_uptake=None))
    assert made.parts["ldh"].score == pytest.approx(0.5)
    assert made.score == pytest.approx(0.5**0.2 * FLOOR**0.2, abs=1e-6)
    assert made.high == pytest.approx(0.5**0.2, abs=1e-6)
    assert made.of_known == pytest.approx(0.5 ** (0.2 / 0.8), abs=1e-6)
    assert made.coverage == pytest.approx(0.8)
    assert made.limiting == "oxygen_uptake"


@pytest.mark.parametrize("letter", [Letter.B, Letter.C, Letter.D])
def test_a_worse_medium_scores_less_and_its_doubt_shows(letter: Letter) -> None:
    sure = care_rating.care_rating(replace(WELL, grade=MediumGrade(letter, letter)))
    doubtful = care_rating.care_rating(replace(WELL, grade=MediumGrade(letter, Letter.A)))
    assert sure.score == doubtful.score < 1.0
    assert (sure.high, doubtful.high) == (sure.score, 1.0)
    assert sure.limiting == "grade"


def test_silence_and_seizure_cost_activity_and_welfare() -> None:
    silent = replace(WELL.firing, rate_z=exact(-20.0), active_ratio=exact(0.0))
    assert care_rating.care_rating(replace(WELL, firing=silent)).parts["activity"].score == pytest.approx(0.55)
    wild = replace(WELL.firing, seizure_like=True)
    assert care_rating.care_rating(replace(WELL, firing=wild)).parts["activity"].score == pytest.approx(0.5)
    assert welfare.welfare(replace(KEPT, seizure_like=True)).parts["own_band"].score == FLOOR
    assert welfare.welfare(replace(KEPT, own_band=exact(-20.0))).parts["own_band"].score == FLOOR


def test_the_scores_do_not_depend_on_a_task() -> None:
    """N10: care never depends on task reward, so no input of any score is one."""
    words = {"reward", "task", "score", "win", "rally", "trial"}
    names = [*care_rating.CORNERS, *welfare.CORNERS, *activity.CORNERS, *VITAL_NAMES, *FIRING_NAMES, *TREATED_NAMES]
    assert not [name for name in names if set(name.split("_")) & words]


ALL_CORNERS = {**CORNERS, **welfare.CORNERS, **activity.CORNERS}


@given(st.sampled_from(sorted(ALL_CORNERS)), st.floats(-100.0, 400.0), st.floats(0.0, 50.0))
def test_farther_from_the_good_band_is_never_better(name: str, value: float, step: float) -> None:
    corners = ALL_CORNERS[name]
    if value <= corners.one_low:
        assert corners.score(value - step) <= corners.score(value)
    if value >= corners.one_high:
        assert corners.score(value + step) <= corners.score(value)
    assert 0.0 <= corners.score(value) <= 1.0


@given(st.floats(-2, 6), st.floats(0, 3), st.floats(0, 3), st.floats(0, 1), st.floats(0, 1))
def test_the_range_over_an_interval_holds_every_value_in_it(
    value: float, below: float, above: float, share: float, side: float
) -> None:
    corners = Corners(0.0, 1.0, 2.0, 4.0)
    low, best, high = corners.range(Interval(value, value - below, value + above))
    inside = value - below * share if side < 0.5 else value + above * share
    assert low - 1e-12 <= corners.score(inside) <= high + 1e-12
    assert low <= best <= high


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_missing(value: float) -> None:
    with_it = replace(WELL, ldh=Interval(value, value, value)) if value == value else None
    if with_it is None:
        with pytest.raises(ValueError, match="does not lie"):
            Interval(value, value, value)
        return
    assert care_rating.care_rating(with_it) == care_rating.care_rating(replace(WELL, ldh=None))
