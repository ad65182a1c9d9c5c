"""Hazards of rigs of other shapes: branches, several hearts, static chambers, single pass, no kidney, no loop."""

from __future__ import annotations

import json
from math import inf
from pathlib import Path
from typing import Any

import pytest
import yaml

from choroid.rig_file.check import as_text, check_rig
from controller.hazards import bounds, physics
from controller.hazards.rest import rest_periods
from controller.hazards.table import hazards_of
from controller.rig.loading import load_rig

TWO_PLATES = Path(__file__).parents[1] / "rigs" / "two_plates.yaml"
Data = dict[str, Any]
WHY = {"reason": "the tubes are new and looked at on each daily round", "by": "R. Franklin"}


def plates() -> Data:
    data: Data = yaml.safe_load(TWO_PLATES.read_text(encoding="utf-8"))
    return data


def checked(data: Data, folder: Path) -> dict[str, Any]:
    path = folder / "rig.yaml"
    path.write_text(yaml.safe_dump(json.loads(json.dumps(data)), sort_keys=False), encoding="utf-8")
    answer = check_rig(path)
    assert answer["hazards"] is not None, answer["problems"]
    return answer


def rows(answer: dict[str, Any]) -> dict[str, Any]:
    return {row["hazard"]: row for row in answer["hazards"]}


def gaps(answer: dict[str, Any]) -> dict[str, str]:
    return {row["hazard"]: row["gaps"][0]["what"] for row in answer["hazards"] if row["verdict"] == "gap"}


def closed(data: Data) -> Data:
    """Return the two plates as closed chambers."""
    for name in ("plate_a", "plate_b"):
        del data["vessels"][name]["surface"]
    return data


def test_two_plates_on_one_pump_are_sound() -> None:
    answer = check_rig(TWO_PLATES)
    assert answer["ok"], answer["problems"]
    found = rows(answer)
    assert {"blocked_to_a", "blocked_to_b", "overflow_plate_a", "spent_medium"} <= set(found)
    assert not [hazard for hazard in found if hazard.startswith(("unperfused", "sensor_loss_balance", "unfiltered"))]
    assert found["loss_of_flow"]["place"] == "plate_a, plate_b"
    assert found["loss_of_flow"]["harm_s"] is None, "the open surface feeds the tissue"
    assert "stands at “bottle” in the same zone" in found["under_temperature"]["note"]
    text = as_text(answer, capabilities=True)
    assert "ACCEPTED WITHOUT AN INTERLOCK: over_pressure_heart" in text
    assert "no exchange of weighed medium: a person takes spent medium away" in text
    assert "functions: perfusion of each chamber, estimates and grades of the medium, alarm" in text
    assert set(rest_periods(load_rig(TWO_PLATES))) == {"pump", "ph", "arc", "balance"}


def test_without_acceptance_a_heart_without_a_gauge_is_a_gap(tmp_path: Path) -> None:
    data = plates()
    del data["safety"]["accepted"]
    assert gaps(checked(data, tmp_path)) == {
        "over_pressure_heart": "no interlock answers the hazard over_pressure_heart at “heart”"
    }


def test_in_closed_chambers_the_same_gap_cannot_be_accepted_and_a_blocked_branch_can(tmp_path: Path) -> None:
    data = closed(plates())
    for name in ("plate_a", "plate_b"):
        data["tissue"][name]["count"] = 60
    data["organs"]["heart"] |= {"flow": "12 mL/min", "basal": "12 mL/min", "min": "6 mL/min", "max": "14 mL/min"}
    data["safety"]["accepted"] |= {"blocked_to_a": WHY, "blocked_to_b": WHY}
    answer = checked(data, tmp_path)
    assert rows(answer)["loss_of_flow"]["harm_s"] < bounds.PERSON_S
    assert rows(answer)["blocked_to_a"]["verdict"] == "accepted"
    (problem,) = answer["problems"]
    assert problem["key"] == "safety.accepted.over_pressure_heart"
    assert "too soon for a person" in problem["what"]


def test_a_narrow_branch_starves_its_chamber_and_says_which(tmp_path: Path) -> None:
    data = closed(plates())
    data["lines"]["to_b"]["bore"] = "0.2 mm"
    data["safety"]["accepted"] |= {"blocked_to_a": WHY, "blocked_to_b": WHY}
    answer = checked(data, tmp_path)
    keys = {problem["key"] for problem in answer["problems"]}
    assert {"organs.heart.basal", "organs.heart.flow", "organs.heart.min"} <= keys
    what = gaps(answer)["loss_of_flow"]
    rig = load_rig(tmp_path / "rig.yaml")
    supply = physics.oxygen_supply_pmol_s(1000.0 / 257.0)  # a quarter of the bore of the other
    demand = physics.oxygen_demand_pmol_s(rig.tissue["plate_b"])
    assert what == (
        f"1 mL/min brings {supply:.0f} pmol/s of oxygen to “plate_b”, and the tissue up to “plate_b” uses {demand:.0f}"
    )


def test_tissue_further_down_lives_on_what_the_first_leaves(tmp_path: Path) -> None:
    data = closed(plates())
    del data["junctions"], data["lines"]["to_a"], data["lines"]["overflow_a"]
    data["lines"]["heart"]["to"] = "plate_a"
    data["lines"]["to_b"]["from"] = "plate_a"
    rig = load_rig(TWO_PLATES)
    demand = physics.oxygen_demand_pmol_s(rig.tissue["plate_a"])
    ul_min = 1.5 * demand / physics.oxygen_supply_pmol_s(1.0)
    data["organs"]["heart"] |= {"basal": f"{ul_min} uL/min", "flow": f"{3 * ul_min} uL/min", "min": f"{ul_min} uL/min"}
    what = gaps(checked(data, tmp_path))["loss_of_flow"]
    assert what.endswith(f"the tissue up to “plate_b” uses {2 * demand:.0f}")


def test_a_chamber_whose_inflow_has_no_outlet_floods(tmp_path: Path) -> None:
    data = plates()
    del data["lines"]["overflow_b"]
    answer = checked(data, tmp_path)
    assert "without end, and no overflow leads out of it" in gaps(answer)["overflow_plate_b"]
    assert rows(answer)["overflow_plate_b"]["harm_s"] == 0.0


def test_a_chamber_at_the_end_of_an_overflow_floods_too_and_a_slow_dose_does_not_make_it_acceptable(
    tmp_path: Path,
) -> None:
    data = plates()
    del data["junctions"], data["lines"]["to_a"], data["lines"]["overflow_b"]
    data["lines"]["heart"]["to"] = "plate_a"
    data["lines"]["overflow_a"]["to"] = "plate_b"
    del data["lines"]["to_b"]
    data["vessels"]["bottle"]["kind"] = "source"
    assert "overflow_plate_b" in gaps(checked(data, tmp_path))
    data["lines"]["overflow_a"]["to"] = "bottle"
    data["vessels"]["bottle"]["kind"] = "loop"
    data["lines"]["second"] = {
        "from": "bottle",
        "to": "plate_b",
        "pump": "pump.pump",
        "bore": "1.6 mm",
        "check_valve": True,
    }
    data["vessels"]["stock"] = {**data["vessels"]["bottle"], "kind": "source"}
    data["vessels"]["plate_b"]["ceiling"] = "15 mL"
    data["devices"]["dose"] = {"model": "atlas-ezo-pmp", "link": "sim:dose"}
    data["lines"]["feed"] = {"from": "stock", "to": "plate_b", "pump": "dose.pump"}
    data["organs"]["gut"] = {"feed": "feed", "flow": "0.05 mL/min"}
    answer = checked(data, tmp_path)
    assert "without end" in gaps(answer)["overflow_plate_b"]
    assert rows(answer)["overflow_plate_b"]["harm_s"] == 0.0


def test_a_pumped_outlet_alone_may_be_accepted_if_the_plate_takes_the_flow_for_an_hour(tmp_path: Path) -> None:
    data = plates()
    data["devices"]["out"] = data["devices"]["pump"] | {"link": "sim:out"}
    data["lines"]["overflow_b"] = {"from": "plate_b", "to": "bottle", "pump": "out.pump"}
    data["vessels"]["plate_b"]["floor"] = "8 mL"
    data["organs"]["heart"]["max"] = "2 mL/min"
    answer = checked(data, tmp_path)
    assert "while out.pump stands, and no overflow leads out of it" in gaps(answer)["overflow_plate_b"]
    assert rows(answer)["overflow_plate_b"]["harm_s"] == pytest.approx(8.0 * 60.0)  # 8 mL at half of 2 mL/min


def test_a_pump_of_no_organ_is_bounded_by_its_line_and_a_straw_keeps_its_vessel_from_running_dry(
    tmp_path: Path,
) -> None:
    data = plates()
    data["devices"]["skimmer"] = {"model": "ismatec-reglo-digital", "link": "sim:skimmer", "every": "2 s"}
    data["vessels"]["waste"] = {"kind": "waste", "volume": "0 mL", "capacity": "200 mL", "ceiling": "150 mL"}
    data["lines"]["skim"] = {"from": "plate_a", "to": "waste", "pump": "skimmer.pump", "draws_above": "10 mL"}
    answer = checked(data, tmp_path)
    assert set(gaps(answer)) == {"overflow_waste"}
    assert "write its maximum flow under line “skim”" in answer["problems"][0]["fix"]
    data["lines"]["skim"]["max_flow"] = "10 mL/min"
    assert checked(data, tmp_path)["ok"]
    del data["lines"]["skim"]["draws_above"]
    assert set(gaps(checked(data, tmp_path))) == {"dry_plate_a"}


def test_a_dose_over_a_junction_fills_each_chamber_by_its_share(tmp_path: Path) -> None:
    data = plates()
    data["organs"] = {"gut": {"feed": "heart", "flow": "2 mL/min"}}
    data["vessels"]["bottle"]["kind"] = "source"
    for name in ("overflow_a", "overflow_b"):
        del data["lines"][name]
    for name in ("plate_a", "plate_b"):
        data["vessels"][name]["ceiling"] = "15 mL"
    data["safety"].pop("accepted")
    data["safety"].pop("temperature")
    answer = checked(data, tmp_path)
    found = rows(answer)
    assert found["overflow_plate_a"]["harm_s"] == pytest.approx(5 * 60.0, abs=0.1)  # 5 mL at 1 mL/min
    assert found["oxygen_at_rest"]["place"] == "plate_a, plate_b"
    assert "missed_feeding" not in found
    assert answer["ok"], answer["problems"]


def dishes() -> Data:
    data = plates()
    data |= {"junctions": {}, "lines": {}, "organs": {}}
    del data["vessels"]["bottle"]
    data["devices"] = {"t": {"model": "atlas-ezo-rtd", "link": "sim:t", "at": "plate_a"}}
    data["safety"] = {"accepted": {"missed_feeding": WHY}}
    return data


def test_dishes_without_a_pump_have_their_own_hazards(tmp_path: Path) -> None:
    data = dishes()
    answer = checked(data, tmp_path)
    assert answer["ok"], answer["problems"]
    found = rows(answer)
    assert set(found) == {
        "over_temperature", "under_temperature", "oxygen_at_rest", "evaporation", "missed_feeding", "ph_out_of_range",
        "oxygen_out_of_range", "late_commands", "drift_t.temperature",
    }  # fmt: skip
    text = as_text(answer, capabilities=True)
    assert "no perfusion of each chamber: oxygen reaches the tissue in plate_a, plate_b from the surface only" in text
    del data["safety"]["accepted"]
    what = gaps(checked(data, tmp_path))["missed_feeding"]
    assert "nothing reminds them" in what
    data["devices"] = {}
    assert rows(checked(data, tmp_path))["under_temperature"]["sensor"] == "none"


FEED = {"text": "change half of the medium", "every": "48 h", "grace": "2 h", "feeds": ["plate_a", "plate_b"]}


def tasks(*each: Data) -> Data:
    """Return dishes that people feed by these tasks."""
    data = dishes()
    del data["safety"]["accepted"]
    return data | {"upkeep": {"tasks": {f"feed_{number}": task for number, task in enumerate(each)}}}


def test_a_manual_task_that_asks_in_time_closes_missed_feeding(tmp_path: Path) -> None:
    answer = checked(tasks(FEED), tmp_path)
    assert answer["ok"], answer["problems"]
    found = rows(answer)["missed_feeding"]
    assert (found["verdict"], found["interlock"], found["detection_s"]) == (
        "residual",
        "task_overdue: alarm",
        180_000.0,
    )
    monday = FEED | {"at": "09:00", "days": ["mon", "wed", "fri"]}
    del monday["every"]
    found = rows(checked(tasks(monday), tmp_path))["missed_feeding"]
    assert found["detection_s"] == 3600.0 * (3 * 24 + 9 + 1 + 2), "Friday 0:00 to Monday 9:00, and daylight saving"


def test_a_task_that_asks_too_late_or_not_for_all_leaves_the_gap(tmp_path: Path) -> None:
    assert "and nothing reminds them" in gaps(checked(tasks(FEED | {"feeds": ["plate_a"]}), tmp_path))["missed_feeding"]
    data = tasks(FEED | {"every": "30 d"})
    answer = checked(data, tmp_path)
    assert "the alarm of a missed change comes after up to 722 h" in gaps(answer)["missed_feeding"]
    assert answer["problems"][0]["key"] == "upkeep.tasks.feed_0"
    assert checked(tasks(FEED | {"every": "30 d"}, FEED), tmp_path)["ok"], "the more frequent one counts"


def test_a_task_is_refused_without_a_schedule_or_with_an_unknown_vessel(tmp_path: Path) -> None:
    path = tmp_path / "rig.yaml"
    for task, key in (
        (FEED | {"at": "09:00"}, "upkeep.tasks.feed_0"),
        (FEED | {"feeds": ["plate_c"]}, "upkeep.tasks.feed_0.feeds"),
        (FEED | {"at": "09:00", "days": []}, "upkeep.tasks.feed_0"),
    ):
        path.write_text(yaml.safe_dump(json.loads(json.dumps(tasks(task)))), encoding="utf-8")
        (problem,) = check_rig(path)["problems"]
        assert problem["key"] == key, problem
        assert problem["fix"]


def test_too_much_tissue_under_too_little_surface_is_a_gap(tmp_path: Path) -> None:
    """D·c·A/h for 12 mL over 10 cm²: 3e-9 · 0.19 · 1e-3 / 0.012 m is 47.5 pmol/s; six of 1.5 mm use about 101."""
    data = dishes()
    data["vessels"]["plate_b"]["surface"] = "10 cm^2"
    what = gaps(checked(data, tmp_path))["oxygen_at_rest"]
    assert "through 12.0 mm of medium 10 cm2 of surface bring 48 pmol/s of oxygen, and the tissue uses 101" in what
    data["vessels"]["plate_b"] |= {"volume": "1 mL", "surface": "57 cm^2"}
    assert "loses a tenth of its water" in gaps(checked(data, tmp_path))["evaporation"]


def test_ninety_six_wells_are_one_row_of_each_hazard(tmp_path: Path) -> None:
    data = dishes()
    del data["vessels"], data["devices"]["t"]["at"]
    data["plates"] = {
        "plate": {"wells": 96, "contains": "fresh", "volume": "200 uL", "capacity": "380 uL", "zone": "incubator"}
    }
    data["tissue"] = {"plate": {"count": 1, "diameter": "0.6 mm", "age": "20 d"}}
    answer = checked(data, tmp_path)
    assert answer["ok"], answer["problems"]
    assert rows(answer)["oxygen_at_rest"]["place"] == "plate-A1 to plate-H12 (96)"
    assert len(answer["hazards"]) == 8
    data["tissue"]["plate"]["diameter"] = "2 mm"
    assert len(checked(data, tmp_path)["problems"]) == 1, "what all wells share is listed once"


def test_a_single_pass_runs_dry_and_over_unless_a_person_has_an_hour(tmp_path: Path) -> None:
    data = plates()
    data["vessels"]["bottle"]["kind"] = "source"
    data["vessels"]["waste"] = {"kind": "waste", "volume": "0 mL", "capacity": "2 L", "ceiling": "1.9 L"}
    for name in ("overflow_a", "overflow_b"):
        data["lines"][name]["to"] = "waste"
    found = gaps(checked(data, tmp_path))
    assert found == {
        "runs_dry_bottle": "the heart draws bottle empty within 10 min of the alarm stock_low, which leaves no time to"
        " change it"
    }  # 10 % of 210 mL at 2 mL/min
    (problem,) = checked(data, tmp_path)["problems"]
    assert problem["fix"] == "Write “stock_low: 58 %”"
    data["upkeep"] = {"stock_low": "58 %"}
    answer = checked(data, tmp_path)
    assert answer["ok"], answer["problems"]
    assert rows(answer)["runs_over_waste"]["harm_s"] > bounds.PERSON_S
    data["vessels"]["bottle"]["kind"], data["lines"]["overflow_a"]["to"] = "loop", "bottle"
    assert "does not come back into “bottle”" in gaps(checked(data, tmp_path))["runs_dry_bottle"]


def test_two_hearts_on_one_bottle_are_one_row(tmp_path: Path) -> None:
    data = plates()
    heart = data["organs"].pop("heart")
    data["vessels"]["bottle"] |= {"kind": "source", "volume": "5 L", "capacity": "5.5 L", "ceiling": "5.4 L"}
    data["vessels"]["waste"] = {"kind": "waste", "volume": "0 mL", "capacity": "10 L", "ceiling": "9.9 L"}
    data["devices"]["other"] = data["devices"]["pump"] | {"link": "sim:other"}
    data["lines"]["heart"]["to"] = "plate_a"
    data["lines"]["second"] = {"from": "bottle", "to": "plate_b", "pump": "other.pump", "check_valve": True}
    for name in ("to_a", "to_b"):
        del data["lines"][name]
    for name in ("overflow_a", "overflow_b"):
        data["lines"][name]["to"] = "waste"
    del data["junctions"]
    data["organs"]["hearts"] = {"a": heart, "b": heart | {"line": "second"}}
    data["safety"]["accepted"] = {"over_pressure_hearts": WHY}
    answer = checked(data, tmp_path)
    assert answer["ok"], answer["problems"]
    assert len(rows(answer)) == len(answer["hazards"]), "two hazards have one id"
    assert rows(answer)["runs_dry_bottle"]["harm_s"] == pytest.approx(0.1 * 5460.0 / 4.0 * 60.0)  # 10 % at 2 · 2 mL/min


def test_several_hearts_have_their_rows_and_gauges_by_name(tmp_path: Path) -> None:
    data = closed(plates())
    heart = data["organs"].pop("heart")
    del data["junctions"], data["lines"]["to_a"], data["lines"]["to_b"]
    data["devices"] |= {
        "other": data["devices"]["pump"] | {"link": "sim:other"},
        "p_a": {"model": "keller-x-line", "link": "sim:rs485", "address": "1", "at": "heart", "every": "2 s"},
        "p_b": {"model": "keller-x-line", "link": "sim:rs485", "address": "2", "at": "second", "every": "2 s"},
    }
    data["lines"]["heart"]["to"] = "plate_a"
    data["lines"]["second"] = {"from": "bottle", "to": "plate_b", "pump": "other.pump"}
    data["organs"]["hearts"] = {
        "a": heart | {"pressure": "p_a.pressure"},
        "b": heart | {"line": "second", "pressure": "p_b.pressure"},
    }
    limit = {"high": "60 kPa", "stale": "10 s"}
    data["safety"] = {
        "over_pressure": {
            "heart": {**limit, "point": "p_a.pressure", "trips": ["pump.pump"]},
            "second": {**limit, "point": "p_b.pressure", "trips": ["other.pump"]},
        }
    }
    answer = checked(data, tmp_path)
    assert answer["ok"], answer["problems"]
    found = rows(answer)
    assert {"loss_of_flow_a", "loss_of_flow_b", "heart_backwards_a", "over_pressure_second"} <= set(found)
    assert found["loss_of_flow_b"]["place"] == "plate_b"
    assert found["over_pressure_second"]["actuators"] == ["other.pump"]
    data["organs"]["hearts"]["b"]["basal"] = data["organs"]["hearts"]["b"]["min"] = "1 uL/min"
    assert set(gaps(checked(data, tmp_path))) == {"loss_of_flow_b"}
    data["safety"]["over_pressure"]["second"]["trips"] = ["pump.pump"]
    assert "over_pressure_second" in gaps(checked(data, tmp_path))


def test_a_check_valve_or_a_gauge_answers_a_heart_that_turns_backwards(tmp_path: Path) -> None:
    data = plates()
    del data["lines"]["heart"]["check_valve"]
    answer = checked(data, tmp_path)
    assert "turns backwards" in gaps(answer)["heart_backwards"]
    assert "check_valve: true" in answer["problems"][0]["fix"]
    data["safety"]["accepted"]["heart_backwards"] = WHY
    assert checked(data, tmp_path)["ok"]


def test_one_entry_accepts_a_hazard_of_all_hearts_or_branches(tmp_path: Path) -> None:
    data = closed(plates())
    heart = data["organs"].pop("heart")
    data["devices"]["other"] = data["devices"]["pump"] | {"link": "sim:other"}
    data["lines"]["heart"]["check_valve"] = False
    data["lines"]["second"] = {"from": "bottle", "to": "split", "pump": "other.pump"}
    data["organs"]["hearts"] = {"a": heart, "b": heart | {"line": "second"}}
    data["safety"] = {}
    found = set(gaps(checked(data, tmp_path)))
    assert {"heart_backwards_a", "heart_backwards_b", "over_pressure_second", "blocked_to_b"} <= found
    groups = ("heart_backwards", "over_pressure_hearts", "blocked_branches")
    data["safety"] = {"accepted": dict.fromkeys(groups, WHY)}
    answer = checked(data, tmp_path)
    assert answer["ok"], answer["problems"]
    assert len(rows(answer)) == len(answer["hazards"]), "two hazards have one id"
    assert rows(answer)["heart_backwards_b"]["accepted"]["by"] == "R. Franklin"
    assert as_text(answer).count("ACCEPTED WITHOUT AN INTERLOCK") == len(found)
    for name in ("plate_a", "plate_b"):
        data["tissue"][name]["count"] = 60
    problems = {problem["key"] for problem in checked(data, tmp_path)["problems"]}
    assert "safety.accepted.over_pressure_hearts" in problems
    assert "safety.accepted.heart_backwards" not in problems


def test_chambers_in_two_zones_have_rows_of_their_own(tmp_path: Path) -> None:
    data = plates()
    data["zones"]["other"] = {"temperature": "24 degC", "co2": "5 %", "oxygen": "18.6 %"}
    data["vessels"]["plate_b"]["zone"] = "other"
    answer = checked(data, tmp_path)
    found = rows(answer)
    assert found["under_temperature_incubator"]["place"] == "plate_a"
    assert found["under_temperature_incubator"]["sensor"] == "arc.temperature"
    assert found["under_temperature_other"]["sensor"] == "none"
    assert set(gaps(answer)) == {"under_temperature_other"}
    assert found["over_temperature_other"]["limits"] == "24 degC", "the limits are those of the incubator"
    lacks = {row["function"]: row["lacks"] for row in answer["capabilities"]}
    assert lacks["temperature_alarm"] == [
        "a temperature probe with “at: plate_b”",
        "limits of temperature in the zone of plate_b (safety.temperatures)",
    ]


def test_hours_of_a_table_are_finite_or_never() -> None:
    for row in hazards_of(load_rig(TWO_PLATES)):
        assert row.harm_s > 0.0
        assert row.harm_s == inf or row.harm_s < 400 * 86_400.0
