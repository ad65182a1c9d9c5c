"""`choroid verify bench viability`: is the estimate calibrated? Cultures of the plant under harm, seen through sensors.

For each tissue model, harm and seed a culture lives twelve days; a harm begins on day 5. Its true state becomes readings with
offset, noise and drift. The estimate knows neither the tissue model nor the harm. It is compared with the truth every six
hours. No part of the controller takes part, so that hundreds of cultures fit in minutes; `choroid verify sensitivity --truth`
is the whole stack.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from choroid.common.examples import bench_rig
from choroid.common.workers import workers
from controller.rig.loading import load_rig
from protocols.tissue.estimate import ViabilityEstimate
from protocols.tissue.statement import Statement
from sim.neurons.rates import RateModel
from sim.plant.tissue_models import MODELS
from verification.bench.cultures import F8, HARMS, CultureFleet
from verification.bench.sensors import Equipment, Sensors

HOURS = 24 * 12
LOOK_EVERY_H = 6
WARM_H = 24
TRUE_LOSS, REPORTED_WITHIN_H = 0.1, 24
SILENT_LOSS = 0.2
"""A culture that has lost as much is counted by the hour while neither a loss nor a harm is said, and while, in addition,
what is said to be possible is less than what is lost."""
CALM_LOSS = 0.03
"""A culture that has lost less is not harmed; a report is then false."""
DRAWN = "drawn"
"""Tissues whose harm the estimate does not know: one for each seed (:func:`sim.plant.tissue_models.drawn`)."""
ARRAYS = 4
"""Number of different cultures on arrays whose firing is used."""


EQUIPMENTS = (
    Equipment("ordinary", outlet_oxygen=True, weekly=True, electrodes=False),
    Equipment("bench rig today", outlet_oxygen=False, weekly=False, electrodes=True),
    Equipment("all", outlet_oxygen=True, weekly=True, electrodes=True),
    Equipment("ordinary and LDH on request", outlet_oxygen=True, weekly=True, electrodes=False, ldh_on_concern=True),
)


def bench_viability(seeds: int = 20, jobs: int | None = None, shift: float = 0.0) -> dict[str, Any]:
    """Return the calibration of the estimate over `seeds` seeds of each kind of tissue."""
    return calibration(seeds=range(1, seeds + 1), jobs=jobs or os.cpu_count() or 1, shift=shift)


def calibration(
    *,
    seeds: Sequence[int],
    jobs: int = 1,
    models: Sequence[str] = (*MODELS, DRAWN),
    equipments: Sequence[Equipment] = EQUIPMENTS,
    shift: float = 0.0,
) -> dict[str, Any]:
    """Return coverage, width, rank correlation and delay of the reports, by equipment.

    With `shift` (0..1) uptake, yields and growth of each plant differ by this share from those that shaped the priors.
    """
    found: list[dict[str, Any]] = []
    work = partial(_model, seeds=tuple(seeds), equipments=tuple(equipments), shift=shift)
    if jobs == 1:
        each = [work(name) for name in models]
    else:
        with workers(jobs) as pool:
            each = list(pool.map(work, models))
    for one in each:
        found += one
    return {
        "seeds": len(seeds),
        "shift": shift,
        "cultures": len(found) // max(len(equipments), 1),
        "equipment": {one.name: summary([row for row in found if row["equipment"] == one.name]) for one in equipments},
    }


def _model(
    name: str, *, seeds: tuple[int, ...], equipments: tuple[Equipment, ...], shift: float
) -> list[dict[str, Any]]:
    """Return one row for each culture of a tissue model and each equipment."""
    rig = load_rig(bench_rig())
    cultures = CultureFleet(rig, MODELS.get(name), HARMS, seeds, shift=shift)
    history = cultures.lived(HOURS).arrays()
    arrays = [RateModel(32, number) for number in range(ARRAYS)]
    rows = []
    for number, (harm, seed) in enumerate(cultures.cases):
        truth = {key: values[:, number] for key, values in history.items()}
        for equipment in equipments:
            sensors = Sensors(rig, truth, arrays[seed % ARRAYS], equipment, seed)
            rows.append({"model": name, "harm": harm.name, "seed": seed, "equipment": equipment.name}
                        | judged(truth["viability"], sensors, seed))  # fmt: skip
    return rows


def judged(viability: F8, sensors: Sensors, seed: int) -> dict[str, Any]:
    """Return how the estimate of one culture compares with the truth."""
    estimate = ViabilityEstimate.begun(seed)
    looks: list[tuple[float, float, float, float]] = []
    reported: int | None = None
    suspected: int | None = None
    loss, silent_h, understated_h = np.maximum.accumulate(viability) - viability, 0, 0
    for hour in range(len(viability)):
        lost = estimate.past[-1].lost if estimate.past else 0.0
        look = sensors.update(hour, lost=lost)
        estimate = estimate.after(look)
        if reported is None and estimate.harmed:
            reported = hour
        if suspected is None and estimate.suspected:
            suspected = hour
        if loss[hour] >= SILENT_LOSS and not estimate.suspected:
            said = Statement(estimate, look, frozenset())
            silent = not (causes := said.causes())
            silent_h += silent
            understated_h += int(silent and said.condition(causes).possible_loss < loss[hour])
        if hour >= WARM_H and hour % LOOK_EVERY_H == 0:
            now = estimate.past[-1]
            looks.append((float(viability[hour]), now.value, now.low, now.high))
    return {
        "looks": looks,
        "reported_h": reported,
        "suspected_h": suspected,
        "calm_h": int(np.argmax(loss >= CALM_LOSS)) if (loss >= CALM_LOSS).any() else len(loss),
        "lost_h": int(np.argmax(loss >= TRUE_LOSS)) if (loss >= TRUE_LOSS).any() else None,
        "lost": float(loss.max()),
        "silent_h": silent_h,
        "understated_h": understated_h,
    }


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures of some cultures together, and by harm."""
    return _figures(rows) | {
        "harms": {harm.name: _figures([row for row in rows if row["harm"] == harm.name]) for harm in HARMS},
        "models": {name: _figures([row for row in rows if row["model"] == name]) for name in (*MODELS, DRAWN)},
    }


def _figures(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    from verification.sensitivity.analysis import spearman

    if not rows:
        return {}
    true, value, low, high = np.array([look for row in rows for look in row["looks"]]).T
    lost = [row for row in rows if row["lost_h"] is not None]
    in_time = {kind: sum(_in_time(row, kind) for row in lost) for kind in ("reported_h", "suspected_h")}
    early = {kind: sum(_early(row, kind) for row in rows) for kind in ("reported_h", "suspected_h")}
    unharmed = [row for row in rows if row["lost"] < CALM_LOSS]
    return {
        "looks": len(true),
        "covered": round(float(np.mean((low <= true) & (true <= high))), 3),
        "median_width": round(float(np.median(high - low)), 3),
        "median_error": round(float(np.median(np.abs(value - true))), 3),
        "rank_correlation": round(spearman(true, value), 3) if true.std() > 0.01 else None,
        "lost": len(lost),
        "reported_in_time": in_time["reported_h"],
        "suspected_in_time": in_time["suspected_h"],
        "unharmed": len(unharmed),
        "false_reports": sum(row["reported_h"] is not None for row in unharmed),
        "calm_days": round(sum(row["calm_h"] for row in rows) / 24.0),
        "reported_while_calm": early["reported_h"],
        "suspected_while_calm": early["suspected_h"],
        "silent_h": sum(row["silent_h"] for row in rows),
        "silent_cultures": sum(row["silent_h"] > 0 for row in rows),
        "understated_h": sum(row["understated_h"] for row in rows),
    }


def _in_time(row: Mapping[str, Any], kind: str) -> bool:
    """Return whether a culture that lost :data:`TRUE_LOSS` was reported or suspected at most a day later."""
    return row[kind] is not None and row[kind] <= row["lost_h"] + REPORTED_WITHIN_H


def _early(row: Mapping[str, Any], kind: str) -> bool:
    """Return whether a culture was reported or suspected before it had lost :data:`CALM_LOSS`."""
    return row[kind] is not None and row[kind] < row["calm_h"]
