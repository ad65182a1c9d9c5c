"""Two witnesses of a transfer: what they agree on is narrow, what they contradict each other on is said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.ledger.witnesses import Moved, Weight, against, agreed, by_balance, by_command, by_pump, went_back

ASKED = 12_000.0
MOST = 1.24 * ASKED


def test_the_balance_tells_to_some_hundredths_of_a_millilitre() -> None:
    moved = by_balance(Weight(3.0, 0.015), Weight(10.0, 0.015), sign=1, max_ul=MOST)
    assert moved is not None
    assert moved.ul == pytest.approx(7000.0)
    assert 100.0 < moved.high - moved.low < 200.0
    emptied = by_balance(Weight(10.0, 0.015), Weight(3.0, 0.015), sign=-1, max_ul=MOST)
    assert emptied is not None
    assert emptied.ul == pytest.approx(7000.0)
    assert by_balance(None, Weight(3.0, 0.015), sign=1, max_ul=MOST) is None


def test_the_pump_tells_within_its_step_and_calibration_and_not_after_a_power_cycle() -> None:
    moved = by_pump(5000.0, 11_000.0, step_ul=1000.0, rel_sd=0.08, max_ul=MOST)
    assert moved is not None
    assert moved.low == pytest.approx(5000 * 0.76)
    assert moved.high == pytest.approx(7000 * 1.24)
    assert by_pump(5000.0, 2000.0, step_ul=1000.0, rel_sd=0.08, max_ul=MOST) is None
    assert by_pump(None, 2000.0, step_ul=1000.0, rel_sd=0.08, max_ul=MOST) is None


def test_agreement_is_narrower_than_each_and_contradiction_wider_than_both() -> None:
    balance = by_balance(Weight(3.0, 0.015), Weight(10.0, 0.015), sign=1, max_ul=MOST)
    pump = by_pump(5000.0, 12_000.0, step_ul=1000.0, rel_sd=0.08, max_ul=MOST)
    both = agreed(balance, pump, asked_ul=ASKED)
    assert both.certain
    assert balance is not None
    assert both.high - both.low <= balance.high - balance.low
    other = by_pump(5000.0, 5000.0, step_ul=10.0, rel_sd=0.02, max_ul=MOST)
    torn = agreed(balance, other, asked_ul=ASKED)
    assert not torn.certain
    assert torn.low == 0.0
    assert torn.high == balance.high


def test_without_a_witness() -> None:
    moved = agreed(None, None, asked_ul=ASKED)
    assert (moved.low, moved.high, moved.certain) == (0.0, ASKED, False)


def test_a_vessel_handled_by_a_person_is_not_a_transfer() -> None:
    moved = by_balance(Weight(10.0, 0.015), Weight(3.0, 0.015), sign=1, max_ul=MOST)
    assert moved is not None
    assert not moved.certain


@given(
    st.floats(0.0, 1.0),
    st.floats(-1.9, 1.9),
    st.floats(0.86, 1.14),
    st.floats(0.0, 999.0),
    st.sampled_from([10.0, 1000.0]),
)
def test_the_truth_is_within_the_bounds_whatever_the_errors(
    share: float, z: float, gain: float, offset_ul: float, step_ul: float
) -> None:
    nominal_ul = share * ASKED
    true_ul = nominal_ul * gain
    before, after = Weight(3.0, 0.015), Weight(3.0 + true_ul / 1000.0 + z * 0.021, 0.015)
    counted = [(ul + offset_ul) // step_ul * step_ul for ul in (0.0, nominal_ul)]
    moved = agreed(
        by_balance(before, after, sign=1, max_ul=MOST),
        by_pump(counted[0], counted[1], step_ul=step_ul, rel_sd=0.08, max_ul=MOST),
        asked_ul=ASKED,
    )
    assert moved.low - 1e-6 <= true_ul <= moved.high + 1e-6
    assert moved.low <= moved.ul <= moved.high


def test_a_pump_that_finished_unwatched_has_its_calibration_error() -> None:
    moved = by_command(1000.0, rel_sd=0.08)
    assert moved.low == pytest.approx(760.0)
    assert moved.high == pytest.approx(1240.0)
    assert moved.sd_ul == pytest.approx(80.0)


# --- worked examples ----------------------------------------------------------------------------------------


def test_the_bounds_of_the_balance_come_from_both_weighings_and_the_density() -> None:
    """3 and 4 mg together 5 µL, the density 0.2 % of 6 mL 12 µL: 13 µL, three of them to each side."""
    for before_g, after_g, sign in ((3.0, 9.0, 1), (9.0, 3.0, -1)):
        moved = by_balance(Weight(before_g, 0.003), Weight(after_g, 0.004), sign=sign, max_ul=MOST)
        assert moved is not None
        assert (moved.ul, moved.low, moved.high) == pytest.approx((6000.0, 5961.0, 6039.0))
        assert (moved.source, moved.certain) == ("balance", True)
        assert moved.sd_ul == pytest.approx(13.0)
    assert by_balance(Weight(3.0, 0.003), None, sign=1, max_ul=MOST) is None


def test_no_bound_is_below_zero_or_above_what_the_pump_can_give() -> None:
    little = by_balance(Weight(3.0, 0.003), Weight(2.999, 0.004), sign=1, max_ul=MOST)
    assert little is not None
    assert (little.ul, little.low, little.high) == pytest.approx((0.0, 0.0, 14.0), abs=0.1)
    much = by_balance(Weight(3.0, 0.003), Weight(9.001, 0.004), sign=1, max_ul=6000.0)
    assert much is not None
    assert (much.ul, much.low, much.high) == pytest.approx((6000.0, 5962.0, 6000.0), abs=0.1)


@pytest.mark.parametrize(("after_g", "ul"), [(2.0, 0.0), (20.0, 6000.0)])
def test_what_no_transfer_can_explain_is_uncertain(after_g: float, ul: float) -> None:
    moved = by_balance(Weight(3.0, 0.003), Weight(after_g, 0.004), sign=1, max_ul=6000.0)
    assert moved is not None
    assert (moved.ul, moved.low, moved.high, moved.certain) == (ul, 0.0, 6000.0, False)
    assert moved.sd_ul == pytest.approx(6000.0 / 12**0.5), "a uniform distribution"
    assert "balance" in moved.source, "people must know what to look at"


def test_an_interval_that_touches_what_is_possible_is_certain() -> None:
    exact = Weight(3.0, 0.0)
    assert by_balance(exact, Weight(3.0, 0.0), sign=1, max_ul=6000.0) == Moved(0.0, 0.0, 0.0, "balance")
    at_the_top = by_pump(1000.0, 7000.0, step_ul=0.0, rel_sd=0.0, max_ul=6000.0)
    assert at_the_top == Moved(6000.0, 6000.0, 6000.0, "pump")


def test_the_counter_of_a_pump_at_zero_before_and_after_is_no_evidence() -> None:
    assert by_pump(0.0, 0.0, step_ul=10.0, rel_sd=0.02, max_ul=MOST) is None
    first = by_pump(0.0, 100.0, step_ul=10.0, rel_sd=0.02, max_ul=MOST)
    assert first is not None
    assert (first.ul, first.low, first.high) == pytest.approx((100.0, 84.6, 116.6))
    assert by_pump(0.0, 0.5, step_ul=0.1, rel_sd=0.02, max_ul=MOST) is not None, "a pump of fine steps"
    unmoved = by_pump(4000.0, 4000.0, step_ul=10.0, rel_sd=0.02, max_ul=MOST)
    assert unmoved is not None
    assert (unmoved.ul, unmoved.low, unmoved.high) == pytest.approx((0.0, 0.0, 10.6))
    assert by_pump(0.5, 0.5, step_ul=10.0, rel_sd=0.02, max_ul=MOST) is not None
    assert by_pump(4000.0, None, step_ul=10.0, rel_sd=0.02, max_ul=MOST) is None


def test_a_counter_went_back_when_it_lost_more_than_a_rounding() -> None:
    assert not went_back(5000.0, 5000.0)
    assert not went_back(5000.0, 5000.0 - 5e-7)
    assert went_back(5000.0, 5000.0 - 5e-6)


def test_both_intervals_are_intersected_and_the_best_value_lies_within() -> None:
    balance = Moved(6000.0, 5900.0, 6100.0, "balance")
    above = agreed(balance, Moved(6500.0, 6050.0, 7000.0, "pump"), asked_ul=ASKED)
    assert above == Moved(6050.0, 6050.0, 6100.0, "balance and pump")
    below = agreed(balance, Moved(5500.0, 5000.0, 5950.0, "pump"), asked_ul=ASKED)
    assert below == Moved(5950.0, 5900.0, 5950.0, "balance and pump")
    touching = agreed(balance, Moved(6500.0, 6100.0, 7000.0, "pump"), asked_ul=ASKED)
    assert touching == Moved(6100.0, 6100.0, 6100.0, "balance and pump")
    apart = agreed(balance, Moved(6500.0, 6101.0, 7000.0, "pump"), asked_ul=ASKED)
    assert apart == Moved(6000.0, 5900.0, 7000.0, "contradiction", certain=False)
    assert agreed(None, balance, asked_ul=ASKED) == balance
    assert agreed(None, None, asked_ul=ASKED).ul == ASKED / 2


def test_a_dose_is_in_doubt_when_the_doses_of_its_step_do_not_add_up() -> None:
    dose = Moved(1000.0, 900.0, 1100.0, "balance", counted=3000.0, counter_step=1000.0)
    assert against(dose, seen_ul=900.0, counted_ul=3000.0, rel_sd=0.0) is dose, "2 mL are surely counted, 2 mL seen"
    assert against(dose, seen_ul=780.0, counted_ul=3000.0, rel_sd=0.02) is dose, "6 % less with its calibration"
    doubtful = against(dose, seen_ul=770.0, counted_ul=3000.0, rel_sd=0.02)
    assert (doubtful.certain, doubtful.source) == (False, "contradiction")
    assert (doubtful.ul, doubtful.low, doubtful.high) == pytest.approx((1000.0, 900.0, 1110.0))
    assert (doubtful.counted, doubtful.counter_step) == (3000.0, 1000.0)
    assert not against(dose, seen_ul=899.5, counted_ul=3000.0, rel_sd=0.0).certain, "half a microlitre is missing"
    worthless = against(dose, seen_ul=0.0, counted_ul=30_000.0, rel_sd=0.5)
    assert worthless is dose, "a counter that may be wrong by more than all says nothing"


def test_a_dose_that_only_its_command_vouches_for_is_never_negative() -> None:
    assert by_command(1000.0, rel_sd=0.5) == Moved(1000.0, 0.0, 2500.0, "command")


def test_what_the_counter_claims_is_charged_where_the_balance_saw_less() -> None:
    slipped = Moved(100.0, 50.0, 150.0, "balance", counted=3000.0, counter_step=1000.0)
    assert (slipped.claimed_ul, slipped.charged_ul) == (2000.0, 2000.0)
    seen = Moved(2900.0, 2850.0, 2950.0, "balance", counted=3000.0, counter_step=1000.0)
    assert seen.charged_ul == 2950.0
    assert Moved(0.0, 0.0, 10.0, "pump", counted=500.0, counter_step=1000.0).claimed_ul == 0.0
