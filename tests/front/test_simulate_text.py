"""`choroid simulate` in the first hours: no score stands without its range and its coverage."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from choroid.simulation.figures import rated, violations
from choroid.simulation.simulate import as_text, simulate
from controller.process.controller import Controller
from sim.lab import SimulatedLab

BENCH = Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml"
SCORES = {"care_rating": "care", "welfare": "welfare", "happiness": "“happiness”"}


@pytest.fixture(scope="module")
def half_an_hour() -> dict[str, Any]:
    return simulate(BENCH, protocol="recycle", params={}, days=0.02, seed=3, progress=False)


def test_a_rig_that_is_well_and_hardly_measured_is_not_told_to_be_unwell(half_an_hour: dict[str, Any]) -> None:
    lines = {
        line.split()[0]: line for line in as_text(half_an_hour).splitlines()[1:] if line.split()[0] in SCORES.values()
    }
    assert half_an_hour["viability_true"] > 0.9
    for name, label in SCORES.items():
        score, low, high, coverage = (half_an_hour[f"{name}{end}"] for end in ("", "_low", "_high", "_confidence"))
        assert score < 0.5, "what is missing counts as failed"
        assert low <= score <= high
        assert high > 0.95
        assert 0.0 < coverage < 0.6
        assert f"{low:.3f} to {high:.3f} possible, score {score:.3f}, coverage {coverage:.2f}" in lines[label]
    assert "not evidence of feeling" in as_text(half_an_hour)


def test_before_the_first_score_everything_is_possible(half_an_hour: dict[str, Any]) -> None:
    none_yet = half_an_hour | {key: value for name in SCORES for key, value in rated(name, None).items()}
    text = as_text(none_yet)
    assert text.count("0.000 to 1.000 possible, score 0.000, coverage 0.00, of what is known nothing") == 3


def test_a_ledger_that_is_off_is_reported_as_a_violation() -> None:
    """And not as a defect of the program."""
    lab = cast(SimulatedLab, SimpleNamespace(plant=SimpleNamespace(events=[])))
    controller = cast(Controller, SimpleNamespace(journal=SimpleNamespace(verify=lambda: 1)))
    vessels = {"loop": {"error_ml": -1.2, "uncertainty_ml": 0.5}, "waste": {"error_ml": 0.1, "uncertainty_ml": 0.5}}
    assert violations(lab, controller, vessels) == ["the ledger of loop is off by -1.2 mL, beyond 0.5 mL"]
