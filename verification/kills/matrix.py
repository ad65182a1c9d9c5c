"""The kill matrix: every shipped recipe, killed at each of its journal boundaries, in real processes (E4, F1, F2).

A reference trial tells how many rows a recipe writes; each of them gives two boundaries, before it is written and right
after. The clocks of the lab and of the controller run faster than life; all else is as in `choroid run`.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from choroid.common.failure import UserError
from controller.hazards.loading import load_checked_rig
from controller.recipes.catalogue import shipped
from controller.recipes.on_rig import lacking
from drivers.registry import MODELS
from protocols.registry import Recipe
from verification.kills.trial import Boundary, KillOutcome, compare, trial

SPEED = 30.0
SHORT: Mapping[str, Mapping[str, str]] = {
    "change-wells": {"cycles": "1"},
    "circulate": {"time": "20 min", "every": "10 min"},
    "debubble": {"pulses": "2"},
    "dialyse": {"batch": "3 mL", "volumes": "1"},
    "emergency-care": {"time": "1 h", "every": "30 min", "min_glucose": "50 mM", "volume": "3 mL"},
    "exchange": {"cycles": "1", "volume": "3 mL"},
    "feed": {"volume": "0.5 mL"},
    "partial-exchange": {"share": "20 %"},
    "pump-calibration": {"doses": "2", "dose": "3 mL"},
    "recycle": {"batch": "3 mL", "min_batch": "3 mL", "cycles": "1"},
    "stand-by": {"time": "10 min"},
}
"""Parameters that make a recipe short, and move what it may; `feed` gives its pump's minimum, which is lost most easily."""


def _require_known(recipes: Sequence[str], known: Mapping[str, Recipe], rig: Path) -> None:
    able = runnable(known, rig) if recipes else list(known)
    for name in recipes:
        if name not in known:
            raise UserError(f"no recipe is called “{name}”. Next: choose among {', '.join(known)}")
        if name not in able:
            raise UserError(f"the rig {rig} does not support {name}. Next: choose among {', '.join(able)}")


def boundaries(rows: int, *, every: int = 1, sample: int | None = None) -> list[Boundary]:
    """Where a run of `rows` rows may be killed: right after the first to right before the last; every `every`-th of
    these, or `sample` of them evenly spread.
    """
    found = [Boundary(row, before) for row in range(1, rows + 1) for before in (True, False) if 0 < row - before < rows]
    if sample is not None:
        count = min(sample, len(found))
        return [found[round((part + 0.5) * len(found) / count - 0.5)] for part in range(count)]
    return found[::every]


def kills(
    recipes: Sequence[str],
    *,
    rig: Path,
    every: int = 1,
    sample: int | None = None,
    jobs: int = 1,
    speed: float = SPEED,
    resume: Path | None = None,
) -> dict[str, Any]:
    """Return the matrix of `recipes` (default: all that fit the rig): `{"speed", "recipes", "trials", "failed"}`.

    With `resume`, finished trials are stored in that folder and not repeated.
    """
    known = shipped()
    _require_known(recipes, known, rig)
    with contextlib.ExitStack() as stack:
        folder = resume or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="choroid-kills-")))
        pool = stack.enter_context(ThreadPoolExecutor(max_workers=max(jobs, 1)))
        # An interruption waits for the running trials, which end their processes, and not for all planned ones.
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        matrix = _Matrix(rig, folder, speed, pool)
        names = list(recipes or runnable(known, rig))
        references = dict(zip(names, matrix.trials([(name, None) for name in names]), strict=True))
        planned = [
            (name, boundary)
            for name in names
            if not references[name].problems
            for boundary in boundaries(references[name].rows, every=every, sample=sample)
        ]
        outcomes = matrix.trials(planned, references=references)
    rows = [_row(name, references[name], outcomes) for name in names]
    failures = sum(len(row["failed"]) + bool(row["reference"]) for row in rows)
    return {"speed": speed, "recipes": rows, "trials": sum(row["tried"] for row in rows), "failed": failures}


def _row(name: str, reference: KillOutcome, outcomes: Sequence[KillOutcome]) -> dict[str, Any]:
    """Return the result of one recipe."""
    own = [outcome for outcome in outcomes if outcome.recipe == name and (outcome.reached or outcome.problems)]
    failed = [outcome for outcome in own if outcome.problems]
    return {
        "recipe": name,
        "params": dict(SHORT.get(name, {})),
        "rows": reference.rows,
        "boundaries": len(boundaries(reference.rows)),
        "tried": len(own),
        "passed": len(own) - len(failed),
        "holds": sum(len(outcome.holds) for outcome in own),
        "reference": reference.problems,
        "failed": [asdict(outcome) for outcome in failed],
    }


def runnable(known: Mapping[str, Recipe], rig: Path) -> list[str]:
    """Return the recipes that the rig has everything for."""
    checked = load_checked_rig(rig, models=MODELS)
    return [name for name, recipe in known.items() if not lacking(recipe, checked)]


class _Matrix:
    """Trials in a folder, several at a time."""

    def __init__(self, rig: Path, folder: Path, speed: float, pool: ThreadPoolExecutor) -> None:
        self._rig = rig
        self._folder = folder
        self._speed = speed
        self._pool = pool

    def trials(
        self,
        planned: Sequence[tuple[str, Boundary | None]],
        *,
        references: Mapping[str, KillOutcome] | None = None,
    ) -> list[KillOutcome]:
        """Run them all; told on standard error as they end. Compared with the references where these are given."""
        begun = [self._pool.submit(self._one, name, boundary) for name, boundary in planned]
        outcomes = []
        for number, waiting in enumerate(begun, start=1):
            outcome = waiting.result()
            if references is not None:
                compare(outcome, references[outcome.recipe])
            outcomes.append(outcome)
            where = f"{'before' if outcome.before else 'after'} row {outcome.row}" if outcome.row else "undisturbed"
            verdict = "; ".join(outcome.problems) or ("passed" if outcome.reached else "it has no such row this time")
            print(
                f"{number}/{len(begun)} {outcome.recipe} {where}: {verdict} ({outcome.real_s:.0f} s)", file=sys.stderr
            )
        return outcomes

    def _one(self, name: str, boundary: Boundary | None) -> KillOutcome:
        where = f"{boundary.row}-{'before' if boundary.before else 'after'}" if boundary else "reference"
        folder = self._folder / name / where
        with contextlib.suppress(OSError, ValueError, TypeError):
            kept = KillOutcome(**json.loads((folder / "outcome.json").read_text(encoding="utf-8")))
            if not kept.problems:
                return kept
        shutil.rmtree(folder, ignore_errors=True)
        return trial(self._rig, name, SHORT.get(name, {}), boundary, speed=self._speed, folder=folder)


def as_text(answer: Mapping[str, Any]) -> str:
    """The table for people."""
    lines = ["recipe              rows  boundaries  killed at  holds  verdict"]
    for row in answer["recipes"]:
        failed = row["tried"] - row["passed"]
        verdict = f"{failed} FAILED" if failed else f"all {row['tried']} passed"
        if row["reference"]:
            verdict = f"FAILED undisturbed: {'; '.join(row['reference'])}"
        lines.append(
            f"{row['recipe']:<18}{row['rows']:>6}{row['boundaries']:>12}{row['tried']:>11}{row['holds']:>7}  {verdict}"
        )
        for outcome in row["failed"]:
            where = f"{'before' if outcome['before'] else 'after'} row {outcome['row']}"
            lines.append(f"    {where}: {'; '.join(outcome['problems'])}")
    lines.append(f"{answer['trials']} kills, {answer['failed']} failed, at {answer['speed']:g} × real time")
    lines.append("passed: no dose twice and none lost by the lab's truth, no step lost, the ledger within its bound")
    lines.append("holds: in addition to the recipe's own questions, for an operator who checked and resumed")
    return "\n".join(lines)
