"""`choroid fit`: estimate plant parameters from a laboratory's own records, and predict the part that was held out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from choroid.common.failure import UserError
from choroid.fitting.errors import covariance, whitener
from choroid.fitting.model import LightTwin
from choroid.fitting.observations import MIN_SAMPLES
from choroid.fitting.posterior import FitProblem, Posterior, fitted
from choroid.fitting.prediction import DRAWS, predicted
from choroid.fitting.priors import TISSUE, Parameter, parameters
from choroid.fitting.records import FitRecords, recorded
from choroid.fitting.series import DAY_S, F8
from controller.rig.loading import load_rig
from drivers.registry import MODELS, load_third_party
from sim.plant.circulating import SeenColumn
from sim.plant.parameters import PlantParameters
from sim.plant.tissue_models import TissueKind

LEVEL = (0.05, 0.5, 0.95)
UNIDENTIFIED = 0.9
"""Standard deviation over that of the prior from which a parameter counts as not identifiable."""
WEAK = 0.6
IMPLAUSIBLE = 2.5
"""Standard deviations of the prior from which a value is reported as one to doubt."""
CORRELATED = 0.7
MISFIT = 0.001
"""Probability of so large a misfit from which the model does not describe the data."""


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
        names: Parameters to fit; the others keep the median of their prior. By default all.
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
    chosen = parameters(records, names)
    twin = LightTwin(records, chosen)
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
    posterior = _posterior(records, twin, total, np.ones(len(total), dtype=bool), seed, tell)
    return answer | _described(records, twin, posterior, chosen)


def _posterior(
    records: FitRecords, twin: LightTwin, total: F8, known: NDArray[np.bool_], seed: int, tell: Callable[[str], None]
) -> Posterior:
    measured = np.array([each.value for each in records.observations])
    problem = FitProblem(
        lambda z: twin.observed(z)[:, known], measured[known], whitener(total[np.ix_(known, known)]), twin.dimensions
    )
    return fitted(problem, seed=seed, progress=tell)


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
    posterior = _posterior(records, twin, total, known, seed, tell)
    if not _describes(posterior, int(known.sum())):
        return answer | {
            "predicts": False,
            "why_not": "the model does not describe even the part that it was fitted to",
        }
    if not posterior.converged:
        return answer | {"why_not": "the fit to the first part did not converge"}
    picked = np.linspace(0, len(posterior.draws) - 1, DRAWS).astype(int)
    courses = twin.observed(posterior.draws[picked])
    return answer | predicted(records.observations, known, courses, total, seed=seed)


def _described(
    records: FitRecords, twin: LightTwin, posterior: Posterior, chosen: Sequence[Parameter]
) -> dict[str, Any]:
    """Return parameters, identifiability, correlations and doubts; without convergence the doubts only."""
    values = twin.values(posterior.draws)
    z_sd, z_median = posterior.draws.std(axis=0), np.median(posterior.draws, axis=0)
    found: dict[str, dict[str, Any]] = {}
    for number, each in enumerate(chosen):
        low, median, high = np.quantile(values[:, number], LEVEL).tolist()
        edges = [each.median * float(np.exp(each.spread * z)) for z in (-1.645, 1.645)]
        state = "no" if z_sd[number] > UNIDENTIFIED else "weakly" if z_sd[number] > WEAK else "yes"
        found[each.name] = {
            "median": median, "low": low, "high": high, "unit": each.unit,
            "prior": {"median": each.median, "low": edges[0], "high": edges[1], "source": each.source},
            "of_prior": float(z_sd[number]), "identifiable": state, "needs": each.needs if state != "yes" else "",
            "rhat": float(min(posterior.rhat[number], 99.0)), "ess": float(posterior.ess[number]),
        }  # fmt: skip
    warnings = [
        f"{each.name} is {abs(z_median[number]):.1f} standard deviations from what is known of it. Likely cause: another rig"
        " or tissue than the rig file says, a wrong unit of an assay, a volume that was not booked"
        for number, each in enumerate(chosen)
        if abs(z_median[number]) > IMPLAUSIBLE
    ]
    describes = _describes(posterior, len(records.observations))
    if not describes:
        warnings.append(
            f"the model does not describe these data: misfit {posterior.misfit:.1f} times what the errors explain. Likely"
            " cause: wrong assays, medium that was not booked, another rig, an infection. Do not use the parameters"
        )
    stated = posterior.converged
    return {
        "converged": stated,
        "describes": describes,
        "misfit": posterior.misfit,
        "rhat_max": float(min(posterior.rhat.max(), 99.0)),
        "ess_min": float(posterior.ess.min()),
        "draws": len(posterior.draws),
        "acceptance": posterior.acceptance,
        "parameters": {each.name: found[each.name] for each in chosen if stated and not each.nuisance},
        "nuisance": {each.name: found[each.name] for each in chosen if stated and each.nuisance},
        "correlated": _correlated(posterior.draws, chosen) if stated else [],
        "rates": _rates(records, twin, posterior) if stated else {},
        "warnings": [*records.warnings, *warnings],
    }


def _describes(posterior: Posterior, count: int) -> bool:
    from scipy.stats import chi2

    return bool(chi2.sf(posterior.misfit * count, count) > MISFIT)


def _correlated(draws: F8, chosen: Sequence[Parameter]) -> list[dict[str, Any]]:
    """Return the pairs of parameters that the data tell apart badly, the strongest first."""
    r: F8 = np.atleast_2d(np.corrcoef(draws.T))
    pairs = [
        {"a": chosen[i].name, "b": chosen[j].name, "r": float(r[i, j])}
        for i in range(len(chosen))
        for j in range(i)
        if abs(r[i, j]) > CORRELATED
    ]
    return sorted(pairs, key=lambda pair: -abs(pair["r"]))


def _rates(records: FitRecords, twin: LightTwin, posterior: Posterior) -> dict[str, dict[str, Any]]:
    """Return what all tissue takes up and makes on the last day (µmol/d), and the lactate yield."""
    picked = np.linspace(0, len(posterior.draws) - 1, DRAWS).astype(int)
    _, nmol_s = twin.course(posterior.draws[picked])
    dt_s = records.steps[:, 0]
    ends = np.cumsum(dt_s)
    last = ends > ends[-1] - DAY_S
    per_day = (nmol_s[:, last] * dt_s[last, None]).sum(axis=1) / dt_s[last].sum() * DAY_S / 1000.0
    every = {
        "oxygen_uptake": (per_day[:, 0], "µmol/d"),
        "glucose_uptake": (per_day[:, 1], "µmol/d"),
        "lactate_production": (per_day[:, 2], "µmol/d"),
        "ammonia_production": (per_day[:, 3], "µmol/d"),
        "lactate_yield": (per_day[:, 2] / np.maximum(per_day[:, 1], 1e-9), "mol/mol glucose"),
    }
    return {
        name: dict(zip(("low", "median", "high"), np.quantile(values, LEVEL).tolist(), strict=True)) | {"unit": unit}
        for name, (values, unit) in every.items()
    }


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
