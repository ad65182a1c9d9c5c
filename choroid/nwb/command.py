"""`choroid recording export`: find a recording and write it as an NWB file."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from choroid.common.failure import UserError
from choroid.nwb.environment import recorded_until
from choroid.nwb.export import NwbHeader, export_nwb
from controller.core.disk import remedy
from controller.links.ownership import OWNER, holders
from controller.memory.history import FLUSH_S
from nerves.recording.catalogue import FOLDER
from nerves.recording.quota import RecordingRefused
from nerves.recording.recorded import ArrayRecording, open_recording

WAIT_S = FLUSH_S + 30.0
"""A controller writes its readings every :data:`FLUSH_S`; a busy one later."""
LOOK_S = 1.0


def export_recording(
    name: str, data: Path, out: Path, *, wait_s: float = WAIT_S, for_neo: bool = False, **header: str
) -> dict[str, Any]:
    """Write a recording as an NWB file.

    Args:
        name: Its name in the data folder's `recordings`, or its folder.
        data: The data folder of the rig.
        out: The file to make, with the suffix .nwb.
        wait_s: Maximum time to wait for a running controller to write the readings of the recording.
        for_neo: Whether the file is in the form that Neo reads as it is.
        header: Fields of :class:`~choroid.nwb.export.NwbHeader`.

    Raises:
        UserError: There is no such recording, or it cannot be written.
    """
    if out.suffix != ".nwb":
        raise UserError(f"{out} has not the suffix .nwb, by which readers know the format. Next: name it so")
    if not out.parent.is_dir():
        raise UserError(
            f"there is no folder {out.parent}. Likely cause: a slip in the path. Next: make it, or name another"
        )
    try:
        recording = open_recording(data / FOLDER, name)
        asyncio.run(_readings_written(recording, data, wait_s))
        return export_nwb(recording, data, out, NwbHeader(**header), for_neo=for_neo)
    except (RecordingRefused, ValueError, FileExistsError) as error:
        raise UserError(str(error)) from None
    except OSError as error:
        raise UserError(f"the recording {name} could not be written to {out} ({error}). {remedy(error)}") from None


async def _readings_written(recording: ArrayRecording, data: Path, wait_s: float) -> None:
    """Wait until a running controller has written the readings of a recording's time; no longer than `wait_s`."""
    end = recording.clock.utc_us_at(recording.extent[1]) / 1e6
    ends_s = asyncio.get_running_loop().time() + wait_s
    said = False
    while holders(data / OWNER) and asyncio.get_running_loop().time() < ends_s:
        last = recorded_until(data)
        if last is not None and last >= end:
            return
        if not said:
            print("Waiting until the controller has written the readings of this time …", file=sys.stderr, flush=True)
            said = True
        await asyncio.sleep(LOOK_S)


def as_text(answer: dict[str, Any]) -> str:
    """Return the answer for people."""
    text = (
        f"{answer['file']}: {answer['bytes'] / 1e6:.1f} MB; {answer['frames']} frames in {answer['segments']} segment(s),"
        f" {answer['spikes']} spikes, {answer['sorted_units']} sorted units, {answer['pulses']} pulses,"
        f" {answer['environment_series']} series of the rig,"
        f" {answer['transfers']} transfers"
    )
    without = answer["without_environment"]
    return f"{text}\nMISSING of the environment: {without}" if without else text
