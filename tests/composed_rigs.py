"""Rigs of other shapes than the shipped ones: several chambers, several hearts, no kidney, no loop."""

from __future__ import annotations

from typing import Any

from controller.rig.description import Rig

FRESH = {
    "glucose": "21 mM",
    "lactate": "0 mM",
    "ammonia": "0.02 mM",
    "bicarbonate": "27.5 mM",
    "glutamine": "1.25 mM",
    "osmolality": "285 mOsm/kg",
}
WATSON_MARLOW = {"model": "watson-marlow-ascii", "link": "sim:pump"}
HEART = {"flow": "2 mL/min", "basal": "1 mL/min", "min": "0.3 mL/min", "max": "4 mL/min", "lease": "30 s"}


def two_plates(**changes: Any) -> Rig:
    """Return two chambers on one pump over a junction, one loop, no kidney, no other organ than the heart."""
    return _rig(
        name="two-plates",
        tissue={"left": _tissue(6), "right": _tissue(4, batch="b7")},
        vessels={
            "bottle": {"contains": "fresh", "volume": "200 mL", "capacity": "250 mL", "kind": "loop"},
            "left": _chamber(),
            "right": _chamber(),
        },
        junctions={"split": {}},
        lines={
            "feed": {"from": "bottle", "to": "split", "pump": "pump.pump"},
            "to_left": {"from": "split", "to": "left", "passive": True},
            "to_right": {"from": "split", "to": "right", "passive": True},
            "from_left": {"from": "left", "to": "bottle", "passive": True},
            "from_right": {"from": "right", "to": "bottle", "passive": True},
        },
        devices={
            "pump": WATSON_MARLOW,
            "ph": {"model": "atlas-ezo-ph", "link": "sim:ph", "at": "bottle"},
            "arc": {"model": "hamilton-ph-arc", "link": "sim:arc", "at": "bottle"},
            "balance": {"model": "mettler-sics", "link": "sim:balance", "at": "bottle"},
        },
        organs={"hearts": {"heart": {"line": "feed", **HEART}}},
        **changes,
    )


def single_pass(**changes: Any) -> Rig:
    """Return a heart that draws from a bottle; what overflows the chamber runs into waste. There is no loop."""
    return _rig(
        name="single-pass",
        tissue={"chip": _tissue(1)},
        vessels={
            "bottle": {"contains": "fresh", "volume": "200 mL", "capacity": "250 mL", "kind": "source"},
            "chip": _chamber(),
            "waste": {"volume": "0 mL", "capacity": "1 L", "kind": "waste"},
        },
        lines={
            "feed": {"from": "bottle", "to": "chip", "pump": "pump.pump"},
            "out": {"from": "chip", "to": "waste", "passive": True},
        },
        devices={"pump": WATSON_MARLOW},
        organs={"hearts": {"heart": {"line": "feed", **HEART}}},
        **changes,
    )


def two_hearts(**changes: Any) -> Rig:
    """Return two hearts on one loop, each with a chamber of its own, and no kidney."""
    return _rig(
        name="two-hearts",
        tissue={"one": _tissue(3), "two": _tissue(5)},
        vessels={
            "bottle": {"contains": "fresh", "volume": "100 mL", "capacity": "250 mL", "kind": "loop"},
            "one": _chamber(),
            "two": _chamber(),
        },
        lines={
            "feed_one": {"from": "bottle", "to": "one", "pump": "icc.one"},
            "feed_two": {"from": "bottle", "to": "two", "pump": "icc.two"},
            "from_one": {"from": "one", "to": "bottle", "passive": True},
            "from_two": {"from": "two", "to": "bottle", "passive": True},
        },
        devices={
            "icc": {
                "model": "ismatec-reglo-icc",
                "link": "sim:icc",
                "channels": {
                    "1": {"point": "one", "tubing": "1.02 mm"},
                    "2": {"point": "two", "tubing": "1.02 mm"},
                },
            },
        },
        organs={"hearts": {"one": {"line": "feed_one", **HEART}, "two": {"line": "feed_two", **HEART}}},
        **changes,
    )


def straw(**changes: Any) -> Rig:
    """Return a vial that is fed from a bottle and emptied by a straw at 14 mL into a waste."""
    return _rig(
        name="straw",
        tissue={"vial": _tissue(2)},
        vessels={
            "bottle": {"contains": "fresh", "volume": "200 mL", "capacity": "250 mL", "kind": "source"},
            "vial": {**_chamber(), "volume": "14 mL", "capacity": "25 mL"},
            "waste": {"volume": "0 mL", "capacity": "1 L", "kind": "waste"},
        },
        lines={
            "feed": {"from": "bottle", "to": "vial", "pump": "feeder.pump"},
            "extract": {"from": "vial", "to": "waste", "pump": "extractor.pump", "draws_above": "14 mL"},
        },
        devices={
            "feeder": {"model": "atlas-ezo-pmp", "link": "sim:feeder"},
            "extractor": {"model": "atlas-ezo-pmp", "link": "sim:extractor"},
        },
        organs={"gut": {"feed": "feed", "flow": "1 mL/min"}},
        **changes,
    )


def dishes(count: int = 2, **changes: Any) -> Rig:
    """Return dishes that a person feeds, with a thermometer; nothing is pumped."""
    names = [f"dish{number + 1}" for number in range(count)]
    return _rig(
        name="dishes",
        tissue={name: _tissue(1) for name in names},
        vessels={name: _chamber() for name in names},
        lines={},
        devices={"thermometer": {"model": "atlas-ezo-rtd", "link": "sim:thermometer", "at": names[0]}},
        organs={},
        **changes,
    )


def _rig(**parts: Any) -> Rig:
    zones = {"incubator": {"temperature": "37 degC", "co2": "5 %", "oxygen": "18.6 %"}}
    for vessel in parts["vessels"].values():
        vessel.setdefault("zone", "incubator")
    return Rig.model_validate({"choroid": 1, "media": {"fresh": FRESH}, "zones": zones, **parts})


def _chamber() -> dict[str, Any]:
    return {"contains": "fresh", "volume": "12 mL", "capacity": "15 mL", "kind": "chamber"}


def _tissue(count: int, **more: Any) -> dict[str, Any]:
    return {"count": count, "diameter": "2 mm", "age": "40 d", **more}
