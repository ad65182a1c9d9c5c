"""`choroid verify comparison`: protocols side by side on the same seeds, with the confidence of their differences.

Each run is the whole stack in virtual time and depends only on its arm and seed. The last arm is the reference.
Differences are paired by seed, with intervals of Student's t. The estimate of viability is compared with the plant's
truth once a day. A simulated technician tends every rig (:mod:`choroid.simulation.technician`), because over weeks
bottles run out and levels must be measured.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import as_completed
from pathlib import Path
from typing import TYPE_CHECKING, Any

from choroid.common.extras import load_extra
from choroid.common.failure import UserError
from choroid.common.workers import workers

if TYPE_CHECKING:
    from controller.rig.description import Rig
    from sim.plant.truth import PlantTruth

KEPT = "runs.jsonl"
CONFIDENCE = 0.95
BINS = 10
DAY_S = 86_400.0
ASSAYS = "+assays"
REQUESTS = "+requests"
"""End of the protocol of an arm whose laboratory makes the assays that the recycler requests."""
REFERENCE = "reference"
"""Name of the tissue that is compared by default."""
INFECTION = "+infection"
"""End of the name of a tissue whose medium is contaminated from the start."""
INFECTED_PER_ML = 10.0
"""Microbes in the medium at the start of such a run (CFU/mL); they double each hour (:mod:`sim.plant.turnover`)."""
ASSAY_EVERY_D = 7.0
"""Interval of assays of an arm whose protocol ends in :data:`ASSAYS` (days)."""
NOTHING_KNOWN = {"value": 0.5, "low": 0.0, "high": 1.0}
"""Viability before the first estimate."""
FORM = 5
"""Form of a kept run; runs of another form are not taken up."""


def compare(
    rig: Path,
    *,
    protocols: Sequence[str],
    days: float,
    seeds: int,
    jobs: int,
    resume: Path | None = None,
    svg: Path | None = None,
    tissues: Sequence[str] = (REFERENCE,),
    progress: bool = True,
) -> dict[str, Any]:
    """Run every arm for `days` on seeds 1 to `seeds`, `jobs` at a time; return the answer of `--json`.

    An arm is a protocol, or `protocol@other-rig.yaml`; `protocol+assays` has lactate and glucose assayed every
    week; in `protocol+requests` the technician makes the assays that the recycler requests. With `resume`, finished runs are
    kept in that folder and not repeated. Each arm runs with each of the `tissues`
    (:data:`sim.plant.tissue_models.MODELS`, or a file of `choroid fit --out`), and is judged by the one that it serves worst;
    `reference+infection` is the reference in medium that is contaminated from the start.

    Raises:
        UserError: Invalid arguments.
        ParamError: A rig does not support a protocol.
    """
    _require_sensible(protocols, days, seeds, jobs)
    _require_known(tissues)
    _stats()  # hours of simulation are not begun for a table that cannot be made
    if svg is not None:
        from verification.comparison.figure import plotting

        plotting()
    _require_supported(rig, protocols)
    every = [(tissue, seed, arm) for tissue in tissues for seed in range(1, seeds + 1) for arm in protocols]
    cases = [case(rig, arm, seed, days, tissue) for tissue, seed, arm in every]
    done = _kept(resume)
    todo = [each for each in cases if key(each) not in done]
    found = len(cases) - len(todo)
    if progress:
        print(f"{len(cases)} runs of {days:g} d, {found} of them finished before", file=sys.stderr, flush=True)
    _run_all(todo, done, len(cases), jobs=jobs, resume=resume, progress=progress)
    results = [done[key(each)] | {"tissue": each["tissue"]} for each in cases]
    answer = summary(results, protocols) | {"rig": str(rig), "days": days, "seeds": seeds, "resumed": found}
    answer["tissues"] = list(tissues)
    if svg is not None:
        from verification.comparison.figure import draw

        draw(svg, results, protocols)
        answer["svg"] = str(svg)
    return answer


def _require_sensible(protocols: Sequence[str], days: float, seeds: int, jobs: int) -> None:
    if seeds < 1 or jobs < 1 or not days > 0:
        raise UserError("a comparison needs --seeds of 1 or more, --jobs of 1 or more, --days above 0")
    if len(protocols) < 2 or len(set(protocols)) != len(protocols):
        raise UserError(
            "a comparison needs two arms or more, each once. Next: --protocols recycle,exchange (the last is the reference)"
        )


def _require_known(tissues: Sequence[str]) -> None:
    from choroid.simulation.twin import plant_of
    from sim.plant.parameters import KINDS

    if not tissues or len(set(tissues)) != len(tissues):
        raise UserError(
            f"--tissues {','.join(tissues)} is not possible: each once, and each must be known. Next: choose among"
            f" {', '.join(KINDS)}, each also with {INFECTION}, or name files of `choroid fit --out`"
        )
    for name in tissues:
        plant_of(name.removesuffix(INFECTION))


def _require_supported(rig: Path, arms: Sequence[str]) -> None:
    """Check each arm on its rig; raise what a start would raise, or :class:`UserError` for assays without a loop."""
    from controller.hazards.loading import load_checked_rig
    from controller.recipes.on_rig import check_on
    from controller.runs.chosen import chosen
    from drivers.registry import MODELS
    from protocols.parameters import complete

    for arm in arms:
        of = case(rig, arm, 1, 1.0)
        on = load_checked_rig(Path(of["rig"]), models=MODELS)
        recipe = chosen(of["protocol"], on)
        check_on(recipe, on, complete(recipe.params, {}))
        if of["assay_every_d"] is not None and on.loop is None:
            raise UserError(f"{arm}: {on.name} has no loop whose medium could be assayed. Next: leave {ASSAYS} out")


def _run_all(
    todo: Sequence[Mapping[str, Any]],
    done: dict[str, dict[str, Any]],
    total: int,
    *,
    jobs: int,
    resume: Path | None,
    progress: bool,
) -> None:
    """Run the cases of `todo` (of `total`), add each result to `done`, and keep it in the folder `resume`."""
    with workers(jobs) as pool:
        waiting = {pool.submit(run, each): each for each in todo}
        for count, future in enumerate(as_completed(waiting), total - len(todo) + 1):
            result = future.result()
            done[key(waiting[future])] = result
            _keep(resume, result)
            if progress:
                _show_progress(result, count, total)


def _show_progress(result: Mapping[str, Any], count: int, total: int) -> None:
    bar = "█" * round(30 * count / total)
    what = f"{result['arm']}, {result['tissue']} tissue, seed {result['seed']}"
    print(f"{bar:·<30} {count}/{total} {what}", file=sys.stderr, flush=True)


def case(rig: Path, arm: str, seed: int, days: float, tissue: str = REFERENCE) -> dict[str, Any]:
    """Return one run's arguments as plain data."""
    protocol, _, other = arm.partition("@")
    assays = ASSAY_EVERY_D if protocol.endswith(ASSAYS) else None
    asked = protocol.endswith(REQUESTS)
    name = protocol.removesuffix(ASSAYS).removesuffix(REQUESTS)
    named = {"arm": arm, "rig": other or str(rig), "protocol": name, "assay_every_d": assays, "on_request": asked}
    of_tissue = {"tissue": tissue, "tissue_content": _content(tissue)}
    return {**named, "seed": seed, "days": days, **of_tissue, "form": FORM}


def _content(tissue: str) -> str:
    """Return what tells a tissue of a comparison from others: its plant's content, and whether it is infected."""
    from choroid.simulation.twin import content_of

    return content_of(tissue.removesuffix(INFECTION)) + (INFECTION if tissue.endswith(INFECTION) else "")


def key(what: Mapping[str, Any]) -> str:
    """Return the identity of a run: the rig and a twin by their content, not by their paths."""
    from controller.rig.loading import effective_hash, load_rig

    rig = what.get("rig_sha256") or effective_hash(load_rig(Path(what["rig"])))
    tissue = what.get("tissue_content", what.get("tissue"))
    return json.dumps([what["arm"], what["protocol"], what["seed"], what["days"], rig, tissue, what.get("form")])


def run(what: Mapping[str, Any]) -> dict[str, Any]:
    """Run one case of the whole stack, sampled once a day and at its end; return the result."""
    from choroid.simulation.simulate import simulate
    from controller.process.controller import Controller
    from controller.rig.loading import effective_hash, load_rig
    from sim.lab import SimulatedLab

    if _content(what["tissue"]) != what["tissue_content"]:
        raise UserError(
            f"{what['tissue']} was written again while the comparison ran; the runs before are of the former file. Next:"
            " start the comparison again"
        )
    samples: list[dict[str, float]] = []
    limits: dict[str, float | None] = {}

    def watch(elapsed_s: float, lab: SimulatedLab, controller: Controller) -> None:
        due_s = min(DAY_S * (len(samples) + 1), DAY_S * what["days"])
        if elapsed_s < due_s - 1.0:
            return
        estimate, truth = (controller.scores or {}).get("viability") or NOTHING_KNOWN, lab.plant.truth()
        loop = _worst_medium(truth, controller.rig)
        limits["bound_ml"] = _bound_ml(truth, controller.rig)
        totals = controller.ledger.totals
        samples.append(
            {
                "day": round(elapsed_s / DAY_S, 3),
                "viability": float(estimate["value"]),
                "low": float(estimate["low"]),
                "high": float(estimate["high"]),
                "viability_true": round(truth.viability, 6),
                "fresh_ml": round(totals.fresh_ul / 1000.0, 3),
                "lactate_mm": round(loop["lactate"], 3),
                "ammonia_mm": round(loop["ammonia"], 4),
                "insulin": round(loop["insulin"], 4),
                "diameter_mm": round(truth.diameter_mm, 4),
            }
        )

    answer = simulate(
        Path(what["rig"]),
        protocol=what["protocol"],
        params={},
        days=what["days"],
        seed=what["seed"],
        progress=False,
        watch=watch,
        tended=True,
        tissue=what["tissue"].removesuffix(INFECTION),
        microbes_per_ml=INFECTED_PER_ML if what["tissue"].endswith(INFECTION) else 0.0,
        assay_every_d=what["assay_every_d"],
        on_request=what["on_request"],
    )
    wanted = (
        "fresh_medium_ml", "stocks_ml", "dialysate_ml", "discarded_ml", "recycled_ml", "viability_true", "grade_counts",
        "actions", "consumables_eur", "violations", "alarms", "alarms_active", "run_state", "holds", "tended",
        "journal_sha256", "wall_s", "speed",
    )  # fmt: skip
    return {
        **what,
        "rig_sha256": effective_hash(load_rig(Path(what["rig"]))),
        **{name: answer[name] for name in wanted},
        **limits,
        "samples": samples,
    }


def _bound_ml(truth: PlantTruth, rig: Rig) -> float | None:
    """Return the mass-balance bound (mL) for what the tissue has truly made; None without a limit."""
    from controller.ledger.saving import bound_ul, lactate_limit_mm

    limit_mm = lactate_limit_mm(rig)
    if rig.loop is None or limit_mm is None:
        return None
    circulating_ul = sum(truth.volumes_ul[name] for name in {rig.loop, *rig.tissue})
    made_umol = truth.tally["metabolism"]["lactate"] / 1000.0
    return round(bound_ul(made_umol, limit_mm, circulating_ul) / 1000.0, 3)


def _worst_medium(truth: PlantTruth, rig: Rig) -> Mapping[str, float]:
    """Return the medium of the loop; without a loop, that of the chamber with the most lactate."""
    places = rig.tissue if rig.loop is None else (rig.loop,)
    return max((truth.concentrations[place] for place in places), key=lambda medium: medium["lactate"])


def summary(results: Sequence[Mapping[str, Any]], arms: Sequence[str]) -> dict[str, Any]:
    """Return each arm's means, each pair's differences with intervals, and the estimate of viability against the truth."""
    by_arm = {arm: [each for each in results if each["arm"] == arm] for arm in arms}
    reference = arms[-1]
    answer: dict[str, Any] = {"reference": reference, "arms": {}, "pairs": {}}
    for arm, runs in by_arm.items():
        answer["arms"][arm] = _arm(runs)
        if arm != reference:
            answer["pairs"][arm] = _pair(runs, by_arm[reference])
    answer["viability"] = agreement(_samples(results))
    return answer


def _samples(runs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, float]]:
    """Return the samples of all runs."""
    return [sample for each in runs for sample in each["samples"]]


def _extremes(samples: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {
        "worst_lactate_mm": max(sample["lactate_mm"] for sample in samples),
        "worst_ammonia_mm": max(sample["ammonia_mm"] for sample in samples),
        "min_insulin": min(sample["insulin"] for sample in samples),
    }


def _arm(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the means and extremes of one arm's runs."""
    samples = _samples(runs)
    by_tissue = {
        name: mean([_mean_truth(each) for each in runs if each["tissue"] == name])
        for name in dict.fromkeys(each["tissue"] for each in runs)
    }
    bounds = [each["bound_ml"] for each in runs]
    ratios = [each["fresh_medium_ml"] / each["bound_ml"] for each in runs if each["bound_ml"]]
    means = ("fresh_medium_ml", "stocks_ml", "dialysate_ml", "discarded_ml", "consumables_eur")
    return {name: mean([float(each[name]) for each in runs]) for name in means} | {
        "bound_ml": None if None in bounds else mean(bounds),
        "bound_ratio": mean(ratios) if len(ratios) == len(runs) else None,
        "viability_true_end": mean([each["viability_true"] for each in runs]),
        "viability_true_mean": mean([_mean_truth(each) for each in runs]),
        "worst_tissue": min(by_tissue, key=lambda name: by_tissue[name]),
        "viability_true_mean_by_tissue": by_tissue,
        **_extremes(samples),
        "violations": sum(len(each["violations"]) for each in runs),
        "holds": [{"seed": each["seed"], **hold} for each in runs for hold in each["holds"]],
        "tended": sum(len(each["tended"]) for each in runs) / len(runs),
        "priced": any(each["actions"] for each in runs),
        "viability": agreement(samples),
    }


def _pair(runs: Sequence[Mapping[str, Any]], references: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the differences of one arm's runs from the reference's, paired by seed."""
    pairs = list(zip(runs, references, strict=True))
    by_tissue = {
        name: paired([_mean_truth(a) - _mean_truth(b) for a, b in pairs if a["tissue"] == name])
        for name in dict.fromkeys(a["tissue"] for a, _ in pairs)
    }
    return {
        "fresh_ratio": _ratio([(a["fresh_medium_ml"], b["fresh_medium_ml"]) for a, b in pairs]),
        "viability_true_end": paired([a["viability_true"] - b["viability_true"] for a, b in pairs]),
        "viability_true_mean": paired([_mean_truth(a) - _mean_truth(b) for a, b in pairs]),
        "worst_tissue": min(by_tissue, key=lambda name: by_tissue[name]["mean"] or 0.0),
        "viability_true_mean_by_tissue": by_tissue,
    }


def mean(values: Sequence[float]) -> float:
    """Return the mean, rounded to six digits."""
    return round(sum(values) / len(values), 6)


def _stats() -> Any:
    return load_extra("scipy.stats", "stats", needed_for="a comparison", otherwise="simulate each protocol by itself")


def paired(differences: Sequence[float]) -> dict[str, float | None]:
    """Return the mean of paired differences with its 95 % interval (Student's t); no interval for a single pair."""
    count = len(differences)
    centre = sum(differences) / count
    if count < 2:
        return {"mean": round(centre, 6), "low": None, "high": None}
    sd = math.sqrt(sum((each - centre) ** 2 for each in differences) / (count - 1))
    half = float(_stats().t.ppf(0.5 + CONFIDENCE / 2, count - 1)) * sd / math.sqrt(count)
    return {"mean": round(centre, 6), "low": round(centre - half, 6), "high": round(centre + half, 6)}


def _ratio(pairs: Sequence[tuple[float, float]]) -> dict[str, float | None]:
    """Return the mean of paired ratios; None where the reference used nothing."""
    if any(reference <= 0.0 for _, reference in pairs):
        return {"mean": None, "low": None, "high": None}
    return paired([used / reference for used, reference in pairs])


def _bins(samples: Sequence[Mapping[str, float]], of: str) -> list[dict[str, Any]]:
    """Return the mean of the estimate `of` and of the truth by bins of the estimate; empty bins are left out."""
    bins = []
    for number in range(BINS):
        low, high = number / BINS, (number + 1) / BINS
        last = number == BINS - 1
        inside = [s for s in samples if low <= s[of] < high or (last and s[of] >= high)]
        if inside:
            values = {name: mean([s[name] for s in inside]) for name in (of, "viability_true")}
            bins.append({"from": low, "to": high, "samples": len(inside), **values})
    return bins


def agreement(samples: Sequence[Mapping[str, float]], of: str = "viability") -> dict[str, Any]:
    """Return the agreement of an estimate with the truth: Spearman's rank correlation (None for a constant), and bins.

    Args:
        samples: Each with `low`, `high`, `viability_true` and the estimate.
        of: Key of the estimate.
    """
    estimates, truths = [s[of] for s in samples], [s["viability_true"] for s in samples]
    rank: float | None = None
    if len(set(estimates)) > 1 and len(set(truths)) > 1:
        rank = round(float(_stats().spearmanr(estimates, truths).statistic), 4)
    bins = _bins(samples, of)
    covered = [s["low"] <= s["viability_true"] <= s["high"] for s in samples]
    share = round(sum(covered) / len(covered), 4) if covered else None
    return {"samples": len(samples), "spearman": rank, "truth_in_interval": share, "bins": bins}


def as_text(answer: Mapping[str, Any]) -> str:
    """Return the table as text."""
    lines = [
        f"{answer['seeds']} seed(s) of {answer['days']:g} d each; the reference is {answer['reference']}",
        f"{'arm':<44}{'fresh mL':>10}{'bound':>8}{'ratio':>7}{'stocks':>8}"
        f"{'dialysate':>11}{'EUR':>8}{'lactate':>9}{'ammonia':>9}{'insulin':>9}"
        f"{'true mean':>11}{'at end':>9}",
    ]
    for arm, row in answer["arms"].items():
        eur = f"{row['consumables_eur']:.2f}" if row["priced"] else "–"  # only the recycler calculates prices
        lines.append(
            f"{arm:<44}{row['fresh_medium_ml']:>10.1f}{_or_dash(row['bound_ml'], 1):>8}{_or_dash(row['bound_ratio'], 2):>7}"
            f"{row['stocks_ml']:>8.1f}{row['dialysate_ml']:>11.1f}"
            f"{eur:>8}{row['worst_lactate_mm']:>9.2f}{row['worst_ammonia_mm']:>9.3f}"
            f"{row['min_insulin']:>9.2f}{row['viability_true_mean']:>11.4f}{row['viability_true_end']:>9.4f}"
        )
    for arm, pair in answer["pairs"].items():
        lines.append(f"{arm} against {answer['reference']}, paired by seed (95 %):")
        lines.append(f"  fresh medium    {_range(pair['fresh_ratio'], 100.0, ' %')} of the reference's")
        for name, words in (("viability_true_mean", "on average"), ("viability_true_end", "at the end")):
            lines.append(f"  true viability  {_range(pair[name], 1.0, '')} {words}")
        worst = pair["worst_tissue"]
        found = _range(pair["viability_true_mean_by_tissue"][worst], 1.0, "")
        lines.append(f"  worst tissue    {worst}: true viability {found} on average")
    lines.append(
        "bound: mass-balance bound, the fresh medium that lactate within grade B demands without a dialyser; ratio to it"
    )
    known = answer["viability"]
    lines.append(
        f"viability, estimate against truth, once a day: {known['samples']} samples, Spearman {known['spearman']},"
        f" truth within the 90 % interval {known['truth_in_interval']}"
    )
    for row in known["bins"]:
        lines.append(
            f"  estimate {row['from']:.1f} to {row['to']:.1f}: {row['samples']} samples, mean {row['viability']:.4f},"
            f" mean truth {row['viability_true']:.4f}"
        )
    for arm, row in answer["arms"].items():
        lines.append(f"  {arm}: the technician did {row['tended']:.1f} tasks per run")
        lines += [f"  {arm}, seed {h['seed']}, held {_until(h)}: {h['why']}" for h in row["holds"]]
    broken = sum(row["violations"] for row in answer["arms"].values())
    return "\n".join([*lines, f"violations: {broken or 'none'}"])


def _or_dash(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _until(hold: Mapping[str, Any]) -> str:
    until = hold["until_utc"]
    return f"from {hold['from_utc'][:16]} {'until the end' if until is None else 'until ' + until[:16]}"


def _range(found: Mapping[str, float | None], factor: float, unit: str) -> str:
    if found["mean"] is None:
        return "nothing to compare with"
    digits = 1 if factor > 1 else 5
    sign = "" if factor > 1 else "+"
    values = [None if found[name] is None else f"{factor * (found[name] or 0.0):{sign}.{digits}f}" for name in found]
    return f"{values[0]}{unit}" if values[1] is None else f"{values[0]}{unit} ({values[1]} to {values[2]}{unit})"


def _mean_truth(result: Mapping[str, Any]) -> float:
    truths = [sample["viability_true"] for sample in result["samples"]]
    return float(sum(truths) / len(truths))


def _kept(folder: Path | None) -> dict[str, dict[str, Any]]:
    done: dict[str, dict[str, Any]] = {}
    if folder is not None and (folder / KEPT).exists():
        for line in (folder / KEPT).read_text(encoding="utf-8").splitlines():
            try:
                result = json.loads(line)
            except ValueError:
                continue  # the last line of an interrupted comparison
            done[key(result)] = result
    return done


def _keep(folder: Path | None, result: Mapping[str, Any]) -> None:
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / KEPT).open("a", encoding="utf-8") as file:
        file.write(json.dumps(result) + "\n")
