"""A broker in memory, and a sink that forwards to it through the real outbox and batches."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import cast

from choroid.campaign.storage import Disk, FrailDatabase
from controller.rig.description import Mqtt
from controller.telemetry.mqtt import MqttSink
from controller.telemetry.outbox import Outbox

EVERY_S = 5.0


class Broker:
    """Takes messages while it is up, and remembers their numbers."""

    def __init__(self) -> None:
        self.up = True
        self.last = 0
        self.gaps: list[str] = []

    def take(self, payload: bytes) -> bool:
        """Whether the message was taken; a number that is skipped is remembered as a gap."""
        if not self.up:
            return False
        seq = int(json.loads(payload)["seq"])
        if seq > self.last + 1:
            self.gaps.append(f"message {self.last + 1} never came; {seq} did")
        self.last = max(self.last, seq)
        return True


class Forwarder(MqttSink):
    """The MQTT sink with a broker in memory in the network's place."""

    def __init__(self, path: Path, broker: Broker, rig_name: str) -> None:
        self._queue = Outbox(path)
        super().__init__(Mqtt(broker="127.0.0.1:1883"), rig_name, self._queue)
        self._broker = broker

    def frail(self, disk: Disk) -> FrailDatabase:
        """Let its file fail as `disk` does."""
        database = FrailDatabase(self._queue._db, disk)
        self._queue._db = cast(sqlite3.Connection, database)
        return database

    async def run(self) -> None:
        """Send what waits, in order, for ever."""
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                self.problem = self._forward()
            except sqlite3.Error as error:
                self.problem = f"the outbox cannot be read: {error}"

    def _forward(self) -> str | None:
        while parcels := self._queue.oldest():
            for parcel in parcels:
                if not self._broker.take(parcel.payload):
                    return "the broker does not answer"
                self._queue.confirmed(parcel.seq)
                self.delivered += 1
        return None

    def close(self) -> None:
        """Close the outbox; what waits stays."""
        self._queue.close()
