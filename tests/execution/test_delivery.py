"""What a transfer needs next, and the problem that holds it: worked examples of A10."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.ledger.witnesses import Moved, by_command, by_pump
from controller.steps.recovery import Trouble
from controller.steps.steps import PORTION, StepRecord
from controller.transfers.delivery import Complete, Decision, Doubt, Excess, Give, Short, decide, problem_of, tolerance
from controller.transfers.routes import Trust, routes_of
from tests.execution.world import RIG

GLUCOSE = routes_of(RIG)["liver.add_glucose"]
"""Its pump gives 500 µL or more, and the balance sees it."""
UNWEIGHED = replace(GLUCOSE, weighed=0)
EXACT = Trust(1.0, 0.0, 0.0, "exact")
USUAL = Trust(1.0, 0.02, 5.0, "factory")
"""At 500 µL the pump is known to 33.5 µL, at 2000 µL to 120.9 µL (k = 3)."""


def given(*doses: tuple[float, float, str]) -> StepRecord:
    """A step with doses of (best value, uncertainty, end)."""
    step = StepRecord(7, "liver.add_glucose", {}, "1")
    for ul, error_ul, end in doses:
        step.acts += 1
        step.booked(Moved(ul, ul - error_ul, ul + error_ul, "balance"), end)
    return step


@pytest.mark.parametrize(
    ("requested_ul", "gain", "expected"),
    [
        (2000.0, 1.0, Give(2000.0)),
        (500.0, 1.0, Give(500.0)),
        (480.0, 1.0, Give(500.0)),  # 20 µL too much is within the uncertainty of a weighed dose (64 µL)
        (400.0, 1.0, Short()),
        (560.0, 1.1, Give(560.0)),
        (540.0, 1.1, Give(550.0)),  # the pump gives 10 % more than it counts: its minimum is 550 µL
        (440.0, 0.8, Give(440.0)),
    ],
)
def test_A10_the_first_dose(requested_ul: float, gain: float, expected: Decision) -> None:
    trust = replace(USUAL, gain=gain)
    found = decide(given(), GLUCOSE, trust, requested_ul)
    assert type(found) is type(expected)
    if isinstance(found, Give) and isinstance(expected, Give):
        assert found.volume_ul == pytest.approx(expected.volume_ul)


def test_A10_a_minimum_dose_is_given_up_to_the_uncertainty_of_pump_or_weighing() -> None:
    assert decide(given(), UNWEIGHED, USUAL, 480.0) == Give(500.0), "20 µL are within the 32.5 µL of the pump"
    assert decide(given(), UNWEIGHED, USUAL, 460.0) == Short(), "40 µL are not within its 31.4 µL"
    scattered = Trust(1.0, 0.0, 8.0, "24 µL")
    assert decide(given(), UNWEIGHED, scattered, 476.0) == Give(500.0), "just within"
    assert decide(given(), GLUCOSE, EXACT, 460.0) == Give(500.0), "40 µL are within the 63.7 µL of the weighing"


@pytest.mark.parametrize(
    ("doses", "expected"),
    [
        ([(1000.0, 0.0, "stopped")], Give(1000.0)),
        ([(1500.0, 0.0, "stopped")], Give(500.0)),  # a remainder of exactly the minimum
        ([(1510.0, 0.0, "stopped")], Give(500.0)),  # 10 µL below the minimum: rounded up
        ([(1700.0, 0.0, "stopped")], Short()),
        ([(2000.0, 0.0, "stopped")], Complete()),
        ([(1880.0, 0.0, "stopped")], Complete()),  # 120 µL are within the 120.9 µL of the pump
        ([(1870.0, 0.0, "done")], Short()),  # 130 µL are not
        ([(1870.0, 15.0, "done")], Complete()),  # but they are within both uncertainties
        ([(2130.0, 0.0, "done")], Excess()),
        ([(2130.0, 15.0, "done")], Complete()),
        ([(1000.0, 0.0, PORTION)], Give(1000.0)),
        ([(1000.0, 0.0, "done")], Short()),  # its pump has ended the last dose: nothing is added
        ([(1000.0, 129.0, "stopped")], Give(1000.0)),  # known well enough (129.5 µL)
        ([(1000.0, 130.0, "stopped")], Doubt()),
        # The uncertainties of several doses add up as squares.
        ([(500.0, 90.0, PORTION), (500.0, 90.0, PORTION)], Give(1000.0)),
        ([(500.0, 95.0, PORTION), (500.0, 95.0, PORTION)], Doubt()),
    ],
)
def test_A10_the_remainder_of_2_mL(doses: list[tuple[float, float, str]], expected: Decision) -> None:
    found = decide(given(*doses), GLUCOSE, USUAL, 2000.0)
    assert type(found) is type(expected)
    if isinstance(found, Give) and isinstance(expected, Give):
        assert found.volume_ul == pytest.approx(expected.volume_ul, abs=130.0)


def test_A10_the_upper_bound_of_a_dose_that_was_cut_short_counts_as_given() -> None:
    """Unless that alone would leave the transfer short by more than the uncertainty of the pump."""
    coarse = replace(USUAL, rel_sd=0.03)  # 180.6 µL at 2000 µL
    assert decide(given((1000.0, 100.0, "stopped")), GLUCOSE, coarse, 2000.0) == Give(900.0)
    step = given((1000.0, 100.0, "stopped"))
    step.charged_ul = 1180.0
    assert decide(step, GLUCOSE, coarse, 2000.0) == Give(820.0)
    step.charged_ul = 1182.0
    assert decide(step, GLUCOSE, coarse, 2000.0) == Give(1000.0)
    scattered = Trust(1.0, 0.0, 8.0, "24 µL")
    assert decide(given((1000.0, 24.0, "stopped")), GLUCOSE, scattered, 2000.0) == Give(976.0), "just within"


def test_A10_a_remainder_below_the_minimum_of_a_pump_that_gives_too_much_is_rounded_up() -> None:
    generous = replace(USUAL, gain=1.1)
    assert decide(given((1400.0, 0.0, "stopped")), GLUCOSE, generous, 2000.0) == Give(600.0)
    rounded = decide(given((1480.0, 0.0, "stopped")), GLUCOSE, generous, 2000.0)
    assert isinstance(rounded, Give)
    assert rounded.volume_ul == pytest.approx(550.0)


def test_A10_a_remainder_below_a_hundredth_is_left_out_where_the_transfer_is_complete_without_it() -> None:
    fine = replace(GLUCOSE, flow_ul_min=100_000.0)
    assert decide(given((59_400.0, 0.0, "stopped")), fine, USUAL, 60_000.0) == Give(600.0)
    assert decide(given((59_450.0, 0.0, "stopped")), fine, USUAL, 60_000.0) == Complete(), "known to 3600 µL"
    assert decide(given((59_450.0, 0.0, "stopped")), fine, EXACT, 60_000.0) == Give(550.0), "known exactly"


def test_A10_without_any_uncertainty_equal_is_complete_and_half_a_microlitre_is_not() -> None:
    assert decide(given((1000.0, 0.0, "done")), UNWEIGHED, EXACT, 1000.0) == Complete()
    assert decide(given((999.5, 0.0, "done")), UNWEIGHED, EXACT, 1000.0) == Short()
    assert decide(given((1000.5, 0.0, "done")), UNWEIGHED, EXACT, 1000.0) == Excess()


def test_A10_what_a_person_has_accepted_is_not_questioned_again() -> None:
    small = given((1700.0, 300.0, "stopped"))
    assert decide(small, GLUCOSE, USUAL, 2000.0) == Doubt()
    small.accept()
    assert decide(small, GLUCOSE, USUAL, 2000.0) == Complete()
    large = given((1000.0, 300.0, "stopped"))
    large.accept()
    assert decide(large, GLUCOSE, USUAL, 2000.0) == Give(700.0)
    ended = given((1000.0, 300.0, "done"))
    ended.accept()
    assert decide(ended, GLUCOSE, USUAL, 2000.0) == Complete()


def test_A10_a_dose_in_doubt_is_decided_by_a_person_first() -> None:
    step = given((1000.0, 0.0, "stopped"))
    step.doubt = ("its counter was zeroed",)
    assert decide(step, GLUCOSE, USUAL, 2000.0) == Doubt()


def test_A10_the_stated_uncertainty_of_a_transfer_in_portions() -> None:
    """Each portion scatters by itself, and each is weighed; the error of the calibration is the same in all."""
    requested_ul = 4.0 * 0.9 * GLUCOSE.flow_ul_min * 15.0
    portions = GLUCOSE.portions(requested_ul)
    assert portions > 1
    scattered = tolerance(GLUCOSE, Trust(1.0, 0.0, 5.0, "c"), requested_ul)
    assert scattered.pump_ul == pytest.approx(15.0 * portions**0.5)
    assert scattered.max_error_ul == pytest.approx(2.0 * scattered.weighing_ul * portions**0.5)
    calibrated = tolerance(GLUCOSE, Trust(1.0, 0.02, 0.0, "c"), requested_ul)
    assert calibrated.pump_ul == pytest.approx(0.06 * requested_ul)
    unweighed = tolerance(UNWEIGHED, Trust(1.0, 0.02, 0.0, "c"), requested_ul)
    assert (unweighed.weighing_ul, unweighed.max_error_ul) == pytest.approx((0.0, 0.06 * requested_ul))


@pytest.mark.parametrize(
    ("decision", "trouble"), [(Short(), Trouble.SHORTFALL), (Excess(), Trouble.EXCESS), (Doubt(), Trouble.UNKNOWN)]
)
def test_A10_the_problem_names_the_pump_and_the_volumes_that_a_person_decides_on(
    decision: Decision, trouble: Trouble
) -> None:
    step = given((1000.0, 250.0, "stopped"), (200.0, 50.0, "stopped"))
    step.doubt = ("its counter was zeroed",)
    problem = problem_of(decision, step, GLUCOSE, 2000.0)
    assert (problem.trouble, problem.where) == (trouble, GLUCOSE.pump)
    volumes, reason = problem.reasons
    for fact in ("step 7", "dose 2", "2.000 mL requested", "0.900 to 1.500 mL delivered"):
        assert fact in volumes
    assert "zeroed" in reason if trouble is Trouble.UNKNOWN else "0.5 mL" in reason


UNCALIBRATED = Trust(1.0, 0.1, 0.0, "factory")
"""k = 3: any volume is known to 30 %."""


def counted(*doses: tuple[float, str], step_ul: float = 0.0) -> StepRecord:
    """A step with doses of (count, end) that only the counter of an uncalibrated pump has measured."""
    step = StepRecord(7, "liver.add_glucose", {}, "1")
    for ul, end in doses:
        step.acts += 1
        moved = by_pump(4000.0, 4000.0 + ul, step_ul=step_ul, rel_sd=UNCALIBRATED.rel_sd, max_ul=1e6)
        assert moved is not None
        step.booked(replace(moved, counted=ul, counter_step=step_ul), end)
    return step


@pytest.mark.parametrize(
    ("doses", "step_ul", "expected"),
    [
        ([(7600.0, "short")], 0.0, Give(2400.0)),  # once complete: 30 % more counted as given
        ([(7600.0, "short")], 100.0, Give(2300.0)),  # what the counter may have missed counts as given
        ([(4000.0, "short"), (3000.0, "stopped")], 100.0, Give(2800.0)),
        ([(9800.0, "short")], 0.0, Short()),  # a remainder of 0.2 mL cannot be given, and 0.5 mL are 3 % too much
        ([(9910.0, "short")], 0.0, Complete()),  # less than a hundredth is missing
        ([(9880.0, "short")], 25.0, Complete()),  # by what the counter may have missed
        ([(8500.0, "done")], 0.0, Short()),  # its counter contradicts a pump that reports the end of its dose
    ],
)
def test_A10_the_remainder_follows_the_count_of_an_uncalibrated_pump(
    doses: list[tuple[float, str]], step_ul: float, expected: Decision
) -> None:
    """The error of the calibration is the same in both parts: their sum is off as an uninterrupted dose is."""
    assert decide(counted(*doses, step_ul=step_ul), UNWEIGHED, UNCALIBRATED, 10_000.0) == expected


@pytest.mark.parametrize("scale", [0.7, 0.85, 1.0, 1.3])
@pytest.mark.parametrize("cut", [0.05, 0.4, 0.76, 0.9])
@pytest.mark.parametrize("step_ul", [0.0, 50.0])
def test_A10_an_interrupted_dose_is_off_as_much_as_an_uninterrupted_one(
    scale: float, cut: float, step_ul: float
) -> None:
    step = counted((cut * 10_000.0, "short"), step_ul=step_ul)
    rest = decide(step, UNWEIGHED, UNCALIBRATED, 10_000.0)
    assert isinstance(rest, Give)
    total_ul = scale * (cut * 10_000.0 + rest.volume_ul)
    assert scale * (10_000.0 - step_ul) - 1e-6 <= total_ul <= scale * 10_000.0 + 1e-6
    step.booked(by_command(rest.volume_ul, rel_sd=UNCALIBRATED.rel_sd), "done")
    assert decide(step, UNWEIGHED, UNCALIBRATED, 10_000.0) == Complete()


def test_A10_a_remainder_that_follows_the_count_is_rounded_up_by_the_scatter_of_the_doses_alone() -> None:
    scattered = replace(UNCALIBRATED, dose_sd_ul=20.0)  # 60 µL
    step = counted((9550.0, "short"))
    assert decide(step, UNWEIGHED, scattered, 10_000.0) == Give(500.0), "50 µL too much"
    assert decide(step, UNWEIGHED, UNCALIBRATED, 10_000.0) == Short(), (
        "it would be more than an uninterrupted dose gives"
    )


def test_A10_a_counted_dose_in_doubt_counts_with_all_that_it_may_have_moved() -> None:
    """A person who resumes accepts that; the count itself is what is in doubt."""
    step = StepRecord(7, "liver.add_glucose", {}, "1")
    step.booked(Moved(5000.0, 3500.0, 6500.0, "pump", counted=5000.0), "unknown", ("its row was lost",))
    assert decide(step, UNWEIGHED, UNCALIBRATED, 10_000.0) == Doubt()
    step.accept()
    assert decide(step, UNWEIGHED, UNCALIBRATED, 10_000.0) == Give(3500.0)


def test_A10_a_balance_counts_with_its_upper_bound_also_for_an_uncalibrated_pump() -> None:
    step = given((7600.0, 100.0, "short"))
    assert decide(step, GLUCOSE, UNCALIBRATED, 10_000.0) == Give(2300.0)
    step.booked(by_command(2300.0, rel_sd=UNCALIBRATED.rel_sd), "done")
    assert decide(step, GLUCOSE, UNCALIBRATED, 10_000.0) == Complete()
    assert decide(given((8500.0, 0.0, "done")), GLUCOSE, UNCALIBRATED, 10_000.0) == Complete(), "within its 30 %"
