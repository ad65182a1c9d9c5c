"""Rigs of other shapes than the shipped ones, made in code: as descriptions, which need not be sound."""

from __future__ import annotations

from typing import Any

from controller.rig.description import Rig

MEDIUM = {
    "glucose": "21 mM", "lactate": "0 mM", "ammonia": "0.02 mM", "bicarbonate": "27.5 mM", "glutamine": "1.25 mM",
    "osmolality": "285 mOsm/kg",
}  # fmt: skip
INCUBATOR = {"temperature": "37 degC", "co2": "5 %", "oxygen": "18.6 %"}


def tissue(batch: str = "B-7") -> dict[str, Any]:
    """One organoid."""
    return {"count": 1, "diameter": "2.5 mm", "age": "60 d", "batch": batch, "cell_line": "WTC-11"}


def vessel(kind: str, volume: str, capacity: str, **more: Any) -> dict[str, Any]:
    """A vessel with medium."""
    return {"kind": kind, "volume": volume, "capacity": capacity, "contains": "fresh", **more}


def heart(line: str) -> dict[str, Any]:
    """A heart of 2 mL/min."""
    flows = {"flow": "2 mL/min", "basal": "1 mL/min", "min": "0.3 mL/min", "max": "4 mL/min"}
    return {"line": line, "lease": "30 s", **flows}


def probe(model: str, at: str) -> dict[str, Any]:
    """A simulated probe."""
    return {"model": model, "link": f"sim:{at}-{model}", "at": at}


def rig(**parts: Any) -> Rig:
    """A rig of these parts."""
    return Rig.model_validate({"choroid": 1, "name": "sample", "media": {"fresh": MEDIUM}, "devices": {}, **parts})


def dish() -> Rig:
    """One dish in an incubator, with a thermometer; fed by hand."""
    return rig(
        name="single-dish",
        tissue={"dish": tissue()},
        zones={"incubator": INCUBATOR},
        vessels={"dish": vessel("chamber", "3 mL", "5 mL", zone="incubator")},
        devices={"t_dish": probe("atlas-ezo-rtd", "dish")},
    )


def sixteen() -> Rig:
    """Sixteen chambers on the sixteen channels of four pumps, one loop and one kidney."""
    chambers = [f"chamber{n}" for n in range(1, 17)]
    lines: dict[str, Any] = {
        "draw": {"from": "loop", "to": "spent", "pump": "kidney.draw"},
        "return": {"from": "spent", "to": "loop", "pump": "kidney.return", "filter": "sterile"},
        "discard": {"from": "spent", "to": "waste", "pump": "kidney.discard"},
        "feed": {"from": "reservoir", "to": "spent", "pump": "dose_fresh.pump"},
    }
    pumps: dict[str, Any] = {}
    for n, name in enumerate(chambers):
        pump, channel = f"reglo{n // 4 + 1}", str(n % 4 + 1)
        lines[f"heart{n + 1}"] = {"from": "loop", "to": name, "pump": f"{pump}.heart{n + 1}"}
        lines[f"overflow{n + 1}"] = {"from": name, "to": "loop", "passive": True}
        device = pumps.setdefault(pump, {"model": "ismatec-reglo-icc", "link": f"sim:{pump}", "channels": {}})
        device["channels"][channel] = {"point": f"heart{n + 1}"}
    points = {str(n): {"point": each} for n, each in enumerate(("draw", "return", "discard"), 1)}
    return rig(
        name="sixteen-chambers",
        tissue={name: tissue(f"B-{n}") for n, name in enumerate(chambers)},
        zones={"incubator": INCUBATOR},
        vessels={
            "reservoir": vessel("source", "500 mL", "520 mL"),
            "loop": vessel("loop", "40 mL", "60 mL", zone="incubator"),
            "spent": vessel("process", "3 mL", "45 mL", zone="incubator"),
            "waste": {"kind": "waste", "volume": "0 mL", "capacity": "2 L"},
            **{name: vessel("chamber", "2 mL", "3 mL", zone="incubator") for name in chambers},
        },
        filters={"sterile": {"pore": "0.2 um", "area": "4 cm^2", "max_pressure": "80 kPa", "bubble_point": "3.45 bar"}},
        lines=lines,
        devices={
            **pumps,
            "kidney": {"model": "ismatec-reglo-icc", "link": "sim:kidney", "channels": points},
            "dose_fresh": {"model": "atlas-ezo-pmp", "link": "sim:dose_fresh"},
            "ph_loop": probe("atlas-ezo-ph", "loop"),
            "do_loop": probe("atlas-ezo-do", "loop"),
            "balance": probe("mettler-sics", "spent"),
            **{f"t{n}": probe("atlas-ezo-rtd", name) for n, name in enumerate(chambers, 1)},
        },
        organs={
            "hearts": {f"heart{n}": heart(f"heart{n}") for n in range(1, 17)},
            "kidney": {
                "vessel": "spent", "waste": "waste", "draw": "draw", "return": "return", "discard": "discard",
                "mass": "balance.mass", "flow": "4 mL/min",
            },
            "gut": {"feed": "feed", "flow": "10 mL/min"},
        },
    )  # fmt: skip


def plates(count: int = 1, wells: tuple[int, int] = (8, 12)) -> Rig:
    """Well plates in an incubator, without a pump."""
    rows, columns = wells
    names = [
        f"plate{n}-{'ABCDEFGHIJKLMNOP'[row]}{column}"
        for n in range(1, count + 1)
        for row in range(rows)
        for column in range(1, columns + 1)
    ]
    return rig(
        name="well-plates",
        tissue={name: tissue() for name in names},
        zones={"incubator": INCUBATOR},
        vessels={name: vessel("chamber", "200 uL", "360 uL", zone="incubator") for name in names},
        devices={"co2": probe("vaisala-gmp25x", "incubator")},
    )


def unequal_branches() -> Rig:
    """Two chambers behind one pump and a junction, one by a tube of twice the length; passive overflows back."""
    return rig(
        name="unequal-branches",
        tissue={"plate_a": tissue(), "plate_b": tissue()},
        zones={"incubator": INCUBATOR},
        vessels={
            "bottle": vessel("loop", "200 mL", "250 mL", zone="incubator"),
            "plate_a": vessel("chamber", "12 mL", "16 mL", zone="incubator"),
            "plate_b": vessel("chamber", "12 mL", "16 mL", zone="incubator"),
        },
        junctions={"split": {}},
        lines={
            "heart": {"from": "bottle", "to": "split", "pump": "pump.pump"},
            "branch_a": {"from": "split", "to": "plate_a", "passive": True},
            "branch_b": {"from": "split", "to": "plate_b", "passive": True, "length": "1 m"},
            "back_a": {"from": "plate_a", "to": "bottle", "passive": True},
            "back_b": {"from": "plate_b", "to": "bottle", "passive": True},
        },
        devices={
            "pump": {"model": "watson-marlow-ascii", "link": "sim:pump"},
            "ph_atlas": probe("atlas-ezo-ph", "bottle"),
            "ph_arc": probe("hamilton-ph-arc", "bottle"),
            "balance": probe("mettler-sics", "bottle"),
        },
        organs={"hearts": {"heart": heart("heart")}},
    )


def many_ways() -> Rig:
    """Six chambers in three pairs behind two hearts, with bottles, three waste bottles, long names and many probes."""
    chambers = [f"chamber_{n}" for n in range(1, 7)]
    long = "harvest_of_the_conditioned_medium_no_001"
    lines: dict[str, Any] = {
        "heart_left": {"from": "bottle", "to": "split_left", "pump": "icc.left"},
        "heart_right": {"from": "bottle", "to": "split_right", "pump": "icc.right", "filter": "sterile"},
        "feed_by_the_dosing_pump_of_the_lab": {"from": "fresh", "to": "bottle", "pump": "dose.pump"},
        "factor": {"from": "growth_factor", "to": "chamber_6", "pump": "dose2.pump"},
        "harvest": {"from": "bottle", "to": long, "pump": "icc.harvest"},
        "skim": {"from": "chamber_6", "to": "waste", "pump": "icc.skim"},
        "through": {"from": "chamber_5", "to": "chamber_6", "passive": True},
    }
    for n, name in enumerate(chambers):
        side = "left" if n < 3 else "right"
        if n < 5:
            lines[f"branch_{n}"] = {"from": f"split_{side}", "to": name, "passive": True}
            lines[f"back_{n}"] = {"from": name, "to": "bottle", "passive": True}
    points = {str(n): {"point": each} for n, each in enumerate(("left", "right", "harvest", "skim"), 1)}
    return rig(
        name="many-ways",
        tissue={name: tissue() for name in chambers},
        zones={"incubator": INCUBATOR, "refrigerator": {"temperature": "4 degC"}},
        vessels={
            "bottle": vessel("loop", "200 mL", "250 mL", zone="incubator"),
            "fresh": vessel("source", "200 mL", "250 mL", zone="refrigerator"),
            "growth_factor": vessel("source", "20 mL", "25 mL", zone="refrigerator"),
            "idle": vessel("source", "20 mL", "25 mL"),
            "waste": {"kind": "waste", "volume": "0 mL", "capacity": "2 L"},
            long: {"kind": "waste", "volume": "0 mL", "capacity": "2 L"},
            **{name: vessel("chamber", "2 mL", "3 mL", zone="incubator") for name in chambers},
        },
        junctions={"split_left": {}, "split_right": {}},
        filters={"sterile": {"pore": "0.2 um", "area": "4 cm^2", "max_pressure": "80 kPa", "bubble_point": "3.45 bar"}},
        lines=lines,
        devices={
            "icc": {"model": "ismatec-reglo-icc", "link": "sim:icc", "channels": points},
            "dose": {"model": "atlas-ezo-pmp", "link": "sim:dose"},
            "dose2": {"model": "atlas-ezo-pmp", "link": "sim:dose2"},
            **{f"ph{n}": probe("atlas-ezo-ph", "bottle") for n in range(5)},
            "p_left": probe("keller-x-line", "heart_left"),
            "p_right": probe("keller-x-line", "heart_right"),
            "f_right": probe("sensirion-slf3x", "heart_right"),
            **{f"t{n}": probe("atlas-ezo-rtd", name) for n, name in enumerate(chambers, 1)},
        },
        organs={"hearts": {"left": heart("heart_left"), "right": heart("heart_right")}},
    )


def vial() -> Rig:
    """A vial whose level a straw sets: fed from a bottle, emptied into waste."""
    return rig(
        name="straw-vial",
        tissue={"vial": tissue()},
        zones={"block": {"temperature": "37 degC"}},
        vessels={
            "fresh": vessel("source", "200 mL", "250 mL"),
            "vial": vessel("chamber", "20 mL", "25 mL", zone="block"),
            "waste": {"kind": "waste", "volume": "0 mL", "capacity": "2 L"},
        },
        lines={
            "feed": {"from": "fresh", "to": "vial", "pump": "feed.pump"},
            "straw": {"from": "vial", "to": "waste", "pump": "out.pump", "draws_above": "20 mL"},
        },
        devices={
            "feed": {"model": "atlas-ezo-pmp", "link": "sim:feed"},
            "out": {"model": "atlas-ezo-pmp", "link": "sim:out"},
            "t_vial": probe("atlas-ezo-rtd", "vial"),
            "balance": probe("sartorius-sbi", "waste"),
        },
    )


def wells_behind_selectors(count: int = 24) -> Rig:
    """Wells behind two selectors for the doses and two for the extraction, and a choice of three media."""
    wells = [f"w{number:02d}" for number in range(1, count + 1)]
    passive = {"passive": True}
    lines: dict[str, Any] = {
        f"{medium}_in": {"from": medium, "to": "media", "port": port, **passive}
        for port, medium in enumerate(("growth", "assay", "wash"), start=1)
    }
    lines |= {
        "dose": {"from": "media", "to": "inlet_1", "pump": "reglo.dose"},
        "take": {"from": "outlet_1", "to": "waste", "pump": "reglo.take"},
        "flush": {"from": "inlet_1", "to": "waste", "port": 14, **passive},
        "on": {"from": "inlet_1", "to": "inlet_2", "port": 13, **passive},
        "back": {"from": "outlet_2", "to": "outlet_1", "port": 13, **passive},
    }
    for number, well in enumerate(wells):
        valve, port = number // 12 + 1, number % 12 + 1
        lines[f"to_{well}"] = {"from": f"inlet_{valve}", "to": well, "port": port, **passive}
        lines[f"from_{well}"] = {"from": well, "to": f"outlet_{valve}", "port": port, **passive}
    selectors = ("media", "inlet_1", "inlet_2", "outlet_1", "outlet_2")
    valves = {
        f"v_{name}": {
            "model": "vici-actuator", "link": f"sim:{name}", "settings": {"positions": 16, "rest_position": 16},
        }
        for name in selectors
    }  # fmt: skip
    return rig(
        name="wells-behind-selectors",
        tissue=dict.fromkeys(wells, tissue()),
        zones={"incubator": {"temperature": "37 degC", "co2": "5 %"}},
        vessels={
            **{medium: vessel("source", "200 mL", "250 mL") for medium in ("growth", "assay", "wash")},
            **{well: vessel("chamber", "1 mL", "2 mL", zone="incubator") for well in wells},
            "waste": {"kind": "waste", "volume": "0 mL", "capacity": "2 L"},
        },
        selectors={name: {"valve": f"v_{name}.valve", "rest": 16} for name in selectors},
        lines=lines,
        devices={
            "reglo": {
                "model": "ismatec-reglo-icc", "link": "sim:reglo",
                "channels": {"1": {"point": "dose"}, "2": {"point": "take"}},
            },
            **valves,
        },
    )  # fmt: skip


SAMPLES = {
    "dish": dish, "sixteen": sixteen, "plate of 96": plates, "two plates of 96": lambda: plates(2),
    "plate of 384": lambda: plates(1, (16, 24)), "plate of 24": lambda: plates(1, (4, 6)),
    "unequal branches": unequal_branches, "many ways": many_ways, "vial": vial,
    "24 wells behind selectors": wells_behind_selectors,
}  # fmt: skip
"""Rigs by name."""
