"""What one dose moved: accurate witnesses bound the truth, and what a pump has counted is never given again."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from controller.ledger.witnesses import Weight, by_balance
from controller.steps.steps import PORTION, Act, StepRecord
from controller.transfers import judgement
from controller.transfers.routes import Trust
from drivers.commands import PumpStatus

ASKED_UL = 8000.0
ZERO_G = 20.0
SD_G = 0.01
RAN_S = 480.0

fractions = st.floats(0.0, 1.0)
counters = st.sampled_from([0.0, 1.0, 10.0, 1000.0])
trusts = st.builds(
    Trust, gain=st.floats(0.8, 1.2), rel_sd=st.floats(0.005, 0.08), dose_sd_ul=st.just(5.0), calibration=st.just("c1")
)


def act(ul: float, total_ul: float | None = 5000.0) -> Act:
    return Act(n=1, act=1, line="draw", ul=ul, flow_ul_min=1000.0, total_ul=total_ul, mass_g=ZERO_G, mass_sd_g=SD_G)


def step() -> StepRecord:
    return StepRecord(1, "kidney.draw", {}, "1")


def counted(before_ul: float, nominal_ul: float, step_ul: float) -> PumpStatus:
    total = before_ul + nominal_ul
    shown = math.floor(total / step_ul) * step_ul if step_ul else total
    return PumpStatus(False, 0.0, shown, step_ul)


@given(trusts, counters, fractions, st.floats(-1.0, 1.0), st.floats(-1.0, 1.0), st.booleans())
def test_F2_F3_accurate_witnesses_are_certain_and_bound_the_truth(
    trust: Trust, counter_ul: float, share: float, error: float, noise: float, seen_to_its_end: bool
) -> None:
    """The pump gives more or less than its calibration says, by up to two of its deviations, the balance likewise."""
    dose = act(ASKED_UL)
    nominal_ul = share * ASKED_UL
    true_ul = nominal_ul * trust.gain * (1 + 2 * error * trust.rel_sd)
    weighed = by_balance(
        Weight(ZERO_G, SD_G),
        Weight(ZERO_G + true_ul / 1000.0 + 2 * noise * SD_G, SD_G),
        sign=1,
        max_ul=judgement.max_moved_ul(dose, trust),
    )
    told = counted(5000.0, nominal_ul, counter_ul)
    if seen_to_its_end:
        moved = judgement.watched(
            step(), dose, trust, balance=weighed, status=told, finished=False, stuck=False, ran_s=RAN_S
        )
    else:
        moved = judgement.left_open(step(), dose, trust, balance=weighed, status=told)
    assert moved.certain
    assert moved.low <= true_ul + 1e-6
    assert moved.high >= true_ul - 1e-6
    assert not judgement.lost_power(dose, told)


@given(
    trusts,
    counters,
    st.lists(st.tuples(st.floats(0.05, 1.0), fractions, st.booleans(), st.booleans()), min_size=1, max_size=12),
)
def test_F2_what_the_counter_has_counted_is_not_given_again_whatever_the_balance_sees(
    trust: Trust, counter_ul: float, doses: list[tuple[float, float, bool, bool]]
) -> None:
    """A step given in doses that end early, of which the balance sees any share; a person resumes it each time."""
    record, asked_ul, total_ul = step(), ASKED_UL, 5000.0
    given_ul = 0.0
    for share, seen_share, seen_to_its_end, portion in doses:
        rest_ul = asked_ul - record.charged_ul
        if rest_ul <= 0.0:
            break
        before = counted(total_ul, 0.0, counter_ul)
        dose = act(rest_ul / trust.gain, before.delivered_ul)
        nominal_ul = dose.ul * (1.0 if portion else share)
        total_ul += nominal_ul
        given_ul += nominal_ul * trust.gain
        weighed = by_balance(
            Weight(ZERO_G, SD_G),
            Weight(ZERO_G + seen_share * nominal_ul * trust.gain / 1000.0, SD_G),
            sign=1,
            max_ul=judgement.max_moved_ul(dose, trust),
        )
        told = counted(total_ul, 0.0, counter_ul)
        if seen_to_its_end:
            moved = judgement.watched(
                record, dose, trust, balance=weighed, status=told, finished=portion, stuck=False, ran_s=RAN_S
            )
        else:
            moved = judgement.left_open(record, dose, trust, balance=weighed, status=told)
        record.booked(moved, PORTION if portion and seen_to_its_end else "stopped")
    # The counter shows whole steps: the first and the last of what was given may not show yet.
    assert given_ul <= asked_ul + 2 * counter_ul * trust.gain + 1e-6


@given(trusts, counters)
def test_F2_a_dose_that_the_balance_has_not_seen_at_all_is_in_doubt(trust: Trust, counter_ul: float) -> None:
    """However it ended, as long as the counter says more than one step of its own."""
    dose = act(ASKED_UL)
    nothing = by_balance(Weight(ZERO_G, SD_G), Weight(ZERO_G, SD_G), sign=1, max_ul=judgement.max_moved_ul(dose, trust))
    assert judgement.hardly_seen(nothing, dose, trust)
    told = counted(5000.0, ASKED_UL, counter_ul)
    for finished in (True, False):
        moved = judgement.watched(
            step(), dose, trust, balance=nothing, status=told, finished=finished, stuck=False, ran_s=RAN_S
        )
        assert not moved.certain
        assert moved.charged_ul >= ASKED_UL * trust.gain - counter_ul * trust.gain - 1e-6
    assert not judgement.left_open(step(), dose, trust, balance=nothing, status=told).certain


@given(trusts, counters)
def test_F2_a_counter_that_was_zeroed_claims_nothing(trust: Trust, counter_ul: float) -> None:
    dose = act(ASKED_UL)
    told = PumpStatus(False, 0.0, 100.0, counter_ul)
    assert judgement.lost_power(dose, told)
    moved = judgement.left_open(step(), dose, trust, balance=None, status=told)
    assert (moved.counted, moved.certain, moved.source) == (0.0, False, "no measurement")


@given(trusts, counters, st.floats(0.2, 1.0))
def test_F2_a_stuck_balance_leaves_the_pump_alone_and_that_has_to_answer_for_its_time(
    trust: Trust, counter_ul: float, share: float
) -> None:
    """A pump that lost power in a dose while the balance was stuck: nothing was booked, and it was given again."""
    dose = act(ASKED_UL, total_ul=0.0)
    ran_s = share * RAN_S
    max_ul = judgement.max_moved_ul(dose, trust)
    nothing = by_balance(Weight(ZERO_G, SD_G), Weight(ZERO_G, SD_G), sign=1, max_ul=max_ul)
    zeroed = PumpStatus(False, 0.0, 0.0, min(counter_ul, 400.0))
    for told in (zeroed, None):
        moved = judgement.watched(
            step(), dose, trust, balance=nothing, status=told, finished=False, stuck=True, ran_s=ran_s
        )
        assert not moved.certain
        assert moved.charged_ul >= ASKED_UL * trust.gain, "a person decides, and nothing is given again"
    unmoved = PumpStatus(False, 0.0, 5000.0, min(counter_ul, 400.0))
    moved = judgement.watched(
        step(), act(ASKED_UL), trust, balance=nothing, status=unmoved, finished=False, stuck=True, ran_s=0.0
    )
    assert moved.certain, "it hardly ran: the counter and the balance say the same"
    moved = judgement.watched(
        step(), dose, trust, balance=nothing, status=zeroed, finished=False, stuck=True, ran_s=0.0
    )
    assert not moved.certain, "a counter at zero does not tell whether its pump has lost power"
