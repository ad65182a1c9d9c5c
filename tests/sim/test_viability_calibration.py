"""A sample of `choroid bench viability`, and of its judge: the whole runs on demand."""

from __future__ import annotations

import numpy as np
import pytest

from choroid.bench.viability import EQUIPMENTS, calibration, summary


def test_the_estimate_is_calibrated_on_a_sample_of_cultures() -> None:
    found = calibration(seeds=(31,), models=("reference",), equipments=EQUIPMENTS[:1])
    figures = found["equipment"]["ordinary"]
    assert figures["looks"] == 8 * 44
    assert figures["covered"] >= 0.8
    assert figures["median_width"] <= 0.28
    assert figures["rank_correlation"] >= 0.75
    assert figures["false_reports"] == 0
    for name in ("heat", "hypoxia", "acid", "starvation"):
        assert figures["harms"][name]["reported_in_time"] == 1, name


def row(**changes: object) -> dict[str, object]:
    truth = np.linspace(1.0, 0.5, 20)
    looks = [(true, true, true - 0.1, true + 0.1) for true in truth]
    return {"harm": "heat", "model": "reference", "looks": looks, "lost_h": 10, "reported_h": 20, "lost": 0.5} | changes


@pytest.mark.parametrize(
    ("changes", "figure", "value"),
    [
        ({}, "covered", 1.0),
        ({"looks": [(t, t + 0.3, t + 0.2, t + 0.4) for t in np.linspace(1.0, 0.5, 20)]}, "covered", 0.0),
        ({"looks": [(t, 1 - t, t - 0.1, t + 0.1) for t in np.linspace(1.0, 0.5, 20)]}, "rank_correlation", -1.0),
        ({"reported_h": None}, "reported_in_time", 0),
        ({"reported_h": 35}, "reported_in_time", 0),
        ({"lost": 0.0, "lost_h": None}, "false_reports", 1),
    ],
)
def test_the_judge_notices_a_spoilt_estimate(changes: dict[str, object], figure: str, value: float) -> None:
    assert summary([row(**changes)])[figure] == value
