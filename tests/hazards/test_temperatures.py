"""Limits of temperature at several places: two incubators, a refrigerator, a heated chamber next to one that is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from choroid.rig_file.check import check_rig
from choroid.simulation.simulate import simulate
from controller.hazards.loading import load_checked_rig
from controller.process.controller import Controller
from controller.rig.loading import effective_hash, load_rig
from controller.safety.limits import limits_of
from dashboards.views import rig_view
from drivers.registry import MODELS
from sim.lab import SimulatedLab

TWO_PLATES = Path(__file__).parents[1] / "rigs" / "two_plates.yaml"
Data = dict[str, Any]
RTD = {"model": "atlas-ezo-rtd", "every": "5 s"}


def rooms() -> Data:
    """Return two plates in incubators of their own, and medium in a refrigerator."""
    data: Data = yaml.safe_load(TWO_PLATES.read_text(encoding="utf-8"))
    data["zones"] |= {"second": dict(data["zones"]["incubator"]), "fridge": {"temperature": "4 degC"}}
    data["vessels"]["plate_b"]["zone"] = "second"
    data["vessels"]["stock"] = {
        "kind": "source", "contains": "fresh", "volume": "400 mL", "capacity": "500 mL", "floor": "10 mL", "zone": "fridge",
    }  # fmt: skip
    data["lines"]["top_up"] = {"from": "stock", "to": "bottle", "pump": "dose.pump"}
    data["organs"]["gut"] = {"feed": "top_up", "flow": "1 mL/min"}
    data["devices"] |= {
        "t_b": RTD | {"link": "sim:t_b", "at": "plate_b"},
        "t_stock": RTD | {"link": "sim:t_stock", "at": "stock"},
        "dose": {"model": "atlas-ezo-pmp", "link": "sim:dose", "every": "5 s"},
    }
    data["safety"]["temperatures"] = {
        "second": {"point": "t_b.temperature", "low": "35 degC", "high": "38.5 degC", "stale": "15 s", "trips": []},
        "fridge": {"point": "t_stock.temperature", "low": "1 degC", "high": "10 degC", "stale": "60 s", "trips": []},
    }
    return data


def written(data: Data, folder: Path) -> Path:
    path = folder / "rig.yaml"
    path.write_text(yaml.safe_dump(json.loads(json.dumps(data)), sort_keys=False), encoding="utf-8")
    return path


def test_each_zone_has_its_own_limits_in_table_functions_and_interlocks(tmp_path: Path) -> None:
    data = rooms()
    answer = check_rig(written(data, tmp_path))
    assert answer["ok"], answer["problems"]
    rows = {row["hazard"]: row for row in answer["hazards"]}
    assert (
        rows["under_temperature_incubator"]["limits"] == rows["under_temperature_second"]["limits"] == "35 to 38.5 degC"
    )
    assert rows["storage_temperature_fridge"]["sensor"] == "t_stock.temperature"
    rig = load_checked_rig(written(data, tmp_path), models=MODELS)
    names = [rule.name for rule in limits_of(rig).interlocks]
    assert names == ["temperature", "temperature.second", "storage_temperature.fridge"]
    assert {goal.point for goal in rig_view(rig, user="vera", role="viewer").goals if goal.unit == "degC"} == {
        "arc.temperature", "t_b.temperature", "t_stock.temperature",
    }  # fmt: skip
    del data["safety"]["temperatures"]["second"]
    (lack,) = [
        each for each in check_rig(written(data, tmp_path))["capabilities"] if each["function"] == "temperature_alarm"
    ]
    assert lack["lacks"] == ["limits of temperature in the zone of plate_b (safety.temperatures)"]


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"point": "t_c.temperature"}, "safety.temperatures.second.point"),
        ({"point": "ph.ph"}, "safety.temperatures.second.point"),
        ({"trips": ["nothing.here"]}, "safety.temperatures.second.trips.0"),
        ({"low": "39 degC"}, "safety.temperatures.second.low"),
        ({"high": "45 degC"}, "safety.temperatures.second.high"),
        ({"stale": "4 s"}, "devices.t_b.every"),
    ],
)
def test_a_wrong_limit_is_found_at_its_key(change: Data, key: str, tmp_path: Path) -> None:
    data = rooms()
    data["safety"]["temperatures"]["second"] |= change
    assert key in [problem["key"] for problem in check_rig(written(data, tmp_path))["problems"]]


def test_a_rig_without_further_limits_keeps_its_hash(tmp_path: Path) -> None:
    data: Data = yaml.safe_load(TWO_PLATES.read_text(encoding="utf-8"))
    data["safety"]["temperatures"] = {}
    assert effective_hash(load_rig(written(data, tmp_path))) == effective_hash(load_rig(TWO_PLATES))


def test_an_incubator_that_fails_raises_the_alarm_of_its_own_thermometer(tmp_path: Path) -> None:
    alarms: list[str] = []

    def watch(at_s: float, lab: SimulatedLab, controller: Controller) -> None:
        if at_s < 3700.0:
            for vessel, warm_c in (("plate_b", 41.0), ("stock", 20.0)):
                number = lab.plant.fleet.layout.space_of(vessel)
                lab.plant.fleet.spaces["ambient_c"][:, number] = warm_c
        alarms[:] = [alarm.id for alarm in controller.alarms.active()]

    simulate(written(rooms(), tmp_path), days=0.15, seed=1, watch=watch)
    assert {"temperature:t_b.temperature", "storage_temperature:t_stock.temperature"} <= set(alarms)
    assert "temperature:arc.temperature" not in alarms
