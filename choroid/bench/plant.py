"""Speed of the plant alone: the bench rig's physics, sensed as often as a rig senses it."""

from __future__ import annotations

import time
from typing import Any

from choroid.common.examples import bench_rig
from controller.rig.loading import load_rig
from sim.plant.plant import Plant

HOURS = 12
SENSED = ("ph_loop.ph", "do_loop.oxygen", "t_chamber.temperature", "p_heart.pressure", "balance.mass")


def bench_plant() -> dict[str, Any]:
    """Simulate half a day with circulation, gas and heat, sensing five probes every two seconds; return the
    figures.
    """
    now = 0.0
    plant = Plant(load_rig(bench_rig()), seed=1, now=lambda: now)
    plant.set_pump("reglo.heart", 2000.0)
    plant.set_gas("gas_air.flow", 46.5)
    plant.set_gas("gas_co2.flow", 3.5)
    started = time.perf_counter()  # noqa: TID251  (a benchmark measures real time)
    for step in range(HOURS * 1800):
        now = 2.0 * step
        plant.set_switch("relay.heater", step % 10 < 5)
        for point in SENSED:
            plant.sense(point)
    wall_s = time.perf_counter() - started  # noqa: TID251
    return {"simulated_s": now, "wall_s": round(wall_s, 3), "times_life": round(now / wall_s)}
