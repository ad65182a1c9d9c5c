"""Predictions of the planner against measured training: `python -m tests.grid.planned_cases [NUMBER…]` (root, minutes).

Each model is probed once. For each case the links are measured, and the job is trained. The table has the ratio of measured
to predicted time of an outer step, bytes and peak memory. All ranks and whatever else runs share one machine here. So the
prediction takes the processor time of steps, and from the measured time that is taken off for which
the rank that waited longest was kept waiting by other work: both are what a machine of its own would have.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from grid.planning.candidates import TrainingCandidate
from grid.planning.options import TrainingOption, options
from tests.grid.shaped_ranks import Trained, Wire, shaped

WARM_STEPS = 1
"""Outer steps at the beginning that do not count."""


@dataclass(frozen=True)
class PlannedCase:
    """One job: preset, samples of a step and of a micro-batch, ranks, their links, engine, codec, local and outer steps."""

    preset: str
    batch: int
    micro_batch: int
    ranks: int
    wire: Wire
    engine: str
    codec: str
    local: int
    outer: int
    recompute: bool = False

    def __str__(self) -> str:
        again = " again" if self.recompute else ""
        return (
            f"{self.preset} {self.batch}/{self.micro_batch}{again}, {self.ranks} × {self.wire}, {self.engine} {self.codec}"
            f" H={self.local}"
        )


CASES = (
    PlannedCase("small", 8, 8, 1, Wire(), "ddp", "fp32", 1, 8),
    PlannedCase("base", 8, 4, 1, Wire(), "ddp", "fp32", 1, 8),
    PlannedCase("small", 8, 8, 2, Wire(1000), "ddp", "fp32", 1, 8),
    PlannedCase("small", 8, 8, 3, Wire(100), "ddp", "fp32", 1, 8),
    PlannedCase("base", 4, 4, 2, Wire(100), "ddp", "fp16", 1, 8),
    PlannedCase("base", 4, 4, 2, Wire(1000), "ddp", "fp32", 1, 8, recompute=True),
    PlannedCase("small", 8, 8, 2, Wire(100), "diloco", "fp16", 12, 4),
    PlannedCase("small", 8, 4, 3, Wire(100), "diloco", "int8", 10, 4),
    PlannedCase("base", 4, 4, 2, Wire(100), "diloco", "fp16", 6, 4),
    PlannedCase("base", 4, 4, 3, Wire(1000), "diloco", "fp32", 8, 4),
    PlannedCase("small", 8, 8, 3, Wire(10), "diloco", "int8", 12, 4),
    PlannedCase("small", 8, 8, 2, Wire(None, 20), "ddp", "fp32", 1, 8),
    PlannedCase("small", 8, 8, 2, Wire(None, 20), "diloco", "fp16", 10, 4),
    PlannedCase("base", 4, 4, 2, Wire(None, 20), "diloco", "fp32", 5, 4),
)


@dataclass(frozen=True)
class Ratios:
    """Measured by predicted: time of an outer step, bytes of an outer step, peak memory of the process."""

    time: float
    sent: float
    memory: float


def manifest(case: PlannedCase) -> dict[str, Any]:
    return {
        "preset": case.preset,
        "engine": case.engine,
        "codec": case.codec,
        "seeds": {"model": 0, "order": 0},
        "precision": "fp32",
        "recompute": case.recompute,
        "local_steps": case.local,
        "outer_steps": case.outer,
        "batch": case.batch,
        "micro_batch": case.micro_batch,
        "inner": {"rate": 1e-4, "clip": 1.0, "decay": 0.0, "warm_up": 0},
        "outer": {"rate": 0.7, "momentum": 0.9},
        "budget": {"core_hours": 100, "bytes": 1 << 50},
        "checkpoint_every": case.outer,
    }


def predicted(case: PlannedCase, group: list[TrainingCandidate], links: Any) -> TrainingOption:
    found = options(group, links, case.batch, case.outer, case.local)
    kind = (case.engine, case.codec, case.micro_batch, case.recompute)
    return next(each for each in found if (each.engine, each.codec, each.micro_batch, each.recompute) == kind)


def ratios(case: PlannedCase, trained: Trained, expected: TrainingOption) -> Ratios:
    seconds = alone_s(trained)
    sent = statistics.median(each for own in trained.sent for each in own[WARM_STEPS:])
    expected_s = case.local * expected.step_s
    expected_bytes = case.local * expected.bytes_step
    memory = max(peak / expected.peak_bytes[str(rank)] for rank, peak in enumerate(trained.peaks))
    return Ratios(seconds / expected_s, sent / expected_bytes if expected_bytes else 1.0, memory)


def quiet(found: TrainingCandidate) -> TrainingCandidate:
    """Return a member as its probe would have measured it on a machine of its own, with one thread."""
    cases = [each.model_copy(update={"step_s": each.step_cpu_s}) for each in found.cases]
    return found.model_copy(update={"cases": cases})


def alone_s(trained: Trained) -> float:
    """Return the median time of an outer step without that for which a processor had other work (s)."""
    rounds = zip(zip(*trained.seconds, strict=True), zip(*trained.waited, strict=True), strict=True)
    return float(statistics.median([max(seconds) - max(waited) for seconds, waited in rounds][WARM_STEPS:]))


@cache
def probed(preset: str, sizes: tuple[int, ...], recompute: bool = False) -> TrainingCandidate:
    with tempfile.TemporaryDirectory() as folder, shaped(1, Wire(), Path(folder)) as alone:
        return quiet(alone.probe(preset, sizes, 12.0 if recompute else 5.0)[0])


def measured(case: PlannedCase) -> tuple[Ratios, dict[str, float]]:
    member = probed(case.preset, (case.micro_batch,), case.recompute)
    group = [member.model_copy(update={"name": str(rank)}) for rank in range(case.ranks)]
    with tempfile.TemporaryDirectory() as folder, shaped(case.ranks, case.wire, Path(folder)) as ranks:
        expected = predicted(case, group, ranks.links())
        trained = ranks.train(manifest(case))
    about = {
        "compute_s": expected.compute_s,
        "sync_s": expected.sync_s,
        "alone_s": alone_s(trained),
        "outer_s": statistics.median(each for own in trained.seconds for each in own[WARM_STEPS:]),
        "peak_mb": max(trained.peaks) / 1e6,
        "program_mb": member.program_bytes / 1e6,
        "parameters": member.parameters,
    }
    return ratios(case, trained, expected), about


def main() -> None:
    chosen = [int(each) for each in sys.argv[1:]] or range(len(CASES))
    for number in chosen:
        found, about = measured(CASES[number])
        print(
            f"{number:2} {CASES[number]!s:62} time {found.time:5.2f} bytes {found.sent:5.2f} memory {found.memory:5.2f} "
            f"{json.dumps({name: float(f'{value:.4g}') for name, value in about.items()})}",
            flush=True,
        )


if __name__ == "__main__":
    main()
