"""The estimator compared with the plant's truth: through the whole stack, and over days in the benchmark."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from choroid.common.failure import UserError
from controller.core.clock import Clock
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.rig.description import MethodSd, required
from controller.rig.loading import load_rig
from drivers.registry import MODELS
from sim.lab import SimulatedLab
from sim.virtual_time import run_virtual
from tests.execution.world import BENCH, EPOCH
from verification.bench.estimator import bench_estimator, one_culture, summary

HOURS = 2.0
WRONG_PH = 0.05


async def _through_the_whole_stack(folder: Path) -> dict[str, Any]:
    """A cycle of `recycle` with a pH probe that is off; an assay comes in an hour after it was taken."""
    loop = asyncio.get_running_loop()
    rig = load_rig(BENCH, models=MODELS)
    rig = rig.model_copy(update={"method_sd": MethodSd.model_validate({"glucose": "0.5 %"})})
    lab = SimulatedLab(rig, seed=5)
    lab.plant.faults.sensor_offset[required(rig.organs.lung, "organs.lung").ph] = WRONG_PH
    clock = Clock(follow_system=False, epoch=EPOCH)
    controller = Controller(rig=rig, opener=lab.opener, storage=Storage(folder, durable=False), clock=clock)
    stop = asyncio.Event()
    try:
        await controller.start()
        ticking = asyncio.create_task(controller.run(stop))
        await controller.runs.start("recycle", {"min_batch": "18 mL"}, user="test", reason="a test")
        await asyncio.sleep(3600.0)
        taken, truth = clock.utc_text(), lab.plant.truth().concentrations["loop"]["glucose"]
        await asyncio.sleep(HOURS * 3600.0 - loop.time())
        told = controller.assays.enter(
            "glucose", f"{truth:.4f} mM", vessel="loop", taken=taken, sd="0.05 mM", user="anna", method="analyser"
        )
        true, medium = lab.plant.truth().concentrations["loop"], controller.assays.medium()["loop"]
        stop.set()
        await ticking
        return {"told": told, "true": true, "medium": medium}
    finally:
        await controller.close()
        await lab.close()


def test_through_the_whole_stack_a_late_assay_counts(tmp_path: Path) -> None:
    found = run_virtual(_through_the_whole_stack(tmp_path))
    told = found["told"]
    assert told["after"]["high"] - told["after"]["low"] < 0.5 * (told["before"]["high"] - told["before"]["low"])
    names = {"lactate_mm": "lactate", "glucose_mm": "glucose", "ammonia_mm": "ammonia", "osmolality_mosm": "osmoles"}
    for name, species in names.items():
        assert found["medium"][name]["low"] <= found["true"][species] <= found["medium"][name]["high"], name


def test_over_days_the_bounds_hold_what_they_promise() -> None:
    tally = one_culture(7, 5.0)["daily"]
    assert tally.entered == 20
    assert tally.refused == 0
    figures = summary([tally])
    for name in ("lactate", "glucose", "ammonia", "osmolality"):
        assert figures[f"loop {name} coverage"] >= 0.75, name  # one culture; over twenty see docs/estimation.md
    assert figures["loop lactate error over range"] < 0.1
    assert figures["loop lactate error over range"] < figures["loop lactate last assay's error over range"]
    again = one_culture(7, 1.2)["daily"]
    count = len(again.rows["loop", "lactate"])
    np.testing.assert_array_equal(again.rows["loop", "lactate"], tally.rows["loop", "lactate"][:count])


@pytest.mark.parametrize("options", [{"seeds": 0}, {"days": 0.5}, {"jobs": -1}, {"days": float("nan")}])
def test_a_trial_that_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="needs --seeds"):
        bench_estimator(**options)
