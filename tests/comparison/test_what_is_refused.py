"""What a comparison must not take for a result: values that were not used, counted twice, or that do not vary."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from choroid.cli import main
from choroid.common.failure import UserError
from choroid.comparison.evaluation import evaluate
from choroid.comparison.model import compare
from choroid.comparison.plan import read_plan
from choroid.comparison.power import rejected
from choroid.comparison.registration import register
from choroid.comparison.values import CultureValue
from tests.comparison.test_comparison import ALPHA, BEGIN, PLAN, drawn, timeline, written

POINT = PLAN["end_points"][0]


def of_two(folder: Path, *, suffix: str = "parquet", **point: Any) -> Path:
    """Write a plan of two cultures, `a` and `b`."""
    cultures = [{"arm": arm, "batch": "b1", "timeline": f"{arm}.{suffix}"} for arm in "ab"]
    path = folder / "plan.yaml"
    path.write_text(
        yaml.safe_dump({**PLAN, "end_points": [{**POINT, **point}], "cultures": cultures}), encoding="utf-8"
    )
    return path


@pytest.mark.parametrize("batches", [2, 6])
@pytest.mark.parametrize("effect", [0.0, 0.1])
@pytest.mark.parametrize("nested", [False, True])
def test_values_that_do_not_vary_are_no_result(batches: int, effect: float, nested: bool) -> None:
    values = [
        CultureValue(arm, f"{batch}{arm if nested else ''}", f"{batch}{arm}{n}", 0.7 + effect * (arm == "b"), 1)
        for batch in range(batches)
        for arm in ("a", "b")
        for n in range(2)
    ]
    one = compare(values, "a", "b", alpha=ALPHA)
    assert (one.method, one.p, one.low, one.high) == ("none", None, None, None)
    assert one.difference == pytest.approx(effect)
    assert "do not vary" in one.why


def test_values_that_vary_between_batches_only_are_no_certainty() -> None:
    values = [
        CultureValue(arm, str(batch), f"{batch}{arm}", float(batch) + 0.3 * (arm == "b"), 1)
        for batch in range(8)
        for arm in ("a", "b")
    ]
    assert compare(values, "a", "b", alpha=ALPHA).p is None


def test_the_spread_of_cultures_is_not_known_where_each_cell_has_one() -> None:
    one = compare(drawn(np.random.default_rng(1), 4, 1), "a", "b", alpha=ALPHA)
    assert one.p is not None
    assert one.culture_sd is None


def test_a_comparison_without_a_result_stays_in_its_family(tmp_path: Path) -> None:
    points = [{**POINT, "name": "one"}, {**POINT, "name": "none", "what": "eye.nothing", "days": [1, 4]}]
    one, none = evaluate(written(tmp_path, 0.1, end_points=points))["results"]
    assert none["p"] is None
    assert none["p_adjusted"] is None
    assert one["p_adjusted"] == pytest.approx(min(2.0 * one["p"], 1.0))


def test_a_simulated_experiment_is_tested_as_a_real_one() -> None:
    """The mixed model is singular in a share of the experiments: there the simulation tests means of batches, too."""
    random = np.random.default_rng(11)
    singular = 0
    for nested in (False, True):
        for _ in range(10):
            values = drawn(random, 8, 2, nested=nested, batch_sd=0.05)
            one = compare(values, "a", "b", alpha=ALPHA)
            assert one.p is not None
            singular += one.method != "mixed model"
            if "did not converge" in one.why:
                continue  # chance of the search, which is not simulated
            cells: dict[tuple[str, str], list[float]] = {}
            for each in values:
                cells.setdefault((each.arm, each.batch), []).append(each.value)
            arms = np.array([[cells[key] for key in sorted(cells) if key[0] == arm] for arm in "ab"])
            for away, found in ((1.01, True), (0.99, False)):
                level = min(one.p * away, 1.0 - 1e-9)
                assert rejected(arms[None], level, nested=nested, interaction=False)[0] == found, one.why
    assert singular >= 3


@pytest.mark.parametrize("first", [0, 1])
def test_records_that_two_cultures_share_in_part_are_refused(tmp_path: Path, first: int) -> None:
    timeline(tmp_path / "a.parquet", [1.0, 2.0, 3.0, 4.0], rig="one")
    timeline(tmp_path / "b.parquet", [1.0, 2.0, 3.0, 4.0][first:], rig="one", first=first)
    with pytest.raises(UserError, match="are the same records"):
        evaluate(of_two(tmp_path, days=[0, 4]))


def test_simulations_of_one_rig_that_begin_with_the_same_value_are_not_the_same_records(tmp_path: Path) -> None:
    timeline(tmp_path / "a.parquet", [1.0, 2.0, 3.0], rig="one")
    timeline(tmp_path / "b.parquet", [1.0, 2.5, 3.5], rig="one")
    (one,) = evaluate(of_two(tmp_path, days=[0, 4]))["results"]
    assert one["cultures"] == {"a": 1, "b": 1}


@pytest.mark.parametrize("other", ["a.parquet", "./a.parquet"])
def test_one_culture_is_not_taken_into_both_arms(tmp_path: Path, other: str) -> None:
    timeline(tmp_path / "a.parquet", [1.0, 2.0])
    cultures = [
        {"arm": "a", "batch": "b1", "timeline": "a.parquet"},
        {"arm": "b", "batch": "b1", "timeline": other, "culture": "chamber#0"},
    ]
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump({**PLAN, "cultures": cultures}), encoding="utf-8")
    with pytest.raises(UserError, match="named twice in the plan"):
        evaluate(path)


def test_days_and_registration_count_from_the_begin_of_the_culture(tmp_path: Path) -> None:
    """A timeline of a later period has the same days."""
    timeline(tmp_path / "a.parquet", [2.0, 3.0], first=2)
    timeline(tmp_path / "b.parquet", [7.0, 8.0], first=2)
    path = of_two(tmp_path, days=[2, 3])
    register(path, now=BEGIN.timestamp() + 86_400.0)
    answer = evaluate(path)
    assert not answer["confirmatory"], "the culture lived a day before the plan was registered"
    assert "after the first culture began (2026-01-01T00:00:00.000Z)" in answer["status"]
    assert answer["excluded"] == []
    nothing = evaluate(of_two(tmp_path, days=[0, 2]))
    assert [each["why"] for each in nothing["excluded"]] == ["0 values, 1 are needed"] * 2


def test_a_slope_needs_two_moments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arm in "ab":
        timeline(tmp_path / f"{arm}.parquet", [1.0, 2.0])
        frame = pd.read_parquet(tmp_path / f"{arm}.parquet")
        frame["utc"] = BEGIN
        frame.to_parquet(tmp_path / f"{arm}.parquet")
    path = of_two(tmp_path, days=[0, 4], summary="slope")
    assert main(["comparison", "evaluate", str(path), "--json"]) == 0
    text = capsys.readouterr().out
    assert "NaN" not in text
    assert [each["why"] for each in json.loads(text)["excluded"]] == [
        "its values are of one moment, a slope needs two"
    ] * 2


def test_a_mean_that_is_no_number_is_excluded(tmp_path: Path) -> None:
    timeline(tmp_path / "a.parquet", [1e308, 1.5e308])
    timeline(tmp_path / "b.parquet", [1.0, 2.0])
    (one,) = evaluate(of_two(tmp_path, days=[0, 4]))["excluded"]
    assert one["why"] == "the mean of its values is no finite number"


def test_a_csv_file_keeps_its_texts(tmp_path: Path) -> None:
    for arm in "ab":
        timeline(tmp_path / f"{arm}.csv", [1.0, 2.0], unit="1", rig=f"00{arm}")
    (one,) = evaluate(of_two(tmp_path, suffix="csv", unit="1", days=[0, 4]))["results"]
    assert one["cultures"] == {"a": 1, "b": 1}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"exclude": [{"kind": "emergency-stop", "why": "stood"}]},
            "“emergency-stop” .* did you mean “emergency stop”",
        ),
        ({"end_points": [{**POINT, "kind": "picture"}]}, "“picture” is no kind of event of a timeline"),
        (
            {
                "end_points": [
                    {**POINT, "summary": "last", "power": {"effect": 1, "batch_sd": 1, "culture_sd": 1, "values": 9}}
                ]
            },
            "power.values above 1 is for a mean",
        ),
    ],
)
def test_a_plan_that_would_never_apply_is_refused(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump({**PLAN, **change}), encoding="utf-8")
    with pytest.raises(UserError, match=told):
        read_plan(path)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_table_that_is_no_timeline_is_refused(tmp_path: Path, suffix: str) -> None:
    path = of_two(tmp_path, suffix=suffix)
    frame = pd.DataFrame({"utc": [1], "value": [2.0]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    with pytest.raises(UserError, match=r"is no timeline: it has no column culture.*Next: make it with"):
        evaluate(path)
    (tmp_path / f"a.{suffix}").write_bytes(b"PAR1 \xff\xfe damaged")
    with pytest.raises(UserError, match="Next: make it with"):
        evaluate(path)


@pytest.mark.parametrize("row", ["{}", "[1]", '{"sha256": "a"}', '{"sha256": "a", "utc": "soon"}'])
def test_a_damaged_registration_is_told(tmp_path: Path, row: str) -> None:
    path = written(tmp_path, 0.5)
    path.with_name("plan.yaml.registered.jsonl").write_text(row + "\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"the registration .* cannot be read: .* Next: restore it"):
        evaluate(path)


@pytest.mark.parametrize("trials", ["0", "-1", "x"])
def test_a_number_of_trials_is_above_zero(tmp_path: Path, trials: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["comparison", "simulate", str(tmp_path / "plan.yaml"), "--trials", trials])
    assert "write a whole number, 1 or more" in capsys.readouterr().err


def test_a_missing_package_for_parquet_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def installed(module: str) -> Any:
        if module == "pyarrow":
            raise ModuleNotFoundError(module, name=module)
        return importlib.import_module(module)

    monkeypatch.setattr("choroid.common.extras.import_module", installed)
    timeline(tmp_path / "a.parquet", [1.0, 2.0])
    with pytest.raises(UserError, match=r'pip install "choroid\[data\]", or export it as \.csv'):
        evaluate(of_two(tmp_path))
