"""`choroid fit` on the command line: an answer is never lost for a file, and no file has parameters that must not be used."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from choroid.cli import main
from choroid.common.examples import bench_rig
from choroid.fitting.priors import PLANT
from choroid.simulation.twin import plant_of

GLUCOSE = {
    "median": 0.006, "low": 0.005, "high": 0.007, "unit": "mol/(m³·s)", "prior": {}, "of_prior": 0.2,
    "identifiable": "yes", "needs": "", "rhat": 1.0, "ess": 900.0, "shift": 0.5, "moves_with_prior": False,
    "prior_doubled": {"low": 0.005, "median": 0.006, "high": 0.007}, "prior_dominated": False,
    "profile": {"low": 0.005, "high": None, "open_below": False, "open_above": True},
}  # fmt: skip
POINT = {"day": 7.5, "measured": 5.0, "predicted": 5.1, "low": 4.5, "high": 5.6}
ANSWER: dict[str, Any] = {
    "rig": "bench", "from_utc": "2026-01-01T00:00:00+00:00", "to_utc": "2026-01-09T00:00:00+00:00", "days": 8.0, "seed": 1,
    "observations": {"lactate": 8}, "warnings": [], "converged": True, "describes": True, "misfit": 1.0,
    "rhat_max": 1.01, "ess_min": 900.0, "draws": 4000, "acceptance": 0.5, "parameters": {"glucose_uptake": GLUCOSE},
    "nuisance": {}, "correlated": [], "rates": {}, "products": [], "residuals": {},
    "decline": {"declines": False, "loss_in_model": False, "gain": 0.5},
    "out_of_sample": {
        "from_utc": "2026-01-06T00:00:00+00:00", "predicts": True, "coverage_90": 1.0, "n": 5, "changed": ["lactate"],
        "not_beaten": [],
        "signals": {
            "lactate": {
                "n": 5, "rmse": 0.1, "rmse_last_value": 1.0, "rmse_linear": 0.5, "coverage_90": 1.0, "half_width": 0.5,
                "skill_last_value": 0.9, "skill_linear": 0.8, "noise": 0.1,
                "points": [POINT],
            },
        },
    },
}  # fmt: skip


def fitted(monkeypatch: pytest.MonkeyPatch, **changed: Any) -> None:
    """Let the command fit nothing, and give this answer."""
    monkeypatch.setattr("choroid.fitting.fit.recorded", lambda *_, **__: None)
    monkeypatch.setattr("choroid.fitting.fit.fit_recorded", lambda *_, **__: copy.deepcopy(ANSWER | changed))


def command(*options: str | Path) -> int:
    return main(["fit", "data", "--rig", str(bench_rig()), *map(str, options)])


@pytest.mark.needs_module("matplotlib", "plots")
def test_files_are_written(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    fitted(monkeypatch)
    out, svg = tmp_path / "twin.yaml", tmp_path / "prediction.svg"
    assert command("--out", out, "--svg", svg, "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["out"], answer["svg"]) == (str(out), str(svg))
    assert plant_of(str(out)).tissue.glucose_uptake == 0.006
    assert "90 % interval" in svg.read_text(encoding="utf-8")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["prediction.svg", "twin.yaml"]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"converged": False, "parameters": {}, "rhat_max": 1.2}, "the fit did not converge"),
        ({"describes": False}, "the model does not describe these data"),
        ({"describes": False, "converged": False, "parameters": {}}, "the model does not describe these data"),
    ],
)
def test_parameters_that_must_not_be_used_are_not_written(
    changed: dict[str, Any],
    why: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """The former file stays, and the answer is printed all the same."""
    fitted(monkeypatch, **changed)
    out = tmp_path / "twin.yaml"
    out.write_text("former", encoding="utf-8")
    assert command("--out", out) == 1
    text = capsys.readouterr().out
    assert f"{out} was not written: {why}" in text
    assert text.startswith("bench, 2026-01-01T00:00 to 2026-01-09T00:00 UTC (8.0 d)")
    assert out.read_text(encoding="utf-8") == "former"


@pytest.mark.needs_module("matplotlib", "plots")
def test_a_figure_of_nothing_is_not_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    nothing: dict[str, Any] = {
        "from_utc": "2026-01-06T00:00:00+00:00",
        "predicts": None,
        "signals": {},
        "why_not": "2 samples before",
    }
    fitted(monkeypatch, out_of_sample=nothing)
    svg = tmp_path / "prediction.svg"
    assert command("--svg", svg) == 1
    text = capsys.readouterr().out
    assert "prediction.svg was not written" in text
    assert "(2 samples before)" in text
    assert "glucose_uptake" in text
    assert not svg.exists()


@pytest.mark.needs_module("matplotlib", "plots")
@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--out", "missing/twin.yaml"), "there is no folder"),
        (("--out", "."), "is a folder"),
        (("--svg", "a.svg", "--holdout", "0"), "--holdout 0 holds none"),
    ],
)
def test_files_that_cannot_be_written_are_refused_before_the_fit(
    options: tuple[str, ...],
    why: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("choroid.fitting.fit.recorded", lambda *_, **__: pytest.fail("the fit began"))
    assert command(*options) == 1
    assert why in capsys.readouterr().err


def test_parameters_may_have_blanks_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[str, ...]] = []

    def remember(_: Any, *, names: tuple[str, ...], **__: Any) -> dict[str, Any]:
        given.append(names)
        return copy.deepcopy(ANSWER)

    fitted(monkeypatch)
    monkeypatch.setattr("choroid.fitting.fit.fit_recorded", remember)
    assert command("--parameters", "glucose_uptake, demand") == 0
    assert given == [("glucose_uptake", "demand")]
    assert set(given[0]) <= {each.name for each in PLANT}


@pytest.mark.parametrize(
    ("moves", "text"),
    [(None, "identifiable, not known whether it moves with the prior"), (True, "identifiable, moves with the prior")],
)
def test_the_text_says_whether_an_answer_moves_with_the_prior(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], moves: bool | None, text: str
) -> None:
    fitted(monkeypatch, parameters={"glucose_uptake": GLUCOSE | {"moves_with_prior": moves}})
    assert command() == 0
    assert text in capsys.readouterr().out


def test_the_text_says_what_the_profile_and_the_prediction_leave_open(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ahead = ANSWER["out_of_sample"]
    for changed, text in (
        ({}, "glucose_uptake: 0.005 or more, open above"),
        ({}, "it beats the last value for lactate"),
        ({"predicts": False, "not_beaten": ["lactate"]}, "DOES NOT PREDICT: the last value is as near for lactate"),
        ({"predicts": False, "declines": True}, "DOES NOT PREDICT: the culture declines"),
        ({"predicts": None, "changed": []}, "no metabolite changed by more than its noise"),
        ({"predicts": None, "n": 4}, "4 held-out values of metabolites: fewer than 5"),
    ):
        fitted(monkeypatch, out_of_sample=ahead | changed)
        assert command() == 0
        assert text in capsys.readouterr().out
