"""Device descriptions that a rig file names: read when the rig is, from beside it, so that the rig is known whole.

What is read goes into the rig's own description, and so into its hash: two rigs whose descriptions differ are two rigs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from controller.rig.problems import Finding

MODEL = "modbus-generic"
MOST_BYTES = 64_000
"""No description is longer; its driver says so too."""


def take_descriptions(path: Path, data: dict[str, Any]) -> list[Finding]:
    """Add to each described device of the rig's `data` the text of the file that it names; what is wrong is returned.

    A path that is not absolute is looked for beside the rig file `path`. What is not as it should be otherwise is left for
    the rig's own validation and for the driver.
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
                settings["description"] = opened.read(MOST_BYTES + 1).decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            what = f"the description {file} cannot be read ({getattr(error, 'strerror', None) or error})"
            problems.append(Finding(place, what, "Write its path as seen from the rig file, or from the root (/…)"))
    return problems


def seen_from_anywhere(path: Path, data: dict[str, Any]) -> None:
    """Make the files that the rig's `data` names absolute, for a copy of the rig that is kept elsewhere."""
    for _, settings in _named(data):
        settings["file"] = str((path.parent / settings["file"]).absolute())


def _named(data: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The devices that name a file, and their settings."""
    devices = data.get("devices")
    for name, device in devices.items() if isinstance(devices, dict) else ():
        settings = device.get("settings") if isinstance(device, dict) and device.get("model") == MODEL else None
        if isinstance(settings, dict) and isinstance(settings.get("file"), str):
            yield name, settings
