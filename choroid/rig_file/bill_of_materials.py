"""`choroid bom show`: the bill of materials of a rig, from its file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from choroid.common.table import aligned, as_csv
from choroid.rig_file.fleet import WELL, described_rig, fleet
from controller.rig.description import Line, Rig
from controller.rig.quantities import quantity_text

PROBES: Mapping[str, str] = {
    "atlas-ezo-ph": "pH electrode for the circuit",
    "atlas-ezo-do": "oxygen probe for the circuit",
    "atlas-ezo-rtd": "PT-1000 probe for the circuit",
    "atlas-ezo-ec": "conductivity probe for the circuit",
    "atlas-ezo-orp": "redox electrode for the circuit",
}
"""Models that are a circuit, to which a probe belongs."""
PASSIVE = (
    "probe",
    "tubing",
    "fitting",
    "filter",
    "dialyser",
    "valve part",
    "vessel",
    "electrodes",
    "agitator",
    "disposable",
)
"""Categories of parts without a link."""


@dataclass(frozen=True, slots=True)
class Item:
    """One row of the bill of materials."""

    category: str
    item: str
    maker: str
    quantity: float
    unit: str
    used_by: str


COLUMNS = tuple(each.name for each in fields(Item))


def bill_of(rig: Rig) -> tuple[Item, ...]:
    """Return the bill of materials of a rig: equal parts are one row."""
    return (
        *_devices(rig),
        *_probes(rig),
        *_tubing(rig),
        *_fittings(rig),
        *_parts(rig),
        *_vessels(rig),
        *_array(rig),
        *_others(rig),
    )


def bill(path: Path) -> dict[str, Any]:
    """Return the bill of materials of a rig file, as `choroid bom show --json` prints it.

    Raises:
        RigError: The file does not describe a rig.
        OSError: The file cannot be read.
    """
    rig = described_rig(path)
    items = [dict(zip(COLUMNS, astuple(item), strict=True)) for item in bill_of(rig)]
    return {"file": str(path), "rig": rig.name, "items": items}


def as_text(answer: dict[str, Any]) -> str:
    """Return the bill as a text table."""
    return "\n".join([f"bill of materials of {answer['rig']} ({answer['file']})", *aligned(COLUMNS, cells(answer))])


def csv_text(answer: dict[str, Any]) -> str:
    """Return the bill as CSV."""
    return as_csv(COLUMNS, cells(answer))


def cells(answer: dict[str, Any]) -> list[list[str]]:
    """Return the rows as texts."""
    return [[f"{cell:g}" if isinstance(cell, float) else str(cell) for cell in row.values()] for row in answer["items"]]


def _grouped(category: str, uses: Iterable[tuple[tuple[str, str], float, str]], unit: str = "") -> Iterator[Item]:
    """Yield one row for each equal part: `uses` are (part and maker), quantity, and who needs it."""
    found: dict[tuple[str, str], tuple[float, list[str]]] = {}
    for part, quantity, user in uses:
        total, users = found.get(part, (0.0, []))
        found[part] = round(total + quantity, 6), [*users, user]
    for (item, maker), (total, users) in found.items():
        yield Item(category, item, maker, total, unit, ", ".join(dict.fromkeys(users)))


def _devices(rig: Rig) -> Iterator[Item]:
    kinds: dict[str, list[tuple[tuple[str, str], float, str]]] = {}
    for each in fleet(rig):
        model = each.model
        kinds.setdefault(model.kind, []).append(((f"{model.name} ({model.id})", model.vendor), 1.0, each.name))
    for kind, uses in kinds.items():
        yield from _grouped(kind, uses)


def _probes(rig: Rig) -> Iterator[Item]:
    yield from _grouped(
        "probe",
        (((PROBES[spec.model], ""), 1.0, name) for name, spec in rig.devices.items() if spec.model in PROBES),
    )


def _tubing(rig: Rig) -> Iterator[Item]:
    """Yield tubing in metres by bore, and the pieces in pump heads by bore and material."""
    lines = (
        ((f"tubing{f' {line.material}' if line.material else ''}, bore {line.bore_mm:g} mm", ""), line.length_m, name)
        for name, line in rig.lines.items()
    )
    yield from _grouped("tubing", lines, "m")
    heads = []
    for pump, spec in rig.upkeep.tubing.items():
        bore_mm = spec.bore_mm
        for channel in rig.devices[pump.partition(".")[0]].channels.values():
            if bore_mm is None and channel.point == pump.partition(".")[2]:
                bore_mm = channel.tubing_mm
        bore = "" if bore_mm is None else f", bore {bore_mm:g} mm"
        heads.append(((f"pump tubing {spec.material}{bore}", ""), 1.0, pump))
    yield from _grouped("tubing", heads)


def _fittings(rig: Rig) -> Iterator[Item]:
    """Yield connectors: both ends of each line, and both sides of what sits in it. A gauge in a line needs a T-piece."""
    ends = [
        ((f"connector for bore {line.bore_mm:g} mm", ""), 2.0 + 2.0 * _inserts(line), name)
        for name, line in rig.lines.items()
    ]
    yield from _grouped("fitting", ends)
    gauges = [
        ((f"T-piece for bore {rig.lines[spec.at].bore_mm:g} mm", ""), 1.0, name)
        for name, spec in rig.devices.items()
        if spec.at in rig.lines
    ]
    yield from _grouped("fitting", gauges)
    manifolds = []
    for name in rig.junctions:
        ways = sum(name in (line.from_, line.to) for line in rig.lines.values())
        manifolds.append(((f"manifold, {ways} ports", ""), 1.0, name))
    yield from _grouped("fitting", manifolds)


def _inserts(line: Line) -> int:
    return sum((line.filter is not None, line.dialyser is not None, line.check_valve))


def _parts(rig: Rig) -> Iterator[Item]:
    filters = [
        ((f"sterile filter {of.pore_um:g} um, {of.area_cm2:g} cm2, to {of.max_pressure_kpa:g} kPa", ""), 1.0, name)
        for name, of in rig.filters.items()
    ]
    yield from _grouped("filter", filters)
    if (lung := rig.organs.lung) is not None:
        vents = ((("gas filter 0.2 um (recommended)", ""), 1.0, gas) for gas in (lung.air, lung.co2, lung.o2))
        yield from _grouped("filter", vents)
    dialysers = [
        ((f"hollow fibres, {of.cut_off_kda:g} kDa, KoA {quantity_text(of.koa_ul_min, 'uL/min')}", ""), 1.0, name)
        for name, of in rig.dialysers.items()
    ]
    yield from _grouped("dialyser", dialysers)
    valves = {line.valve: line.bore_mm for line in rig.lines.values() if line.valve is not None}
    yield from _grouped(
        "valve part", (((f"pinch valve for bore {bore:g} mm", ""), 1.0, valve) for valve, bore in valves.items())
    )
    checks = [
        ((f"check valve for bore {line.bore_mm:g} mm", ""), 1.0, name)
        for name, line in rig.lines.items()
        if line.check_valve
    ]
    yield from _grouped("valve part", checks)


def _vessels(rig: Rig) -> Iterator[Item]:
    """Yield the vessels by kind and capacity; the wells of a plate are one plate."""
    vessels: list[tuple[tuple[str, str], float, str]] = []
    plates: dict[str, list[float]] = {}
    for name, vessel in rig.vessels.items():
        if vessel.kind == "chamber" and (well := WELL.fullmatch(name)):
            plates.setdefault(well[1], []).append(vessel.capacity_ul)
            continue
        vessels.append(((f"{vessel.kind}, {quantity_text(vessel.capacity_ul, 'uL')}", ""), 1.0, name))
    yield from _grouped("vessel", vessels)
    yield from _grouped(
        "vessel",
        (
            ((f"plate, {len(wells)} wells of {quantity_text(max(wells), 'uL')}", ""), 1.0, name)
            for name, wells in plates.items()
        ),
    )


def _others(rig: Rig) -> Iterator[Item]:
    """Yield agitators and disposables."""
    yield from _grouped(
        "agitator", (((f"{of.kind}, {of.speed_rpm:g} rpm", ""), 1.0, name) for name, of in rig.agitators.items())
    )
    yield from _grouped(
        "disposable",
        (((of.what, ""), float(of.count), name) for name, of in rig.upkeep.disposables.items()),
    )


def _array(rig: Rig) -> Iterator[Item]:
    if (nerves := rig.nerves) is not None:
        text = f"electrode array, {nerves.electrodes} electrodes of {nerves.material}, {nerves.diameter_um:g} um"
        yield Item("electrodes", text, "", 1.0, "", "nerves")
