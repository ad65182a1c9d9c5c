"""Speed of the plant alone: the bench rig's physics, sensed as often as a rig senses it, and 96 chambers against one."""

from __future__ import annotations

import time
from typing import Any

from choroid.common.examples import bench_rig
from controller.rig.description import Rig
from controller.rig.loading import load_rig
from sim.plant.fleet import Fleet
from sim.plant.plant import Plant
from sim.plant.shapes import manifold, selected, shared_loop, wells

HOURS = 12
MANY = 96
STEPS, REPEATS = 500, 5
SENSED = ("ph_loop.ph", "do_loop.oxygen", "t_chamber.temperature", "p_heart.pressure", "balance.mass")


def bench_plant() -> dict[str, Any]:
    """Simulate half a day with circulation, gas and heat, sensing five probes every two seconds; return the figures.

    `chambers` gives, by shape of the rig, the CPU time of a simulated second with one chamber and with 96 (µs), and how many
    times as much that is.
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
    chambers = {}
    for shape in (wells, manifold, shared_loop, selected):
        one, many = cpu_us_per_s(shape(1)), cpu_us_per_s(shape(MANY))
        chambers[shape.__name__] = {"one_us": round(one, 2), "many_us": round(many, 2), "times": round(many / one, 1)}
    return {
        "simulated_s": now, "wall_s": round(wall_s, 3), "times_life": round(now / wall_s), "chambers": chambers,
    }  # fmt: skip


def cpu_us_per_s(rig: Rig) -> float:
    """Return the CPU time (µs) that the plant of a rig takes for a simulated second while its hearts beat."""
    fleet = Fleet(rig, [1])
    for heart in rig.organs.hearts.values():
        fleet.lines["command_ul_min"][:, fleet.line_names.index(heart.line)] = heart.flow_ul_min
    step_s = fleet.layout.grid_s
    fleet.advance(step_s, STEPS)
    taken = []
    for _ in range(REPEATS):
        started = time.process_time()
        fleet.advance(step_s, STEPS)
        taken.append(time.process_time() - started)
    return 1e6 * min(taken) / (STEPS * step_s)
