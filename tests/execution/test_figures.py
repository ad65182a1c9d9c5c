"""The figures of a simulation that ends while liquid is under way."""

from __future__ import annotations

from typing import Any

import pytest

from choroid.simulation.simulate import simulate
from tests.execution.world import BENCH


def ended_after(days: float) -> dict[str, Any]:
    return simulate(BENCH, protocol="recycle", params={"min_batch": "18 mL"}, days=days, seed=1, progress=False)


@pytest.mark.parametrize("days", [0.004, 0.008], ids=["draw", "give back"])
def test_what_is_under_way_is_doubt_and_no_violation(days: float) -> None:
    found = ended_after(days)
    off = {name: vessel for name, vessel in found["vessels"].items() if abs(vessel["error_ml"]) > 5.0}
    assert set(off) == {"loop", "spent"}, "the ledger books a dose at its end"
    assert all(abs(vessel["error_ml"]) < vessel["uncertainty_ml"] < 20.0 for vessel in off.values())
    assert found["violations"] == []


def test_with_nothing_under_way_the_bound_is_the_ledger_s_own() -> None:
    found = ended_after(0.0125)
    assert found["drawn_ml"] > 15.0
    assert found["violations"] == []
    assert all(vessel["uncertainty_ml"] < 1.0 for name, vessel in found["vessels"].items() if name in ("loop", "spent"))
