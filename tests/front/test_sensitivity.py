"""`choroid verify sensitivity`: the analysis says what really changes, the same for the same seed."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from choroid.cli import main
from choroid.common.failure import UserError
from controller.core.clock import Clock
from controller.journal.journal import Journal
from protocols import activity, care_rating, welfare
from protocols.happiness import happiness
from verification.sensitivity.analysis import PROPOSED, reweighted, sensitivity, spearman
from verification.sensitivity.example_days import EXAMPLE_DAYS

BENCH = Path(__file__).parents[2] / "examples" / "rigs" / "bench.yaml"


def test_example_days_are_ordered_as_a_person_would(tmp_path: Path) -> None:
    answer = sensitivity(draws=100)
    days = answer["days"]
    assert days["well"]["happiness"] == 1.0
    assert all(days["well"]["happiness"] > found["happiness"] for name, found in days.items() if name != "well")
    assert days["chilled"]["care_rating"] == 0.0
    assert days["seizure-like"]["welfare"] < days["well"]["welfare"]
    assert answer["versions"] == ["care-rating-3", "activity-1", "welfare-1", "happiness-1"]


def test_every_weight_and_input_has_a_row_and_corners_without_end_have_none() -> None:
    rows = sensitivity(draws=10)["tornado"]
    names = {kind: {row["name"] for row in rows if row["kind"] == kind} for kind in ("weight", "corner", "missing")}
    assert len(names["weight"]) == len(care_rating.WEIGHTS) + len(welfare.WEIGHTS) + len(activity.WEIGHTS)
    assert "activity.active_ratio.zero_high" not in names["corner"]
    assert "care_rating.ldh.zero_high" in names["corner"]
    assert {"temperature_c", "ldh", "rate_z", "rest_h"} <= names["missing"]
    assert [row["swing"] for row in rows] == sorted((row["swing"] for row in rows), reverse=True)
    assert all(row["happiness"][0] <= row["happiness"][1] for row in rows if row["kind"] == "missing")


def test_a_rig_that_measures_less_has_less_to_go_by() -> None:
    full, measured = sensitivity(draws=10)["nominal"], sensitivity(BENCH, draws=10)["nominal"]
    assert measured["care_rating"] < full["care_rating"]


def test_weights_vary_and_still_sum_to_one() -> None:
    changed = reweighted(PROPOSED.care_rating, {"ldh": 1.5})
    assert sum(changed.values()) == pytest.approx(1.0)
    assert changed["ldh"] / changed["grade"] == pytest.approx(1.5 * 0.20 / 0.15)


def test_the_quick_table_gives_what_the_scores_give() -> None:
    """The draws use arrays; as proposed they must agree with the functions themselves."""
    from verification.sensitivity.analysis import Moment, _Table

    moments = [Moment(name, *parts) for name, parts in EXAMPLE_DAYS.items()]
    quick = _Table(moments).happiness(PROPOSED.care_rating, PROPOSED.welfare, PROPOSED.activity)
    slow = [happiness(care_rating.care_rating(m.vitals), welfare.welfare(m.treated)).score for m in moments]
    assert quick == pytest.approx(slow, abs=2e-6)


def test_ranks_are_the_same_for_the_same_seed() -> None:
    first, again, other = (sensitivity(seed=seed, draws=50)["ranks"] for seed in (1, 1, 2))
    assert first == again != other
    assert -1.0 <= first["spearman"][0] <= first["spearman"][1] <= first["spearman"][2] <= 1.0
    assert 0.0 <= first["swapped"] <= 1.0


def test_rank_correlation_shares_ties() -> None:
    assert spearman(np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0, 30.0])) == pytest.approx(1.0)
    assert spearman(np.array([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 1.0])) == pytest.approx(-1.0)
    assert spearman(np.array([1.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0])) == pytest.approx(0.866, abs=1e-3)
    assert spearman(np.array([1.0, 1.0]), np.array([1.0, 2.0])) == 0.0


@pytest.mark.virtual_time
async def test_journalled_days_are_scored_again(tmp_path: Path) -> None:
    journal = Journal(
        tmp_path / "journal.db", Clock(follow_system=False, epoch=datetime(2026, 1, 1, tzinfo=UTC)), durable=False
    )
    vitals, treated = EXAMPLE_DAYS["well"]
    journal.append("scores", {"care_rating": None, "welfare": None})
    journal.append("scores", {"care_rating": {"inputs": vitals.to_json()}, "welfare": {"inputs": treated.to_json()}})
    journal.close()
    answer = sensitivity(data=tmp_path, draws=10)
    assert answer["moments"] == 1
    assert answer["days"] == {"2026-01-01": {"care_rating": 1.0, "welfare": 1.0, "happiness": 1.0}}
    assert answer["ranks"]["draws"] == 0


@pytest.mark.virtual_time
async def test_a_journal_without_scores_is_told(tmp_path: Path) -> None:
    Journal(
        tmp_path / "journal.db", Clock(follow_system=False, epoch=datetime(2026, 1, 1, tzinfo=UTC)), durable=False
    ).close()
    with pytest.raises(UserError, match="no scores with their inputs"):
        sensitivity(data=tmp_path)


def test_the_command_prints_a_table_json_and_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "sensitivity", "--draws", "20", "--plots", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "care_rating.grade" in said
    assert "rank correlation" in said
    assert {path.name for path in tmp_path.iterdir()} == {"tornado.png", "days.png"}
    assert main(["verify", "sensitivity", str(BENCH), "--draws", "20", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["seed"] == 1
    assert main(["verify", "sensitivity", "--data", str(tmp_path)]) == 1
    assert "there is no journal" in capsys.readouterr().err
