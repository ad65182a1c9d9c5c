"""What the drivers say of a rig's devices: maker, points, line settings. No link is opened."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from controller.links.connect import device_config
from controller.links.settings import drivers_accept
from controller.rig.description import DeviceSpec, Rig, Vessel
from controller.rig.loading import load_rig
from drivers.device import DeviceModel
from drivers.registry import MODELS, build, load_third_party, open_link

WELL = re.compile(r"(.+)-[A-P][1-9][0-9]?")
"""Name of a vessel that is a well of a plate."""


@dataclass(frozen=True, slots=True)
class FleetDevice:
    """A device with its catalogue entry, its line settings, and the points that its driver has."""

    name: str
    spec: DeviceSpec
    model: DeviceModel
    line: str
    sensors: Mapping[str, str]
    """Unit by point (`device.point`)."""
    outputs: Mapping[str, str]
    """Kind (`pump`, `switch`, `level`) by point."""


def described_rig(path: Path) -> Rig:
    """Read a rig file for every driver that is installed. A rig with open hazards is returned as well: it is being built.

    Raises:
        RigError: The file does not describe a rig.
        OSError: The file cannot be read.
    """
    load_third_party()
    return load_rig(path, models=MODELS, rules=(drivers_accept,))


def fleet(rig: Rig) -> Iterator[FleetDevice]:
    """Yield each device of a sound rig, in the order of the file."""
    for name, spec in rig.devices.items():
        sharing = [each.model for each in rig.devices.values() if each.link == spec.link]
        link = open_link(spec.link, sharing)
        device = build(spec.model, link, device_config(name, spec))
        yield FleetDevice(
            name,
            spec,
            MODELS[spec.model].model,
            "" if spec.link.startswith("tcp:") else link.line.text,
            {f"{name}.{point}": sensor.unit for point, sensor in device.sensors.items()},
            {f"{name}.{point}": output.kind for point, output in device.actuators.items()},
        )


def like_wells(rig: Rig) -> dict[str, tuple[Vessel, tuple[str, ...]]]:
    """Return the vessels by name; the equal wells of a plate to which no line leads are one entry with its wells."""
    ends = {end for line in rig.lines.values() for end in (line.from_, line.to)}
    groups: dict[tuple[str, Vessel], list[str]] = {}
    for name, vessel in rig.vessels.items():
        well = WELL.fullmatch(name)
        plate = well[1] if well and name not in ends and vessel.kind == "chamber" else name
        groups.setdefault((plate, vessel), []).append(name)
    return {
        names[0] if len(names) == 1 else f"{names[0]} to {names[-1]} ({len(names)})": (vessel, tuple(names))
        for (_, vessel), names in groups.items()
    }
