"""Rigs of other shapes, built in code for validation and benchmarks: wells, a manifold, hearts on a shared loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controller.rig.description import Rig

FRESH = {
    "glucose": "21 mM", "lactate": "0 mM", "ammonia": "0.02 mM", "bicarbonate": "27.5 mM", "glutamine": "1.25 mM",
    "osmolality": "285 mOsm/kg",
}  # fmt: skip
INCUBATOR = {"temperature": "37 degC", "co2": "5 %", "oxygen": "18.6 %"}
Specs = Mapping[str, Mapping[str, Any]]


def build(vessels: Specs, lines: Specs, tissue: Specs, **rest: Any) -> Rig:
    """Return a rig whose vessels stand in an incubator, filled with fresh medium unless they say otherwise."""
    inside = {"zone": "incubator", "contains": "fresh"}
    return Rig.model_validate(
        {
            "choroid": 1, "name": "made", "media": {"fresh": FRESH}, "zones": {"incubator": INCUBATOR}, "devices": {},
            "vessels": {name: {**inside, **spec} for name, spec in vessels.items()},
            "lines": lines, "tissue": tissue, **rest,
        }
    )  # fmt: skip


def heart(line: str, flow_ul_min: float) -> dict[str, str]:
    """Return a heart on a line."""
    flows = {"flow": 1.0, "basal": 0.5, "min": 0.1, "max": 2.0}
    return {"line": line, "lease": "30 s", **{key: f"{flow_ul_min * part} uL/min" for key, part in flows.items()}}


def organoids(count: int = 1, diameter_mm: float = 2.0) -> dict[str, Any]:
    """Return the tissue of a chamber."""
    return {"count": count, "diameter": f"{diameter_mm} mm", "age": "60 d"}


def wells(count: int, *, volume_ul: float = 200.0, capacity_ul: float = 360.0, diameter_mm: float = 1.0) -> Rig:
    """Return wells of a plate without any line, with an organoid each."""
    names = [f"w{number}" for number in range(count)]
    spec = {"kind": "chamber", "volume": f"{volume_ul} uL", "capacity": f"{capacity_ul} uL"}
    return build(dict.fromkeys(names, spec), {}, dict.fromkeys(names, organoids(diameter_mm=diameter_mm)))


def manifold(
    count: int, *, lengths_m: Sequence[float] = (), bores_mm: Sequence[float] = (), each_ul_min: float = 500.0,
    tissue: Specs | None = None,
) -> Rig:  # fmt: skip
    """Return one heart, a junction, and a branch to each chamber, which runs over into the loop again."""
    names = [f"c{number}" for number in range(count)]
    lines: dict[str, dict[str, Any]] = {
        "feed": {"from": "loop", "to": "split", "pump": "pump.feed", "bore": "2.5 mm", "length": "0.5 m"}
    }
    for number, name in enumerate(names):
        lines[f"to_{name}"] = {
            "from": "split", "to": name, "passive": True, "bore": f"{bores_mm[number] if bores_mm else 1.0} mm",
            "length": f"{lengths_m[number] if lengths_m else 0.3} m",
        }  # fmt: skip
        lines[f"from_{name}"] = {"from": name, "to": "loop", "passive": True}
    return build(
        _loop_and_chambers(names), lines, tissue or dict.fromkeys(names, organoids()), junctions={"split": {}},
        organs={"hearts": {"heart": heart("feed", each_ul_min * count)}},
    )  # fmt: skip


def shared_loop(count: int, *, each_ul_min: float = 500.0) -> Rig:
    """Return a heart for each chamber, all on one loop."""
    names = [f"c{number}" for number in range(count)]
    lines: dict[str, dict[str, Any]] = {}
    for name in names:
        lines[f"to_{name}"] = {
            "from": "loop", "to": name, "pump": f"pump.{name}", "bore": "1.02 mm", "length": "0.5 m",
        }  # fmt: skip
        lines[f"from_{name}"] = {"from": name, "to": "loop", "passive": True}
    hearts = {f"heart-{name}": heart(f"to_{name}", each_ul_min) for name in names}
    return build(
        _loop_and_chambers(names), lines, dict.fromkeys(names, organoids()), organs={"hearts": hearts}
    )  # fmt: skip


def selected(count: int, *, inhabited: int | None = None) -> Rig:
    """Return wells behind two selectors; a third one chooses between the bottles `fresh` and `plain` (without glucose).

    Tissue lives in the first `inhabited` wells; None: in all.
    `supply` and `takeoff` have a well at each port, then the waste, then a closed port; `choice` has one of each bottle.
    """
    names = [f"w{number}" for number in range(1, count + 1)]
    short = {"passive": True, "bore": "0.3 mm", "length": "0.01 m"}
    common = {"bore": "0.8 mm", "length": "0.5 m"}
    lines: dict[str, dict[str, Any]] = {
        "from_fresh": {"from": "fresh", "to": "choice", "port": 1, **short},
        "from_plain": {"from": "plain", "to": "choice", "port": 2, **short},
        "dose": {"from": "choice", "to": "supply", "pump": "pump.dose", **common},
        "take": {"from": "takeoff", "to": "waste", "pump": "pump.take", **common},
        "flush": {"from": "supply", "to": "waste", "port": count + 1, **short},
    }
    for port, name in enumerate(names, start=1):
        lines[f"to_{name}"] = {"from": "supply", "to": name, "port": port, **short}
        lines[f"from_{name}"] = {"from": name, "to": "takeoff", "port": port, **short}
    bottle = {"kind": "source", "volume": "100 mL", "capacity": "120 mL"}
    well = {"kind": "chamber", "volume": "1 mL", "capacity": "2 mL", "surface": "1.9 cm^2"}
    vessels: dict[str, dict[str, Any]] = {
        "fresh": bottle, "plain": {**bottle, "contains": "plain"}, **dict.fromkeys(names, well),
        "waste": {"kind": "waste", "volume": "0 mL", "capacity": "500 mL", "contains": None},
    }  # fmt: skip
    selectors = {
        name: {"valve": f"{name}.valve", "rest": rest}
        for name, rest in (("choice", 3), ("supply", count + 2), ("takeoff", count + 2))
    }
    media = {"fresh": FRESH, "plain": {**FRESH, "glucose": "0 mM"}}
    tissue = dict.fromkeys(names[:inhabited], organoids(diameter_mm=1.0))
    return build(vessels, lines, tissue, selectors=selectors, media=media)


def _loop_and_chambers(names: Sequence[str]) -> dict[str, dict[str, str]]:
    chamber = {"kind": "chamber", "volume": "2 mL", "capacity": "3 mL"}
    loop = {"kind": "loop", "volume": f"{40 + 2 * len(names)} mL", "capacity": "1 L"}
    return {"loop": loop, **dict.fromkeys(names, chamber)}
