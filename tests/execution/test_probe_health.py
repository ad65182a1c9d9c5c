"""A worn probe is named: at the start, daily, and when it is calibrated, although it is right in its buffers then (Q7)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from controller.alarms.states import AlarmState
from controller.core.run_states import RunState
from controller.figures.records import Records
from controller.memory.calibrations import current
from controller.process.controller import Controller
from controller.upkeep import probe_health
from controller.upkeep.probe_health import ROW, WORN
from sim.lab import SimulatedLab
from tests.execution.test_probe_calibration import POINT, SLOPE, Hands, circuit, rows
from tests.execution.test_whole_stack import controlled
from tests.execution.world import RIG

DAY_S = 3600.0
"""In place of a day, which takes long to simulate."""


def worn(controller: Controller) -> dict[str, str]:
    present = (each for each in controller.alarms.active() if each.state is AlarmState.UNACKNOWLEDGED)
    return {alarm.source: alarm.detail for alarm in present if alarm.kind == WORN}


async def calibrated(controller: Controller, hands: Hands, *, until_asked: int = 99) -> str:
    run = await controller.runs.start("sensor-calibration", {"settle": "20 s"}, "anna", "each week")
    await hands.attend(controller, run, until_asked=until_asked)
    return run


@pytest.mark.virtual_time
async def test_Q7_a_dying_electrode_does_not_pass_its_calibration_and_is_named_until_it_is_replaced(
    tmp_path: Path,
) -> None:
    """It passed each week: it is right in the buffers that it was just set in."""
    lab = SimulatedLab(RIG, seed=5)
    hands = Hands(lab)
    async with controlled(lab, tmp_path) as controller:
        await asyncio.sleep(60.0)
        assert worn(controller) == {}
        circuit(lab).slope = 0.905  # 0.842 with the slope of the buffers; below 0.833 it is 0.5 off in pH 10
        run = await calibrated(controller, hands, until_asked=3)
        await asyncio.sleep(300.0)
        (failed,) = rows(controller, "calibration.failed")
        assert failed["point"] == POINT
        assert "slope above pH 7 is 84" in failed["error"]
        assert "replace the electrode" in failed["error"]
        assert "place" not in failed
        assert [row["place"] for row in rows(controller, "calibration.set")] == ["mid"]
        said = worn(controller)
        assert set(said) == {POINT}
        assert "85 to 105 %" in said[POINT]
        assert "Next: replace the electrode" in said[POINT]
        message = controller.runs.get(run).messages[-1]
        assert "it is worn or fouled. Next: do what the reason names" in message
        last = rows(controller, ROW)[-1]
        assert last["figures"]["slope_base"] == pytest.approx(84.2, abs=0.5)
        await controller.runs.abort(run, "anna", "a new electrode is on its way")
        await asyncio.sleep(10.0)
        circuit(lab).slope = 1.0
        hands.asked.clear()
        again = await calibrated(controller, hands)
        assert controller.runs.get(again).state is RunState.COMPLETE
        await asyncio.sleep(120.0)
        assert worn(controller) == {}
    assert len(current(tmp_path)[POINT].measured) == 2


@pytest.mark.virtual_time
async def test_Q7_the_health_of_each_probe_is_read_at_the_start_daily_and_after_a_lost_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe_health, "EVERY_S", DAY_S)
    lab = SimulatedLab(RIG, seed=5)
    reporting = {name for name, spec in RIG.devices.items() if spec.model == "atlas-ezo-ph"}
    async with controlled(lab, tmp_path) as controller:
        await asyncio.sleep(30.0)
        assert {row["device"] for row in rows(controller, ROW)} == reporting
        assert len(rows(controller, ROW)) == len(reporting)
        assert all(row["faults"] == [] for row in rows(controller, ROW))
        device = POINT.partition(".")[0]
        shown = {probe["point"]: probe for probe in controller.probe_health()}
        assert {figure["name"] for figure in shown[POINT]["figures"]} == {"slope_acid", "slope_base", "zero_offset"}
        await asyncio.sleep(700.0)
        assert len(rows(controller, ROW)) == len(reporting)
        line = lab.lines[RIG.devices[device].link]
        line.unplug()
        await asyncio.sleep(60.0)
        circuit(lab)._points.update(mid=(7.7, 7.0))  # another electrode, 41 mV off
        line.plug()
        await asyncio.sleep(120.0)
        assert [row["device"] for row in rows(controller, ROW)][len(reporting) :] == [device]
        assert "zero offset is -41" in worn(controller)[POINT]
        assert not {each["name"]: each["sound"] for each in _figures(controller)}["zero_offset"]
        await asyncio.sleep(DAY_S)
        assert len(rows(controller, ROW)) >= 2 * len(reporting)


def _figures(controller: Controller) -> list[dict[str, object]]:
    (found,) = (probe for probe in controller.probe_health() if probe["point"] == POINT)
    figures: list[dict[str, object]] = found["figures"]
    return figures


@pytest.mark.virtual_time
async def test_Q7_a_probe_that_does_not_answer_is_asked_again_and_the_report_has_its_health(tmp_path: Path) -> None:
    lab = SimulatedLab(RIG, seed=5)
    line = lab.lines[RIG.devices[POINT.partition(".")[0]].link]
    async with controlled(lab, tmp_path) as controller:
        line.tamper = lambda data: b"" if data.startswith(b"?SLOPE") else data
        await asyncio.sleep(60.0)
        before = [row["point"] for row in rows(controller, ROW)]
        line.tamper = None
        await asyncio.sleep(1300.0)
        assert POINT in [row["point"] for row in rows(controller, ROW)]
        assert len(rows(controller, ROW)) >= len(before)
    records = Records(tmp_path)
    try:
        extent = records.extent()
        assert extent is not None
        period = records.period(RIG, extent[0], extent[1] + 1.0)
    finally:
        records.close()
    assert {probe.point for probe in period.probes} == {
        f"{name}.ph" for name, spec in RIG.devices.items() if spec.model == "atlas-ezo-ph"
    }
    assert all(probe.unfit == 0 and probe.figures["slope_acid"] > 85.0 for probe in period.probes)


@pytest.mark.virtual_time
async def test_Q7_a_reading_far_from_its_buffer_is_refused(tmp_path: Path) -> None:
    lab = SimulatedLab(RIG, seed=5)
    hands = Hands(lab)
    async with controlled(lab, tmp_path) as controller:
        await asyncio.sleep(60.0)
        circuit(lab).slope = 0.82 / SLOPE
        await calibrated(controller, hands, until_asked=3)
        await asyncio.sleep(300.0)
        assert rows(controller, "calibration.refused"), "0.54 off in pH 10"
        assert [row["place"] for row in rows(controller, "calibration.set")] == ["mid"]
