"""What a rank reports: one JSON object a line, in its folder and on standard output."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

EVENTS = "events.jsonl"


class Reports:
    """The events of one rank."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._path = folder / EVENTS
        self._rank = rank

    def say(self, event: str, **about: Any) -> None:
        """Report an event. A full disk does not end the training: standard output has it."""
        line = json.dumps({"event": event, "rank": self._rank, **about})
        with contextlib.suppress(OSError), self._path.open("a") as file:
            file.write(line + "\n")
        with contextlib.suppress(OSError):
            print(line, flush=True)
