"""Evaluation of a plan on its timelines: each end point and arm, with adjusted probabilities, and what was left out."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

from choroid.comparison.model import DOUBTFUL, ArmComparison, compare, statsmodels
from choroid.comparison.plan import read_plan
from choroid.comparison.registration import registration_of, standing
from choroid.comparison.values import CultureValues
from controller.core.version import software_version

CORRECTIONS = {"holm": "holm", "benjamini-hochberg": "fdr_bh"}


def evaluate(path: Path, *, certificates: Path | None = None) -> dict[str, Any]:
    """Return the result of a plan.

    Args:
        path: The plan; its timelines are relative to it.
        certificates: Those of the authority whose time stamp of the registration is verified (PEM).

    Raises:
        UserError: Plan, registration or timelines cannot be used, or the extra `stats` is not installed.
    """
    plan, digest = read_plan(path)
    values = CultureValues(plan, path.parent)
    confirmatory, status = standing(registration_of(path, digest, certificates), values.first_utc_s)
    results: list[dict[str, Any]] = []
    excluded = []
    for point in plan.end_points:
        found, left_out = values.of(point)
        excluded += [{name: getattr(each, name) for name in each.__slots__} for each in left_out]
        for arm in plan.arms[1:]:
            one = compare(found, plan.arms[0], arm, alpha=plan.alpha, interaction="arm by batch" in plan.random)
            told = {"end_point": point.name, "role": point.role, "unit": point.unit, "summary": point.summary}
            results.append(told | one.to_json() | {"checks": _checks(one)})
    for role in ("primary", "secondary"):
        _adjust([each for each in results if each["role"] == role], plan.correction, plan.alpha)
    return {
        "plan": plan.name,
        "question": plan.question,
        "plan_sha256": digest,
        "confirmatory": confirmatory,
        "status": status,
        "alpha": plan.alpha,
        "correction": plan.correction,
        "release": software_version(),
        "statsmodels": version("statsmodels"),
        "results": results,
        "excluded": excluded,
    }


def as_text(answer: dict[str, Any]) -> str:
    """Return the result for people."""
    lines = [f"{answer['plan']}: {answer['question']}", f"{answer['status']}", f"plan sha256 {answer['plan_sha256']}"]
    for each in answer["results"]:
        lines.append(f"{each['end_point']} ({each['role']}), {each['arm']} − {each['reference']}: {_figures(each)}")
        counts = ", ".join(f"{name} {count}" for name, count in each["cultures"].items())
        lines.append(
            f"  cultures {counts}; {each['batches']} batches, {each['design']}; {each['method']}: {each['why']}"
        )
        lines += [f"  {note}" for note in (*each["notes"], *each["checks"])]
    for each in answer["excluded"]:
        lines.append(
            f"excluded from {each['end_point']}: {each['culture']} ({each['arm']}, {each['batch']}): {each['why']}"
        )
    return "\n".join(lines)


def _figures(each: dict[str, Any]) -> str:
    if each["p"] is None:
        return "no result"
    unit = "" if each["unit"] == "1" else f" {each['unit']}"
    verdict = "differs" if each["significant"] else "not shown to differ"
    return (
        f"{each['difference']:.4g}{unit} ({each['low']:.4g} to {each['high']:.4g}), p {each['p']:.3g}, adjusted"
        f" {each['p_adjusted']:.3g}: {verdict}"
    )


def _checks(one: ArmComparison) -> list[str]:
    """Return what is known against the assumptions."""
    found = []
    if one.normal_p is not None and one.normal_p < DOUBTFUL:
        found.append(f"residuals are not normal (Shapiro–Wilk p {one.normal_p:.2g}): interval and p are approximate")
    if one.p is not None and one.normal_p is None:
        found.append("too few values to check whether residuals are normal")
    return found


def _adjust(results: list[dict[str, Any]], correction: str, alpha: float) -> None:
    """Add the adjusted probabilities of one family of comparisons. One without a result stays in the family, as p = 1."""
    multitest = statsmodels("stats.multitest")
    if not results:
        return
    all_p = [1.0 if each["p"] is None else each["p"] for each in results]
    for each, p in zip(results, multitest.multipletests(all_p, alpha, CORRECTIONS[correction])[1], strict=True):
        known = each["p"] is not None
        each |= {"p_adjusted": float(p) if known else None, "significant": known and bool(p <= alpha)}
