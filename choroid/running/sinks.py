"""The telemetry sinks of a rig file as edges: each is opened by its supervisor, and again after a failure (B1)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path

from choroid.common.extras import load_extra
from controller.core.discarded import Discarded
from controller.core.disk import DAMAGED, remedy
from controller.core.state import State
from controller.memory.quarantine import quarantined_files
from controller.process.edges import Up
from controller.rig.description import Rig
from controller.telemetry.batches import ReadingBatch
from controller.telemetry.mqtt import MqttSink
from controller.telemetry.outbox import Outbox
from controller.telemetry.sink import OutboxSink


class EdgeSink:
    """A sink with an outbox of its own, so that a failed one does not delay the others."""

    def __init__(self, name: str, file: Path, made: Callable[[Outbox], OutboxSink]) -> None:
        """`made` returns the sink for the outbox in `file`."""
        self.name = name
        self._file = file
        self._made = made
        self._sink: OutboxSink | None = None
        self._batch = ReadingBatch()
        self._dropped = 0
        self._quarantined: dict[str, str] = {}

    @property
    def causes(self) -> Mapping[str, str]:
        """Present causes of alarms; the supervisor reports a sink that cannot be opened."""
        return self._quarantined | ({} if self._sink is None else dict(self._sink.causes))

    @property
    def discarded(self) -> tuple[Discarded, ...]:
        """Data that were given up."""
        own = Discarded(self.name, "readings for which there is no outbox", self._dropped)
        return (own, *(() if self._sink is None else self._sink.discarded))

    def offer(self, state: State) -> None:
        """Pass a snapshot on; count its readings while the sink is not open."""
        if self._sink is not None:
            self._sink.offer(state)
            return
        self._batch.take(state)
        while dropped := len(self._batch.cut()):
            self._dropped += dropped

    async def live(self, up: Up) -> None:
        """Open outbox and sink, and send until cancelled."""
        before = quarantined_files(self._file.parent)
        try:
            outbox = Outbox(self._file, autocheckpoint=False)
        except (sqlite3.Error, OSError) as error:
            raise OSError(
                f"{self._file.name} cannot be opened: {error}. Readings go only into the history."
                f" {remedy(error, self._file.parent, DAMAGED)}"
            ) from error
        if renamed := sorted({*quarantined_files(self._file.parent)} - {*before}):
            self._quarantined = {"file_quarantined": f"in {self._file.parent}: {', '.join(renamed)}"}
        try:
            self._sink = self._made(outbox)
            up()
            await self._sink.run()
        finally:
            self._sink = None
            outbox.close()


def sinks_of(rig: Rig, data: Path, rig_id: str) -> tuple[EdgeSink, ...]:
    """Return the sinks of the rig file; nothing is opened yet. `rig_id` is the identity of the data folder's rig."""
    mqtt, influx = rig.telemetry.mqtt, rig.telemetry.influx
    found: list[EdgeSink] = []
    if mqtt is not None:
        found.append(
            EdgeSink(MqttSink.name, data / "outbox.db", lambda outbox: MqttSink(mqtt, rig.name, rig_id, outbox))
        )
    if influx is not None:

        def made(outbox: Outbox) -> OutboxSink:
            module = load_extra(
                "controller.telemetry.influx",
                "influx",
                needed_for="telemetry.influx",
                otherwise="take telemetry.influx out of the rig file",
            )
            sink: OutboxSink = module.InfluxSink(influx, rig.name, rig_id, outbox)
            return sink

        found.append(EdgeSink("influx", data / "outbox-influx.db", made))
    return tuple(found)
