"""In-memory destinations of readings, and a sink that forwards to one through the real outbox and batches."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from controller.telemetry.batches import Taken, message
from controller.telemetry.outbox import Outbox
from controller.telemetry.sink import OutboxSink
from verification.campaign.storage import Disk, FrailDatabase

EVERY_S = 5.0


class Service:
    """Accepts messages while it is up, and remembers their numbers."""

    def __init__(self) -> None:
        self.up = True
        self.last = 0
        self.gaps: list[str] = []

    def take(self, payload: bytes) -> bool:
        """Return whether the message was accepted; a skipped number is recorded as a gap."""
        if not self.up:
            return False
        seq = int(json.loads(payload)["seq"])
        if seq > self.last + 1:
            self.gaps.append(f"message {self.last + 1} never came; {seq} did")
        self.last = max(self.last, seq)
        return True


class Forwarder(OutboxSink):
    """A sink with an in-memory service instead of the network."""

    def __init__(self, path: Path, name: str, service: Service) -> None:
        self.name = name
        self._queue = Outbox(path)
        super().__init__(name, self._queue)
        self._service = service

    def _encoded(self, readings: Sequence[Taken]) -> bytes:
        return message(self._outbox.next_seq, readings, "")

    async def _serve(self) -> None:
        """Send the queue, in order, for ever."""
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                self._away = self._forward()
            except sqlite3.Error as error:
                self._away = f"the outbox cannot be read: {error}"

    def frail(self, disk: Disk) -> FrailDatabase:
        """Make its file fail as `disk` does."""
        database = FrailDatabase(self._queue._db, disk)
        self._queue._db = cast(sqlite3.Connection, database)
        return database

    def _forward(self) -> str | None:
        while parcels := self._queue.oldest():
            for parcel in parcels:
                if not self._service.take(parcel.payload):
                    return f"the {self.name} does not answer"
                self._queue.confirmed(parcel.seq)
                self.delivered += 1
        return None

    def close(self) -> None:
        """Close the outbox; the queue remains."""
        self._queue.close()
