"""An assay from its request to its answer over the whole stack: recycler, journal, alarm, API, technician, estimate."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from choroid.simulation.technician import Technician
from controller.process.controller import Controller
from controller.runs.assay_requests import LOOK_S
from dashboards.app import create_app
from dashboards.auth import Auth, Role
from protocols.assay_requests import ASSAY_WANTED
from sim.lab import SimulatedLab
from tests.dashboards.world import BASE
from tests.execution.test_whole_stack import controlled, until
from tests.execution.world import RIG

DAY_S = 86_400.0
ALARM = f"{ASSAY_WANTED}:loop"
SETTLE_S = 60.0
"""More than the time to notice an answer and the off-delay of the alarm."""


def announced(controller: Controller) -> bool:
    return any(alarm.id == ALARM for alarm in controller.alarms.active())


@pytest.mark.virtual_time
async def test_a_request_raises_an_alarm_until_the_technician_enters_its_results(tmp_path: Path) -> None:
    lab = SimulatedLab(RIG, seed=3)
    async with controlled(lab, tmp_path) as controller:
        auth = Auth(None, demo=False)
        app = create_app(controller, auth)
        token = {"Authorization": f"Bearer {auth.issue('a viewer', Role.VIEWER)}"}
        technician = Technician(lab, controller, seed=3, on_request=True)
        began = controller.clock.utc_text()
        params = {"assay_cost": "0 uL", "max_assays": "1", "every": "1 h", "cycles": "9"}
        await controller.runs.start("recycle", params, user="anna", reason="a test")
        await until(lambda: announced(controller), 3600.0 + LOOK_S)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE, headers=token) as viewer:
            asked = (await viewer.get("/api/assays")).json()["wanted"]
            assert asked["vessel"] == "loop"
            assert 0.0 < asked["saving_ml"] < asked["demand_ml"]
            assert asked["since_utc"][:16] >= began[:16]
            (alarm,) = (each for each in controller.alarms.active() if each.id == ALARM)
            assert alarm.detail == asked["text"]
            controller.alarms.acknowledge(ALARM, "anna")
            await asyncio.sleep(SETTLE_S)
            assert announced(controller), "who acknowledges it has not made the assay"
            await technician.look(DAY_S)
            told = (await viewer.get("/api/assays")).json()
        assert told["wanted"] is None
        assert sorted({row["analyte"] for row in told["assays"]}) == sorted(asked["analytes"])
        await until(lambda: not announced(controller), SETTLE_S)
    await lab.close()
