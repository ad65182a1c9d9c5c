"""What is done with a batch: neutral in volume, never below a floor, nothing the pumps cannot give."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.rig.loading import load_rig
from controller.runs.facts import RigTargets
from protocols.conditioning import PH_CEILING, SWEETEST, TRIFLE_UL, BatchPlan, plan_batch
from protocols.interval import Interval
from protocols.mixing import MediumState
from tests.execution.world import BENCH

TARGETS = RigTargets(load_rig(BENCH))
LEAST = 500.0
FRESH_BICARBONATE = 27.5


def body(ul: float, glucose: float = 20.0, bicarbonate: float = FRESH_BICARBONATE, passes: float = 1.0) -> MediumState:
    exact = Interval.exact
    return MediumState(ul, exact(2.0), exact(0.1), exact(glucose), exact(bicarbonate), exact(285.0), passes)


def plan(
    share: float = 0.0,
    batch: MediumState | None = None,
    loop: MediumState | None = None,
    *,
    ph: float | None = 7.35,
    conditioned: bool = True,
    emptied: bool = False,
) -> BatchPlan:
    batch = body(21_000.0) if batch is None else batch
    return plan_batch(
        share,
        batch,
        ph,
        conditioned=conditioned,
        emptied=emptied,
        spent_ul=batch.ul,
        loop=body(22_000.0) if loop is None else loop,
        targets=TARGETS,
        min_dose_ul=LEAST,
    )


def test_what_is_not_conditioned_goes_back_as_it_is() -> None:
    made = plan(batch=body(21_000.0, glucose=5.0), conditioned=False)
    assert (made.discard_ul, made.fresh_ul, made.glucose_ul, made.base_ul) == (0.0, 0.0, 0.0, 0.0)
    assert made.give_back_ul == 18_000.0


def test_evaporation_is_made_up_for_once_it_is_worth_a_dose() -> None:
    made = plan(loop=body(21_700.0, glucose=21.0), batch=body(21_000.0, glucose=21.0))
    assert made.fresh_ul == 0.0
    assert made.give_back_ul == 18_000.0
    made = plan(loop=body(21_200.0, glucose=21.0), batch=body(21_000.0, glucose=21.0))
    assert made.fresh_ul == pytest.approx(800.0)
    assert made.give_back_ul == pytest.approx(18_800.0)


def test_glucose_is_dosed_for_the_whole_circuit_but_never_makes_a_batch_too_sweet() -> None:
    made = plan(batch=body(21_000.0, glucose=18.0), loop=body(22_000.0, glucose=18.0))
    assert made.glucose_ul == pytest.approx(43_000.0 * 3.0 / 39.0, rel=1e-6)
    small = plan(batch=body(5_000.0, glucose=12.0), loop=body(38_000.0, glucose=12.0))
    left_ul = 5_000.0 - small.discard_ul
    sweet = (12.0 * left_ul + 60.0 * small.glucose_ul) / (left_ul + small.glucose_ul)
    assert sweet <= SWEETEST * 21.0 * 1.35  # the doses' room is taken out of the batch
    assert small.glucose_ul == pytest.approx(5_000.0 * (SWEETEST * 21.0 - 12.0) / (60.0 - SWEETEST * 21.0))
    assert plan(batch=body(5_000.0, glucose=20.5), loop=body(20_000.0, glucose=21.0)).glucose_ul == 0.0, "half a dose"


def test_base_brings_a_sour_batch_to_the_set_point_and_no_further() -> None:
    made = plan(batch=body(21_000.0, bicarbonate=16.0), ph=7.2)
    left_ul = 21_000.0 - made.discard_ul
    mixed = (16.0 * left_ul + 150.0 * made.base_ul) / (left_ul + made.base_ul)
    assert made.base_ul >= LEAST
    assert mixed <= 16.0 * 10 ** (PH_CEILING - 7.2) * 1.03
    assert plan(batch=body(21_000.0, bicarbonate=25.0), ph=7.45).base_ul == 0.0, "not sour: not made alkaline"
    assert plan(batch=body(21_000.0, bicarbonate=16.0), ph=None).base_ul == 0.0, "its pH is unknown"


def test_a_share_is_replaced_and_all_of_it_when_it_is_thrown_away() -> None:
    half = plan(0.5, batch=body(21_000.0, glucose=21.0), loop=body(22_000.0, glucose=21.0))
    assert half.discard_ul == half.fresh_ul == pytest.approx(9_000.0)
    gone = plan(1.0, batch=body(21_000.0), emptied=True)
    assert gone.discard_ul == pytest.approx(21_000.0 - TARGETS.spent_floor_ul - 300.0)
    assert (gone.glucose_ul, gone.base_ul) == (0.0, 0.0)
    assert gone.fresh_ul == pytest.approx(18_700.0)


@given(
    share=st.floats(0.0, 1.0),
    conditioned=st.booleans(),
    emptied=st.booleans(),
    glucose=st.floats(0.1, 25.0),
    bicarbonate=st.floats(5.0, 30.0),
    ph=st.one_of(st.none(), st.floats(6.8, 7.8)),
    spent_ul=st.floats(2_400.0, 38_000.0),
    loop_ul=st.floats(16_000.0, 42_000.0),
)
def test_every_plan_can_be_carried_out_and_is_neutral(
    share: float,
    conditioned: bool,
    emptied: bool,
    glucose: float,
    bicarbonate: float,
    ph: float | None,
    spent_ul: float,
    loop_ul: float,
) -> None:
    batch, loop = body(spent_ul, glucose, bicarbonate), body(loop_ul, glucose, bicarbonate)
    made = plan(share, batch, loop, ph=ph, conditioned=conditioned, emptied=emptied)
    assert 0.0 <= made.discard_ul <= spent_ul - TARGETS.spent_floor_ul
    assert made.discard_ul == 0.0 or made.discard_ul >= TRIFLE_UL, (
        "no pump gives four microlitres, and the run stood still"
    )
    for dose_ul in (made.fresh_ul, made.glucose_ul, made.base_ul):
        assert dose_ul == 0.0 or dose_ul >= LEAST - 1e-6
    held_ul = spent_ul - made.discard_ul + made.fresh_ul + made.glucose_ul + made.base_ul
    assert 0.0 <= made.give_back_ul <= max(held_ul - TARGETS.spent_ul, 0.0) + 1e-6
    assert loop_ul + made.give_back_ul <= max(TARGETS.loop_ul, loop_ul) + 1e-6
    # The loop comes back to its volume but for what is less than a dose.
    assert loop_ul + made.give_back_ul >= min(TARGETS.loop_ul, loop_ul + held_ul) - LEAST - 3_000.0
    if emptied:
        assert spent_ul - made.discard_ul == pytest.approx(TARGETS.spent_floor_ul + 300.0, abs=600.0)


def test_room_for_doses_is_made_only_when_it_is_worth_a_transfer() -> None:
    """A batch that is too large by some microlitres for the loop: a discard of four held the run for good."""
    for more_ul in (0.0, 4.0, 199.0, 201.0, 800.0):
        made = plan(batch=body(21_000.0 + more_ul, glucose=25.0), loop=body(22_000.0, glucose=30.0), ph=None)
        assert made.discard_ul == pytest.approx(more_ul if more_ul >= TRIFLE_UL else 0.0)
        assert made.give_back_ul == pytest.approx(18_000.0), "the loop gets what it lacks either way"
