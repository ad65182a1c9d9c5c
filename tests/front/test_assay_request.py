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
        auth = Auth(None, demo=False, utc=controller.clock.utc)
        app = create_app(controller, auth)
        token = {"Authorization": f"Bearer {auth.issue('a viewer', Role.VIEWER)}"}
        technician = Technician(lab, controller, seed=3, on_request=True)
        began = controller.clock.utc_text()
        params = {"assay_cost": "0 uL", "max_assays": "1", "every": "1 h", "cycles": "9"}
        await controller.runs.start("recycle", params, user="anna", reason="a test")
        await until(lambda: announced(controller), 3600.0 + LOOK_S)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE, headers=token) as viewer:
            (asked,) = (await viewer.get("/api/assays")).json()["wanted"]
            assert asked["vessel"] == "loop"
            assert 0.0 < asked["saving_ml"] < asked["demand_ml"]
            assert asked["since_utc"][:16] >= began[:16]
            (alarm,) = (each for each in controller.alarms.active() if each.id == ALARM)
            assert alarm.detail == asked["text"]
            controller.alarms.acknowledge(ALARM, "anna")
            await asyncio.sleep(SETTLE_S)
            assert announced(controller), "who acknowledges it has not made the assay"
            await technician.update(DAY_S)
            told = (await viewer.get("/api/assays")).json()
        assert told["wanted"] == []
        assert sorted({row["analyte"] for row in told["assays"]}) == sorted(asked["analytes"])
        await until(lambda: not announced(controller), SETTLE_S)
    await lab.close()


@pytest.mark.long
@pytest.mark.virtual_time
async def test_LDH_is_asked_for_becomes_evidence_of_the_tissue_and_is_graded(tmp_path: Path) -> None:
    lab = SimulatedLab(RIG, seed=3)
    async with controlled(lab, tmp_path) as controller:
        technician = Technician(lab, controller, seed=3, on_request=True)
        params = {"max_assays": "0", "every": "1 h", "cycles": "40", "accepted_loss": "100 %"}
        await controller.runs.start("recycle", params, user="anna", reason="a test")
        await until(lambda: f"{ASSAY_WANTED}:tissue" in {alarm.id for alarm in controller.alarms.active()}, 26 * 3600.0)
        (asked,) = controller.runs.requests.open()
        assert (asked.analytes, asked.purpose, asked.saving_ul) == (("ldh",), "tissue", None)
        assert "baseline" in asked.text
        await technician.update(DAY_S)
        assert controller.runs.requests.open() == ()
        (first,) = controller.assays.recent()
        assert (first["analyte"], first["unit"], first["used"], first["expected"]) == ("ldh", "U/L", True, None)
        await asyncio.sleep(2 * 3600.0)
        looks = [row.body["look"] for row in controller.journal.entries(kinds=("tissue.look",))]
        assert [look["ldh"]["value"] for look in looks if "ldh" in look] == [first["value"]], "evidence once"
        controller.runs.enter_assay(
            "ldh", f"{3.0 * first['value']} U/L", vessel="loop", taken=controller.clock.utc_text(), user="anna"
        )
        await asyncio.sleep(3600.0 + 600.0)
        graded = controller.journal.last("note.grade")
        assert graded is not None
        assert graded.body["variables"]["ldh_ratio"]["grade"] == "C", "2.5 to 5 times the culture's first one"
    await lab.close()
