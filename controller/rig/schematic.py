"""A rig as a graph that a page can draw: vessels, lines and what sits on them, without any geometry."""

from __future__ import annotations

from typing import Any

from controller.rig.description import Line, Rig, Vessel
from controller.rig.families import points_of
from controller.rig.organ_lines import organ_lines


def describe(rig: Rig) -> dict[str, Any]:
    """The graph, JSON-able; volumes in µL, pressures in kPa, None for what there is not.

    `vessels` are the nodes: name, kind, contains, volume_ul (at the start), capacity_ul, floor_ul, ceiling_ul, zone,
    and whether the organoid lives there. `lines` are the edges: name, from, to, pump, valve, filter, passive, organ.
    `filters` by name. `zones` are the spaces that the vessels name: name, temperature_c, and co2_pct and oxygen_pct, the
    shares of the gas; a vessel without a zone stands in the room. `probes` are the sensors: point, model, quantity,
    unit and `at`, the vessel or line where each sits. `heater`, `gas` and `electrodes` name the points of skin, lung and
    nerves and the vessels they act on.
    """
    lung, skin = rig.organs.lung, rig.organs.skin
    return {
        "vessels": [_vessel(rig, name, vessel) for name, vessel in rig.vessels.items()],
        "lines": [_line(rig, name, line) for name, line in rig.lines.items()],
        "filters": {
            name: {"pore_um": of.pore_um, "area_cm2": of.area_cm2, "max_pressure_kpa": of.max_pressure_kpa}
            for name, of in rig.filters.items()
        },
        "zones": [
            {"name": name, "temperature_c": of.temperature_c, "co2_pct": of.co2_pct, "oxygen_pct": of.oxygen_pct}
            for name, of in rig.zones.items()
        ],
        "probes": _probes(rig),
        "heater": None if skin is None else skin.heater,
        "gas": None if lung is None else {"air": lung.air, "co2": lung.co2, "o2": lung.o2, "vessel": lung.vessel},
        "electrodes": {"count": rig.nerves.electrodes, "vessel": next(iter(rig.tissue))} if rig.nerves else None,
    }


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


def _line(rig: Rig, name: str, line: Line) -> dict[str, Any]:
    return {
        "name": name,
        "from": line.from_,
        "to": line.to,
        "pump": line.pump,
        "valve": line.valve,
        "filter": line.filter,
        "passive": line.passive,
        "organ": _organ(rig, name),
    }


def _organ(rig: Rig, line: str) -> str | None:
    """Whose line it is; the way back belongs to the sterile barrier."""
    kidney = rig.organs.kidney_config
    if kidney is not None and line == kidney.return_:
        return "immune"
    if kidney is not None and line == kidney.dialyse:
        return "kidney"
    return next((each.organ for each in organ_lines(rig) if each.line == line), None)


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
