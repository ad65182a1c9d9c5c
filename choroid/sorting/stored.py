"""The units of a recording, as `choroid sort` leaves them next to it: spikes by unit, and what is known of each unit.

`NAME.units` is a Zarr group of format 2. `spikes` has frame, as the recording counts them, and unit; the attributes have the
units with their electrode, place and quality metrics, and how they were found.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nerves.recording.layout import SUFFIX
from nerves.recording.quota import RecordingRefused
from nerves.recording.recorded import ArrayRecording
from nerves.recording.store import ZarrArray, make_group, write_constant

VERSION: Final = 1
UNITS: Final = ".units"
SPIKES: Final = np.dtype([("frame", "<i8"), ("unit", "<i4")])
CHUNK_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class SortedUnit:
    """One unit: its number, the electrode with its largest template, where it is (µm), and its quality metrics."""

    unit: int
    electrode: int
    x_um: float | None
    y_um: float | None
    spikes: int
    metrics: Mapping[str, float | None]
    """By the names of SpikeInterface; None where one could not be computed."""


@dataclass(frozen=True, slots=True)
class SortedUnits:
    """Units of one recording and their spikes in order of time: arrays of equal length."""

    units: Sequence[SortedUnit]
    frames: NDArray[np.int64]
    numbers: NDArray[np.int32]
    """The unit of each spike."""
    said: Mapping[str, Any]
    """How they were found: recording, sorter, parameters, versions."""

    def train(self, unit: int) -> NDArray[np.int64]:
        """Return the frames of a unit's spikes, in order."""
        frames: NDArray[np.int64] = self.frames[self.numbers == unit]
        return frames


def units_path(recording: Path) -> Path:
    """Return where the units of a recording are."""
    return recording.with_name(recording.name.removesuffix(SUFFIX) + UNITS)


def write_units(folder: Path, found: SortedUnits) -> None:
    """Write units into a folder that does not exist."""
    attributes = {"choroid_units": VERSION, **found.said, "units": [asdict(each) for each in found.units]}
    make_group(folder, attributes)
    rows = np.zeros(len(found.frames), SPIKES)
    rows["frame"], rows["unit"] = found.frames, found.numbers
    if not len(rows):
        ZarrArray.create(folder / "spikes", SPIKES, CHUNK_ROWS)
        return
    write_constant(folder / "spikes", rows)


def read_units(recording: ArrayRecording) -> SortedUnits | None:
    """Return the units of a recording; None when it was not sorted.

    Raises:
        RecordingRefused: They cannot be read, are of another recording, or a newer release wrote them.
    """
    path = units_path(recording.path)
    if not path.exists():
        return None
    try:
        said = json.loads((path / ".zattrs").read_text(encoding="utf-8"))
        version = int(said.pop("choroid_units"))
        if version <= VERSION:
            _require_of(recording, path, said["started_utc"])
            rows = ZarrArray(path / "spikes").read()
            units = [SortedUnit(**each) for each in said.pop("units")]
            return SortedUnits(units, rows["frame"], rows["unit"], said)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordingRefused(
            f"{path} has no units that can be read ({error!r}). Likely cause: the folder is damaged. Next: remove it, and"
            " sort the recording again"
        ) from error
    raise RecordingRefused(
        f"{path} has format {version}, this Choroid reads {VERSION}. Likely cause: a newer release wrote it. Next:"
        " update Choroid"
    )


def _require_of(recording: ArrayRecording, path: Path, started_utc: str) -> None:
    """Raise RecordingRefused where a recording of the same name was sorted, and not this one."""
    begun = recording.attributes["started_utc"]
    if started_utc != begun:
        raise RecordingRefused(
            f"{path} has the units of a recording that began at {started_utc}; {recording.name} began at {begun}. Likely"
            " cause: the recording that was sorted was removed, and another got its name. Next: remove the folder"
        )
