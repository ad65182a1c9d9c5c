"""I4 where medium runs on: over an overflow, over the branches of a junction, and out through a straw."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.state import Volume
from controller.rig.description import Junction, Line, Rig
from controller.safety.kernel import decide
from controller.safety.limits import BRANCH_MARGIN, limits_of
from controller.safety.terms import Intent, PumpTrust, Underway, Verdict, View
from drivers.commands import Dispense
from tests.controller.safety.facts import NOW_S, RIG
from tests.controller.safety.hearts import dish

FEED, TAKE = "dose_fresh.pump", "reglo.draw"


def passive(start: str, end: str) -> Line:
    return RIG.lines["overflow"].model_copy(update={"from_": start, "to": end})


def plate(lines: dict[str, Line], **ceilings_ul: float) -> Rig:
    """Two dishes, a bottle and a waste with some lines between them; the vessels hold half of their ceilings."""
    vessels = dict.fromkeys(("a", "b"), RIG.vessels["chamber"])
    vessels |= {"bottle": RIG.vessels["reservoir"], "waste": RIG.vessels["waste"]}
    for name, ceiling_ul in ceilings_ul.items():
        sizes = {"capacity_ul": ceiling_ul, "ceiling_ul": None, "volume_ul": ceiling_ul / 2.0}
        vessels[name] = vessels[name].model_copy(update=sizes)
    return dish().model_copy(
        update={
            "tissue": {"a": RIG.tissue["chamber"]},
            "vessels": vessels,
            "junctions": {"split": Junction()},
            "lines": lines,
            "devices": {name: RIG.devices[name] for name in ("t_chamber", "dose_fresh", "reglo")},
        }
    )


def ask(rig: Rig, actuator: str, volume_ul: float, **more: object) -> Verdict:
    volumes = {name: Volume(vessel.volume_ul, 0.0) for name, vessel in rig.vessels.items()}
    view = replace(View(NOW_S, {}, volumes), **more)  # type: ignore[arg-type]
    return decide(Intent(actuator, Dispense(volume_ul, 4000.0, "d"), "test", "a test"), view, limits_of(rig))


def feed(to: str) -> Line:
    return RIG.lines["feed"].model_copy(update={"from_": "bottle", "to": to})


def straw(above_ul: float) -> Line:
    return RIG.lines["draw"].model_copy(update={"from_": "a", "to": "waste", "draws_above_ul": above_ul})


def test_what_a_dish_spills_has_to_fit_behind_it() -> None:
    rig = plate({"feed": feed("a"), "over": passive("a", "waste")}, a=10_000.0, waste=2_000.0)
    assert limits_of(rig).pumps[FEED].fills == {"a": 1.0, "waste": 1.0}
    assert ask(rig, FEED, 1_000.0).accepted
    verdict = ask(rig, FEED, 1_001.0)
    assert verdict.reasons == ("volume: waste could rise to 2.00 mL, above its ceiling of 2 mL",)


def test_a_passive_outlet_makes_no_room_in_its_own_vessel() -> None:
    rig = plate({"feed": feed("a"), "over": passive("a", "waste")}, a=4_000.0)
    assert ask(rig, FEED, 2_000.0).accepted
    assert "a could rise" in (ask(rig, FEED, 2_001.0).limiting or "")


def test_a_branch_counts_with_its_share_and_a_margin() -> None:
    lines = {"feed": feed("split"), "to_a": passive("split", "a"), "to_b": passive("split", "b")}
    rig = plate(lines, a=3_000.0, b=30_000.0)
    assert limits_of(rig).pumps[FEED].fills == pytest.approx({"a": 0.5 * BRANCH_MARGIN, "b": 0.5 * BRANCH_MARGIN})
    assert ask(rig, FEED, 1_999.0).accepted
    assert ask(rig, FEED, 2_001.0).reasons == ("volume: a could rise to 3.00 mL, above its ceiling of 3 mL",)


def test_what_another_pump_brings_over_a_branch_takes_room() -> None:
    second = RIG.lines["draw"].model_copy(update={"from_": "bottle", "to": "a"})
    lines = {"feed": feed("split"), "to_a": passive("split", "a"), "to_b": passive("split", "b"), "second": second}
    rig = plate(lines, a=3_000.0, b=30_000.0)
    underway = (Underway(FEED, 1_000.0, "other"),)
    assert ask(rig, TAKE, 750.0, underway=underway).accepted
    assert not ask(rig, TAKE, 751.0, underway=underway).accepted
    gains = {FEED: PumpTrust(gain=1.1)}
    assert not ask(rig, TAKE, 750.0, underway=underway, pumps=gains).accepted


def test_a_branch_without_a_known_volume_refuses() -> None:
    lines = {"feed": feed("split"), "to_a": passive("split", "a"), "to_b": passive("split", "b")}
    rig = plate(lines)
    volumes = {name: Volume(vessel.volume_ul, 0.0) for name, vessel in rig.vessels.items() if name != "b"}
    assert ask(rig, FEED, 1.0, volumes=volumes).limiting == "volume: that of b is not known"


@pytest.mark.parametrize(("above_ul", "accepted"), [(0.0, False), (999.0, False), (1_000.0, True), (1_500.0, True)])
def test_a_straw_at_the_floor_or_above_it_may_be_asked_for_more_than_there_is(above_ul: float, accepted: bool) -> None:
    rig = plate({"take": straw(above_ul)}, a=4_000.0)
    floor = rig.vessels["a"].model_copy(update={"floor_ul": 1_000.0})
    rig = rig.model_copy(update={"vessels": rig.vessels | {"a": floor}})
    verdict = ask(rig, TAKE, 2_000.0)
    assert verdict.accepted is accepted
    assert accepted or "below its floor" in (verdict.limiting or "")


def test_a_straw_is_asked_for_no_more_than_its_vessel_can_hold() -> None:
    rig = plate({"take": straw(1_000.0)}, a=2_000.0)
    ceiling_ul = limits_of(rig).vessels["a"].ceiling_ul
    assert ask(rig, TAKE, ceiling_ul).accepted
    verdict = ask(rig, TAKE, ceiling_ul + 1.0)
    assert "more than a can hold" in (verdict.limiting or "")


def test_without_a_floor_only_a_straw_keeps_the_vessel_from_being_emptied() -> None:
    assert not ask(plate({"take": straw(0.0)}, a=4_000.0), TAKE, 2_001.0).accepted
    assert ask(plate({"take": straw(500.0)}, a=4_000.0), TAKE, 2_001.0).accepted
