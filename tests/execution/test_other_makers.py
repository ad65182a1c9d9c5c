"""The same controller and protocol on a rig with other makers' probes and balance: nothing but the rig file differs."""

from __future__ import annotations

from pathlib import Path

import pytest

from choroid.simulation.simulate import simulate

RIG = Path(__file__).parents[2] / "examples" / "rigs" / "other_makers.yaml"


@pytest.mark.long
def test_a_rig_of_other_makers_recycles_without_a_word_of_complaint(tmp_path: Path) -> None:
    params = {"every": "3 h", "min_batch": "18 mL"}
    found = simulate(RIG, protocol="recycle", params=params, days=0.2, seed=2, data=tmp_path, progress=False)
    assert found["violations"] == []
    assert found["alarms"] == 0
    assert sum(found["grade_counts"].values()) >= 1
    assert abs(found["mass_balance_error_ml"]) <= found["mass_balance_uncertainty_ml"]
