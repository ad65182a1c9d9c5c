"""The test of two arms over cultures in batches: a mixed model, or a test of batch means where that is not to be trusted.

The unit is the culture within its batch. statsmodels has neither Kenward and Roger's nor Satterthwaite's degrees of freedom,
and its normal approximation finds effects that are not there where batches are few. So t is used, with the degrees of freedom
of the stratum in which the arms differ (cultures within batches, or batches): exact for balanced data.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from choroid.common.extras import load_extra
from choroid.comparison.values import CultureValue

MIN_BATCHES = 6
"""With fewer batches the variance between them is not known well enough for a mixed model [P]."""
NO_VARIATION = 1e-9
"""Standard error over the largest value below which the values count as equal: rounding of floats is near 1e-16."""
DOUBTFUL = 0.01
"""Probability of the Shapiro–Wilk test below which residuals are called not normal."""
Design = Literal["crossed", "nested", "mixed"]


@dataclass(frozen=True, slots=True)
class ArmComparison:
    """The difference of an arm from the reference; None where it cannot be computed."""

    arm: str
    reference: str
    method: str
    why: str
    """Why this method, in words."""
    design: Design
    batches: int
    cultures: dict[str, int]
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    """Interval of 1 − alpha, not adjusted."""
    p: float | None = None
    df: float | None = None
    standardised: float | None = None
    """Difference over the standard deviation of a culture's value (batches and cultures)."""
    batch_sd: float | None = None
    culture_sd: float | None = None
    normal_p: float | None = None
    """Shapiro–Wilk test of the residuals."""
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def design_of(values: Sequence[CultureValue]) -> Design:
    """Return whether each batch has all arms, one arm, or neither holds."""
    arms = {each.arm for each in values}
    by_batch = [{each.arm for each in values if each.batch == batch} for batch in {each.batch for each in values}]
    if all(found == arms for found in by_batch):
        return "crossed"
    return "nested" if all(len(found) == 1 for found in by_batch) else "mixed"


def compare(
    values: Sequence[CultureValue], reference: str, arm: str, *, alpha: float, interaction: bool = False
) -> ArmComparison:
    """Compare an arm with the reference.

    Args:
        values: One for each culture; those of other arms are left out.
        reference: The arm with which is compared.
        arm: The other arm.
        alpha: One minus the level of the interval.
        interaction: Whether the effect of the arm may differ between batches.
    """
    some = [each for each in values if each.arm in (reference, arm)]
    design = design_of(some)
    batches = len({each.batch for each in some})
    counted = {name: sum(each.arm == name for each in some) for name in (reference, arm)}
    begin: dict[str, Any] = {
        "arm": arm,
        "reference": reference,
        "design": design,
        "batches": batches,
        "cultures": counted,
    }
    if interaction and design != "nested":
        return _batch_means(
            some, begin, alpha, "the effect may differ between batches, so a batch is one observation of it"
        )
    if batches < MIN_BATCHES:
        why = f"{batches} batches: fewer than {MIN_BATCHES} tell too little of the variance between them for a mixed model"
        return _batch_means(some, begin, alpha, why)
    fitted = _mixed(some, begin, alpha)
    if isinstance(fitted, str):
        return _batch_means(some, begin, alpha, f"the mixed model does not serve: {fitted}")
    return fitted


def statsmodels(module: str) -> Any:
    """Return a module of statsmodels. Its import uses what later releases of pandas will not have, and says so."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        name = f"statsmodels.{module}"
        return load_extra(name, "stats", needed_for="a comparison", otherwise="compare the values by other means")


def _mixed(values: Sequence[CultureValue], begin: dict[str, Any], alpha: float) -> ArmComparison | str:
    """Fit the mixed model by restricted maximum likelihood; return why it does not serve if it does not."""
    models = statsmodels("regression.mixed_linear_model")
    y = np.array([each.value for each in values])
    if float(np.ptp(y)) <= NO_VARIATION * float(np.abs(y).max()):
        return "the values do not vary"
    scale = float(y.std())
    groups = np.array([each.batch for each in values])
    x = np.column_stack([np.ones(len(y)), [float(each.arm == begin["arm"]) for each in values]])
    batches = begin["batches"]
    df = batches - 2 if begin["design"] == "nested" else len(y) - batches - 1
    if df < 1:
        return f"{len(y)} cultures in {batches} batches leave no degree of freedom"
    if batches == len(y):
        return "each batch has one culture"
    fixed = np.column_stack([x, *(groups == batch for batch in np.unique(groups))]).astype(float)
    left, _, rank, _ = np.linalg.lstsq(fixed, y / scale, rcond=None)
    if rank < len(y) and float(np.abs(y / scale - fixed @ left).max()) <= NO_VARIATION:
        return "the cultures of a batch do not vary"
    if _is_singular(y / scale, x, groups):
        return "its fit is singular (no variance between batches)"
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            fit = models.MixedLM(y / scale, x, groups=groups).fit(reml=True)
            batch_var, within_var = float(np.asarray(fit.cov_re)[0, 0]) * scale**2, float(fit.scale) * scale**2
            if within_var <= 0.0:
                return "the cultures of a batch do not vary"
            estimate, error = float(fit.fe_params[1]) * scale, float(fit.bse_fe[1]) * scale
            residuals = np.asarray(fit.resid)
        except (np.linalg.LinAlgError, ValueError) as failed:
            return str(failed)
    if not fit.converged:
        return "it did not converge"
    if batch_var <= 1e-6 * within_var or any("singular" in str(each.message) for each in told):
        return "its fit is singular (no variance between batches)"
    return ArmComparison(
        method="mixed model",
        why=f"random intercept of {batches} batches, restricted maximum likelihood, t with {df} degrees of freedom",
        **begin,
        **_tested(estimate, error, df, alpha),
        **_spread(estimate, batch_var, within_var),
        **_normal(residuals),
    )


def _is_singular(y: np.ndarray[Any, Any], x: np.ndarray[Any, Any], groups: np.ndarray[Any, Any]) -> bool:
    """Return whether the restricted likelihood falls from a variance of zero between batches on.

    The search of statsmodels ends near zero then, or does not converge. For balanced data: the mean square between batches is
    not above that within them.
    """
    project = np.eye(len(y)) - x @ np.linalg.pinv(x)
    same = (groups[:, None] == groups[None, :]).astype(float)
    residuals = project @ y
    between = float(residuals @ same @ residuals) * (len(y) - x.shape[1])
    return bool(between <= float(np.trace(project @ same)) * float(residuals @ residuals))


def _batch_means(values: Sequence[CultureValue], begin: dict[str, Any], alpha: float, why: str) -> ArmComparison:
    """Test the means of batches: paired where a batch has both arms, else Welch's test."""
    reference, arm = begin["reference"], begin["arm"]
    means = {
        (batch, name): float(np.mean(found))
        for batch, name in {(each.batch, each.arm) for each in values}
        if (found := [each.value for each in values if (each.batch, each.arm) == (batch, name)])
    }
    paired = sorted({batch for batch, _ in means if (batch, arm) in means and (batch, reference) in means})
    notes = []
    if begin["design"] == "nested":
        groups = [
            np.array([mean for (_, name), mean in sorted(means.items()) if name == each]) for each in (reference, arm)
        ]
        if min(len(group) for group in groups) < 2:
            return ArmComparison(
                method="none", why="an arm with one batch cannot be distinguished from its batch", **begin
            )
        variances = [group.var(ddof=1) / len(group) for group in groups]
        estimate, error = float(groups[1].mean() - groups[0].mean()), float(np.sqrt(sum(variances)))
        parts = sum(var**2 / (len(group) - 1) for var, group in zip(variances, groups, strict=True))
        df = float(sum(variances) ** 2 / parts) if parts else float(sum(len(group) for group in groups) - 2)
        method = "Welch's t-test of batch means"
        residuals = np.concatenate([group - group.mean() for group in groups])
    else:
        if len(paired) < 2:
            return ArmComparison(method="none", why="fewer than two batches have both arms", **begin)
        if len(paired) < begin["batches"]:
            notes.append(f"{begin['batches'] - len(paired)} batches with one arm are not used")
        differences = np.array([means[batch, arm] - means[batch, reference] for batch in paired])
        df = float(len(paired) - 1)
        estimate, error = float(differences.mean()), float(differences.std(ddof=1) / np.sqrt(len(paired)))
        method = "paired t-test of batch means"
        residuals = differences - differences.mean()
    if not error > NO_VARIATION * max(abs(each.value) for each in values):
        untold = f"{method}: the values do not vary, so that nothing says what chance does"
        return ArmComparison(method="none", why=untold, notes=tuple(notes), **begin, difference=estimate)
    batch_var, within_var = _components(values)
    return ArmComparison(
        method=method,
        why=why,
        notes=tuple(notes),
        **begin,
        **_tested(estimate, error, df, alpha),
        **_spread(estimate, batch_var, within_var),
        **_normal(residuals),
    )


def _tested(estimate: float, error: float, df: float, alpha: float) -> dict[str, Any]:
    stats = _scipy()
    half = float(stats.t.ppf(1.0 - alpha / 2.0, df)) * error
    p = float(2.0 * stats.t.sf(abs(estimate / error), df))
    return {"difference": estimate, "low": estimate - half, "high": estimate + half, "p": p, "df": df}


def _spread(estimate: float, batch_var: float, within_var: float | None) -> dict[str, Any]:
    sd = float(np.sqrt(batch_var + (within_var or 0.0)))
    told = None if sd == 0.0 else estimate / sd
    culture_sd = None if within_var is None else float(np.sqrt(within_var))
    return {"standardised": told, "batch_sd": float(np.sqrt(batch_var)), "culture_sd": culture_sd}


def _normal(residuals: np.ndarray[Any, Any]) -> dict[str, Any]:
    usable = len(residuals) >= 4 and float(np.ptp(residuals)) > 0.0
    return {"normal_p": float(_scipy().shapiro(residuals).pvalue) if usable else None}


def _components(values: Sequence[CultureValue]) -> tuple[float, float | None]:
    """Return the variance between batches (within an arm), and between cultures of a batch and arm, by moments.

    The latter is None where no batch has two cultures of an arm.
    """
    cells: dict[tuple[str, str], list[float]] = {}
    for each in values:
        cells.setdefault((each.arm, each.batch), []).append(each.value)
    freedom = sum(len(found) - 1 for found in cells.values())
    within = sum(float(np.var(found)) * len(found) for found in cells.values()) / freedom if freedom else None
    between, arms = 0.0, 0
    for arm in {arm for arm, _ in cells}:
        own = [found for (name, _), found in cells.items() if name == arm]
        if len(own) > 1:
            size = len(own) / sum(1.0 / len(found) for found in own)
            between += max(float(np.var([np.mean(found) for found in own], ddof=1)) - (within or 0.0) / size, 0.0)
            arms += 1
    return (between / arms if arms else 0.0), within


def _scipy() -> Any:
    return load_extra("scipy.stats", "stats", needed_for="a comparison", otherwise="compare the values by other means")
