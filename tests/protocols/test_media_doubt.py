"""Labels, methods and samples that are not what people believe: what the estimate of the medium makes of contradictions."""

from __future__ import annotations

import numpy as np
import pytest

from protocols.media_assays import (
    ASSAY_GATE,
    EXCHANGED,
    NO_DOUBT,
    GrossErrors,
    assayed,
    doubted,
    exchange_evidence,
    known_errors,
    likeliest_cause,
    surprise,
)
from protocols.media_filter import elapsed, moved
from protocols.media_state import (
    GROSS_METHOD_REL_SD,
    MediaState,
    begin,
    gross_label_sd,
    label_sd,
    of_composition,
)
from protocols.soft_sensor import Composition, Where

FRESH = Composition(21.0, 0.0, 0.02, 27.5, 1.25, 285.0)
DOUBT = GrossErrors(
    gross_label_sd(of_composition(FRESH)) / label_sd(of_composition(FRESH)), np.array(GROSS_METHOD_REL_SD)
)
SD = {"lactate_mm": 0.15, "glucose_mm": 0.8, "ammonia_mm": 0.015}


def start() -> MediaState:
    return begin(
        FRESH, FRESH, loop_ul=42_000.0, spent_ul=3_000.0, tissue_mm3=100.0, water_ul_d=(93.0, 33.0), buffer=(3.0, 1.0)
    )


def entered(state: MediaState, species: str, value: float) -> MediaState:
    """Enter an assay as a person without --sure does."""
    change = assayed if surprise(state, "loop", species, value, SD[species]) <= ASSAY_GATE else doubted
    return change(state, "loop", species, value, SD[species], doubt=DOUBT)


@pytest.mark.parametrize(("species", "truth"), [("lactate_mm", 3.2), ("glucose_mm", 15.0), ("ammonia_mm", 0.25)])
def test_the_first_assay_opens_the_interval_and_the_next_ones_find_a_wrong_label(species: str, truth: float) -> None:
    state = elapsed(start(), 6 * 3600.0, water_ul_d=93.0)
    state = entered(state, species, truth)
    interval = state.interval("loop", species)
    assert interval.low <= truth <= interval.high
    for _ in range(3):
        state = entered(state, species, truth)
    found = state.interval("loop", species)
    assert found.low <= truth <= found.high
    assert found.high - found.low < interval.high - interval.low
    named = [(cause, name) for cause, name, _ in known_errors(state)]
    assert named == ([] if species == "glucose_mm" else [("label", species)]), (
        "a method that reads 15 for 21 looks the same"
    )
    poured = moved(moved(state, "loop", None, 20_000.0), FRESH, "loop", 20_000.0, complete=True)
    again = poured.interval("loop", species)
    assert again.value == pytest.approx(found.value, rel=0.3), "the next dose comes from the same bottle"


@pytest.mark.parametrize("factor", [0.8, 1.2])
def test_a_method_that_is_a_fifth_off_leaves_the_truth_in_the_interval(factor: float) -> None:
    state = elapsed(start(), 86_400.0, water_ul_d=93.0)
    truth = state.interval("loop", "glucose_mm").value
    for _ in range(4):
        state = entered(state, "glucose_mm", factor * truth)
    interval = state.interval("loop", "glucose_mm")
    assert interval.low <= truth <= interval.high


def test_a_slip_does_nothing_and_two_in_a_row_open_the_interval() -> None:
    state = start()
    far: tuple[Where, str, float, float] = ("loop", "lactate_mm", 40.0, 0.2)
    assert doubted(state, *far, doubt=DOUBT) is state
    wide = doubted(state, *far, doubt=DOUBT, again=True)
    assert surprise(wide, *far) < 2.0
    assert wide.mean is state.mean


def test_without_doubt_a_contradiction_changes_nothing() -> None:
    state = start()
    assert doubted(state, "loop", "lactate_mm", 3.0, 0.15, doubt=NO_DOUBT) is state


def test_an_assay_that_agrees_is_no_reason_for_doubt() -> None:
    state = start()
    assert doubted(state, "loop", "glucose_mm", 21.0, 0.8, doubt=DOUBT) is state


@pytest.mark.parametrize(
    ("species", "value", "cause"),
    [("lactate_mm", 3.0, "label"), ("ammonia_mm", 0.25, "label"), ("lactate_mm", 50.0, "slip")],
)
def test_the_likeliest_cause_is_named(species: str, value: float, cause: str) -> None:
    assert likeliest_cause(start(), "loop", species, value, SD[species], DOUBT) == cause


def test_the_method_is_named_where_the_value_is_well_known() -> None:
    state = elapsed(start(), 86_400.0, water_ul_d=93.0)
    for _ in range(4):
        state = assayed(state, "loop", "osmolality_mosm", state.interval("loop", "osmolality_mosm").value, 2.5)
    expected = state.interval("loop", "lactate_mm").value
    told = begin(
        FRESH, FRESH, loop_ul=42e3, spent_ul=3e3, tissue_mm3=0.0, water_ul_d=(0.0, 0.1), buffer=(3.0, 1.0),
        loop_label=np.full(6, 1e-3),
    )  # fmt: skip
    rich = assayed(told, "loop", "lactate_mm", 0.0, 0.05)
    assert expected > 0.0
    assert likeliest_cause(rich, "loop", "glucose_mm", 29.0, 0.8, GrossErrors(np.ones(6), DOUBT.method)) == "method"


def test_exchanged_tubes_are_more_probable_than_two_errors() -> None:
    state = moved(
        elapsed(start(), 4 * 86_400.0, water_ul_d=93.0), Composition(60.0, 0, 0, 27.5, 0, 310.0), "spent", 1e3
    )
    loop = {name: state.interval("loop", name).value for name in SD}
    spent = {name: state.interval("spent", name).value for name in SD}
    right = [(name, (loop[name], SD[name]), (spent[name], SD[name])) for name in SD]
    wrong = [(name, there, here) for name, here, there in right]
    assert exchange_evidence(state, wrong) > EXCHANGED
    assert exchange_evidence(state, right) < -EXCHANGED
