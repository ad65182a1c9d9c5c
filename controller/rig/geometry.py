"""Where the electrodes of an array are: written in the rig file, or in a file of probeinterface that it names.

Such a file is what `probeinterface.write_probeinterface` writes. It is read together with the rig and becomes part of it and
of its hash. Its channel map (`device_channel_indices`) says which electrode is on which channel of the card.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from controller.rig.part import RigPart
from controller.rig.problems import Finding, Place
from controller.rig.quantities import LengthUm

PLACE: Place = ("nerves", "geometry")
MAX_BYTES = 8_000_000
MAX_UM = 1e6
"""A metre: larger is a slip."""
MAX_SIZE_UM = 10_000.0
MAX_NAME = 40
OTHER_UNIT = "Likely cause: another unit. Write the si_units in which its lengths are"
ASKEW = 1e-3
"""Sine of the largest angle between the side of a contact and an axis that counts as none."""
UNITS_UM = {"um": 1.0, "mm": 1e3, "m": 1e6}
"""Micrometres of the units that a file of probeinterface may have."""

UPRIGHT = ((1.0, 0.0), (0.0, 1.0))
"""Directions of width and height of a contact where the file says none."""

ContactShape = Literal["circle", "square", "rect"]


class ElectrodePlace(RigPart):
    """One electrode on the chip: where its centre is, x to the right and y up, and on which channel of the card it is."""

    x_um: LengthUm = Field(alias="x", ge=-MAX_UM, le=MAX_UM)
    y_um: LengthUm = Field(alias="y", ge=-MAX_UM, le=MAX_UM)
    channel: int | None = Field(default=None, ge=0, lt=4096)
    """Left out of all, the electrodes are listed in the order of their channels."""
    pad: str = Field(default="", max_length=MAX_NAME)
    """Name of the electrode on the chip."""
    shank: str = Field(default="", max_length=MAX_NAME)
    """Name of the shank, or of one chip among several."""
    shape: ContactShape = "circle"
    width_um: LengthUm | None = Field(default=None, alias="width", gt=0, le=MAX_SIZE_UM)
    """Diameter of a circle, side of a square, width of a rectangle; left out, the `diameter` of the array."""
    height_um: LengthUm | None = Field(default=None, alias="height", gt=0, le=MAX_SIZE_UM)
    """Of a rectangle."""


class ElectrodeGrid(RigPart):
    """Electrodes in rows of equal length and distance, in the order of their channels; the first is at 0, 0."""

    columns: int = Field(ge=1, le=4096)
    pitch_um: LengthUm = Field(alias="pitch", gt=0, le=MAX_UM)


class GeometrySpec(RigPart):
    """Geometry of the electrode array: a grid, or the place of each electrode, or a file of probeinterface that has them."""

    module: str = Field(default="", max_length=200)
    """Name of the chip or probe."""
    reference: str = Field(default="", max_length=200)
    """What the reference electrode is, and where."""
    file: str = Field(default="", max_length=1000)
    """A file of probeinterface (JSON), as seen from the rig file."""
    grid: ElectrodeGrid | None = None
    electrodes: tuple[ElectrodePlace, ...] = ()


def take_geometry(path: Path, data: dict[str, Any]) -> list[Finding]:
    """Replace the file that the geometry of a rig's data names by its electrodes; anything else is left to the validation.

    Args:
        path: The rig file; a relative path is relative to its folder.
        data: Its data, which are changed.

    Returns:
        What is wrong with the file.
    """
    said = named_geometry(data)
    if said is None:
        return []
    place = (*PLACE, "file")
    if said.get("grid") or said.get("electrodes"):
        return [Finding(place, "a file stands next to electrodes or a grid", "Leave one of them out")]
    file = path.parent / said["file"]
    try:
        with file.open("rb") as opened:
            text = opened.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES:
            raise _UnfitProbe(
                f"has more than {MAX_BYTES / 1e6:g} MB", "Write it with probeinterface.write_probeinterface"
            )
        found = _electrodes(json.loads(text))
    except _UnfitProbe as unfit:
        return [Finding(place, f"{file} {unfit.what}", unfit.fix)]
    except OSError as error:
        what = f"the geometry {file} cannot be read ({error.strerror or error})"
        return [Finding(place, what, "Write its path as seen from the rig file, or from the root (/…)")]
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        what = f"{file} is no file of probeinterface ({type(error).__name__}: {error})"
        return [Finding(place, what, "Write it with probeinterface.write_probeinterface")]
    del said["file"]
    said["electrodes"], told = found
    for key, value in told.items():
        if not said.get(key):
            said[key] = value
    return []


def named_geometry(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the geometry of a rig's data if it names a file."""
    nerves = data.get("nerves")
    said = nerves.get("geometry") if isinstance(nerves, dict) else None
    return said if isinstance(said, dict) and isinstance(said.get("file"), str) and said["file"] else None


class _UnfitProbe(Exception):
    """A file of probeinterface that is sound, and cannot be used."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.what, self.fix = what, fix


def _electrodes(said: Mapping[str, Any]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the connected electrodes of a file of probeinterface as a rig file has them, and what it says of the chip."""
    probes = said["probes"]
    if said.get("specification") != "probeinterface" or not probes:
        raise ValueError("it has no “specification: probeinterface” with probes")
    found = [each for number, probe in enumerate(probes) for each in _contacts(probe, number if probes[1:] else None)]
    if not found:
        raise _UnfitProbe("connects no electrode to a channel", "Set device_channel_indices of its probe")
    told = probes[0].get("annotations", {})
    names = [str(told[key]) for key in ("manufacturer", "model_name", "name") if told.get(key)]
    return found, {"module": " ".join(names)[:200], "reference": str(told.get("reference", ""))[:200]}


def _contacts(probe: Mapping[str, Any], number: int | None) -> Iterator[dict[str, Any]]:
    """Yield the connected contacts of one probe; `number` is its number where there are several."""
    if probe["ndim"] != 2:
        raise _UnfitProbe("has positions in three dimensions", "Project it with probeinterface: probe.to_2d()")
    unit = probe["si_units"]
    if unit not in UNITS_UM:
        raise _UnfitProbe(f"has its lengths in “{unit}”", f"Write it in one of {', '.join(UNITS_UM)}")
    scale, count = UNITS_UM[unit], len(probe["contact_positions"])
    channels = probe.get("device_channel_indices")
    if channels is None:
        raise _UnfitProbe(
            "has no channel map: which electrode is on which channel is not known",
            "Set it with probeinterface: probe.set_device_channel_indices(…), -1 where nothing is connected",
        )
    pads, shanks = (probe.get(key) or [""] * count for key in ("contact_ids", "shank_ids"))
    columns = (
        probe["contact_positions"],
        probe["contact_shapes"],
        probe["contact_shape_params"],
        channels,
        pads,
        shanks,
        probe.get("contact_plane_axes") or [UPRIGHT] * count,
    )
    for contact, ((x, y), shape, size, channel, pad, shank, plane) in enumerate(zip(*columns, strict=True)):
        if int(channel) != channel:
            raise ValueError(f"contact {contact} is on channel {channel}")
        if channel < 0:
            continue
        width = 2.0 * size["radius"] if shape == "circle" else size["width"]
        height = size["height"] if shape == "rect" else width
        (along_x, along_y), _ = plane  # the direction of the width
        if shape != "circle" and not min(abs(along_x), abs(along_y)) < ASKEW * math.hypot(along_x, along_y):
            raise _UnfitProbe(
                f"has contact {contact}, a {shape}, askew: its width points along {along_x:g}, {along_y:g}",
                "Turn the probe with probeinterface until its contacts are upright: probe.rotate(…). If they are turned each"
                " for itself, write the electrodes in the rig file, with the nearest upright shape of the same area",
            )
        if abs(along_y) > abs(along_x):
            width, height = height, width
        if not all(abs(each * scale) <= MAX_UM for each in (x, y)):
            raise _UnfitProbe(f"has contact {contact} at {x}, {y} {unit}", OTHER_UNIT)
        if not all(0.0 < each * scale <= MAX_SIZE_UM for each in (width, height)):
            raise _UnfitProbe(f"has contact {contact} of {width} x {height} {unit}", OTHER_UNIT)
        yield {
            "x": _text(x * scale),
            "y": _text(y * scale),
            "channel": int(channel),
            "pad": str(pad)[:MAX_NAME],
            "shank": "/".join(filter(None, ("" if number is None else f"probe {number}", str(shank))))[:MAX_NAME],
            "shape": shape,
            "width": _text(width * scale),
        } | ({"height": _text(height * scale)} if shape == "rect" else {})


def _text(um: float) -> str:
    """Return a length as a rig file has it, to a nanometre."""
    return f"{round(float(um), 3)} um"
