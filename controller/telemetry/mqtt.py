"""The MQTT sink: every new reading, at least once and in order, however long the broker was away.

Readings go into an outbox first and leave it when the broker has confirmed them (QoS 1). The status topic is retained and
has a last will, armed anew at each connection (C4). Nothing is subscribed to: no message from a broker can move anything.

Topics, under the prefix (default `choroid`): `<rig>/status` = online or offline, `<rig>/readings` = one JSON object a batch:
`{"seq": n, "utc": "…", "readings": {"point": [value, "unit", "quality"], …}}`. `seq` counts without gaps; a number seen
twice is the same batch delivered twice.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiomqtt

from controller.rig.description import Mqtt
from controller.state import State
from controller.telemetry.outbox import Outbox

logger = logging.getLogger(__name__)

BATCH_S = 5.0
"""Readings are gathered so long into one message."""
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
KEEPALIVE_S = 15


class MqttSink:
    """A sink for :class:`controller.process.Controller`; `run` it as a task of its own, in real time."""

    def __init__(self, config: Mqtt, rig_name: str, outbox: Outbox) -> None:
        host, _, port = config.broker.rpartition(":")
        self._host, self._port = (host, int(port)) if host else (config.broker, 1883)
        self._user = config.user
        self._password_file = config.password_file
        self._topic = f"{config.prefix}/{rig_name}"
        self._outbox = outbox
        self._news = asyncio.Event()
        self._pending: dict[str, tuple[float, str, str]] = {}
        self._pending_utc = ""
        self._batch_ends_s = 0.0
        self._seen: dict[str, float] = {}
        self.connected = False
        self.delivered = 0
        self.connections = 0

    def offer(self, state: State) -> None:
        """Take what is new in a snapshot; every few seconds it becomes one message in the outbox."""
        for point, reading in state.readings.items():
            if reading.unit and self._seen.get(point) != reading.at_s and math.isfinite(reading.value):
                self._seen[point] = reading.at_s
                self._pending[point] = (reading.value, reading.unit, reading.quality.value)
        self._pending_utc = state.utc
        if self._pending and state.at_s >= self._batch_ends_s:
            self._batch_ends_s = state.at_s + BATCH_S
            self.flush()

    def flush(self) -> None:
        """Put what is pending into the outbox now."""
        if self._pending:
            body = {"seq": self._outbox.next_seq, "utc": self._pending_utc, "readings": self._pending}
            self._outbox.put(json.dumps(body, separators=(",", ":")).encode())
            self._pending = {}
            self._news.set()

    async def run(self) -> None:
        """Connect, send, reconnect with growing pauses; ends only by cancellation."""
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                async with self._connection() as client:
                    pause_s = FIRST_PAUSE_S
                    await self._send(client)
            except aiomqtt.MqttError as error:
                logger.warning(
                    "MQTT broker %s:%d: %s; %d batches wait", self._host, self._port, error, len(self._outbox)
                )
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[aiomqtt.Client]:
        will = aiomqtt.Will(f"{self._topic}/status", "offline", qos=1, retain=True)
        client = aiomqtt.Client(
            self._host,
            self._port,
            username=self._user,
            password=self._password(),
            will=will,
            keepalive=KEEPALIVE_S,
            timeout=10,
        )
        async with client:
            await client.publish(f"{self._topic}/status", "online", qos=1, retain=True)
            self.connected = True
            self.connections += 1
            try:
                yield client
            except asyncio.CancelledError:
                # A clean goodbye suppresses the last will, so the status must be said.
                await client.publish(f"{self._topic}/status", "offline", qos=1, retain=True)
                raise
            finally:
                self.connected = False

    async def _send(self, client: aiomqtt.Client) -> None:
        """Send what waits, oldest first; a message leaves the outbox when the broker has confirmed it."""
        watching = asyncio.create_task(self._watch(client), name="mqtt watch")
        watching.add_done_callback(lambda _: self._news.set())
        try:
            while not watching.done():
                self._news.clear()
                for parcel in self._outbox.oldest():
                    await client.publish(f"{self._topic}/readings", parcel.payload, qos=1)
                    self._outbox.confirmed(parcel.seq)
                    self.delivered += 1
                if not len(self._outbox) and not watching.done():
                    await self._news.wait()
            watching.result()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self, client: aiomqtt.Client) -> None:
        """Notice a lost connection at once, not at the next message. Nothing is subscribed, so nothing can come."""
        async for _ in client.messages:
            continue

    def _password(self) -> str | None:
        if self._password_file is None:
            return None
        return Path(self._password_file).read_text(encoding="utf-8").strip()
