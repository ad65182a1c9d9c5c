"""Any input of a score, finite or not, missing or contradictory, gives a value with an interval or an unknown one."""

from __future__ import annotations

import json
import math
from dataclasses import fields
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.rig.grading import shipped_grading
from controller.runs.grading import rule_set
from protocols import media_assays, media_filter
from protocols.activity import FiringMeasures
from protocols.assay import MEDIUM_ANALYTES
from protocols.baseline import Baseline
from protocols.care_rating import MediumGrade, Vitals, care_rating, shut_gate
from protocols.grading import Letter, Sample, Turbidity, grade
from protocols.happiness import happiness
from protocols.interval import Interval
from protocols.media_state import SENSED, SPECIES, MediaState, begin
from protocols.scoring import Score
from protocols.soft_sensor import Composition
from protocols.tissue.estimate import ViabilityEstimate
from protocols.tissue.look import EVIDENCE, EXPOSURES, TISSUE, TissueLook
from protocols.tissue.statement import Statement
from protocols.welfare import Treatment, welfare

WILD = st.one_of(
    st.floats(allow_nan=False), st.sampled_from([0.0, -1.0, 1.0, 37.0, 1e300, -1e300, 5e-324, math.inf, -math.inf])
)
FINITE = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -1.0, 1.0, 7.3, 40.0, 1e300, -1e300, 5e-324]),
)
INTERVALS = st.none() | st.lists(WILD, min_size=3, max_size=3).map(sorted).map(lambda v: Interval(v[1], v[0], v[2]))
LETTERS = st.sampled_from(list(Letter))
RULES = rule_set(shipped_grading())


def all_of(kind: type[Any], names: tuple[str, ...], **more: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(kind, **dict.fromkeys(names, INTERVALS), **more)


def intervals_of(kind: type[Any]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind) if str(each.type) == "Interval | None")


FIRINGS = all_of(FiringMeasures, intervals_of(FiringMeasures), seizure_like=st.booleans())
VITALS = all_of(
    Vitals,
    intervals_of(Vitals),
    sterility_failed=st.booleans(),
    grade=st.none() | st.builds(MediumGrade, LETTERS, LETTERS),
    firing=FIRINGS,
    alarms=st.lists(st.text(max_size=3), max_size=2).map(tuple),
)
TREATMENTS = all_of(Treatment, intervals_of(Treatment), seizure_like=st.booleans())
SAMPLES = all_of(
    Sample,
    intervals_of(Sample),
    turbidity=st.none() | st.sampled_from(list(Turbidity)),
    sterile=st.none() | st.booleans(),
)
LOOKS = all_of(
    TissueLook,
    (*EXPOSURES, *EVIDENCE),
    oxygen_at_tissue=st.booleans(),
    sterility_failed=st.booleans(),
    rescaled=st.lists(st.sampled_from([*EVIDENCE, TISSUE]), max_size=2, unique=True).map(tuple),
)


def bounded(score: Score) -> None:
    assert 0.0 <= score.low <= score.score <= score.high <= 1.0
    assert 0.0 <= score.coverage <= 1.0
    assert score.of_known is None or 0.0 <= score.of_known <= 1.0
    json.dumps(score.to_json() | {"parts": {}}, allow_nan=False)


@settings(max_examples=300)
@given(VITALS, TREATMENTS)
def test_care_rating_welfare_and_happiness(vitals: Vitals, treatment: Treatment) -> None:
    rating, kept = care_rating(vitals), welfare(treatment)
    shut_gate(vitals)
    bounded(rating)
    bounded(kept)
    both = happiness(rating, kept)
    assert 0.0 <= both.low <= both.score <= both.high <= 1.0


@settings(max_examples=200)
@given(SAMPLES)
def test_grades_of_the_medium(sample: Sample) -> None:
    found = grade(sample, RULES)
    assert found.letter in Letter
    assert found.reasons or found.letter is Letter.A
    assert 0.0 <= found.confidence <= 1.0


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 10**6), FINITE), max_size=20), FINITE)
def test_baselines(hours: list[tuple[int, float]], value: float) -> None:
    kept = Baseline()
    for hour, seen in hours:
        kept, _ = kept.taken(hour, seen)
    norm = kept.norm(10**6)
    if norm is not None:
        assert norm.value > 0.0
        assert math.isfinite(norm.value)
        assert norm.spread > 0.0
        assert not math.isnan(norm.z(value))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(LOOKS, st.sampled_from([1.0, 1.0, 24.0 * 60])), min_size=1, max_size=6))
def test_the_estimate_of_viability(hours: list[tuple[TissueLook, float]]) -> None:
    estimate = ViabilityEstimate.begun(count=200)
    for look, length_h in hours:
        estimate = estimate.after(TissueLook(), hours=length_h).after(look)
        now = estimate.range()
        assert 0.0 <= now.low <= now.value <= now.high <= 1.0
        assert 0.0 <= now.harmed <= 1.0 + 1e-9
    said = Statement(estimate, look, frozenset()).to_json()
    json.dumps(said, allow_nan=False)
    json.dumps(look.to_json(), allow_nan=False)


FRESH = Composition(20.0, 0.0, 0.02, 26.0, 1.0, 290.0)
WHERE = st.sampled_from(["loop", "spent"])
ASSAYS = st.sampled_from(list(MEDIUM_ANALYTES.values())).flatmap(
    lambda each: st.tuples(
        st.just("assayed"),
        WHERE,
        st.just(each.species),
        st.floats(each.low, each.high),
        st.floats(0.0, each.high, exclude_min=True),
    )
)
EVENTS = st.one_of(
    st.tuples(st.just("elapsed"), st.sampled_from([-5.0, 0.0, 60.0, 3600.0, 86_400.0])),
    st.tuples(st.just("moved"), FINITE),
    st.tuples(st.just("volumes"), FINITE, FINITE),
    st.tuples(st.just("titrated"), st.floats(6.5, 8.0), st.floats(3.0, 150.0)),
    st.tuples(st.just("sensed"), WHERE, st.sampled_from([SPECIES[each] for each in SENSED]), FINITE),
    st.tuples(st.just("respired"), FINITE, st.floats(0.0, 1e9)),
    ASSAYS,
)


def happened(state: MediaState, event: tuple[Any, ...]) -> MediaState:
    kind, *values = event
    if kind == "elapsed":
        return media_filter.elapsed(state, values[0], water_ul_d=93.0)
    if kind == "moved":
        return media_filter.moved(media_filter.moved(state, "loop", "spent", values[0]), FRESH, "loop", values[0])
    if kind == "volumes":
        return media_filter.with_volumes(state, loop_ul=values[0], spent_ul=values[1])
    if kind == "sensed":
        assert media_filter.sensor_surprise(state, *values) >= 0.0
    module = media_assays if kind == "assayed" else media_filter
    return getattr(module, kind)(state, *values)  # type: ignore[no-any-return]


@settings(max_examples=150, deadline=None)
@given(st.lists(EVENTS, max_size=8))
def test_the_estimate_of_the_medium(events: list[tuple[Any, ...]]) -> None:
    state = begin(FRESH, FRESH, loop_ul=3e4, spent_ul=0.0, tissue_mm3=30.0, water_ul_d=(93.0, 33.0), buffer=(5.0, 3.0))
    with np.errstate(all="ignore"):  # as in a running controller: an overflow is infinite, and no error
        for event in events:
            state = happened(state, event)
        state = media_filter.elapsed(state, 3600.0, water_ul_d=93.0)
    assert np.isfinite(state.mean).all()
    assert np.isfinite(state.covariance).all()
    for where in ("loop", "spent"):
        for species in SPECIES:
            assert state.interval(where, species).finite
