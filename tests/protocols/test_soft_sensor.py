"""The soft sensor against a little chemistry of its own: an independent bath that makes lactic acid."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.soft_sensor import (
    Compartment,
    Composition,
    MediaEstimate,
    SensorState,
    begin,
    bicarbonate_mm,
    elapsed,
    estimate,
    moved,
    pco2_mmhg,
    titrated,
)

FRESH = Composition(21.0, 0.0, 0.02, 27.5, 1.25, 285.0)
STOCK = Composition(60.0, 0.0, 0.0, 27.5, 0.0, 310.0)
BASE = Composition(0.0, 0.0, 0.0, 150.0, 0.0, 290.0)


@dataclass
class Bath:
    """Medium that tissue lives in: amounts in µmol, volume in mL. Buffers, yield and rates are its own."""

    volume_ml: float = 42.0
    lactate: float = 0.0
    glucose: float = 42.0 * 21.0
    alkali: float = 42.0 * 27.5
    ammonia: float = 42.0 * 0.02
    glutamine: float = 42.0 * 1.25
    rate_umol_d: float = 110.0
    yield_: float = 1.4
    buffer: float = 3.0
    ammonia_yield: float = 0.05
    decay_per_d: float = 0.075

    def live(self, days: float) -> None:
        made = self.rate_umol_d * days
        self.lactate += made
        self.alkali -= made
        self.glucose -= made / self.yield_
        lost = self.glutamine * (1 - math.exp(-self.decay_per_d * days))
        self.glutamine -= lost
        self.ammonia += lost + self.ammonia_yield * made

    def ph(self, pco2: float) -> float:
        """Bisection on charge: bicarbonate plus buffer (reference: fresh medium at 5 % CO2) = alkali left."""
        low, high = 5.0, 9.0
        reference = 6.1 + math.log10(27.5 / (0.0307 * 35.65))
        for _ in range(60):
            middle = (low + high) / 2
            charge = 0.0307 * pco2 * 10 ** (middle - 6.1) + self.buffer * (middle - reference)
            low, high = (middle, high) if charge < self.alkali / self.volume_ml else (low, middle)
        return (low + high) / 2

    def renew(self, ml: float) -> None:
        keep = 1 - ml / self.volume_ml
        for name, fresh in (
            ("lactate", 0),
            ("glucose", 21.0),
            ("alkali", 27.5),
            ("ammonia", 0.02),
            ("glutamine", 1.25),
        ):
            setattr(self, name, getattr(self, name) * keep + fresh * ml)


def start(tissue_mm3: float = 131.0) -> SensorState:
    return begin(Compartment(42_000.0, FRESH), Compartment(3_000.0, FRESH), tissue_mm3=tissue_mm3)


@pytest.mark.parametrize(
    ("pco2", "bicarbonate", "ph"), [(48.5, 24.9, 7.323), (41.3, 25.3, 7.400)], ids=["human CSF", "venous blood"]
)
def test_the_equation_gives_measured_fluids(pco2: float, bicarbonate: float, ph: float) -> None:
    assert bicarbonate_mm(ph, pco2) == pytest.approx(bicarbonate, rel=0.01)


def test_five_percent_co2() -> None:
    assert pco2_mmhg(5.0, 100.0) == pytest.approx(35.65, abs=0.05)


def test_the_truth_lies_within_the_bounds_as_often_as_they_promise() -> None:
    """Tissue and probes drawn from the declared spreads, five days of eight-hour cycles with some renewal."""
    rng = np.random.default_rng(7)
    within: dict[str, list[bool]] = {"lactate_mm": [], "ammonia_mm": [], "glucose_mm": []}
    for _ in range(150):
        bath = Bath(
            rate_umol_d=float(np.clip(rng.normal(86.0, 40.0), 20.0, 200.0)),
            yield_=float(rng.normal(1.4, 0.18)),
            buffer=float(rng.uniform(1.5, 4.5)),
            ammonia_yield=float(rng.normal(0.05, 0.015)),
            decay_per_d=float(rng.normal(0.0755, 0.02)),
        )
        offset = float(rng.normal(0.0, 0.015))
        gas_error = float(rng.normal(1.0, 0.025))
        renewed_ml = float(rng.uniform(2.0, 10.0))
        state = start()
        for _ in range(15):
            bath.live(1 / 3)
            state = elapsed(state, 8 * 3600.0)
            pco2 = 713.0 * float(rng.uniform(0.04, 0.08))
            ph = bath.ph(pco2) + offset + float(rng.normal(0.0, 0.005))
            state = titrated(state, ph, pco2 * gas_error)
            media = estimate(state, titrated=True).loop
            for name in within:
                interval, truth = getattr(media, name), getattr(bath, name.removesuffix("_mm")) / bath.volume_ml
                within[name].append(interval.low <= truth <= interval.high)
            bath.renew(renewed_ml)
            state = moved(moved(state, "loop", None, renewed_ml * 1000.0), FRESH, "loop", renewed_ml * 1000.0)
    for name, hits in within.items():
        assert sum(hits) / len(hits) > 0.9, name


def test_the_rate_is_learnt() -> None:
    bath = Bath(rate_umol_d=170.0)
    state = start()
    assert state.rate_umol_d == pytest.approx(86.0, abs=2.0)
    for _ in range(9):
        bath.live(1 / 3)
        state = titrated(elapsed(state, 8 * 3600.0), bath.ph(40.0), 40.0)
    assert state.rate_umol_d == pytest.approx(170.0, rel=0.2)
    assert state.rate_sd < 0.4 * 86.0


def test_drawing_carries_the_composition_and_giving_back_brings_it_home() -> None:
    state = elapsed(start(), 2 * 86_400.0)
    loop = estimate(state, titrated=False).loop.lactate_mm.value
    state = moved(state, "loop", "spent", 18_000.0)
    batch = estimate(state, titrated=False).spent.lactate_mm.value
    assert batch == pytest.approx(loop * 18 / 21)
    back = moved(state, "spent", "loop", 18_000.0)
    assert back.loop.volume_ul == pytest.approx(42_000.0)
    after = estimate(back, titrated=False).loop.lactate_mm.value
    assert after == pytest.approx((loop * 24 + batch * 18) / 42)


def test_fresh_medium_and_stocks_do_what_they_say() -> None:
    state = moved(elapsed(start(), 2 * 86_400.0), "loop", "spent", 18_000.0)
    before = estimate(state, titrated=False).spent
    fed = estimate(moved(state, FRESH, "spent", 21_000.0), titrated=False).spent
    assert fed.lactate_mm.value == pytest.approx(before.lactate_mm.value / 2)
    assert fed.ammonia_mm.high < before.ammonia_mm.high
    sweet = estimate(moved(state, STOCK, "spent", 2_100.0), titrated=False).spent
    assert sweet.glucose_mm.value == pytest.approx((before.glucose_mm.value * 21 + 60 * 2.1) / 23.1)
    basic = estimate(moved(state, BASE, "spent", 1_000.0), titrated=False).spent
    assert basic.bicarbonate_mm.value > before.bicarbonate_mm.value + 4.0


def test_evaporation_thickens() -> None:
    state = elapsed(start(tissue_mm3=0.001), 86_400.0, evaporated_ul=2_100.0, evaporated_sd_ul=500.0)
    osmolality = estimate(state, titrated=False).loop.osmolality_mosm
    assert osmolality.value == pytest.approx(285.0 * 42 / 39.9, rel=1e-3)
    assert osmolality.high - osmolality.value > 7.0, "the doubt about evaporation is doubt about osmolality"


def test_a_probe_gone_wrong_moves_the_estimate_no_faster_than_tissue_could() -> None:
    state = elapsed(start(), 8 * 3600.0)
    before = estimate(state, titrated=False).loop.lactate_mm.value
    after = estimate(titrated(state, 6.8, 40.0), titrated=True).loop.lactate_mm.value
    assert after - before < 3.0


def test_repeated_readings_do_not_average_a_probe_error_away() -> None:
    state = elapsed(start(), 3 * 86_400.0)
    for _ in range(100):
        state = titrated(state, 7.3, 40.0)
    interval = estimate(state, titrated=True).loop.lactate_mm
    assert interval.high - interval.low > 1.5


@given(st.lists(st.tuples(st.sampled_from(["live", "draw", "return", "feed", "ph"]), st.floats(0.0, 1.0)), max_size=25))
def test_nothing_makes_it_negative_or_infinite(events: list[tuple[str, float]]) -> None:
    state = start()
    for kind, size in events:
        if kind == "live":
            state = elapsed(state, size * 86_400.0, evaporated_ul=200.0 * size, evaporated_sd_ul=100.0 * size)
        elif kind == "draw":
            state = moved(state, "loop", "spent", size * min(18_000.0, state.loop.volume_ul))
        elif kind == "return":
            state = moved(state, "spent", "loop", size * state.spent.volume_ul)
        elif kind == "feed":
            state = moved(state, FRESH, "spent", size * 10_000.0)
        else:
            state = titrated(state, 6.6 + 1.3 * size, 10.0 + 60.0 * size)
    answer = estimate(state, titrated=True)
    for media in (answer.loop, answer.spent):
        for interval in (media.lactate_mm, media.ammonia_mm, media.glucose_mm, media.osmolality_mosm):
            assert 0.0 <= interval.low <= interval.value <= interval.high < 1e4


def test_state_and_estimate_survive_json() -> None:
    state = titrated(moved(elapsed(start(), 90_000.0), "loop", "spent", 18_000.0), 7.31, 41.0)
    assert SensorState.from_json(json.loads(json.dumps(state.to_json()))) == state
    answer = estimate(state, titrated=True)
    assert MediaEstimate.from_json(json.loads(json.dumps(answer.to_json()))) == answer
