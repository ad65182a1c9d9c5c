"""Open a recording of Choroid for a replay."""

from __future__ import annotations

from pathlib import Path

from nerves.cards.contract import Delivery, Phase, Pulse
from nerves.cards.playback import ReplayStretch
from nerves.cards.replayable import OwnRecording, unreadable, without_frames
from nerves.recording.layout import NO_FRAME
from nerves.recording.quota import RecordingRefused
from nerves.recording.recorded import ArrayRecording


def open_recording(path: Path) -> OwnRecording:
    """Open a recording of Choroid.

    Raises:
        CardRefused: It cannot be read, or has no raw samples.
    """
    try:
        recording = ArrayRecording(path)
        deliveries = tuple(_deliveries(recording))
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
        recording.geometry,
        deliveries,
    )


def _deliveries(recording: ArrayRecording) -> list[Delivery]:
    """Return the pulses that a recording says were delivered, in order."""
    asked = {each["decision"]: each for each in recording.log("stimulation")}
    planned = {int(row["pulse"]): row for row in recording.table("pulses")}
    begun = [(int(row["frame"]), int(row["pulse"])) for row in recording.table("fates") if row["frame"] != NO_FRAME]
    found = []
    for number, (frame, pulse) in enumerate(sorted(begun)):
        row = planned.get(pulse)
        if row is not None:
            phases = tuple(Phase(us, ua) for us, ua in asked.get(int(row["decision"]), {}).get("phases", ()))
            found.append(Delivery(Pulse(-1 - number, int(row["electrode"]), phases, frame, frame), frame))
    return found
