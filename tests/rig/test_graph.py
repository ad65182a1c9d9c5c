"""Where a heart's medium goes: shares of branches by resistance, overflows, static chambers; and the rules of junctions."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.rig.description import Rig
from controller.rig.graph import (
    chambers_of_heart,
    fed_by_hearts,
    lines_into_chambers,
    lines_of_heart,
    shares_behind,
    static_chambers,
    unperfused_chambers,
)
from controller.rig.loading import effective_hash, load_rig
from controller.rig.probes import loop_ph, thermometer
from controller.rig.problems import RigError

TWO_PLATES = Path(__file__).parents[1] / "rigs" / "two_plates.yaml"
BENCH = Path(__file__).parents[2] / "examples" / "rigs" / "bench.yaml"
Data = dict[str, Any]


def plates() -> Data:
    data: Data = yaml.safe_load(TWO_PLATES.read_text(encoding="utf-8"))
    return data


def loaded(data: Data, folder: Path) -> Rig:
    path = folder / "rig.yaml"
    path.write_text(yaml.safe_dump(json.loads(json.dumps(data)), sort_keys=False), encoding="utf-8")
    return load_rig(path)


def refused(data: Data, folder: Path) -> dict[str, str]:
    with pytest.raises(RigError) as caught:
        loaded(data, folder)
    found: dict[str, str] = {}
    for problem in caught.value.problems:
        found[problem.key] = f"{found.get(problem.key, '')} {problem.what}. {problem.fix}"
    return found


def test_equal_branches_share_the_flow() -> None:
    rig = load_rig(TWO_PLATES)
    assert rig.loop == "bottle"
    assert fed_by_hearts(rig) == {"plate_a": {"heart": 0.5}, "plate_b": {"heart": 0.5}}
    assert lines_into_chambers(rig, "heart") == ("heart", "to_a", "to_b")
    assert static_chambers(rig) == unperfused_chambers(rig) == ()
    assert (loop_ph(rig), thermometer(rig, "plate_b")) == ("ph.ph", "arc.temperature")


def test_a_branch_takes_its_share_by_length_and_fourth_power_of_its_bore(tmp_path: Path) -> None:
    data = plates()
    data["lines"]["to_a"] |= {"bore": "1.6 mm", "length": "0.4 m"}
    data["lines"]["to_b"] |= {"bore": "0.8 mm", "length": "0.1 m"}
    shares = chambers_of_heart(loaded(data, tmp_path), "heart")
    assert shares["plate_a"] / shares["plate_b"] == pytest.approx(2.0**4 / 4.0)
    assert sum(shares.values()) == pytest.approx(1.0)


def test_junctions_behind_junctions_add_their_resistances(tmp_path: Path) -> None:
    """As in a network of resistors: 1 parallel to (1 + 2 ‖ 2) leaves two thirds in the first branch."""
    data = plates()
    data["vessels"]["plate_c"] = dict(data["vessels"]["plate_a"])
    data["junctions"]["inner"] = {}
    tube = {"passive": True, "bore": "1 mm"}
    data["lines"] |= {
        "to_a": {"from": "split", "to": "plate_a", "length": "1 m", **tube},
        "to_inner": {"from": "split", "to": "inner", "length": "1 m", **tube},
        "to_b": {"from": "inner", "to": "plate_b", "length": "2 m", **tube},
        "to_c": {"from": "inner", "to": "plate_c", "length": "2 m", **tube},
        "overflow_c": {"from": "plate_c", "to": "bottle", **tube},
    }
    rig = loaded(data, tmp_path)
    shares = shares_behind(rig, "heart")
    assert shares["to_a"] == pytest.approx(2 / 3)
    assert shares["to_b"] == shares["to_c"] == pytest.approx(1 / 6)
    assert chambers_of_heart(rig, "heart")["plate_c"] == pytest.approx(1 / 6)


def test_an_overflow_feeds_the_next_chamber_and_a_circle_of_overflows_ends(tmp_path: Path) -> None:
    data = plates()
    data["lines"]["to_b"] = {"from": "plate_a", "to": "plate_b", "passive": True}
    data["lines"]["overflow_a"] = {"from": "plate_b", "to": "plate_a", "passive": True}
    shares = chambers_of_heart(loaded(data, tmp_path), "heart")
    assert shares["plate_b"] == pytest.approx(1.0)
    assert shares["plate_a"] >= 1.0


def test_cassettes_of_one_head_carry_the_hearts_flow_each(tmp_path: Path) -> None:
    data = plates()
    del data["junctions"]
    tube = {"from": "bottle", "pump": "pump.pump", "bore": "1.6 mm"}
    data["lines"] |= {"heart": {**tube, "to": "plate_a"}, "second": {**tube, "to": "plate_b"}}
    del data["lines"]["to_a"], data["lines"]["to_b"]
    rig = loaded(data, tmp_path)
    assert lines_of_heart(rig, "heart") == ("heart", "second")
    assert chambers_of_heart(rig, "heart") == {"plate_a": 1.0, "plate_b": 1.0}
    uneven = copy.deepcopy(data)
    uneven["lines"]["second"]["bore"] = "0.8 mm"
    assert "already drives line “heart”" in refused(uneven, tmp_path)["lines.second.pump"]
    elsewhere = copy.deepcopy(data)
    elsewhere["lines"]["second"]["from"] = "plate_a"
    assert "already drives line “heart”" in refused(elsewhere, tmp_path)["lines.second.pump"]
    del data["organs"]["heart"]
    assert "already drives line “heart”" in refused(data, tmp_path)["lines.second.pump"]


def test_chambers_without_medium_of_a_heart(tmp_path: Path) -> None:
    """A dish is static; so is a chamber that a dose fills; one at the end of an idle overflow gets nothing."""
    data = plates()
    dish = {"kind": "chamber", "contains": "fresh", "volume": "2 mL", "capacity": "3 mL"}
    data["vessels"] |= {
        "dish": dish, "dosed": dish, "behind": dish, "idle": dish,
        "stock": {**dish, "kind": "source", "floor": "0.1 mL"},
    }  # fmt: skip
    data["devices"]["dose"] = {"model": "atlas-ezo-pmp", "link": "sim:dose"}
    data["lines"] |= {
        "dose": {"from": "stock", "to": "dosed", "pump": "dose.pump"},
        "on": {"from": "dosed", "to": "behind", "passive": True},
        "idle": {"from": "bottle", "to": "idle", "passive": True},
    }
    rig = loaded(data, tmp_path)
    assert static_chambers(rig) == ("dish", "dosed", "behind")
    assert unperfused_chambers(rig) == ("idle",)


def test_no_pump_at_all_is_a_rig(tmp_path: Path) -> None:
    dish = {"kind": "chamber", "contains": "fresh", "volume": "2 mL", "capacity": "3 mL", "zone": "incubator"}
    data = plates()
    data |= {"vessels": {"plate_a": dish, "plate_b": dish}, "lines": {}, "junctions": {}, "organs": {}, "safety": {}}
    data["devices"] = {"t": {"model": "atlas-ezo-rtd", "link": "sim:t", "at": "plate_a"}}
    rig = loaded(data, tmp_path)
    assert rig.loop is None
    assert static_chambers(rig) == ("plate_a", "plate_b")
    assert thermometer(rig, "plate_b") == "t.temperature"


def test_a_rig_keeps_its_hash_while_the_added_keys_are_empty() -> None:
    bench = load_rig(BENCH)
    in_room = {"reservoir": bench.vessels["reservoir"].model_copy(update={"zone": None})}
    rig = bench.model_copy(update={"zones": {}, "vessels": bench.vessels | in_room})
    assert effective_hash(rig) == "47a147a49763a5c75752e2d9961910baa5ad65873ac73ce4c935d6e2260aa140"
    line = rig.lines["heart"].model_copy(update={"check_valve": True})
    assert effective_hash(rig.model_copy(update={"lines": rig.lines | {"heart": line}})) != effective_hash(rig)


@pytest.mark.parametrize(
    ("section", "changed", "key", "said"),
    [
        ("junctions", {"idle": {}}, "junctions.idle", "nothing leads into junction “idle”"),
        ("junctions", {"plate_a": {}}, "junctions.plate_a", "a vessel is called “plate_a” as well"),
        ("lines", {"heart": {"from": "bottle", "to": "splitt", "pump": "pump.pump"}}, "lines.heart.to",
         "junction or vessel “splitt” does not exist. Did you mean “split”?"),
        ("lines", {"to_a": {"from": "split", "to": "plate_a"}}, "lines.to_a", "it is a branch"),
        ("lines", {"heart": {"from": "bottle", "to": "split", "passive": True}}, "lines.heart.to",
         "an overflow into a junction"),
        ("lines", {"to_a": {"from": "split", "to": "split", "passive": True}}, "lines.to_a.to", "to itself"),
        ("lines", {"to_a": {"from": "split", "to": "bottle", "passive": True},
                   "to_b": {"from": "split", "to": "bottle", "passive": True}}, "organs.heart.line",
         "no branch of junction “split” leads into a chamber"),
        ("lines", {"to_a": {"from": "split", "to": "plate_a", "passive": True, "draws_above": "1 mL"}},
         "lines.to_a.draws_above", "has no level"),
        ("lines", {"overflow_a": {"from": "plate_a", "to": "bottle", "passive": True, "draws_above": "20 mL"}},
         "lines.overflow_a.draws_above", "draws air up to the ceiling"),
        ("lines", {"to_a": {"from": "split", "to": "plate_a", "passive": True, "max_flow": "1 mL/min"}},
         "lines.to_a.max_flow", "no pump moves medium through it"),
        ("lines", {"heart": {"from": "bottle", "to": "split", "pump": "pump.pump", "max_flow": "1 mL/min"}},
         "lines.heart.max_flow", "“organs.hearts.heart.max” bounds its flow"),
        ("vessels", {"plate_a": {"kind": "chamber", "volume": "1 mL", "contains": "fresh", "capacity": "2 mL",
                                 "overflow": "3 mL"}}, "vessels.plate_a.overflow", "above its ceiling (2 mL)"),
        ("vessels", {"bottle": {"kind": "loop", "volume": "1 mL", "contains": "fresh", "capacity": "2 mL",
                                "overflow": "2 mL"}}, "vessels.bottle.overflow", "no passive line leads out of it"),
        ("vessels", {"bottle": {"kind": "process", "volume": "1 mL", "contains": "fresh", "capacity": "2 mL"}},
         "organs.heart.line", "of kind “process”"),
    ],
)  # fmt: skip
def test_mistakes_of_junctions_levels_and_hearts_are_reported_with_their_fix(
    section: str, changed: Data, key: str, said: str, tmp_path: Path
) -> None:
    data = plates()
    data[section] |= changed
    problems = refused(data, tmp_path)
    assert said in problems.get(key, ""), problems


def test_junctions_in_a_circle_and_branches_that_meet_again_are_refused(tmp_path: Path) -> None:
    data = plates()
    data["junctions"] |= {"one": {}, "other": {}}
    passive = {"passive": True}
    data["lines"] |= {
        "a": {"from": "one", "to": "other", **passive},
        "b": {"from": "other", "to": "one", **passive},
        "c": {"from": "split", "to": "one", **passive},
    }
    problems = refused(data, tmp_path)
    assert "back to it, and through no vessel" in problems["junctions.one"]
    data["lines"]["b"]["to"] = "plate_a"
    data["lines"]["d"] = {"from": "split", "to": "other", **passive}
    assert "flow could turn round in a branch" in refused(data, tmp_path)["junctions.other"]
    data["lines"]["a"]["pump"] = "pump.pump"
    assert "which has no volume" in refused(data, tmp_path)["lines.a.pump"]


def test_hearts_share_one_loop_and_no_pump_and_have_their_gauges_by_line(tmp_path: Path) -> None:
    data = plates()
    heart = data["organs"].pop("heart")
    data["vessels"]["second"] = dict(data["vessels"]["bottle"])
    data["devices"] |= {
        "other": data["devices"]["pump"] | {"link": "sim:other"},
        "gauge": {"model": "keller-x-line", "link": "sim:gauge", "address": "1", "at": "heart"},
    }
    data["lines"] |= {
        "other": {"from": "second", "to": "plate_a", "pump": "other.pump"},
        "back": {"from": "plate_a", "to": "second", "passive": True},
    }
    bad = heart | {"basal": "9 mL/min"}
    data["organs"]["hearts"] = {"one": heart, "two": heart | {"line": "other"}, "three": bad}
    limit = {"point": "gauge.pressure", "high": "60 kPa", "stale": "10 s", "trips": ["pump.pump"]}
    data["safety"] = {"over_pressure_heart": limit}
    problems = refused(data, tmp_path)
    assert "a rig has one loop" in problems["organs.hearts.two.line"]
    assert "outside min to max" in problems["organs.hearts.three.basal"]
    assert "pump “pump.pump” is that of heart “one”" in problems["organs.hearts.three.line"]
    assert "belongs to the only heart, and the rig has 3" in problems["safety.over_pressure_heart"]


def test_liver_and_filter_need_the_kidney(tmp_path: Path) -> None:
    data: Data = yaml.safe_load(BENCH.read_text(encoding="utf-8"))
    del data["organs"]["kidney"]
    problems = refused(data, tmp_path)
    assert {"organs.liver", "organs.immune"} == set(problems)
