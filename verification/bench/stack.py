"""How fast the whole stack runs in virtual time."""

from __future__ import annotations

from typing import Any

from choroid.common.examples import bench_rig
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
