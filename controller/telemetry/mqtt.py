"""The MQTT sink: every new reading, at least once and in order, regardless of outages of the broker.

Readings go into an outbox first and leave it when the broker has confirmed them (QoS 1). The status topic is retained and has
a last will, set again at each connection (C4). Nothing is subscribed to: no message from a broker can move anything.

Topics, under the prefix (default `choroid`): `<rig>/status` is `online` or `offline`. `<rig>/readings` carries the messages
of :mod:`controller.telemetry.batches`; their `seq` counts without gaps: a repeated number is the same message delivered
twice, a missing one was dropped because the outbox had reached its quota. `<rig>/heartbeat` is retained too and sent every
ten seconds while the control loop ticks: `{"utc": …}`. A monitor that sees no new one raises an alarm (L6).
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import ssl
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiomqtt

from controller.core.state import State
from controller.rig.sinks import Mqtt
from controller.telemetry.batches import Taken, message
from controller.telemetry.outbox import Outbox
from controller.telemetry.sink import OutboxSink

KEEPALIVE_S = 15
TIMEOUT_S = 10.0
GOODBYE_S = 2.0
HEARTBEAT_S = 10.0


class MqttSink(OutboxSink):
    """The sink of a broker. No failure of the broker can make it fail."""

    name = "mqtt"
    outages = (aiomqtt.MqttError, OSError, sqlite3.Error)

    def __init__(self, config: Mqtt, rig_name: str, outbox: Outbox) -> None:
        super().__init__(f"MQTT broker {config.host}:{config.port}", outbox)
        self._config = config
        self._rig = rig_name
        self._topic = f"{config.prefix}/{rig_name}"
        self._ticked = asyncio.Event()
        self._utc = ""

    def offer(self, state: State) -> None:
        """Accept a snapshot, which is also the sign that the control loop ticks."""
        self._utc = state.utc
        self._ticked.set()
        super().offer(state)

    def _encoded(self, readings: Sequence[Taken]) -> bytes:
        return message(self._outbox.next_seq, readings)

    async def _serve(self) -> None:
        async with self._connection() as client:
            beating = asyncio.create_task(self._beat(client), name="mqtt: heartbeat")
            try:
                await self._send(client)
            finally:
                beating.cancel()
                await asyncio.gather(beating, return_exceptions=True)

    async def _beat(self, client: aiomqtt.Client) -> None:
        """Publish a heartbeat while the control loop ticks."""
        while True:
            self._ticked.clear()
            await self._ticked.wait()
            beat = json.dumps({"utc": self._utc})
            with suppress(aiomqtt.MqttError):  # the sender detects a lost connection
                await client.publish(f"{self._topic}/heartbeat", beat, qos=1, retain=True)
            await asyncio.sleep(HEARTBEAT_S)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[aiomqtt.Client]:
        """Connect and publish `online`; publish `offline` at an orderly end, otherwise the last will does."""
        config, status = self._config, f"{self._topic}/status"
        client = aiomqtt.Client(
            config.host,
            config.port,
            # Always the same: the broker then replaces a half-open connection at once, instead of publishing its last will
            # a minute after the new connection.
            identifier=f"choroid-{self._rig}",
            username=config.user,
            password=self._password(),
            tls_context=ssl.create_default_context(cafile=config.ca_file) if config.tls else None,
            will=aiomqtt.Will(status, "offline", qos=1, retain=True),
            keepalive=KEEPALIVE_S,
            timeout=TIMEOUT_S,
        )
        async with client:
            await client.publish(status, "online", qos=1, retain=True)
            self._came_up()
            try:
                yield client
            except asyncio.CancelledError:
                # An orderly disconnect suppresses the last will, so the status must be published.
                with suppress(aiomqtt.MqttError):
                    await client.publish(status, "offline", qos=1, retain=True, timeout=GOODBYE_S)
                raise
            finally:
                self.connected = False

    async def _send(self, client: aiomqtt.Client) -> None:
        """Send the waiting messages, oldest first; a message leaves the outbox when the broker has confirmed it."""
        lost = asyncio.create_task(_until_lost(client), name="mqtt: is the broker there?")
        try:
            while True:
                self._news.clear()
                for parcel in self._outbox.oldest():
                    await _unless(lost, client.publish(f"{self._topic}/readings", parcel.payload, qos=1))
                    self._outbox.confirmed(parcel.seq)
                    self.delivered += 1
                if not len(self._outbox):
                    await _unless(lost, self._news.wait())
        finally:
            lost.cancel()
            await asyncio.gather(lost, return_exceptions=True)

    def _password(self) -> str | None:
        if self._config.password_file is None:
            return None
        return Path(self._config.password_file).read_text(encoding="utf-8").rstrip("\r\n")


async def _until_lost(client: aiomqtt.Client) -> None:
    """Raise when the connection is lost. Nothing is subscribed to, so no message can come."""
    async for _ in client.messages:
        continue


async def _unless(lost: asyncio.Task[None], work: Coroutine[Any, Any, object]) -> None:
    """Await `work`, but only while the connection lasts: aiomqtt alone would wait for its timeout."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait((task, lost), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        else:
            lost.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
