"""`choroid wiring show`: what is connected to what, from the rig file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from choroid.common.table import aligned, as_csv
from choroid.rig_file.fleet import FleetDevice, described_rig, fleet, like_wells
from controller.rig.description import Line, Rig, Vessel
from controller.rig.families import by_thermostat
from controller.rig.problems import named
from controller.rig.quantities import quantity_text
from controller.rig.wiring import names

ROOM = "room"
SECTIONS: Mapping[str, str] = {
    "device": "devices: link, address, line settings",
    "output": "outputs: pump channels, relay contacts, set-points",
    "tubing": "tubing",
    "gas": "gas lines",
    "probe": "probes and other inputs",
    "power": "power",
    "electrodes": "electrodes",
    "agitation": "stirrers, shakers and rockers",
    "vessel": "vessels and their places",
}
"""Sections of the list, in its order."""


@dataclass(frozen=True, slots=True)
class Connection:
    """One row of the wiring list."""

    section: str
    item: str
    from_: str = ""
    to: str = ""
    through: str = ""
    detail: str = ""


COLUMNS = tuple(each.name.rstrip("_") for each in fields(Connection))


def wiring_of(rig: Rig) -> tuple[Connection, ...]:
    """Return the wiring list of a rig, section by section: each device, output, line, probe and vessel once."""
    devices = tuple(fleet(rig))
    return (
        *_devices(devices),
        *_outputs(rig, devices),
        *(_tubing(rig, name, line) for name, line in rig.lines.items()),
        *_gas(rig),
        *_probes(rig, devices),
        *_power(rig),
        *_electrodes(rig),
        *_agitation(rig),
        *(_vessel(rig, name, vessel, wells) for name, (vessel, wells) in like_wells(rig).items()),
    )


def wiring(path: Path) -> dict[str, Any]:
    """Return the wiring list of a rig file, as `choroid wiring show --json` prints it.

    Raises:
        RigError: The file does not describe a rig.
        OSError: The file cannot be read.
    """
    rig = described_rig(path)
    rows = [dict(zip(COLUMNS, astuple(row), strict=True)) for row in wiring_of(rig)]
    return {"file": str(path), "rig": rig.name, "connections": rows}


def as_text(answer: dict[str, Any]) -> str:
    """Return the list as text, a table for each section."""
    lines = [f"wiring list of {answer['rig']} ({answer['file']})"]
    for section, title in SECTIONS.items():
        rows = cells(answer, section)
        if rows:
            lines += ["", title, *(f"  {line}" for line in aligned(COLUMNS[1:], rows))]
    return "\n".join(lines)


def csv_text(answer: dict[str, Any]) -> str:
    """Return the list as CSV."""
    return as_csv(COLUMNS, [list(row.values()) for row in answer["connections"]])


def cells(answer: dict[str, Any], section: str) -> list[list[str]]:
    """Return the rows of one section, without its name."""
    return [list(row.values())[1:] for row in answer["connections"] if row["section"] == section]


def _devices(devices: tuple[FleetDevice, ...]) -> Iterator[Connection]:
    for each in devices:
        settings = ", ".join(
            f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}"
            for key, value in each.spec.settings.items()
            if "\n" not in str(value)
        )
        detail = f"{each.model.vendor} {each.model.name}{f'; {settings}' if settings else ''}"
        address = f"address {each.spec.address}" if each.spec.address else ""
        yield Connection("device", each.name, each.spec.link, address, each.line, detail)


def _outputs(rig: Rig, devices: tuple[FleetDevice, ...]) -> Iterator[Connection]:
    tasks = _tasks(rig)
    for each in devices:
        numbers = {f"{each.name}.{channel.point}": number for number, channel in each.spec.channels.items()}
        for point, kind in each.outputs.items():
            channel = f"channel {numbers[point]}" if point in numbers else ""
            yield Connection("output", point, each.name, tasks.get(point, "spare"), channel, kind)


def _tasks(rig: Rig) -> dict[str, str]:
    """Return what each output drives."""
    found: dict[str, list[str]] = {}
    for name, line in rig.lines.items():
        if line.pump is not None:
            found.setdefault(line.pump, []).append(f"pump of line {name}")
        if line.valve is not None:
            found.setdefault(line.valve, []).append(f"valve of line {name}")
    for name, agitator in rig.agitators.items():
        if agitator.drive is not None:
            found.setdefault(agitator.drive, []).append(f"motor of {agitator.kind} {name}")
    for name, selector in rig.selectors.items():
        rest = f"rests at {selector.rest}"
        found.setdefault(selector.valve, []).append(f"selector {name}, {rest}")
    lung, skin, watchdog = rig.organs.lung, rig.organs.skin, rig.safety.watchdog
    if lung is not None:
        for gas in (lung.air, lung.co2, lung.o2):
            found.setdefault(gas, []).append(f"gas over {lung.vessel}")
    if skin is not None:
        what = "bath of the jacket" if by_thermostat(rig) else f"heater, {skin.power_w:g} W"
        found.setdefault(skin.heater, []).append(what)
    if watchdog is not None:
        found.setdefault(watchdog.relay, []).append(f"power of {', '.join(watchdog.feeds)}")
    return {point: "; ".join(tasks) for point, tasks in found.items()}


def _tubing(rig: Rig, name: str, line: Line) -> Connection:
    parts = [
        f"pump {line.pump}" if line.pump else "",
        f"check valve {name}" if line.check_valve else "",
        f"filter {line.filter}" if line.filter else "",
        f"dialyser {line.dialyser}" if line.dialyser else "",
        f"valve {line.valve}" if line.valve else "",
    ]
    tubing = rig.upkeep.tubing.get(line.pump or "")
    size = f"bore {line.bore_mm:g} mm, {line.length_m:g} m{f', {line.material}' if line.material else ''}"
    head = "" if tubing is None else f"; pump head {tubing.material}"
    return Connection(
        "tubing", name, _port(rig, line), _end(rig, line), ", ".join(filter(None, parts)) or "passive", size + head
    )


def _port(rig: Rig, line: Line) -> str:
    """Return where a line leaves its source: a straw, an overflow, or nothing in particular."""
    vessel = rig.vessels.get(line.from_)
    if vessel is None:
        return _at_selector(rig, line.from_, line)
    if line.draws_above_ul:
        return f"{line.from_}, straw at {quantity_text(line.draws_above_ul, 'uL')}"
    if line.passive and line.port is None:
        level_ul = vessel.volume_ul if vessel.overflow_ul is None else vessel.overflow_ul
        return f"{line.from_}, overflow at {quantity_text(level_ul, 'uL')}"
    return line.from_


def _end(rig: Rig, line: Line) -> str:
    """Return where a line ends."""
    return line.to if line.to in rig.vessels else _at_selector(rig, line.to, line)


def _at_selector(rig: Rig, place: str, line: Line) -> str:
    """Return a junction, or the port of a selector."""
    if place not in rig.selectors:
        return place
    return f"{place}, common port" if line.port is None else f"{place}, port {line.port}"


def _gas(rig: Rig) -> Iterator[Connection]:
    lung = rig.organs.lung
    if lung is None:
        return
    for gas, point in (("air", lung.air), ("CO2", lung.co2), ("oxygen", lung.o2)):
        device = point.partition(".")[0]
        yield Connection(
            "gas", point, f"supply of {gas}", f"head space of {lung.vessel}", device, "over a sterile filter"
        )


def _probes(rig: Rig, devices: tuple[FleetDevice, ...]) -> Iterator[Connection]:
    uses = _uses(rig)
    for each in devices:
        for point, unit in each.sensors.items():
            at = each.spec.at or ROOM
            yield Connection("probe", point, at, each.name, unit, ", ".join(uses.get(point, ())))


def _uses(rig: Rig) -> dict[str, list[str]]:
    """Return the keys of the rig file that name each point."""
    found: dict[str, list[str]] = {}
    for wants in names(rig):
        if (value := wants.value(rig)) is not None:
            found.setdefault(value, []).append(".".join(wants.place))
    for name, agitator in rig.agitators.items():
        if agitator.measured is not None:
            found.setdefault(agitator.measured, []).append(f"agitators.{name}.measured")
    for line, limit in rig.safety.over_pressure.items():
        found.setdefault(limit.point, []).append(f"safety.over_pressure.{line}")
    for name, temperature in rig.safety.temperatures.items():
        found.setdefault(temperature.point, []).append(f"safety.temperatures.{name}")
    if (button := rig.safety.emergency_stop) is not None:
        found.setdefault(button.input, []).append("safety.emergency_stop")
    return found


def _power(rig: Rig) -> Iterator[Connection]:
    watchdog = rig.safety.watchdog
    for name in () if watchdog is None else watchdog.feeds:
        relay = "" if watchdog is None else watchdog.relay
        yield Connection(
            "power", name, "supply", name, f"contact {relay}", "closed only while the controller renews it"
        )


def _agitation(rig: Rig) -> Iterator[Connection]:
    for name, each in rig.agitators.items():
        drive = "set by a person" if each.drive is None else each.drive
        detail = f"{each.kind}, {each.speed_rpm:g} rpm{f'; measured by {each.measured}' if each.measured else ''}"
        yield Connection("agitation", name, drive, named(each.at), "", detail)


def _electrodes(rig: Rig) -> Iterator[Connection]:
    if (nerves := rig.nerves) is not None:
        detail = f"{nerves.electrodes} electrodes of {nerves.material}, {nerves.diameter_um:g} um; card {nerves.card}"
        yield Connection("electrodes", "array", nerves.link, ", ".join(rig.tissue), "", detail)


def _vessel(rig: Rig, name: str, vessel: Vessel, wells: tuple[str, ...]) -> Connection:
    ports = [
        *(f"{line} in" for line, of in rig.lines.items() if of.to in wells),
        *(f"{line} out" for line, of in rig.lines.items() if of.from_ in wells),
    ]
    holds = f"{quantity_text(vessel.volume_ul, 'uL')} of {quantity_text(vessel.capacity_ul, 'uL')}"
    medium = f" {vessel.contains}" if vessel.contains else ""
    return Connection("vessel", name, vessel.zone or ROOM, "", ", ".join(ports), f"{vessel.kind}, {holds}{medium}")
