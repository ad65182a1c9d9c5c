"""`choroid verify bench medium`: protocols on the plant without wires, with the real estimators."""

from __future__ import annotations

from typing import Any

import pytest

from choroid.common.failure import UserError
from verification.bench.medium import BLIND, bench_medium, one_run, summary

SEED = 301


@pytest.mark.long
def test_chronic_tissue_makes_the_light_run_retreat_and_blind_it_goes_on_to_die() -> None:
    seeing, blind = (one_run(arm, "chronic", SEED, 9.0) for arm in ("requests", f"requests{BLIND}"))
    (retreated_d,) = seeing["retreats_d"]
    assert 2.0 < seeing["suspected_d"] <= retreated_d < 8.0
    assert (blind["suspected_d"], blind["retreats_d"]) == (seeing["suspected_d"], [])
    assert seeing["viability_end"] > seeing["viability_min"] + 0.02, "fresh medium lets it recover"
    assert blind["viability_end"] < 0.7
    assert blind["viability_end"] == blind["viability_min"]
    assert blind["fresh_ml"] < 10.0
    assert seeing["fresh_ml"] == pytest.approx(20.0 * (2 + int(9.0 - retreated_d)), rel=0.05)
    assert blind["ammonia_mm"] > seeing["ammonia_mm"]


def test_exchange_uses_what_it_is_told_and_keeps_the_loop() -> None:
    run = one_run("exchange", "reference", SEED, 3.0)
    assert run["fresh_ml"] == pytest.approx(60.0, rel=0.05)
    assert run["lactate_mm"] < 4.0
    assert run["actions"] == {}
    again = one_run("exchange", "reference", SEED, 3.0)
    assert again == run, "the same seed gives the same run"


def run(seed: int, fresh_ml: float, **more: Any) -> dict[str, Any]:
    return {
        "arm": "requests", "tissue": "reference", "seed": seed, "fresh_ml": fresh_ml, "bound_ml": 100.0, "dialysate_ml": 0.0,
        "viability_mean": 0.9, "viability_min": 0.8, "viability_end": 0.9, "lactate_mm": 9.0, "ammonia_mm": 0.5, "assays": 2,
        "suspected_d": None, "retreats_d": [], "actions": {},
    } | more  # fmt: skip


def test_ratios_are_paired_by_seed() -> None:
    found = summary([run(1, 120.0), run(2, 130.0, viability_min=0.7, lactate_mm=9.5)], [run(1, 240.0), run(2, 650.0)])
    assert found["by_seed_of_exchange"] == [0.5, 0.2]
    assert (found["of_exchange"], found["of_bound"], found["fresh_ml"]) == (0.35, 1.25, 125.0)
    assert (found["viability_min"], found["max_lactate_mm"]) == (0.7, 9.5)
    assert summary([run(1, 20.0, bound_ml=0.0)], [run(1, 60.0)])["of_bound"] is None


@pytest.mark.parametrize(
    ("options", "says"),
    [({"arms": ["sensors"]}, "sensors"), ({"tissues": ["liver"]}, "liver"), ({"seeds": 0}, "such numbers")],
)
def test_an_unknown_choice_is_named(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        bench_medium(**options)


@pytest.mark.long
def test_with_a_dialyser_and_the_sensitive_rules_chronic_tissue_is_spared() -> None:
    run = one_run("dialyser-sensitive", "chronic", SEED, 9.0)
    assert (run["suspected_d"], run["retreats_d"]) == (None, [])
    assert run["viability_end"] > 0.98
    assert run["ammonia_mm"] < 0.3
    assert run["lactate_mm"] < 5.0
    assert run["dialysate_ml"] > 0.0
