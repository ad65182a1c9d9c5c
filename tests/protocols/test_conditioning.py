"""What is done with a batch: neutral in volume, never below a floor, nothing the pumps cannot give."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.execution.organs import Targets
from controller.rig.loading import load_rig
from protocols.conditioning import BatchPlan, plan_batch
from protocols.grading import Grade, Letter, Sample, grade
from protocols.interval import Interval
from protocols.soft_sensor import MediaValues
from tests.execution.world import BENCH

TARGETS = Targets(load_rig(BENCH))
LEAST = 500.0


def media(
    lactate: float = 2.0, ammonia: float = 0.1, glucose: float = 20.0, bicarbonate: float = 25.0, width: float = 0.0
) -> MediaValues:
    def around(value: float) -> Interval:
        return Interval(value, max(0.0, value - width * value), value + width * value)

    return MediaValues(around(lactate), around(ammonia), around(glucose), around(bicarbonate), Interval.exact(285.0))


def judged(batch: MediaValues, *, ph: float = 7.35, passes: float = 1.0, sterile: bool = True) -> Grade:
    return grade(
        Sample(
            lactate_mm=batch.lactate_mm,
            ammonia_mm=batch.ammonia_mm,
            glucose_share=batch.glucose_mm.scaled(1 / TARGETS.glucose_mm),
            glucose_mm=batch.glucose_mm,
            ph=Interval.exact(ph),
            osmolality_change_pct=Interval.exact(0.0),
            oxygen_pct=Interval.exact(90.0),
            passes=Interval.exact(passes),
            sterile=sterile,
        )
    )


def plan(
    batch: MediaValues,
    *,
    ph: float = 7.35,
    spent_ul: float = 21_000.0,
    loop_ul: float = 22_000.0,
    passes: float = 1.0,
    sterile: bool = True,
) -> tuple[Grade, BatchPlan]:
    verdict = judged(batch, ph=ph, passes=passes, sterile=sterile)
    return verdict, plan_batch(
        verdict, batch, ph, spent_ul=spent_ul, loop_ul=loop_ul, targets=TARGETS, min_dose_ul=LEAST
    )


def test_a_goes_back_as_it_is() -> None:
    verdict, made = plan(media())
    assert verdict.letter is Letter.A
    assert (made.discard_ul, made.fresh_ul, made.glucose_ul, made.base_ul) == (0.0, 0.0, 0.0, 0.0)
    assert made.give_back_ul == 18_000.0


def test_evaporation_is_made_up_for_once_it_is_worth_a_dose() -> None:
    _, made = plan(media(), loop_ul=21_700.0)
    assert made.fresh_ul == 0.0
    assert made.give_back_ul == 18_000.0
    _, made = plan(media(), loop_ul=21_200.0)
    assert made.fresh_ul == pytest.approx(800.0)
    assert made.give_back_ul == pytest.approx(18_800.0)


def test_b_is_dosed_where_it_pays_and_thinned_by_how_bad_it_is() -> None:
    verdict, little = plan(media(lactate=6.0, glucose=18.0))
    assert verdict.letter is Letter.B
    assert little.glucose_ul == pytest.approx((21_000 - little.discard_ul) * 3.0 / 39.0, rel=1e-6)
    _, more = plan(media(lactate=9.0, glucose=20.5))
    assert more.glucose_ul == 0.0, "half a dose is none"
    assert more.fresh_share > little.fresh_share
    assert more.discard_ul > little.discard_ul


def test_base_brings_a_sour_batch_to_the_set_point_and_no_further() -> None:
    verdict, made = plan(media(bicarbonate=16.0), ph=7.2)
    assert verdict.letter is Letter.B
    left_ul = 21_000.0 - made.discard_ul
    mixed = (16.0 * left_ul + 150.0 * made.base_ul) / (left_ul + made.base_ul)
    assert mixed == pytest.approx(16.0 * 10**0.15, rel=0.02)
    _, none = plan(media(lactate=6.0, bicarbonate=25.0), ph=7.40)
    assert none.base_ul == 0.0
    _, unknown = plan(media(lactate=6.0, bicarbonate=16.0), ph=7.45)
    assert unknown.base_ul == 0.0, "a batch that is not sour is not made alkaline"


def test_c_replaces_at_least_half() -> None:
    verdict, made = plan(media(lactate=12.0))
    assert verdict.letter is Letter.C
    assert made.discard_ul >= 0.5 * 18_000.0
    _, worse = plan(media(lactate=19.0))
    assert worse.discard_ul > made.discard_ul


def test_d_replaces_all_that_can_be_pumped_out() -> None:
    for batch, sterile in ((media(lactate=25.0), True), (media(), False)):
        verdict, made = plan(batch, sterile=sterile)
        assert verdict.letter is Letter.D
        assert made.discard_ul == pytest.approx(21_000.0 - TARGETS.spent_floor_ul - 300.0)
        assert (made.glucose_ul, made.base_ul) == (0.0, 0.0)
        assert made.fresh_ul == pytest.approx(18_700.0)


@given(
    lactate=st.floats(0.0, 25.0),
    ammonia=st.floats(0.0, 2.5),
    glucose=st.floats(0.1, 21.0),
    bicarbonate=st.floats(5.0, 30.0),
    width=st.floats(0.0, 0.5),
    ph=st.floats(6.8, 7.8),
    passes=st.floats(0.0, 12.0),
    spent_ul=st.floats(2_400.0, 38_000.0),
    loop_ul=st.floats(16_000.0, 42_000.0),
)
def test_every_plan_can_be_carried_out_and_is_neutral(
    lactate: float,
    ammonia: float,
    glucose: float,
    bicarbonate: float,
    width: float,
    ph: float,
    passes: float,
    spent_ul: float,
    loop_ul: float,
) -> None:
    batch = media(lactate, ammonia, glucose, bicarbonate, width)
    verdict, made = plan(batch, ph=ph, passes=passes, spent_ul=spent_ul, loop_ul=loop_ul)
    assert 0.0 <= made.discard_ul <= spent_ul - TARGETS.spent_floor_ul
    for dose_ul in (made.fresh_ul, made.glucose_ul, made.base_ul):
        assert dose_ul == 0.0 or dose_ul >= LEAST - 1e-6
    held_ul = spent_ul - made.discard_ul + made.fresh_ul + made.glucose_ul + made.base_ul
    assert 0.0 <= made.give_back_ul <= max(held_ul - TARGETS.spent_ul, 0.0) + 1e-6
    assert loop_ul + made.give_back_ul <= max(TARGETS.loop_ul, loop_ul) + 1e-6
    # The loop comes back to its volume but for what is less than a dose.
    assert loop_ul + made.give_back_ul >= min(TARGETS.loop_ul, loop_ul + held_ul) - LEAST - 3_000.0
    if verdict.letter is Letter.D:
        assert spent_ul - made.discard_ul == pytest.approx(TARGETS.spent_floor_ul + 300.0, abs=600.0)
    if made.base_ul:
        left_ul = spent_ul - made.discard_ul
        mixed = (batch.bicarbonate_mm.value * left_ul + 150.0 * made.base_ul) / (left_ul + made.base_ul)
        assert mixed <= batch.bicarbonate_mm.value * 10 ** (7.45 - ph) * 1.15 + 0.1
