"""Commissioning of rigs of other shapes: no kidney, several hearts, no pump."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.commissioning.procedure import preparation
from controller.commissioning.record import wiring_hash
from controller.rig.description import Rig
from controller.rig.loading import load_rig
from tests.commissioning.world import commissioned

TWO_PLATES = Path(__file__).parents[1] / "rigs" / "two_plates.yaml"


def rig_of(folder: Path, data: dict[str, Any]) -> Rig:
    path = folder / "rig.yaml"
    path.write_text(yaml.safe_dump(json.loads(json.dumps(data)), sort_keys=False), encoding="utf-8")
    return load_rig(path)


def plates() -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load(TWO_PLATES.read_text(encoding="utf-8"))
    return data


@pytest.mark.virtual_time
async def test_two_plates_are_commissioned_with_a_person_instead_of_gauge_and_balance(tmp_path: Path) -> None:
    rig = load_rig(TWO_PLATES)
    report, person, _ = await commissioned(tmp_path, rig, rig)
    assert report.passed, [str(check) for check in report.checks]
    assert [check.subject for check in report.checks] == ["pump.pump", "emergency stop"]
    assert report.checks[0].detail == "a person saw medium run out of each outlet"
    (_, question) = person.asked
    assert "from bottle into plate_a, plate_b" in question or "from bottle into plate_b, plate_a" in question


@pytest.mark.virtual_time
async def test_dishes_are_commissioned_by_their_readings(tmp_path: Path) -> None:
    data = plates() | {"junctions": {}, "lines": {}, "organs": {}, "safety": {}}
    del data["vessels"]["bottle"]
    data["devices"] = {"t": {"model": "atlas-ezo-rtd", "link": "sim:t", "at": "plate_a"}}
    rig = rig_of(tmp_path, data)
    report, person, _ = await commissioned(tmp_path, rig, rig)
    assert report.passed, [str(check) for check in report.checks]
    assert [check.subject for check in report.checks] == ["t.temperature"]
    assert "37" in person.asked[1]


@pytest.mark.virtual_time
async def test_each_heart_is_checked_and_a_transfer_without_balance_is_looked_at(tmp_path: Path) -> None:
    data = plates()
    heart = data["organs"].pop("heart")
    del data["junctions"], data["lines"]["to_a"], data["lines"]["to_b"]
    data["vessels"]["stock"] = {
        "kind": "source", "contains": "fresh", "volume": "100 mL", "capacity": "100 mL", "floor": "5 mL",
    }  # fmt: skip
    data["devices"] |= {
        "other": data["devices"]["pump"] | {"link": "sim:other"},
        "dose": {"model": "atlas-ezo-pmp", "link": "sim:dose"},
    }
    data["lines"]["heart"]["to"] = "plate_a"
    data["lines"]["second"] = {"from": "bottle", "to": "plate_b", "pump": "other.pump"}
    data["lines"]["feed"] = {"from": "stock", "to": "bottle", "pump": "dose.pump"}
    data["organs"] = {
        "hearts": {"a": heart, "b": heart | {"line": "second"}},
        "gut": {"feed": "feed", "flow": "5 mL/min"},
    }
    data["safety"] = {}
    rig = rig_of(tmp_path, data)
    report, person, _ = await commissioned(tmp_path, rig, rig)
    assert report.passed, [str(check) for check in report.checks]
    assert [check.subject for check in report.checks] == ["pump.pump", "other.pump", "dose.pump", "emergency stop"]
    assert any("liquid gone along line “feed”" in question for question in person.asked)
    assert report.checks[-1].detail.count(" and ") == 1, "both hearts fell to their basal flow"
    moved = rig.model_copy(
        update={
            "organs": rig.organs.model_copy(
                update={"hearts": {"a": rig.organs.hearts["b"], "b": rig.organs.hearts["a"]}}
            )
        }
    )
    assert wiring_hash(moved) != wiring_hash(rig)


def test_the_preparation_names_only_what_there_is() -> None:
    class Bench:
        rig = load_rig(TWO_PLATES)

    text = preparation(Bench())  # type: ignore[arg-type]
    assert "gas bottles" not in text
    assert "every tube is in its pump, and the chamber is warm?" in text
