"""Rate the care of the tissue by its apparent condition (biology.md §4): a proxy, **not** evidence of feeling.

V = G · Π sᵢ^wᵢ over LDH, oxygen uptake, activity, growth, lactate yield and medium grade; G is 0 when sterility
fails, when it is colder than 33 or hotter than 39 °C, when oxygen has been under 5 % of air saturation for more
than ten minutes, or while an alarm says that the care has failed.
Form, weights and gates are the proposal of biology.md §4 [P]: none is published; `choroid
sensitivity` shows their effect. Corners are the edges of the media grades where there is one. Pure and versioned;
:mod:`protocols.scoring` defines how missing readings count. It is stored as 0 to 1, and shown as a percentage.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

from protocols.activity import CORNERS as ACTIVITY_CORNERS
from protocols.activity import WEIGHTS as ACTIVITY_WEIGHTS
from protocols.activity import FiringMeasures, activity
from protocols.grading import Letter
from protocols.interval import Interval
from protocols.scoring import FLOOR, Corners, Score, ScorePart, Veto, combined, gate, missing, part

VERSION = "care-rating-3"
"""2 was the formula of `viability-2`, under which older journals hold this score; 3 adds the gate `alarms`."""
LABEL = "care-quality proxy, not evidence of feeling"

WEIGHTS = {"ldh": 0.20, "oxygen_uptake": 0.20, "activity": 0.20, "growth": 0.15, "lactate_yield": 0.10, "grade": 0.15}
CORNERS = {
    "ldh": Corners(-1.0, 0.0, 1.5, 5.0),
    "oxygen_uptake": Corners(0.2, 0.8, 1.6, 3.0),
    "growth": Corners(-0.05, 0.0, 0.12, 0.3),
    "lactate_yield": Corners(0.0, 0.8, 1.5, 2.2),
}
"""`ldh`: multiple of the baseline; grade A up to 1.5, D from 5 (biology.md §3.2).
`oxygen_uptake`: multiple of the organoid's own baseline [P].
`growth`: relative change of volume per day [P].
`lactate_yield`: mol lactate per mol glucose; 1.0 to 1.4 aerobic, 2.0 without oxygen (biology.md §1.1)."""

GRADES = {Letter.A: 1.0, Letter.B: 0.8, Letter.C: 0.4, Letter.D: 0.0}
"""Score of each media grade [P]."""

COLDEST_C, HOTTEST_C = 33.0, 39.0
MIN_OXYGEN_PCT = 5.0
OXYGEN_SHORT_S = 600.0


@dataclass(frozen=True, slots=True)
class MediumGrade:
    """The medium's grade: `letter` by pessimistic ends, `best` by the best values (a grade's own uncertainty)."""

    letter: Letter
    best: Letter


@dataclass(frozen=True, slots=True)
class Vitals:
    """Known inputs; None is missing. Units as in :data:`CORNERS`."""

    temperature_c: Interval | None = None
    oxygen_short_s: Interval | None = None
    """Time for which dissolved oxygen has been under :data:`MIN_OXYGEN_PCT` without interruption (s); 0 while
    above.
    """
    sterility_failed: bool = False
    """A recorded finding, not a reading: it cannot go missing."""
    alarms: tuple[str, ...] = ()
    """Failures of the care that act now, as text."""
    ldh: Interval | None = None
    oxygen_uptake: Interval | None = None
    oxygen_uptake_by: str = ""
    """How the uptake was derived, if it was not measured."""
    growth: Interval | None = None
    lactate_yield: Interval | None = None
    grade: MediumGrade | None = None
    firing: FiringMeasures = field(default_factory=FiringMeasures)

    def to_json(self) -> dict[str, Any]:
        """Return plain data that :meth:`from_json` reads: a journalled score can be recomputed."""
        data: dict[str, Any] = {}
        for name, value in _flat(self).items():
            if isinstance(value, Interval):
                value = value.to_json()
            elif isinstance(value, MediumGrade):
                value = {"letter": value.letter.value, "best": value.best.value}
            data[name] = value
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return what :meth:`to_json` wrote."""
        own = {each.name for each in fields(cls)}
        values = {name: _read(value) for name, value in data.items()}
        firing = FiringMeasures(**{name: value for name, value in values.items() if name not in own})
        return cls(**{name: value for name, value in values.items() if name in own}, firing=firing)


def _flat(vitals: Vitals) -> dict[str, Any]:
    flat = {each.name: getattr(vitals, each.name) for each in fields(vitals) if each.name != "firing"}
    return flat | {each.name: getattr(vitals.firing, each.name) for each in fields(vitals.firing)}


def _read(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    if not isinstance(value, Mapping):
        return value
    if "letter" in value:
        return MediumGrade(Letter(value["letter"]), Letter(value["best"]))
    return Interval.from_json(value)


def care_rating(
    vitals: Vitals,
    *,
    weights: Mapping[str, float] = WEIGHTS,
    corners: Mapping[str, Corners] = CORNERS,
    activity_weights: Mapping[str, float] = ACTIVITY_WEIGHTS,
    activity_corners: Mapping[str, Corners] = ACTIVITY_CORNERS,
) -> Score:
    """Return the score of what is known. Weights (which must sum to 1) and corners are for sensitivity analysis."""
    parts: list[ScorePart] = []
    for name, weight in weights.items():
        if name == "activity":
            parts.append(activity(vitals.firing, weight, weights=activity_weights, corners=activity_corners))
        elif name == "grade":
            parts.append(_grade(vitals.grade, weight))
        else:
            note = vitals.oxygen_uptake_by if name == "oxygen_uptake" else ""
            parts.append(part(name, weight, corners[name], getattr(vitals, name), note))
    return combined(tuple(parts), gates_of(vitals), version=VERSION, label=LABEL)


def gates_of(vitals: Vitals) -> tuple[Veto, ...]:
    """Return the gates: temperature, oxygen, sterility; and alarms, while one means that the care has failed."""
    return (
        gate("temperature", vitals.temperature_c, COLDEST_C, HOTTEST_C, "°C"),
        gate("oxygen", vitals.oxygen_short_s, float("-inf"), OXYGEN_SHORT_S, f"s under {MIN_OXYGEN_PCT:g} %"),
        _sterility(vitals.sterility_failed),
        *(() if not vitals.alarms else (_alarms(vitals.alarms),)),
    )


def shut_gate(vitals: Vitals, *, absent: Container[str] = ()) -> str | None:
    """Return the name of the first shut gate, without the cost of the score.

    A gate whose reading is missing counts as shut, unless it is in `absent`: the rig has no probe for it.
    """
    temperature, short = vitals.temperature_c, vitals.oxygen_short_s
    if "temperature" not in absent and (temperature is None or not COLDEST_C <= temperature.value <= HOTTEST_C):
        return "temperature"
    if "oxygen" not in absent and (short is None or short.value > OXYGEN_SHORT_S):
        return "oxygen"
    return "sterility" if vitals.sterility_failed else None


def _grade(seen: MediumGrade | None, weight: float) -> ScorePart:
    if seen is None:
        return missing("grade", weight)
    score, high = max(FLOOR, GRADES[seen.letter]), max(FLOOR, GRADES[seen.best])
    note = "" if seen.letter is seen.best else f"{seen.best} by its best values"
    return ScorePart("grade", weight, score, score, max(score, high), score, 1.0, seen.letter.value, note)


def _sterility(failed: bool) -> Veto:
    text = "the barrier failed" if failed else "no failure on record"
    return Veto("sterility", not failed, surely=not failed, possibly=not failed, text=text)


def _alarms(alarms: Sequence[str]) -> Veto:
    """Return the gate of failed care: how the tissue fares is not known meanwhile."""
    return Veto("alarms", None, surely=False, possibly=True, text=f"not known under an alarm: {', '.join(alarms)}")
