"""The state estimator against a little chemistry of its own: an independent bath that makes lactic acid."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.media_assays import ASSAY_GATE, assayed, surprise
from protocols.media_filter import (
    elapsed,
    estimate,
    moved,
    ph_of,
    respired,
    sensed,
    sensor_surprise,
    titrated,
    with_volumes,
)
from protocols.media_state import (
    BUFFER,
    FRESH_REL_SD,
    GLUCOSE,
    MAKES_LACTATE,
    OFFSET,
    SENSED,
    SENSOR,
    SPECIES,
    USES_GLUCOSE,
    MediaState,
    begin,
)
from protocols.soft_sensor import (
    BUFFER_MM_PER_PH,
    BUFFER_SD_MM_PER_PH,
    Composition,
    MediaEstimate,
    bicarbonate_mm,
    pco2_mmhg,
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


def start(
    tissue_mm3: float = 131.0, buffer: tuple[float, float] = (BUFFER_MM_PER_PH, BUFFER_SD_MM_PER_PH)
) -> MediaState:
    return begin(
        FRESH,
        FRESH,
        loop_ul=42_000.0,
        spent_ul=3_000.0,
        tissue_mm3=tissue_mm3,
        water_ul_d=(0.0, 10.0),
        buffer=buffer,
        method_sd=np.full(len(SPECIES), 1e-3),
    )


def lived(state: MediaState, days: float) -> MediaState:
    return elapsed(state, days * 86_400.0, water_ul_d=0.0)


def width(state: MediaState, species: str = "lactate_mm") -> float:
    interval = state.interval("loop", species)
    return interval.high - interval.low


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
    for _ in range(60):
        yield_ = float(rng.normal(1.35, 0.12))
        bath = Bath(
            rate_umol_d=float(np.clip(rng.normal(50.0, 19.0), 15.0, 110.0)),
            yield_=yield_,
            buffer=float(rng.uniform(0.5, 9.3)),
            ammonia_yield=float(np.clip(rng.normal(0.055, 0.0165), 0.0, 1.0)) / yield_,
            decay_per_d=float(np.clip(rng.normal(0.059, 0.009), 0.0, 1.0)),
        )
        offset = float(rng.normal(0.0, 0.01))
        gas_error = float(rng.normal(1.0, 0.02))
        renewed_ml = float(rng.uniform(2.0, 10.0))
        state = start()
        for _ in range(15):
            bath.live(1 / 3)
            state = lived(state, 1 / 3)
            pco2 = 713.0 * float(rng.uniform(0.04, 0.08))
            ph = bath.ph(pco2) + offset + float(rng.normal(0.0, 0.004))
            state = titrated(state, ph, pco2 * gas_error)
            for name in within:
                interval, truth = state.interval("loop", name), getattr(bath, name.removesuffix("_mm")) / bath.volume_ml
                within[name].append(interval.low <= truth <= interval.high)
            bath.renew(renewed_ml)
            state = moved(moved(state, "loop", None, renewed_ml * 1000.0), FRESH, "loop", renewed_ml * 1000.0)
    for name, hits in within.items():
        assert sum(hits) / len(hits) > 0.9, name


@pytest.mark.parametrize("buffer", [0.7, 3.0, 9.3])
def test_the_buffer_of_an_undeclared_medium_is_learnt_from_co2_and_pH(buffer: float) -> None:
    """CO2 titrates the buffer: at one bicarbonate, the pH at 4 % and at 8 % CO2 depends on it; assays fix bicarbonate."""
    bath, state = Bath(buffer=buffer), start()
    for cycle in range(15):
        bath.live(1 / 3)
        state = lived(state, 1 / 3)
        pco2 = 713.0 * (0.04 if cycle % 2 else 0.08)
        state = titrated(state, bath.ph(pco2), pco2)
        if cycle % 3 == 2:
            state = assayed(state, "loop", "lactate_mm", bath.lactate / bath.volume_ml, 0.15)
    assert float(state.mean[BUFFER]) == pytest.approx(buffer, abs=max(2.5 * state.sd(BUFFER), 0.3))
    assert state.sd(BUFFER) < 0.5 * BUFFER_SD_MM_PER_PH


def test_at_constant_pH_the_buffer_stays_unknown() -> None:
    state = start()
    for _ in range(20):
        state = titrated(lived(state, 1 / 3), 7.5, 35.65)
    assert state.sd(BUFFER) > 0.9 * BUFFER_SD_MM_PER_PH


@pytest.mark.parametrize("buffer", [0.5, 3.0, 9.0])
def test_the_pH_solves_the_equation_of_charge(buffer: float) -> None:
    for bicarbonate in (0.0, 5.0, 27.5):
        ph = ph_of(bicarbonate, 40.0, buffer)
        assert bicarbonate_mm(ph, 40.0) + buffer * (ph - 7.5) == pytest.approx(max(bicarbonate, 0.05), abs=1e-6)


def test_a_sensor_on_line_carries_the_accuracy_of_an_assay_on() -> None:
    """A sensor that reads 8 % too low and loses 2 % a day; one assay calibrates it for days."""
    bath, alone, told = Bath(rate_umol_d=70.0), start(), start()
    for third in range(18):
        bath.live(1 / 3)
        truth = bath.lactate / bath.volume_ml
        reading = 0.92 * math.exp(-0.02 * third / 3) * truth
        alone, told = (lived(state, 1 / 3) for state in (alone, told))
        told = sensed(told, "loop", "lactate_mm", reading)
        if third == 6:
            alone, told = (assayed(state, "loop", "lactate_mm", truth, 0.1) for state in (alone, told))
    truth = bath.lactate / bath.volume_ml
    assert abs(told.interval("loop", "lactate_mm").value - truth) < 0.5
    assert width(told) < 0.7 * width(alone)
    assert float(told.mean[SENSOR]) == pytest.approx(0.92 * math.exp(-0.12) - 1.0, abs=0.06)


def test_the_blank_of_a_sensor_does_not_average_out() -> None:
    """Two hundred readings that agree leave the doubt about the sensor's constant error and sensitivity."""
    state = start()
    for _ in range(200):
        state = sensed(state, "loop", "glucose_mm", 21.0)
    prior = start().sd(OFFSET + SENSED.index(GLUCOSE))
    assert state.sd(OFFSET + SENSED.index(GLUCOSE)) > 0.8 * prior
    assert state.interval("loop", "glucose_mm").sd > 0.5 * start().interval("loop", "glucose_mm").sd


def test_what_one_bottle_errs_by_is_learned_and_not_added_again() -> None:
    """Fresh medium of the bottle that filled the loop has the error that an assay of the loop has shown."""
    state = start()
    for _ in range(6):
        state = assayed(state, "loop", "glucose_mm", 22.0, 0.2)
    known = state.interval("loop", "glucose_mm")
    after = moved(moved(state, "loop", None, 20_000.0), FRESH, "loop", 20_000.0, complete=True)
    assert after.interval("loop", "glucose_mm").value == pytest.approx(known.value, abs=0.15)
    assert after.interval("loop", "glucose_mm").sd < 1.2 * known.sd
    other = moved(moved(state, "loop", None, 20_000.0), FRESH, "loop", 20_000.0)
    assert other.interval("loop", "glucose_mm").sd > 1.3 * known.sd


def test_a_sensor_gone_wrong_moves_the_estimate_less_the_further_it_is_off() -> None:
    state = assayed(lived(start(), 3.0), "loop", "lactate_mm", 6.0, 0.1)
    before = state.interval("loop", "lactate_mm").value
    moves = [
        abs(sensed(state, "loop", "lactate_mm", reading).interval("loop", "lactate_mm").value - before)
        for reading in (9.0, 15.0, 25.0)
    ]
    assert moves == sorted(moves, reverse=True)
    distances = [sensor_surprise(state, "loop", "lactate_mm", reading) for reading in (5.7, 9.0, 15.0)]
    assert distances[0] < 1.0 < 3.0 < distances[1] < distances[2]
    assert moves[0] < 0.5


def test_oxygen_tells_of_glucose_that_did_not_become_lactate() -> None:
    """6·glucose - 3·lactate: with lactate known, more oxygen is more glucose; the balance itself is never trusted."""
    state = assayed(lived(start(), 2.0), "loop", "lactate_mm", 5.0, 0.1)
    usual = 6.0 * float(state.mean[USES_GLUCOSE]) - 3.0 * float(state.mean[MAKES_LACTATE])
    more, same = respired(state, 1.5 * usual, 0.1 * usual), respired(state, usual, 0.1 * usual)
    assert float(more.mean[USES_GLUCOSE]) > 1.005 * float(state.mean[USES_GLUCOSE])
    assert float(same.mean[USES_GLUCOSE]) == pytest.approx(float(state.mean[USES_GLUCOSE]), rel=1e-6)
    many = state
    for _ in range(200):
        many = respired(many, usual, 0.1 * usual)
    assert many.sd(USES_GLUCOSE) > 0.05 * float(state.mean[USES_GLUCOSE]), "other fuels do not average out"


def test_process_noise_is_learned_from_assays() -> None:
    """Assays of a culture that does what the balances say narrow the intervals; those of an unsteady one widen them."""

    def after(jump_mm: float) -> MediaState:
        bath, state = Bath(rate_umol_d=86.0), start()
        for day in range(20):
            bath.live(1.0)
            bath.lactate += bath.volume_ml * jump_mm * (-1.0) ** day
            state = lived(state, 1.0)
            for name in ("lactate", "glucose"):
                state = assayed(state, "loop", f"{name}_mm", getattr(bath, name) / bath.volume_ml, 0.15)
            bath.renew(17.0)
            state = moved(moved(state, "loop", None, 17_000.0), FRESH, "loop", 17_000.0)
        return state

    calm, unsteady = after(0.0), after(0.8)
    assert calm.noise < 0.8 < 1.2 < unsteady.noise
    assert width(lived(calm, 2.0)) < 0.85 * width(lived(unsteady, 2.0))
    assert titrated(start(), 7.0, 40.0).noise == 1.0


def test_the_rate_is_learnt() -> None:
    bath = Bath(rate_umol_d=170.0)
    state = start()
    assert state.rate_umol_d == pytest.approx(49.5, abs=1.0)
    for _ in range(9):
        bath.live(1 / 3)
        state = titrated(lived(state, 1 / 3), bath.ph(40.0), 40.0)
    assert state.rate_umol_d == pytest.approx(170.0, rel=0.25)


def test_an_interval_grows_until_the_next_assay_and_then_shrinks() -> None:
    state = assayed(lived(start(), 1.0), "loop", "ammonia_mm", 0.15, 0.01)
    fresh = width(state, "ammonia_mm")
    widths = [width(lived(state, days), "ammonia_mm") for days in (0.25, 0.5, 1.0, 2.0)]
    assert [fresh, *widths] == sorted([fresh, *widths])
    assert widths[-1] > 3 * fresh
    assert width(assayed(lived(state, 2.0), "loop", "ammonia_mm", 0.3, 0.01), "ammonia_mm") < 0.5 * widths[-1]


def test_an_assay_of_lactate_tells_of_bicarbonate_and_of_the_rate() -> None:
    state = lived(start(), 2.0)
    after = assayed(state, "loop", "lactate_mm", 6.0, 0.2)
    assert after.interval("loop", "lactate_mm").value == pytest.approx(6.0, abs=0.3)
    assert after.interval("loop", "bicarbonate_mm").value == pytest.approx(27.5 - 6.0, abs=0.7)
    assert after.rate_umol_d > 1.2 * state.rate_umol_d


def test_one_assay_makes_a_probe_worth_more_for_days() -> None:
    bath, alone, told = Bath(), start(), start()
    for day in range(6):
        bath.live(1.0)
        ph = bath.ph(40.0) - 0.05
        alone, told = (titrated(lived(state, 1.0), ph, 40.0) for state in (alone, told))
        if day == 2:
            told = assayed(told, "loop", "lactate_mm", bath.lactate / bath.volume_ml, 0.1)
    truth = bath.lactate / bath.volume_ml
    assert abs(told.interval("loop", "lactate_mm").value - truth) < 0.5
    assert width(told) < 0.75 * width(alone)


def test_an_assay_that_a_person_stands_by_is_a_jump_of_that_value_alone() -> None:
    state = assayed(lived(start(), 1.0), "loop", "lactate_mm", 2.0, 0.1)
    assert surprise(state, "loop", "lactate_mm", 12.0, 0.3) > ASSAY_GATE
    after = assayed(state, "loop", "lactate_mm", 12.0, 0.3)
    assert after.interval("loop", "lactate_mm").value == pytest.approx(12.0, abs=1.0)
    assert after.interval("loop", "glucose_mm").value == pytest.approx(
        state.interval("loop", "glucose_mm").value, abs=1.0
    )


def test_drawing_carries_the_composition_and_giving_back_brings_it_home() -> None:
    state = lived(start(), 2.0)
    loop = state.interval("loop", "lactate_mm").value
    state = moved(state, "loop", "spent", 18_000.0)
    batch = state.interval("spent", "lactate_mm").value
    assert batch == pytest.approx(loop * 18 / 21)
    back = moved(state, "spent", "loop", 18_000.0)
    assert back.loop_ul == pytest.approx(42_000.0)
    assert back.interval("loop", "lactate_mm").value == pytest.approx((loop * 24 + batch * 18) / 42)


def test_an_assay_of_the_batch_tells_of_the_loop_that_it_came_from() -> None:
    state = moved(lived(start(), 2.0), "loop", "spent", 18_000.0)
    after = assayed(state, "spent", "glucose_mm", state.interval("spent", "glucose_mm").value, 0.1)
    assert width(after, "glucose_mm") < 0.5 * width(state, "glucose_mm")


def test_fresh_medium_and_stocks_do_what_they_say() -> None:
    state = moved(lived(start(), 2.0), "loop", "spent", 18_000.0)
    before = estimate(state, titrated=False).spent
    fed = estimate(moved(state, FRESH, "spent", 21_000.0), titrated=False).spent
    assert fed.lactate_mm.value == pytest.approx(before.lactate_mm.value / 2)
    assert fed.ammonia_mm.high < before.ammonia_mm.high
    sweet = estimate(moved(state, STOCK, "spent", 2_100.0), titrated=False).spent
    assert sweet.glucose_mm.value == pytest.approx((before.glucose_mm.value * 21 + 60 * 2.1) / 23.1)
    basic = estimate(moved(state, BASE, "spent", 1_000.0), titrated=False).spent
    assert basic.bicarbonate_mm.value > before.bicarbonate_mm.value + 4.0


def test_one_bottle_poured_often_is_no_better_known_than_its_label() -> None:
    state = start()
    for _ in range(30):
        state = moved(moved(state, "loop", None, 21_000.0), FRESH, "loop", 21_000.0)
    label = 2 * 2 * FRESH_REL_SD[GLUCOSE] * 21.0  # ± two deviations
    assert width(state, "glucose_mm") == pytest.approx(label, rel=0.1)


def test_water_that_leaves_thickens() -> None:
    state = begin(
        FRESH,
        FRESH,
        loop_ul=42_000.0,
        spent_ul=3_000.0,
        tissue_mm3=0.001,
        water_ul_d=(2_100.0, 500.0),
        buffer=(3.0, 1.0),
    )
    osmolality = elapsed(state, 86_400.0, water_ul_d=2_100.0).interval("loop", "osmolality_mosm")
    assert osmolality.value == pytest.approx(285.0 * 42 / 39.9, rel=1e-3)
    assert osmolality.high - osmolality.value > 7.0, "the doubt about evaporation is doubt about osmolality"


def test_what_is_not_there_is_not_used() -> None:
    state = lived(start(tissue_mm3=2000.0), 6.0)
    assert state.interval("loop", "glucose_mm").value < 1.0
    made = state.interval("loop", "lactate_mm").value
    assert lived(state, 1.0).interval("loop", "lactate_mm").value - made < 1.0


def test_a_probe_gone_wrong_moves_the_estimate_no_faster_than_tissue_could() -> None:
    state = lived(start(), 1 / 3)
    before = state.interval("loop", "lactate_mm").value
    assert titrated(state, 6.8, 40.0).interval("loop", "lactate_mm").value - before < 2.0


def test_repeated_readings_do_not_average_a_probe_error_away() -> None:
    state = lived(start(), 3.0)
    for _ in range(100):
        state = titrated(state, 7.3, 40.0)
    assert width(state) > 1.5


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["live", "draw", "return", "feed", "ph", "assay", "sensor", "oxygen"]), st.floats(0.0, 1.0)
        ),
        max_size=25,
    )
)
def test_nothing_makes_it_negative_or_infinite(events: list[tuple[str, float]]) -> None:
    state = start()
    for kind, size in events:
        if kind == "live":
            state = lived(state, size)
        elif kind == "draw":
            state = moved(state, "loop", "spent", size * min(18_000.0, state.loop_ul))
        elif kind == "return":
            state = moved(state, "spent", "loop", size * state.spent_ul)
        elif kind == "feed":
            state = moved(state, FRESH, "spent", size * 10_000.0)
        elif kind == "assay":
            state = assayed(state, "loop", SPECIES[int(size * 5)], size * 40.0, 0.05 + size)
        elif kind == "sensor":
            state = sensed(state, "loop", ("lactate_mm", "glucose_mm", "ammonia_mm")[int(size * 2.99)], size * 30.0)
        elif kind == "oxygen":
            state = respired(state, size * 500.0, 10.0)
        else:
            state = titrated(state, 6.6 + 1.3 * size, 10.0 + 60.0 * size)
    answer = estimate(state, titrated=True)
    for media in (answer.loop, answer.spent):
        for interval in (media.lactate_mm, media.ammonia_mm, media.glucose_mm, media.osmolality_mosm):
            assert 0.0 <= interval.low <= interval.value <= interval.high < 1e4
    assert float(np.linalg.eigvalsh(state.covariance).min()) > -1e-6


def test_an_empty_vessel_and_no_time_are_no_trouble() -> None:
    state = with_volumes(start(), loop_ul=0.0, spent_ul=0.0)
    assert lived(state, 0.0) is state
    filled = moved(lived(state, 0.5), FRESH, "spent", 5_000.0)
    assert filled.interval("spent", "glucose_mm").value == pytest.approx(21.0)


def test_state_and_estimate_survive_json() -> None:
    state = titrated(moved(lived(start(), 1.1), "loop", "spent", 18_000.0), 7.31, 41.0)
    again = MediaState.from_json(json.loads(json.dumps(state.to_json())))
    assert again.to_json() == state.to_json()
    answer = estimate(state, titrated=True)
    assert MediaEstimate.from_json(json.loads(json.dumps(answer.to_json()))) == answer


def test_many_assays_do_not_average_a_laboratory_error_away() -> None:
    state = lived(start(), 1.0)
    for _ in range(200):
        state = assayed(state, "loop", "osmolality_mosm", 285.0, 2.5)
    assert state.interval("loop", "osmolality_mosm").sd > 0.8, (
        "about the label's 1.4 and the laboratory's 1.25 together"
    )
