"""`choroid verify kills`: boundaries, what counts as a failure, and one short trial in real processes (E4)."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from controller.recipes.catalogue import shipped
from controller.recipes.parameters import parse_params
from tests.execution.world import BENCH
from verification.kills import matrix
from verification.kills.host import OfRuns
from verification.kills.matrix import SHORT, as_text, boundaries, kills, runnable
from verification.kills.trial import Boundary, KillOutcome, compare, weigh_up

REFERENCE = KillOutcome(
    "feed",
    0,
    False,
    rows=20,
    verbs=["gut.feed", "kidney.give_back", "note"],
    asked_ul={"feed": 2000.0, "return": 2000.0},
    booked_ul={"feed": 2085.0, "return": 1950.0},
    doubt_ul={"feed": 22.0, "return": 22.0},
    moved_ul={"feed": 2080.0, "return": 1960.0, "draw": 0.0},
    questions=1,
)


def test_each_row_has_two_boundaries_and_a_sample_is_spread_over_them() -> None:
    every = boundaries(5)
    assert every[0] == Boundary(1, before=False)
    assert every[-1] == Boundary(5, before=True)
    assert len(every) == len(set(every)) == 8
    assert boundaries(5, every=3) == every[::3]
    spread = boundaries(40, sample=5)
    assert len(spread) == 5
    assert [each.row for each in spread] == sorted(each.row for each in spread)
    assert spread[0].row < 8
    assert spread[-1].row > 32
    assert boundaries(3, sample=50) == boundaries(3)


def test_rows_of_the_regulators_are_not_counted() -> None:
    counted = OfRuns()
    rows = [
        ("run.start", {}, "run-9", True),
        ("act", {"actuator": "heater", "by": "regulator:temperature"}, None, False),
        ("act.outcome", {"actuator": "heater"}, None, False),
        ("act", {"actuator": "reglo.draw", "by": "run:run-9"}, None, True),
        ("act.outcome", {"actuator": "reglo.draw"}, None, True),
        ("alarm.raised", {"alarm": "x"}, None, False),
        ("moved", {"line": "draw"}, "run-9", True),
    ]
    assert [counted.counts(kind, body, run) for kind, body, run, _ in rows] == [row[3] for row in rows]
    assert counted.rows == 4


def test_one_who_interrupts_it_waits_for_no_trial_that_has_not_begun(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begun: list[Boundary | None] = []

    def trial(rig: Path, name: str, params: object, boundary: Boundary | None, **_: object) -> KillOutcome:
        begun.append(boundary)
        if len(begun) == 2:
            raise KeyboardInterrupt
        if len(begun) > 2:
            time.sleep(0.05)
        return replace(REFERENCE, rows=500)

    monkeypatch.setattr(matrix, "trial", trial)
    with pytest.raises(KeyboardInterrupt):
        kills(["feed"], rig=BENCH, resume=tmp_path)
    assert 2 <= len(begun) < 100


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, ""),
        ({"moved_ul": {"feed": 2080.0, "return": 1960.0, "draw": 15.0}}, ""),
        ({"verbs": ["gut.feed", "gut.feed", "kidney.give_back", "note"]}, ""),
        ({"verbs": ["gut.feed", "note"]}, "a step was lost: kidney.give_back"),
        ({"questions": 0}, "1 questions, 0 of them asked"),
        (
            {
                "moved_ul": {"feed": 4160.0, "return": 1960.0, "draw": 0.0},
                "booked_ul": {"feed": 4160.0, "return": 1960.0},
            },
            "feed: 4160 µL went through it, 2140 at the most: twice",
        ),
        (
            {
                "moved_ul": {"feed": 2080.0, "return": 800.0, "draw": 0.0},
                "booked_ul": {"feed": 2085.0, "return": 800.0},
            },
            "return: 800 µL went through it, ",
        ),
        (
            {
                "moved_ul": {"feed": 2080.0, "return": 800.0, "draw": 0.0},
                "booked_ul": {"feed": 2085.0, "return": 800.0},
                "accepted_ul": {"return": 1200.0},
            },
            "",
        ),
        ({"booked_ul": {"feed": 2085.0, "return": 3900.0}}, "3900 are booked"),
        ({"verbs": [], "reached": False}, ""),
        ({"problems": ["it did not start"]}, "it did not start"),
    ],
)
def test_a_trial_is_judged_by_its_reference(changes: dict[str, object], says: str) -> None:
    outcome = replace(REFERENCE, **{"row": 7, "problems": [], **changes})  # type: ignore[arg-type]
    weigh_up(outcome)
    compare(outcome, REFERENCE)
    assert "; ".join(outcome.problems).count(says) if says else outcome.problems == []
    assert len(outcome.problems) == bool(says)


def test_steps_of_a_chamber_that_was_left_out_are_not_lost() -> None:
    outcome = replace(REFERENCE, verbs=["gut.feed"], problems=[])
    compare(outcome, REFERENCE)
    assert "a step was lost: kidney.give_back" in outcome.problems
    outcome = replace(REFERENCE, verbs=["gut.feed"], problems=[], left_out=["w05"])
    compare(outcome, REFERENCE)
    assert outcome.problems == []


def test_the_short_parameters_are_within_their_ranges() -> None:
    recipes = shipped()
    assert set(SHORT) <= set(recipes)
    for name, given in SHORT.items():
        parse_params(recipes[name], given)


def test_a_rig_is_asked_only_for_what_it_has_the_organs_for() -> None:
    names = set(shipped()) - {"change-wells"}
    assert set(runnable(shipped(), BENCH.with_name("bench_dialysis.yaml"))) == names
    assert "change-wells" in runnable(shipped(), BENCH.with_name("selector_wells.yaml"))
    assert set(runnable(shipped(), BENCH)) == names - {"dialyse"}


def test_E4_a_controller_killed_in_a_dose_by_the_command_itself(tmp_path: Path) -> None:
    """One boundary, in real processes; the whole matrix is a command's work (docs/protocols.md)."""
    words = [sys.executable, "-m", "choroid", "verify", "kills", "feed", "--sample", "1", "--speed", "60"]
    words += ["--resume", str(tmp_path), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    answer = json.loads(done.stdout)
    (row,) = answer["recipes"]
    assert (row["recipe"], row["tried"], row["passed"], row["failed"]) == ("feed", 1, 1, [])
    assert row["boundaries"] == 2 * (row["rows"] - 1)
    (folder,) = (path for path in (tmp_path / "feed").iterdir() if path.name != "reference")
    kept = json.loads((folder / "outcome.json").read_text())
    assert kept["killed"]
    assert 400.0 < kept["moved_ul"]["feed"] < 600.0
    again = kills(["feed"], rig=BENCH, sample=1, speed=60.0, resume=tmp_path)  # nothing is run a second time
    assert again == answer
    assert "all 1 passed" in as_text(again)
