"""Statements of health respect alarms and hearts that are not known to run: on page, API and report at once."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from controller.alarms.care import FailedCare
from controller.alarms.states import AlarmState
from controller.process.controller import Controller
from controller.rig.loading import load_rig
from sim.lab import SimulatedLab
from tests.controller.test_life import living
from tests.controller.test_several_hearts import laboratory
from tests.controller.test_several_hearts import living as living_on

pytestmark = pytest.mark.virtual_time

SIXTEEN = Path(__file__).parents[2] / "examples" / "rigs" / "sixteen_chambers.yaml"
HEART = "no heart flow (reglo.heart)"


def said(controller: Controller) -> dict[str, Any]:
    scores = controller.scores
    assert scores is not None
    found: dict[str, Any] = scores["viability"]
    return found


async def until_scored(controller: Controller) -> None:
    while not (controller.scores or {}).get("viability"):
        await asyncio.sleep(1.0)


async def contradictions(controller: Controller, for_s: float) -> list[str]:
    """Return what was said of the tissue under a critical alarm as if nothing was wrong."""
    found = []
    for _ in range(int(for_s)):
        await asyncio.sleep(1.0)
        critical = [each.id for each in controller.alarms.active() if each.priority == "critical"]
        text = " ".join(said(controller)["sentences"])
        if critical and ("No harm" in text or "stable" in text):
            found.append(f"{asyncio.get_running_loop().time():.0f} s: {critical}: {text}")
    return found


async def test_I2_below_a_standing_heart_nothing_is_called_normal(tmp_path: Path) -> None:
    async with living(tmp_path, warm_up_s=400.0) as (controller, lab):
        await until_scored(controller)
        assert "No harm" in said(controller)["sentences"][0]
        before = controller.scores
        assert before is not None
        lab.devices["reglo"].power_off()
        assert await contradictions(controller, 120.0) == []
        estimate, scores = said(controller), controller.scores
        assert scores is not None
        assert estimate["sentences"][0].startswith(f"Alarm now: {HEART}")
        assert (estimate["status"], "alarms" in scores["care_rating"]["gates"]) == ("harmful", True)
        assert HEART in scores["care_rating"]["gates"]["alarms"]["text"]
        assert (scores["care_rating"]["score"], scores["happiness"]["score"]) == (0.0, 0.0)
        assert before["care_rating"]["score"] > 0.0
        assert scores["care_rating"]["inputs"]["alarms"] == tuple(estimate["alarms"])
        lab.devices["reglo"].power_on()
        await asyncio.sleep(300.0)
        assert "No harm" in said(controller)["sentences"][0], "it ends with its cause"


async def test_I2_a_heart_that_cannot_be_read_is_unknown_from_the_first_failed_poll(tmp_path: Path) -> None:
    async with living(tmp_path, warm_up_s=400.0) as (controller, lab):
        await until_scored(controller)
        lab.devices["reglo"].power_off()
        while not controller.store.state.actuators["reglo.heart"].fault:
            await asyncio.sleep(1.0)
        await asyncio.sleep(2.0)
        assert not any(each.kind == "no_heart_flow" for each in controller.alarms.active()), "no alarm came so far"
        assert said(controller)["alarms"] == [HEART]


async def test_I2_some_unknown_hearts_of_sixteen_are_named_as_long_as_they_are_unknown(tmp_path: Path) -> None:
    rig = load_rig(SIXTEEN)
    pump = rig.lines[next(iter(rig.organs.hearts.values())).line].pump or ""
    async with laboratory(rig) as lab, living_on(lab, rig, tmp_path) as controller:
        await until_scored(controller)
        lab.devices[pump.partition(".")[0]].power_off()
        await asyncio.sleep(60.0)
        for _ in range(20):
            await asyncio.sleep(60.0)
            assert f"no heart flow ({pump})" in said(controller)["alarms"]
            assert "No harm" not in said(controller)["sentences"][0]


async def test_I2_a_shelved_alarm_is_silent_and_still_true(tmp_path: Path) -> None:
    async with living(tmp_path, warm_up_s=400.0) as (controller, lab):
        await until_scored(controller)
        lab.devices["reglo"].power_off()
        await asyncio.sleep(60.0)
        controller.alarms.shelve("no_heart_flow:reglo.heart", 3600.0, "anna", "tubing is changed")
        await asyncio.sleep(5.0)
        assert HEART in said(controller)["alarms"]


async def test_an_alarm_whose_cause_is_gone_and_one_that_concerns_no_care_are_not_named(tmp_path: Path) -> None:
    async with living(tmp_path) as (controller, _):
        care, state = FailedCare(controller.rig), controller.store.state
        assert care.now(state, (), ()) == ()
        controller.alarms.levels({("temperature", "t"): "hot", ("stock_low", "reservoir"): "low"}, state.at_s)
        controller.alarms.levels({("temperature", "t"): "hot", ("stock_low", "reservoir"): "low"}, state.at_s + 6.0)
        raised = controller.alarms.active()
        assert {each.kind for each in raised} >= {"temperature", "stock_low"}
        assert care.now(state, raised, ()) == ("temperature (t)",)
        controller.alarms.levels({}, state.at_s + 7.0)
        controller.alarms.levels({}, state.at_s + 99.0)
        after = controller.alarms.active()
        assert [each.state for each in after if each.kind == "temperature"] == [
            AlarmState.RETURN_TO_NORMAL_UNACKNOWLEDGED
        ]
        assert care.now(state, after, ()) == ()


async def test_the_journal_and_so_the_report_keeps_what_was_said_under_the_alarm(tmp_path: Path) -> None:
    async with living(tmp_path, warm_up_s=400.0) as (controller, lab):
        lab.devices["reglo"].power_off()
        await asyncio.sleep(3700.0)
        row = controller.journal.last("scores")
        assert row is not None
        assert HEART in json.dumps(row.body["viability"]["sentences"])
        assert isinstance(lab, SimulatedLab)
