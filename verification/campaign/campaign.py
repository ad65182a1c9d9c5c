"""A campaign: many trials on many processes, stored as they finish; failures are reduced to their causes.

Only this module uses real time. A trial depends only on its text, so it does not matter where or when it runs.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from choroid.common.failure import UserError
from choroid.common.workers import workers
from sim.faults.schedule import Fault
from verification.campaign.shrink import Shrinker
from verification.campaign.trial import Result, run_trial
from verification.campaign.world import FAULTS_A_DAY, Trial, draw_trial, limits_without, rig_of

AHEAD = 2
"""Trials queued ahead for each process."""
MAX_SHRUNK = 8
MAX_FAULTS_A_DAY = 2000.0
"""Maximum fault rate: beyond it faults overlap so much that a trial has little meaning."""
KEPT = "trials.jsonl"
HEAD = "campaign.json"


def work(text: str) -> dict[str, Any]:
    """Run the trial of `text`; an error of the campaign itself is reported as a violation, and hides nothing else."""
    try:
        return run_trial(Trial.from_text(text)).to_json()
    except Exception as error:
        result = Result(text)
        where = traceback.extract_tb(error.__traceback__)[-1]
        said = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
        result.violations.append({"at_s": 0.0, "invariant": "the trial ends", "text": said})
        return result.to_json()


def shrink(text: str, invariant: str) -> dict[str, Any]:
    """Reduce the trial of `text` as long as it breaks `invariant`."""
    shrinker = Shrinker(lambda trial: any(v["invariant"] == invariant for v in work(trial.to_text())["violations"]))
    trial = shrinker.shrink(Trial.from_text(text))
    return {"trial": trial.to_text(), "tries": shrinker.tries}


def campaign(
    *,
    runs: int,
    days: float,
    seed: int,
    jobs: int,
    faults: Path | None = None,
    faults_a_day: float = FAULTS_A_DAY,
    without: str | None = None,
    resume: Path | None = None,
    ray: str | None = None,
    rig: Path | None = None,
    progress: bool = True,
    shrinking: bool = True,
) -> dict[str, Any]:
    """Run `runs` trials of `days` each on `jobs` processes (or on Ray at `ray`); return the answer of `--json`.

    `rig` is the rig file, by default the bench rig's. `faults` is a file with a list of faults that every trial gets instead
    of random ones. With `resume`, finished trials are stored in that folder and not repeated.

    Raises:
        UserError: Invalid arguments.
    """
    if runs < 1 or not days > 0 or jobs < 1 or not 0 < faults_a_day <= MAX_FAULTS_A_DAY:
        raise UserError(
            "a campaign needs --runs of 1 or more, --days above 0, --jobs of 1 or more, --faults-a-day above 0 and at most"
            f" {MAX_FAULTS_A_DAY:g}"
        )
    given = None if faults is None else read_faults(faults)
    trials = [
        draw_trial(seed, number, days=days, without=without, faults=given, faults_a_day=faults_a_day, rig=rig)
        for number in range(runs)
    ]
    limits_without(rig_of(trials[0]), without)
    head = {"seed": seed, "days": days, "without": without, "faults": str(faults or ""), "faults_a_day": faults_a_day}
    head |= {} if rig is None else {"rig": str(rig.absolute())}
    kept = _Kept(resume, head)
    begun = time.perf_counter()  # noqa: TID251  (the real cost is one of the figures)
    with _executor(jobs, ray) as executor:
        results = _run_all(executor, trials, kept, jobs, progress)
        failures = _failures(executor, results, shrinking, progress)
    wall_s = time.perf_counter() - begun  # noqa: TID251
    answer = summary(results, failures)
    answer |= {"seed": seed, "days": days, "jobs": jobs, "without": without, "resumed": kept.found}
    answer["wall_s"] = round(wall_s, 3)
    answer["speed"] = round(sum(each["simulated_s"] for each in results) / max(wall_s, 1e-9), 1)
    return answer


def results_of(
    trials: Sequence[Trial], *, head: dict[str, Any], jobs: int, resume: Path | None, progress: bool
) -> list[dict[str, Any]]:
    """Run trials that the caller made; return the result of each. `head` identifies them in the folder `resume`."""
    with _executor(jobs, None) as executor:
        return _run_all(executor, trials, _Kept(resume, head), jobs, progress)


def replay(text_or_file: str) -> dict[str, Any]:
    """Run one trial again, from its text or from a file that contains it; return its result."""
    text = text_or_file
    if not text.lstrip().startswith("{"):
        text = Path(text_or_file).read_text(encoding="utf-8")
    begun = time.perf_counter()  # noqa: TID251
    result = work(Trial.from_text(text).to_text())
    failures = [{**violation, "replay": command(result["trial"])} for violation in result["violations"]]
    answer = summary([result], failures)
    answer |= {"journal_sha256": result["journal"], "wall_s": round(time.perf_counter() - begun, 3)}  # noqa: TID251
    return answer


def summary(results: Sequence[dict[str, Any]], failures: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the summary of many trials."""
    by_kind = _by_kind(results)

    def total(name: str) -> Any:
        return sum(each[name] for each in results)

    return {
        "runs": len(results),
        "failed_runs": sum(bool(each["violations"]) for each in results),
        "simulated_s": round(total("simulated_s"), 3),
        "faults_injected": sum(row["injected"] for row in by_kind.values()),
        "by_kind": dict(sorted(by_kind.items())),
        "restarts": total("lives") - len(results),
        "checks": total("looks") + total("rows"),
        "cycles": total("cycles"),
        "runs_refused": sum(bool(each["refused"]) for each in results),
        "alarms": total("alarms"),
        "min_viability": min((each["viability"] for each in results), default=0.0),
        "violations": failures,
    }


def _by_kind(results: Sequence[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Return the counts by kind of fault."""
    by_kind: dict[str, dict[str, int]] = {}
    for result in results:
        for kind, count in result["faults"].items():
            row = by_kind.setdefault(kind, {"injected": 0, "trials": 0, "trials_with_violations": 0})
            row["injected"] += count
            row["trials"] += 1
            row["trials_with_violations"] += bool(result["violations"])
    return by_kind


def command(text: str) -> str:
    """Return the command that runs a trial again."""
    return f"choroid verify campaign --replay '{text}'"


def read_faults(path: Path) -> tuple[Fault, ...]:
    """Return the faults in a JSON file: a list of faults, or a trial's text; raise :class:`UserError` for other
    content.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(data, dict):
            data = data["faults"]
        return tuple(Fault(**fault) for fault in data)
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(
            f"{path} holds no faults: {error}. Likely cause: it is no JSON list of objects with kind, target, at_s,"
            " for_s, amount. Next: see docs/campaign.md"
        ) from None


class _Kept:
    """Finished trials in a folder, or in memory only."""

    def __init__(self, folder: Path | None, head: dict[str, Any]) -> None:
        self.results: dict[str, dict[str, Any]] = {}
        self.found = 0
        self._path = None if folder is None else folder / KEPT
        if folder is None or self._path is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        known = folder / HEAD
        if known.exists() and json.loads(known.read_text(encoding="utf-8")) != head:
            raise UserError(
                f"{folder} holds another campaign: {known.read_text(encoding='utf-8')}. Likely cause: --seed, --days,"
                " --faults or --without differ. Next: give the same, or another folder to --resume"
            )
        known.write_text(json.dumps(head), encoding="utf-8")
        if self._path.exists():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                try:
                    result = json.loads(line)
                except ValueError:
                    continue  # the last line of an interrupted campaign
                self.results[result["trial"]] = result

    def keep(self, result: dict[str, Any]) -> None:
        """Store a finished trial."""
        self.results[result["trial"]] = result
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write("\n" + json.dumps(result))


def _run_all(
    executor: Executor, trials: Sequence[Trial], kept: _Kept, jobs: int, progress: bool
) -> list[dict[str, Any]]:
    texts = [trial.to_text() for trial in trials]
    todo = iter([text for text in dict.fromkeys(texts) if text not in kept.results])
    kept.found = sum(1 for text in texts if text in kept.results)
    bar = _Bar(len(texts), kept.found, progress)
    running: set[Future[dict[str, Any]]] = set()

    def hand_out() -> None:
        while len(running) < AHEAD * jobs and (text := next(todo, None)) is not None:
            running.add(executor.submit(work, text))

    hand_out()
    while running:
        finished, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in finished:
            running.discard(future)
            result = future.result()
            kept.keep(result)
            bar.step(bool(result["violations"]))
        hand_out()
    bar.end()
    return [kept.results[text] for text in texts]


def _failures(
    executor: Executor, results: Sequence[dict[str, Any]], shrinking: bool, progress: bool
) -> list[dict[str, Any]]:
    """Return every violation with the command that replays it; the first of each invariant is reduced."""
    failures = []
    first: dict[str, dict[str, Any]] = {}
    for number, result in enumerate(results):
        for violation in result["violations"]:
            failure = {"run": number, **violation, "replay": command(result["trial"])}
            failures.append(failure)
            best = first.get(violation["invariant"])
            if best is None:
                first[violation["invariant"]] = failure | {"trial": result["trial"], "index": len(failures) - 1}
    if not shrinking or not first:
        return failures
    chosen = list(first.values())[:MAX_SHRUNK]
    if progress:
        print(f"shrinking {len(chosen)} failure(s) …", file=sys.stderr, flush=True)
    work_left = {executor.submit(shrink, each["trial"], each["invariant"]): each["index"] for each in chosen}
    for future, index in work_left.items():
        found = future.result()
        faults = Trial.from_text(found["trial"]).faults
        failures[index] |= {"replay": command(found["trial"]), "shrunk_to": len(faults), "tries": found["tries"]}
    return failures


@contextmanager
def _executor(jobs: int, ray: str | None) -> Iterator[Executor]:
    if ray is not None:
        from choroid.common.ray_executor import RayExecutor

        with RayExecutor(ray) as grid:
            yield grid
        return
    with workers(jobs) as pool:
        yield pool


class _Bar:
    """A progress bar on standard error; without a terminal an occasional line."""

    def __init__(self, total: int, done: int, shown: bool) -> None:
        self._total, self._done, self._failed, self._shown = total, done, 0, shown
        self._terminal = sys.stderr.isatty()
        self._every = 1 if self._terminal else max(1, total // 20)
        self._clock: Callable[[], float] = time.perf_counter  # noqa: TID251
        self._begun, self._found = self._clock(), done

    def step(self, failed: bool) -> None:
        """Count one more finished trial."""
        self._done += 1
        self._failed += failed
        if not self._shown or (self._done % self._every and self._done != self._total):
            return
        share = self._done / self._total
        left_s = (self._clock() - self._begun) / max(self._done - self._found, 1) * (self._total - self._done)
        bar = "█" * round(30 * share) + "·" * (30 - round(30 * share))
        text = f"{bar} {self._done}/{self._total}, {self._failed} with violations, {left_s:.0f} s left "
        print(("\r" if self._terminal else "") + text, end="" if self._terminal else "\n", file=sys.stderr, flush=True)

    def end(self) -> None:
        """End the line."""
        if self._shown and self._terminal:
            print(file=sys.stderr)


def default_jobs() -> int:
    """Return the number of processors available to this process."""
    return len(os.sched_getaffinity(0))
