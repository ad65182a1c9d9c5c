"""`choroid bench viability`: is the estimate of viability calibrated? Cultures of the plant under harm, seen through sensors.

For each tissue model, harm and seed a culture lives twelve days; a harm begins on day 5. Its true state becomes readings with
offset, noise and drift. The estimate knows neither the tissue model nor the harm. It is compared with the truth every six
hours. No part of the controller takes part, so that hundreds of cultures fit in minutes; `choroid sensitivity --truth` is the
whole stack.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from choroid.bench.cultures import F8, HARMS, CultureFleet
from choroid.common.examples import bench_rig
from choroid.common.workers import workers
from controller.rig.loading import load_rig
from protocols.interval import Interval
from protocols.tissue.estimate import ViabilityEstimate
from protocols.tissue.look import TissueLook
from sim.neurons.conditions import TissueConditions
from sim.neurons.rates import RateModel
from sim.plant.tissue_models import MODELS

HOURS = 24 * 12
LOOK_EVERY_H = 6
WARM_H = 24
TRUE_LOSS, REPORTED_WITHIN_H = 0.1, 24
WEEK_H = 24 * 7
FIRST_ASSAY_H = 6
ARRAYS = 4
"""Number of different cultures on arrays whose firing is used."""


@dataclass(frozen=True, slots=True)
class Equipment:
    """What a rig measures in addition to temperature, pH, flow and oxygen in the loop."""

    name: str
    outlet_oxygen: bool
    weekly: bool
    """A brightfield image and an assay of lactate, glucose, ammonia and LDH each week."""
    electrodes: bool


EQUIPMENTS = (
    Equipment("ordinary", outlet_oxygen=True, weekly=True, electrodes=False),
    Equipment("bench rig today", outlet_oxygen=False, weekly=False, electrodes=True),
    Equipment("all", outlet_oxygen=True, weekly=True, electrodes=True),
)


class Sensors:
    """What the instruments of one culture show of its truth."""

    def __init__(self, truth: Mapping[str, F8], healthy: Mapping[str, F8], rates: RateModel, seed: int) -> None:
        """Begin with offsets drawn by `seed`. `healthy` is the same culture without harm: what an estimator expects."""
        self._truth, self._healthy, self._rates = truth, healthy, rates
        self._random = np.random.default_rng((seed, 7))
        normal = self._random.normal
        self._offset = {
            "temperature_c": normal(0, 0.15),
            "ph": normal(0, 0.03),
            "in": normal(0, 1.0),
            "out": normal(0, 1.0),
        }
        self._drift = normal(0, 0.08 / WEEK_H)
        self._bias = {name: normal() for name in ("lactate_mm", "glucose_mm", "ammonia_mm")}
        self._wander = 0.0
        self._ldh = 0.0
        self._assay: tuple[int, dict[str, float]] | None = None

    def look(self, hour: int, equipment: Equipment) -> TissueLook:
        """Return the readings of one hour."""
        true, normal = {name: float(values[hour]) for name, values in self._truth.items()}, self._random.normal
        temperature = true["temperature_c"] + self._offset["temperature_c"]
        seen = true["loop_oxygen_pct"] + self._offset["in"]
        outlet = true["oxygen_pct"] + self._offset["out"]
        drop = max((seen - outlet) * (1.0 + self._drift * hour) + normal(0.0, 0.4), 0.0)
        due = equipment.weekly and hour % WEEK_H == FIRST_ASSAY_H
        if due:
            self._take(hour, true)
        return TissueLook(
            temperature_c=Interval.around(temperature + normal(0, 0.03), 0.15),
            oxygen_pct=Interval.around(outlet if equipment.outlet_oxygen else seen, 1.5, floor=0.0),
            oxygen_at_tissue=equipment.outlet_oxygen,
            flow_share=Interval.around(1.0, 0.03),
            ph=Interval.around(true["ph"] + self._offset["ph"], 0.03),
            glucose_mm=self._medium("glucose_mm", hour),
            lactate_mm=self._medium("lactate_mm", hour),
            ammonia_mm=self._medium("ammonia_mm", hour),
            oxygen_uptake=Interval.around(drop, 0.5, floor=0.0) if equipment.outlet_oxygen else None,
            ldh=Interval.around(true["ldh"] * np.exp(normal(0, 0.08)) / self._ldh, 0.08 * true["ldh"] / self._ldh)
            if due
            else None,
            volume=Interval.around(true["volume"] * np.exp(normal(0, 0.03)), 0.03 * true["volume"]) if due else None,
            firing_hz=self._firing(hour, true) if equipment.electrodes else None,
        )

    def _take(self, hour: int, true: Mapping[str, float]) -> None:
        self._ldh = self._ldh or true["ldh"]
        normal = self._random.normal
        self._assay = hour, {name: true[name] + normal(0, max(0.05 * true[name], 0.03)) for name in self._bias}

    def _medium(self, name: str, hour: int) -> Interval:
        """Return what an estimator knows: the last assay and the usual course since then; without assays the recipe alone."""
        usual = self._healthy[name]
        if self._assay is None:
            sd = {"lactate_mm": 1.8, "glucose_mm": 2.0, "ammonia_mm": 0.15}[name]
            return Interval.around(float(usual[hour]) + sd * self._bias[name], sd, floor=0.0)
        taken, values = self._assay
        days = (hour - taken) / 24.0
        sd = {"lactate_mm": 0.3 + 0.2 * days, "glucose_mm": 0.4 + 0.2 * days, "ammonia_mm": 0.04 + 0.02 * days}[name]
        value = values[name] + float(usual[hour] - usual[taken]) + sd * self._bias[name]
        return Interval.around(max(value, 0.0), sd, floor=0.0)

    def _firing(self, hour: int, true: Mapping[str, float]) -> Interval:
        conditions = TissueConditions(
            alive=true["viability"],
            temperature_c=true["temperature_c"],
            oxygen_mm=true["oxygen_pct"] / 100.0 * 0.19,
            ph=true["ph"],
            ammonia_mm=true["ammonia_mm"],
        )
        self._wander = 0.99 * self._wander + self._random.normal(0.0, 0.2 * np.sqrt(1 - 0.99**2))
        rate = float(self._rates.rates_hz(conditions, hour * 3600.0).mean()) * np.exp(self._wander)
        return Interval.around(rate * float(np.exp(self._random.normal(0.0, 0.05))), 0.05 * rate, floor=0.0)


def calibration(
    *,
    seeds: Sequence[int],
    jobs: int = 1,
    models: Sequence[str] = tuple(MODELS),
    equipments: Sequence[Equipment] = EQUIPMENTS,
) -> dict[str, Any]:
    """Return coverage, width, rank correlation and delay of the reports, by equipment."""
    found: list[dict[str, Any]] = []
    work = partial(_model, seeds=tuple(seeds), equipments=tuple(equipments))
    if jobs == 1:
        each = [work(name) for name in models]
    else:
        with workers(jobs) as pool:
            each = list(pool.map(work, models))
    for one in each:
        found += one
    return {
        "seeds": len(seeds),
        "cultures": len(found) // max(len(equipments), 1),
        "equipment": {one.name: summary([row for row in found if row["equipment"] == one.name]) for one in equipments},
    }


def _model(name: str, *, seeds: tuple[int, ...], equipments: tuple[Equipment, ...]) -> list[dict[str, Any]]:
    """Return one row for each culture of a tissue model and each equipment."""
    cultures = CultureFleet(load_rig(bench_rig()), MODELS[name], HARMS, seeds)
    history = cultures.lived(HOURS).arrays()
    arrays = [RateModel(32, number) for number in range(ARRAYS)]
    rows = []
    for number, (harm, seed) in enumerate(cultures.cases):
        truth = {key: values[:, number] for key, values in history.items()}
        healthy = {key: values[:, seeds.index(seed)] for key, values in history.items()}
        for equipment in equipments:
            sensors = Sensors(truth, healthy, arrays[seed % ARRAYS], seed)
            rows.append({"model": name, "harm": harm.name, "seed": seed, "equipment": equipment.name}
                        | judged(truth["viability"], sensors, equipment, seed))  # fmt: skip
    return rows


def judged(viability: F8, sensors: Sensors, equipment: Equipment, seed: int) -> dict[str, Any]:
    """Return how the estimate of one culture compares with the truth."""
    estimate = ViabilityEstimate.begun(seed)
    looks: list[tuple[float, float, float, float]] = []
    reported: int | None = None
    for hour in range(len(viability)):
        estimate = estimate.after(sensors.look(hour, equipment))
        if reported is None and estimate.harmed:
            reported = hour
        if hour >= WARM_H and hour % LOOK_EVERY_H == 0:
            now = estimate.past[-1]
            looks.append((float(viability[hour]), now.value, now.low, now.high))
    lost = np.maximum.accumulate(viability) - viability >= TRUE_LOSS
    return {"looks": looks, "reported_h": reported, "lost_h": int(np.argmax(lost)) if lost.any() else None,
            "lost": float((np.maximum.accumulate(viability) - viability).max())}  # fmt: skip


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures of some cultures together, and by harm."""
    return _figures(rows) | {
        "harms": {harm.name: _figures([row for row in rows if row["harm"] == harm.name]) for harm in HARMS},
        "models": {name: _figures([row for row in rows if row["model"] == name]) for name in MODELS},
    }


def _figures(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    from choroid.sensitivity.analysis import spearman

    if not rows:
        return {}
    true, value, low, high = np.array([look for row in rows for look in row["looks"]]).T
    lost = [row for row in rows if row["lost_h"] is not None]
    in_time = [
        row for row in lost if row["reported_h"] is not None and row["reported_h"] <= row["lost_h"] + REPORTED_WITHIN_H
    ]
    unharmed = [row for row in rows if row["lost"] < 0.03]
    return {
        "looks": len(true),
        "covered": round(float(np.mean((low <= true) & (true <= high))), 3),
        "median_width": round(float(np.median(high - low)), 3),
        "median_error": round(float(np.median(np.abs(value - true))), 3),
        "rank_correlation": round(spearman(true, value), 3) if true.std() > 0.01 else None,
        "lost": len(lost),
        "reported_in_time": len(in_time),
        "unharmed": len(unharmed),
        "false_reports": sum(row["reported_h"] is not None for row in unharmed),
    }
