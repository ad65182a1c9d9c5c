"""The plant's dialyser: closes, follows its formula, keeps proteins and lets insulin leak."""

from __future__ import annotations

from math import exp
from pathlib import Path

import numpy as np
import pytest

from controller.rig.loading import load_rig
from protocols.dialysis import koa_at
from sim.plant.columns import COLUMNS, Content
from sim.plant.dialysis import INSULIN_KOA, SMALL, clearance, exchange_share, risen
from sim.plant.fleet import Fleet

RIG = load_rig(Path(__file__).parents[2] / "examples" / "rigs" / "bench_dialysis.yaml")
KOA, FLOW, MINUTES = 600.0, 500.0, 30


def dialysed(flow_ul_min: float, measured_at_ul_min: float = FLOW) -> tuple[Fleet, np.ndarray, np.ndarray]:
    fleet = Fleet(RIG, [1])
    spent = fleet.vessels[0, fleet.vessel_names.index("spent")]
    spent *= 5.0
    for column, value in ((Content.LACTATE, 10.0), (Content.AMMONIA, 0.8), (Content.TROPHIC, 1.5)):
        spent[column] = value * spent[Content.LIQUID]
    before = spent / spent[Content.LIQUID]
    line = fleet.lines[0, fleet.pumps["reglo2.dialysate"][0]]
    line["gain"], line["command_ul_min"], line["koa_at_ul_s"] = 1.0, flow_ul_min, measured_at_ul_min / 60.0
    fleet.advance(2.0, MINUTES * 30)
    return fleet, before, spent / spent[Content.LIQUID]


def test_small_solutes_follow_the_formula_and_large_ones_stay() -> None:
    _, before, after = dialysed(FLOW)
    left = exp(-(1.0 - exp(-KOA / FLOW)) * FLOW * MINUTES / 15_000.0)
    for column in (Content.LACTATE, Content.AMMONIA):
        assert after[column] / before[column] == pytest.approx(left, rel=5e-3)
    for column in (Content.ALBUMIN, Content.TROPHIC):
        assert after[column] == pytest.approx(before[column], rel=0.02)  # they age, but do not pass
    leak = exp(-(1.0 - exp(-INSULIN_KOA * KOA / FLOW)) * FLOW * MINUTES / 15_000.0)
    assert after[Content.INSULIN] / before[Content.INSULIN] == pytest.approx(leak, rel=5e-3)


def test_what_leaves_the_batch_is_in_the_dialysate() -> None:
    plain, _, _ = dialysed(0.0)
    moved, _, _ = dialysed(FLOW)
    gone = plain.contents()[0] - moved.contents()[0]
    for column in range(COLUMNS):
        booked = plain.tally[0, :, column].sum() - moved.tally[0, :, column].sum()
        assert gone[column] == pytest.approx(booked, abs=1e-6 * (1.0 + abs(plain.contents()[0, column])))
    waste = moved.vessels[0, moved.vessel_names.index("waste")]
    assert waste[Content.LIQUID] == pytest.approx(FLOW * MINUTES, rel=2e-3)  # tubing wears
    assert waste[Content.LACTATE] > 0.0
    assert waste[Content.ALBUMIN] == 0.0


def test_it_is_the_counter_current_formula_for_a_fast_batch_side() -> None:
    fast = clearance(KOA, 1e9, FLOW)
    share = exchange_share(KOA, FLOW, FLOW * 1e-3, 15_000.0)
    assert share * 15_000.0 / 1e-3 == pytest.approx(fast, rel=1e-3)
    assert exchange_share(KOA, FLOW, 1e9, 15_000.0) == pytest.approx(1.0)
    assert exchange_share(KOA, FLOW, 100.0, 0.0) == 0.0
    assert Content.LIQUID not in SMALL


def test_the_plant_and_the_protocols_compute_the_same_rise_of_koa_with_the_flow() -> None:
    assert risen(800.0, 500.0, 800.0) == pytest.approx(912.0)
    assert risen(800.0, 0.0, 800.0) == risen(800.0, 500.0, 500.0) == 800.0, "unknown where measured; and there itself"
    for flow in (100.0, 500.0, 2_000.0):
        assert koa_at(flow, KOA, 500.0) == pytest.approx(risen(KOA, 500.0, flow), rel=1e-2)
    assert koa_at(100.0, KOA, None) == KOA
    _, before, slow = dialysed(FLOW, measured_at_ul_min=2_000.0)
    share = 1.0 - exp(-risen(KOA, 2_000.0, FLOW) / FLOW)
    assert slow[Content.LACTATE] / before[Content.LACTATE] == pytest.approx(
        exp(-share * FLOW * MINUTES / 15_000.0), rel=5e-3
    )
