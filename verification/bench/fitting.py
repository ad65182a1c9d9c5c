"""Calibration of `choroid fit`: synthetic rigs with parameters drawn from the prior, fitted without knowing them.

The rigs are those of :mod:`verification.bench.perfusion`: the plant with its real ledger and journal and an ideal hand;
bottles, pumps, probes, gas and assays have their errors. `--whole` runs the whole stack with `recycle` instead (`choroid
simulate`), a hundred times slower.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from choroid.common.examples import bench_rig
from choroid.common.failure import UserError
from choroid.common.workers import workers
from choroid.fitting.fit import fit_recorded
from choroid.fitting.priors import PLANT, TISSUE
from choroid.fitting.records import recorded
from choroid.simulation.simulate import simulate
from choroid.simulation.twin import write_twin
from controller.memory.history import History
from controller.rig.description import required
from controller.rig.loading import load_rig
from controller.rig.probes import chamber_temperature
from drivers.registry import MODELS
from protocols.assay import ANALYTES
from sim.plant.columns import Content, TallyCause
from sim.plant.parameters import PlantParameters
from sim.plant.tissue_models import TissueKind
from sim.virtual_time import run_virtual
from verification.bench.perfusion import Perfusion

ASSAYED = ("lactate", "glucose", "ammonia", "osmolality")
RIGS = ("bench", "bench_monitored")
EVERY_D = {"daily": 1.0, "weekly": 7.0}
OBSERVED = "0"
"""Folder of the first observer."""
SAME_SHARE = 0.5
"""Part of an assay's deviation that is constant for a culture: a calibrator, an operator."""


TRUE_RATES = "rates.json"
RATES = {
    "oxygen_uptake": (Content.OXYGEN, -1.0), "glucose_uptake": (Content.GLUCOSE, -1.0),
    "lactate_production": (Content.LACTATE, 1.0), "ammonia_production": (Content.AMMONIA, 1.0),
}  # fmt: skip
"""Of all tissue (µmol/d), by column of what the metabolism of the plant moved."""


def drawn(seed: int) -> tuple[PlantParameters, dict[str, float]]:
    """Return a plant with parameters from the prior, and these parameters."""
    z = np.random.default_rng([seed, 0xD4A]).standard_normal(len(PLANT))
    truth = {each.name: each.median * math.exp(each.spread * at) for each, at in zip(PLANT, z.tolist(), strict=True)}
    tissue = TissueKind(**{name: truth[name] for name in TISSUE if name in truth})
    return PlantParameters(tissue, truth["water_loss"], truth["buffer_mm_per_ph"]), truth


def cultured(
    rig: Path, seed: int, days: float, every_d: float, folder: Path, plant: PlantParameters | None = None
) -> Path:
    """Let a rig with drawn parameters live, or one with those of `plant`; return where its journal and history are.

    That is a folder in `folder`, which also gets what all tissue took and made on the last day.
    """
    run_virtual(_perfused(rig, seed, days, every_d, folder, plant or drawn(seed)[0]))
    return folder / OBSERVED


async def _perfused(
    path: Path, seed: int, days: float, every_d: float, folder: Path, parameters: PlantParameters
) -> None:
    rig = load_rig(path, models=MODELS)
    perfusion = Perfusion(rig, seed=seed, folder=folder, parameters=parameters)
    random = np.random.default_rng([seed, 2])
    same = {name: float(random.normal()) for name in ASSAYED}
    thermometer, loop = required(chamber_temperature(rig), "a thermometer"), required(rig.loop, "a loop")
    hearts = {f"{rig.lines[heart.line].pump}.flow": heart.flow_ul_min for heart in rig.organs.hearts.values()}
    plant, clock = perfusion.plant, perfusion.clock
    began = clock.utc().timestamp()
    due_d = every_d
    before: list[np.ndarray[Any, Any]] = []
    with closing(History(folder / OBSERVED / "history.db", clock)) as history:

        async def hourly() -> None:
            nonlocal due_d
            now = clock.utc().timestamp()
            if now - began >= (days - 1.0) * 86_400.0 - 1.0 and not before:
                before.append(plant.fleet.tally[0, TallyCause.METABOLISM].copy())
            every = perfusion.readings() | {thermometer: (plant.sense(thermometer), "degC")}
            every |= {point: (flow, "uL/min") for point, flow in hearts.items()}
            for point, (value, unit) in every.items():
                history.insert(point, unit, [(now, value)])
            if now - began < due_d * 86_400.0 - 1.0:
                return
            due_d += every_d
            true = plant.truth().concentrations[loop]
            for name in ASSAYED:
                value = true["osmoles" if name == "osmolality" else name]
                error = SAME_SHARE * same[name] + math.sqrt(1.0 - SAME_SHARE**2) * float(random.normal())
                told = max(value + ANALYTES[name].deviation(value) * error, ANALYTES[name].low)
                perfusion.observers[0].assays.enter(
                    name, f"{told:.6g} {ANALYTES[name].unit}", vessel=loop, taken=clock.utc().isoformat(), user="bench",
                    sure=True,
                )  # fmt: skip

        async def ignored() -> None: ...

        try:
            await perfusion.live(days, hourly=hourly, drawn=ignored)
            made = (plant.fleet.tally[0, TallyCause.METABOLISM] - before[0]) / 1000.0
            rates = {name: float(sign * made[column]) for name, (column, sign) in RATES.items()}
            (folder / TRUE_RATES).write_text(json.dumps(rates), encoding="utf-8")
        finally:
            perfusion.close()


def one(rig: str, seed: int, *, days: float, every_d: float, whole: bool, keep: Path | None) -> dict[str, Any]:
    """Return how a fit to one synthetic rig compares with its true parameters."""
    path = bench_rig().with_name(f"{rig}.yaml")
    truth = drawn(seed)[1]
    with tempfile.TemporaryDirectory(prefix="choroid-fitting-") as made:
        folder = Path(made) if keep is None else keep / f"{rig}-{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "lived").exists():
            if whole:
                twin = folder / "truth.yaml"
                write_twin(twin, drawn(seed)[0], {"rig": rig})
                simulate(
                    path, days=days, seed=seed, data=folder, tended=True, assay_every_d=every_d, assayed=ASSAYED,
                    tissue=str(twin),
                )  # fmt: skip
            else:
                cultured(path, seed, days, every_d, folder)
            (folder / "lived").touch()
        answer = fit_recorded(
            recorded(load_rig(path, models=MODELS), folder if whole else folder / OBSERVED),
            holdout=0.3,
            seed=seed,
            tell=lambda _: None,
        )
    found = {name: each for name, each in answer["parameters"].items() if name in truth}
    true_rates = {} if whole else json.loads((folder / TRUE_RATES).read_text(encoding="utf-8"))
    ahead = answer["out_of_sample"]
    return {
        "rig": rig,
        "seed": seed,
        "converged": answer["converged"],
        "describes": answer["describes"],
        "misfit": answer["misfit"],
        "predicts": ahead["predicts"],
        "declines": answer["decline"]["declines"],
        "signals": {
            name: {key: each[key] for key in ("n", "rmse", "rmse_last_value", "rmse_linear", "coverage_90")}
            for name, each in ahead["signals"].items()
        },
        "rates": {
            name: {
                "truth": at,
                **{key: answer["rates"][name][key] for key in ("low", "median", "high", "moves_with_prior")},
                "inside": answer["rates"][name]["low"] <= at <= answer["rates"][name]["high"],
            }
            for name, at in true_rates.items()
            if name in answer["rates"]
        },
        "parameters": {
            name: {
                "truth": truth[name],
                **{key: each[key] for key in ("low", "median", "high", "of_prior", "identifiable")},
                "inside": each["low"] <= truth[name] <= each["high"],
                "in_profile": (each["profile"]["low"] or 0.0) <= truth[name] <= (each["profile"]["high"] or math.inf),
            }
            for name, each in found.items()
        },
    }


def bench_fitting(
    *,
    rig: str | None = None,
    seeds: int = 12,
    first: int = 1,
    days: float = 14.0,
    assays: str = "daily",
    whole: bool = False,
    jobs: int = 1,
    keep: Path | None = None,
) -> dict[str, Any]:
    """Fit `seeds` synthetic rigs of a shipped kind, or of two; return coverage and errors of intervals and predictions."""
    every_d = EVERY_D.get(assays)
    if seeds < 1 or jobs < 1 or not days >= 4.0 or every_d is None:
        raise UserError(
            "this benchmark needs --seeds and --jobs of 1 or more, --days of 4 or more, and assays: --assays daily or weekly"
        )
    rigs = RIGS if rig is None else (rig,)
    cases = [(name, seed) for name in rigs for seed in range(first, first + seeds)]
    work = partial(_case, days=days, every_d=every_d, whole=whole, keep=keep)
    if jobs == 1:
        rows = [work(case) for case in cases]
    else:
        with workers(jobs) as pool:
            rows = list(pool.map(work, cases))
    answer = {"days": days, "assays": assays, "through": "the whole stack" if whole else "the light harness"}
    for name in rigs:
        answer |= summary(name, [row for row in rows if row["rig"] == name])
    return answer


def _case(case: tuple[str, int], **settings: Any) -> dict[str, Any]:
    return one(*case, **settings)


def summary(rig: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures of the rigs of one kind."""
    usable = [row for row in rows if row["converged"]]
    judged = [row["predicts"] for row in usable if row["predicts"] is not None]
    figures: dict[str, Any] = {
        f"{rig}, fits converged": f"{len(usable)} of {len(rows)}",
        f"{rig}, data described by the model": f"{sum(row['describes'] for row in usable)} of {len(usable)}",
        f"{rig}, twins that predict": f"{sum(judged)} of {len(judged)}",
        f"{rig}, cultures that decline": f"{sum(row['declines'] for row in usable)} of {len(usable)}",
    }
    for name in usable[0]["rates"] if usable else ():
        figures |= _rate(f"{rig} {name} of the culture", [row["rates"][name] for row in usable])
    for name in usable[0]["parameters"] if usable else ():
        figures |= _parameter(f"{rig} {name}", [row["parameters"][name] for row in usable])
    for name in dict.fromkeys(name for row in usable for name in row["signals"]):
        figures |= _signal(f"{rig} {name}", [row["signals"][name] for row in usable if name in row["signals"]])
    return figures


def _rate(key: str, found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    inside, count = sum(each["inside"] for each in found), len(found)
    low, high = _wilson(inside, count)
    middle = [max(each["median"], 1e-9) for each in found]
    halves = [(each["high"] - each["low"]) / 2.0 / at for each, at in zip(found, middle, strict=True)]
    errors = [abs(at / max(each["truth"], 1e-9) - 1.0) for each, at in zip(found, middle, strict=True)]
    return {
        f"{key}, true value in the 90 % interval": f"{inside} of {count} (95 %: {low:.0%}–{high:.0%})",
        f"{key}, half width": round(float(np.median(halves)), 3),
        f"{key}, error": round(float(np.median(errors)), 3),
        f"{key}, moves with the prior": sum(bool(each["moves_with_prior"]) for each in found),
    }


def _parameter(key: str, found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    inside, count = sum(each["inside"] for each in found), len(found)
    low, high = _wilson(inside, count)
    errors = [abs(math.log(each["median"] / each["truth"])) for each in found]
    widths = [math.sqrt(each["high"] / each["low"]) - 1.0 for each in found]
    biases = [3.29 * math.log(each["median"] / each["truth"]) / math.log(each["high"] / each["low"]) for each in found]
    return {
        f"{key}, true value in the 90 % interval": f"{inside} of {count} (95 %: {low:.0%}–{high:.0%})",
        f"{key}, half width": round(float(np.median(widths)), 3),
        f"{key}, error": round(float(np.median(np.expm1(errors))), 3),
        f"{key}, mean error in standard deviations": round(float(np.mean(biases)), 2),
        f"{key}, spread of prior": round(float(np.median([each["of_prior"] for each in found])), 3),
        f"{key}, true value in the range of the profile": f"{sum(each['in_profile'] for each in found)} of {count}",
        f"{key}, identifiable": sum(each["identifiable"] == "yes" for each in found),
        f"{key}, called identifiable with the true value outside": sum(
            each["identifiable"] == "yes" and not each["inside"] for each in found
        ),
        f"{key}, not identifiable": sum(each["identifiable"] == "no" for each in found),
    }


def _signal(key: str, found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    count = sum(each["n"] for each in found)

    def rms(name: str) -> float | None:
        known = [each for each in found if each[name] is not None]
        seen = sum(each["n"] for each in known)
        return round(math.sqrt(sum(each[name] ** 2 * each["n"] for each in known) / seen), 4) if seen else None

    return {
        f"{key}, RMSE of the twin": rms("rmse"),
        f"{key}, RMSE of the last value": rms("rmse_last_value"),
        f"{key}, RMSE of a line": rms("rmse_linear"),
        f"{key}, held-out values in the 90 % interval": round(sum(e["coverage_90"] * e["n"] for e in found) / count, 3),
    }


def _wilson(inside: int, count: int) -> tuple[float, float]:
    """Return the 95 % interval of a share by Wilson's score."""
    z, share = 1.96, inside / count
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return max(middle - half, 0.0), min(middle + half, 1.0)
