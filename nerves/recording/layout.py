"""Names and types of what a recording holds (docs/recording.md).

The folder is a Zarr group that SpikeInterface opens as a recording (`read_zarr`): `traces_seg0`, `channel_ids`, `properties`,
`t_starts`. Each stretch of frames without a gap is one segment. All else are tables by frame.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from typing import Any, Final, Literal

import numpy as np

from nerves.detections import UNOBSERVED

VERSION: Final = 1
"""The format of a recording, kept as `choroid_recording` in its attributes."""
SUFFIX: Final = ".zarr"
LOG: Final = "log"
"""Array of bytes: one JSON object a line, with `kind` and `frame`."""

TABLES: Final[dict[str, np.dtype[Any]]] = {
    "spikes": np.dtype([("frame", "<i8"), ("electrode", "<i4"), ("uv", "<f4")]),
    "states": np.dtype([("frame", "<i8"), ("electrode", "<i4"), ("state", "u1")]),
    "pulses": np.dtype(
        [("pulse", "<i8"), ("decision", "<i8"), ("electrode", "<i4"), ("at_frame", "<i8"), ("not_after", "<i8")]
    ),
    "fates": np.dtype([("pulse", "<i8"), ("fate", "u1"), ("frame", "<i8")]),
    "clock": np.dtype([("frame", "<i8"), ("utc_us", "<i8")]),
    "impedances": np.dtype([("frame", "<i8"), ("electrode", "<i4"), ("kohm", "<f4")]),
    "blanks": np.dtype([("first_frame", "<i8"), ("end_frame", "<i8"), ("electrode", "<i4")]),
    "gaps": np.dtype([("first_frame", "<i8"), ("end_frame", "<i8"), ("cause", "u1")]),
    "unobserved": UNOBSERVED,
}
"""Columns of each table. Frames count from the start of the engine."""

TABLE_NAMES: Final = tuple(TABLES)
"""The codes of tables in messages."""
NO_FRAME: Final = -1
"""In `fates.frame`: the pulse was not delivered."""


class FateCode(IntEnum):
    """Numbers what became of a pulse: the codes of `fates.fate`."""

    PLANNED = 0
    HANDED = 1
    DELIVERED = 2
    DROPPED = 3
    CANCELLED = 4
    UNKNOWN = 5


class GapCause(IntEnum):
    """Numbers why frames (and all else of that time but stimulation) are missing: the codes of `gaps.cause`."""

    ARRAY = 0
    """The array lost them: they exist nowhere."""
    WRITER = 1
    """The writer was behind, or its disk was full."""


class MessageKind(IntEnum):
    """Kinds of messages from the engine to the writer."""

    SKIP = 0
    OPEN = 1
    CLOSE = 2
    FRAMES = 3
    GAP = 4
    TABLE = 5
    LOG = 6


@dataclass(frozen=True, slots=True)
class RecordingPlan:
    """Configures recording: what is recorded, where, and within which limits.

    `folder` holds all recordings of the rig. Together they take at most `quota_bytes`, and the disk keeps `min_free_bytes`.
    With `automatic` "leases" each time with a lease is recorded, with "always" each time the engine runs. Without `frames`
    the raw samples are left out. `identity` describes rig, chamber and tissue.
    """

    folder: str
    quota_bytes: float = 100e9
    min_free_bytes: float = 5e9
    automatic: Literal["never", "leases", "always"] = "never"
    frames: bool = True
    identity: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as JSON."""
        return asdict(self)


def chunk_rows(electrodes: int, sample_rate_hz: float, *, max_bytes: int = 8_000_000) -> int:
    """Return the frames of one chunk: at most half a second, so that a crash loses little, and about 8 MB."""
    return max(1, min(round(sample_rate_hz / 2), max_bytes // (2 * electrodes)))


def log_line(kind: str, frame: int, **values: Any) -> bytes:
    """Return a line of the log, without its end."""
    return json.dumps({"kind": kind, "frame": frame, **values}, ensure_ascii=False, allow_nan=False).encode()
