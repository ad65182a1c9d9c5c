"""Nothing is made or lost but what the books say, for every species and under every fault."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from controller.rig.loading import load_rig
from sim.plant.columns import COLUMNS, SPECIES
from sim.plant.plant import Plant

BENCH = load_rig(Path(__file__).resolve().parents[3] / "examples" / "rigs" / "bench.yaml")
PUMPS = {line.pump: name for name, line in BENCH.lines.items() if line.pump}
FAULTS = ("none", "leak", "bubble", "occlusion", "reversed", "torn", "clog", "contaminated", "wrong medium", "worn")

Act = tuple[str, float, float, str, float]


def act(plant: Plant, pump: str, flow: float, fault: str, size: float) -> None:
    line, faults = PUMPS[pump], plant.faults
    plant.advance()
    if fault == "leak":
        faults.leak_ul_min[line] = 5000 * size
    elif fault == "bubble":
        faults.bubble_ul[line] = 500 * size
    elif fault == "occlusion":
        faults.flow_scale[line] = 1 - size
    elif fault == "reversed":
        faults.flow_scale[line] = -1.0
    elif fault == "torn":
        faults.filter_torn = size > 0.5
    elif fault == "clog":
        faults.clog = 1 + 100 * size
    elif fault == "contaminated":
        faults.contamination["loop"] = faults.contamination.get("loop", 0.0) + 1e5 * size
    elif fault == "wrong medium":
        faults.wrong_medium["reservoir"] = "base_stock" if size > 0.5 else "fresh"
    elif fault == "worn":
        faults.wear[line] = size
    plant.set_pump(pump, flow)


@settings(max_examples=60, deadline=None)
@example([("reglo.heart", 10501.0, 0.0, "none", 0.0), ("reglo.return", -19911.0, 866.0, "none", 0.0)])
@example([("dose_base.pump", -18183.0, 21.0, "none", 0.0), ("dose_base.pump", 2.0, 1289.0, "none", 0.0)])
@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(PUMPS)),
            st.floats(-20_000, 20_000),
            st.floats(0, 1800),
            st.sampled_from(FAULTS),
            st.floats(0, 1),
        ),
        max_size=8,
    )
)
def test_I7_every_species_closes_to_a_billionth(acts: list[Act]) -> None:
    now = 0.0
    plant = Plant(BENCH, seed=1, now=lambda: now)
    plant.set_switch("relay.return_valve", True)
    plant.set_switch("relay.heater", True)
    plant.set_gas("gas_air.flow", 46.5)
    before = plant.fleet.contents()[0].copy()
    turned_over = before.copy()
    for pump, flow, seconds, fault, size in acts:
        act(plant, pump, flow, fault, size)
        now += seconds
        plant.advance()
        turned_over = np.maximum(turned_over, plant.fleet.contents()[0])
    tally = plant.fleet.tally[0]
    after = plant.fleet.contents()[0]
    turned_over = turned_over + np.abs(tally).sum(axis=0)
    off = np.abs(after - before - tally.sum(axis=0)) / np.maximum(turned_over, 1e-12)
    assert off.shape == (COLUMNS,)
    for column, name in enumerate((*SPECIES, "liquid")):
        assert off[column] < 1e-9, name
    assert np.isfinite(plant.fleet.state).all()
    assert (plant.fleet.held[0, :, :, -1] >= 0).all()


def test_each_cause_says_what_it_is() -> None:
    now = 0.0
    plant = Plant(BENCH, seed=1, now=lambda: now)
    plant.set_switch("relay.return_valve", True)
    plant.faults.leak_ul_min["draw"] = 500.0
    plant.faults.contamination["loop"] = 100.0
    for pump in ("reglo.heart", "reglo.draw", "reglo.return"):
        plant.set_pump(pump, 2000.0)
    now = 600.0
    tally = plant.truth().tally
    assert tally["leak"]["liquid"] == pytest.approx(-5000.0, rel=1e-6)
    assert tally["evaporation"]["liquid"] < 0
    assert tally["evaporation"]["osmoles"] == 0.0
    assert tally["metabolism"]["lactate"] > 0 > tally["metabolism"]["glucose"]
    assert tally["filter"]["microbes"] < 0
    assert tally["return"]["reuse"] == pytest.approx(plant.truth().moved_ul["return"], abs=330.0), "but for the line"
    assert tally["fault"]["microbes"] == pytest.approx(100.0 * 40_000)
    assert tally["pump"]["insulin"] == pytest.approx(-tally["pump"]["particles"])
    assert tally["turnover"]["glutamine"] == pytest.approx(-tally["turnover"]["ammonia"])
