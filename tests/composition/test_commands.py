"""Commands on a dish, on two plates with one pump, and on four hearts with one loop."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from choroid.cli import main
from choroid.common.failure import UserError
from choroid.export.export import export_records
from choroid.report.report import report
from choroid.rig_file.check import check_rig
from choroid.running.nerves_handle import tissue_said
from choroid.simulation.plan import as_text as plan_text
from choroid.simulation.plan import plan
from choroid.simulation.simulate import as_text, simulate
from controller.hazards.loading import load_checked_rig
from controller.recipes.catalogue import shipped
from controller.recipes.on_rig import UnavailableError, preferred
from controller.runs.runner import RunnerError
from drivers.registry import MODELS
from protocols.parameters import ParamError
from tests.composed_rigs import two_hearts
from tests.composition import rigs
from verification.comparison.comparison import compare
from verification.kills.matrix import kills, runnable
from verification.kills.random_kills import random_kills


@pytest.mark.parametrize(
    ("made", "protocol", "available"),
    [
        (rigs.dish, "stand-by", {"stand-by"}),
        (rigs.two_plates, "stand-by", {"stand-by"}),
        (rigs.four_hearts, "recycle", set(shipped()) - {"dialyse", "change-wells"}),
    ],
    ids=["dish", "two_plates", "four_hearts"],
)
def test_check_says_which_protocols_a_rig_supports(
    made: rigs.Made, protocol: str, available: set[str], tmp_path: Path
) -> None:
    path = made(tmp_path)
    answer = check_rig(path)
    assert answer["ok"], answer["problems"]
    assert {name for name, lacks in answer["recipes"].items() if not lacks} == available
    assert preferred(load_checked_rig(path, models=MODELS)) == protocol
    assert runnable(shipped(), path) == sorted(available)


def test_a_dish_is_simulated_and_planned_without_a_protocol(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = rigs.dish(tmp_path)
    answer = simulate(path, days=0.25)
    assert (answer["protocol"], answer["run_state"], answer["violations"]) == ("stand-by", "running", [])
    assert answer["true_loop"] is None
    assert answer["true_chambers"]["dish"]["viability"] > 0.9
    text = as_text(answer)
    assert "not scored: no heart draws from a loop" in text
    assert "grades" not in text
    assert "recycled" not in text
    assert "dish          lactate" in text
    assert main(["plan", str(path), "--for", "6h", "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert (planned["protocol"], planned["hours"], planned["feasible"]) == ("stand-by", 6.0, True)
    assert planned["volumes"]["dish"]["end_ml"] < planned["volumes"]["dish"]["start_ml"] + 1e-9
    assert "fresh medium" not in plan_text(planned)


def test_two_plates_are_simulated_with_a_line_for_each(tmp_path: Path) -> None:
    answer = simulate(rigs.two_plates(tmp_path), days=0.1)
    assert (answer["protocol"], answer["violations"], answer["grade_counts"]["D"]) == ("stand-by", [], 0)
    text = as_text(answer)
    assert [name in text for name in ("loop (true)", "plate_a", "plate_b", "grades")] == [True, True, True, False]


@pytest.mark.long
def test_four_hearts_recycle_the_medium_of_one_loop(tmp_path: Path) -> None:
    path = rigs.four_hearts(tmp_path)
    answer = simulate(path, params={"batch": "4 mL", "min_batch": "4 mL", "every": "1 h"}, days=0.1, timeline=True)
    assert (answer["protocol"], answer["violations"]) == ("recycle", [])
    assert answer["recycled_ml"] > 3.0
    assert min(chamber["viability"] for chamber in answer["true_chambers"].values()) > 0.95
    flows = simulate(path, protocol="circulate", params={"time": "10 min", "every": "10 min"}, days=0.02, timeline=True)
    read = [step["text"] for step in flows["steps"] if step["verb"] == "measure"]
    assert read[:4] == [f"measure icc.c{number}.flow" for number in range(1, 5)]
    assert flows["run_state"] == "complete"


@pytest.mark.parametrize("made", [rigs.dish, rigs.four_hearts], ids=["dish", "four_hearts"])
def test_a_period_of_any_rig_is_reported_and_exported(made: rigs.Made, tmp_path: Path) -> None:
    path, data, page = made(tmp_path), tmp_path / "data", tmp_path / "report.html"
    simulate(path, days=0.05, data=data)
    answer = report(path, data, begin="begin", end="end", html_path=page)
    assert "kidney" in answer["organs"] or made is rigs.dish
    text = page.read_text(encoding="utf-8")
    assert ("batches graded" in text, "scheduled fresh medium saved" in text) == (
        made is rigs.four_hearts,
        made is rigs.four_hearts,
    )
    export_records(path, data, tmp_path / "out", begin=None, end=None, zone=None, formats=("csv",))
    assert (tmp_path / "out" / "history.csv").stat().st_size > 1000


def test_what_a_rig_does_not_support_is_refused_with_one_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = rigs.dish(tmp_path)
    refused: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: simulate(path, protocol="recycle"), UnavailableError, "recycle: the rig has no kidney"),
        (lambda: plan(path, protocol="exchange", params={}, hours=2, seed=1), ParamError, "exchange: the rig has no"),
        (lambda: simulate(path, tended=True, assay_every_d=1.0), UserError, "no loop whose medium"),
        (
            lambda: compare(path, protocols=["recycle", "exchange"], days=1, seeds=2, jobs=1, progress=False),
            UnavailableError,
            "recycle: the rig has no kidney",
        ),
        (lambda: kills(["recycle"], rig=path), UserError, "does not support recycle. Next: choose among stand-by"),
        (lambda: random_kills(1, seed=1, rig=path), UserError, "a strike needs a heart, a kidney and a liver"),
    ]
    for work, kind, words in refused:
        with pytest.raises(kind, match=words):
            work()
    assert main(["simulate", str(path), "--protocol", "recycle", "--days", "0.1"]) != 0
    said = capsys.readouterr().err
    assert "recycle: the rig has no kidney" in said
    assert "Traceback" not in said


def test_a_time_has_a_unit(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["simulate", "rig.yaml", "--for", "2"])
    assert "--for" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["simulate", "rig.yaml", "--for", "2d", "--days", "2"])


def test_one_array_is_permitted_what_the_strictest_tissue_permits() -> None:
    rig = two_hearts()
    young, old = rig.tissue.values()
    old = old.model_copy(update={"age_d": 150.0, "capacity": "advanced"})
    said = tissue_said([young, old])
    assert (said["age_d"], said["capacity"], said["review"]) == (150.0, "advanced", None)
    assert tissue_said([young])["capacity"] == "ordinary"


def test_a_python_protocol_that_names_an_unknown_heart_is_refused_for_that(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        'NAME = "mine"\nTITLE = "A test"\nPARAMS = ()\n'
        "async def protocol(lab, params):\n"
        '    await lab.heart.flow(heart="left")\n',
        encoding="utf-8",
    )
    with pytest.raises(RunnerError, match=r"has no heart “left”. Next: leave the name out") as refused:
        simulate(rigs.dish(tmp_path), protocol=str(file), days=0.01)
    assert "too full or too empty" not in str(refused.value)
