"""Scores against the truth over seeds: the figures of the summary, and a short life through the whole stack."""

from __future__ import annotations

from typing import Any

import pytest

from choroid.common.failure import UserError
from tests.execution.world import BENCH
from verification.sensitivity import truth
from verification.sensitivity.agreement import INTERVALS, as_text, over_seeds, summary
from verification.sensitivity.truth import ScreenedFault, Trace, bottles


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
    assert standing == {
        "seeds": 2,
        "viability_true_fell": 0,
        "care_rating_fell": 0,
        **{f"{score}_spearman": None for score in INTERVALS},
        **{f"{score}_truth_in_interval": [1.0, 1.0] for score in INTERVALS},
    }
    assert (dying["viability_true_fell"], dying["care_rating_fell"]) == (2, 2)
    assert dying["care_rating_spearman"] == [1.0, 1.0, 1.0]
    # only the last look of the second seed, at 0.6
    assert dying["care_rating_truth_in_interval"] == [0.0, pytest.approx(0.125)]
    assert dying["viability_truth_in_interval"] == [1.0, 1.0], "it is between 0.5 and 1 all the time"
    score = found["scores"]["care_rating"]
    assert score["samples"] == 16
    assert score["spearman"] > 0.8
    assert score["truth_in_interval"] == pytest.approx(9 / 16)
    assert sum(row["samples"] for row in score["bins"]) == 16
    assert [(row["from"], row["samples"]) for row in score["bins"]] == [(0.0, 1), (0.1, 5), (0.2, 10)]
    assert score["bins"][1]["viability_true"] == pytest.approx((0.85 + 0.8 + 0.75 + 0.8 + 0.7) / 5)
    least, most = score["spearman_by_seed"]
    assert 0.8 < least <= most <= 1.0
    known = found["scores"]["of_known"]
    assert [row["of_known"] <= row["viability_true"] for row in known["bins"]] == [True] * len(known["bins"])


def test_what_nothing_is_known_of_is_left_out() -> None:
    found = summary([life(fall=0.05, blind=True)])
    assert found["scores"]["of_known"]["samples"] == 4
    assert found["scores"]["of_known"]["spearman"] is None
    assert found["scores"]["of_known"]["spearman_by_seed"] is None


def test_a_short_life_through_the_whole_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truth, "WARM_H", 0.3)
    poisoned = ScreenedFault("much ammonia", rig=bottles(ammonia_mm=12.0))
    found = over_seeds(BENCH, seeds=1, hours=1.0, faults=(poisoned,), progress=False)
    assert (found["rig"], found["seeds"]) == ("bench", 1)
    assert found["faults"]["much ammonia"]["viability_true_fell"] == 1
    assert (
        found["scores"]["care_rating"]["samples"] == found["scores"]["of_known"]["samples"] == 5
    )  # the one before it too
    text = as_text(found)
    assert "bench, 1 seeds" not in text
    assert "bench, 1 seed, 1 h of each fault" in text
    assert "care_rating, all 5 looks: rank correlation with the truth" in text


@pytest.mark.parametrize("options", [{"seeds": 0, "hours": 1.0}, {"seeds": 1, "hours": 0.0}])
def test_a_trial_that_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="--seeds of 1 or more"):
        over_seeds(BENCH, **options)
