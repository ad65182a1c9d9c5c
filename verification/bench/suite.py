"""The list of benchmarks, and the display of their figures with the goals."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Mapping
from typing import Any

from choroid.common.examples import bench_rig
from choroid.common.extras import load_extra
from choroid.common.failure import UserError
from choroid.simulation.simulate import simulate

DAYS = 0.25


def bench_stack() -> dict[str, Any]:
    """Simulate a quarter of a day of `recycle` on the bench rig (target: docs/performance.md, 5,000 × real time of CPU)."""
    answer = simulate(bench_rig(), protocol="recycle", params={"min_batch": "18 mL"}, days=DAYS, seed=1, progress=False)
    requests_per_s = answer["transactions"] / answer["simulated_s"]
    return {
        "times_life": answer["speed"],
        "times_life_per_cpu": answer["speed_per_cpu"],
        "goal_times_life_per_cpu": 5000,
        "requests_per_simulated_s": round(requests_per_s, 2),
        "requests_per_real_s": round(answer["transactions"] / answer["wall_s"]),
        "us_per_simulated_s": round(1e6 * answer["wall_s"] / answer["simulated_s"], 1),
        "cpu_us_per_simulated_s": round(1e6 * answer["cpu_s"] / answer["simulated_s"], 1),
    }


Benchmark = Callable[..., dict[str, Any]]


def _history() -> dict[str, Any]:
    from verification.bench.history import bench_history

    return bench_history()


def _plant() -> dict[str, Any]:
    from verification.bench.plant import bench_plant

    return bench_plant()


def _nerves() -> dict[str, Any]:
    from verification.bench.nerves import bench_nerves

    return bench_nerves()


def _detection() -> dict[str, Any]:
    module = load_extra(
        "verification.bench.detection",
        "dev",
        needed_for="the benchmark “detection”",
        otherwise="run the others by name",
    )
    figures: dict[str, Any] = module.bench_detection()
    return figures


def _recording(**options: Any) -> dict[str, Any]:
    module = load_extra(
        "verification.bench.recording",
        "dev",
        needed_for="the benchmark “recording”",
        otherwise="run the others by name",
    )
    figures: dict[str, Any] = module.bench_recording(**options)
    return figures


def _sandbox() -> dict[str, Any]:
    module = load_extra(
        "verification.bench.sandbox", "dev", needed_for="the benchmark “sandbox”", otherwise="run the others by name"
    )
    figures: dict[str, Any] = module.bench_sandbox()
    return figures


def _reflex() -> dict[str, Any]:
    module = load_extra(
        "verification.bench.reflex", "dev", needed_for="the benchmark “reflex”", otherwise="run the others by name"
    )
    figures: dict[str, Any] = module.bench_reflex()
    return figures


def _grid() -> dict[str, Any]:
    module = load_extra(
        "verification.bench.grid", "dev", needed_for="the benchmark “grid”", otherwise="run the others by name"
    )
    figures: dict[str, Any] = module.bench_grid()
    return figures


def _culture() -> dict[str, Any]:
    from verification.bench.culture import bench_culture

    return bench_culture()


def _learning() -> dict[str, Any]:
    module = load_extra(
        "verification.bench.learning",
        "agents",
        needed_for="the benchmark “learning”",
        otherwise="run the others by name",
    )
    figures: dict[str, Any] = module.bench_learning()
    return figures


def _bus() -> dict[str, Any]:
    from verification.bench.bus import bench_bus

    return bench_bus()


def _rigs() -> dict[str, Any]:
    from verification.bench.rigs import bench_rigs

    return bench_rigs()


def _perfusion_lag() -> dict[str, Any]:
    from verification.bench.perfusion_lag import bench_perfusion_lag

    return bench_perfusion_lag()


def _report() -> dict[str, Any]:
    from verification.bench.report import bench_report

    return bench_report()


def _vitals() -> dict[str, Any]:
    from verification.bench.vitals import bench_vitals

    return bench_vitals()


def _imaging() -> dict[str, Any]:
    module = load_extra(
        "verification.bench.imaging",
        "imaging",
        needed_for="the benchmark “imaging”",
        otherwise="run the others by name",
    )
    figures: dict[str, Any] = module.bench_imaging()
    return figures


def _hard_imaging() -> dict[str, Any]:
    module = load_extra(
        "verification.bench.hard_imaging",
        "imaging",
        needed_for="the benchmark “hard_imaging”",
        otherwise="run the others by name",
    )
    figures: dict[str, Any] = module.bench_hard_imaging()
    return figures


def _viability(seeds: int = 20, jobs: int | None = None, shift: float = 0.0) -> dict[str, Any]:
    from verification.bench.viability import calibration

    return calibration(seeds=range(1, seeds + 1), jobs=jobs or os.cpu_count() or 1, shift=shift)


def _fitting(**options: Any) -> dict[str, Any]:
    module = load_extra(
        "verification.bench.fitting", "fit", needed_for="the benchmark “fitting”", otherwise="run the others by name"
    )
    figures: dict[str, Any] = module.bench_fitting(**options)
    return figures


def _slow_disk() -> dict[str, Any]:
    from verification.bench.slow_disk import bench_slow_disk

    return bench_slow_disk()


def _readings() -> dict[str, Any]:
    from verification.bench.readings import bench_readings

    return bench_readings()


def _estop() -> dict[str, Any]:
    from verification.bench.estop import bench_estop

    return bench_estop()


def _estimator(**options: Any) -> dict[str, Any]:
    from verification.bench.estimator import bench_estimator

    return bench_estimator(**options)


def _medium(**options: Any) -> dict[str, Any]:
    from verification.bench.medium import bench_medium

    return bench_medium(**options)


def _guard(**options: Any) -> dict[str, Any]:
    from verification.bench.guard import bench_guard

    return bench_guard(**options)


BENCHMARKS: dict[str, Benchmark] = {
    "stack": bench_stack,
    "plant": _plant,
    "history": _history,
    "bus": _bus,
    "rigs": _rigs,
    "perfusion_lag": _perfusion_lag,
    "nerves": _nerves,
    "detection": _detection,
    "culture": _culture,
    "recording": _recording,
    "sandbox": _sandbox,
    "reflex": _reflex,
    "grid": _grid,
    "learning": _learning,
    "estimator": _estimator,
    "medium": _medium,
    "report": _report,
    "vitals": _vitals,
    "viability": _viability,
    "fitting": _fitting,
    "imaging": _imaging,
    "hard_imaging": _hard_imaging,
    "slow_disk": _slow_disk,
    "guard": _guard,
    "readings": _readings,
    "estop": _estop,
}


def bench(
    only: list[str],
    estimator: Mapping[str, Any] | None = None,
    guard: Mapping[str, Any] | None = None,
    recording: Mapping[str, Any] | None = None,
    medium: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Run the named benchmarks (all if none is named); return `{machine, benchmarks: {name: figures}}`.

    `estimator`, `guard` and `recording` are their options; `viability` and `fitting` take the estimator's, and `medium`
    takes its seeds, days, first and jobs.
    """
    unknown = [name for name in only if name not in BENCHMARKS]
    if unknown:
        raise UserError(f"no benchmark is called {', '.join(unknown)}. Next: choose among {', '.join(BENCHMARKS)}")
    figures: dict[str, Any] = {}
    for name in only or BENCHMARKS:
        print(f"choroid verify bench: {name} …", file=sys.stderr, flush=True)
        told = estimator or {}
        cultures = {key: value for key, value in told.items() if key in ("seeds", "jobs", "shift")}
        fitted = {key: value for key, value in told.items() if key not in ("buffer", "shift", "wrong", "told")}
        estimated = {key: value for key, value in told.items() if key != "shift"}
        options = {"estimator": estimated, "viability": cultures, "fitting": fitted, "guard": guard}
        long = {key: value for key, value in told.items() if key in ("seeds", "days", "first", "jobs")}
        options |= {"recording": recording, "medium": long | dict(medium or {})}
        try:
            figures[name] = BENCHMARKS[name](**(options.get(name) or {}))
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
