"""A reading serves in a role only in the unit of that role, whatever its driver (Q1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from choroid.rig_file.check import as_text, check_rig
from controller.hazards.loading import load_checked_rig
from controller.links.connect import device_config
from controller.links.units import points_fit_their_roles
from controller.rig.families import FAMILIES
from controller.rig.loading import load_rig
from controller.rig.roles import point_roles
from drivers.commands import Quality
from drivers.device import Sensor
from drivers.registry import MODELS, build, open_link
from tests.hazards.files import BENCH, SHIPPED, problems_of_data

ROLES = {
    "pressure": (("organs", "heart", "pressure"), ("safety", "over_pressure_heart", "point")),
    "temperature": (("organs", "skin", "temperature"), ("safety", "temperature", "point")),
    "oxygen": (("organs", "lung", "oxygen"),),
    "ph": (("organs", "lung", "ph"),),
    "mass": (("organs", "kidney", "mass"),),
}
PLACES = {"pressure": "heart", "temperature": "chamber", "oxygen": "loop", "ph": "loop", "mass": "spent"}


def with_gauge(data: dict[str, Any], quantity: str, unit: str, scale: float = 1.0) -> None:
    """Let a described device serve in every role of a quantity."""
    text = (
        f"format: 1\nname: own\npoints:\n  v: {{function: 3, register: 0, type: f32, unit: '{unit}', scale: {scale}}}\n"
    )
    data["devices"]["own"] = {
        "model": "modbus-generic", "link": "sim:own", "every": "2 s", "at": PLACES[quantity],
        "settings": {"description": text},
    }  # fmt: skip
    for *around, key in ROLES[quantity]:
        part = data
        for step in around:
            part = part[step]
        part[key] = "own.v"


@pytest.mark.parametrize(
    ("quantity", "unit", "fix"),
    [
        ("pressure", "bar", "unit: kPa, scale: 100, offset: 0"),
        ("pressure", "psi", "unit: kPa, scale: 6.89475729, offset: 0"),
        ("pressure", "mbar", "unit: kPa, scale: 0.1, offset: 0"),
        ("pressure", "degC", "degC cannot be converted"),
        ("pressure", "", "“unit: kPa”"),
        ("temperature", "degF", "unit: degC, scale: 0.555555556, offset: -17.7777778"),
        ("temperature", "K", "unit: degC, scale: 1, offset: -273.15"),
        ("temperature", "kPa", "kPa cannot be converted"),
        ("oxygen", "mg/L", "mg/L cannot be converted"),
        ("ph", "mV", "mV cannot be converted"),
        ("mass", "kg", "unit: g, scale: 1000, offset: 0"),
    ],
)
def test_Q1_a_point_in_another_unit_than_its_role_is_refused_with_the_fix(
    tmp_path: Path, quantity: str, unit: str, fix: str
) -> None:
    found = problems_of_data(tmp_path, lambda data: with_gauge(data, quantity, unit))
    refused = {problem.key: problem for problem in found if "own.v" in problem.what}
    keys = {".".join(place) for place in ROLES[quantity]}
    assert {key.replace("organs.hearts.heart", "organs.heart") for key in refused} >= keys
    for problem in refused.values():
        assert fix in problem.fix
        assert problem.line > 1


def test_Q1_no_hazard_of_a_refused_rig_is_called_covered(tmp_path: Path) -> None:
    """Its over-pressure was called covered by a gauge in bar, in the same answer that refused the gauge."""
    problems_of_data(tmp_path, lambda data: with_gauge(data, "pressure", "bar"))
    answer = check_rig(tmp_path / "rig.yaml")
    assert not answer["ok"]
    assert len(answer["hazards"]) > 10
    assert not {"covered"} & {row["verdict"] for row in answer["hazards"]}
    text = as_text(answer, hazards=True)
    assert "covered" not in text
    assert "UNPROVEN" in text
    assert "covered" in as_text(check_rig(BENCH), hazards=True)


@pytest.mark.parametrize(
    ("quantity", "unit"), [("pressure", "kPa"), ("temperature", "degC"), ("oxygen", "%"), ("ph", "pH"), ("mass", "g")]
)
def test_Q1_the_unit_of_the_role_is_accepted(tmp_path: Path, quantity: str, unit: str) -> None:
    assert problems_of_data(tmp_path, lambda data: with_gauge(data, quantity, unit)) == []


class Gauge(Sensor):
    """A sensor of a third party's driver."""

    quality = Quality.GOOD

    def __init__(self, unit: str) -> None:
        self.unit = unit

    async def read(self) -> float:
        return 1.5


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_Q1_every_role_of_a_shipped_rig_is_judged_by_its_unit(path: Path) -> None:
    """Whatever the driver: each role is spoiled once."""
    rig = load_checked_rig(path, models=MODELS)
    links = {spec.link: open_link(spec.link, [spec.model]) for spec in rig.devices.values()}
    roles = list(point_roles(rig))
    for role in roles:
        device, _, point = role.point.partition(".")
        spec = rig.devices[device]
        built = {device: build(spec.model, links[spec.link], device_config(device, spec))}
        assert [f for f in points_fit_their_roles(rig, built) if f.place == role.place] == []
        if point in built[device].sensors and any(kind.kind == "sensor" for kind in role.kinds):
            built[device].sensors[point] = Gauge("furlong")
            (found,) = [f for f in points_fit_their_roles(rig, built) if f.place == role.place]
            assert "furlong" in found.what
            assert spec.model in found.fix or "description" in found.fix
        elif (output := built[device].actuators.get(point)) is not None and output.kind != "switch":
            output.unit = "furlong/fortnight"
            (found,) = [f for f in points_fit_their_roles(rig, built) if f.place == role.place]
            assert "furlong/fortnight" in found.what


def test_Q1_a_point_that_the_driver_lacks_is_refused(tmp_path: Path) -> None:
    def spoil(data: dict[str, Any]) -> None:
        with_gauge(data, "pressure", "kPa")
        data["organs"]["heart"]["pressure"] = "own.pressure"

    (problem,) = (p for p in problems_of_data(tmp_path, spoil) if p.key.endswith("pressure"))
    assert "no point “pressure”" in problem.what
    assert "own.v" in problem.fix


def test_Q1_the_families_state_the_units_of_their_drivers() -> None:
    """What the rig description knows of a family is what its driver reports."""
    for path in SHIPPED:
        rig = load_rig(path)
        for name, spec in rig.devices.items():
            if (family := FAMILIES.get(spec.model)) is None:
                continue
            driver = build(spec.model, open_link(spec.link, [spec.model]), device_config(name, spec))
            for point, kind in family.points.items():
                if kind.kind == "sensor" and point in driver.sensors:
                    assert driver.sensors[point].unit == kind.unit, (spec.model, point)
                elif kind.kind != "sensor" and kind.kind != "switch":
                    assert driver.actuators[point].unit == kind.unit, (spec.model, point)


def test_Q1_the_case_of_the_bar_gauge(tmp_path: Path) -> None:
    """The gauge in bar is refused by line; converted as told, it is accepted."""
    found = problems_of_data(tmp_path, lambda data: with_gauge(data, "pressure", "bar"), BENCH)
    assert any(p.key == "safety.over_pressure_heart.point" and "scale: 100" in p.fix for p in found)
    assert problems_of_data(tmp_path, lambda data: with_gauge(data, "pressure", "kPa", 100.0), BENCH) == []
