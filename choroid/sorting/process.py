"""Sort a recording: `python -m choroid.sorting.process RECORDING SORTER FOLDER`, started by :mod:`choroid.sorting.command`.

What the sorter prints, its progress too, goes to standard error. The units appear in FOLDER, which must not exist.
The process ends, and removes what it has begun, when its standard input ends: a killed `choroid sort` leaves nothing.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import numpy as np
import spikeinterface.core as si
from numpy.typing import NDArray
from spikeinterface.preprocessing import bandpass_filter
from spikeinterface.sorters import get_default_sorter_params, run_sorter

from choroid.sorting.stored import SortedUnit, SortedUnits, write_units
from nerves.recording.recorded import ArrayRecording, RecordedSegment

BAND_HZ = (300.0, 6000.0)
METRICS = (
    "num_spikes", "firing_rate", "presence_ratio", "snr", "isi_violation", "rp_violation", "amplitude_cutoff",
    "amplitude_median",
)  # fmt: skip
EXTENSIONS = ("random_spikes", "noise_levels", "templates", "spike_amplitudes", "unit_locations")


def sorted_units(recording: ArrayRecording, sorter: str, scratch: Path) -> SortedUnits:
    """Return the units that a sorter finds, with their metrics; segments are sorted as one, one after the other."""
    segments = [segment for segment in recording.segments if len(segment.traces)]
    whole = si.read_zarr(recording.path)
    parts = [  # as long as they were when this began: the recording may go on
        whole.select_segments([number]).frame_slice(0, len(each.traces))
        for number, each in enumerate(recording.segments)
        if len(each.traces)
    ]
    joined = si.concatenate_recordings(parts) if len(parts) > 1 else parts[0]
    sorting = run_sorter(sorter, joined, folder=scratch / "sorter", verbose=True, with_output=True)
    vector = sorting.to_spike_vector()
    return SortedUnits(
        units=_described(sorting, joined) if len(sorting.unit_ids) else [],
        frames=frames_of(vector["sample_index"], segments),
        numbers=vector["unit_index"].astype(np.int32),
        said={
            "recording": recording.name,
            "started_utc": recording.attributes["started_utc"],
            "sampling_frequency": recording.sample_rate_hz,
            "sorter": sorter,
            "parameters": _plain(get_default_sorter_params(sorter)),
            "spikeinterface": version("spikeinterface"),
            "first_frame": segments[0].first_frame,
            "end_frame": segments[-1].end_frame,
        },
    )


def frames_of(samples: NDArray[Any], segments: Sequence[RecordedSegment]) -> NDArray[np.int64]:
    """Return the frames of samples that count through segments, one after the other.

    Args:
        samples: Their numbers, from 0 on.
        segments: The segments, in order.

    Returns:
        Frames, as the recording counts them.
    """
    starts = np.array([segment.first_frame for segment in segments])
    ends = np.cumsum([len(segment.traces) for segment in segments])
    within = np.searchsorted(ends, samples, side="right")
    frames: NDArray[np.int64] = samples + (starts - np.concatenate([[0], ends[:-1]]))[within]
    return frames.astype(np.int64)


def _described(sorting: Any, recording: Any) -> list[SortedUnit]:
    """Return place and metrics of each unit."""
    print("units: templates, places and quality metrics", file=sys.stderr, flush=True)
    analyzer = si.create_sorting_analyzer(sorting, bandpass_filter(recording, *BAND_HZ, dtype="float32"), sparse=False)
    analyzer.compute(list(EXTENSIONS))
    analyzer.compute("quality_metrics", metric_names=list(METRICS))
    table = analyzer.get_extension("quality_metrics").get_data()
    places = analyzer.get_extension("unit_locations").get_data()
    largest = analyzer.get_main_channels(outputs="index")
    counts = sorting.count_num_spikes_per_unit(outputs="array")
    return [
        SortedUnit(
            unit=number,
            electrode=int(largest[number]),
            x_um=_number(places[number][0]),
            y_um=_number(places[number][1]),
            spikes=int(counts[number]),
            metrics={str(name): _number(table.loc[unit, name]) for name in table.columns},
        )
        for number, unit in enumerate(sorting.unit_ids)
    ]


def _number(value: Any) -> float | None:
    """Return a number as JSON has it; None for one that is not known."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _plain(value: Any) -> Any:
    """Return parameters as JSON has them."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return _number(value)
    return value if isinstance(value, bool | int | str | type(None)) else str(value)


def _end_with_input(scratch: Path, folder: Path) -> None:
    """Remove the scratch folder, and the folder around it if it is empty, and end the process when standard input ends."""
    while os.read(0, 1):  # a buffered reader would hold its lock at the end of the process
        pass
    shutil.rmtree(scratch, ignore_errors=True)
    with suppress(OSError):
        folder.rmdir()
    os._exit(1)


def main() -> int:
    """Run the process; return its exit status."""
    path, sorter, folder = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    si.set_global_job_kwargs(n_jobs=1, progress_bar=True)
    with TemporaryDirectory(prefix=".choroid-sort-", dir=folder.parent) as scratch:
        Thread(target=_end_with_input, args=(Path(scratch), folder.parent), daemon=True).start()
        found = sorted_units(ArrayRecording(path), sorter, Path(scratch))
    write_units(folder, found)
    return 0


if __name__ == "__main__":
    sys.stdout = sys.stderr
    sys.exit(main())
