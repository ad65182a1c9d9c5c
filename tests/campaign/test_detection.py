"""The campaign is tested by mutation: what it draws provokes each interlock, and a missing one is reported."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from typing import Any

import numpy as np
import pytest

from controller.safety.limits import limits_of
from sim.faults.kinds import survivable
from sim.faults.schedule import Fault
from sim.faults.targets import targets
from verification.campaign import detection
from verification.campaign.provocations import PER_TRIAL, Provocation, provocations, provoke
from verification.campaign.world import Trial, draw_trial, interlocks, rig_of

TRIALS = 10
"""Within so many trials each interlock is provoked (docs/campaign.md states the measured number of the same name)."""


def _provoked_by(trial: Trial) -> set[str]:
    """The interlocks whose provocation is among the faults of `trial`."""
    rig = rig_of(trial)
    known = provocations(rig, limits_of(rig))

    def is_one(fault: Fault, each: Provocation) -> bool:
        begins = fault.kind == each.kind and fault.target == each.target
        return begins and each.for_s[0] <= fault.for_s <= each.for_s[1] and fault.amount >= each.amount[0]

    return {name for name, each in known.items() if any(is_one(fault, each) for fault in trial.faults)}


@pytest.mark.parametrize("seed", [1, 2, 97, 4711])
def test_J1_every_interlock_is_provoked_within_ten_trials_of_any_seed(seed: int) -> None:
    trials = [draw_trial(seed, number, days=0.1) for number in range(TRIALS)]
    names = set(interlocks(rig_of(trials[0])))
    assert set.union(*(_provoked_by(trial) for trial in trials)) == names


def test_provocations_are_faults_of_the_rig_and_end_in_time() -> None:
    for number in range(20):
        trial = draw_trial(5, number, days=0.05)
        rig = rig_of(trial)
        assert set(provocations(rig, limits_of(rig))) == set(interlocks(rig))
        for fault in trial.faults:
            assert fault.target in targets(fault.kind, rig)
            assert fault.at_s + fault.for_s <= 0.05 * 86_400


def test_a_mild_trial_gets_no_fault_that_may_kill_and_a_short_one_none_that_does_not_fit() -> None:
    trial = draw_trial(1, 0, days=0.1, faults=())
    rig = rig_of(trial)
    known = provocations(rig, limits_of(rig))
    rng = np.random.default_rng(3)
    for _ in range(50):
        mild = provoke(rng, known, every_s=3600.0, end_s=7200.0, returns=True, mild=True)
        assert len(mild) <= PER_TRIAL
        assert all(survivable(fault) for fault in mild)
        assert provoke(rng, known, every_s=3600.0, end_s=30.0, returns=True, mild=False) == []
        held = provoke(rng, known, every_s=3600.0, end_s=7200.0, returns=False, mild=False)
        assert "clogged_filter" not in {fault.kind for fault in held}


class _Pool(Executor):
    """Answers for each trial with what `judge` says of it; runs nothing."""

    def __init__(self, judge: Callable[[int, str | None], list[str]]) -> None:
        self._judge = judge
        self._numbers: dict[int, int] = {}
        self.asked: list[tuple[int, str | None]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        trial = Trial.from_text(args[0])
        number = self._numbers.setdefault(trial.seed, len(self._numbers))
        self.asked.append((number, trial.without))
        future: Future[Any] = Future()
        found = [{"invariant": name, "text": f"{name} broke"} for name in self._judge(number, trial.without)]
        future.set_result({"violations": found})
        return future


def _detect(monkeypatch: pytest.MonkeyPatch, judge: Callable[[int, str | None], list[str]]) -> tuple[Any, _Pool]:
    pool = _Pool(judge)

    @contextlib.contextmanager
    def workers(jobs: int) -> Iterator[Executor]:
        yield pool

    monkeypatch.setattr(detection, "workers", workers)
    return detection.detect(runs=4, days=0.1, seed=1, jobs=1), pool


def test_J1_an_interlock_whose_absence_is_not_found_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(number: int, without: str | None) -> list[str]:
        return ["gas"] if without not in (None, "volumes") and number == 2 else []

    answer, pool = _detect(monkeypatch, judge)
    assert not answer["detected_all"]
    assert answer["detected"]["volumes"] is None
    assert answer["detected"]["mixture"] == {"trial": 3, "invariant": "gas", "text": "gas broke"}
    assert answer["max_trials"] == 3
    assert (3, "mixture") not in pool.asked, "one that is found is not looked for any more"
    assert "NOT FOUND" in detection.as_text(answer)


def test_J1_a_trial_that_fails_with_every_interlock_detects_none(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, _ = _detect(monkeypatch, lambda number, without: ["books"])
    assert not answer["detected_all"]
    assert [each["invariant"] for each in answer["violations"]] == ["books"] * 4
    assert "VIOLATION with every interlock" in detection.as_text(answer)
