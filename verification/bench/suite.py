"""The list of benchmarks, and the display of their figures with the goals."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

from choroid.common.extras import load_extra
from choroid.common.failure import UserError


class Benchmark(NamedTuple):
    """A benchmark: the function `bench_NAME` of the module `verification.bench.NAME`."""

    extra: str = ""
    """The extra of Choroid that it needs."""
    options: tuple[str, ...] = ()
    """The options of the command that it takes."""

    def run(self, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Run the benchmark `name` with those of the options that it takes, and return its figures.

        Raises:
            UserError: The extra is not installed.
        """
        module = f"verification.bench.{name}"
        if self.extra:
            needed_for, otherwise = f"the benchmark “{name}”", "run the others by name"
            found = load_extra(module, self.extra, needed_for=needed_for, otherwise=otherwise)
        else:
            found = import_module(module)
        taken = {key: value for key, value in options.items() if key in self.options}
        figures: dict[str, Any] = getattr(found, f"bench_{name}")(**taken)
        return figures


CULTURES = ("seeds", "days", "first", "jobs")
BENCHMARKS: dict[str, Benchmark] = {
    "stack": Benchmark(),
    "plant": Benchmark(),
    "history": Benchmark(),
    "bus": Benchmark(),
    "rigs": Benchmark(),
    "perfusion_lag": Benchmark(),
    "nerves": Benchmark(),
    "detection": Benchmark("dev", ("cells", "templates")),
    "culture": Benchmark(),
    "recording": Benchmark("dev", ("channels", "record_s", "paced", "busy", "folder")),
    "sandbox": Benchmark("dev"),
    "reflex": Benchmark("dev"),
    "grid": Benchmark("dev"),
    "data": Benchmark("grid"),
    "learning": Benchmark("agents"),
    "estimator": Benchmark(options=(*CULTURES, "whole", "assays", "buffer", "rig", "wrong", "told")),
    "medium": Benchmark(options=(*CULTURES, "tissues", "arms")),
    "report": Benchmark(),
    "vitals": Benchmark(),
    "viability": Benchmark(options=("seeds", "jobs", "shift")),
    "fitting": Benchmark("fit", (*CULTURES, "whole", "assays", "rig")),
    "imaging": Benchmark("imaging"),
    "hard_imaging": Benchmark("imaging"),
    "slow_disk": Benchmark(),
    "guard": Benchmark(options=("rounds", "load_s")),
    "readings": Benchmark(),
    "estop": Benchmark(),
}


def bench(only: list[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Run the named benchmarks (all if none is named); return `{machine, benchmarks: {name: figures}}`.

    Each takes those of the `options` that it names (:data:`BENCHMARKS`).

    Raises:
        UserError: A name is not that of a benchmark, or one that was named cannot run.
    """
    unknown = [name for name in only if name not in BENCHMARKS]
    if unknown:
        raise UserError(f"no benchmark is called {', '.join(unknown)}. Next: choose among {', '.join(BENCHMARKS)}")
    figures: dict[str, Any] = {}
    for name in only or BENCHMARKS:
        print(f"choroid verify bench: {name} …", file=sys.stderr, flush=True)
        try:
            figures[name] = BENCHMARKS[name].run(name, options)
        except UserError as error:
            if only:
                raise
            print(f"choroid verify bench: {name} is left out: {error}", file=sys.stderr, flush=True)
    machine = {"cpus": os.cpu_count(), "python": platform.python_version(), "machine": platform.machine()}
    return {"machine": machine, "benchmarks": figures}


def as_text(answer: dict[str, Any]) -> str:
    """Return the figures as text, one per line."""
    lines = [f"on {answer['machine']['cpus']} CPUs, Python {answer['machine']['python']}"]
    for name, figures in answer["benchmarks"].items():
        lines.append(f"\n{name}")
        lines += [f"  {key:<44}{_shown(value)}" for key, value in figures.items()]
    return "\n".join(lines)


def _shown(value: Any) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else str(value)
