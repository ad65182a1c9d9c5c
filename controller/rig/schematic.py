"""A rig as a graph that a page can draw: vessels, lines and what sits on them, without any geometry."""

from __future__ import annotations

from typing import Any

from controller.rig.description import Line, Rig, Vessel
from controller.rig.families import points_of
from controller.rig.graph import chambers_of_heart, heart_of_line, lines_of_heart, splits
from controller.rig.selectors import ports_of


def describe(rig: Rig) -> dict[str, Any]:
    """Return the graph, JSON-able; volumes in µL, pressures in kPa, None for what there is not.

    `vessels` are the nodes: name, kind, contains, volume_ul (at the start), capacity_ul, floor_ul, ceiling_ul, zone,
    and whether tissue lives there. `junctions` are nodes without volume, and so are `selectors`: name, valve, position (the
    point that reports it), rest, and ports: the line at each position. `lines` are the edges: name, from, to, pump, valve,
    filter, dialyser, port, passive, organ, heart (its name, of a line that a heart's pump drives), and share: the estimated
    part that a passive line takes of what leaves its beginning. `filters` and `dialysers` by name. `zones` are the spaces
    that the vessels name: name, temperature_c, and co2_pct and oxygen_pct, the shares of the gas; a vessel without a zone
    stands in the room. `probes` are the sensors: point, model, quantity, unit and `at`, the vessel or line where each sits.
    `heater`, `gas` and `electrodes` name the points of skin, lung and nerves and the vessels they act on; `heated` is the
    vessel of the heater, and None where the rig does not say it.
    """
    lung, skin = rig.organs.lung, rig.organs.skin
    organs = _organs_of_lines(rig)
    shares = {
        line: share
        for place in (*rig.vessels, *rig.junctions, *rig.selectors)
        for line, share in splits(rig, place).items()
    }
    return {
        "vessels": [_vessel(rig, name, vessel) for name, vessel in rig.vessels.items()],
        "junctions": [{"name": name} for name in rig.junctions],
        "selectors": [_selector(rig, name) for name in rig.selectors],
        "lines": [
            _line(rig, name, line) | {"organ": organs.get(name), "share": shares.get(name)}
            for name, line in rig.lines.items()
        ],
        **_in_lines(rig),
        "zones": [
            {"name": name, "temperature_c": of.temperature_c, "co2_pct": of.co2_pct, "oxygen_pct": of.oxygen_pct}
            for name, of in rig.zones.items()
        ],
        "probes": _probes(rig),
        "heater": None if skin is None else skin.heater,
        "heated": None if skin is None else _heated(rig, skin.temperature),
        "gas": None if lung is None else {"air": lung.air, "co2": lung.co2, "o2": lung.o2, "vessel": lung.vessel},
        "electrodes": {"count": rig.nerves.electrodes, "vessel": _only_tissue(rig)} if rig.nerves else None,
    }


def _in_lines(rig: Rig) -> dict[str, Any]:
    """Return what sits in lines, by name: filters and dialysers."""
    return {
        "filters": {
            name: {"pore_um": of.pore_um, "area_cm2": of.area_cm2, "max_pressure_kpa": of.max_pressure_kpa}
            for name, of in rig.filters.items()
        },
        "dialysers": {name: {"vessel": of.vessel, "cut_off_kda": of.cut_off_kda} for name, of in rig.dialysers.items()},
    }


def hearts(rig: Rig) -> list[dict[str, Any]]:
    """Return the hearts: name, line, pump, flow_ul_min, and by chamber the share of the flow that passes it."""
    return [
        {
            "name": name,
            "line": heart.line,
            "pump": rig.lines[heart.line].pump,
            "flow_ul_min": heart.flow_ul_min,
            "chambers": chambers_of_heart(rig, name),
        }
        for name, heart in rig.organs.hearts.items()
    ]


def _only_tissue(rig: Rig) -> str | None:
    """Return the chamber with tissue; None if there are several."""
    return next(iter(rig.tissue)) if len(rig.tissue) == 1 else None


def _heated(rig: Rig, thermometer: str) -> str | None:
    """Return the vessel that the heater warms: the only chamber with tissue, else where its thermometer stands."""
    device = rig.devices.get(thermometer.partition(".")[0])
    at = None if device is None else device.at
    return _only_tissue(rig) or (at if at in rig.vessels else None)


def _vessel(rig: Rig, name: str, vessel: Vessel) -> dict[str, Any]:
    return {
        "name": name,
        "kind": vessel.kind,
        "contains": vessel.contains,
        "volume_ul": vessel.volume_ul,
        "capacity_ul": vessel.capacity_ul,
        "floor_ul": vessel.floor_ul,
        "ceiling_ul": vessel.limit_ul,
        "zone": vessel.zone,
        "organoid": name in rig.tissue,
    }


def _selector(rig: Rig, name: str) -> dict[str, Any]:
    selector = rig.selectors[name]
    return {
        "name": name,
        "valve": selector.valve,
        "position": f"{selector.valve.partition('.')[0]}.position",
        "rest": selector.rest,
        "ports": {str(port): line for port, line in ports_of(rig, name).items()},
    }


def _line(rig: Rig, name: str, line: Line) -> dict[str, Any]:
    return {
        "name": name,
        "from": line.from_,
        "to": line.to,
        "pump": line.pump,
        "valve": line.valve,
        "filter": line.filter,
        "dialyser": line.dialyser,
        "port": line.port,
        "passive": line.passive,
        "heart": heart_of_line(rig, name),
    }


def _organs_of_lines(rig: Rig) -> dict[str | None, str]:
    """Return whose line each is; the way back belongs to the sterile barrier."""
    organs = rig.organs
    found: dict[str | None, str] = {line: "heart" for heart in organs.hearts for line in lines_of_heart(rig, heart)}
    if (kidney := organs.kidney) is not None:
        found |= {kidney.draw: "kidney", kidney.discard: "kidney", kidney.dialyse: "kidney", kidney.return_: "immune"}
    if organs.gut is not None:
        found[organs.gut.feed] = "gut"
    if organs.liver is not None:
        found |= {organs.liver.glucose: "liver", organs.liver.base: "liver"}
    return found


def _probes(rig: Rig) -> list[dict[str, Any]]:
    probes = []
    for point, kind in points_of(rig).items():
        device = rig.devices[point.partition(".")[0]]
        if kind.kind == "sensor":
            probes.append(
                {
                    "point": point,
                    "model": device.model,
                    "quantity": kind.quantity,
                    "unit": kind.unit,
                    "at": device.at,
                }
            )
    return probes
