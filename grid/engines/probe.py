"""Measure one preset of a code package on this machine: `python -m engines.probe PACKAGE PRESET [--micro-batches 1,2,4]`.

It prints one JSON object: time and peak memory of a training step for each size of the micro-batch, as the engines take it,
with and without checkpointing, and what outer steps and PowerSGD compute. Each case is a process of its own, so that
its memory is its own. A case that would not fit into `--cpu-s` seconds of processor time is skipped and named.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from .recompute import blocks
from .replica import ModelReplica
from .settings import RankSettings
from .task import Task, load_task

FORMAT = "choroid-probe/1"
CPU_S = 20.0
MIN_STEPS, MAX_STEPS = 3, 40
"""Of one case; all cases together have more than ten."""
WARM_STEPS = 1
SHARE = 0.85
"""Of the time, for the steps; the rest is for starting, the model and its warm-up."""
POWER_SGD_RANK = 4
POWERCAP = Path("/sys/class/powercap")


def main() -> None:
    """Print the figures of one preset as JSON."""
    parser = argparse.ArgumentParser(description="measure one preset of a code package on this machine")
    parser.add_argument("package", type=Path, help="folder of the code package")
    parser.add_argument("preset")
    parser.add_argument("--micro-batches", default="1,2,4", help="sizes to try, smallest first (default 1,2,4)")
    parser.add_argument("--threads", type=int, default=0, help="threads of torch (default: one a core)")
    parser.add_argument("--cpu-s", type=float, default=CPU_S, help=f"most processor time (default {CPU_S:g} s)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    sizes = sorted({int(size) for size in arguments.micro_batches.split(",")})
    threads = arguments.threads or len(os.sched_getaffinity(0))
    task = load_task(arguments.package)
    if arguments.preset not in task.presets:
        sys.exit(f"no preset “{arguments.preset}”. Next: take one of {', '.join(task.presets)}")
    print(json.dumps(measured(task, arguments.preset, sizes, threads, arguments.cpu_s, arguments.seed)), flush=True)


def measured(task: Task, preset: str, sizes: list[int], threads: int, cpu_s: float, seed: int) -> dict[str, Any]:
    """Return the figures of one preset.

    Args:
        task: What the code package trains.
        preset: One of its presets.
        sizes: Samples of a micro-batch, one or more.
        threads: Threads of torch.
        cpu_s: Most processor time of all cases together (s).
        seed: Of the weights and the batch.
    """
    available = _memory_available_bytes()
    kinds = [(size, again) for size in sizes for again in (False, True)]
    cases: list[dict[str, Any]] = []
    skipped: list[dict[str, Any]] = []
    left_s = cpu_s * SHARE - _cpu_s()
    for position, (size, again) in enumerate(kinds):
        budget_s = max(left_s, 0.0) / (len(kinds) - position)
        if cases and (WARM_STEPS + MIN_STEPS) * cases[-1]["step_cpu_s"] * size / cases[-1]["micro_batch"] > left_s:
            skipped.append({"micro_batch": size, "recomputed": again})
            continue
        case, used_s = _apart(partial(_case, task, preset, size, again, threads, budget_s, seed))
        left_s -= used_s
        if case is not None:
            cases.append(case)
    about, _ = _apart(partial(_around, task, preset, threads, seed))
    _warm_up(task, seed)
    return {
        "format": FORMAT,
        "preset": preset,
        "torch": torch.__version__,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "threads": threads,
        "memory_bytes": available,
        "program_bytes": _memory_bytes("VmRSS"),
        **(about or {}),
        "cases": cases,
        "skipped": skipped,
        "cpu_s": _cpu_s() + resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime,
    }


def _case(
    task: Task, preset: str, size: int, again: bool, threads: int, budget_s: float, seed: int
) -> dict[str, Any] | None:
    """Return time and peak memory of training steps; None when the model has no blocks to compute again."""
    torch.set_num_threads(threads)
    _warm_up(task, seed)
    if again and not blocks(task.model(next(iter(task.presets)), seed)):
        return None
    base = _memory_bytes("VmRSS")
    replica = _replica(task, preset, size, size, again, seed)
    taken: list[float] = []
    processor: list[float] = []
    first_j, last_s, begin_s = None, 0.0, _cpu_s()
    while len(taken) < WARM_STEPS + MAX_STEPS:
        if len(taken) >= WARM_STEPS + MIN_STEPS and _cpu_s() - begin_s + last_s > budget_s:
            break
        if len(taken) == WARM_STEPS:
            first_j = _energy_j()
        cpu_s, start_s = _cpu_s(), time.perf_counter()
        replica.step(0, replica.loss)
        taken.append(time.perf_counter() - start_s)
        processor.append(last_s := _cpu_s() - cpu_s)
    energy_j, steps = _energy_j(), len(taken) - WARM_STEPS
    peak = _memory_bytes("VmHWM") - base
    return {
        "micro_batch": size,
        "recomputed": again,
        "steps": steps,
        "step_s": statistics.median(taken[WARM_STEPS:]),
        "step_cpu_s": statistics.median(processor[WARM_STEPS:]),
        "peak_bytes": peak,
        "energy_j_step": None if first_j is None or energy_j is None else (energy_j - first_j) / steps,
    }


def _around(task: Task, preset: str, threads: int, seed: int) -> dict[str, Any]:
    """Return what does not depend on the micro-batch: shapes, memory of the programs, what an outer step computes."""
    torch.set_num_threads(threads)
    _warm_up(task, seed)
    replica = _replica(task, preset, 1, 1, False, seed)
    replica.step(0, replica.loss)
    own = [each for each in replica.model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(own, lr=1e-9)

    def update() -> None:
        torch.nn.utils.clip_grad_norm_(own, 1.0)
        optimizer.step()

    def outer() -> None:
        change = replica.update()
        change.abs().max(), change.double().norm()
        mean = change.half().float()
        mean.double().norm()
        replica.advance(mean)

    return {
        "parameters": replica.numbers,
        "shapes": [list(each.shape) for each in own],
        "update_s": _median_s(update),
        "outer_s": _median_s(outer),
        "digest_s": _median_s(replica.digest),
        "pack_s": _median_s(replica.packed),
        "power_sgd_s": _median_s(partial(_power_sgd, own)),
    }


def _power_sgd(own: Sequence[torch.Tensor]) -> None:
    """Compute what PowerSGD computes for one step, without its messages."""
    with torch.no_grad():
        for each in own:
            kept = each.clone().add_(each)
            matrix = kept.view(kept.shape[0] if kept.dim() else 1, -1)
            if sum(matrix.shape) * min(*matrix.shape, POWER_SGD_RANK) * 2 < matrix.numel():
                right = torch.linalg.qr(torch.ones(matrix.shape[1], POWER_SGD_RANK))[0]
                left = torch.linalg.qr(matrix @ right)[0]
                torch.sub(matrix, left @ (matrix.t() @ left).t())


class _Examples:
    """Samples without data: any of them is the same batch."""

    def __init__(self, task: Task, preset: str, size: int, seed: int) -> None:
        self._batch, self._size = task.example(preset, size, seed), size

    def __len__(self) -> int:
        return self._size

    def batch(self, indices: Sequence[int]) -> Any:
        """Return the batch."""
        return self._batch


def _replica(task: Task, preset: str, batch: int, micro_batch: int, again: bool, seed: int) -> ModelReplica:
    manifest = {
        "preset": preset,
        "seeds": {"model": seed, "order": seed},
        "inner": {"rate": 1e-4, "clip": 1.0, "decay": 0.0, "warm_up": 0},
        "outer": {"rate": 0.7, "momentum": 0.9},
        "ranks": {"max": 1},
        "local_steps": 1,
        "batch": batch,
        "micro_batch": micro_batch,
        "precision": "fp32",
        "recompute": again,
    }
    settings = RankSettings("", manifest, 1, 0, [""], Path(), {}, Path(), 1)
    return ModelReplica(settings, task, _Examples(task, preset, micro_batch, seed), replicates_optimiser=False)


def _median_s(work: Callable[[], object], times: int = 5) -> float:
    """Return the processor time of short work (s), which other processes hardly change."""
    taken = []
    for _ in range(times + 1):
        begin_s = _cpu_s()
        work()
        taken.append(_cpu_s() - begin_s)
    return statistics.median(taken[1:])


def _warm_up(task: Task, seed: int) -> None:
    """Load what the first step of a process loads, with the first preset, and forget its memory."""
    replica = _replica(task, next(iter(task.presets)), 1, 1, False, seed)
    replica.step(0, replica.loss)
    del replica
    _forget()


def _forget() -> None:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


def _apart(work: Callable[[], dict[str, Any] | None]) -> tuple[dict[str, Any] | None, float]:
    """Do work in a process of its own; return its result and its processor time (s). A process that ends early is none."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        with os.fdopen(write, "w") as answer:
            json.dump(work(), answer)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    _, status, used = os.wait4(child, 0)
    return (json.loads(text) if status == 0 else None), used.ru_utime + used.ru_stime


def _cpu_s() -> float:
    return time.process_time()


def _memory_bytes(name: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {name}")


def _memory_available_bytes() -> int:
    text = Path("/proc/meminfo").read_text(encoding="ascii")
    return int(next(line for line in text.splitlines() if line.startswith("MemAvailable:")).split()[1]) * 1024


def _energy_j() -> float | None:
    """Return what the processors' own meters (RAPL) have counted (J); None where the machine does not tell."""
    try:
        return sum(int((each / "energy_uj").read_text()) for each in POWERCAP.glob("intel-rapl:?")) / 1e6 or None
    except OSError:
        return None


if __name__ == "__main__":
    main()
