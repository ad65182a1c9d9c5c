"""Windows of recordings, as batches for the model.

A window has a past of 400 ms and the 100 ms that follow. Some begin these with a pulse; the others (spontaneous) have no
pulse near. The figures of the electrodes (:mod:`.statistics`) come from about a minute of spontaneous windows around.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .model import AHEAD_BINS, BIN_S, FINE_BINS, HASHES, PAST_BINS, PULSES, UNKNOWN, hashes
from .recordings import OrganoidRecording, RecordingError, read_recording, recordings_of
from .statistics import FIGURES, statistics

EVERY_S = 0.1
"""From one spontaneous window to the next: as long as what is predicted."""
FINE_S = BIN_S * AHEAD_BINS / FINE_BINS
PAST_S = PAST_BINS * BIN_S
QUIET_S = 1.0
"""After a pulse, until windows are spontaneous again."""
MINUTE = 120
"""Windows from which figures are made: each fifth, so that they do not overlap, of a minute."""
APART = 5
FEWEST = 24
"""Spontaneous windows that a recording must have, without overlap."""
MOST = 255
"""Count of a bin that is kept."""


class Windows(NamedTuple):
    """The windows of one recording; `E` electrodes. Counts are made when they are asked for: memory is that of the spikes."""

    recording: OrganoidRecording
    at_s: NDArray[np.float64]
    """The end of the past of each window."""
    pulse: NDArray[np.int64]
    pulse_s: NDArray[np.float32]
    minute: NDArray[np.int64]
    """Which row of `figures` belongs to each window."""
    figures: Tensor
    sites: NDArray[np.bool_]
    """Electrodes that were stimulated in this recording, shape (E,)."""

    def past(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return spike counts before the ends of pasts, shape (rows, `PAST_BINS`, E)."""
        return _counts(self.recording, self.at_s[rows] - PAST_S, PAST_BINS, BIN_S)

    def answer(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return spike counts after the ends of pasts, shape (rows, `FINE_BINS`, E)."""
        return _counts(self.recording, self.at_s[rows], FINE_BINS, FINE_S)


def windows(recording: OrganoidRecording) -> Windows:
    """Return the windows of a recording: the spontaneous ones, then those with a pulse.

    Raises:
        RecordingError: It has too little spontaneous activity to know its electrodes by.
    """
    free = _spontaneous(recording)
    if len(free) < FEWEST * APART:
        raise RecordingError(
            f"the recording of {recording.organoid} has {len(free) * EVERY_S:.0f} s without pulses;"
            f" {FEWEST * APART * EVERY_S:g} s are needed, better a minute. Next: record before or after the stimulation, too"
        )
    trials = np.flatnonzero(
        (recording.pulse_at_s >= PAST_S) & (recording.pulse_at_s + AHEAD_BINS * BIN_S <= recording.seconds)
    )
    at = np.concatenate([free, recording.pulse_at_s[trials]])
    figures, minute = _figures(recording, free)
    pulse = np.full((len(at), PULSES), UNKNOWN, np.int64)
    pulse_s = np.zeros((len(at), PULSES), np.float32)
    pulse[len(free) :, 0] = recording.pulse_electrode[trials]
    for row, trial in enumerate(trials, len(free)):
        before = recording.pulse_at_s[trial - 1] - recording.pulse_at_s[trial] if trial else -PAST_S
        if before > -PAST_S:
            pulse[row, 1], pulse_s[row, 1] = recording.pulse_electrode[trial - 1], before
    sites = np.zeros(recording.electrodes, bool)
    sites[recording.pulse_electrode] = True
    minutes = np.concatenate([minute, np.arange(len(trials)) % len(figures)])
    return Windows(recording, at, pulse, pulse_s, minutes, torch.stack(figures), sites)


class WindowSamples:
    """The windows of several recordings. `known` says whether their organoids are known by their embeddings."""

    def __init__(self, recordings: Sequence[OrganoidRecording], *, known: bool) -> None:
        """Cut recordings into windows.

        Args:
            recordings: Of one organoid or of several, whose arrays may differ.
            known: Whether a batch names their embeddings.
        """
        self._windows = [windows(each) for each in recordings]
        self._of = np.repeat(np.arange(len(recordings)), [len(each.at_s) for each in self._windows])
        self._first = np.concatenate([[0], np.cumsum([len(each.at_s) for each in self._windows])])
        self._place = [torch.from_numpy(each.place_um - each.place_um.mean(axis=0)).float() for each in recordings]
        self._units = [
            hashes(each.organoid, each.electrodes)
            if known
            else torch.full((each.electrodes, HASHES), UNKNOWN, dtype=torch.int64)
            for each in recordings
        ]
        self._electrodes = max((each.electrodes for each in recordings), default=0)

    def __len__(self) -> int:
        """Return the number of windows."""
        return len(self._of)

    @property
    def recording_of(self) -> NDArray[np.int64]:
        """Return the number of the recording of each window."""
        return self._of

    def batch(self, indices: Sequence[int]) -> dict[str, Tensor]:
        """Return windows as tensors; where arrays differ, absent electrodes are padded."""
        wanted = np.asarray(indices, np.int64)
        rows, electrodes = len(wanted), self._electrodes
        found = {
            "past": torch.zeros(rows, PAST_BINS, electrodes),
            "answer": torch.zeros(rows, FINE_BINS, electrodes),
            "pulse": torch.full((rows, PULSES), UNKNOWN, dtype=torch.int64),
            "pulse_s": torch.zeros(rows, PULSES),
            "present": torch.zeros(rows, electrodes, dtype=torch.bool),
            "sites": torch.zeros(rows, electrodes, dtype=torch.bool),
            "figures": torch.zeros(rows, electrodes, FIGURES),
            "place_um": torch.zeros(rows, electrodes, 2),
            "units": torch.full((rows, electrodes, HASHES), UNKNOWN, dtype=torch.int64),
        }
        for number in np.unique(self._of[wanted]):
            to = np.flatnonzero(self._of[wanted] == number)
            self._put(found, torch.from_numpy(to), int(number), wanted[to] - self._first[number])
        return found

    def _put(self, found: dict[str, Tensor], to: Tensor, number: int, rows: NDArray[np.int64]) -> None:
        made, wide = self._windows[number], len(self._place[number])
        found["past"][to, :, :wide] = torch.from_numpy(made.past(rows)).float()
        found["answer"][to, :, :wide] = torch.from_numpy(made.answer(rows)).float()
        found["pulse"][to] = torch.from_numpy(made.pulse[rows])
        found["pulse_s"][to] = torch.from_numpy(made.pulse_s[rows])
        found["present"][to, :wide] = True
        found["sites"][to, :wide] = torch.from_numpy(made.sites)
        found["figures"][to, :wide] = made.figures[torch.from_numpy(made.minute[rows])]
        found["place_um"][to, :wide] = self._place[number]
        found["units"][to, :wide] = self._units[number]


def samples_of(folders: Sequence[Path], split: str) -> WindowSamples:
    """Return the windows of the recordings of data folders; organoids of “train” are known.

    They are in the folder of the split, or in the data folder itself where that is absent.

    Raises:
        RecordingError: A folder has none, or one cannot be read.
    """
    files = []
    for folder in folders:
        own = folder / split
        found = recordings_of(own if own.is_dir() else folder)
        if not found:
            raise RecordingError(f"{folder} has no recording for “{split}”. Next: put some into its folder {split}")
        files += found
    return WindowSamples([read_recording(each) for each in files], known=split == "train")


def _spontaneous(recording: OrganoidRecording) -> NDArray[np.float64]:
    """Return the ends of the pasts of windows without a pulse near."""
    ends = np.arange(PAST_S, recording.seconds - AHEAD_BINS * BIN_S + 1e-9, EVERY_S)
    before = np.searchsorted(recording.pulse_at_s, ends - QUIET_S)
    until = np.searchsorted(recording.pulse_at_s, ends + AHEAD_BINS * BIN_S)
    found: NDArray[np.float64] = ends[before == until]
    return found


def _counts(recording: OrganoidRecording, begin_s: NDArray[np.float64], bins: int, bin_s: float) -> NDArray[np.uint8]:
    """Return spike counts from each of these times on, shape (times, bins, electrodes)."""
    first = np.searchsorted(recording.at_s, begin_s - 1e-9)
    last = np.searchsorted(recording.at_s, begin_s + bins * bin_s - 1e-9)
    row = np.repeat(np.arange(len(begin_s)), last - first)
    spike = np.arange(len(row)) - np.repeat(np.cumsum(last - first) - last, last - first)
    column = np.floor((recording.at_s[spike] - begin_s[row]) / bin_s + 1e-6).astype(np.int64)
    found = np.zeros((len(begin_s), bins, recording.electrodes), np.int32)
    np.add.at(found, (row, column.clip(0, bins - 1), recording.electrode[spike]), 1)
    return found.clip(0, MOST).astype(np.uint8)


def _figures(recording: OrganoidRecording, at_s: NDArray[np.float64]) -> tuple[list[Tensor], NDArray[np.int64]]:
    """Return figures of about each minute of spontaneous windows, and which ones belong to each window."""
    minutes = max(1, round(len(at_s) / (MINUTE * APART)))
    minute = np.arange(len(at_s)) * minutes // len(at_s)
    figures = []
    for each in range(minutes):
        past = _counts(recording, at_s[minute == each][::APART] - PAST_S, PAST_BINS, BIN_S)
        figures.append(statistics(torch.from_numpy(past).float()))
    return figures, minute
