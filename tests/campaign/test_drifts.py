"""Drift of each single probe: comparison keeps the tissue warm and names the probe; without it the judge finds harm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controller.rig.families import points_of
from verification.campaign.campaign import work
from verification.campaign.drifts import BEGIN_S, drift_trials, drifts, outcome, shipped_rigs, text_of
from verification.campaign.world import AGREEMENT, Trial, rig_of

BENCH = next(path for path in shipped_rigs() if path.stem == "bench")
DAYS = 3.0 / 24.0


def of_probe(point: str, sign: int, *, without: str | None = None, days: float = DAYS) -> Trial:
    trials = drift_trials(BENCH, days=days, seed=5, without=without)
    return next(each for each in trials if each.faults[0].target == point and each.faults[0].amount * sign > 0)


@pytest.mark.long
def test_I10_the_drift_of_the_only_chamber_probe_of_the_bench_does_no_harm() -> None:
    text = (
        '{"seed":33,"hours":4,"protocol":"recycle","params":{"batch":"8 mL","min_batch":"8 mL","every":"1 h"},"faults":['
        '{"kind":"drift","target":"t_chamber.temperature","at_s":300,"for_s":14000,"amount":-20}]}'
    )
    result = work(text)
    assert result["violations"] == []
    # What is warmer takes more oxygen, so that it reaches less deep: 0.04 of 0.97 in four hours.
    assert result["viability"] > 0.92
    assert any(each.startswith("probe_disagreement") and "t_chamber" in each for each in result["raised"])


@pytest.mark.long
@pytest.mark.parametrize(("point", "sign"), [("t_chamber.temperature", 1), ("ph_loop.ph", -1)])
def test_I10_a_drift_is_named_and_does_no_harm(point: str, sign: int) -> None:
    trial = of_probe(point, sign)
    found = outcome(trial, work(trial.to_text()))
    assert found.sound, found
    assert found.violations == ()
    assert "probe_disagreement" in found.named


@pytest.mark.long
def test_the_judge_of_drifts_notices_that_nothing_is_compared() -> None:
    trial = of_probe("t_chamber.temperature", -1, without=AGREEMENT)
    found = outcome(trial, work(trial.to_text()))
    assert not found.sound
    assert any("temperature within hard limits" in each for each in found.violations)
    whole = of_probe("t_chamber.temperature", -1)
    assert outcome(whole, work(whole.to_text())).violations == ()


@pytest.mark.long
def test_each_probe_of_each_shipped_rig_drifts_up_and_down_after_the_references_are_learnt() -> None:
    for path in shipped_rigs():
        trials = drift_trials(path, days=DAYS, seed=1)
        probes = [
            point for point, kind in points_of(rig_of(trials[0])).items() if kind.quantity in ("pH", "temperature")
        ]
        drifting = [(each.faults[0].target, each.faults[0].amount > 0) for each in trials]
        assert {(probe, up) for probe in probes for up in (True, False)} <= set(drifting)
        assert len(drifting) == len(set(drifting))
        assert all(each.faults[0].at_s == BEGIN_S and each.hours * 3600.0 > each.faults[0].at_s for each in trials)


@pytest.mark.long
def test_the_command_gives_a_table_and_keeps_its_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only = [of_probe("p_filter.pressure", 1, days=0.01)]
    monkeypatch.setattr("verification.campaign.drifts.drift_trials", lambda *_, **__: only)
    answer = drifts([BENCH], days=0.01, seed=5, jobs=1, resume=tmp_path, progress=False)
    assert "p_filter.pressure" in text_of(answer)
    assert json.loads(json.dumps(answer))["violations"] == []
    assert (tmp_path / "trials.jsonl").read_text().count("p_filter") >= 1
