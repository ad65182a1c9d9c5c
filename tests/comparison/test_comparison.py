"""Arms over batches and cultures: the level of the tests holds, effects are found, plans are registered before the data."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats

from choroid.audit.time_stamps import TimeAuthority
from choroid.cli import main
from choroid.common.failure import UserError
from choroid.comparison.evaluation import evaluate
from choroid.comparison.model import compare, design_of
from choroid.comparison.plan import Variation, read_plan
from choroid.comparison.power import power, rejected, simulated
from choroid.comparison.registration import register, registration_of
from choroid.comparison.values import CultureValue
from choroid.export.timeline import COLUMNS
from tests.front.test_audit_witnesses import Authority

ROOT = Path(__file__).resolve().parents[2]
ALPHA = 0.05
BEGIN = pd.Timestamp("2026-01-01T00:00:00Z")
PLAN: dict[str, Any] = {
    "comparison": 1, "name": "trial", "question": "Does it differ?", "arms": ["a", "b"], "random": ["batch"],
    "correction": "holm",
    "end_points": [
        {"name": "size", "role": "primary", "kind": "image", "what": "eye.diameter_mm", "unit": "mm", "days": [1, 3]},
        {"name": "ldh", "role": "secondary", "kind": "assay", "what": "loop.ldh", "unit": "U/L", "days": [0, 3]},
    ],
}  # fmt: skip


def drawn(
    random: np.random.Generator,
    batches: int,
    cultures: int,
    *,
    effect: float = 0.0,
    nested: bool = False,
    batch_sd: float = 1.0,
) -> list[CultureValue]:
    found = []
    for batch in range(batches):
        of_batch = random.normal(0.0, batch_sd)
        for arm in ("a", "b"):
            if nested and (arm == "a") != (batch % 2 == 0):
                continue
            for culture in range(cultures):
                value = of_batch + effect * (arm == "b") + random.normal()
                found.append(CultureValue(arm, f"b{batch}", f"{batch}{arm}{culture}", value, 1))
    return found


def of_arm(values: list[CultureValue], arm: str) -> list[float]:
    return [each.value for each in values if each.arm == arm]


def share(trials: int, **keywords: Any) -> tuple[float, float]:
    """How often the test finds an effect, and how often one that takes each culture for itself."""
    random = np.random.default_rng(5)
    found, naive = 0, 0
    for _ in range(trials):
        values = drawn(random, **keywords)
        p = compare(values, "a", "b", alpha=ALPHA).p
        assert p is not None
        found += p < ALPHA
        naive += stats.ttest_ind(of_arm(values, "a"), of_arm(values, "b")).pvalue < ALPHA
    return found / trials, naive / trials


@pytest.mark.parametrize(("batches", "trials"), [(4, 1000), (8, 120)])
def test_batches_that_differ_are_no_effect(batches: int, trials: int) -> None:
    """Within 3.3 standard errors of 5 %; the naive test finds one in a third of the experiments."""
    found, naive = share(trials, batches=batches, cultures=4, nested=True)
    assert found <= 0.05 + 3.3 * (0.05 * 0.95 / trials) ** 0.5
    assert naive > 0.2


@pytest.mark.long
@pytest.mark.parametrize("nested", [False, True])
def test_the_level_of_the_mixed_model_holds(nested: bool) -> None:
    found, _ = share(1000, batches=8, cultures=3, nested=nested)
    assert 0.05 - 0.0227 < found < 0.05 + 0.0227


def test_a_real_effect_is_found_with_its_size() -> None:
    values = drawn(np.random.default_rng(3), 8, 4, effect=2.0)
    one = compare(values, "a", "b", alpha=ALPHA)
    assert (one.method, one.design) == ("mixed model", "crossed")
    assert one.p is not None
    assert one.low is not None
    assert one.high is not None
    assert one.p < 1e-6
    assert one.low < 2.0 < one.high
    assert one.low > 1.0


def test_a_balanced_nested_experiment_is_the_analysis_of_variance() -> None:
    values = drawn(np.random.default_rng(7), 10, 3, effect=1.0, nested=True, batch_sd=2.0)
    one = compare(values, "a", "b", alpha=ALPHA)
    assert one.method == "mixed model"
    means = {arm: [] for arm in "ab"}  # type: dict[str, list[float]]
    for batch in sorted({each.batch for each in values}):
        own = [each for each in values if each.batch == batch]
        means[own[0].arm].append(float(np.mean([each.value for each in own])))
    grand = np.mean([*means["a"], *means["b"]])
    of_arms = 5 * 3 * sum((np.mean(each) - grand) ** 2 for each in means.values())
    of_batches = 3 * sum(((np.array(each) - np.mean(each)) ** 2).sum() for each in means.values()) / 8
    assert one.p == pytest.approx(float(stats.f.sf(of_arms / of_batches, 1, 8)), rel=1e-4)
    assert one.p == pytest.approx(stats.ttest_ind(means["a"], means["b"]).pvalue, rel=1e-4)


def test_a_balanced_crossed_experiment_is_the_analysis_of_variance() -> None:
    values = drawn(np.random.default_rng(8), 6, 3, effect=0.5, batch_sd=2.0)
    one = compare(values, "a", "b", alpha=ALPHA)
    assert one.method == "mixed model"
    cells = np.array(
        [[[v.value for v in values if (v.arm, v.batch) == (arm, f"b{b}")] for b in range(6)] for arm in "ab"]
    )
    fitted = cells.mean(axis=(1, 2), keepdims=True) + cells.mean(axis=(0, 2), keepdims=True) - cells.mean()
    residual = float(((cells - fitted) ** 2).sum()) / (36 - 6 - 1)
    of_arms = 18 * sum((cells[n].mean() - cells.mean()) ** 2 for n in range(2))
    assert one.p is not None
    assert one.p == pytest.approx(float(stats.f.sf(of_arms / residual, 1, 29)), rel=1e-4)
    assert rejected(cells[None], one.p * 1.01, nested=False, interaction=False).all()
    assert not rejected(cells[None], one.p * 0.99, nested=False, interaction=False).any()


def test_few_batches_no_variance_and_an_effect_by_batch_are_tested_by_means_and_it_is_said() -> None:
    random = np.random.default_rng(9)
    few = compare(drawn(random, 4, 3), "a", "b", alpha=ALPHA)
    assert (few.method, few.df) == ("paired t-test of batch means", 3.0)
    assert "fewer than 6" in few.why
    values = drawn(random, 8, 3)
    by_batch = compare(values, "a", "b", alpha=ALPHA, interaction=True)
    differences = [
        np.mean([v.value for v in values if (v.arm, v.batch) == ("b", b)])
        - np.mean([v.value for v in values if (v.arm, v.batch) == ("a", b)])
        for b in sorted({v.batch for v in values})
    ]
    assert by_batch.p == pytest.approx(stats.ttest_1samp(differences, 0.0).pvalue)
    equal = [
        CultureValue(v.arm, v.batch, v.culture, float(n % 4) + random.normal(0.0, 0.01), 1)
        for n, v in enumerate(drawn(random, 8, 4))
    ]
    singular = compare(equal, "a", "b", alpha=ALPHA)
    assert "singular" in singular.why or "did not converge" in singular.why
    assert singular.method == "paired t-test of batch means"
    alone = compare(drawn(random, 2, 3, nested=True), "a", "b", alpha=ALPHA)
    assert (alone.method, alone.p) == ("none", None)
    assert design_of(drawn(random, 2, 3)[:-3]) == "mixed"


# --- plans and timelines ---------------------------------------------------------------------------------------------------


def timeline(
    path: Path, sizes: list[float], *, stopped: bool = False, unit: str = "mm", rig: str = "", first: int = 0
) -> None:
    """Write the timeline of one culture: an image a day, from day `first` on."""
    rows = [
        {"utc": BEGIN + pd.Timedelta(days=day), "culture": "chamber#0", "kind": "image", "what": "eye.diameter_mm",
         "value": size, "unit": unit, "seq": day, "rig": rig or path.stem, "begun_utc": BEGIN, "source": "journal"}
        for day, size in enumerate(sizes, first)
    ]  # fmt: skip
    if stopped:
        rows.append({**rows[-1], "kind": "emergency stop", "what": "", "value": None, "unit": ""})
    frame = pd.DataFrame(rows, columns=[column.name for column in COLUMNS])
    frame["recorded_utc"] = frame["utc"]
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)


def written(folder: Path, effect: float, **more: Any) -> Path:
    random = np.random.default_rng(2)
    cultures = []
    for batch in range(6):
        of_batch = random.normal(0.0, 0.3)
        for arm in ("a", "b"):
            for culture in range(2):
                name = f"{batch}-{arm}-{culture}.parquet"
                size = 3.0 + of_batch + effect * (arm == "b") + random.normal(0.0, 0.1)
                timeline(folder / name, [0.0, size - 0.1, size + 0.1, 9.0])
                cultures.append({"arm": arm, "batch": f"b{batch}", "timeline": name})
    path = folder / "plan.yaml"
    path.write_text(yaml.safe_dump({**PLAN, "cultures": cultures, **more}), encoding="utf-8")
    return path


def test_a_registered_plan_is_evaluated_by_its_windows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, 0.5)
    assert main(["comparison", "evaluate", str(path), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["confirmatory"], answer["status"]) == (False, "exploratory: this plan was not registered")
    register(path, now=BEGIN.timestamp() + 1.0)
    late = evaluate(path)
    assert not late["confirmatory"]
    assert "after the first culture began (2026-01-01T00:00:00.000Z)" in late["status"]
    with pytest.raises(UserError, match="was registered at 2026-01-01T00:00:01"):
        register(path)
    path.with_name("plan.yaml.registered.jsonl").unlink()
    register(path, now=BEGIN.timestamp() - 1.0)
    answer = evaluate(path)
    assert answer["confirmatory"]
    size, ldh = answer["results"]
    assert size["difference"] == pytest.approx(0.5, abs=0.1), "the window is that of days 1 and 2"
    assert size["significant"]
    assert size["p_adjusted"] == size["p"], "one primary comparison"
    assert (ldh["method"], ldh["p"], ldh["significant"]) == ("none", None, False)
    assert [each["why"] for each in answer["excluded"]] == ["0 values, 1 are needed"] * 24
    assert main(["comparison", "evaluate", str(path)]) == 0
    said = capsys.readouterr().out
    assert f"size (primary), b − a: {size['difference']:.4g} mm" in said
    assert answer["plan_sha256"] in said
    path.write_text(path.read_text(encoding="utf-8").replace("trial", "another"), encoding="utf-8")
    assert not evaluate(path)["confirmatory"], "a plan that was changed is another one"


def test_a_registration_is_stamped_and_the_stamp_verified(tmp_path: Path) -> None:
    path = written(tmp_path, 0.5)
    server = Authority(tmp_path / "tsa")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        row = register(path, authority=TimeAuthority(server.folder / "ca.pem", server.url), now=BEGIN.timestamp() - 1.0)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    _, digest = read_plan(path)
    told = registration_of(path, digest, server.folder / "ca.pem")
    assert told is not None
    assert told.proof == "a time stamp of an authority, verified"
    assert told.utc != row["utc"], "the time is that of the authority, not of this machine's clock"
    unverified = registration_of(path, digest)
    assert unverified is not None
    assert "not verified" in unverified.proof
    assert not evaluate(path, certificates=server.folder / "ca.pem")["confirmatory"], "stamped long after the data"
    record = path.with_name("plan.yaml.registered.jsonl")
    record.write_text(record.read_text(encoding="utf-8").replace(digest, "0" * 64), encoding="utf-8")
    with pytest.raises(UserError, match="not valid"):
        registration_of(path, "0" * 64, server.folder / "ca.pem")


def test_exclusions_units_and_shared_records(tmp_path: Path) -> None:
    path = written(tmp_path, 0.0, exclude=[{"kind": "emergency stop", "why": "stood still"}])
    timeline(tmp_path / "0-a-0.parquet", [3.0] * 3, stopped=True)
    answer = evaluate(path)
    assert next(each["culture"] for each in answer["excluded"] if each["why"] == "stood still").startswith("0-a-0")
    assert answer["results"][0]["cultures"] == {"a": 11, "b": 12}
    timeline(tmp_path / "0-a-0.parquet", [3.0] * 3, unit="um")
    with pytest.raises(UserError, match=r"is in um in 0-a-0\.parquet, and in mm in the plan"):
        evaluate(path)
    for name in ("0-a-0", "0-a-1"):
        timeline(tmp_path / f"{name}.parquet", [3.0] * 3, rig="one")
    with pytest.raises(UserError, match="are the same records"):
        evaluate(path)


def test_probabilities_are_adjusted_within_their_family(tmp_path: Path) -> None:
    points = [
        {**PLAN["end_points"][0], "name": name, "role": role, "days": days}
        for name, role, days in (("one", "primary", [1, 2]), ("two", "primary", [2, 3]), ("three", "secondary", [1, 3]))
    ]
    one, two, three = evaluate(written(tmp_path, 0.1, end_points=points))["results"]
    low, high = sorted((one["p"], two["p"]))
    assert sorted((one["p_adjusted"], two["p_adjusted"])) == pytest.approx([min(2 * low, 1.0), max(2 * low, high)])
    assert three["p_adjusted"] == three["p"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"random": ["arm by batch"]}, "must be named"),
        ({"alfa": 0.05}, "alfa"),
        ({"arms": ["a", "a"]}, "names of their own"),
        ({"cultures": [{"arm": "c", "batch": "b", "timeline": "t"}]}, "no arm is called c"),
        ({"end_points": [PLAN["end_points"][1]]}, "none is primary"),
        ({"correction": "none"}, "correction"),
    ],
)
def test_a_plan_that_contradicts_itself_is_refused(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump({**PLAN, **change}), encoding="utf-8")
    with pytest.raises(UserError, match=told):
        read_plan(path)


# --- power ---------------------------------------------------------------------------------------------------------


def test_power_is_that_of_students_t() -> None:
    """With one culture per batch and arm in a nested design it is the two-sample t-test, whose power is known."""
    assumed = Variation(effect=1.0, batch_sd=0.6, culture_sd=0.8)
    trials, n = 20_000, 12
    values = simulated(np.random.default_rng(1), assumed, (trials, n, 1), effect=1.0, nested=True)
    found = rejected(values, ALPHA, nested=True, interaction=False).mean()
    limit, away = stats.t.ppf(1 - ALPHA / 2, 2 * n - 2), 1.0 / np.sqrt(2.0 / n)
    known = stats.nct.sf(limit, 2 * n - 2, away) + stats.nct.cdf(-limit, 2 * n - 2, away)
    assert found == pytest.approx(known, abs=0.011)
    none = simulated(np.random.default_rng(1), assumed, (trials, 8, 3), effect=0.0, nested=False)
    for interaction in (False, True):
        assert rejected(none, ALPHA, nested=False, interaction=interaction).mean() == pytest.approx(0.05, abs=0.006)


def test_the_example_of_the_page_has_its_power(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "statistics.md").read_text(encoding="utf-8")
    (tmp_path / "plan.yaml").write_text(re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)[0], encoding="utf-8")
    assert main(["comparison", "simulate", str(tmp_path / "plan.yaml"), "--trials", "500"]) == 0
    assert "fewest cultures for 80%" in capsys.readouterr().out
    answer = power(tmp_path / "plan.yaml", batches=(4, 8), cultures=(1, 4), trials=1000)
    by = {(each["batches"], each["cultures"]): each["power"] for each in answer["end_points"][0]["grid"]}
    assert by[4, 1] < by[8, 1] < by[8, 4]
    (tmp_path / "none.yaml").write_text(yaml.safe_dump(PLAN), encoding="utf-8")
    with pytest.raises(UserError, match="no primary end point says"):
        power(tmp_path / "none.yaml")


def test_a_pilot_tells_how_batches_and_cultures_vary(tmp_path: Path) -> None:
    pilot = written(tmp_path, 0.0)
    (one, _) = evaluate(pilot)["results"]
    assumed = {"effect": 0.2, "batch_sd": 9.0, "culture_sd": 9.0}
    later = tmp_path / "later.yaml"
    later.write_text(
        yaml.safe_dump({**PLAN, "end_points": [{**PLAN["end_points"][0], "power": assumed}]}), encoding="utf-8"
    )
    answer = power(later, batches=(6,), cultures=(2,), trials=1000, pilot=pilot)
    told = answer["end_points"][0]["assumed"]
    assert (told["batch_sd"], told["culture_sd"]) == (one["batch_sd"], one["culture_sd"])
    assert 0.05 < one["culture_sd"] < 0.15, "0.1 was drawn"
    assert answer["end_points"][0]["grid"][0]["power"] > 0.8
    assert power(later, batches=(6,), cultures=(2,), trials=1000)["end_points"][0]["grid"][0]["power"] < 0.2
    other = {**PLAN, "end_points": [{**PLAN["end_points"][0], "name": "other", "power": assumed}]}
    later.write_text(yaml.safe_dump(other), encoding="utf-8")
    with pytest.raises(UserError, match="does not tell how other varies"):
        power(later, pilot=pilot)


@pytest.mark.long
def test_simulated_cultures_are_a_pilot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole way: the twin, each batch with a drawn tissue; timelines; evaluation; power."""
    rig = str(ROOT / "examples" / "rigs" / "bench.yaml")
    cultures = []
    for batch, arm in [(batch, arm) for batch in (1, 2) for arm in ("a", "b")]:
        name = f"{batch}-{arm}"
        recipe = {"a": "exchange", "b": "recycle"}[arm]
        words = [
            "simulate",
            rig,
            "--protocol",
            recipe,
            "--days",
            "0.1",
            "--tissue",
            f"drawn-{batch}",
            "--seed",
            str(batch),
        ]
        assert main([*words, "--data", str(tmp_path / name)]) == 0
        assert main(["tissue", "export", rig, str(tmp_path / f"{name}.parquet"), "--data", str(tmp_path / name)]) == 0
        cultures.append({"arm": arm, "batch": f"b{batch}", "timeline": f"{name}.parquet"})
    point = {
        "name": "viability",
        "role": "primary",
        "kind": "look",
        "what": "oxygen_pct",
        "unit": "%",
        "days": [0, 1],
    }
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump({**PLAN, "end_points": [point], "cultures": cultures}), encoding="utf-8")
    capsys.readouterr()
    assert main(["comparison", "evaluate", str(path), "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["results"]
    assert (one["method"], one["cultures"], one["design"]) == (
        "paired t-test of batch means",
        {"a": 2, "b": 2},
        "crossed",
    )
    assert one["p"] is not None
