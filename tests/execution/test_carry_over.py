"""Carry-over in the line that two media share: calculated, bounded, refused by plan, and cleared by a rinse."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.core.run_states import RunState
from controller.ledger.line_contents import LineContents
from controller.rig.dosing import THROUGH, choose, dosing_paths
from controller.rig.selectors import PumpedPath, behind_ul, held_ul
from controller.runs.runner import RunnerError
from tests.execution.plate import PlateWorld, of_kind, recipe_of
from tests.execution.two_media import TWO_MEDIA
from tests.execution.world import Controller

POOR_TO_W2 = "\n  - dispense: {to: w2, from: poor, volume: 150 uL, max_carry_over: 100 %}"
RICH_TO_W1 = "\n  - dispense: {to: w1, from: rich, volume: 150 uL}"
RINSE = "\n  - rinse: {selector: supply, from: rich, volume: 2.5 mL}"


def path_of(source: str, place: str, what: str = "into") -> PumpedPath:
    found = choose(TWO_MEDIA, dosing_paths(TWO_MEDIA), what, place, source)
    assert isinstance(found, PumpedPath)
    return found


def test_the_old_contents_come_first_and_a_rinse_clears_them() -> None:
    contents = LineContents(TWO_MEDIA)
    rich, poor, rinse = path_of("rich", "w1"), path_of("poor", "w2"), path_of("rich", "supply", THROUGH)
    shared_ul = held_ul(TWO_MEDIA.lines["dose"]) + behind_ul(TWO_MEDIA, "dose")
    assert contents.other_ul(rich, 150.0) == 0.0
    assert contents.other_ul(poor, 1e6) == pytest.approx(shared_ul + held_ul(TWO_MEDIA.lines["to2"]))
    contents.pass_along(poor, 10.0 * shared_ul)
    assert contents.other_ul(rich, 1e6) == pytest.approx(shared_ul, rel=1e-3)
    assert contents.other_ul(rich, 150.0) == 150.0
    contents.pass_along(rinse, 3.0 * shared_ul)
    assert contents.other_ul(rich, 1e6) == pytest.approx(shared_ul * 0.0498, rel=0.02)


def test_a_rinse_that_is_shorter_than_the_line_clears_nothing_of_what_entered_last() -> None:
    contents = LineContents(TWO_MEDIA)
    rich, poor, rinse = path_of("rich", "w1"), path_of("poor", "w2"), path_of("rich", "supply", THROUGH)
    contents.pass_along(rinse, 1e4)
    contents.pass_along(poor, 20.0)
    contents.pass_along(rinse, 100.0)
    assert contents.other_ul(rich, 1e6) == pytest.approx(20.0)


def test_what_enters_and_what_leaves_a_line_is_conserved() -> None:
    contents = LineContents(TWO_MEDIA)
    poor = path_of("poor", "w2")
    before_ul = contents.other_ul(poor, 1e6)
    contents.pass_along(poor, 100.0)
    assert before_ul - contents.other_ul(poor, 1e6) < 100.0
    assert contents.other_ul(poor, 1e6) > 0.0


@pytest.mark.virtual_time
async def test_a_dose_with_too_much_of_another_medium_is_refused_at_the_start(tmp_path: Path) -> None:
    controller = Controller(PlateWorld(TWO_MEDIA), tmp_path / "journal.db")
    for steps in (POOR_TO_W2.replace("100 %", "1 %"), POOR_TO_W2 + RICH_TO_W1):
        with pytest.raises(RunnerError, match=r"carry-over: 100\.0 % of 0\.150 mL"):
            await controller.runs.start(recipe_of(tmp_path, steps + "\n"), {}, user="anna", reason="test")
    assert not of_kind(controller, "moved")
    await controller.gone()


@pytest.mark.virtual_time
async def test_after_a_rinse_the_next_medium_is_given(tmp_path: Path) -> None:
    world = PlateWorld(TWO_MEDIA)
    controller = Controller(world, tmp_path / "journal.db")
    recipe = recipe_of(tmp_path, POOR_TO_W2 + RINSE + RICH_TO_W1 + "\n")
    run = await controller.runs.start(recipe, {}, user="anna", reason="test")
    await controller.until(lambda: controller.runs.get(run).state.ended)
    assert controller.runs.get(run).state is RunState.COMPLETE
    assert world.volumes["w1"] == pytest.approx(1150.0, abs=1.0)
    assert world.volumes["waste"] == pytest.approx(2500.0, abs=1.0)
    assert [list(body["ports"].items()) for body in of_kind(controller, "moved")][-1] == [("choice", 1), ("supply", 1)]
    # What w2 was given began with what the line held: rich medium, not the poor one that was asked for.
    given = {lot["lot"]: lot["share"] for lot in controller.ledger.whereabouts.vessel_json("w2")}
    assert given.get("poor at the start", 0.0) < 150.0 / 1150.0 * 0.5
    assert controller.ledger.carry_over_ul(path_of("rich", "w1"), 150.0) < 1.5
    await controller.gone()
