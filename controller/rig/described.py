"""Read the device descriptions that a rig file names, together with the rig.

Their texts become part of the rig and of its hash: two rigs whose device descriptions differ have different hashes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from controller.rig.geometry import named_geometry
from controller.rig.problems import Finding

MODEL = "modbus-generic"
MAX_BYTES = 64_000
"""Maximum length of a description; the driver has the same limit."""


def take_descriptions(path: Path, data: dict[str, Any]) -> list[Finding]:
    """Add to each described device of the rig's data the text of the file that it names.

    A relative path is relative to the folder of the rig file. Other mistakes are left to the validation of the rig and to
    the driver.

    Args:
        path: The rig file.
        data: Its data, which are changed.

    Returns:
        A finding for each file that cannot be read, and for each device that has both a file and a description.
    """
    problems: list[Finding] = []
    for name, settings in _named(data):
        place = ("devices", name, "settings", "file")
        if "description" in settings:
            problems.append(Finding(place, "a file and a description are given", "Leave one of the two out"))
            continue
        file = path.parent / settings["file"]
        try:
            with file.open("rb") as opened:
                settings["description"] = opened.read(MAX_BYTES + 1).decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            what = f"the description {file} cannot be read ({getattr(error, 'strerror', None) or error})"
            problems.append(Finding(place, what, "Write its path as seen from the rig file, or from the root (/…)"))
    return problems


def seen_from_anywhere(path: Path, data: dict[str, Any]) -> None:
    """Make the files that the rig's `data` names absolute, for a copy of the rig that is kept elsewhere."""
    for _, settings in _named(data):
        settings["file"] = str((path.parent / settings["file"]).absolute())
    if isinstance(data.get("grading"), str):
        data["grading"] = str((path.parent / data["grading"]).absolute())
    if (geometry := named_geometry(data)) is not None:
        geometry["file"] = str((path.parent / geometry["file"]).absolute())


def _named(data: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name and settings of each device that names a file."""
    devices = data.get("devices")
    for name, device in devices.items() if isinstance(devices, dict) else ():
        settings = device.get("settings") if isinstance(device, dict) and device.get("model") == MODEL else None
        if isinstance(settings, dict) and isinstance(settings.get("file"), str):
            yield name, settings
