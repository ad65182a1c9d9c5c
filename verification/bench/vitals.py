"""Cost of the scores in a simulation: one evaluation of the vital signs of the bench rig in mid-run, and a journal
row.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

from choroid.common.examples import bench_rig
from choroid.simulation.rates import RateNerves
from choroid.simulation.simulate import EPOCH
from controller.core.clock import Clock
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.process.outside import with_nerves
from controller.rig.loading import load_rig
from controller.vitals.score_rows import ROW
from controller.vitals.scoring import EVERY_S, RECORD_EVERY_S
from controller.vitals.vitals import VitalSigns, disturbance
from drivers.registry import MODELS
from sim.lab import SimulatedLab
from sim.virtual_time import run_virtual

LIVED_S = 1800.0
LOOKS = 500
ROUNDS = 7
WANTED_US = 2.0


def bench_vitals() -> dict[str, Any]:
    """Return the microseconds per simulated second, the best of some rounds (other processes share this machine)."""
    with tempfile.TemporaryDirectory(prefix="choroid-bench-") as folder:
        return run_virtual(_measured(Path(folder)))


async def _measured(folder: Path) -> dict[str, Any]:
    rig = load_rig(bench_rig(), models=MODELS)
    lab = SimulatedLab(rig, seed=1)
    nerves = RateNerves(lab.plant, electrodes=rig.nerves.electrodes if rig.nerves else 1, seed=1)
    clock = Clock(follow_system=False, epoch=EPOCH)
    controller = Controller(
        rig=rig, opener=lab.opener, storage=Storage(folder, durable=False), clock=clock, parts=(with_nerves(nerves),)
    )
    stop = asyncio.Event()
    try:
        await controller.start()
        ticking = asyncio.create_task(controller.run(stop))
        await controller.runs.start(
            "recycle", {"min_batch": "18 mL"}, user="bench", reason="choroid verify bench vitals"
        )
        await asyncio.sleep(LIVED_S)
        vitals = VitalSigns(
            rig,
            controller.runs.estimator,
            grade=controller.last_grade,
            journal=controller.journal,
            clock=clock,
        )
        look_us, row_us = 1e9, 1e9
        for _ in range(ROUNDS):
            began = time.process_time()
            for _ in range(LOOKS):
                why = disturbance(controller.store.state.trips, controller.alarms.active())
                scores = vitals.score(controller.store.state, controller.nerves_summary, why)
            look_us = min(look_us, (time.process_time() - began) / LOOKS * 1e6)
            began = time.process_time()
            controller.journal.append(ROW, scores.to_json())
            row_us = min(row_us, (time.process_time() - began) * 1e6)
        stop.set()
        await ticking
    finally:
        await controller.close()
        await lab.close()
    a_second = look_us / EVERY_S + row_us / RECORD_EVERY_S
    return {
        "look_us": round(look_us, 1),
        "row_us": round(row_us, 1),
        "us_per_simulated_s": round(a_second, 3),
        "goal_us_per_simulated_s": WANTED_US,
    }
