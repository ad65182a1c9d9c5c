"""Which chambers a heart feeds, and where one medium circulates."""

from __future__ import annotations

from controller.rig.description import Junction, Line
from controller.rig.perfusion import circulating, fed_by, perfused_chambers
from tests.composed_rigs import dishes, single_pass, two_hearts, two_plates
from tests.execution.world import RIG


def test_the_loop_of_a_shipped_rig_is_the_loop_and_its_chamber() -> None:
    assert circulating(RIG) == ("loop", "chamber")
    assert perfused_chambers(RIG) == ("chamber",)


def test_a_heart_feeds_the_chambers_behind_a_junction() -> None:
    rig = two_plates()
    assert fed_by(rig, rig.organs.hearts["heart"]) == ("left", "right")
    assert circulating(rig) == ("bottle", "left", "right")


def test_each_heart_feeds_its_own_chamber_of_one_loop() -> None:
    rig = two_hearts()
    assert fed_by(rig, rig.organs.hearts["two"]) == ("two",)
    assert perfused_chambers(rig) == ("one", "two")


def test_a_chamber_behind_the_overflow_of_another_is_perfused() -> None:
    rig = two_plates()
    lines = dict(rig.lines)
    del lines["to_right"]
    lines["from_left"] = Line.model_validate({"from": "left", "to": "right", "passive": True})
    assert perfused_chambers(rig.model_copy(update={"lines": lines})) == ("left", "right")


def test_lines_in_a_circle_end() -> None:
    rig = two_plates()
    lines = rig.lines | {"round": Line.model_validate({"from": "left", "to": "split", "passive": True})}
    assert perfused_chambers(rig.model_copy(update={"lines": lines})) == ("left", "right")


def test_a_chamber_without_a_line_is_not_perfused() -> None:
    rig = two_plates()
    lines = {name: line for name, line in rig.lines.items() if name != "to_right"}
    assert perfused_chambers(rig.model_copy(update={"lines": lines, "junctions": {"split": Junction()}})) == ("left",)


def test_single_pass_perfuses_a_chamber() -> None:
    assert perfused_chambers(single_pass()) == ("chip",)


def test_dishes_are_not_perfused() -> None:
    assert perfused_chambers(dishes()) == ()
