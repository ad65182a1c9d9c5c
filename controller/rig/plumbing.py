"""Rules over a whole rig: can medium flow as described, and does every name mean something?"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator

from controller.rig.description import Rig

Place = tuple[str | int, ...]
Finding = tuple[Place, str, str]

BUS_FAMILIES = ("keller-x-line", "modbus-coil-relay", "alicat-mfc", "ismatec-reglo-icc")
"""Models that carry an address and may share a link."""

SINGLE_POINT = {
    "atlas-ezo-ph": "ph",
    "atlas-ezo-do": "oxygen",
    "atlas-ezo-rtd": "temperature",
    "atlas-ezo-pmp": "pump",
    "keller-x-line": "pressure",
    "alicat-mfc": "flow",
    "mettler-sics": "mass",
}
"""The one point of models without channels."""


def points(rig: Rig) -> dict[str, str]:
    """Every point of the rig, `device.point`, with its device's model."""
    found: dict[str, str] = {}
    for name, device in rig.devices.items():
        for channel in device.channels.values():
            found[f"{name}.{channel.point}"] = device.model
        if device.model in SINGLE_POINT:
            found[f"{name}.{SINGLE_POINT[device.model]}"] = device.model
    return found


def plumbing_problems(rig: Rig, models: Collection[str] | None) -> list[Finding]:
    """Everything that is wrong with the rig as a whole: place, what, fix."""
    return [
        *_vessels(rig),
        *_lines(rig),
        *_devices(rig, models),
        *_organs(rig),
    ]


def _near(name: str, known: Iterable[str], what: str) -> str:
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"Did you mean “{close[0]}”?" if close else f"Known {what}: {', '.join(names) or 'none'}"


def _vessels(rig: Rig) -> Iterator[Finding]:
    for name, vessel in rig.vessels.items():
        place: Place = ("vessels", name)
        if vessel.contains is not None and vessel.contains not in rig.media:
            yield (
                (*place, "contains"),
                f"medium “{vessel.contains}” is not described",
                _near(vessel.contains, rig.media, "media"),
            )
        if vessel.limit_ul > vessel.capacity_ul:
            yield (*place, "ceiling"), "the ceiling is above the capacity", "Lower the ceiling or raise the capacity"
        if vessel.volume_ul > vessel.limit_ul:
            yield (*place, "volume"), "starts above its ceiling", "Lower the volume or raise the ceiling"
        if vessel.volume_ul < vessel.floor_ul:
            yield (*place, "volume"), "starts below its floor", "Raise the volume or lower the floor"
        filled = [line for line in rig.lines.values() if line.to == name]
        emptied = [line for line in rig.lines.values() if line.from_ == name]
        if vessel.kind != "source" and not filled:
            yield place, f"vessel “{name}” is never filled", f"Add a line with “to: {name}”, or make it a source"
        if vessel.kind != "waste" and not emptied:
            yield place, f"vessel “{name}” is never emptied", f"Add a line with “from: {name}”, or make it waste"
    if rig.organoid.chamber not in rig.vessels:
        yield (
            ("organoid", "chamber"),
            f"vessel “{rig.organoid.chamber}” does not exist",
            _near(rig.organoid.chamber, rig.vessels, "vessels"),
        )


def _lines(rig: Rig) -> Iterator[Finding]:
    known = points(rig)
    used: dict[str, str] = {}
    for name, line in rig.lines.items():
        place: Place = ("lines", name)
        for key, vessel in (("from", line.from_), ("to", line.to)):
            if vessel not in rig.vessels:
                yield (*place, key), f"vessel “{vessel}” does not exist", _near(vessel, rig.vessels, "vessels")
        if line.from_ == line.to:
            yield place, f"leads from “{line.to}” to itself", "Name two different vessels"
        if line.pump is None and not line.passive:
            yield place, "has neither a pump nor “passive: true”", "Add “pump: device.channel”"
        if line.pump is not None:
            if line.pump not in known:
                yield (*place, "pump"), f"no device has the pump “{line.pump}”", _near(line.pump, known, "points")
            elif line.pump in used:
                yield (
                    (*place, "pump"),
                    f"pump “{line.pump}” already drives line “{used[line.pump]}”",
                    ("One pump channel drives one line"),
                )
            used[line.pump] = name
        if line.filter is not None and line.filter not in rig.filters:
            yield (
                (*place, "filter"),
                f"filter “{line.filter}” does not exist",
                _near(line.filter, rig.filters, "filters"),
            )
        if line.valve is not None and line.valve not in known:
            yield (*place, "valve"), f"no device has the valve “{line.valve}”", _near(line.valve, known, "points")
    for device_name, device in rig.devices.items():
        pumps = [f"{device_name}.{channel.point}" for channel in device.channels.values() if channel.tubing_mm]
        if device.model == "atlas-ezo-pmp":
            pumps.append(f"{device_name}.pump")
        for pump in pumps:
            if pump not in used:
                yield (
                    ("devices", device_name),
                    f"pump “{pump}” is on no line: it would pump from nowhere",
                    (f"Add a line with “pump: {pump}”, or remove the channel"),
                )


def _devices(rig: Rig, models: Collection[str] | None) -> Iterator[Finding]:
    seen: dict[tuple[str, str], str] = {}
    names: dict[str, str] = {}
    for name, device in rig.devices.items():
        place: Place = ("devices", name)
        if models is not None and device.model not in models:
            yield (*place, "model"), f"no driver is called “{device.model}”", _near(device.model, models, "models")
        scheme = device.link.partition(":")[0]
        if scheme not in ("serial", "tcp", "sim"):
            yield (
                (*place, "link"),
                f"link “{device.link}” is of no known kind",
                ("Write serial:///dev/…?baud=9600, tcp://host:port or sim:name"),
            )
        shares = seen.get((device.link, device.address))
        alone = device.model not in BUS_FAMILIES
        on_link = [other for other, spec in rig.devices.items() if spec.link == device.link and other != name]
        if shares is not None:
            yield (*place, "address"), f"has the same link and address as “{shares}”", "Give each its own address"
        elif alone and on_link:
            yield (
                (*place, "link"),
                f"{device.model} has no address and cannot share a link with “{on_link[0]}”",
                ("Give it a link of its own"),
            )
        seen[(device.link, device.address)] = name
        for number, channel in device.channels.items():
            point = f"{name}.{channel.point}"
            if point in names:
                yield (*place, "channels", number, "point"), f"point “{point}” is named twice", "Name each once"
            names[point] = name
        if device.at is not None and device.at not in rig.vessels and device.at not in rig.lines:
            yield (
                (*place, "at"),
                f"“{device.at}” is neither a vessel nor a line",
                _near(device.at, [*rig.vessels, *rig.lines], "places"),
            )
    links = [device.link for device in rig.devices.values()]
    links += [rig.nerves.link] if rig.nerves else []
    simulated = [link.startswith("sim:") for link in links]
    if any(simulated) and not all(simulated) and not rig.mixed:
        yield (
            ("devices",),
            "simulated and real links are mixed",
            ("Make them all real, or write “mixed: true” at the top; the page will say so in a banner"),
        )


def _organs(rig: Rig) -> Iterator[Finding]:
    known = points(rig)
    organs = rig.organs
    for organ, keys in (
        ("heart", ("line",)),
        ("kidney", ("draw", "return", "discard")),
        ("gut", ("feed",)),
        ("liver", ("glucose", "base")),
    ):
        part = getattr(organs, organ)
        for key in keys:
            line = getattr(part, "return_" if key == "return" else key)
            if line not in rig.lines:
                yield ("organs", organ, key), f"line “{line}” does not exist", _near(line, rig.lines, "lines")
    for organ, key, vessel in (
        ("kidney", "vessel", organs.kidney.vessel),
        ("kidney", "waste", organs.kidney.waste),
        ("lung", "vessel", organs.lung.vessel),
    ):
        if vessel not in rig.vessels:
            yield ("organs", organ, key), f"vessel “{vessel}” does not exist", _near(vessel, rig.vessels, "vessels")
    wanted: list[tuple[Place, str | None]] = [
        (("organs", "heart", "pressure"), organs.heart.pressure),
        (("organs", "kidney", "mass"), organs.kidney.mass),
        (("organs", "liver", "ph"), organs.liver.ph),
        (("organs", "immune", "pressure"), organs.immune.pressure),
        (("organs", "immune", "valve"), organs.immune.valve),
        *((("organs", "lung", key), getattr(organs.lung, key)) for key in ("air", "co2", "o2", "oxygen", "ph")),
        (("organs", "skin", "heater"), organs.skin.heater),
        (("organs", "skin", "temperature"), organs.skin.temperature),
    ]
    for name, limit in (
        ("temperature", rig.safety.temperature),
        ("over_pressure_heart", rig.safety.over_pressure_heart),
        ("over_pressure_filter", rig.safety.over_pressure_filter),
    ):
        wanted.append((("safety", name, "point"), limit.point))
        wanted += [(("safety", name, "trips"), point) for point in limit.trips]
    for place, point in wanted:
        if point is not None and point not in known:
            yield place, f"no device has the point “{point}”", _near(point, known, "points")
    heart = organs.heart
    if not heart.min_ul_min <= heart.basal_ul_min <= heart.max_ul_min:
        yield ("organs", "heart", "basal"), "the basal flow is outside min to max", "Choose a basal flow between them"
    if not heart.min_ul_min <= heart.flow_ul_min <= heart.max_ul_min:
        yield ("organs", "heart", "flow"), "the flow is outside min to max", "Choose a flow between them"
    if organs.lung.co2_min_pct >= organs.lung.co2_max_pct:
        yield ("organs", "lung", "co2_min"), "co2_min is not below co2_max", "Swap them"
    if rig.safety.temperature.low_c >= rig.safety.temperature.high_c:
        yield ("safety", "temperature", "low"), "low is not below high", "Swap them"
