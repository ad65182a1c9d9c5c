"""Run in the copy: the added alarm is raised, is on the page of the documentation, and ends."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from controller.process.outside import with_causes
from controller.process.part import Causes
from tests.controller.make_alarm_page import PAGE
from tests.controller.test_parts import living

KIND = "alarm_flood"


def test_it_is_on_the_page_of_the_documentation() -> None:
    assert f"`{KIND}`" in PAGE.read_text(encoding="utf-8")


@pytest.mark.virtual_time
async def test_it_is_raised_and_returns_to_normal(tmp_path: Path) -> None:
    class Source:
        causes: Causes

    source = Source()
    source.causes = {("hazard_accepted", f"x{n}"): "an example" for n in range(12)}
    async with living(tmp_path, with_causes("source", source)) as controller:
        await asyncio.sleep(5.0)
        (raised,) = (alarm for alarm in controller.alarms.active() if alarm.kind == KIND)
        source.causes = {}
        for alarm in controller.alarms.active():
            controller.alarms.acknowledge(alarm.id, "anna")
        await asyncio.sleep(120.0)
        assert KIND not in {alarm.kind for alarm in controller.alarms.active()}
        assert raised.detail
