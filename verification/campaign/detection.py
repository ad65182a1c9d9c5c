"""Test of the campaign itself: for each interlock, the trial that detects its absence.

An interlock counts as detected by the first trial that breaks an invariant without it and keeps that invariant with
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from choroid.common.failure import UserError
from choroid.common.workers import workers
from verification.campaign.campaign import work
from verification.campaign.world import draw_trial, interlocks, rig_of

EACH = "each"
"""Value of `--without` that tests the campaign itself."""


def detect(*, runs: int, days: float, seed: int, jobs: int, rig: Path | None = None) -> dict[str, Any]:
    """Remove each interlock in turn and find the first trial that detects its absence.

    Args:
        runs: Maximum number of trials per interlock.
        days: Length of each trial (simulated days).
        seed: Seed of all trials.
        jobs: Number of processes.
        rig: The rig file; by default the bench rig's.

    Returns:
        `detected`: by interlock the number of the trial (from 1), its invariant and text, or None; `detected_all`,
            `max_trials`: the highest of those numbers; `violations`: what the complete kernel breaks.

    Raises:
        UserError: Invalid arguments.
    """
    if runs < 1 or not days > 0 or jobs < 1:
        raise UserError("a test of the campaign needs --runs of 1 or more, --days above 0, --jobs of 1 or more")
    names = interlocks(rig_of(draw_trial(seed, 0, days=days, faults=(), rig=rig)))
    with workers(jobs) as pool:
        search = _Search(pool, days, seed, rig)
        detected = dict(_parallel(search, names, runs))
    found = [each for each in detected.values() if each is not None]
    return {
        "seed": seed,
        "days": days,
        "runs": runs,
        "detected": {name: detected[name] for name in names},
        "detected_all": len(found) == len(names),
        "max_trials": max((each["trial"] for each in found), default=0),
        "violations": search.violations(),
    }


class _Search:
    """Runs trials, each once."""

    def __init__(self, pool: Executor, days: float, seed: int, rig: Path | None) -> None:
        self._pool = pool
        self._days = days
        self._seed = seed
        self._rig = rig
        self._whole: dict[int, Future[dict[str, Any]]] = {}

    def begin(self, number: int, without: str | None) -> Future[dict[str, Any]]:
        """Start trial `number`."""
        if without is None and number in self._whole:
            return self._whole[number]
        trial = draw_trial(self._seed, number, days=self._days, without=without, rig=self._rig)
        future = self._pool.submit(work, trial.to_text())
        if without is None:
            self._whole[number] = future
        return future

    def violations(self) -> list[dict[str, Any]]:
        """Return the violations of trials with every interlock."""
        return [
            {"run": number, **violation}
            for number, future in sorted(self._whole.items())
            for violation in future.result()["violations"]
        ]


def _parallel(search: _Search, names: tuple[str, ...], runs: int) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Search for all interlocks in parallel, trial by trial."""
    left = list(names)
    for number in range(runs):
        running = {name: search.begin(number, name) for name in left}
        for name, future in running.items():
            broken = future.result()["violations"]
            if not broken:
                continue
            kept = {violation["invariant"] for violation in search.begin(number, None).result()["violations"]}
            new = next((violation for violation in broken if violation["invariant"] not in kept), None)
            if new is not None:
                left.remove(name)
                yield name, {"trial": number + 1, "invariant": new["invariant"], "text": new["text"]}
    yield from ((name, None) for name in left)


def as_text(answer: dict[str, Any]) -> str:
    """Return the table as text."""
    lines = [f"{'without':<24}{'found in trial':>15}  by"]
    for name, found in answer["detected"].items():
        if found is None:
            lines.append(f"{name:<24}{'NOT FOUND':>15}  within {answer['runs']} trials")
        else:
            lines.append(f"{name:<24}{found['trial']:>15}  {found['invariant']}: {found['text']}")
    for violation in answer["violations"]:
        lines.append(f"VIOLATION with every interlock, trial {violation['run'] + 1}: {violation['text']}")
    return "\n".join(lines)
