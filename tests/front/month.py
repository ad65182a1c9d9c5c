"""The month's recipe in the whole simulated stack, in YAML and in Python: requests, bookings and the truth of the plant.

On demand, 31 days across the change of the clocks: `python -m tests.front.month --days 31` (some ten minutes for each).
"""

from __future__ import annotations

import argparse
import json
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from choroid.simulation.simulate import simulate
from controller.journal.reader import JournalReader
from tests.execution.world import BENCH

BEGIN = datetime(2026, 3, 13, 7, 30, tzinfo=UTC)
"""A Friday in Berlin: 08:30 of standard time; daylight saving time begins on 29 March."""
FILES = ("month.yaml", "month.py")


@dataclass(frozen=True, slots=True)
class MonthOutcome:
    """What one run of the month has done."""

    answer: dict[str, Any]
    """The figures of `choroid simulate`."""
    turns: list[str]
    """Due times of the waits (UTC)."""
    booked: list[tuple[str, str, float, float]]
    """Every booked dose: time (UTC), line, requested and booked volume (µL)."""
    changes: list[dict[str, Any]]
    """The notes of the changes of medium."""
    photos: int
    assays: list[float]
    """The results that were used (mM)."""


def month(file: str, folder: Path, *, begin: datetime, days: float, changes: int, assays: int) -> MonthOutcome:
    """Simulate the month's recipe with a technician, and read its journal."""
    path = BENCH.parents[1] / "protocols" / file
    keywords = {
        "path": BENCH,
        "protocol": str(path),
        "params": {"changes": str(changes), "assays": str(assays)},
        "days": days,
        "begin": begin,
        "tended": True,
        "data": folder,
    }
    answer = simulate(**keywords)  # type: ignore[arg-type]
    journal = JournalReader(folder / "journal.db")
    try:
        rows = list(journal.entries(kinds=("step", "moved", "note.change", "step.answered", "assay")))
    finally:
        journal.close()
    return MonthOutcome(
        answer,
        [row.body["until"] for row in rows if "until" in row.body],
        [
            (row.utc, row.body["line"], row.body["asked_ul"], row.body["ul"])
            for row in rows
            if row.kind == "moved" and row.run is not None
        ],
        [dict(row.body) for row in rows if row.kind == "note.change"],
        sum(row.kind == "step.answered" and "file" in row.body for row in rows),
        [row.body["value"] for row in rows if row.kind == "assay" and row.body["used"] and row.run is not None],
    )


def figures(outcome: MonthOutcome) -> dict[str, Any]:
    """Return the figures of one month for people."""
    names = (
        "run_state", "simulated_s", "cpu_s", "speed_per_cpu", "viability_true", "mass_balance_vessel",
        "mass_balance_error_ml", "mass_balance_uncertainty_ml", "alarms", "holds",
    )  # fmt: skip
    totals: dict[str, float] = {}
    for _, line, _, ul in outcome.booked:
        totals[line] = round(totals.get(line, 0.0) + ul / 1000.0, 3)
    return {
        **{name: outcome.answer[name] for name in names},
        "changes": len(outcome.changes),
        "photos": outcome.photos,
        "assays": len(outcome.assays),
        "doses": len(outcome.booked),
        "booked_ml": totals,
        "turns": [outcome.turns[0], outcome.turns[-1]],
    }


def main() -> None:
    """Run the month in YAML and in Python; fail unless their bookings are equal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=float, default=31.0)
    parser.add_argument("--changes", type=int, default=13)
    parser.add_argument("--assays", type=int, default=5)
    parser.add_argument("--begin", type=datetime.fromisoformat, default=BEGIN, help="with its offset from UTC")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(len(FILES), get_context("spawn")) as pool:
        work = partial(month, begin=words.begin, days=words.days, changes=words.changes, assays=words.assays)
        found = list(pool.map(work, FILES, [Path(folder) / file for file in FILES]))
    for file, outcome in zip(FILES, found, strict=True):
        print(file, json.dumps(figures(outcome), indent=1))
    same = found[0].booked == found[1].booked and found[0].turns == found[1].turns
    print("equal bookings:", same)
    for name, one, other in (("turn", found[0].turns, found[1].turns), ("booking", found[0].booked, found[1].booked)):
        if one != other:
            number = next(
                (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
            )
            print(f"first different {name}, number {number} of {len(one)} and {len(other)}:")
            print("  ", one[number : number + 1], other[number : number + 1])
    raise SystemExit(0 if same else 1)


if __name__ == "__main__":
    main()
