"""Sound rig files of other shapes than the shipped ones: a dish, two plates, four hearts on one loop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
BENCH = REPOSITORY / "examples" / "rigs" / "bench.yaml"
Made = Callable[[Path], Path]
"""Writes a rig file into a folder, and returns its path."""
HEART = {"flow": "0.5 mL/min", "basal": "0.25 mL/min", "min": "0.1 mL/min", "max": "1 mL/min", "lease": "30 s"}
DISH = """
choroid: 1
name: dish
tissue:
  dish: {count: 2, diameter: 1 mm, age: 50 d}
media:
  fresh: {glucose: 21 mM, lactate: 0 mM, ammonia: 0.02 mM, bicarbonate: 27.5 mM, glutamine: 1.25 mM, osmolality: 285 mOsm/kg}
zones:
  incubator: {temperature: 37 degC, co2: 5 %, oxygen: 18.6 %}
vessels:
  dish: {kind: chamber, contains: fresh, volume: 12 mL, capacity: 20 mL, surface: 20 cm^2, zone: incubator}
devices:
  thermometer: {model: atlas-ezo-rtd, link: "sim:thermometer", at: dish, every: 5 s}
safety:
  temperature: {point: thermometer.temperature, low: 35 degC, high: 38.5 degC, stale: 30 s, trips: []}
  accepted:
    missed_feeding: {reason: two people change half of the medium every Monday and Thursday, by: R. Franklin}
"""


def dish(folder: Path) -> Path:
    """Return a dish in an incubator with a thermometer."""
    path = folder / "dish.yaml"
    path.write_text(DISH, encoding="utf-8")
    return path


def two_plates(folder: Path) -> Path:
    """Return two plates on one pump over a junction: one loop, no kidney."""
    data = yaml.safe_load((REPOSITORY / "tests" / "rigs" / "two_plates.yaml").read_text(encoding="utf-8"))
    data["devices"]["pump"]["settings"] = {"series": 520, "max_rpm": 220}
    return _written(folder, "two_plates", data)


def four_hearts(folder: Path) -> Path:
    """Return four chambers, each with a heart and a gauge of its own, on one loop with lung, skin and kidney."""
    data = yaml.safe_load(BENCH.read_text(encoding="utf-8"))
    names = [f"c{number}" for number in range(1, 5)]
    data |= {"name": "four-hearts", "tissue": {name: {"count": 4, "diameter": "2 mm", "age": "60 d"} for name in names}}
    for place in ("nerves",):
        del data[place]
    vessels, lines, devices = data["vessels"], data["lines"], data["devices"]
    del vessels["chamber"], lines["heart"], lines["overflow"], devices["p_heart"], devices["reglo"]["channels"]["1"]
    devices["icc"] = {"model": "ismatec-reglo-icc", "link": "sim:icc", "address": "1", "every": "5 s", "channels": {}}
    devices["t_chamber"]["at"] = "c1"
    data["organs"]["hearts"] = {}
    del data["organs"]["heart"], data["safety"]["over_pressure_heart"], data["upkeep"]["tubing"]["reglo.heart"]
    data["safety"]["over_pressure"] = {}
    for number, name in enumerate(names, start=1):
        line, point = f"to_{name}", f"p_{name}.pressure"
        vessels[name] = {"contains": "fresh", "volume": "2 mL", "capacity": "3 mL", "kind": "chamber"}
        lines[line] = {"from": "loop", "to": name, "pump": f"icc.{name}", "bore": "1.02 mm", "length": "0.6 m"}
        lines[f"from_{name}"] = {"from": name, "to": "loop", "passive": True}
        devices["icc"]["channels"][str(number)] = {"point": name, "tubing": "1.02 mm"}
        devices[f"p_{name}"] = {
            "model": "keller-x-line", "link": "sim:gauges", "address": str(number), "at": line, "every": "2 s",
        }  # fmt: skip
        data["organs"]["hearts"][name] = {"line": line, "pressure": point, **HEART}
        data["safety"]["over_pressure"][line] = {
            "point": point, "high": "60 kPa", "stale": "10 s", "trips": [f"icc.{name}"],
        }  # fmt: skip
    return _written(folder, "four_hearts", data)


def _written(folder: Path, name: str, data: dict[str, Any]) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return path
