"""Commissioning of selectors: every port is set, read back and looked at; exchanged tubes and a slipped rotor are found."""

from __future__ import annotations

from math import nan
from pathlib import Path

import pytest

from controller.commissioning.bench import CommissioningRig
from controller.commissioning.terms import Report
from controller.rig.description import Rig
from controller.rig.loading import load_rig
from sim.faults.injector import Injector
from sim.faults.schedule import Fault
from sim.lab import SimulatedLab
from tests.commissioning.world import commissioned

INKUBE = Path(__file__).parents[1] / "rigs" / "r10_inkube.yaml"
TWO_SELECTORS = Path(__file__).parents[1] / "rigs" / "two_selectors.yaml"
pytestmark = pytest.mark.virtual_time


def failed(report: Report) -> list[str]:
    return [check.effect for check in report.checks if not check.ok]


def exchanged(rig: Rig) -> Rig:
    """Two tubes at the valve are exchanged."""
    lines = dict(rig.lines)
    lines["to01"] = lines["to01"].model_copy(update={"port": 2})
    lines["to02"] = lines["to02"].model_copy(update={"port": 1})
    return rig.model_copy(update={"lines": lines})


async def test_every_port_is_set_read_back_and_seen(tmp_path: Path) -> None:
    rig = load_rig(TWO_SELECTORS)
    report, person, lab = await commissioned(tmp_path, rig, rig)
    assert report.passed, failed(report)
    assert len(report.checks) == 12 + 1 + 12 + 1
    assert "Has liquid gone from “medium” to “w05”, out of that tube alone and into no other vessel?" in person.asked
    truth = lab.plant.truth()
    assert truth.arrived_ul["to05"] > 100.0
    assert truth.arrived_ul["from05"] > 100.0
    assert lab.plant.positions == {"giver.valve": 16, "taker.valve": 16}
    assert truth.losses_ul["overflow"] == 0.0


async def test_exchanged_tubes_are_found_by_a_person(tmp_path: Path) -> None:
    rig = load_rig(TWO_SELECTORS)
    report, _, _ = await commissioned(tmp_path, rig, exchanged(rig))
    assert failed(report) == [
        "position 1 of supply leads from medium to w01", "position 2 of supply leads from medium to w02",
    ]  # fmt: skip


async def test_a_rotor_between_two_ports_is_found_by_its_pressure(tmp_path: Path) -> None:
    rig = load_rig(TWO_SELECTORS)

    def slip(lab: SimulatedLab) -> None:
        Injector(lab, (), seed=1).inject(Fault("slipped", "giver", 0.0, 1e6, 0.5))

    report, _, _ = await commissioned(tmp_path, rig, rig, before=slip)
    found = [check for check in report.checks if check.subject == "giver.valve"]
    assert len(found) == 13
    assert not any(check.ok for check in found)
    assert "the port is shut" in found[0].detail


@pytest.mark.parametrize(
    ("silent", "says"),
    [("at first", "the port is shut"), ("until the dose", "no good reading"), ("in the dose", "no good reading")],
)
async def test_a_port_is_not_passed_by_a_gauge_without_a_reading(
    silent: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its port is shut, and the person sees what was to be seen."""
    now, value = CommissioningRig.now, CommissioningRig.value
    waited: set[str] = set()

    def latest(bench: CommissioningRig, point: str) -> float:
        return nan if silent == "in the dose" or point not in waited else now(bench, point)

    async def fresh(bench: CommissioningRig, point: str) -> float:
        if silent == "until the dose" and point in bench.gauges:
            return nan
        waited.add(point)
        return await value(bench, point)

    monkeypatch.setattr(CommissioningRig, "now", latest)
    monkeypatch.setattr(CommissioningRig, "value", fresh)
    rig = load_rig(TWO_SELECTORS)

    def slip(lab: SimulatedLab) -> None:
        Injector(lab, (), seed=1).inject(Fault("slipped", "giver", 0.0, 1e6, 0.5))

    report, _, _ = await commissioned(tmp_path, rig, rig, before=slip)
    first = next(check for check in report.checks if check.subject == "giver.valve")
    assert not first.ok
    assert says in first.detail


async def test_a_valve_that_does_not_move_is_found_by_its_readback(tmp_path: Path) -> None:
    rig = load_rig(TWO_SELECTORS)

    def stick(lab: SimulatedLab) -> None:
        lab.devices["taker"].obeys = False

    report, _, _ = await commissioned(tmp_path, rig, rig, before=stick)
    assert len(failed(report)) == 12
    assert all("takeoff" in effect for effect in failed(report))


async def test_what_never_enters_a_chamber_is_not_moved_and_the_shared_line_ends_with_medium(tmp_path: Path) -> None:
    rig = load_rig(INKUBE)
    report, person, lab = await commissioned(tmp_path, rig, rig)
    assert report.passed, [str(check) for check in report.checks if not check.ok]
    truth = lab.plant.truth()
    assert truth.moved_ul["ethanol_in"] == truth.moved_ul["water_in"] == 0.0
    assert any("Follow the tubes by eye" in question and "“ethanol”" in question for question in person.asked)
    order = [check.effect for check in report.checks if check.subject == "culture.valve"]
    assert "from ethanol to waste" in order[1]
    assert "from medium to" in order[-1]
