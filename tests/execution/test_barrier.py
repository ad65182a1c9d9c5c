"""The sterile barrier, told from what the filter's passes needed: burst, whole, not known, and tested again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from controller.core.run_states import RunState
from controller.recipes.catalogue import shipped
from controller.steps.barrier import FilterRecord, bounds_kpa
from sim.lab import SimulatedLab
from tests.execution.test_shipped_recipes import attended
from tests.execution.test_whole_stack import controlled
from tests.execution.world import RIG, Controller, World

WHOLE_KPA, BURST_KPA = 10.0, 0.0
PASS = {"line": "return", "ul": 2000.0, "asked_ul": 2000.0}
TEST = {"passed": 2000.0, "at_rest_kpa": 0.02}


def sterility(controller: Controller) -> list[str]:
    rows = controller.journal.entries(kinds=("note.grade",))
    return [row.body["variables"]["sterility"]["grade"] for row in rows]


async def ran(controller: Controller, protocol: str, **params: str) -> int:
    """Run it to its end and answer its questions; return how many there were."""
    run = await controller.runs.start(protocol, params, "anna", "a test")
    view, asked = await attended(controller.runs, run)
    assert view.state is RunState.COMPLETE, view.messages
    return asked


@pytest.mark.virtual_time
async def test_a_filter_that_resists_nothing_fails_until_it_was_tested_again(tmp_path: Path) -> None:
    world = World()
    world.readings["p_filter.pressure"] = ("kPa", BURST_KPA)
    controller = Controller(world, tmp_path / "j.db", catalogue=shipped())
    assert await ran(controller, "recycle", cycles="1", min_batch="18 mL") == 1
    assert set(sterility(controller)) == {"D"}
    note = controller.journal.last("note.recycle")
    assert note is not None
    assert note.body["grade"] == "D"
    assert FilterRecord(RIG, controller.journal).failed
    # A pass that looks well, and a new process, are no proof of a new filter.
    world.readings["p_filter.pressure"] = ("kPa", WHOLE_KPA)
    assert await ran(controller, "recycle", cycles="1", min_batch="18 mL") == 1
    await controller.gone()
    controller = Controller(world, tmp_path / "j.db", catalogue=shipped())
    assert set(sterility(controller)) == {"D"}
    assert FilterRecord(RIG, controller.journal).failed
    assert await ran(controller, "filter-integrity") == 0
    assert await ran(controller, "recycle", cycles="1", min_batch="18 mL") == 0
    assert sterility(controller)[-1] == "A"
    assert not FilterRecord(RIG, controller.journal).failed
    await controller.gone()


@pytest.mark.virtual_time
async def test_a_whole_filter_is_seen_at_work_before_the_first_batch_and_never_for_its_own_sake_again(
    tmp_path: Path,
) -> None:
    controller = Controller(World(), tmp_path / "j.db", catalogue=shipped())
    assert await ran(controller, "recycle", cycles="1", min_batch="18 mL") == 0
    assert sterility(controller) == ["A"]
    assert await ran(controller, "recycle", cycles="1", min_batch="18 mL") == 0
    lines = [row.body["line"] for row in controller.journal.entries(kinds=("moved",))]
    assert lines == ["draw", "return", "draw", "return", "draw", "return"]
    await controller.gone()


@pytest.mark.virtual_time
async def test_a_primed_rig_is_known_and_one_without_a_pass_is_not(tmp_path: Path) -> None:
    controller = Controller(World(), tmp_path / "j.db", catalogue=shipped())
    assert FilterRecord(RIG, controller.journal).read()["sterile"] is None
    await ran(controller, "prime")
    assert FilterRecord(RIG, controller.journal).read()["sterile"] is True
    await controller.gone()


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("rows", "sterile"),
    [
        ([("moved", {**PASS, "peak_kpa": 10.6})], True),
        ([("moved", {**PASS, "peak_kpa": 1.3})], False),
        ([("moved", {**PASS, "peak_kpa": 81.0})], False),
        ([("moved", {**PASS, "peak_kpa": 81.0, "asked_ul": 100.0})], False),
        ([("moved", PASS)], None),  # the controller was restarted in it
        ([("moved", {**PASS, "peak_kpa": 0.1, "asked_ul": 300.0})], None),  # over before it was read
        ([("moved", {**PASS, "peak_kpa": 0.1, "ul": 50.0})], None),  # the pump did not turn
        ([("moved", {**PASS, "peak_kpa": 0.1, "line": "draw"})], None),
        ([("moved", {**PASS, "peak_kpa": 1.3}), ("moved", {**PASS, "peak_kpa": 9.0})], False),
        ([("moved", {**PASS, "peak_kpa": 1.3}), ("note.filter", {**TEST, "peak_kpa": 9.0})], True),
        ([("moved", {**PASS, "peak_kpa": 1.3}), ("note.filter", {**TEST, "peak_kpa": 1.4})], False),
        ([("moved", {**PASS, "peak_kpa": 1.3}), ("note.filter", {**TEST, "peak_kpa": None})], False),
        ([("moved", {**PASS, "peak_kpa": 1.3}), ("note.filter", {"passed": 1.0, "peak_kpa": 9.0})], False),
        ([("note.filter", {**TEST, "peak_kpa": 9.0}), ("moved", {**PASS, "peak_kpa": 1.3})], False),
    ],
)
async def test_what_the_rows_tell(rows: list[tuple[str, dict[str, Any]]], sterile: bool | None, tmp_path: Path) -> None:
    controller = Controller(World(), tmp_path / "j.db")
    barrier = FilterRecord(RIG, controller.journal)
    barrier.read()
    for kind, body in rows:
        controller.journal.append(kind, body)
    assert barrier.read()["sterile"] is sterile
    assert FilterRecord(RIG, controller.journal).read() == barrier.read()
    assert (barrier.read()["detail"] == "") is (sterile is True)
    await controller.gone()


def test_the_minimum_is_that_of_the_rig_file_or_computed_from_flow_and_area() -> None:
    assert bounds_kpa(RIG)[0] == pytest.approx(2.5)
    sterile = RIG.filters["sterile"].model_copy(update={"min_pressure_kpa": 4.0})
    assert bounds_kpa(RIG.model_copy(update={"filters": {"sterile": sterile}}))[0] == 4.0


@pytest.mark.virtual_time
@pytest.mark.parametrize("torn", [False, True])
async def test_on_the_plant_a_hole_is_found_by_the_first_return_and_the_care_rating_says_so(
    torn: bool, tmp_path: Path
) -> None:
    lab = SimulatedLab(RIG, seed=5)
    lab.plant.faults.filter_torn = torn
    async with controlled(lab, tmp_path) as controller:
        await asyncio.sleep(60.0)
        run = await controller.runs.start("recycle", {"cycles": "1", "min_batch": "18 mL"}, "anna", "a test")
        _, asked = await attended(controller.runs, run)
        assert asked == torn
        await asyncio.sleep(900.0)
        grade = controller.last_grade()
        assert grade is not None
        assert grade["variables"]["sterility"]["grade"] == ("D" if torn else "A")
        scores = controller.scores
        assert scores is not None
        assert scores["care_rating"]["inputs"]["sterility_failed"] is torn
