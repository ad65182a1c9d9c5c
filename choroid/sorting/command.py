"""`choroid sort`: find the units of a recording with a sorter of SpikeInterface, and store them next to it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from spikeinterface.sorters import installed_sorters, sorter_dict
from spikeinterface.sorters.internal.si_based import ComponentsBasedSorter

from choroid.common.child import python
from choroid.common.failure import UserError
from choroid.sorting.stored import read_units, units_path
from controller.core.disk import remedy
from controller.core.whole_file import whole_folder
from nerves.recording.catalogue import FOLDER
from nerves.recording.quota import RecordingRefused
from nerves.recording.recorded import ArrayRecording, open_recording

READ_BYTES = 4096
FILTER_HZ = 7000.0
"""The highest frequency that a sorter filters by, of those that SpikeInterface ships."""


def sort_recording(name: str, data: Path, sorter: str) -> dict[str, Any]:
    """Sort a recording in a process of its own; its units appear next to the recording when they are complete.

    Args:
        name: Name of the recording in the data folder's `recordings`, or its folder.
        data: The data folder of the rig.
        sorter: A sorter that SpikeInterface ships itself.

    Returns:
        What was found, for people.

    Raises:
        UserError: The recording cannot be sorted, or the sorter has failed.
    """
    try:
        recording = open_recording(data / FOLDER, name)
        _require(recording, sorter)
        out = units_path(recording.path)
        with whole_folder(out) as part:
            part.rmdir()
            _run([str(recording.path), sorter, str(part)], recording.name)
        found = read_units(recording)
    except RecordingRefused as error:
        raise UserError(str(error)) from None
    except OSError as error:
        raise UserError(f"the recording {name} could not be sorted ({error}). {remedy(error)}") from None
    assert found is not None  # noqa: S101  (it has just been written)
    return {
        "recording": recording.name,
        "folder": str(out),
        "sorter": sorter,
        "units": len(found.units),
        "spikes": len(found.frames),
        "detected_spikes": len(recording.table("spikes")),
    }


def usable_sorters() -> list[str]:
    """Return the installed sorters that SpikeInterface ships itself: they run on the CPU, without another program."""
    return [name for name in installed_sorters() if issubclass(sorter_dict[name], ComponentsBasedSorter)]


def _require(recording: ArrayRecording, sorter: str) -> None:
    """Raise UserError when a recording cannot be sorted."""
    usable = usable_sorters()
    if sorter not in usable:
        raise UserError(
            f"there is no sorter “{sorter}” here. Likely cause: a slip, or a package that it needs is not installed. Next:"
            f" choose one of {', '.join(usable)}"
        )
    if not recording.frames:
        raise UserError(
            f"the recording {recording.name} has no samples to sort. Likely cause: it was recorded with frames: false, or has"
            " just begun. Next: choose another recording"
        )
    if recording.geometry is None:
        raise UserError(
            f"the recording {recording.name} does not say where its electrodes are, and a sorter needs it. Likely cause: the"
            " rig file has no geometry. Next: write geometry under nerves (docs/nerves.md), and record again"
        )
    if recording.sample_rate_hz <= 2.0 * FILTER_HZ:
        raise UserError(
            f"the recording {recording.name} has {recording.sample_rate_hz:g} frames a second, and the sorters filter up to"
            f" {FILTER_HZ:g} Hz. Likely cause: a slow array. Next: sort the Zarr store with SpikeInterface and other filters"
        )
    out = units_path(recording.path)
    if out.exists():
        raise UserError(
            f"{out} exists, and a sorting replaces nothing. Likely cause: the recording was sorted before. Next: use its"
            " units, or remove the folder"
        )


def _run(words: list[str], name: str) -> None:
    """Run the sorter's process, and show what it prints, its progress too. Raises UserError when it fails."""
    said = b""
    command = python("choroid.sorting.process", *words)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:  # noqa: S603  (our own module)
        assert process.stderr is not None  # noqa: S101  (a pipe was asked for)
        try:
            while chunk := os.read(process.stderr.fileno(), READ_BYTES):
                sys.stderr.write(chunk.decode(errors="replace"))
                sys.stderr.flush()
                said = (said + chunk)[-READ_BYTES:]
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        lines = [line.strip() for line in said.decode(errors="replace").splitlines() if line.strip()]
        raise UserError(
            f"the recording {name} could not be sorted: the sorter's process ended with status {process.returncode}:"
            f" {lines[-1] if lines else 'it said nothing'}. Likely cause: too few spikes for its method, or too little"
            " memory. Next: record longer, or choose another sorter"
        )


def as_text(answer: dict[str, Any]) -> str:
    """Return the answer for people."""
    return (
        f"{answer['recording']}: {answer['units']} units with {answer['spikes']} spikes by {answer['sorter']} (detected:"
        f" {answer['detected_spikes']}); {answer['folder']}"
    )
