"""Sensitivity of care rating, welfare and happiness to weights, corners and inputs.

No weight of these scores is published (biology.md §4), so readers must be able to see the effect of another choice.
With a data directory the journalled inputs of a rig are scored again; without, a table of example days. Each weight
×0.5 and ×1.5 (the others scaled so that the sum stays 1), each corner moved out and in by a fifth of its flank,
each input missing; and the stability of the order of days when all weights vary at random at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from choroid.common.failure import UserError
from controller.journal.reader import JournalReader
from controller.rig.loading import load_rig
from controller.vitals.score_rows import ROW
from drivers.registry import MODELS
from protocols import activity, care_rating, welfare
from protocols.care_rating import Vitals
from protocols.happiness import VERSION as HAPPINESS
from protocols.happiness import happiness
from protocols.scoring import FLOOR, Corners
from protocols.welfare import Treatment
from verification.sensitivity.example_days import EXAMPLE_DAYS, as_measured

SHARE = 0.5
"""Relative change of a weight."""
FLANK = 0.2
"""Change of a corner as a share of the flank that it bounds."""
MAX_MOMENTS = 200
DRAWS = 1000
SCORES = ("care_rating", "welfare", "happiness")
LISTED = 8

Weights = dict[str, float]


@dataclass(frozen=True, slots=True)
class Moment:
    """Known inputs at one moment, and the day it belongs to."""

    day: str
    vitals: Vitals
    treated: Treatment


@dataclass(frozen=True, slots=True)
class Choice:
    """One choice of weights and corners."""

    care_rating: Mapping[str, float]
    welfare: Mapping[str, float]
    activity: Mapping[str, float]
    vital_corners: Mapping[str, Corners]
    treated_corners: Mapping[str, Corners]
    firing_corners: Mapping[str, Corners]

    def scores(self, moment: Moment) -> tuple[float, float, float]:
        """Return care rating, welfare and happiness of a moment."""
        alive = care_rating.care_rating(
            moment.vitals,
            weights=self.care_rating,
            corners=self.vital_corners,
            activity_weights=self.activity,
            activity_corners=self.firing_corners,
        )
        kept = welfare.welfare(moment.treated, weights=self.welfare, corners=self.treated_corners)
        return alive.score, kept.score, happiness(alive, kept).score


PROPOSED = Choice(
    care_rating.WEIGHTS, welfare.WEIGHTS, activity.WEIGHTS, care_rating.CORNERS, welfare.CORNERS, activity.CORNERS
)


def sensitivity(
    rig: Path | None = None,
    *,
    data: Path | None = None,
    seed: int = 1,
    draws: int = DRAWS,
    plots: Path | None = None,
) -> dict[str, Any]:
    """Return the analysis as plain data.

    Args:
        rig: Rig file of the example days.
        data: Data directory whose journalled inputs are scored; without it the example days are.
        seed: Seed of the draws.
        draws: Number of draws of all weights.
        plots: Folder of the plots; without it none are drawn.

    Raises:
        UserError: There is nothing to analyse.
    """
    if plots is not None:
        from verification.sensitivity.plots import plotting

        plotting()
    moments = _journalled(data) if data is not None else _examples(rig)
    nominal = _means(PROPOSED, moments)
    changes = [*_weight_changes(moments), *_corner_changes(moments), *_missing(moments)]
    rows = [_change_row(kind, name, changed, nominal) for kind, name, changed in changes]
    rows.sort(key=lambda row: (-float(str(row["swing"])), str(row["name"])))
    answer = {
        "source": str(data) if data is not None else "example days",
        "versions": [care_rating.VERSION, activity.VERSION, welfare.VERSION, HAPPINESS],
        "moments": len(moments),
        "days": _days(moments),
        "nominal": {score: round(nominal[k], 6) for k, score in enumerate(SCORES)},
        "tornado": rows,
        "ranks": _ranks(moments, seed, draws),
        "seed": seed,
    }
    if plots is not None:
        from verification.sensitivity.plots import draw

        answer["plots"] = [str(path) for path in draw(answer, plots)]
    return answer


# --- inputs ---------------------------------------------------------------------------------------------


def _journalled(data: Path) -> list[Moment]:
    """The hours of a journal, thinned evenly to :data:`MAX_MOMENTS`."""
    with contextlib.closing(JournalReader(data / "journal.db")) as reader:
        moments = [
            Moment(row.utc[:10], Vitals.from_json(rating["inputs"]), Treatment.from_json(kept["inputs"]))
            for row in reader.entries(kinds=(ROW,))
            if "inputs" in (rating := row.body["care_rating"] or {}) and "inputs" in (kept := row.body["welfare"] or {})
        ]
    if not moments:
        raise UserError(
            f"no scores with their inputs are in {data / 'journal.db'}. Likely cause: the controller ran for less"
            " than a minute. Next: leave --data away to see example days"
        )
    step = max(1, -(-len(moments) // MAX_MOMENTS))
    return moments[::step]


def _examples(rig: Path | None) -> list[Moment]:
    described = None if rig is None else load_rig(rig, models=MODELS)
    days = EXAMPLE_DAYS if described is None else as_measured(EXAMPLE_DAYS, described)
    return [Moment(name, vitals, treated) for name, (vitals, treated) in days.items()]


def _days(moments: Sequence[Moment]) -> dict[str, dict[str, float]]:
    by_day: dict[str, list[tuple[float, float, float]]] = {}
    for moment in moments:
        by_day.setdefault(moment.day, []).append(PROPOSED.scores(moment))
    return {
        day: {score: round(float(np.mean([each[k] for each in found])), 6) for k, score in enumerate(SCORES)}
        for day, found in by_day.items()
    }


# --- one change at a time -------------------------------------------------------------------------------

Means = tuple[float, float, float]
Change = tuple[str, str, tuple[Means, Means]]


def _means(choice: Choice, moments: Sequence[Moment]) -> Means:
    found = np.array([choice.scores(moment) for moment in moments]).mean(axis=0)
    return float(found[0]), float(found[1]), float(found[2])


def _change_row(kind: str, name: str, changed: tuple[Means, Means], nominal: Means) -> dict[str, Any]:
    """Return the row of the tornado for one change in both directions."""
    low, high = changed
    return {
        "kind": kind,
        "name": name,
        **{score: [round(low[k], 6), round(high[k], 6)] for k, score in enumerate(SCORES)},
        "swing": round(max(abs(each[2] - nominal[2]) for each in changed), 6),
        "swing_care_rating": round(max(abs(each[0] - nominal[0]) for each in changed), 6),
    }


def _weight_changes(moments: Sequence[Moment]) -> Iterator[Change]:
    for part in ("care_rating", "welfare", "activity"):
        for name in getattr(PROPOSED, part):
            ends = [
                _means(_with(part, reweighted(getattr(PROPOSED, part), {name: factor})), moments)
                for factor in (1.0 - SHARE, 1.0 + SHARE)
            ]
            yield "weight", f"{part}.{name}", (ends[0], ends[1])


def _with(field: str, table: Mapping[str, Any]) -> Choice:
    """Return the proposal with one of its tables replaced."""
    changed: dict[str, Any] = {field: table}
    return replace(PROPOSED, **changed)


def reweighted(weights: Mapping[str, float], factors: Mapping[str, float]) -> Weights:
    """Return `weights` times `factors` (default 1), scaled so that they sum to 1."""
    raw = {name: weight * factors.get(name, 1.0) for name, weight in weights.items()}
    total = sum(raw.values())
    return {name: weight / total for name, weight in raw.items()}


def _corner_changes(moments: Sequence[Moment]) -> Iterator[Change]:
    for part, where in (
        ("care_rating", "vital_corners"),
        ("welfare", "treated_corners"),
        ("activity", "firing_corners"),
    ):
        table: Mapping[str, Corners] = getattr(PROPOSED, where)
        for name, corners in table.items():
            for corner in (each.name for each in fields(Corners)):
                moved = [_moved(corners, corner, way) for way in (-FLANK, FLANK)]
                if moved[0] is None or moved[1] is None:
                    continue
                ends = [_means(_with(where, {**table, name: each}), moments) for each in moved]
                yield "corner", f"{part}.{name}.{corner}", (ends[0], ends[1])


def _moved(corners: Corners, corner: str, by: float) -> Corners | None:
    """Return the corners with one of them moved by a share of its flank; None where the flank is unbounded."""
    low = corner.endswith("low")
    flank = corners.one_low - corners.zero_low if low else corners.zero_high - corners.one_high
    if not np.isfinite(flank) or flank <= 0.0:
        return None
    return replace(corners, **{corner: getattr(corners, corner) + by * flank})


def _missing(moments: Sequence[Moment]) -> Iterator[Change]:
    """Yield the change by each missing input: from the score without it to the score with it."""
    nominal = _means(PROPOSED, moments)
    takers: list[tuple[str, Callable[[Moment], Moment]]] = []
    for name in ("temperature_c", "oxygen_short_s", "ldh", "oxygen_uptake", "growth", "lactate_yield", "grade"):
        takers.append((name, lambda m, n=name: replace(m, vitals=replace(m.vitals, **{n: None}))))  # type: ignore[misc]
    for name in (*activity.WEIGHTS, "signal_quality"):
        takers.append(
            (
                name,
                lambda m, n=name: replace(m, vitals=replace(m.vitals, firing=replace(m.vitals.firing, **{n: None}))),  # type: ignore[misc]
            )
        )
    for name in welfare.WEIGHTS:
        takers.append((name, lambda m, n=name: replace(m, treated=replace(m.treated, **{n: None}))))  # type: ignore[misc]
    for name, take in takers:
        without = _means(PROPOSED, [take(moment) for moment in moments])
        yield "missing", name, (without, nominal)


# --- all weights at once --------------------------------------------------------------------------------


def _ranks(moments: Sequence[Moment], seed: int, draws: int) -> dict[str, Any]:
    """Return the stability of the order of days by happiness when every weight is drawn from 0.5 to 1.5 times its
    own.

    Returns:
        `spearman`: quantiles (5, 50, 95 %) of the rank correlation with the proposed order; `swapped`: the mean
            share of pairs of days that change places; `first` and `last`: the share of draws in which the best and
            the worst day stay the same. Ties count as they are: a day that a gate sets to 0 stays at 0 for all
            weights.
    """
    days = list(dict.fromkeys(moment.day for moment in moments))
    if len(days) < 3:
        return {"draws": 0, "days": len(days), "why": "fewer than three days have no order to speak of"}
    member = np.array([days.index(moment.day) for moment in moments])
    table = _Table(moments)
    nominal = _by_day(table.happiness(PROPOSED.care_rating, PROPOSED.welfare, PROPOSED.activity), member, len(days))
    generator = np.random.default_rng(seed)
    correlations, swaps, first, last = [], [], 0, 0
    for _ in range(draws):
        drawn = [
            reweighted(weights, dict(zip(weights, generator.uniform(1 - SHARE, 1 + SHARE, len(weights)), strict=True)))
            for weights in (PROPOSED.care_rating, PROPOSED.welfare, PROPOSED.activity)
        ]
        found = _by_day(table.happiness(*drawn), member, len(days))
        correlations.append(spearman(nominal, found))
        swaps.append(_swapped(nominal, found))
        first += int(found.argmax() == nominal.argmax())
        last += int(found.argmin() == nominal.argmin())
    low, middle, high = np.quantile(correlations, (0.05, 0.5, 0.95))
    return {
        "draws": draws,
        "days": len(days),
        "spearman": [round(float(low), 4), round(float(middle), 4), round(float(high), 4)],
        "swapped": round(float(np.mean(swaps)), 4),
        "first": round(first / draws, 4),
        "last": round(last / draws, 4),
    }


class _Table:
    """Every part's score at every moment, so that weights can be varied quickly."""

    def __init__(self, moments: Sequence[Moment]) -> None:
        alive = [care_rating.care_rating(moment.vitals) for moment in moments]
        kept = [welfare.welfare(moment.treated) for moment in moments]
        self._open = np.array([all(gate.is_open for gate in each.gates.values()) for each in alive], float)
        self._alive = np.array([[part.score for part in each.parts.values()] for each in alive])
        self._kept = np.array([[part.score for part in each.parts.values()] for each in kept])
        self._firing = np.array([activity.terms(moment.vitals.firing) for moment in moments])
        self._place = list(care_rating.WEIGHTS).index("activity")

    def happiness(self, alive: Mapping[str, float], kept: Mapping[str, float], firing: Mapping[str, float]) -> Array:
        """Return the happiness of each moment with these weights."""
        parts = self._alive.copy()
        parts[:, self._place] = np.maximum(FLOOR, self._firing @ np.array(list(firing.values())))
        v = self._open * np.exp(np.log(parts) @ np.array(list(alive.values())))
        w = np.exp(np.log(self._kept) @ np.array(list(kept.values())))
        found: Array = np.sqrt(v * w)
        return found


Array = NDArray[np.float64]


def _by_day(values: Array, member: NDArray[np.int64], days: int) -> Array:
    sums = np.bincount(member, values, days)
    found: Array = sums / np.bincount(member, minlength=days)
    return found


def spearman(a: Array, b: Array) -> float:
    """Return the rank correlation; ties share their mean rank; 0 for a constant unless both are constant."""
    ranks = [_rank(each) for each in (a, b)]
    if ranks[0].std() == 0.0 or ranks[1].std() == 0.0:
        return 1.0 if np.array_equal(ranks[0], ranks[1]) else 0.0
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _rank(values: Array) -> Array:
    """Return the ranks; ties share their mean."""
    _, inverse, counts = np.unique(np.round(values, 12), return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    means: Array = ends - (counts - 1) / 2.0
    return means[inverse]


def _swapped(a: Array, b: Array) -> float:
    before, after = np.sign(a[:, None] - a[None, :]), np.sign(b[:, None] - b[None, :])
    pairs = np.triu_indices(len(a), 1)
    return float(np.mean((before * after)[pairs] < 0))


# --- output ---------------------------------------------------------------------------------------------


def as_text(answer: Mapping[str, Any]) -> str:
    """Return the tornado table and the order of days as text."""
    nominal, ranks = answer["nominal"], answer["ranks"]
    lines = [
        f"{answer['moments']} moments of {len(answer['days'])} days ({answer['source']});"
        f" {', '.join(answer['versions'])}",
        "  as proposed: " + ", ".join(f"{name} {nominal[name]:.3f}" for name in SCORES) + " (means over the moments)",
        "",
        f"  {'change':<8}{'of':<44}{'happiness from':>15}{'to':>8}{'care rating from':>18}{'to':>8}",
    ]
    lines += _tornado_lines(answer)
    lines.append("")
    for day, found in answer["days"].items():
        lines.append(f"  {day:<40}" + "  ".join(f"{name} {found[name]:.3f}" for name in SCORES))
    lines.append("")
    if ranks["draws"]:
        low, middle, high = ranks["spearman"]
        lines.append(
            f"  order of {ranks['days']} days, {ranks['draws']} draws of all weights ±50 % (seed {answer['seed']}): rank"
            f" correlation {middle:.3f} ({low:.3f} to {high:.3f}), {ranks['swapped']:.1%} of pairs swapped,"
            f" best day stays best in {ranks['first']:.0%}, worst in {ranks['last']:.0%}"
        )
    else:
        lines.append(f"  order of days: {ranks['why']}")
    lines += [f"  wrote {path}" for path in answer.get("plots", ())]
    return "\n".join(lines)


def _tornado_lines(answer: Mapping[str, Any]) -> list[str]:
    """Return the changes of each kind with the largest effects."""
    lines = []
    for kind in ("weight", "corner", "missing"):
        rows = [row for row in answer["tornado"] if row["kind"] == kind]
        for row in rows[:LISTED]:
            low, high = sorted(row["happiness"])
            least, most = sorted(row["care_rating"])
            lines.append(f"  {row['kind']:<8}{row['name']:<44}{low:>15.3f}{high:>8.3f}{least:>18.3f}{most:>8.3f}")
        if len(rows) > LISTED:
            lines.append(f"  {kind:<8}… and {len(rows) - LISTED} that move less (--json has all)")
    return lines
