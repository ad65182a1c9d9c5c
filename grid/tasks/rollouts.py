"""Many episodes of a board on public seeds, over processes or a Ray cluster; the results are those of one process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future, as_completed
from contextlib import AbstractContextManager
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from choroid.common.failure import UserError
from choroid.common.workers import workers
from grid.tasks.catalogue import TASKS
from grid.tasks.task import play


@dataclass(frozen=True, slots=True)
class RolloutPlan:
    """What is played: a task by a baseline, on seeds, with controls (None: the task itself).

    `variants` are the parameters of the task; with several, each seed is played with each, and its score is the mean.
    """

    task: str
    variants: tuple[dict[str, Any], ...]
    baseline: str
    seeds: tuple[int, ...]
    controls: tuple[str | None, ...] = (None,)

    def episodes(self) -> list[tuple[str | None, int, dict[str, Any]]]:
        """Return control, seed and parameters of each episode, in the order of the results."""
        return [(control, seed, params) for control in self.controls for seed in self.seeds for params in self.variants]


def one_episode(task: str, params: dict[str, Any], baseline: str, control: str | None, seed: int) -> float:
    """Play one episode; return its score."""
    chosen = TASKS[task]
    return float(play(chosen.episode(seed, control, params), chosen.baselines[baseline](seed, params)).value)


def rollouts(
    plan: RolloutPlan, executor: Executor, done: Callable[[int, int], None] = lambda done, all: None
) -> dict[str, Any]:
    """Play all episodes of a plan.

    Args:
        plan: What is played.
        executor: Where: processes of this machine, or a Ray cluster.
        done: Called after each episode with the number of finished ones and of all.

    Raises:
        UserError: The task has no such baseline or control.
    """
    _check(plan)
    wanted = plan.episodes()
    futures: dict[Future[float], int] = {
        executor.submit(one_episode, plan.task, params, plan.baseline, control, seed): number
        for number, (control, seed, params) in enumerate(wanted)
    }
    scores = [0.0] * len(wanted)
    for finished, future in enumerate(as_completed(futures), 1):
        scores[futures[future]] = future.result()
        done(finished, len(wanted))
    each_seed = [fmean(scores[n : n + len(plan.variants)]) for n in range(0, len(scores), len(plan.variants))]
    found = {}
    for number, control in enumerate(plan.controls):
        part = each_seed[number * len(plan.seeds) : (number + 1) * len(plan.seeds)]
        found[control or "none"] = {"mean": fmean(part), "scores": part}
    return {"task": plan.task, "baseline": plan.baseline, "seeds": list(plan.seeds), "controls": found}


def executor_of(jobs: int, ray: str | None) -> AbstractContextManager[Executor]:
    """Return the executor: a Ray cluster where an address is given, else processes of this machine."""
    if ray is None:
        return workers(jobs)
    from choroid.common.ray_executor import RayExecutor

    return RayExecutor(ray)


def progress(finished: int, wanted: int) -> None:
    """Print the progress on standard error, on one line of a terminal."""
    end = "\n" if finished == wanted or not sys.stderr.isatty() else ""
    start = "\r" if sys.stderr.isatty() else ""
    print(f"{start}{finished}/{wanted} episodes", end=end, file=sys.stderr, flush=True)


def _check(plan: RolloutPlan) -> None:
    task = TASKS.get(plan.task)
    if task is None:
        cause = f". Likely cause: {why}" if (why := TASKS.why_absent(plan.task)) else ""
        raise UserError(f"there is no task “{plan.task}”{cause}. Next: choose one of {', '.join(TASKS)}")
    if plan.baseline not in task.baselines:
        raise UserError(
            f"{plan.task} has no baseline “{plan.baseline}”. Next: choose one of {', '.join(task.baselines)}"
        )
    unknown = [each for each in plan.controls if each is not None and each not in task.controls]
    if unknown:
        raise UserError(f"{plan.task} has no control “{unknown[0]}”. Next: choose of {', '.join(task.controls)}")
