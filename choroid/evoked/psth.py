"""Peri-stimulus time histograms of a recording: `choroid.psth` and `choroid recording psth`."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from choroid.common.failure import UserError
from nerves.detections import ALL, UNOBSERVED, Spikes
from nerves.psth import BIN_MS, WINDOW_MS, Psth, histogram
from nerves.recording.catalogue import FOLDER
from nerves.recording.layout import FateCode
from nerves.recording.quota import RecordingRefused
from nerves.recording.recorded import ArrayRecording, open_recording

LISTED = 10


def psth(
    recording: str | Path,
    *,
    data: str | Path = "choroid-data",
    window_ms: tuple[float, float] = WINDOW_MS,
    bin_ms: float = BIN_MS,
    stimulated: Collection[int] | None = None,
) -> Psth:
    """Count the spikes around the delivered pulses of a recording, by electrode and latency.

    Time in which nothing could be detected (blanking, artefacts, rails, flat and noisy channels, gaps) is not counted as time
    without spikes: a bin that was never observed has no rate.

    Args:
        recording: Its name, or its folder.
        data: The data folder of the rig.
        window_ms: Begin and end of the window from the begin of a pulse on.
        bin_ms: Width of a latency bin.
        stimulated: Only pulses of these electrodes; all if left out.

    Returns:
        Counts, observed time, rate and baseline.

    Raises:
        UserError: There is no such recording, it is damaged, or it has no such pulse.
    """
    try:
        found = open_recording(Path(data) / FOLDER, str(recording))
        pulses = _delivered(found, stimulated)
        if not len(pulses):
            which = "" if stimulated is None else f" on electrodes {', '.join(map(str, sorted(stimulated)))}"
            raise UserError(
                f"{found.name} has no delivered pulse{which}. Likely cause: nothing was stimulated while it was recorded."
                " Next: record a session with stimulation, or name other electrodes"
            )
        rows = found.table("spikes")
        spikes = Spikes(rows["frame"], rows["electrode"], rows["uv"])
        return histogram(pulses, spikes, _unobserved(found), found.electrodes, found.sample_rate_hz, window_ms, bin_ms)
    except (RecordingRefused, ValueError, OSError) as error:
        raise UserError(str(error)) from None


def _delivered(recording: ArrayRecording, stimulated: Collection[int] | None) -> NDArray[np.int64]:
    """Return the frames of delivered pulses."""
    pulses, fates = recording.table("pulses"), recording.table("fates")
    fates = fates[fates["fate"] == FateCode.DELIVERED]
    if stimulated is not None:
        chosen = pulses["pulse"][np.isin(pulses["electrode"], sorted(stimulated))]
        fates = fates[np.isin(fates["pulse"], chosen)]
    frames: NDArray[np.int64] = fates["frame"]
    return frames


def _unobserved(recording: ArrayRecording) -> NDArray[np.void]:
    """Return all stretches without detection: those that were recorded, gaps, and all time before and after the recording."""
    said = recording.attributes["filter"]["spikes"]
    rate, latency = recording.sample_rate_hz, int(said["latency_frames"])
    gaps = recording.table("gaps")
    first = int(recording.attributes["first_frame"])
    ends = [segment.end_frame for segment in recording.segments] + gaps["end_frame"].tolist()
    if not recording.attributes.get("includes_frames", True):
        ends += recording.table("clock")["frame"].tolist()
    outside = [(-(1 << 62), first, ALL, 0), (max(ends, default=first) - latency, 1 << 62, ALL, 0)]
    lost = [(int(row["first_frame"]) - latency, int(row["end_frame"]), ALL, 0) for row in gaps]
    if "mute_causes" in recording.attributes:
        known = recording.table("unobserved")
    else:  # a recording of an earlier release knows blanks only; the filter holds what was before their end
        blanks = recording.table("blanks")
        known = np.zeros(len(blanks), UNOBSERVED)
        known["first_frame"] = blanks["first_frame"] - latency
        known["end_frame"] = blanks["end_frame"] + round(float(said["long_mean_s"]) * rate)
        known["electrode"] = blanks["electrode"]
    return np.concatenate([known, np.array([*outside, *lost], UNOBSERVED)])


def as_json(found: Psth) -> dict[str, Any]:
    """Return a histogram as JSON; null where nothing was observed."""
    return {
        "trials": found.trials,
        "overlapping": found.overlapping,
        "edges_ms": [round(float(edge), 6) for edge in found.edges_ms],
        "electrodes": [
            {
                "electrode": electrode,
                "counts": found.counts[electrode].tolist(),
                "observed_s": [round(float(each), 9) for each in found.observed_s[electrode]],
                "rate_hz": _or_null(found.rate_hz[electrode]),
                "baseline_hz": _or_null(found.baseline_hz[electrode : electrode + 1])[0],
                "baseline_interval_hz": _or_null(found.baseline_interval_hz[electrode]),
            }
            for electrode in range(len(found.counts))
        ],
    }


def _or_null(values: NDArray[np.float64]) -> list[float | None]:
    return [None if np.isnan(each) else round(float(each), 6) for each in values]


def as_text(found: Psth) -> str:
    """Return for people the electrodes whose rate rises most, each with its highest bin."""
    after = found.edges_ms[:-1] >= 0.0
    shown = np.where(after, np.nan_to_num(found.rate_hz, nan=-1.0), -1.0)
    lines = [
        f"{found.trials} trials, {found.overlapping} of them with another pulse in their window",
        "electrode  before (Hz)    95 % interval  highest (Hz)    at (ms)  not observed (ms)",
    ]
    rises = shown.max(axis=1) - np.nan_to_num(found.baseline_hz)
    for electrode in np.argsort(-rises, kind="stable")[:LISTED]:
        best = int(shown[electrode].argmax())
        low, high = found.baseline_interval_hz[electrode]
        hidden = found.edges_ms[:-1][(found.observed_s[electrode] <= 0.0) & after]
        width = found.edges_ms[1] - found.edges_ms[0]
        lines.append(
            f"{electrode:>9}  {found.baseline_hz[electrode]:>11.2f}  {f'{low:.2f} to {high:.2f}':>15}"
            f"  {max(shown[electrode, best], 0.0):>12.1f}  {found.edges_ms[best]:>9.1f}"
            f"  {f'{len(hidden) * width:.1f}, from {hidden[0]:.1f}' if len(hidden) else 'none'}"
        )
    return "\n".join(lines)
