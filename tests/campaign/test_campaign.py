"""A small campaign: without violations on the whole stack, with them when an interlock is missing; replayed, resumed."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from choroid.cli import main
from choroid.common.failure import UserError
from controller.safety.limits import limits_of
from sim.faults.schedule import Fault
from tests.campaign.samples import MIN_FAULTS, sample
from verification.campaign import campaign as module
from verification.campaign.campaign import campaign, command, read_faults, replay, work
from verification.campaign.report import as_text
from verification.campaign.world import Trial, draw_trial, interlocks, limits_without, rig_of


class _Inline(Executor):
    """Runs at once, in this process: another one takes seconds to begin."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@pytest.mark.long
def test_I7_a_sample_campaign_breaks_nothing_and_without_an_interlock_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    words = sample()
    whole = campaign(**words, jobs=1, progress=False)
    assert whole["violations"] == []
    assert whole["runs"] == 2
    assert whole["faults_injected"] >= MIN_FAULTS
    assert whole["by_kind"]["heart_occlusion"]["injected"] >= 1
    assert whole["simulated_s"] >= 2 * 0.04 * 86_400
    assert whole["checks"] > 2 * 0.04 * 86_400 / 5

    monkeypatch.setattr(module, "_executor", lambda jobs, ray: contextlib.nullcontext(_Inline()))
    broken = campaign(**words, jobs=1, progress=False, without="over_pressure_heart", shrinking=False)
    assert broken["failed_runs"] >= 1
    found = {failure["invariant"]: failure["text"] for failure in broken["violations"]}
    assert set(found) >= {"pressure within hard limits", "every alarm that should be"}
    assert found["pressure within hard limits"].startswith("heart has been above")
    assert "heart_occlusion" in found["every alarm that should be"]
    assert broken["violations"][0]["replay"].startswith("choroid verify campaign --replay '{")
    assert "VIOLATION" in as_text(broken)


@pytest.mark.long
def test_E6_a_trial_replayed_from_its_text_gives_the_same_journal(tmp_path: Path) -> None:
    faults = (
        Fault("kill", "host", 120.0, 0.0, 5.0),
        Fault("stall", "host", 720.0, 8.0),
        Fault("garble", "sim:rs485", 500.0, 200.0, 0.1),
        Fault("disk_slow", "host", 800.0, 30.0, 0.2),
    )
    trial = draw_trial(3, 0, days=0.02, faults=faults)
    first = work(trial.to_text())
    assert first["lives"] == 3, "killed once by the fault and once by the guard, for its silence"
    assert first["violations"] == []
    kept = tmp_path / "trial.json"
    kept.write_text(trial.to_text())
    again = replay(str(kept))
    assert again["journal_sha256"] == first["journal"]
    assert again["faults_injected"] == 4
    other = work(trial.with_faults(faults[1:]).to_text())
    assert other["journal"] != first["journal"]


class _Here(Executor):
    """Runs nothing anywhere else."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.texts.append(args[0])
        future: Future[Any] = Future()
        result = {
            "trial": args[0],
            "violations": [],
            "faults": {"stall": 2},
            "simulated_s": 10.0,
            "lives": 2,
            "refused": "",
        }
        result |= {"rows": 5, "alarms": 1, "looks": 2, "cycles": 1, "viability": 0.9}
        future.set_result(result)
        return future


def test_finished_trials_are_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = _Here()

    @contextlib.contextmanager
    def executor(jobs: int, ray: str | None) -> Iterator[Executor]:
        yield here

    monkeypatch.setattr(module, "_executor", executor)
    words: dict[str, Any] = {"days": 0.02, "seed": 9, "jobs": 1, "resume": tmp_path, "progress": False}
    first = campaign(runs=3, **words)
    assert (first["resumed"], len(here.texts)) == (0, 3)
    with (tmp_path / "trials.jsonl").open("a") as file:
        file.write('\n{"trial": "cut of')
    second = campaign(runs=5, **words)
    assert (second["resumed"], len(here.texts)) == (3, 5), "a line that was cut off spoils nothing"
    assert second["runs"] == 5
    assert second["by_kind"] == {"stall": {"injected": 10, "trials": 5, "trials_with_violations": 0}}
    assert campaign(runs=5, **words)["resumed"] == 5
    assert len(set(here.texts)) == 5
    with pytest.raises(UserError, match="another campaign"):
        campaign(runs=5, **(words | {"seed": 10}))


def test_the_same_seed_draws_the_same_trials_and_another_draws_others() -> None:
    drawn = [draw_trial(1, number, days=0.1).to_text() for number in range(8)]
    assert drawn == [draw_trial(1, number, days=0.1).to_text() for number in range(8)]
    assert len(set(drawn)) == 8
    assert drawn[0] != draw_trial(2, 0, days=0.1).to_text()
    for text in drawn:
        trial = Trial.from_text(text)
        assert trial.to_text() == text
        assert all(fault.at_s + fault.for_s <= 0.1 * 86_400 for fault in trial.faults)


def test_every_rig_that_is_drawn_is_sound() -> None:
    seeds = np.random.default_rng(8).integers(0, 10_000, 40)
    protocols = {_sound(int(seed)) for seed in seeds}
    assert protocols == {"recycle", "exchange"}


def _sound(seed: int) -> str:
    trial = draw_trial(seed, 0, days=0.1, faults=())
    assert rig_of(trial).simulated
    return trial.protocol


def test_an_interlock_is_taken_away_and_nothing_else() -> None:
    rig = rig_of(draw_trial(1, 0, days=0.1, faults=()))
    whole = limits_of(rig)
    assert limits_without(rig, None) == whole
    for name in interlocks(rig):
        assert limits_without(rig, name) != whole, name
    left = limits_without(rig, "temperature")
    assert {rule.name for rule in whole.interlocks} - {rule.name for rule in left.interlocks} == {"temperature"}
    assert left.vessels == whole.vessels
    with pytest.raises(UserError, match="over_pressure_heart"):
        limits_without(rig, "overpressure")


def test_what_makes_no_sense_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="no trial"):
        Trial.from_text('{"seed": 1}')
    with pytest.raises(UserError, match="--runs"):
        campaign(runs=0, days=1, seed=1, jobs=1)
    path = tmp_path / "faults.json"
    path.write_text('[{"kind": "stall"}]')
    with pytest.raises(UserError, match="holds no faults"):
        read_faults(path)
    path.write_text('[{"kind": "stall", "target": "host", "at_s": 3, "for_s": 2}]')
    assert read_faults(path) == (Fault("stall", "host", 3, 2),)
    assert main(["verify", "campaign", "--replay", str(path)]) == 1
    assert "no trial" in capsys.readouterr().err


def test_a_trial_that_cannot_be_run_is_a_violation_and_hides_no_other() -> None:
    trial = Trial(
        1, 0.1, "recycle", {"batch": "8 mL", "min_batch": "8 mL", "every": "2 h"}, rig={"vessels.loop.volume": "900 mL"}
    )
    result = work(trial.to_text())
    assert [violation["invariant"] for violation in result["violations"]] == ["the trial ends"]
    assert json.loads(command(result["trial"]).partition("'")[2][:-1])["seed"] == 1
