"""Every new reading, gathered for a few seconds; and as one JSON message:

    {"seq": 41, "rig_id": "0c9b5a7f21de", "readings": [{"point": "balance.mass", "value": 3.02, "unit": "g",
                              "quality": "good", "utc": "2026-01-01T00:00:05.000Z"}, …]}

`utc` is when the reading was taken, not when it was sent. A reading that went bad is sent once more, so marked; a value
that never was is null. `"stable": false` is added while the device says that its value is still in motion.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from controller.core.state import State
from drivers.commands import Quality

MAX_WAITING = 200_000
"""Maximum number of readings in memory while the disk takes none: hours of a default rig."""
MAX_IN_MESSAGE = 2_000
"""Maximum number of readings in one message, about 250 kB: every broker and database accepts this size."""


class Taken(NamedTuple):
    """A reading to be sent: `at` is when it was taken; `value` is None if it had no value or lost it."""

    point: str
    value: float | None
    unit: str
    quality: str
    at: datetime
    stable: bool


class ReadingBatch:
    """The new readings since the last message."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, Quality]] = {}
        self.readings: list[Taken] = []
        """Waiting readings, oldest first."""
        self.given_up = 0
        """Number of readings lost because neither disk nor memory had room."""

    def __len__(self) -> int:
        return len(self.readings)

    def take(self, state: State) -> None:
        """Add the readings that are new in a snapshot."""
        utc: datetime | None = None
        for point, reading in state.readings.items():
            news = (reading.at_s, reading.quality)
            if not reading.unit or self._seen.get(point) == news:
                continue
            self._seen[point] = news
            utc = utc or datetime.fromisoformat(state.utc)
            taken = utc - timedelta(seconds=state.at_s - reading.at_s) if math.isfinite(reading.at_s) else utc
            value = reading.value if math.isfinite(reading.value) else None
            self.readings.append(Taken(point, value, reading.unit, reading.quality.value, taken, reading.stable))
        excess = len(self.readings) - MAX_WAITING
        if excess > 0:
            del self.readings[:excess]
            self.given_up += excess

    def cut(self) -> list[Taken]:
        """Remove and return the oldest readings, as many as one message takes."""
        piece = self.readings[:MAX_IN_MESSAGE]
        del self.readings[:MAX_IN_MESSAGE]
        return piece


def message(seq: int, taken: Sequence[Taken], rig_id: str) -> bytes:
    """Return readings of the rig with the identity `rig_id` as message number `seq`."""
    readings = [
        {
            "point": each.point,
            "value": each.value,
            "unit": each.unit,
            "quality": each.quality,
            "utc": each.at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            **({} if each.stable else {"stable": False}),
        }
        for each in taken
    ]
    return json.dumps(
        {"seq": seq, "rig_id": rig_id, "readings": readings}, separators=(",", ":"), allow_nan=False
    ).encode()
