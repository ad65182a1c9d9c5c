"""What one dose moved, and why it is in doubt: worked examples with numbers, by balance, counter and command."""

from __future__ import annotations

import pytest

from controller.ledger.witnesses import Moved, Weight, agreed, by_balance
from controller.steps.steps import Act, StepRecord
from controller.transfers import judgement
from controller.transfers.routes import Trust
from drivers.commands import PumpStatus

FULL_S = 480.0
"""How long a dose of 8 mL at 1 mL/min runs."""
EXACT = Trust(1.0, 0.0, 0.0, "exact")
WEAK = Trust(0.8, 0.0, 0.0, "gives 20 % less than it counts")


def dose(total_ul: float | None = 5000.0) -> Act:
    return Act(n=1, act=1, line="draw", ul=8000.0, flow_ul_min=1000.0, total_ul=total_ul, mass_g=20.0, mass_sd_g=0.01)


def counter(ul: float, step_ul: float = 0.0, before_ul: float = 5000.0) -> PumpStatus:
    """The status of a pump that has counted `ul` since before the dose."""
    return PumpStatus(False, 0.0, before_ul + ul, step_ul)


def weighed(ul: float) -> Moved:
    found = by_balance(Weight(20.0, 0.01), Weight(20.0 + ul / 1000.0, 0.01), sign=1, max_ul=10_000.0)
    assert found is not None
    return found


def watched(
    status: PumpStatus | None,
    balance: Moved | None,
    *,
    trust: Trust = EXACT,
    finished: bool = False,
    stuck: bool = False,
    ran_s: float = FULL_S,
    step: StepRecord | None = None,
    act: Act | None = None,
) -> Moved:
    return judgement.watched(
        step or StepRecord(1, "kidney.draw", {}, "1"),
        act or dose(),
        trust,
        balance=balance,
        status=status,
        finished=finished,
        stuck=stuck,
        ran_s=ran_s,
    )


# --- a balance that is stuck --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counted_ul", "ran_s", "certain"),
    [
        (2010.0, 240.0, True),  # half of the 4 mL that it ran for
        (1990.0, 240.0, False),
        (4010.0, 960.0, True),  # it ran long, and gives no more than its dose
        (3990.0, 960.0, False),
    ],
)
def test_F2_next_to_a_stuck_balance_the_counter_accounts_for_half_of_the_time(
    counted_ul: float, ran_s: float, certain: bool
) -> None:
    moved = watched(counter(counted_ul), None, trust=WEAK, stuck=True, ran_s=ran_s)
    assert moved.certain is certain
    if certain:
        assert moved.source == "pump"
        assert (moved.low, moved.high) == pytest.approx((0.8 * counted_ul, 0.8 * counted_ul))
    else:
        assert (moved.low, moved.high) == (0.0, 6400.0)


def test_F2_a_stuck_balance_does_not_narrow_what_the_counter_says() -> None:
    moved = watched(counter(6000.0, 1000.0), weighed(6500.0), stuck=True)
    assert (moved.source, moved.low, moved.high) == ("pump", 5000.0, 7000.0)
    assert (moved.counted, moved.counter_step) == (6000.0, 1000.0), "it is not given again"


def test_F2_a_stuck_balance_may_contradict_the_counter() -> None:
    moved = watched(counter(8000.0), weighed(2000.0), stuck=True)
    assert (moved.certain, moved.source) == (False, "contradiction")
    assert moved.low == pytest.approx(2000.0, abs=60.0)
    assert moved.high == 8000.0


def test_F2_a_stuck_balance_and_a_silent_pump_leave_everything_open() -> None:
    moved = watched(None, weighed(0.0), trust=WEAK, stuck=True)
    assert (moved.low, moved.high, moved.certain) == (0.0, 6400.0, False)


# --- a balance that moves -----------------------------------------------------------------------------------


def test_F2_a_watched_dose_is_taken_from_the_balance() -> None:
    balance = weighed(7900.0)
    moved = watched(None, balance, finished=True)
    assert moved == balance
    assert (moved.counted, moved.counter_step) == (0.0, 0.0)


def test_F2_a_counter_that_agrees_with_the_balance_does_not_replace_it() -> None:
    balance = weighed(7900.0)
    moved = watched(counter(7000.0, 1000.0), balance, finished=True)
    assert (moved.ul, moved.low, moved.high, moved.source) == (balance.ul, balance.low, balance.high, "balance")
    assert (moved.counted, moved.counter_step) == (7000.0, 1000.0)


def test_F2_a_counter_that_contradicts_the_balance_puts_the_dose_in_doubt() -> None:
    moved = watched(counter(8000.0), weighed(5000.0), finished=True)
    assert (moved.certain, moved.source) == (False, "contradiction")
    assert moved.low == pytest.approx(5000.0, abs=60.0)
    assert moved.high == 8000.0


def test_F2_a_balance_that_saw_more_than_the_counter_puts_the_dose_in_doubt() -> None:
    """A leak from elsewhere, or a tube of another size: only one of them can be right."""
    moved = watched(counter(2000.0), weighed(5000.0))
    assert (moved.certain, moved.source, moved.low) == (False, "contradiction", 2000.0)
    assert moved.high == pytest.approx(5000.0, abs=60.0)


def test_F2_without_a_balance_the_end_of_a_dose_counts_unless_the_counter_denies_it() -> None:
    loose = Trust(0.8, 0.02, 5.0, "c")
    moved = watched(None, None, trust=loose, finished=True)
    assert (moved.source, moved.ul) == ("command", 6400.0)
    assert (moved.low, moved.high) == pytest.approx((6400.0 * 0.94, 6400.0 * 1.06))
    assert watched(counter(7200.0), None, trust=loose, finished=True).source == "command", "90 % were counted"
    denied = watched(counter(7199.0), None, trust=loose, finished=True)
    assert denied.source == "pump"
    assert denied.ul == pytest.approx(0.8 * 7199.0)
    assert watched(counter(6200.0, 1000.0), None, trust=loose, finished=True).source == "command", "up to its step"
    assert watched(counter(6199.0, 1000.0), None, trust=loose, finished=True).source == "pump"


def test_F2_a_dose_that_was_cut_short_is_taken_from_the_counter_where_there_is_no_balance() -> None:
    moved = watched(counter(3000.0, 10.0), None, trust=WEAK)
    assert moved.source == "pump"
    assert (moved.ul, moved.low, moved.high) == pytest.approx((2400.0, 2392.0, 2408.0))
    assert (moved.counted, moved.counter_step) == pytest.approx((2400.0, 8.0))
    lost = watched(None, None, trust=WEAK)
    assert (lost.low, lost.high, lost.certain) == (0.0, 6400.0, False)


def test_F2_the_counter_of_a_pump_that_was_not_read_before_the_dose_says_nothing() -> None:
    moved = watched(counter(8000.0), None, act=dose(total_ul=None))
    assert (moved.certain, moved.counted) == (False, 0.0)
    finished = watched(counter(8000.0), None, act=dose(total_ul=None), finished=True)
    assert (finished.source, finished.counted) == ("command", 0.0)
    assert not judgement.lost_power(dose(total_ul=None), counter(0.0))


def test_F2_all_doses_of_a_step_add_up_to_the_counter_or_are_in_doubt() -> None:
    """Each is within the step of a counter of whole millilitres; together they are not."""
    step = StepRecord(1, "kidney.draw", {}, "1")
    for _ in range(2):
        step.booked(Moved(100.0, 0.0, 200.0, "balance", counted=900.0, counter_step=1000.0), "stopped")
    moved = watched(counter(900.0, 1000.0), weighed(100.0), step=step)
    assert (moved.certain, moved.source) == (False, "contradiction")
    assert moved.high == pytest.approx(2700.0 - 1000.0 - 400.0), "what the counter claims, without the other doses"
    enough = StepRecord(1, "kidney.draw", {}, "1")
    for _ in range(2):
        enough.booked(Moved(800.0, 780.0, 820.0, "balance", counted=900.0, counter_step=1000.0), "stopped")
    assert watched(counter(900.0, 1000.0), weighed(100.0), step=enough).certain


def test_F2_a_counter_that_was_zeroed_does_not_contradict_what_the_balance_saw() -> None:
    """What the pump counted in earlier doses has been judged with them."""
    step = StepRecord(1, "kidney.draw", {}, "1")
    step.booked(Moved(100.0, 50.0, 150.0, "balance", counted=3000.0, counter_step=0.0), "stopped")
    balance = weighed(500.0)
    assert watched(counter(100.0, before_ul=0.0), balance, step=step) == balance


def test_F2_a_counter_that_has_gone_back_by_less_than_a_rounding_was_not_zeroed() -> None:
    assert not judgement.lost_power(dose(), counter(-1e-7))
    assert judgement.lost_power(dose(), counter(-1e-5))
    assert not judgement.lost_power(dose(), None)
    moved = watched(counter(-1e-7), weighed(0.0))
    assert (moved.certain, moved.counted) == (True, 0.0)


def test_F2_a_dose_left_open_is_known_as_far_as_balance_and_counter_agree() -> None:
    step = StepRecord(1, "kidney.draw", {}, "1")
    both = judgement.left_open(step, dose(), EXACT, balance=weighed(6500.0), status=counter(6000.0, 1000.0))
    assert (both.source, both.certain, both.counted) == ("balance and pump", True, 6000.0)
    only = judgement.left_open(step, dose(), EXACT, balance=None, status=counter(6000.0, 1000.0))
    assert (only.source, only.low, only.high) == ("pump", 5000.0, 7000.0)
    none = judgement.left_open(step, dose(), WEAK, balance=None, status=None)
    assert (none.low, none.ul, none.high, none.certain) == (0.0, 3200.0, 6400.0, False)


def test_F2_half_of_a_dose_must_be_seen_by_the_balance() -> None:
    half = Moved(3200.0, 3100.0, 3200.0, "balance")
    assert not judgement.hardly_seen(half, dose(), WEAK), "half of 6.4 mL"
    assert judgement.hardly_seen(Moved(3199.0, 3100.0, 3199.0, "balance"), dose(), WEAK)
    assert not judgement.hardly_seen(None, dose(), WEAK)


def test_the_maximum_that_a_dose_can_have_moved() -> None:
    assert judgement.max_moved_ul(dose(), Trust(0.8, 0.02, 5.0, "c")) == pytest.approx(8000.0 * 0.8 * 1.06)


# --- for people ---------------------------------------------------------------------------------------------


def test_F2_the_doubt_names_the_volumes_that_a_person_decides_on() -> None:
    unknown = judgement.doubt(agreed(None, None, asked_ul=6400.0))
    assert any("0.00 and 6.40 mL" in line and "may have" in line for line in unknown)
    slipped = judgement.doubt(Moved(12_000.0, 11_940.0, 18_000.0, "contradiction", certain=False, counted=17_500.0))
    assert "17.50 mL" in slipped[0]
    assert "tube" in slipped[0]
    assert "11.94 and 18.00 mL" in slipped[1]
    handled = judgement.doubt(Moved(0.0, 0.0, 9000.0, "balance, out of all reason", certain=False, counted=7500.0))
    assert handled[0] == "balance, out of all reason"
    assert "0.00 and 9.00 mL" in handled[1]
    assert "tube" not in "".join(handled)
