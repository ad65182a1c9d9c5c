"""Checkpoints of files that must not delay the control loop: history and outboxes, in a thread (real time)."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

from controller.core.database import checkpoint

EVERY_S = 3600.0
"""Time between two rounds (s). After each round the first write to a file waits for the disk once, because SQLite syncs the
header of a new WAL. The WALs of a default rig grow by some megabytes in this time."""


class Checkpoints:
    """Moves the WALs of a data folder into their files. `start_task(name, work)` runs a coroutine as a task."""

    def __init__(self, data: Path, start_task: Callable[[str, Coroutine[Any, Any, None]], None]) -> None:
        self._data = data
        self._start_task = start_task
        self._next_s: float | None = None
        self._at_work = False

    def update(self, now_s: float) -> None:
        """Start a round when it is time and the last one has ended."""
        if self._next_s is None:
            self._next_s = now_s + EVERY_S
        if now_s >= self._next_s and not self._at_work:
            self._next_s = now_s + EVERY_S
            self._at_work = True
            self._start_task("checkpoint", self._round())

    async def _round(self) -> None:
        try:
            await asyncio.to_thread(_checkpointed, [self._data / "history.db", *self._data.glob("outbox*.db")])
        finally:
            self._at_work = False


def _checkpointed(files: Iterable[Path]) -> None:
    for file in files:
        with contextlib.suppress(
            sqlite3.Error
        ):  # a full disk, a lock: it is tried again, and the writer of the file tells
            checkpoint(file)
