"""Which treatment is chosen: the cheapest that the grade permits, with its reasons; and what it comes to over weeks."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.rig.loading import load_rig
from controller.runs.facts import RigTargets
from controller.runs.grading import prices_of, rules_of
from protocols.dialysis import DialyserModel
from protocols.economy import Decision, TreatmentContext, beyond, draw, treatment
from protocols.grading import Grade, Letter, Sample, grade
from protocols.interval import Interval
from protocols.mixing import MediumState
from tests.protocols.plant_only import RIGS, Story, sensitive, told

DIALYSER = DialyserModel(koa_ul_min=600.0, flow_ul_min=500.0, min_ul=100.0)


@lru_cache
def bench(name: str = "bench", *, dialyser: bool = False) -> TreatmentContext:
    rig = load_rig(Path(RIGS / f"{name}.yaml"))
    targets = RigTargets(rig)
    return TreatmentContext(
        rules_of(rig),
        prices_of(rig),
        targets,
        targets.media,
        DIALYSER if dialyser else None,
        500.0,
        500.0,
        lactate_umol_d=Interval(50.0, 45.0, 55.0),
        look_d=1 / 3,
        exceed=0.02,
    )


WITHOUT, WITH = bench(), bench("bench_dialysis", dialyser=True)


def body(
    ul: float,
    lactate: float = 2.0,
    ammonia: float = 0.1,
    glucose: float = 20.0,
    *,
    width: float = 0.1,
    passes: float = 1.0,
    insulin: float = 1.0,
) -> MediumState:
    def about(value: float) -> Interval:
        return Interval(value, value * (1 - width), value * (1 + width))

    return MediumState(
        ul,
        about(lactate),
        about(ammonia),
        about(glucose),
        about(27.5 - lactate),
        Interval.exact(285.0),
        passes,
        insulin,
    )


def judged(of: MediumState, *, sterile: bool = True) -> Grade:
    seen = of.variables(WITHOUT.targets) | {"ph": Interval.exact(7.35), "oxygen_pct": Interval.exact(90.0)}
    return grade(Sample(**seen, sterile=sterile), WITHOUT.rules)  # type: ignore[arg-type]


def treated(
    on: TreatmentContext, batch: MediumState, loop: MediumState | None = None, *, sterile: bool = True
) -> Decision:
    left = replace(batch, ul=22_000.0) if loop is None else loop
    return treatment(on, judged(batch, sterile=sterile), batch, left, 7.35)


def drawn(on: TreatmentContext, loop: MediumState, min_ul: float = 0.0) -> Decision:
    return draw(on, judged(loop), replace(loop, ul=3_000.0), loop, 7.35, max_ul=18_000.0, min_ul=min_ul)


def test_nothing_is_drawn_while_the_loop_is_good() -> None:
    decision = drawn(WITHOUT, body(40_000.0))
    assert decision.chosen.action == "rest"
    assert decision.chosen.costs["risk"] < 0.01
    assert drawn(WITHOUT, body(40_000.0), min_ul=9_000.0).chosen.draw_ul == pytest.approx(9_000.0)


def test_near_the_edge_something_is_done_and_the_dialyser_is_cheaper_than_fresh_medium() -> None:
    near = body(40_000.0, lactate=9.4, width=0.05)
    plain, dialysed = drawn(WITHOUT, near).chosen, drawn(WITH, near).chosen
    assert plain.action == "dilute"
    assert plain.plan.fresh_ul > 0.0
    assert dialysed.action == "dialyse"
    assert dialysed.plan.dialysate_ul > 0.0
    assert dialysed.plan.fresh_ul < plain.plan.fresh_ul
    assert sum(dialysed.costs.values()) < sum(plain.costs.values())


def test_prices_decide() -> None:
    near = body(40_000.0, lactate=9.4, width=0.05)
    dear_dialysis = replace(WITH, prices=replace(WITH.prices, basal_eur_ml=50.0))
    assert drawn(dear_dialysis, near).chosen.action == "dilute"
    careless = replace(WITHOUT, prices=replace(WITHOUT.prices, harm_b_eur_d=0.0, harm_c_eur_d=0.0))
    assert drawn(careless, body(40_000.0, lactate=7.0)).chosen.action == "rest"
    anxious = replace(WITHOUT, prices=replace(WITHOUT.prices, harm_b_eur_d=5_000.0))
    assert drawn(anxious, body(40_000.0, lactate=8.6)).chosen.plan.fresh_ul > 0.0


def test_not_knowing_costs_medium() -> None:
    sure, unsure = (drawn(WITHOUT, body(40_000.0, lactate=8.3, width=width)).chosen for width in (0.02, 0.24))
    assert sure.action == "rest"
    assert unsure.plan.fresh_ul > 0.0


def test_no_limit_is_passed_before_the_next_look_with_more_than_the_stated_probability() -> None:
    near = body(40_000.0, lactate=9.2, width=0.08)
    for exceed in (0.01, 0.05, 0.2):
        chosen = drawn(replace(WITHOUT, exceed=exceed), near).chosen
        assert chosen.chance <= exceed
    soon, late = (drawn(replace(WITHOUT, look_d=days), near).chosen for days in (1 / 24, 1.0))
    assert soon.plan.fresh_ul < late.plan.fresh_ul
    timid, bold = (drawn(replace(WITHOUT, exceed=exceed), near).chosen for exceed in (0.001, 0.2))
    assert bold.plan.fresh_ul < timid.plan.fresh_ul


def test_what_stays_in_the_spent_vessel_is_not_forgotten() -> None:
    """A small batch mixes with the diluted rest and is discarded below the limit: a larger one needs less fresh medium."""
    loop, rest = body(40_000.0, lactate=9.6, width=0.03), body(3_000.0, lactate=5.0, width=0.03)
    decision = draw(WITHOUT, judged(loop), rest, loop, 7.35, max_ul=18_000.0)
    assert decision.chosen.action == "dilute"
    assert decision.chosen.draw_ul >= 5_000.0
    assert 0.0 < decision.chosen.credit <= decision.chosen.costs["fresh"]


def test_little_is_exchanged_at_a_time_near_the_limit() -> None:
    """Mass balance: as much leaves as the tissue makes until the next look (17 µmol, 2 mL at 9 mM), not a whole batch."""
    steady = body(40_000.0, lactate=9.0, width=0.1)
    chosen = drawn(WITHOUT, steady).chosen
    assert 0.0 < chosen.plan.fresh_ul <= 4_000.0


def test_what_a_grade_permits() -> None:
    actions = {other.action: other.refused for other in treated(WITH, body(15_000.0, lactate=6.0)).others}
    assert actions["return"] == "grade B is conditioned first"
    half = treated(WITHOUT, body(15_000.0, lactate=12.0), body(28_000.0, lactate=6.0)).chosen
    assert half.plan.fresh_share >= 0.5
    exchanged = treated(WITH, body(15_000.0, lactate=12.0), body(28_000.0, lactate=6.0)).chosen
    assert exchanged.action == "dialyse"
    assert DIALYSER.exchanged(exchanged.plan.dialysate_ul, 15_000.0) >= 0.5
    # A dialyser does not make medium young again.
    worn = treated(WITH, body(15_000.0, passes=8.0), body(28_000.0, passes=2.0)).chosen
    assert worn.plan.fresh_share >= 0.5
    leached = treated(WITH, body(15_000.0, insulin=0.4), body(28_000.0)).chosen
    assert leached.plan.fresh_share >= 0.5
    assert treated(WITH, body(15_000.0, lactate=25.0)).chosen.action == "discard"
    assert treated(WITH, body(15_000.0), sterile=False).chosen.action == "discard"


def test_no_loop_is_left_at_c_for_the_sake_of_a_small_batch() -> None:
    chosen = drawn(WITHOUT, body(40_000.0, lactate=10.4, width=0.02)).chosen
    assert not chosen.refused
    fresh_ul = chosen.plan.fresh_ul
    after = 10.4 * 1.02 * (1.0 - (fresh_ul + chosen.plan.glucose_ul) / 40_000.0)
    assert after < 10.0


def test_a_loop_that_no_single_treatment_restores_is_treated_as_far_as_can_be_drawn() -> None:
    loop = body(40_000.0, lactate=19.0, width=0.02)
    plain, dialysed = drawn(WITHOUT, loop).chosen, drawn(WITH, loop).chosen
    assert plain.still == dialysed.still == "lactate_mm"
    assert plain.draw_ul == dialysed.draw_ul == 18_000.0
    assert plain.plan.fresh_ul >= 9_000.0 - 1.0
    assert dialysed.action == "dialyse"


def test_the_decision_tells_all_candidates_and_their_costs() -> None:
    decision = treated(WITH, body(15_000.0, lactate=8.5))
    told_of = decision.to_json()
    named = {told_of["chosen"]["action"], *(other["action"] for other in told_of["others"])}
    assert named == {"return", "condition", "dilute", "dialyse", "discard"}
    assert all(
        set(each["costs"]) <= {"fresh", "stocks", "dialysis", "filter", "waste", "risk"} for each in told_of["others"]
    )
    permitted = [other for other in decision.others if not (other.refused or other.still)]
    assert all(decision.chosen.total <= other.total for other in permitted)
    assert told_of["reason"].startswith(told_of["chosen"]["action"])
    assert told_of == treated(WITH, body(15_000.0, lactate=8.5)).to_json()


@given(value=st.floats(0.0, 20.0), below=st.floats(0.0, 5.0), above=st.floats(0.0, 5.0), edge=st.floats(0.0, 20.0))
def test_the_probability_beyond_an_edge_follows_the_interval(
    value: float, below: float, above: float, edge: float
) -> None:
    interval = Interval(value, value - below, value + above)
    high, low = beyond(interval, "high", edge), beyond(interval, "low", edge)
    assert 0.0 <= high <= 1.0
    if abs(value - edge) > 1e-6 and min(below, above) > 1e-3:
        assert high + low == pytest.approx(1.0)
        assert (high > 0.5) == (value > edge)
    farther = beyond(interval, "high", edge + 1.0)
    assert farther <= high
    assert beyond(interval, "band", (edge - 30.0, edge)) >= high


def test_two_standard_deviations_are_a_fortieth() -> None:
    assert beyond(Interval(8.0, 6.0, 10.0), "high", 10.0) == pytest.approx(0.0228, abs=1e-4)


@settings(max_examples=40, deadline=None)
@given(
    lactate=st.floats(0.0, 25.0), ammonia=st.floats(0.0, 2.5), passes=st.floats(0.0, 12.0), insulin=st.floats(0.1, 1.0)
)
def test_what_is_chosen_is_always_permitted(lactate: float, ammonia: float, passes: float, insulin: float) -> None:
    loop = body(40_000.0, lactate, ammonia, passes=passes, insulin=insulin)
    for on in (WITHOUT, WITH):
        chosen = drawn(on, loop).chosen
        assert not chosen.refused
        letter = judged(loop).letter
        if letter is Letter.D:
            assert chosen.action == "discard"
        if letter is Letter.C:
            assert chosen.action in ("dilute", "dialyse", "discard")


@pytest.mark.long
def test_three_weeks_with_a_dialyser_take_less_than_a_third_of_the_fresh_medium_and_no_limit_is_passed() -> None:
    exchanged, recycled = told("bench", days=21, recycling=False), told("bench_dialysis", days=21)
    assert recycled.fresh_ml <= 0.3 * exchanged.fresh_ml
    assert recycled.mean_viability >= exchanged.mean_viability
    _within_b(recycled)


def _within_b(story: Story) -> None:
    assert story.lactate_mm < 10.0
    assert story.ammonia_mm < 0.8
    assert story.passes <= 6.05
    assert story.insulin > 0.4


@pytest.mark.long
def test_the_rules_for_sensitive_tissue_spare_tissue_that_the_shipped_rules_kill() -> None:
    """Slow harm from the limits of grade A on, 21 days; the reason for `examples/grading/sensitive.yaml`."""
    shipped = told("bench_dialysis", days=21, lactate_sd=0.3, tissue="chronic")
    spared = told("bench_dialysis", days=21, lactate_sd=0.3, tissue="chronic", rules=sensitive())
    exchanged = told("bench", days=21, recycling=False, tissue="chronic")
    assert shipped.viability[-1] < 0.5
    assert spared.viability[-1] >= exchanged.viability[-1]
    assert spared.fresh_ml < 0.5 * exchanged.fresh_ml
