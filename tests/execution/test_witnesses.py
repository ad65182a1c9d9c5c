"""Two witnesses of a transfer: what they agree on is narrow, what they contradict each other on is said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.ledger.witnesses import Weight, agreed, by_balance, by_command, by_pump

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


def test_nobody_saw_it() -> None:
    moved = agreed(None, None, asked_ul=ASKED)
    assert (moved.low, moved.high, moved.certain) == (0.0, ASKED, False)


def test_a_vessel_handled_by_somebody_is_not_a_transfer() -> None:
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
