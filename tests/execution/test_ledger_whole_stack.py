"""Worn tubing, expired calibrations and turning heads on the real thing: drivers, wire, plant, gate, runner, alarms."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from controller.core.run_states import RunState
from controller.memory.calibrations import Calibration, keep
from controller.process.controller import Controller
from controller.runs.runner import RunnerError
from drivers.commands import PumpStatus
from protocols.language import Lab as Organs
from sim.lab import SimulatedLab
from tests.execution.protocols_for_tests import CATALOGUE, recipe
from tests.execution.test_whole_stack import controlled, until
from tests.execution.world import RIG

DRIFT = "pump_drift:reglo.draw"
RECORD = Calibration(
    "reglo.draw", "pump", "balance", "ada", "2025-12-20T00:00:00.000Z", "2025-12-31T00:00:00.000Z", "bench", 1.02,
    "uL", ((5000.0, 5000.0), (5000.0, 5000.0)), 1.0, 0.0, 0.0,
)  # fmt: skip


async def drawing(controller: Controller, doses: int) -> None:
    for _ in range(doses):
        run = await controller.runs.start(CATALOGUE["one_draw"], {"volume": "3 mL"}, "anna", "a test")
        await until(lambda run=run: controller.runs.get(run).state.ended)  # type: ignore[misc]
        assert controller.runs.get(run).state is RunState.COMPLETE, controller.runs.get(run).messages


@pytest.mark.virtual_time
async def test_F4_worn_tubing_raises_pump_drift_within_two_doses_and_well_tubing_does_not(tmp_path: Path) -> None:
    lab = SimulatedLab(RIG, seed=3)
    async with controlled(lab, tmp_path) as controller:
        await drawing(controller, 5)
        assert [alarm.id for alarm in controller.alarms.active()] == []
        heart = controller.upkeep.tubing["reglo.heart"]
        lab.plant.faults.wear["draw"] = 0.15
        await drawing(controller, 2)
        (alarm,) = controller.alarms.active()
        assert alarm.id == DRIFT
        assert "% less than it did in the doses before" in alarm.detail
        gain = controller.ledger.gain("reglo.draw")
        assert gain is not None
        truth = lab.plant.truth()
        for name, volume in controller.ledger.volumes().items():
            assert abs(volume.ul - truth.volumes_ul[name]) < 4 * volume.sd_ul + 1.0, name
        # What the heart's tubing has turned: 2 mL a minute at 63 µL a turn, counted in whole millilitres.
        turned = controller.upkeep.tubing["reglo.heart"].revolutions
        status = controller.store.state.actuators["reglo.heart"].status
        assert isinstance(status, PumpStatus)
        assert heart.revolutions < turned
        assert turned == pytest.approx(status.delivered_ul / 63.0, abs=60.0)
    await lab.close()


@pytest.mark.virtual_time
async def test_F5_no_run_begins_whose_pump_has_an_expired_calibration(tmp_path: Path) -> None:
    keep(tmp_path, RECORD)
    lab = SimulatedLab(RIG, seed=4)
    async with controlled(lab, tmp_path) as controller:
        with pytest.raises(RunnerError, match=r"that of reglo.draw expired on 2025-12-31.* Next: calibrate again"):
            await controller.runs.start(CATALOGUE["one_draw"], {"volume": "3 mL"}, "anna", "a test")
        assert controller.runs.list() == []
    await lab.close()


@pytest.mark.virtual_time
async def test_F5_a_calibration_that_expires_in_a_run_holds_it_until_a_person_calibrates_and_the_heart_goes_on(
    tmp_path: Path,
) -> None:
    async def asking(organs: Organs, params: Mapping[str, float]) -> None:
        await organs.ask("the tubing looks worn. Next: look at it")
        await organs.kidney.draw(3_000.0)

    keep(tmp_path, replace(RECORD, expires_utc="2026-01-01T00:05:00.000Z"))
    lab = SimulatedLab(RIG, seed=4)
    async with controlled(lab, tmp_path) as controller:
        run = await controller.runs.start(recipe(asking), {}, "anna", "a test")
        await until(lambda: controller.runs.get(run).state is RunState.HELD)
        await asyncio.sleep(360.0)  # the question is answered when the calibration is over
        await controller.runs.resume(run, "anna", "it is well")
        await until(lambda: len(controller.runs.get(run).messages) == 2)
        await until(lambda: controller.runs.get(run).state is RunState.HELD)
        message = controller.runs.get(run).messages[-1]
        assert "calibration: that of reglo.draw expired on 2026-01-01" in message
        assert "Next: calibrate again" in message
        assert lab.plant.truth().volumes_ul["spent"] == pytest.approx(3_000.0, abs=1.0), "nothing was moved"
        assert "calibration_invalid:reglo.draw" in [alarm.id for alarm in controller.alarms.active()]
        before = lab.plant.truth().volumes_ul["spent"]
        await asyncio.sleep(300.0)
        status = controller.store.state.actuators["reglo.heart"].status
        assert isinstance(status, PumpStatus)
        assert status.running
        assert status.flow_ul_min == pytest.approx(2000.0, rel=0.01)
        assert lab.plant.truth().volumes_ul["spent"] == pytest.approx(before, abs=1.0)
        keep(
            tmp_path,
            Calibration(
                "reglo.draw", "pump", "balance", "ada", "2026-01-01T00:04:00.000Z", "2026-02-01T00:00:00.000Z", "bench",
                1.02, "uL", ((5000.0, 4750.0), (5000.0, 4760.0)), 0.951, 0.0, 0.002,
            ),
        )  # fmt: skip
        await asyncio.sleep(70.0)
        assert "calibration_invalid" not in {kind for kind, _ in controller.upkeep.causes}
        await controller.runs.resume(run, "anna", "calibrated")
        await until(lambda: controller.runs.get(run).state.ended)
        assert controller.runs.get(run).state is RunState.COMPLETE
        asked = [
            row.body["ul"] for row in controller.journal.entries(kinds=("step.act",)) if row.body["line"] == "draw"
        ]
        assert asked[-1] == pytest.approx(3_000.0 / 0.951), "a pump that gives 5 % too little is asked for 5 % more"
    await lab.close()
