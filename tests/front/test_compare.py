"""`choroid verify comparison`: paired differences and agreement by known numbers, a short one that is taken up again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from choroid.common.failure import UserError
from choroid.simulation.twin import write_twin
from controller.ledger.saving import bound_ul
from sim.plant.parameters import PlantParameters
from verification.comparison import comparison
from verification.comparison.comparison import agreement, as_text, case, compare, key, paired, run, summary

BENCH = Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml"


def test_paired_differences_have_students_interval() -> None:
    found = paired([1.0, 2.0, 3.0, 4.0])
    assert found["mean"] == 2.5
    # t(0.975, 3) = 3.1824, sd = 1.29099, n = 4
    assert found["low"] == pytest.approx(2.5 - 3.1824 * 1.29099 / 2, abs=1e-3)
    assert found["high"] == pytest.approx(2.5 + 3.1824 * 1.29099 / 2, abs=1e-3)
    assert paired([0.3]) == {"mean": 0.3, "low": None, "high": None}


def sample(viability: float, truth: float) -> dict[str, float]:
    return {"viability": viability, "low": viability - 0.05, "high": viability + 0.05, "viability_true": truth}


def test_the_estimate_is_set_against_the_truth() -> None:
    rising = agreement([sample(0.1 * n, (0.1 * n) ** 2) for n in range(11)])
    assert rising["spearman"] == 1.0
    assert sum(row["samples"] for row in rising["bins"]) == 11
    assert rising["bins"][-1]["samples"] == 2
    assert rising["truth_in_interval"] == pytest.approx(2 / 11, abs=1e-4)
    assert agreement([sample(0.5, 0.9), sample(0.5, 0.8)])["spearman"] is None


def run_of(arm: str, seed: int, fresh_ml: float, truth: float, tissue: str = "reference") -> dict[str, Any]:
    state = {"lactate_mm": 5.0, "ammonia_mm": 0.3, "insulin": 0.9}
    return {
        "arm": arm, "seed": seed, "tissue": tissue, "bound_ml": 20.0, "fresh_medium_ml": fresh_ml, "stocks_ml": 0.0,
        "dialysate_ml": 0.0, "discarded_ml": 0.0,
        "consumables_eur": 1.0, "viability_true": truth, "violations": [], "holds": [], "tended": [], "actions": {},
        "samples": [sample(0.9, truth) | state],
    }  # fmt: skip


def test_arms_are_paired_by_seed() -> None:
    results = [
        run_of("a", 1, 30.0, 0.99),
        run_of("b", 1, 100.0, 0.98),
        run_of("a", 2, 20.0, 0.97),
        run_of("b", 2, 50.0, 0.96),
    ]
    answer = summary(results, ("a", "b"))
    assert answer["reference"] == "b"
    assert answer["pairs"]["a"]["fresh_ratio"]["mean"] == pytest.approx(0.35)
    assert answer["pairs"]["a"]["viability_true_end"]["mean"] == pytest.approx(0.01)
    assert answer["arms"]["a"]["fresh_medium_ml"] == 25.0


def test_an_arm_is_judged_by_the_tissue_that_it_serves_worst_and_by_the_mass_balance() -> None:
    results = [
        run_of("a", 1, 30.0, 0.99),
        run_of("b", 1, 100.0, 0.98),
        run_of("a", 1, 20.0, 0.90, "chronic"),
        run_of("b", 1, 50.0, 0.97, "chronic"),
    ]
    answer = summary(results, ("a", "b"))
    assert answer["arms"]["a"]["bound_ratio"] == pytest.approx((30.0 / 20.0 + 20.0 / 20.0) / 2)
    assert answer["pairs"]["a"]["worst_tissue"] == answer["arms"]["a"]["worst_tissue"] == "chronic"
    assert answer["pairs"]["a"]["viability_true_mean_by_tissue"]["chronic"]["mean"] == pytest.approx(-0.07)
    assert bound_ul(lactate_made_umol=1200.0, limit_mm=10.0, circulating_ul=50_000.0) == 70_000.0
    assert bound_ul(lactate_made_umol=100.0, limit_mm=10.0, circulating_ul=50_000.0) == 0.0, "the pool still takes it"


@pytest.mark.long
def test_an_infected_culture_is_a_tissue_of_a_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its medium is contaminated from the start; with a hundred million in a mL the tissue suffers within hours."""
    monkeypatch.setattr(comparison, "INFECTED_PER_ML", 1e8)
    clean = run(case(BENCH, "exchange", 1, 0.1))
    infected = run(case(BENCH, "exchange", 1, 0.1, "reference+infection"))
    assert infected["viability_true"] < clean["viability_true"] - 0.1
    assert key(clean) != key(infected)
    answer = summary([clean, infected], ("exchange",))
    assert answer["arms"]["exchange"]["worst_tissue"] == "reference+infection"


def test_an_unknown_tissue_with_an_infection_is_told() -> None:
    with pytest.raises(UserError, match=r"other.*choose among reference"):
        compare(BENCH, protocols=["recycle", "exchange"], days=1, seeds=1, jobs=1, tissues=["other+infection"])


def test_what_makes_no_sense_is_told() -> None:
    with pytest.raises(UserError, match="two arms or more"):
        compare(BENCH, protocols=["recycle"], days=1, seeds=1, jobs=1)
    with pytest.raises(UserError, match="--seeds of 1 or more"):
        compare(BENCH, protocols=["recycle", "exchange"], days=1, seeds=0, jobs=1)
    with pytest.raises(UserError, match="choose among reference, ageing, chronic, necrotic_core"):
        compare(BENCH, protocols=["recycle", "exchange"], days=1, seeds=1, jobs=1, tissues=["reference", "other"])


def test_a_kept_run_belongs_to_a_twin_by_its_content(tmp_path: Path) -> None:
    """A file that was written again is another twin; the same twin elsewhere is not."""

    def of(file: Path) -> dict[str, Any]:
        return case(BENCH, "recycle", 1, 1.0, str(file))

    twin, moved = tmp_path / "twin.yaml", tmp_path / "moved.yaml"
    write_twin(twin, PlantParameters(water_loss=1.0), {"rig": "bench"})
    first = of(twin)
    kept = key(json.loads(json.dumps({**first, "rig_sha256": "0"})))
    write_twin(twin, PlantParameters(water_loss=2.0), {"rig": "bench"})
    assert key({**of(twin), "rig_sha256": "0"}) != kept
    write_twin(moved, PlantParameters(water_loss=1.0), {"rig": "the same, from another folder"})
    assert key({**of(moved), "rig_sha256": "0"}) == kept
    former = {name: value for name, value in first.items() if name != "tissue_content"}
    assert key({**former, "rig_sha256": "0"}) != kept, "a run that does not say which twin it was is another run"
    with pytest.raises(UserError, match="was written again while the comparison ran"):
        run(first)


@pytest.mark.long
def test_a_comparison_is_taken_up_where_it_ended_and_gives_the_same(tmp_path: Path) -> None:
    def go() -> dict[str, Any]:
        return compare(
            BENCH,
            protocols=["recycle", "exchange"],
            days=0.02,
            seeds=1,
            jobs=2,
            resume=tmp_path / "kept",
            svg=tmp_path / "figure.svg",
            progress=False,
        )

    first = go()
    picture = (tmp_path / "figure.svg").read_bytes()
    kept = tmp_path / "kept" / "runs.jsonl"
    lines = kept.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 2
    kept.write_text(lines[0] + "\n" + lines[1][:40], encoding="utf-8")  # cut off in the middle of the second
    second = go()
    assert (first["resumed"], second["resumed"]) == (0, 1)
    assert first["arms"] == second["arms"]
    assert first["pairs"] == second["pairs"]
    assert (tmp_path / "figure.svg").read_bytes() == picture
    assert second["arms"]["exchange"]["violations"] == 0
    json.dumps(second, allow_nan=False)
    assert second["pairs"]["recycle"]["fresh_ratio"]["mean"] == 0.0
    assert "0.0 % of the reference's" in as_text(second)
