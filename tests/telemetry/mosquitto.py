"""A real Mosquitto on a free port, and a consumer that survives its absence as a lab's own would."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiomqtt

from tests.telemetry.service import Service

MOSQUITTO = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin") or "mosquitto"


class Mosquitto(Service):
    """A broker that keeps its sessions on the disk."""

    def __init__(self, folder: Path, extra: Sequence[str] = ("allow_anonymous true",)) -> None:
        super().__init__(folder, "mosquitto")
        self._config = folder / "mosquitto.conf"
        lines = [
            "user root",
            f"listener {self.port} 127.0.0.1",
            *extra,
            "persistence true",
            f"persistence_location {folder}/",
        ]
        self._config.write_text("\n".join([*lines, "max_queued_messages 0", ""]))

    async def start(self) -> None:
        """Start it and wait until it listens."""
        await self.begin([MOSQUITTO, "-c", str(self._config)], self._listens)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


class Consumer:
    """Receive all topics of one rig: `messages` in their order, `statuses`, and the times of the heartbeats in `beats`."""

    def __init__(self, broker: Mosquitto, name: str = "consumer", **how: Any) -> None:
        self.messages: list[dict[str, Any]] = []
        self.statuses: list[str] = []
        self.beats: list[str] = []
        self._broker = broker
        self._how: dict[str, Any] = {"identifier": name, "clean_session": False} | how
        self._task = asyncio.create_task(self._listen())
        self.ready = asyncio.Event()

    @property
    def seqs(self) -> list[int]:
        return [message["seq"] for message in self.messages]

    @property
    def values(self) -> list[float]:
        """The values of all readings in the order of their messages, each message counted once."""
        once = {message["seq"]: message for message in self.messages}
        return [reading["value"] for seq in sorted(once) for reading in once[seq]["readings"]]

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _listen(self) -> None:
        while True:
            try:
                async with aiomqtt.Client("127.0.0.1", self._broker.port, **self._how) as client:
                    await client.subscribe("choroid/bench/#", qos=1)
                    self.ready.set()
                    async for message in client.messages:
                        payload = bytes(message.payload)
                        if message.topic.matches("choroid/bench/status"):
                            self.statuses.append(payload.decode())
                        elif message.topic.matches("choroid/bench/heartbeat"):
                            self.beats.append(json.loads(payload)["utc"])
                        else:
                            self.messages.append(json.loads(payload))
            except aiomqtt.MqttError:
                await asyncio.sleep(0.05)


async def retained_status(broker: Mosquitto, **how: Any) -> str:
    """Return the status that a new subscriber receives."""
    async with aiomqtt.Client("127.0.0.1", broker.port, **how) as client, asyncio.timeout(10):
        await client.subscribe("choroid/bench/status", qos=1)
        async for message in client.messages:
            return bytes(message.payload).decode()
    raise AssertionError("unreachable")
