"""Take messages from the engine and keep one recording open at a time: begin, write, end by quota, close."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from controller.core.disk import remedy
from nerves.recording.handover import HandoverMessage
from nerves.recording.layout import SUFFIX, TABLE_NAMES, TABLES, GapCause, MessageKind, RecordingPlan
from nerves.recording.quota import RecordingRefused, folder_bytes, require_room
from nerves.recording.writer import RecordingWriter

logger = logging.getLogger(__name__)

Say = Callable[[dict[str, Any]], None]


class WriterSession:
    """Executes the messages of the engine in the writer's process.

    `say` reports to the engine: `opened`, `refused`, `closed`, `progress`, with the name of the recording.
    """

    def __init__(self, say: Say, utc: Callable[[], str]) -> None:
        self._say = say
        self._utc = utc
        self._writer: RecordingWriter | None = None
        self._name = ""
        self._last_frame = 0

    @property
    def open(self) -> bool:
        """Whether a recording is open."""
        return self._writer is not None

    def take(self, message: HandoverMessage) -> None:
        """Obey one message. Raises OSError when the disk does not take it; call again with the same message then."""
        if message.kind is MessageKind.OPEN:
            self._open(json.loads(message.payload.tobytes()))
            return
        writer = self._writer
        if writer is None:
            return  # the recording was refused or has ended
        match message.kind:
            case MessageKind.FRAMES:
                samples = message.payload.view(np.int16).reshape(message.count, -1)
                writer.add_frames(message.frame, samples)
                self._last_frame = message.frame + message.count
            case MessageKind.GAP:
                writer.add_gap(message.frame, message.count, GapCause(message.extra))
                self._last_frame = message.count
            case MessageKind.TABLE:
                name = TABLE_NAMES[message.extra]
                writer.add_rows(name, message.payload.view(TABLES[name]).copy())
            case MessageKind.LOG:
                writer.add_log(message.payload.tobytes())
            case MessageKind.CLOSE:
                self.close(message.payload.tobytes().decode())

    def tick(self) -> None:
        """Flush, report, and end the recording where its room ends. Raises OSError as :meth:`take`."""
        writer = self._writer
        if writer is None:
            return
        writer.flush()
        if why := writer.room():
            self.close(why, by_itself=True)
            return
        self._say(
            {
                "event": "progress",
                "name": self._name,
                "frames": writer.frames,
                "bytes": writer.bytes_written,
                "lost_frames": writer.lost_frames,
            }
        )

    def close(self, why: str, *, by_itself: bool = False) -> None:
        """Close the open recording. Raises OSError as :meth:`take`."""
        writer = self._writer
        if writer is None:
            return
        writer.close(why, self._utc())
        self._writer = None
        self._closed(writer, why, by_itself=by_itself)

    def give_up(self, why: str, end_frame: int) -> None:
        """Close without the disk's help: what it did not take, up to `end_frame`, becomes a gap."""
        writer, self._writer = self._writer, None
        if writer is None:
            return
        try:
            writer.abandon(why, self._utc(), max(end_frame, self._last_frame))
        except OSError as error:
            logger.error("the recording %s could not be closed: %s", self._name, error)
        self._closed(writer, why)

    def _open(self, said: dict[str, Any]) -> None:
        self.close("another recording began")
        name, plan = str(said["name"]), RecordingPlan(**said["plan"])
        array = said["attributes"]["array"]
        bytes_s = 2.0 * array["electrodes"] * array["sample_rate_hz"] * plan.frames
        try:
            folder = Path(plan.folder)
            folder.mkdir(parents=True, exist_ok=True)
            used = folder_bytes(folder)
            require_room(plan, used, bytes_s)
            self._writer = _begun(folder / f"{name}{SUFFIX}", plan, said["attributes"], used)
        except (OSError, RecordingRefused) as error:
            why = str(error)
            if not isinstance(error, RecordingRefused):
                why = f"{plan.folder} cannot be written: {error}. {remedy(error)}"
            self._say({"event": "refused", "name": name, "why": why})
            return
        self._name = name
        self._say({"event": "opened", "name": name})

    def _closed(self, writer: RecordingWriter, why: str, *, by_itself: bool = False) -> None:
        self._say(
            {
                "event": "closed",
                "name": self._name,
                "why": why,
                "by_itself": by_itself,
                "frames": writer.frames,
                "bytes": writer.bytes_written,
                "lost_frames": writer.lost_frames,
            }
        )


def _begun(path: Path, plan: RecordingPlan, attributes: dict[str, Any], used: int) -> RecordingWriter:
    """Begin a recording; what cannot begin leaves nothing. Raises OSError or :class:`RecordingRefused`."""
    if path.exists():
        raise RecordingRefused(f"a recording of this name exists already: {path}. Next: choose another name")
    try:
        return RecordingWriter(path, plan, attributes, used)
    except OSError:
        shutil.rmtree(path, ignore_errors=True)
        raise
