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
_Record = tuple[Any, ...]
"""When a row was recorded, its source, its number there, and its value."""
TEXTS = ("culture", "kind", "what", "unit", "rig", "source")
TIMES = ("utc", "recorded_utc", "begun_utc")


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
    begun: float
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
        self._timelines = []
        seen = set()
        for planned in plan.cultures:
            one, of = _timeline(planned, folder)
            if of in seen:
                raise UserError(
                    f"the culture {one.name} is named twice in the plan. Likely cause: once with its name and once without."
                    " Next: leave one out"
                )
            seen.add(of)
            self._timelines.append(one)
        if not self._timelines:
            raise UserError("the plan names no cultures. Next: name each with its arm, batch and timeline")
        self.first_utc_s = min(min(each.begun, float(each.at.min())) for each in self._timelines)
        """When the first of the cultures began."""

    def of(self, point: EndPoint) -> tuple[list[CultureValue], list[ExcludedCulture]]:
        """Return the values of an end point, and the cultures that are excluded from it.

        Raises:
            UserError: A value has another unit, or two cultures have the same records.
        """
        found, excluded = [], []
        seen: list[tuple[str, dict[str, set[_Record]]]] = []
        for each in self._timelines:
            days = (each.at - each.begun) / DAY_S
            inside = (days >= point.days[0]) & (days < point.days[1])
            rows = [
                n for n in np.flatnonzero(inside)
                if each.columns["kind"][n] == point.kind and each.columns["what"][n] == point.what
                and np.isfinite(each.columns["value"][n])
            ]  # fmt: skip
            why = self._excluded(each, inside, days[rows], point)
            label = (each.planned.arm, each.planned.batch, each.name)
            if why:
                excluded.append(ExcludedCulture(point.name, *label, why))
                continue
            _check(point, each, rows, seen)
            values = np.array([each.columns["value"][n] for n in rows])
            with np.errstate(over="ignore", invalid="ignore"):
                value = _summary(point, days[rows], values)
            if not np.isfinite(value):
                excluded.append(
                    ExcludedCulture(point.name, *label, f"the {point.summary} of its values is no finite number")
                )
                continue
            found.append(CultureValue(*label, value, len(rows)))
        return found, excluded

    def _excluded(
        self, each: _Timeline, inside: np.ndarray[Any, Any], days: np.ndarray[Any, Any], point: EndPoint
    ) -> str:
        for rule in self._plan.exclude:
            for n in np.flatnonzero(inside):
                if each.columns["kind"][n] == rule.kind and rule.what in ("", each.columns["what"][n]):
                    return rule.why
        if len(days) < point.min_values:
            return f"{len(days)} values, {point.min_values} are needed"
        if point.summary == "slope" and len(set(days.tolist())) < 2:
            return "its values are of one moment, a slope needs two"
        return ""


def _check(point: EndPoint, each: _Timeline, rows: list[Any], seen: list[tuple[str, dict[str, set[_Record]]]]) -> None:
    units = {each.columns["unit"][n] for n in rows}
    if units != {point.unit}:
        raise UserError(
            f"{point.name} is in {', '.join(sorted(units))} in {each.planned.timeline}, and in {point.unit} in the plan."
            " Next: correct the plan, and register it again"
        )
    records: dict[str, set[_Record]] = {}
    for n in rows:
        record = tuple(each.columns[name][n] for name in ("recorded_utc", "source", "seq", "value"))
        records.setdefault(each.columns["rig"][n], set()).add(record)
    other = next(
        (name for name, known in seen for rig, own in records.items() if _same_records(own, known.get(rig, set()))),
        None,
    )
    seen.append((each.name, records))
    if other is not None:
        raise UserError(
            f"{point.name} of {other} and of {each.name} are the same records: it is a value of the rig, not of a culture,"
            " and would be counted twice. Next: name one culture of each rig, or an end point that a chamber has for itself"
        )


def _same_records(one: set[_Record], other: set[_Record]) -> bool:
    """Return whether two cultures share their records, where both have some.

    Two simulations of one rig file may write a first row at the same moment with the same value; they do not share all.
    """
    if not one & other:
        return False
    first, last = max(min(one)[0], min(other)[0]), min(max(one)[0], max(other)[0])
    return {each for each in one if first <= each[0] <= last} == {each for each in other if first <= each[0] <= last}


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


def _timeline(planned: PlannedCulture, folder: Path) -> tuple[_Timeline, tuple[Path, str]]:
    """Return the rows of a culture; file and name of the culture tell whether it is named twice."""
    path = folder / planned.timeline
    frame = _read(path)
    cultures = sorted(set(frame["culture"]) - {""})
    name = planned.culture or (cultures[0] if len(cultures) == 1 else "")
    if name not in cultures:
        raise UserError(
            f"{path} has no culture “{name}”. Next: name one of {', '.join(cultures) or 'another timeline: it has none'}"
        )
    own = frame[frame["culture"] == name]
    kept = {column: own[column].tolist() for column in (*TEXTS, "value", "seq", "recorded_utc")}
    begun = float(own["begun_utc"].min())
    if not np.isfinite(begun):
        raise UserError(f"{path} does not say when {name} began. Next: make it again with `choroid tissue export`")
    return _Timeline(planned, f"{planned.timeline}: {name}", begun, own["utc"].to_numpy(), kept), (path.resolve(), name)


def _read(path: Path) -> Any:
    """Return a timeline with times in UTC s, texts without gaps, and numbers.

    Raises:
        UserError: It cannot be read, or is no timeline.
    """
    wanted = {"needed_for": "a comparison", "otherwise": "read the timelines by other means"}
    pandas: Any = load_extra("pandas", "stats", **wanted)
    if path.suffix == ".parquet":
        load_extra("pyarrow", "data", needed_for=f"the timeline {path}", otherwise="export it as .csv")
    again = "Next: make it with `choroid tissue export`"
    try:
        if path.suffix == ".parquet":
            frame = pandas.read_parquet(path)
        else:
            frame = pandas.read_csv(path, dtype=dict.fromkeys(TEXTS, str), keep_default_na=False, na_values=[""])
        if missing := [column for column in (*TEXTS, *TIMES, "value", "seq") if column not in frame]:
            raise UserError(
                f"{path} is no timeline: it has no column {', '.join(missing)}. Likely cause: another table, or one that an"
                f" older release wrote. {again}"
            )
        for column in TEXTS:
            frame[column] = frame[column].fillna("")
        for column in TIMES:
            times = pandas.to_datetime(frame[column], utc=True, format="ISO8601")
            frame[column] = (times - pandas.Timestamp(0, tz="UTC")).dt.total_seconds()
        frame["value"] = pandas.to_numeric(frame["value"])
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"the timeline {path} cannot be read: {error}. Likely cause: it is damaged. {again}") from None
    return frame
