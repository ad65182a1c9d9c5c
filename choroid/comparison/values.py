"""One number for each culture and end point, from the timelines that a plan names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from choroid.common.extras import load_extra
from choroid.common.failure import UserError
from choroid.comparison.plan import ComparisonPlan, EndPoint, PlannedCulture

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class CultureValue:
    """The value of one culture."""

    arm: str
    batch: str
    culture: str
    value: float
    n: int
    """Rows of the timeline that it summarises."""


@dataclass(frozen=True, slots=True)
class ExcludedCulture:
    """A culture that is not used for an end point, and why."""

    end_point: str
    arm: str
    batch: str
    culture: str
    why: str


@dataclass(frozen=True, slots=True)
class _Timeline:
    """The rows of one culture: times in UTC s."""

    planned: PlannedCulture
    name: str
    at: np.ndarray[Any, Any]
    columns: Mapping[str, list[Any]]


class CultureValues:
    """The values of all cultures of a plan."""

    def __init__(self, plan: ComparisonPlan, folder: Path) -> None:
        """Read the timelines; their paths are relative to `folder`.

        Raises:
            UserError: A file is missing, has no such culture, or a culture is named twice.
        """
        self._plan = plan
        self._timelines = [_timeline(each, folder) for each in plan.cultures]
        if not self._timelines:
            raise UserError("the plan names no cultures. Next: name each with its arm, batch and timeline")
        self.first_utc_s = min(float(each.at.min()) for each in self._timelines)
        """Time of the first row of any culture."""

    def of(self, point: EndPoint) -> tuple[list[CultureValue], list[ExcludedCulture]]:
        """Return the values of an end point, and the cultures that are excluded from it.

        Raises:
            UserError: A value has another unit, or two cultures have the same records.
        """
        found, excluded = [], []
        seen: dict[tuple[Any, ...], str] = {}
        for each in self._timelines:
            days = (each.at - each.at.min()) / DAY_S
            inside = (days >= point.days[0]) & (days < point.days[1])
            rows = [
                n for n in np.flatnonzero(inside)
                if each.columns["kind"][n] == point.kind and each.columns["what"][n] == point.what
                and np.isfinite(each.columns["value"][n])
            ]  # fmt: skip
            why = self._excluded(each, inside, len(rows), point)
            label = (each.planned.arm, each.planned.batch, each.name)
            if why:
                excluded.append(ExcludedCulture(point.name, *label, why))
                continue
            _check(point, each, rows, seen)
            values = np.array([each.columns["value"][n] for n in rows])
            found.append(CultureValue(*label, _summary(point, days[rows], values), len(rows)))
        return found, excluded

    def _excluded(self, each: _Timeline, inside: np.ndarray[Any, Any], count: int, point: EndPoint) -> str:
        for rule in self._plan.exclude:
            for n in np.flatnonzero(inside):
                if each.columns["kind"][n] == rule.kind and rule.what in ("", each.columns["what"][n]):
                    return rule.why
        needed = max(point.min_values, 2 if point.summary == "slope" else 1)
        return f"{count} values, {needed} are needed" if count < needed else ""


def _check(point: EndPoint, each: _Timeline, rows: list[Any], seen: dict[tuple[Any, ...], str]) -> None:
    units = {each.columns["unit"][n] for n in rows}
    if units != {point.unit}:
        raise UserError(
            f"{point.name} is in {', '.join(sorted(units))} in {each.planned.timeline}, and in {point.unit} in the plan."
            " Next: correct the plan, and register it again"
        )
    records = (each.columns["rig"][rows[0]], *((each.columns["recorded_utc"][n], each.columns["seq"][n]) for n in rows))
    other = seen.setdefault(records, each.name)
    if other != each.name or len([known for known in seen.values() if known == each.name]) > 1:
        raise UserError(
            f"{point.name} of {other} and of {each.name} are the same records: it is a value of the rig, not of a culture,"
            " and would be counted twice. Next: name one culture of each rig, or an end point that a chamber has for itself"
        )


def _summary(point: EndPoint, days: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> float:
    match point.summary:
        case "mean":
            return float(values.mean())
        case "last":
            return float(values[np.argmax(days)])
        case "maximum":
            return float(values.max())
        case "minimum":
            return float(values.min())
    away = days - days.mean()
    return float((away * values).sum() / (away**2).sum())


def _timeline(planned: PlannedCulture, folder: Path) -> _Timeline:
    pandas: Any = load_extra(
        "pandas", "stats", needed_for="a comparison", otherwise="read the timelines by other means"
    )
    path = folder / planned.timeline
    try:
        frame = pandas.read_parquet(path) if path.suffix == ".parquet" else pandas.read_csv(path)
    except (OSError, ValueError) as error:
        raise UserError(
            f"the timeline {path} cannot be read: {error}. Next: make it with `choroid tissue export`"
        ) from None
    cultures = sorted(set(frame["culture"].dropna()) - {""})
    name = planned.culture or (cultures[0] if len(cultures) == 1 else "")
    if name not in cultures:
        raise UserError(f"{path} has no culture “{name}”. Next: name one of {', '.join(cultures)}")
    own = frame[frame["culture"] == name]
    at = (
        pandas.to_datetime(own["utc"], utc=True, format="ISO8601").astype("datetime64[ms, UTC]").astype("int64")
        / 1000.0
    )
    kept = {
        column: own[column].fillna("").tolist() for column in ("kind", "what", "unit", "rig")
    } | {column: own[column].tolist() for column in ("value", "seq")} | {
        "recorded_utc": own["recorded_utc"].astype(str).tolist()
    }  # fmt: skip
    return _Timeline(planned, f"{planned.timeline}: {name}", at.to_numpy(), kept)
