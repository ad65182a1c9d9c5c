"""List the recordings of a folder by their metadata, without reading samples; and name the folder of a rig."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nerves.recording.layout import SUFFIX
from nerves.recording.quota import folder_bytes

FOLDER = "recordings"
"""Name of the folder in the data folder, if the rig file names no other."""


@dataclass(frozen=True, slots=True)
class RecordingEntry:
    """A recording in the list. `ended_utc` is empty for one that runs or whose writer was killed."""

    name: str
    started_utc: str
    ended_utc: str
    ended_why: str
    requester: str
    reason: str
    trigger: str
    electrodes: int
    seconds: float
    """Recorded time without the gaps (s)."""
    lost_frames: int
    bytes: int


def entries(folder: Path) -> list[RecordingEntry]:
    """Return the recordings of a folder, the oldest first; what is none is left out."""
    found = [entry for path in folder.glob(f"*{SUFFIX}") if (entry := _entry(path)) is not None]
    return sorted(found, key=lambda entry: (entry.started_utc, entry.name))


def _entry(path: Path) -> RecordingEntry | None:
    try:
        said: dict[str, Any] = json.loads((path / ".zattrs").read_text(encoding="utf-8"))
        frames = sum(
            int(json.loads((path / f"traces_seg{number}" / ".zarray").read_text(encoding="utf-8"))["shape"][0])
            for number in range(len(said["segments"]))
        )
        return RecordingEntry(
            name=path.name.removesuffix(SUFFIX),
            started_utc=str(said["started_utc"]),
            ended_utc=str(said.get("ended_utc", "")),
            ended_why=str(said.get("ended_why", "")),
            requester=str(said["requester"]),
            reason=str(said["reason"]),
            trigger=str(said["trigger"]),
            electrodes=int(said["array"]["electrodes"]),
            seconds=frames / float(said["sampling_frequency"]),
            lost_frames=int(said.get("lost_frames", 0)),
            bytes=folder_bytes(path),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
