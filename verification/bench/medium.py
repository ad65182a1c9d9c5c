"""`choroid verify bench medium`: fresh medium and viability over weeks, by equipment and kind of tissue, real estimators.

The shipped protocols run on the plant without wires (:mod:`verification.bench.light_lab`). Each arm is compared with the
exchange of the same seed and tissue, and with the least fresh medium that mass balance permits without a dialyser. The
figures of a tissue that the limits harm show what the retreat of `recycle` saves; an arm ending in `-blind` has it
switched off. The arm `dialyser-sensitive` has the limits of `examples/grading/sensitive.yaml`, which harm none of them.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from choroid.common.examples import bench_rig
from choroid.common.failure import UserError
from choroid.common.workers import workers
from choroid.simulation.twin import DRAWN, plant_of
from controller.ledger.saving import bound_ul
from controller.rig.description import Rig, required
from controller.rig.grading import read_grading
from controller.rig.loading import load_rig
from controller.rig.rules import Grading
from controller.runs.grading import rules_of
from drivers.registry import MODELS as DRIVERS
from sim.plant.tissue_models import MODELS
from sim.virtual_time import run_virtual
from verification.bench.light_lab import LightHistory, LightLab
from verification.bench.perfusion import Perfusion

SEEDS, DAYS, FIRST_SEED = 4, 60.0, 301
BLIND = "-blind"
LACTATE_LETTER = 1
"""Index of the limit of B among the edges of a rule."""


@dataclass(frozen=True, slots=True)
class MediumArm:
    """An equipment and a protocol."""

    rig: str
    protocol: str
    assays: bool
    """Whether requested assays are made."""
    grading: str = ""
    """Rule file of `examples/grading` instead of the shipped rules."""


ARMS: Mapping[str, MediumArm] = {
    "sensor": MediumArm("bench_monitored", "recycle", assays=True),
    "requests": MediumArm("bench", "recycle", assays=True),
    "dialyser": MediumArm("bench_dialysis", "recycle", assays=True),
    "dialyser-sensitive": MediumArm("bench_dialysis", "recycle", assays=True, grading="sensitive.yaml"),
    "exchange": MediumArm("bench", "exchange", assays=False),
}
EXCHANGE = "exchange"
ANY = "drawn"
"""A tissue that each seed draws from the range of the literature."""
LOSS = 0.01
"""Viability (mean of the run) below that of exchange from which an arm counts as worse for a tissue."""


def one_run(arm: str, tissue: str, seed: int, days: float) -> dict[str, Any]:
    """Return the figures of one run."""
    kind = ARMS[arm.removesuffix(BLIND)]
    rig = rig_of(kind)
    plant = plant_of(f"{DRAWN}{seed}" if tissue == ANY else tissue)
    params = {"accepted_loss": 100.0} if arm.endswith(BLIND) else {}

    async def lived(folder: Path) -> LightHistory:
        perfusion = Perfusion(rig, seed=seed, folder=folder, parameters=plant)
        try:
            lab = LightLab(perfusion, seed=seed, assays=kind.assays)
            await lab.live(kind.protocol, params, days)
        finally:
            perfusion.close()
        return lab.history

    with tempfile.TemporaryDirectory(prefix="choroid-medium-") as folder:
        return {"arm": arm, "tissue": tissue, "seed": seed} | figures(rig, run_virtual(lived(Path(folder))))


def rig_of(arm: MediumArm) -> Rig:
    """Return the example rig of an arm, with the arm's rules."""
    path = bench_rig().with_name(f"{arm.rig}.yaml")
    rig = load_rig(path, models=DRIVERS)
    if not arm.grading:
        return rig
    rules = Grading.model_validate(read_grading(path.parent.parent / "grading" / arm.grading))
    return rig.model_copy(update={"grading": rules})


def figures(rig: Rig, history: LightHistory) -> dict[str, Any]:
    """Return fresh medium, its bound, the course of the tissue and the highest concentrations."""
    last = history.truth[-1]
    loop = required(rig.loop, "a loop")
    gut, kidney = required(rig.organs.gut, "organs.gut"), required(rig.organs.kidney, "organs.kidney")
    limit = next(rule.edges[LACTATE_LETTER] for rule in rules_of(rig).rules if rule.name == "lactate_mm")
    circulating_ul = sum(last.volumes_ul[name] for name in {loop, *rig.tissue})
    made_umol = last.tally["metabolism"]["lactate"] / 1000.0
    viability = np.array([truth.viability for truth in history.truth])
    return {
        "fresh_ml": last.moved_ul[gut.feed] / 1000.0,
        "bound_ml": bound_ul(made_umol, float(limit), circulating_ul) / 1000.0,
        "dialysate_ml": 0.0 if kidney.dialyse is None else last.moved_ul[kidney.dialyse] / 1000.0,
        "viability_mean": float(viability.mean()),
        "viability_min": float(viability.min()),
        "viability_end": float(viability[-1]),
        "lactate_mm": max(truth.concentrations[loop]["lactate"] for truth in history.truth),
        "ammonia_mm": max(truth.concentrations[loop]["ammonia"] for truth in history.truth),
        "assays": history.assays,
        "suspected_d": history.suspected_d,
        "retreats_d": history.retreats_d,
        "actions": history.actions,
    }


def bench_medium(
    *,
    seeds: int = SEEDS,
    days: float = DAYS,
    first: int = FIRST_SEED,
    jobs: int | None = None,
    tissues: Sequence[str] = ("reference", "chronic"),
    arms: Sequence[str] = tuple(ARMS),
) -> dict[str, Any]:
    """Return the figures of each run, and by tissue and arm over the seeds; ratios are paired by seed."""
    kinds = (*MODELS, ANY)
    unknown = [each for each in tissues if each not in kinds]
    unknown += [each for each in arms if each.removesuffix(BLIND) not in ARMS]
    if unknown or seeds < 1 or days <= 0.0:
        raise UserError(
            f"this benchmark does not know {', '.join(unknown) or 'such numbers'}. Next: name --arms among {', '.join(ARMS)}"
            f" (with {BLIND}: without the retreat), --tissues among {', '.join(kinds)}, --seeds of 1 or more, --days above 0"
        )
    arms = [*dict.fromkeys((*arms, EXCHANGE))]
    cases = [(arm, tissue, seed) for seed in range(first, first + seeds) for tissue in tissues for arm in arms]
    with workers(min(jobs or os.cpu_count() or 1, len(cases))) as pool:
        runs = []
        for run in pool.map(one_run, *zip(*cases, strict=True), [days] * len(cases)):
            runs.append(run)
            print(f"choroid verify bench: medium: {json.dumps(run)}", file=sys.stderr, flush=True)
    return {"seeds": f"{first} to {first + seeds - 1}", "days": days} | {
        f"{tissue}, {arm}": summary(
            [run for run in runs if (run["tissue"], run["arm"]) == (tissue, arm)],
            [run for run in runs if (run["tissue"], run["arm"]) == (tissue, EXCHANGE)],
        )
        for tissue in tissues
        for arm in arms
    }


def summary(runs: Sequence[Mapping[str, Any]], exchange: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures of one arm and tissue, over the seeds; `exchange` are those of the same seeds."""
    of_bound = [run["fresh_ml"] / run["bound_ml"] if run["bound_ml"] > 0.0 else None for run in runs]
    of_exchange = [run["fresh_ml"] / other["fresh_ml"] for run, other in zip(runs, exchange, strict=True)]
    known = [each for each in of_bound if each is not None]
    gained = [run["viability_mean"] - other["viability_mean"] for run, other in zip(runs, exchange, strict=True)]

    def mean(name: str) -> float:
        return round(float(np.mean([run[name] for run in runs])), 4)

    return {
        "fresh_ml": round(mean("fresh_ml"), 1),
        "of_bound": round(float(np.mean(known)), 3) if len(known) == len(runs) else None,
        "of_exchange": round(float(np.mean(of_exchange)), 3),
        "by_seed_of_bound": [None if each is None else round(each, 2) for each in of_bound],
        "by_seed_of_exchange": [round(each, 3) for each in of_exchange],
        "viability_mean": mean("viability_mean"),
        "viability_min": round(min(run["viability_min"] for run in runs), 4),
        "viability_end": mean("viability_end"),
        "gained_on_exchange": round(float(np.mean(gained)), 4),
        "worst_against_exchange": round(min(gained), 4),
        "worse_than_exchange": f"{sum(each < -LOSS for each in gained)} of {len(runs)}",
        "max_lactate_mm": round(max(run["lactate_mm"] for run in runs), 2),
        "max_ammonia_mm": round(max(run["ammonia_mm"] for run in runs), 3),
        "assays": mean("assays"),
        "dialysate_ml": round(mean("dialysate_ml"), 1),
        "suspected_d": [_day(run["suspected_d"]) for run in runs],
        "retreats_d": [[round(day, 1) for day in run["retreats_d"]] for run in runs],
    }


def _day(day: float | None) -> float | None:
    return None if day is None else round(day, 1)
