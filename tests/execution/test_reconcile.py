"""The recursive solution is that of ordinary weighted least squares, and a shared error does not average away (F1, F4)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.ledger.reconcile import Residual, Unknowns

DOSES = st.lists(st.tuples(st.floats(100.0, 20_000.0), st.floats(-50.0, 50.0)), min_size=1, max_size=12)


def bench(gain_sd: float = 0.08) -> Unknowns:
    unknowns = Unknowns()
    unknowns.add("loop", 40_000.0, 200.0**2)
    unknowns.add("spent", 3_000.0, 30.0**2)
    unknowns.add("gain", 0.0, gain_sd**2)
    return unknowns


def dose(unknowns: Unknowns, ul: float, variance: float = 0.0) -> None:
    moved = ul * (1.0 + unknowns.mean("gain"))
    unknowns.add_to("loop", {"gain": -ul}, -moved)
    unknowns.add_to("spent", {"gain": ul}, moved)
    unknowns.exchanged({"loop": -1.0, "spent": 1.0}, variance)


@settings(max_examples=100, deadline=None)
@given(DOSES)
def test_F1_step_by_step_it_is_the_batch_solution(doses: list[tuple[float, float]]) -> None:
    """Against numpy: unknowns loop₀, spent₀, gain; one equation a weighing, the prior as three more."""
    unknowns = bench()
    rows, values, sds = [[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]], [40_000.0, 3_000.0, 0.0], [200.0, 30.0, 0.08]
    moved = 0.0
    for ul, error in doses:
        dose(unknowns, ul)
        moved += ul
        weighed = 3_000.0 + 0.97 * moved + error
        unknowns.measured({"spent": 1.0}, weighed, 15.0**2)
        rows.append([0.0, 1.0, moved])
        values.append(weighed - moved)
        sds.append(15.0)
    weights = 1.0 / np.array(sds)
    matrix = np.array(rows) * weights[:, None]
    solution, *_ = np.linalg.lstsq(matrix, np.array(values) * weights, rcond=None)
    covariance = np.linalg.inv(matrix.T @ matrix)
    assert unknowns.mean("gain") == pytest.approx(solution[2], abs=1e-6)
    assert unknowns.mean("loop") == pytest.approx(solution[0] - moved * (1 + solution[2]), abs=1e-2)
    assert unknowns.variance("gain") == pytest.approx(covariance[2, 2], rel=1e-4)
    total = covariance[0, 0] + covariance[2, 2] * moved**2 - 2 * moved * covariance[0, 2]
    assert unknowns.variance("loop") == pytest.approx(total, rel=1e-4)


def test_F1_what_doses_of_one_pump_have_in_common_adds_up_and_their_scatter_does_not() -> None:
    together, apart = bench(0.05), bench(0.0)
    for _ in range(100):
        dose(together, 1_000.0)
        dose(apart, 1_000.0, variance=50.0**2)
    loop_sd = math.sqrt(together.variance("loop") - 200.0**2)
    assert loop_sd == pytest.approx(0.05 * 100_000.0), "a hundred doses, a hundred times the doubt"
    assert math.sqrt(apart.variance("loop") - 200.0**2) == pytest.approx(10 * 50.0), "as the root of their number"


def test_F1_what_is_sure_is_what_two_vessels_hold_together() -> None:
    unknowns = bench()
    before = unknowns.mean("loop") + unknowns.mean("spent")
    for ul in (5_000.0, 18_000.0):
        dose(unknowns, ul, variance=20.0**2)
    both = unknowns.residual({"loop": 1.0, "spent": 1.0}, before, 0.0)
    assert both.value == pytest.approx(0.0, abs=1e-6)
    assert both.sd == pytest.approx(math.hypot(200.0, 30.0))


def test_F1_one_weighing_corrects_both_ends_of_the_line_and_the_pump() -> None:
    unknowns = bench()
    dose(unknowns, 10_000.0)
    unknowns.measured({"spent": 1.0}, 12_500.0, 20.0**2)
    assert unknowns.mean("spent") == pytest.approx(12_500.0, abs=2.0)
    assert unknowns.mean("loop") == pytest.approx(30_500.0, abs=2.0)
    assert unknowns.mean("gain") == pytest.approx(-0.05, abs=2e-4)


def test_F4_a_residual_is_gross_beyond_three_of_its_own_deviations() -> None:
    unknowns = bench()
    dose(unknowns, 10_000.0)
    sd = math.sqrt(800.0**2 + 30.0**2 + 20.0**2)
    assert not unknowns.residual({"spent": 1.0}, 13_000.0 + 2.9 * sd, 400.0).gross
    assert unknowns.residual({"spent": 1.0}, 13_000.0 + 3.1 * sd, 400.0).gross
    assert Residual(1.0, 0.0).gross
    assert not Residual(0.0, 0.0).gross


def test_what_is_taken_over_forgets_what_it_had_in_common() -> None:
    unknowns = bench()
    dose(unknowns, 10_000.0)
    unknowns.known("spent", 12_000.0, 15.0**2)
    assert unknowns.covariance("spent", "gain") == 0.0
    unknowns.known("spent", 12_000.0, 15.0**2, by={"gain": 100.0})
    assert unknowns.variance("spent") == pytest.approx(15.0**2 + 8.0**2)
    assert unknowns.covariance("spent", "gain") == pytest.approx(100.0 * 0.08**2)
    unknowns.wander("gain", 0.06**2, by=-0.02)
    assert unknowns.mean("gain") == pytest.approx(-0.02)
    assert math.sqrt(unknowns.variance("gain")) == pytest.approx(0.1)
