"""Open a recording of Choroid for a replay."""

from __future__ import annotations

from pathlib import Path

from nerves.cards.playback import ReplayStretch
from nerves.cards.replayable import OwnRecording, unreadable, without_frames
from nerves.recording.quota import RecordingRefused
from nerves.recording.recorded import ArrayRecording


def open_recording(path: Path) -> OwnRecording:
    """Open a recording of Choroid.

    Raises:
        CardRefused: It cannot be read, or has no raw samples.
    """
    try:
        recording = ArrayRecording(path)
        stretches = tuple(
            ReplayStretch(segment.first_frame, segment.end_frame, segment.read)
            for segment in recording.segments
            if segment.end_frame > segment.first_frame
        )
    except (RecordingRefused, OSError, ValueError, KeyError) as error:
        raise unreadable(path, error) from error
    if not stretches:
        raise without_frames(path)
    return OwnRecording(
        recording.name,
        recording.electrodes,
        recording.sample_rate_hz,
        recording.uv_per_unit,
        bool(recording.attributes["array"].get("simulated", False)),
        stretches,
    )
