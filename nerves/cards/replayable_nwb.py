"""Open an NWB file for a replay, through pynwb."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from pynwb import NWBHDF5IO
from pynwb.ecephys import ElectricalSeries

from nerves.cards.contract import CardRefused, Frames
from nerves.cards.geometry import ArrayGeometry
from nerves.cards.playback import ReplayStretch
from nerves.cards.replayable import Scaling, unreadable, without_frames

UNKNOWN_UM = 2.0
"""Size of an electrode whose file does not say it, as SpikeInterface assumes."""
MIN_UM = 1.0
"""Electrodes that are closer are no places: all at 0, or in another unit."""
GAP_FRAMES = 1.5
"""A step of the timestamps by more than so many frames is a gap."""


class NwbRecording:
    """Reads one electrical series of the acquisition of an NWB file. Gaps are where its timestamps jump.

    Raises:
        CardRefused: It cannot be read, or has no such series.
    """

    simulated = False
    deliveries = ()

    def __init__(self, path: Path, stream: str = "") -> None:
        self.name = path.name
        try:
            self._file = NWBHDF5IO(str(path), "r")
            series = _series(path, self._file.read(), stream)
        except CardRefused:
            raise
        except Exception as error:  # hdmf and h5py raise whatever a damaged file causes
            raise unreadable(path, error) from error
        self.geometry = _geometry(series)
        self._data = series.data
        if len(self._data.shape) != 2:
            raise unreadable(path, ValueError(f"{series.name} has not the shape (frames, electrodes)"))
        frames, self.electrodes = self._data.shape
        times = None if series.timestamps is None else np.asarray(series.timestamps)
        self.sample_rate_hz = float(series.rate) if times is None else round(1.0 / float(np.median(np.diff(times))), 3)
        gains = np.full(self.electrodes, float(series.conversion) * 1e6)
        if series.channel_conversion is not None:
            gains = gains * np.asarray(series.channel_conversion)
        offsets = np.full(self.electrodes, float(series.offset or 0.0) * 1e6)
        self._scaling = Scaling(self._data.dtype, gains, offsets)
        self.uv_per_unit = self._scaling.uv_per_unit
        self.stretches = tuple(self._stretches(frames, times))
        if not self.stretches:
            raise without_frames(path)

    def _stretches(self, frames: int, times: Any) -> list[ReplayStretch]:
        cuts = [0, frames]
        if times is not None:
            cuts[1:1] = (np.flatnonzero(np.diff(times) * self.sample_rate_hz > GAP_FRAMES) + 1).tolist()
        found: list[ReplayStretch] = []
        for row, last in pairwise(cuts):
            begin = row if times is None else round((times[row] - times[0]) * self.sample_rate_hz)
            first = max(begin, found[-1].end_frame if found else begin)
            if last > row:
                found.append(ReplayStretch(first, first + last - row, self._row_reader(first - row)))
        return found

    def _row_reader(self, shift: int) -> Any:
        def read(first: int, end: int) -> Frames:
            return self._scaling.units(np.asarray(self._data[first - shift : end - shift]))

        return read

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _series(path: Path, nwb: Any, wanted: str) -> ElectricalSeries:
    found = {name: each for name, each in nwb.acquisition.items() if isinstance(each, ElectricalSeries)}
    if wanted in found:
        return found[wanted]
    if not wanted and len(found) == 1:
        return next(iter(found.values()))
    said = f"no electrical series “{wanted}”" if wanted else f"{len(found)} electrical series"
    names = ", ".join(found) or "none"
    raise CardRefused(f"{path} has {said} in its acquisition. Next: write stream: under the options, one of: {names}")


def _geometry(series: ElectricalSeries) -> ArrayGeometry | None:
    """Return where the electrodes of a series are; None where the file does not say it, in um, of each."""
    table = series.electrodes.table
    if not {"rel_x", "rel_y"} <= set(table.colnames):
        return None
    rows = list(series.electrodes.data[:])
    x_um, y_um = (tuple(float(table[name][row]) for row in rows) for name in ("rel_x", "rel_y"))
    if not np.isfinite([x_um, y_um]).all():
        return None

    def column(name: str, otherwise: Any) -> tuple[Any, ...]:
        return tuple(table[name][row] if name in table.colnames else otherwise for row in rows)

    shapes = tuple(map(str, column("contact_shape", "circle")))
    sizes = np.array([column(f"contact_{side}_um", UNKNOWN_UM) for side in ("width", "height")], np.float64)
    if not set(shapes) <= {"circle", "square", "rect"} or not (sizes > 0).all():
        shapes, sizes = ("circle",) * len(rows), np.full((2, len(rows)), UNKNOWN_UM)
    found = ArrayGeometry(
        x_um=x_um,
        y_um=y_um,
        shape=shapes,
        width_um=tuple(sizes[0].tolist()),
        height_um=tuple(sizes[1].tolist()),
        shank=tuple(map(str, column("shank_id", ""))),
        pad=tuple(map(str, column("contact_id", "") if "contact_id" in table.colnames else rows)),
        reference=str(column("reference", "")[0]),
        source="recording",
    )
    return found if found.pitch_um >= MIN_UM else None
