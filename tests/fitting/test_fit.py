"""`choroid fit` recovers parameters within its intervals, predicts what it did not see, and says when it does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from choroid.common.examples import bench_rig
from choroid.common.failure import UserError
from choroid.fitting.body_transfers import BodyTransfer
from choroid.fitting.errors import covariance
from choroid.fitting.fit import fit_recorded, plant_from
from choroid.fitting.model import LightTwin
from choroid.fitting.observations import ANALYTE_COLUMNS, Observation
from choroid.fitting.priors import parameters
from choroid.fitting.records import FitRecords
from choroid.fitting.series import DAY_S
from choroid.fitting.steps import laid_out
from choroid.fitting.text import as_text
from controller.rig.loading import load_rig
from drivers.registry import MODELS
from protocols.assay import ANALYTES
from sim.plant.circulating import LOOP, SPENT, InputColumn, SeenColumn

pytestmark = pytest.mark.needs_module("emcee", "fit")

BENCH = load_rig(bench_rig(), models=MODELS)
DAYS = 8
FITTED = ("glucose_uptake", "ammonia_per_glucose", "growth_per_day")
TRUTH = {
    "glucose_uptake": 0.5,
    "demand": float(np.log(1.0 / 0.692) / 0.619),
    "ammonia_per_glucose": -0.9,
    "growth_per_day": 0.5,
}
"""In standard deviations of the prior; the demand, which is not fitted, has the published value."""


def quiet(_: str) -> None: ...


def records(seed: int, *, days: int = DAYS) -> tuple[FitRecords, dict[str, float]]:
    """A bench rig by the light plant, with assays at noon and exchanges at night, and its true parameters."""
    found = [
        Observation(
            (day + 0.5) * DAY_S, name, f"assays of {name}", "assay", LOOP, ANALYTE_COLUMNS[name], 1.0, ANALYTES[name].sd
        )
        for day in range(days)
        for name in ("lactate", "glucose", "ammonia")
    ]
    found += [
        Observation(hour * 3600.0, "pH on line", "ph_loop.ph", "probe", LOOP, SeenColumn.PH, 7.4, 0.0)
        for hour in range(6, days * 24, 12)
    ]
    found.sort(key=lambda each: each.at_s)
    moved = [
        move
        for day in range(1, days)
        for move in (BodyTransfer(day * DAY_S, LOOP, -1, 6000.0), BodyTransfer(day * DAY_S, 2, LOOP, 6000.0))
    ]
    steps, moves, place = laid_out(days * DAY_S, moved, found)
    steps[:, InputColumn.TEMPERATURE_C], steps[:, InputColumn.FLOW] = 37.0, 1.0
    steps[:, InputColumn.O2_FRACTION], steps[:, InputColumn.CO2_FRACTION] = 0.19, 0.06
    made = FitRecords(
        BENCH, 1767225600.0, float(days), list(BENCH.media), (42_000.0, 3000.0), None, 7.4, steps, moves, found, place
    )
    chosen = parameters(made)
    z = 0.7 * np.random.default_rng([seed, 1]).standard_normal(len(chosen))
    for number, each in enumerate(chosen):
        if not each.nuisance:
            z[number] = TRUTH.get(each.name, 0.0)
    twin = LightTwin(made, chosen)
    exact = twin.observed(z[None])[0]
    made.observations = [replace(each, value=float(value)) for each, value in zip(found, exact, strict=True)]
    noise = np.linalg.cholesky(covariance(made.observations)) @ np.random.default_rng([seed, 2]).standard_normal(
        len(found)
    )
    made.observations = [
        replace(each, value=float(max(value, 0.0))) for each, value in zip(found, exact + noise, strict=True)
    ]
    true = dict(zip((each.name for each in chosen), twin.values(z).tolist(), strict=True))
    return made, true


@pytest.fixture(scope="module")
def answer() -> tuple[dict[str, Any], dict[str, float]]:
    made, true = records(3)
    return fit_recorded(made, names=FITTED, seed=1, tell=quiet), true


def test_true_parameters_are_within_the_stated_intervals(answer: tuple[dict[str, Any], dict[str, float]]) -> None:
    found, true = answer
    assert found["converged"]
    assert found["describes"]
    for name in FITTED:
        each = found["parameters"][name]
        assert each["low"] <= true[name] <= each["high"], (name, true[name], each)
        assert each["of_prior"] < 0.75, (name, each)
    assert found["parameters"]["glucose_uptake"]["identifiable"] == "yes"
    assert plant_from(found).tissue.glucose_uptake == found["parameters"]["glucose_uptake"]["median"]


def test_the_part_that_was_held_out_is_predicted(answer: tuple[dict[str, Any], dict[str, float]]) -> None:
    ahead = answer[0]["out_of_sample"]
    assert ahead["predicts"] is True
    lactate = ahead["signals"]["lactate"]
    assert lactate["rmse"] < lactate["rmse_last_value"]
    assert "the twin predicts" in as_text(answer[0])


@pytest.mark.long
def test_the_same_seed_gives_the_same_answer(answer: tuple[dict[str, Any], dict[str, float]]) -> None:
    made, _ = records(3)
    again = fit_recorded(made, names=FITTED, holdout=0.0, seed=1, tell=quiet)
    assert again["parameters"] == answer[0]["parameters"]


def test_data_of_other_tissue_at_the_end_are_reported_as_not_predicted() -> None:
    """After the part that is fitted the assays are of another medium."""
    made, _ = records(3)
    made.observations = [
        replace(each, value=each.value * (1.0 if each.at_s < 5.6 * DAY_S or each.kind == "probe" else 0.4))
        for each in made.observations
    ]
    found = fit_recorded(made, names=FITTED, seed=1, tell=quiet)
    assert found["out_of_sample"]["predicts"] is False
    text = as_text(found)
    assert "THE TWIN DOES NOT PREDICT" in text
    assert not found["describes"]
    assert "does not describe these data" in text


def test_without_convergence_nothing_is_stated() -> None:
    """Assays in another unit: the model cannot describe them, so nothing is sampled, and nothing looks identified."""
    made, _ = records(3, days=4)
    made.observations = [
        replace(each, value=each.value * (30.0 if each.kind == "assay" else 1.0)) for each in made.observations
    ]
    found = fit_recorded(made, names=("glucose_uptake",), holdout=0.0, seed=1, tell=quiet)
    assert not found["converged"]
    assert not found["describes"]
    assert (found["parameters"], found["nuisance"], found["rates"], found["correlated"]) == ({}, {}, {}, [])
    assert "NO PARAMETERS the model does not describe these data" in as_text(found)


def test_what_the_data_do_not_tell_is_named() -> None:
    made, _ = records(4)
    kept = [each.signal != "ammonia" for each in made.observations]
    made.place = made.place[np.array(kept)]
    made.observations = [each for each, keep in zip(made.observations, kept, strict=True) if keep]
    found = fit_recorded(made, names=("ammonia_per_glucose", "glucose_uptake"), holdout=0.0, seed=1, tell=quiet)
    assert found["parameters"]["ammonia_per_glucose"]["identifiable"] == "no"
    assert "NOT IDENTIFIABLE from these data: needs assays of ammonia" in as_text(found)


def test_an_unknown_parameter_is_refused() -> None:
    made, _ = records(3)
    with pytest.raises(UserError, match="cannot be fitted"):
        parameters(made, ("glucose",))


def test_a_transfer_stays_on_its_side_of_an_assay() -> None:
    """A sample taken five minutes before the exchange is of the medium before it."""
    at = 10 * 3600.0 + 1700.0
    before = Observation(at, "lactate", "assays of lactate", "assay", LOOP, SeenColumn.LACTATE, 1.0, 0.1)
    for later, inside in ((60.0, False), (-60.0, True)):
        steps, moves, place = laid_out(DAY_S, [BodyTransfer(at + later, SPENT, LOOP, 100.0)], [before])
        assert (moves[0, 0] <= place[0]) is np.bool_(inside)
        assert steps[: int(place[0]) + 1, InputColumn.DT_S].sum() == round(at)
