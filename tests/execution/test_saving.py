"""Fresh medium saved: against the exchange that the rig's own loop would be scheduled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.ledger.bound import LactateMade, bound_of_period
from controller.ledger.saving import DAY_S, SCHEDULED_UL_D, saved_fraction, scheduled_ul
from controller.rig.loading import load_rig

BENCH = load_rig(Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml")


def test_the_schedule_follows_the_volume_of_the_loop() -> None:
    small = BENCH.vessels["loop"].model_copy(update={"volume_ul": 10_000.0})
    rig = BENCH.model_copy(update={"vessels": {**BENCH.vessels, "loop": small}})
    assert scheduled_ul(BENCH, 3.0) == pytest.approx(3.0 * SCHEDULED_UL_D)
    assert scheduled_ul(rig, 3.0) == pytest.approx(3.0 * SCHEDULED_UL_D / 4.0)
    assert saved_fraction(rig, 5_000.0, 2.0) == pytest.approx(0.5)
    assert saved_fraction(rig, 5_000.0, 0.5) is None


def estimate(rate_umol_d: float, lactate_mm: float, circulating_ul: float = 40_000.0) -> dict[str, Any]:
    medium = {"lactate_umol_d": {"value": rate_umol_d}, "loop": {"lactate_mm": {"value": lactate_mm}}}
    return {"estimate": medium, "inputs": {"loop_ul": circulating_ul}}


def test_the_bound_counts_what_was_made_and_what_the_loop_held() -> None:
    """100 µmol/d rising to 140 over ten days, of which the loop of 40 mL holds 400 at 10 mM."""
    rows = [(0.0, estimate(100.0, 0.0)), (10.0 * DAY_S, estimate(140.0, 9.0))]
    assert bound_of_period(BENCH, rows, 0.0, 10.0 * DAY_S) == pytest.approx(120_000.0 - 40_000.0)
    held = [(0.0, estimate(100.0, 5.0)), *rows[1:]]
    assert bound_of_period(BENCH, held, 0.0, 10.0 * DAY_S) == pytest.approx(140_000.0 - 40_000.0), (
        "200 µmol at the start"
    )
    assert bound_of_period(BENCH, rows, 0.0, 0.5 * DAY_S) is None, "a day at least"
    assert bound_of_period(BENCH, [], 0.0, 10.0 * DAY_S) is None


def test_what_was_made_before_the_first_estimate_is_not_counted_twice() -> None:
    made = LactateMade(0.0)
    made.add(1.0 * DAY_S, estimate(100.0, 2.5))
    assert made.bound_ul(10.0 * DAY_S, 10.0) == pytest.approx(60_000.0), (
        "the 100 µmol in the loop are those of the first day"
    )
