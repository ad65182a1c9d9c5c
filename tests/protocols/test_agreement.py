"""Scores against the truth over seeds: the figures of the summary, and a short life through the whole stack."""

from __future__ import annotations

from typing import Any

import pytest

from choroid.common.failure import UserError
from choroid.sensitivity import truth
from choroid.sensitivity.agreement import as_text, over_seeds, summary
from choroid.sensitivity.truth import ScreenedFault, Trace, bottles
from tests.execution.world import BENCH


def said(score: float, low: float, high: float, of_known: float | None) -> dict[str, Any]:
    rating = {"score": score, "low": low, "high": high, "of_known": of_known, "limiting": "x", "coverage": 0.5}
    viability = {"value": 0.9, "low": 0.5, "high": 1.0}
    return {"care_rating": rating, "viability": viability, "happiness": {"score": score}}


def life(*, fall: float, blind: bool = False) -> dict[str, Any]:
    """A seed: `standing` never moves; in `dying` the truth falls by `fall` an hour and the score by half of that."""
    standing: Trace = [(hour, 0.95, said(0.2, 0.2, 1.0, 0.9)) for hour in range(4)]
    dying: Trace = [
        (hour, 0.9 - fall * hour, said(0.2 - 0.5 * fall * hour, 0.1, 0.65, None if blind else 0.9 - fall * hour))
        for hour in range(4)
    ]
    return {"rig": "bench", "faults": {"standing": truth.summary(standing), "dying": truth.summary(dying)}}


def test_figures_over_seeds() -> None:
    found = summary([life(fall=0.05), life(fall=0.1)])
    standing, dying = found["faults"]["standing"], found["faults"]["dying"]
    assert standing == {"seeds": 2, "fell": 0, "agreed": 0, "ranks": None, "covered": [1.0, 1.0]}
    assert (dying["fell"], dying["agreed"]) == (2, 2)
    assert dying["ranks"] == [1.0, 1.0, 1.0]
    assert dying["covered"] == [0.0, pytest.approx(0.125)]  # only the last look of the second seed, at 0.6
    score = found["told"]["score"]
    assert score["samples"] == 16
    assert score["spearman"] > 0.8
    assert score["truth_in_interval"] == pytest.approx(9 / 16)
    assert sum(row["samples"] for row in score["bins"]) == 16
    assert [(row["from"], row["samples"]) for row in score["bins"]] == [(0.0, 1), (0.1, 5), (0.2, 10)]
    assert score["bins"][1]["truth"] == pytest.approx((0.85 + 0.8 + 0.75 + 0.8 + 0.7) / 5)
    least, most = score["spearman_by_seed"]
    assert 0.8 < least <= most <= 1.0
    known = found["told"]["of_known"]
    assert [row["score"] <= row["truth"] for row in known["bins"]] == [True] * len(known["bins"])


def test_what_nothing_is_known_of_is_left_out() -> None:
    found = summary([life(fall=0.05, blind=True)])
    assert found["told"]["of_known"]["samples"] == 4
    assert found["told"]["of_known"]["spearman"] is None
    assert found["told"]["of_known"]["spearman_by_seed"] is None


def test_a_short_life_through_the_whole_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truth, "WARM_H", 0.3)
    poisoned = ScreenedFault("much ammonia", rig=bottles(ammonia_mm=12.0))
    found = over_seeds(BENCH, seeds=1, hours=1.0, faults=(poisoned,), progress=False)
    assert (found["rig"], found["seeds"]) == ("bench", 1)
    assert found["faults"]["much ammonia"]["fell"] == 1
    assert found["told"]["score"]["samples"] == found["told"]["of_known"]["samples"] == 5  # the one before it too
    text = as_text(found)
    assert "bench, 1 seeds" not in text
    assert "bench, 1 seed, 1 h of each fault" in text
    assert "score, all 5 looks: rank correlation with the truth" in text


@pytest.mark.parametrize("options", [{"seeds": 0, "hours": 1.0}, {"seeds": 1, "hours": 0.0}])
def test_a_trial_that_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="--seeds of 1 or more"):
        over_seeds(BENCH, **options)
