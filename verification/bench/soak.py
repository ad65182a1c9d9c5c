"""`choroid verify soak`: detect leaks of memory, descriptors and tasks of the whole stack, over simulated or real hours.

In virtual time the stack runs in this process. With `--real` a lab and a controller run in their own processes, as
a user starts them; tasks are those that the controller counts (`GET /api/load`).
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from choroid.common.failure import UserError
from choroid.operating.remote import call, endpoint_of
from choroid.running.data_folder import ENDPOINT
from choroid.simulation.simulate import simulate
from controller.process.controller import Controller
from controller.process.load import descriptors, rss_mb
from sim.lab import SimulatedLab

HOUR_S = 3600.0
SETTLED = 1.0 / 3.0
"""Share of the first samples that is left out: caches fill, histories reach their bounds."""
MAX_GROWTH = 0.10
"""Maximum rise of memory from the first to the last third of the settled samples, as a share."""
EVERY_S = 10.0
START_S = 60.0


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """Resources of one process at a time (`at_s` since the start)."""

    at_s: float
    rss_mb: float
    descriptors: int
    tasks: int | None = None


@dataclass(frozen=True, slots=True)
class SoakVerdict:
    """Whether one process stays constant, and its figures at the start and the end of the settled time."""

    samples: int
    rss_mb: tuple[float, float]
    descriptors: tuple[int, int]
    tasks: tuple[int, int] | None
    growing: tuple[str, ...]


def verdict(samples: Sequence[ProcessSample]) -> SoakVerdict:
    """Judge a process by its settled samples.

    Memory grows when its median over the last third exceeds that of the first third by more than
    :data:`MAX_GROWTH`. Descriptors and tasks, which come and go with each request, grow when their minimum does.

    Raises:
        UserError: Fewer than nine samples.
    """
    settled = samples[int(len(samples) * SETTLED) :]
    third = len(settled) // 3
    if third < 2:
        raise UserError(f"{len(samples)} samples say nothing about growth. Next: let it run longer")
    first, last = settled[:third], settled[-third:]
    memory = (_median([each.rss_mb for each in first]), _median([each.rss_mb for each in last]))
    open_files = (min(each.descriptors for each in first), min(each.descriptors for each in last))
    before, after = _min_tasks(first), _min_tasks(last)
    tasks = None if before is None or after is None else (before, after)
    return SoakVerdict(len(samples), memory, open_files, tasks, _growing(memory, open_files, tasks))


def _growing(
    memory: tuple[float, float], open_files: tuple[int, int], tasks: tuple[int, int] | None
) -> tuple[str, ...]:
    """Return the names of the resources whose later figure exceeds the earlier one."""
    growing = []
    if memory[1] > memory[0] * (1.0 + MAX_GROWTH):
        growing.append("memory")
    if open_files[1] > open_files[0]:
        growing.append("descriptors")
    if tasks is not None and tasks[1] > tasks[0]:
        growing.append("tasks")
    return tuple(growing)


def _min_tasks(samples: Sequence[ProcessSample]) -> int | None:
    """Return the minimum number of tasks; None if a sample has none."""
    counts = [each.tasks for each in samples if each.tasks is not None]
    return min(counts) if len(counts) == len(samples) else None


def soak_virtual(rig: Path, *, hours: float, seed: int, progress: bool = True) -> dict[str, Any]:
    """Run the whole stack for `hours` in virtual time; sample this process once per simulated hour."""
    samples: list[ProcessSample] = []

    def watch(at_s: float, lab: SimulatedLab, controller: Controller) -> None:
        figures = controller.load.figures()
        samples.append(ProcessSample(at_s, figures.rss_mb or 0.0, figures.descriptors or 0, figures.tasks))

    answer = simulate(
        rig,
        protocol="recycle",
        params={},
        days=hours / 24.0,
        seed=seed,
        progress=progress,
        watch=watch,
        tended=True,
    )
    found = verdict(samples)
    return _answer({"stack": found}, hours, "simulated") | {
        "violations": answer["violations"],
        "speed": answer["speed"],
    }


def soak_real(rig: Path, *, hours: float, progress: bool = True) -> dict[str, Any]:
    """Serve the lab and run the controller as processes for `hours` of real time; sample each every ten seconds."""
    with _kept_on_failure() as folder, contextlib.ExitStack() as stack:
        data, served = Path(folder) / "data", Path(folder) / "served.yaml"
        processes = {
            "lab": stack.enter_context(_started(Path(folder), "lab", "serve", str(rig), "--write", str(served)))
        }
        _until(served.exists, "the lab serves")
        words = ("run", str(served), "--data", str(data), "--port", "0", "--no-restart")
        processes["controller"] = stack.enter_context(_started(Path(folder), *words))
        _until((data / ENDPOINT).exists, "the controller answers")
        endpoint = endpoint_of(data)
        call(endpoint, "POST", "/api/runs", {"protocol": "recycle", "params": {}, "reason": "soak"})
        samples: dict[str, list[ProcessSample]] = {}
        lag_ms = 0.0
        begun_s = _now_s()
        while (at_s := _now_s() - begun_s) < hours * HOUR_S:
            load = call(endpoint, "GET", "/api/load")
            lag_ms = max(lag_ms, load["lag_p99_ms"])
            for name, pid in _family(processes, Path(folder)).items():
                process = Path("/proc") / str(pid)
                memory, files = rss_mb(process), descriptors(process)
                if memory is not None and files is not None:
                    tasks = load["tasks"] if name == "controller" else None
                    samples.setdefault(name, []).append(ProcessSample(at_s, memory, files, tasks))
            if progress:
                print(f"\r{at_s / 60.0:6.1f} of {hours * 60.0:g} min", end="", file=sys.stderr, flush=True)
            time.sleep(EVERY_S)  # noqa: TID251  (real processes)
        if progress:
            print(file=sys.stderr)
        answer = _answer({name: verdict(taken) for name, taken in samples.items()}, hours, "real")
        return answer | {"lag_p99_ms": lag_ms, "violations": []}


@contextlib.contextmanager
def _kept_on_failure() -> Iterator[str]:
    """Yield a folder that is removed at the end, unless something fails: then its logs are needed."""
    folder = tempfile.mkdtemp(prefix="choroid-soak-")
    try:
        yield folder
    except (UserError, OSError) as error:
        raise UserError(f"{error}. The logs and the journal of this run are kept in {folder}") from error
    shutil.rmtree(folder, ignore_errors=True)


def _answer(found: dict[str, SoakVerdict], hours: float, kind: str) -> dict[str, Any]:
    return {
        "hours": hours,
        "time": kind,
        "processes": {name: asdict(each) for name, each in found.items()},
        "flat": not any(each.growing for each in found.values()),
    }


@contextlib.contextmanager
def _started(folder: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / f"{words[0]}.log").open("ab") as log:
        process = subprocess.Popen(  # noqa: S603  (our own module)
            [sys.executable, "-P", "-m", "choroid", *words], stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _family(processes: dict[str, subprocess.Popen[bytes]], folder: Path) -> dict[str, int]:
    """Return the processes by name, with their children and the guard, whose command lines contain `folder`.

    Raises:
        UserError: The lab or the controller has ended.
    """
    found: dict[str, int] = {}
    for name, process in processes.items():
        if process.poll() is not None:
            raise UserError(f"the {name} ended by itself with status {process.returncode}. Next: see its log")
        found[name] = process.pid
    for path in Path("/proc").glob("[0-9]*"):
        pid = int(path.name)
        try:
            words = (path / "cmdline").read_bytes()
            parent = int((path / "stat").read_text(encoding="ascii").rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue  # it has ended meanwhile
        if pid not in found.values() and (str(folder).encode() in words or parent in found.values()):
            found["guard" if b"guard" in words else f"child {len(found) - len(processes) + 1}"] = pid
    return found


def _until(true: Callable[[], bool], what: str) -> None:
    deadline_s = _now_s() + START_S
    while not true():
        if _now_s() > deadline_s:
            raise UserError(
                f"waited {START_S:g} s, but this did not happen: {what}. Next: run the two commands by hand"
            )
        time.sleep(0.1)  # noqa: TID251  (real processes)


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def _now_s() -> float:
    return time.monotonic()  # noqa: TID251  (real processes)


def as_text(answer: dict[str, Any]) -> str:
    """Return the figures as text."""
    lines = [
        f"{answer['hours']:g} {answer['time']} hours",
        f"{'process':<24}{'memory MB':>18}{'descriptors':>16}{'tasks':>12}",
    ]
    for name, each in answer["processes"].items():
        memory, files, tasks = each["rss_mb"], each["descriptors"], each["tasks"]
        counted = "" if tasks is None else f"{tasks[0]} → {tasks[1]}"
        grows = f"  GROWS: {', '.join(each['growing'])}" if each["growing"] else ""
        lines.append(
            f"{name:<24}{f'{memory[0]:.1f} → {memory[1]:.1f}':>18}{f'{files[0]} → {files[1]}':>16}{counted:>12}{grows}"
        )
    if "lag_p99_ms" in answer:
        lines.append(f"loop lag p99 at most {answer['lag_p99_ms']:.1f} ms")
    lines += [f"VIOLATION {text}" for text in answer["violations"]]
    return "\n".join(lines)
