"""`choroid fit`: estimate plant parameters from a laboratory's own records, and predict the part that was held out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from choroid.common.failure import UserError
from choroid.fitting.errors import ENZYMES, covariance, whitener
from choroid.fitting.findings import IMPLAUSIBLE, correlated, parameter_findings, products, rates
from choroid.fitting.model import LightTwin
from choroid.fitting.observations import MIN_SAMPLES
from choroid.fitting.posterior import FitProblem, Posterior, best_fit, fitted
from choroid.fitting.prediction import DRAWS, declining, predicted
from choroid.fitting.priors import LOSS, TISSUE, Parameter, parameters
from choroid.fitting.profile import profiles
from choroid.fitting.records import FitRecords, recorded
from choroid.fitting.residuals import MISFIT, described, doubts, residual_tests
from choroid.fitting.series import DAY_S, F8
from controller.rig.loading import load_rig
from drivers.registry import MODELS, load_third_party
from sim.plant.circulating import SeenColumn
from sim.plant.parameters import PlantParameters
from sim.plant.tissue_models import TissueKind

TOO_NARROW = (
    "with sensors of lactate or glucose on line the intervals are too narrow: in trials 81 % of them held the true value,"
    " uptake and demand came out too low (docs/fitting.md). Next: compare with a fit to assays alone"
)
ASKED_FOR = 9.0
"""Fall of the squares from which a model with loss of tissue is taken: three standard deviations for one parameter."""


@dataclass(slots=True)
class Fit:
    """A fit to some of the observations."""

    problem: FitProblem
    posterior: Posterior
    gain: float
    """Fall of the squares by a loss of tissue."""
    declines: bool
    """Whether the data ask for a loss of tissue, and less of it lives at the end by 95 % of the posterior."""
    tests: dict[str, dict[str, Any]]
    """Of the residuals, by signal."""

    @property
    def loses(self) -> bool:
        """Whether the model has a loss of tissue."""
        return self.gain > ASKED_FOR

    @property
    def describes(self) -> bool:
        """Whether model and errors explain the data, all together and each signal."""
        from scipy.stats import chi2

        count = len(self.problem.measured)
        return bool(chi2.sf(self.posterior.misfit * count, count) > MISFIT) and described(self.tests)


def fit(
    rig: Path | str,
    data: Path | str,
    *,
    begin: str | None = None,
    end: str | None = None,
    zone: str | None = None,
    names: Sequence[str] = (),
    holdout: float = 0.3,
    seed: int = 1,
    out: Path | None = None,
    svg: Path | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """Estimate the parameters of the twin of a rig from its records, and say how well it predicts what it did not see.

    Args:
        rig: The rig file.
        data: Data folder, or its journal.
        begin: Begin of the period, as for `choroid report`; by default the first record.
        end: Its end; by default the last record.
        zone: Time zone of days and times without one.
        names: Parameters to fit; the others keep the published value. By default all.
        holdout: Share of the period, at its end, that is predicted by a fit to the rest; 0 for none.
        seed: Seed of everything that is drawn at random.
        out: File for the parameters, for `choroid simulate --tissue`. Parameters that must not be used are not written.
        svg: File for a figure of data and prediction.
        progress: Whether to print the progress on standard error.

    Returns:
        The figures that `choroid fit --json` prints. Intervals are those between the 5th and the 95th percentile; without
        convergence there are none. `out` and `svg` are there if the file was written; otherwise a warning says why not.

    Raises:
        UserError: The records cannot be used, an argument is invalid, or a package is missing.
        RigError: The rig file is not sound.
    """
    if not 0.0 <= holdout < 0.9:
        raise UserError(f"--holdout {holdout:g} is not possible. Next: give a share from 0 to below 0.9")
    load_third_party()
    described = load_rig(Path(rig), models=MODELS)
    _require_possible(out, svg, holdout)
    records = recorded(described, Path(data), begin=begin, end=end, zone=zone)
    answer = fit_recorded(records, names=names, holdout=holdout, seed=seed, tell=_teller(progress))
    if out is not None:
        _write(out, answer)
    if svg is not None:
        _draw(svg, answer)
    return answer


def fit_recorded(
    records: FitRecords, *, names: Sequence[str] = (), holdout: float = 0.3, seed: int = 1, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Return the answer of :func:`fit` for records that have been read."""
    twin = LightTwin(records, parameters(records, names))
    total = covariance(records.observations)
    answer: dict[str, Any] = {
        "rig": records.rig.name,
        "from_utc": _utc(records.begin),
        "to_utc": _utc(records.begin + records.days * DAY_S),
        "days": round(records.days, 3),
        "seed": seed,
        "observations": _counts(records),
        "warnings": list(records.warnings),
    }
    answer["out_of_sample"] = _held_out(records, twin, total, holdout, seed, tell) if holdout > 0.0 else None
    tell("fit to the whole period")
    found = _fit(records, twin, total, np.ones(len(total), dtype=bool), seed, tell)
    if found.declines and answer["out_of_sample"] is not None:
        answer["out_of_sample"] = declining(answer["out_of_sample"])
    return answer | _stated(records, twin, found, seed, tell)


def _fit(
    records: FitRecords, twin: LightTwin, total: F8, known: NDArray[np.bool_], seed: int, tell: Callable[[str], None]
) -> Fit:
    """Fit to the observations that are `known`, with a loss of tissue if they ask for it."""
    measured = np.array([each.value for each in records.observations])

    def problem(dimensions: int) -> FitProblem:
        return FitProblem(
            lambda z: twin.observed(z)[:, known], measured[known], whitener(total[np.ix_(known, known)]),
            np.ones(dimensions),
        )  # fmt: skip

    usual, losing = problem(twin.dimensions - 1), problem(twin.dimensions)
    random = np.random.default_rng([seed, 0xF17])
    best, _ = best_fit(usual, random, tell)
    tell("a model with loss of tissue")
    tries = [best_fit(losing, random, tell, np.append(best, at))[0] for at in (-1.0, 1.0)]
    lost = min(tries, key=lambda z: float(losing.costs(z[None])[0]))
    gain = float(usual.costs(best[None])[0] - losing.costs(lost[None])[0])
    taken, start = (losing, lost) if gain > ASKED_FOR else (usual, best)
    posterior = fitted(taken, seed=seed, progress=tell, near=start)
    seen = [each for each, is_known in zip(records.observations, known, strict=True) if is_known]
    tests = residual_tests(seen, taken.residuals(posterior.best[None])[0])
    change = twin.living_change(posterior.draws[np.linspace(0, len(posterior.draws) - 1, DRAWS).astype(int)])
    declines = gain > ASKED_FOR and float(np.quantile(change, 0.95)) < 0.0
    return Fit(taken, posterior, gain, declines, tests)


def _held_out(
    records: FitRecords, twin: LightTwin, total: F8, holdout: float, seed: int, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Fit to the first part of the period and predict the rest."""
    cut_s = (1.0 - holdout) * records.days * DAY_S
    times = np.array([each.at_s for each in records.observations])
    known = times <= cut_s
    metabolic = np.array([each.column in (SeenColumn.LACTATE, SeenColumn.GLUCOSE) for each in records.observations])
    samples = len(np.unique(times[known & metabolic]))
    answer: dict[str, Any] = {"from_utc": _utc(records.begin + cut_s), "predicts": None, "signals": {}}
    if samples < MIN_SAMPLES or not (~known & metabolic).any():
        return answer | {
            "why_not": f"{samples} samples of lactate or glucose before, and"
            f" {int((~known & metabolic).sum())} values after; {MIN_SAMPLES} and 1 are needed"
        }
    tell("fit to the first part")
    found = _fit(records, twin, total, known, seed, tell)
    if not found.describes:
        return answer | {
            "predicts": False,
            "why_not": "the model does not describe even the part that it was fitted to",
        }
    if not found.posterior.converged:
        return answer | {"why_not": "the fit to the first part did not converge"}
    picked = np.linspace(0, len(found.posterior.draws) - 1, DRAWS).astype(int)
    courses = twin.observed(found.posterior.draws[picked])
    answer |= predicted(records.observations, known, courses, total, seed=seed)
    return declining(answer) if found.declines else answer


def _stated(records: FitRecords, twin: LightTwin, found: Fit, seed: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """Return products, parameters, their profiles and doubts; without convergence the doubts only."""
    posterior, z_median = found.posterior, np.median(found.posterior.draws, axis=0)
    warnings = [
        f"{each.name} is {abs(at):.1f} standard deviations from what is known of it. Likely cause: another rig or tissue than"
        " the rig file says, a wrong unit of an assay, a volume that was not booked"
        for each, at in zip(twin.chosen, z_median.tolist(), strict=False)
        if abs(at) > IMPLAUSIBLE and each != LOSS
    ]
    if not found.describes:
        worst = max(found.tests, key=lambda name: found.tests[name]["misfit"])
        warnings.append(
            f"the model does not describe these data: misfit {posterior.misfit:.1f} times what the errors explain,"
            f" {found.tests[worst]['misfit']:.1f} times for {worst}. Likely cause: wrong assays, medium that was not booked,"
            " another rig, an infection. Do not use the parameters"
        )
    warnings += doubts(found.tests)
    if any(each.kind == "probe" and each.column in ENZYMES for each in records.observations):
        warnings.append(TOO_NARROW)
    answer: dict[str, Any] = {
        "converged": posterior.converged,
        "describes": found.describes,
        "misfit": posterior.misfit,
        "residuals": found.tests,
        "rhat_max": float(min(posterior.rhat.max(), 99.0)),
        "ess_min": float(posterior.ess.min()),
        "draws": len(posterior.draws),
        "acceptance": posterior.acceptance,
        "decline": {"declines": found.declines, "loss_in_model": found.loses, "gain": found.gain},
        "parameters": {}, "nuisance": {}, "correlated": [], "products": [], "rates": {},
    }  # fmt: skip
    if posterior.converged:
        wide = replace(
            found.problem, precision=np.array([1.0 if each.nuisance else 0.25 for each in _fitted(twin, found)])
        )
        tell("the same with priors twice as wide")
        wider = fitted(wide, seed=seed, progress=tell, near=posterior.best)
        tell("profiles of the likelihood")
        plant = [number for number, each in enumerate(_fitted(twin, found)) if not each.nuisance]
        known = parameter_findings(
            twin, posterior, wider, dict(zip(plant, profiles(found.problem, posterior.best, plant), strict=True))
        )
        answer |= {
            "parameters": {each.name: known[each.name] for each in _fitted(twin, found) if not each.nuisance},
            "nuisance": {each.name: known[each.name] for each in _fitted(twin, found) if each.nuisance},
            "correlated": correlated(twin, posterior.draws),
            "products": products(twin, posterior.draws, known),
            "rates": rates(twin, posterior, wider),
        }
        if not wider.converged:
            warnings.append(
                "with priors twice as wide the fit did not converge, so that it is not known how much the answer depends on"
                " them. Next: fewer --parameters, or more data"
            )
    return answer | {"warnings": [*records.warnings, *warnings]}


def _fitted(twin: LightTwin, found: Fit) -> list[Parameter]:
    return twin.chosen[: found.problem.dimensions]


def plant_from(answer: dict[str, Any]) -> PlantParameters:
    """Return the plant with the medians of a fit; what was not fitted keeps its default."""
    medians = {name: each["median"] for name, each in answer["parameters"].items()}
    usual = PlantParameters()
    buffer = medians.get("buffer_mm_per_ph", usual.buffer_mm_per_ph)
    if answer["parameters"].get("buffer_mm_per_ph", {}).get("unit", "mM/pH") != "mM/pH":
        buffer = usual.buffer_mm_per_ph  # a factor on declared buffers, which the rig file states
    tissue = TissueKind(**{name: medians[name] for name in TISSUE if name in medians})
    return PlantParameters(tissue, medians.get("water_loss", usual.water_loss), buffer)


def _require_possible(out: Path | None, svg: Path | None, holdout: float) -> None:
    """Raise UserError for files that could not be written at the end of a fit, which takes minutes."""
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        what = "is a folder" if out.is_dir() else f"cannot be written: there is no folder {out.parent}"
        raise UserError(f"--out {out} {what}. Likely cause: a slip. Next: name a file in a folder that exists")
    if svg is None:
        return
    from choroid.fitting.figure import plotting

    plotting()
    if holdout == 0.0:
        raise UserError(
            "--svg shows the prediction of the part that is held out, and --holdout 0 holds none. Next: leave --svg out, or"
            " give a --holdout above 0"
        )


def _draw(svg: Path, answer: dict[str, Any]) -> None:
    """Write the figure, or a warning that there is nothing to show."""
    from choroid.fitting.figure import draw

    found = answer["out_of_sample"]
    if not found["signals"]:
        answer["warnings"].append(
            f"{svg} was not written: it shows the prediction of the part that was held out, and there is none"
            f" ({found.get('why_not', 'nothing was measured in it')}). Next: give a longer period or another --holdout"
        )
        return
    draw(svg, answer)
    answer["svg"] = str(svg)


def _write(out: Path, answer: dict[str, Any]) -> None:
    """Write the twin file, or a warning that the fit must not be used."""
    from choroid.simulation.twin import write_twin

    if not answer["describes"]:
        answer["warnings"].append(f"{out} was not written: the model does not describe these data")
        return
    if not answer["converged"]:
        answer["warnings"].append(f"{out} was not written: the fit did not converge")
        return
    write_twin(
        out,
        plant_from(answer),
        {
            "rig": answer["rig"],
            "fitted": {"from_utc": answer["from_utc"], "to_utc": answer["to_utc"], "seed": answer["seed"]},
            "predicts": None if answer["out_of_sample"] is None else answer["out_of_sample"]["predicts"],
            "declines": answer["decline"]["declines"],
            "not_identifiable": [n for n, each in answer["parameters"].items() if each["identifiable"] == "no"],
        },
    )
    answer["out"] = str(out)


def _counts(records: FitRecords) -> dict[str, int]:
    signals = [each.signal for each in records.observations]
    return {signal: signals.count(signal) for signal in dict.fromkeys(signals)}


def _teller(progress: bool) -> Callable[[str], None]:
    return (lambda text: print(f"… {text}", file=sys.stderr, flush=True)) if progress else (lambda _: None)


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
