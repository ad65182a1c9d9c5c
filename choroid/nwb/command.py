"""`choroid record export`: find a recording and write it as an NWB file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from choroid.common.failure import UserError
from choroid.nwb.export import NwbHeader, export_nwb
from controller.nerves.recording.catalogue import FOLDER
from controller.nerves.recording.quota import RecordingRefused
from controller.nerves.recording.recorded import open_recording


def export_recording(name: str, data: Path, out: Path, **header: str) -> dict[str, Any]:
    """Write a recording as an NWB file.

    Args:
        name: Its name in the data folder's `recordings`, or its folder.
        data: The data folder of the rig.
        out: The file to make, with the suffix .nwb.
        header: Fields of :class:`~choroid.nwb.export.NwbHeader`.

    Raises:
        UserError: There is no such recording, or it cannot be written.
    """
    if out.suffix != ".nwb":
        raise UserError(f"{out} has not the suffix .nwb, by which readers know the format. Next: name it so")
    try:
        return export_nwb(open_recording(data / FOLDER, name), data, out, NwbHeader(**header))
    except (RecordingRefused, ValueError, OSError) as error:
        raise UserError(str(error)) from None


def as_text(answer: dict[str, Any]) -> str:
    """Return the answer for people."""
    text = (
        f"{answer['file']}: {answer['bytes'] / 1e6:.1f} MB; {answer['frames']} frames in {answer['segments']} segment(s),"
        f" {answer['spikes']} spikes, {answer['pulses']} pulses, {answer['environment_series']} series of the rig,"
        f" {answer['transfers']} transfers"
    )
    without = answer["without_environment"]
    return f"{text}\nwithout the environment: {without}" if without else text
