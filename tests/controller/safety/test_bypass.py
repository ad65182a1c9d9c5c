"""A bypass needs an interlock on one reading, a reason and a short time, and is an alarm as long as it stands (I6)."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import pytest

from controller.gate.bypass import MAX_BYPASS_S, BypassRefused
from controller.process.controller import Controller
from controller.safety.interlocks import watch
from controller.safety.terms import Cause, Intent, Response, Trip, View, Watch
from drivers.commands import Dispense, Switch
from tests.controller.safety.facts import LIMITS
from tests.controller.test_life import TEMPERATURE, alarms, living

pytestmark = pytest.mark.virtual_time


def tripped(controller: Controller) -> list[str]:
    return [trip.interlock for trip in controller.gate.trips]


async def test_I6_a_bypassed_interlock_does_not_act_until_its_time_is_over(tmp_path: Path) -> None:
    async with living(tmp_path) as (controller, lab):
        gate = controller.gate
        lab.plant.faults.sensor_offset[TEMPERATURE] = 5.0
        await asyncio.sleep(20.0)
        assert tripped(controller) == ["temperature"]
        pulse = Intent("relay.heater", Switch(True, 1.0), "test", "test")
        assert not (await gate.submit(pulse)).accepted

        bypass = await gate.bypasses.begin("temperature", "Ada", "the probe is being replaced", 120.0)
        await asyncio.sleep(2.0)
        assert tripped(controller) == []
        assert (await gate.submit(pulse)).accepted
        assert "interlock_bypassed:temperature" in alarms(controller)
        row = controller.journal.last("safety.bypass")
        assert row is not None
        assert (row.body["user"], row.body["reason"], row.body["for_s"]) == (
            "Ada",
            "the probe is being replaced",
            120.0,
        )
        assert row.body["until_utc"] == bypass.until_utc

        await asyncio.sleep(130.0)  # its debounce restarts when the bypass is over
        assert tripped(controller) == ["temperature"]
        assert not (await gate.submit(pulse)).accepted
        ended = controller.journal.last("safety.bypass_ended")
        assert ended is not None
        assert ended.body == {"interlock": "temperature", "why": "it ran out"}
        with pytest.raises(BypassRefused, match="not bypassed"):
            gate.bypasses.end("temperature", "Ada")


async def test_I6_a_bypass_can_be_ended_and_does_not_outlive_the_process(tmp_path: Path) -> None:
    async with living(tmp_path) as (controller, _):
        await controller.gate.bypasses.begin("temperature", "Ada", "a probe", MAX_BYPASS_S)
        controller.gate.bypasses.end("temperature", "Grace")
        assert controller.gate.bypasses.active() == ()
        await controller.gate.bypasses.begin("temperature", "Ada", "a probe", MAX_BYPASS_S)
    async with living(tmp_path) as (controller, _):
        assert controller.gate.bypasses.active() == ()


@pytest.mark.parametrize(
    ("interlock", "reason", "for_s", "says"),
    [
        ("volumes", "a reason", 60.0, "choose among"),
        ("mixture", "a reason", 60.0, "choose among"),
        ("temperature", " ", 60.0, "reason"),
        ("temperature", "a reason", 0.0, "at most"),
        ("temperature", "a reason", MAX_BYPASS_S + 1.0, "at most"),
        ("temperature", "a reason", math.nan, "at most"),
    ],
)
async def test_I6_what_cannot_be_bypassed_is_refused(
    tmp_path: Path, interlock: str, reason: str, for_s: float, says: str
) -> None:
    async with living(tmp_path) as (controller, _):
        with pytest.raises(BypassRefused, match=says):
            await controller.gate.bypasses.begin(interlock, "Ada", reason, for_s)
        assert controller.gate.bypasses.active() == ()
        assert controller.journal.last("safety.bypass") is None


async def test_I6_without_its_durable_row_there_is_no_bypass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with living(tmp_path) as (controller, _):

        async def full(seq: int) -> None:
            raise OSError("no space left on the device")

        monkeypatch.setattr(controller.journal, "durable", full)
        with pytest.raises(BypassRefused, match="journal"):
            await controller.gate.bypasses.begin("temperature", "Ada", "a probe", 60.0)
        assert controller.gate.bypasses.names == frozenset()


async def test_I6_a_bypass_relaxes_nothing_else(tmp_path: Path) -> None:
    async with living(tmp_path) as (controller, _):
        gate = controller.gate
        for name in ("temperature", "over_pressure_heart", "over_pressure_filter"):
            await gate.bypasses.begin(name, "Ada", "a probe", 60.0)
        dry = Intent("reglo.draw", Dispense(40_000.0, 4000.0, "x"), "test", "test")
        outcome = await gate.submit(dry)
        assert not outcome.accepted
        assert any("floor" in reason or "ceiling" in reason for reason in outcome.reasons)


def test_I5_I6_a_bypass_does_not_reset_what_is_latched() -> None:
    rule = LIMITS.interlocks[0]
    latched, held = (
        Trip(rule.name, rule.point, "high", 0.0, rule.trips, latched=latch, cause=Cause.HIGH, response=Response.OFF)
        for latch in (True, False)
    )
    for trip, left in ((latched, 1), (held, 0)):
        view = View(1.0, {}, {}, watch=Watch((trip,)), bypassed=frozenset({rule.name}))
        found = [each for each in watch(view, LIMITS).trips if each.interlock == rule.name]
        assert len(found) == left
