"""The MQTT sink: every new reading, at least once and in order, regardless of outages of the broker.

Readings go into an outbox first and leave it when the broker has confirmed them (QoS 1). The status topic is retained and has
a last will, set again at each connection (C4). The sink subscribes to one topic only, its own heartbeat, to notice a second
publisher under its name; all that follows is an alarm. No message from a broker can move anything.

Topics, under the prefix (default `choroid`): `<rig>/status` is `online` or `offline`. `<rig>/readings` carries the messages
of :mod:`controller.telemetry.batches`; their `seq` counts without gaps: a repeated number is the same message delivered
twice, a missing one was dropped because the outbox had reached its quota. `<rig>/heartbeat` is retained too and sent every
ten seconds while the control loop ticks: `{"utc": …, "rig_id": …, "process": …}`. A monitor that sees no new one raises an
alarm (L6). `rig_id` is the identity of the data folder and `process` that of this start. A heartbeat of another one is
that of a second rig with the same name; with the same `rig_id`, that of a second controller with a copy of the data folder.
Those two have one client id, so that the broker ends the connection of one whenever the other connects.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import sqlite3
import ssl
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiomqtt

from controller.core.state import State
from controller.memory.identity import ID
from controller.rig.sinks import Mqtt
from controller.telemetry.batches import Taken, message
from controller.telemetry.outbox import Outbox
from controller.telemetry.sink import OutboxSink

logger = logging.getLogger(__name__)

KEEPALIVE_S = 15
TIMEOUT_S = 10.0
GOODBYE_S = 2.0
HEARTBEAT_S = 10.0
OTHER_FOR_S = 90.0
"""How long a second publisher counts as present after its last heartbeat (s): both may be in their longest pause."""
MAX_HEARTBEAT_BYTES = 1000


class MqttSink(OutboxSink):
    """The sink of a broker. No failure of the broker can make it fail."""

    name = "mqtt"
    outages = (aiomqtt.MqttError, OSError, sqlite3.Error)

    def __init__(self, config: Mqtt, rig_name: str, rig_id: str, outbox: Outbox) -> None:
        """`rig_id` is the identity of the data folder (:mod:`controller.memory.identity`)."""
        super().__init__(f"MQTT broker {config.host}:{config.port}", outbox)
        self._config = config
        self._rig = rig_name
        self._rig_id = rig_id
        self._process = secrets.token_hex(4)
        self._announced = False
        """Whether the broker has a heartbeat of this process: a retained one of another is younger from then on."""
        self._other = ""
        """What a second publisher under this name is, for people."""
        self._other_until_s = 0.0
        self._takeovers = 0
        self._topic = f"{config.prefix}/{rig_name}"
        self._ticked = asyncio.Event()
        self._utc = ""

    def offer(self, state: State) -> None:
        """Accept a snapshot, which is also the sign that the control loop ticks."""
        self._utc = state.utc
        self._ticked.set()
        super().offer(state)

    @property
    def causes(self) -> Mapping[str, str]:
        """The causes of alarms, by kind; among them a second publisher under this name."""
        if self._other and asyncio.get_running_loop().time() < self._other_until_s:
            return {**super().causes, "name_shared": self._other}
        return super().causes

    def _encoded(self, readings: Sequence[Taken]) -> bytes:
        return message(self._outbox.next_seq, readings, self._rig_id)

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
            beat = json.dumps({"utc": self._utc, "rig_id": self._rig_id, "process": self._process})
            with suppress(aiomqtt.MqttError):  # the sender detects a lost connection
                await client.publish(f"{self._topic}/heartbeat", beat, qos=1, retain=True)
                self._announced = True
            await asyncio.sleep(HEARTBEAT_S)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[aiomqtt.Client]:
        """Connect and publish `online`; publish `offline` at an orderly end, otherwise the last will does."""
        config, status = self._config, f"{self._topic}/status"
        client = aiomqtt.Client(
            config.host,
            config.port,
            # The same at each start of this data folder: the broker then replaces a half-open connection at once, instead of
            # publishing its last will a minute after the new connection. Another rig of this name has another one.
            identifier=f"choroid-{self._rig_id}",
            username=config.user,
            password=self._password(),
            tls_context=ssl.create_default_context(cafile=config.ca_file) if config.tls else None,
            will=aiomqtt.Will(status, "offline", qos=1, retain=True),
            keepalive=KEEPALIVE_S,
            timeout=TIMEOUT_S,
        )
        async with client:
            await client.publish(status, "online", qos=1, retain=True)
            with suppress(aiomqtt.MqttError):  # an account that may only write: a second publisher is not noticed
                await client.subscribe(f"{self._topic}/heartbeat", qos=1)
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
        lost = asyncio.create_task(self._receive(client), name="mqtt: is the broker there?")
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

    async def _receive(self, client: aiomqtt.Client) -> None:
        """Take in the heartbeats under this name; raise when the connection is lost."""
        async for received in client.messages:
            if isinstance(received.payload, bytes | bytearray) and len(received.payload) <= MAX_HEARTBEAT_BYTES:
                self._received(bytes(received.payload), retained=received.retain)

    def _received(self, payload: bytes, *, retained: bool) -> None:
        """Note a second publisher. A retained heartbeat from before this process's first one is that of an earlier start."""
        try:
            beat = json.loads(payload)
            rig_id, process = beat.get("rig_id"), beat.get("process")
        except (ValueError, AttributeError):
            return
        if (rig_id, process) == (self._rig_id, self._process) or (retained and not self._announced):
            return
        copied = rig_id == self._rig_id
        if copied:
            self._takeovers += retained
            self._contested = True
            text = (
                f"a second controller with a copy of this data folder (identity {self._rig_id}) publishes at {self._where}"
                f" under {self._topic}. The broker ends the connection of one when the other connects; {self._takeovers}"
                " times it was this one. Next: stop the second controller; if both are to run, remove rig-identity.json"
                " from the copy and give it a name of its own"
            )
        else:
            known = rig_id if isinstance(rig_id, str) and ID.fullmatch(rig_id) else "unknown"
            text = (
                f"another rig (identity {known}) publishes at {self._where} under {self._topic}, as this one does"
                f" (identity {self._rig_id}): readings, status and heartbeat of the two are mixed. Next: give one of them"
                " another `name:` or `telemetry.mqtt.prefix` in its rig file"
            )
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._other_until_s:
            logger.warning(text)
        self._other, self._other_until_s = text, now_s + OTHER_FOR_S

    def _password(self) -> str | None:
        if self._config.password_file is None:
            return None
        return Path(self._config.password_file).read_text(encoding="utf-8").rstrip("\r\n")


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
