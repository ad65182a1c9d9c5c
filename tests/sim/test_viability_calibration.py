"""A sample of `choroid verify bench viability`, and of its judge: the whole runs on demand."""

from __future__ import annotations

import numpy as np
import pytest

from choroid.common.examples import bench_rig
from controller.rig.loading import load_rig
from sim.plant.tissue_models import MODELS
from verification.bench.cultures import HARMS, SHIFTED, CultureFleet
from verification.bench.viability import EQUIPMENTS, calibration, summary


@pytest.mark.long
def test_the_estimate_is_calibrated_on_a_sample_of_cultures() -> None:
    seeds = (31, 34)  # the rank correlation of the eight cultures of one seed varies by 0.1
    found = calibration(seeds=seeds, models=("reference",), equipments=EQUIPMENTS[:1])
    figures = found["equipment"]["ordinary"]
    assert figures["looks"] == len(HARMS) * 44 * len(seeds)
    assert figures["covered"] >= 0.8
    assert figures["median_width"] <= 0.25
    assert figures["rank_correlation"] >= 0.8
    assert figures["false_reports"] == 0
    for name in ("heat", "hypoxia", "acid", "starvation"):
        assert figures["harms"][name]["reported_in_time"] == len(seeds), name


def test_shifted_plants_differ_from_the_one_that_shaped_the_priors() -> None:
    rig = load_rig(bench_rig())
    usual = CultureFleet(rig, MODELS["reference"], HARMS[:2], (1, 2, 3)).fleet.tissues[:, 0]
    shifted = CultureFleet(rig, MODELS["reference"], HARMS[:2], (1, 2, 3), shift=0.3).fleet.tissues[:, 0]
    for name in SHIFTED:
        assert set((shifted[name] / usual[name]).round(9)) <= {0.7, 1.3}
        assert (shifted[name][:3] == shifted[name][3:]).all(), "the same plant under each harm"
    assert len({tuple(float(row[name]) for name in SHIFTED) for row in shifted}) > 1


def row(**changes: object) -> dict[str, object]:
    truth = np.linspace(1.0, 0.5, 20)
    looks = [(true, true, true - 0.1, true + 0.1) for true in truth]
    return {"harm": "heat", "model": "reference", "looks": looks, "lost_h": 10, "reported_h": 20, "lost": 0.5,
            "suspected_h": 8, "calm_h": 5, "silent_h": 0, "understated_h": 0} | changes  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "figure", "value"),
    [
        ({}, "covered", 1.0),
        ({"looks": [(t, t + 0.3, t + 0.2, t + 0.4) for t in np.linspace(1.0, 0.5, 20)]}, "covered", 0.0),
        ({"looks": [(t, 1 - t, t - 0.1, t + 0.1) for t in np.linspace(1.0, 0.5, 20)]}, "rank_correlation", -1.0),
        ({"reported_h": None}, "reported_in_time", 0),
        ({"reported_h": 35}, "reported_in_time", 0),
        ({"lost": 0.0, "lost_h": None}, "false_reports", 1),
        ({}, "suspected_in_time", 1),
        ({"suspected_h": 3}, "suspected_while_calm", 1),
        ({"reported_h": None}, "reported_while_calm", 0),
        ({"silent_h": 3}, "silent_h", 3),
        ({"silent_h": 3}, "silent_cultures", 1),
        ({"understated_h": 2}, "understated_h", 2),
    ],
)
def test_the_judge_notices_a_spoilt_estimate(changes: dict[str, object], figure: str, value: float) -> None:
    assert summary([row(**changes)])[figure] == value
