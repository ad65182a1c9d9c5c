"""What a fit may state: profiles, dependence on the prior, patterns in what is left, and the verdict on a prediction."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from choroid.common.examples import bench_rig
from choroid.fitting.findings import _as_logs, _moves, _state, parameter_findings
from choroid.fitting.fit import fit_recorded
from choroid.fitting.observations import Observation
from choroid.fitting.posterior import FitProblem
from choroid.fitting.prediction import declining, predicted
from choroid.fitting.priors import PLANT
from choroid.fitting.profile import THRESHOLD, profiles
from choroid.fitting.records import recorded
from choroid.fitting.residuals import described, doubts, residual_tests
from choroid.fitting.series import DAY_S, F8
from choroid.fitting.text import as_text
from controller.rig.loading import load_rig
from drivers.registry import MODELS
from sim.plant.circulating import LOOP, SeenColumn
from sim.plant.parameters import PlantParameters
from sim.plant.tissue_models import TissueKind
from verification.bench.fitting import cultured

pytestmark = pytest.mark.needs_module("emcee", "fit")


def quiet(_: str) -> None: ...


def straight(slopes: F8, measured: F8) -> FitProblem:
    """A problem whose predictions are linear, with errors of 1."""
    return FitProblem(lambda z: z @ slopes.T, measured, np.eye(len(measured)), np.ones(slopes.shape[1]))


def test_the_profile_of_a_linear_model_is_its_interval_and_ignores_the_prior() -> None:
    slopes = np.array([[4.0, 0.0], [4.0, 0.0]])
    half = np.sqrt(THRESHOLD / 32.0)
    ((low, high), other) = profiles(straight(slopes, np.array([4.0, 4.0])), np.zeros(2), (0, 1))
    assert low == pytest.approx(1.0 - half, abs=0.01)
    assert high == pytest.approx(1.0 + half, abs=0.01)
    assert other == (None, None), "no value tells the second parameter"


def test_the_profile_of_a_parameter_that_trades_off_is_open() -> None:
    """Only the sum is measured: either can be anything."""
    found = profiles(straight(np.full((2, 2), 5.0), np.array([0.0, 0.0])), np.zeros(2), (0, 1))
    assert found == [(None, None), (None, None)]


def test_the_profile_is_closed_where_the_other_parameter_keeps_its_prior() -> None:
    """A medium or an instrument was measured: it cannot make up for everything."""
    ((low, high),) = profiles(straight(np.full((2, 2), 5.0), np.array([0.0, 0.0])), np.zeros(2), (0,))
    assert low is not None
    assert high is not None
    assert high == pytest.approx(np.sqrt(THRESHOLD * (1.0 + 1.0 / 50.0)), abs=0.02)
    assert low == pytest.approx(-high, abs=0.02)


def test_an_answer_that_the_prior_decides_is_found_by_a_wider_prior() -> None:
    random = np.random.default_rng(1)
    told = random.standard_normal(4000)
    assert not _moves(told, 1.05 * random.standard_normal(4000))
    assert _moves(told, told + 0.6), "the median moves"
    assert _moves(told, 1.4 * told), "the interval widens"


@pytest.mark.parametrize(
    ("of_prior", "moves", "profile", "state"),
    [
        (0.3, False, (-1.0, 1.0), "yes"),
        (0.3, True, (-1.0, 1.0), "weakly"),
        (0.3, None, (-1.0, 1.0), "weakly"),
        (0.95, None, (-1.0, 1.0), "no"),
        (0.3, False, (-1.0, None), "weakly"),
        (0.3, False, (None, None), "no"),
        (0.7, False, (-1.0, 1.0), "weakly"),
        (0.95, False, (-1.0, 1.0), "no"),
    ],
)
def test_identifiable_needs_data_a_closed_profile_and_independence_of_the_prior(
    of_prior: float, moves: bool | None, profile: tuple[float | None, float | None], state: str
) -> None:
    assert _state(of_prior, moves, profile) == state


@pytest.mark.parametrize(("converged", "state", "moves"), [(True, "yes", False), (False, "weakly", None)])
def test_without_the_fit_of_the_wider_prior_nothing_is_called_identifiable(
    converged: bool, state: str, moves: bool | None
) -> None:
    draws = 0.1 * np.random.default_rng(1).standard_normal((400, 1))
    twin: Any = SimpleNamespace(chosen=[PLANT[0]], values=np.exp)
    one: Any = SimpleNamespace(draws=draws, rhat=[1.0], ess=[900.0], converged=True)
    wider: Any = SimpleNamespace(draws=draws, converged=converged)
    (found,) = parameter_findings(twin, one, wider, {0: (-1.0, 1.0)}).values()
    assert (found["identifiable"], found["moves_with_prior"]) == (state, moves)
    assert (found["prior_doubled"] is None) is not converged


def test_values_without_a_logarithm_are_compared_as_they_are() -> None:
    positive, signed = np.array([1.0, 2.0]), np.array([-1.0, 2.0])
    np.testing.assert_array_equal(_as_logs(positive, signed), (positive, signed))
    np.testing.assert_array_equal(_as_logs(signed, positive), (signed, positive))
    np.testing.assert_allclose(_as_logs(positive, positive), (np.log(positive), np.log(positive)))


def assays(values: list[float], *, signal: str = "lactate") -> list[Observation]:
    column = SeenColumn.LACTATE if signal == "lactate" else SeenColumn.GLUCOSE
    return [
        Observation((day + 1) * DAY_S, signal, f"assays of {signal}", "assay", LOOP, column, value, 0.1)
        for day, value in enumerate(values)
    ]


def test_a_signal_that_does_not_fit_is_not_hidden_by_many_that_do() -> None:
    many, few = assays([1.0] * 60, signal="glucose"), assays([1.0] * 6)
    left = np.concatenate([0.3 * np.tile([1.0, -1.0], 30), [2.5, -2.5, 2.5, -2.5, 2.5, -2.5]])
    tests = residual_tests([*many, *few], left)
    assert (left**2).mean() < 1.0, "all together it looks well"
    assert not described(tests)
    assert described(residual_tests(many, left[:60]))


def test_a_course_that_stays_on_one_side_and_then_on_the_other_is_reported() -> None:
    values = assays([1.0] * 14)
    swinging = np.array([0.9, -0.9] * 7)
    assert doubts(residual_tests(values, swinging)) == []
    trend = np.sort(swinging)[::-1]
    (text,) = doubts(residual_tests(values, trend))
    assert text.startswith("lactate: the model stays on one side of the values for days")


def verdict(predicted_by_twin: list[float]) -> dict[str, Any]:
    """A course of lactate that rises, of which the first three values are known."""
    ahead = len(predicted_by_twin)
    values = assays([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0][: 3 + ahead])
    known = np.array([True] * 3 + [False] * ahead)
    course = np.array([1.0, 2.0, 3.0, *predicted_by_twin])
    return predicted(values, known, np.repeat(course[None], 50, axis=0), 0.01 * np.eye(3 + ahead), seed=1)


def test_a_twin_predicts_if_it_beats_the_last_value_and_its_intervals_hold() -> None:
    good = verdict([4.0, 5.0, 6.0, 7.0, 8.0])
    assert (good["predicts"], good["changed"]) == (True, ["lactate"])
    assert good["signals"]["lactate"]["skill_last_value"] > 0.9
    assert declining(good)["predicts"] is False
    assert verdict([3.0, 2.0, 1.0, 1.0, 1.0])["not_beaten"] == ["lactate"]
    assert verdict([3.0, 2.0, 1.0, 1.0, 1.0])["predicts"] is False


@pytest.mark.parametrize("ahead", [[4.0], [4.0, 5.0, 6.0, 7.0], [3.0, 2.0, 1.0, 1.0]])
def test_a_few_values_do_not_judge_a_twin(ahead: list[float]) -> None:
    assert verdict(ahead)["predicts"] is None


def test_a_twin_is_not_judged_where_nothing_changed() -> None:
    values = assays([1.0, 1.05, 1.0, 1.02, 0.98, 1.0, 1.0, 1.0])
    found = predicted(values, np.array([True] * 3 + [False] * 5), np.ones((50, 8)), 0.01 * np.eye(8), seed=1)
    assert (found["predicts"], found["changed"]) == (None, [])


def fitted(folder: Any, days: float, holdout: float = 0.0, **kind: float) -> dict[str, Any]:
    """The answer for a bench rig with this tissue."""
    path = bench_rig()
    cultured(path, 1, days, 1.0, folder, PlantParameters(TissueKind(**kind)))
    return fit_recorded(recorded(load_rig(path, models=MODELS), folder / "0"), holdout=holdout, seed=1, tell=quiet)


def never_surely_wrong(found: dict[str, Any], kind: dict[str, float]) -> None:
    """Check that no truth is far outside of an interval that is called identifiable; nine of ten are inside."""
    for name, true in kind.items():
        each = found["parameters"][name]
        off = max(each["low"] - true, true - each["high"])
        assert each["identifiable"] != "yes" or off <= 0.5 * (each["high"] - each["low"]), (name, true, each)


@pytest.mark.long
def test_uptake_is_not_called_identifiable_where_the_demand_is_not_known(tmp_path: Any) -> None:
    """Glucose uptake and the thickness of the living shell trade off: four days of assays tell their product only."""
    kind = {"glucose_uptake": 0.0125, "demand": 1.9}
    found = fitted(tmp_path, 4.0, **kind)
    never_surely_wrong(found, kind)
    each = found["parameters"]["glucose_uptake"]
    assert each["identifiable"] == "weakly"
    assert each["moves_with_prior"]
    pair = next(pair for pair in found["products"] if (pair["a"], pair["b"]) == ("glucose_uptake", "demand"))
    assert pair["high"] / pair["low"] < 0.5 * each["high"] / each["low"]
    assert "known together glucose_uptake · demand^-" in as_text(found)


@pytest.mark.long
@pytest.mark.parametrize("demand", [0.25, 1.0, 1.9])
@pytest.mark.parametrize("uptake", [0.0025, 0.004, 0.0054, 0.008, 0.0125])
def test_no_true_value_is_outside_an_interval_that_is_called_identifiable(
    tmp_path: Any, uptake: float, demand: float
) -> None:
    kind = {"glucose_uptake": uptake, "demand": demand}
    found = fitted(tmp_path, 8.0, **kind)
    assert found["converged"]
    never_surely_wrong(found, {**kind, "growth_per_day": 0.04, "ammonia_per_glucose": 0.05})


@pytest.mark.long
def test_a_culture_that_dies_declines_and_is_not_predicted(tmp_path: Any) -> None:
    found = fitted(tmp_path, 10.0, 0.3, ageing_per_h=0.01)
    assert found["decline"]["declines"]
    assert found["rates"]["living_change"]["high"] < 0.0
    assert found["out_of_sample"]["predicts"] is False
    assert "THE CULTURE DECLINES" in as_text(found)


def test_the_priors_hold_the_range_of_the_sources() -> None:
    for name, low, high in (("demand", 0.25, 0.046 / 0.024), ("glucose_uptake", 0.0011, 0.0156)):
        each = next(each for each in PLANT if each.name == name)
        edges = [each.median * np.exp(sign * 1.645 * each.spread) for sign in (-1.0, 1.0)]
        assert edges == pytest.approx([low, high], rel=0.02)
