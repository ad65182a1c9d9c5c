"""Liquid without a request is seen by the pump's own count, booked, reported and stopped; through the whole stack."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest

from controller.core.state import ActuatorView
from controller.journal.terms import Entry
from controller.ledger.ledger import Ledger
from controller.process.controller import Controller
from controller.transfers.routes import by_line, routes_of
from controller.transfers.strays import STRAY, OpenLines, Strays
from drivers.commands import Guarantee, PumpStatus, Stop
from sim.devices.atlas_ezo_pmp import AtlasEzoPmp
from sim.faults.injector import Injector
from sim.faults.schedule import Fault
from sim.lab import SimulatedLab
from tests.execution.test_whole_stack import controlled, moving, until
from tests.execution.world import RIG

BASE = "dose_base.pump"


def pmp(lab: SimulatedLab) -> AtlasEzoPmp:
    device = lab.devices["dose_base"]
    assert isinstance(device, AtlasEzoPmp)
    return device


def strays(controller: Controller) -> list[Entry]:
    return [row for row in controller.journal.entries(kinds=("moved",)) if row.body.get("end") == STRAY]


def told(controller: Controller) -> Mapping[str, str]:
    return {alarm.source: alarm.detail for alarm in controller.alarms.active() if alarm.kind == "stray_flow"}


@pytest.mark.virtual_time
async def test_F2_a_question_that_was_garbled_into_a_dose_is_booked_and_told(tmp_path: Path) -> None:
    lab = SimulatedLab(RIG, seed=1)
    async with controlled(lab, tmp_path) as controller:
        await asyncio.sleep(60.0)
        before = controller.ledger.volumes()["spent"].ul
        pmp(lab).own_command(["d", "7"])  # what one flipped bit makes of “D,?”
        await asyncio.sleep(30.0)
        (row,) = strays(controller)
        assert row.run is None
        assert row.body["line"] == "base"
        assert row.body["counted"] == pytest.approx(7000.0, abs=10.0)
        assert row.body["low"] == pytest.approx(0.0, abs=1e-6)
        after = controller.ledger.volumes()["spent"]
        assert after.ul - before == pytest.approx(7000.0, rel=0.05)
        assert abs(after.ul - lab.plant.truth().volumes_ul["spent"]) < 3 * after.sd_ul
        assert "its count went on by 7.00 mL, along base, without a command" in told(controller)[BASE]
        # Once: it is compared with what it was then.
        await asyncio.sleep(120.0)
        assert len(strays(controller)) == 1


@pytest.mark.virtual_time
async def test_a_pump_that_runs_unasked_is_stopped_when_it_is_seen(tmp_path: Path) -> None:
    lab = SimulatedLab(RIG, seed=1)
    async with controlled(lab, tmp_path) as controller:
        await asyncio.sleep(60.0)
        pmp(lab).own_command(["dc", "10", "*"])
        every_s = RIG.devices["dose_base"].every_s
        await asyncio.sleep(every_s + 5.0)
        assert not pmp(lab).dosing
        await asyncio.sleep(every_s + 5.0)
        moved_ul = lab.plant.truth().moved_ul["base"]
        assert 500.0 < moved_ul < 10_000.0 / 60.0 * (every_s + 3.0)
        assert sum(row.body["counted"] for row in strays(controller)) == pytest.approx(moved_ul, rel=0.25)
        assert BASE in told(controller)


@pytest.mark.virtual_time
async def test_what_was_asked_for_is_no_stray(tmp_path: Path) -> None:
    """Doses, also one that a restart has cut in two, leave nothing unexplained."""
    lab = SimulatedLab(RIG, seed=1)
    async with controlled(lab, tmp_path, leave_running=True) as controller:
        await controller.runs.start("partial-exchange", {}, "anna", "a test")
        await until(lambda: moving(controller, "kidney.draw"))
        await asyncio.sleep(20.0)
    async with controlled(lab, tmp_path) as controller:
        await until(lambda: controller.runs.active is None, 4 * 3600.0)
        await asyncio.sleep(300.0)
        assert strays(controller) == []
        assert not told(controller)


class Counted:
    """The status of the base pump, second by second; `booked` are strays (µL)."""

    def __init__(self) -> None:
        self.booked: list[float] = []
        self.alarms: list[str] = []
        self.lines = OpenLines()
        self._strays = Strays(
            {"base": by_line(routes_of(RIG))["base"]},
            ledger=cast(Ledger, self),
            alarm=lambda kind, source, detail: self.alarms.append(detail),
            open_lines=self.lines,
            gain=lambda _: 1.0,
        )
        self._at_s = 0.0

    def moved(self, line: str, ul: float, sd_ul: float, source: str, **_: object) -> int:
        self.booked.append(ul)
        return 1

    def told(self, *totals_ul: float) -> None:
        for total_ul in totals_ul:
            self._at_s += 1.0
            status = PumpStatus(False, 0.0, total_ul, 10.0)
            self._strays.update({BASE: ActuatorView(status, self._at_s, None, Stop(), Guarantee.DEVICE)})


def test_a_dose_that_begins_and_ends_between_two_looks_is_no_stray() -> None:
    pump = Counted()
    pump.told(100.0, 100.0)
    pump.lines.begin("base")
    pump.lines.end("base")
    pump.told(600.0, 620.0, 620.0)  # the first perhaps asked within the dose
    assert pump.booked == []
    pump.told(1120.0, 1120.0)
    assert pump.booked == [500.0]


def test_a_count_is_believed_when_it_was_told_twice() -> None:
    pump = Counted()
    pump.told(5000.0, 5000.0, 95000.0, 5000.0, 5000.0, 1000.0, 5000.0, 5000.0)  # digits that were garbled
    assert pump.booked == []
    pump.told(5004.0, 5004.0, 5008.0, 5008.0)  # below the counter's step
    assert pump.booked == []
    pump.told(5012.0, 5012.0, 0.0, 0.0, 20.0, 20.0)  # and then it loses power, and gives 20
    assert pump.booked == [12.0, 20.0]


def test_a_counter_that_has_failed_is_told_and_not_booked() -> None:
    pump = Counted()
    pump.told(100.0, 100.0, 1e13, 1e13, 1e13)
    assert pump.booked == []
    assert len(pump.alarms) == 1
    assert "more than it can move; not booked" in pump.alarms[0]


@pytest.mark.parametrize(
    ("kind", "target", "amount"),
    [
        ("garble", "sim:reglo", 0.05),
        ("eeprom", "reglo", 0.0),
        ("power_cut", "dose_fresh", 0.0),
        ("reboot", "reglo", 0.0),
    ],
)
@pytest.mark.virtual_time
async def test_what_is_garbled_forgotten_or_zeroed_moves_nothing(
    kind: str, target: str, amount: float, tmp_path: Path
) -> None:
    lab = SimulatedLab(RIG, seed=3)
    async with controlled(lab, tmp_path) as controller:
        faults = tuple(Fault(kind, target, 600.0 + 1400.0 * n, 600.0, amount) for n in range(4))
        failing = asyncio.create_task(Injector(lab, faults, seed=3).run())
        params = {"cycles": "0", "every": "1 h", "batch": "16 mL", "min_batch": "16 mL"}
        await controller.runs.start("recycle", params, "anna", "a test")
        await asyncio.sleep(2 * 3600.0)
        failing.cancel()
        assert [row.body["ul"] for row in strays(controller) if row.body["ul"] > 0.0] == []
