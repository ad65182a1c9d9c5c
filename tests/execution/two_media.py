"""Wells for tests: two with two media behind three selectors, and two that have lines of their own.

The selectors choose the medium, the well to fill, and the well to empty.
"""

from __future__ import annotations

from typing import Any

from controller.rig.description import Rig

_MEDIUM: dict[str, Any] = {
    "lactate": "0 mM",
    "ammonia": "0.02 mM",
    "bicarbonate": "27.5 mM",
    "glutamine": "1.25 mM",
    "osmolality": "285 mOsm/kg",
}
_WELL: dict[str, Any] = {
    "kind": "chamber",
    "contains": "rich",
    "surface": "1.9 cm^2",
    "volume": "1 mL",
    "capacity": "2 mL",
    "floor": "0.5 mL",
    "ceiling": "1.4 mL",
}
_TUBE: dict[str, Any] = {"passive": True, "bore": "0.5 mm", "length": "0.1 m"}
_VALVE: dict[str, Any] = {"model": "vici-actuator", "settings": {"positions": 16, "rest_position": 16}}
TWO_MEDIA = Rig.model_validate(
    {
        "choroid": 1,
        "name": "two-media",
        "tissue": {name: {"count": 1, "diameter": "1 mm", "age": "40 d"} for name in ("w1", "w2")},
        "media": {"rich": {**_MEDIUM, "glucose": "21 mM"}, "poor": {**_MEDIUM, "glucose": "1 mM"}},
        "vessels": {
            **{
                name: {"kind": "source", "contains": name, "volume": "200 mL", "capacity": "250 mL", "floor": "5 mL"}
                for name in ("rich", "poor")
            },
            "w1": _WELL,
            "w2": _WELL,
            "waste": {"kind": "waste", "volume": "0 mL", "capacity": "500 mL"},
        },
        "selectors": {
            "choice": {"valve": "chooser.valve", "rest": 16, "dead_volume": "5 uL"},
            "supply": {"valve": "giver.valve", "rest": 16, "dead_volume": "5 uL"},
            "takeoff": {"valve": "taker.valve", "rest": 16, "dead_volume": "5 uL"},
        },
        "lines": {
            "from_rich": {"from": "rich", "to": "choice", "port": 1, **_TUBE},
            "from_poor": {"from": "poor", "to": "choice", "port": 2, **_TUBE},
            "dose": {"from": "choice", "to": "supply", "pump": "reglo.dose", "bore": "0.8 mm", "max_flow": "1 mL/min"},
            "to1": {"from": "supply", "to": "w1", "port": 1, **_TUBE},
            "to2": {"from": "supply", "to": "w2", "port": 2, **_TUBE},
            "flush": {"from": "supply", "to": "waste", "port": 13, **_TUBE},
            "from1": {"from": "w1", "to": "takeoff", "port": 1, **_TUBE},
            "from2": {"from": "w2", "to": "takeoff", "port": 2, **_TUBE},
            "take": {"from": "takeoff", "to": "waste", "pump": "reglo.take", "bore": "0.8 mm", "max_flow": "1 mL/min"},
        },
        "devices": {
            "reglo": {
                "model": "ismatec-reglo-icc",
                "link": "sim:reglo",
                "address": "1",
                "every": "2 s",
                "channels": {
                    "1": {"point": "dose", "tubing": "0.76 mm"},
                    "2": {"point": "take", "tubing": "0.76 mm"},
                },
            },
            **{name: {**_VALVE, "link": f"sim:{name}", "every": "5 s"} for name in ("chooser", "giver", "taker")},
        },
    }
)

_LINES: dict[str, Any] = {
    name: line
    for number in ("1", "2")
    for name, line in {
        f"in{number}": {"from": f"rich{number}", "to": f"w{number}", "pump": f"reglo.in{number}"},
        f"out{number}": {"from": f"w{number}", "to": f"waste{number}", "pump": f"reglo.out{number}"},
    }.items()
}
TWO_LINES = Rig.model_validate(
    {
        "choroid": 1,
        "name": "two-lines",
        "tissue": {name: {"count": 1, "diameter": "1 mm", "age": "40 d"} for name in ("w1", "w2")},
        "media": {"rich": {**_MEDIUM, "glucose": "21 mM"}},
        "vessels": {
            **{
                f"rich{number}": {"kind": "source", "contains": "rich", "volume": "20 mL", "capacity": "25 mL"}
                for number in ("1", "2")
            },
            "w1": _WELL,
            "w2": _WELL,
            **{f"waste{number}": {"kind": "waste", "volume": "0 mL", "capacity": "50 mL"} for number in ("1", "2")},
        },
        "lines": {name: {**line, "max_flow": "1 mL/min"} for name, line in _LINES.items()},
        "devices": {
            "reglo": {
                "model": "ismatec-reglo-icc",
                "link": "sim:reglo",
                "address": "1",
                "channels": {
                    str(number): {"point": point, "tubing": "0.76 mm"}
                    for number, point in enumerate(("in1", "in2", "out1", "out2"), 1)
                },
            },
        },
    }
)
