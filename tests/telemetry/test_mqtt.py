"""The MQTT sink against a real Mosquitto that is stopped and started again."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import aiomqtt
import pytest

from controller.rig.description import Mqtt
from controller.state import Reading, State
from controller.telemetry.mqtt import MqttSink
from controller.telemetry.outbox import Outbox
from drivers.device import Quality

MOSQUITTO = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin") or "mosquitto"
pytestmark = pytest.mark.needs("mosquitto")


class Broker:
    """A Mosquitto on a free port of this machine, with a persistent store, that can be stopped and started."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self._config = folder / "mosquitto.conf"
        self._config.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence true\npersistence_location {folder}/\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            [MOSQUITTO, "-c", str(self._config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()  # as a service is stopped: Mosquitto saves what its clients still have to get
            self._process.wait()
            self._process = None


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    server = Broker(tmp_path)
    yield server
    server.stop()


async def ready(broker: Broker) -> None:
    for _ in range(100):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            await writer.wait_closed()
            return
    pytest.fail("mosquitto did not come up")


def state(number: int) -> State:
    reading = Reading(float(number), "g", Quality.GOOD, float(number))
    return State(float(number * 10), f"2026-01-01T00:00:{number % 60:02}Z", {"balance.mass": reading}, {}, {}, (), {})


async def listen(broker: Broker, got: list[int], statuses: list[str]) -> None:
    """A consumer that survives the broker's absence, as a lab's own would."""
    while True:
        try:
            async with aiomqtt.Client("127.0.0.1", broker.port, identifier="consumer", clean_session=False) as client:
                await client.subscribe("choroid/bench/#", qos=1)
                async for message in client.messages:
                    payload = bytes(message.payload)
                    if message.topic.matches("choroid/bench/status"):
                        statuses.append(payload.decode())
                    else:
                        got.append(int(json.loads(payload)["readings"]["balance.mass"][0]))
        except aiomqtt.MqttError:
            await asyncio.sleep(0.05)


async def test_D1_C4_a_broker_that_goes_away_loses_no_reading(broker: Broker, tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox.db")
    sink = MqttSink(Mqtt(broker=f"127.0.0.1:{broker.port}"), "bench", outbox)
    got: list[int] = []
    statuses: list[str] = []
    sending = asyncio.create_task(sink.run())
    broker.start()
    await ready(broker)
    listening = asyncio.create_task(listen(broker, got, statuses))
    await until(lambda: sink.connections == 1 and bool(statuses))
    for number in range(30):
        sink.offer(state(number))
    await until(lambda: len(got) >= 30)
    broker.stop()
    for number in range(30, 90):  # a minute's worth and more while it is away
        sink.offer(state(number))
        await asyncio.sleep(0)
    await until(lambda: not sink.connected)
    assert len(outbox) >= 60
    broker.start()
    await ready(broker)
    await until(lambda: sink.connections == 2 and not len(outbox))
    await until(lambda: len(set(got)) == 90)
    sending.cancel()
    listening.cancel()
    await asyncio.gather(sending, listening, return_exceptions=True)
    assert outbox.dropped == 0
    assert sorted(set(got)) == list(range(90))
    first_heard = list(dict.fromkeys(got))
    assert first_heard == sorted(first_heard), "batches must arrive in order"
    outbox.close()


CONTROLLER = """
import asyncio, sys
from pathlib import Path
from controller.rig.description import Mqtt
from controller.telemetry.mqtt import MqttSink
from controller.telemetry.outbox import Outbox
asyncio.run(MqttSink(Mqtt(broker=sys.argv[1]), "bench", Outbox(Path(sys.argv[2]))).run())
"""


async def test_C4_last_will_is_armed_again_after_a_restart(broker: Broker, tmp_path: Path) -> None:
    broker.start()
    await ready(broker)
    sink = subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, f"127.0.0.1:{broker.port}", str(tmp_path / "outbox.db")],
        stderr=subprocess.DEVNULL,
    )
    statuses: list[str] = []
    listening = asyncio.create_task(listen(broker, [], statuses))
    try:
        await until(lambda: "online" in statuses)
        broker.stop()
        await asyncio.sleep(0.2)
        statuses.clear()
        broker.start()
        await ready(broker)
        await until(lambda: "online" in statuses)
        sink.kill()  # no goodbye: only the will can speak now
        await until(lambda: statuses[-1] == "offline")
    finally:
        sink.kill()
        sink.wait()
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def test_a_clean_end_says_offline(broker: Broker, tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox.db")
    sink = MqttSink(Mqtt(broker=f"127.0.0.1:{broker.port}"), "bench", outbox)
    broker.start()
    await ready(broker)
    sending = asyncio.create_task(sink.run())
    await until(lambda: sink.connections == 1)
    statuses: list[str] = []
    listening = asyncio.create_task(listen(broker, [], statuses))
    await until(lambda: "online" in statuses)
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    await until(lambda: statuses[-1] == "offline")
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    outbox.close()


def test_the_outbox_keeps_order_over_a_restart_and_counts_what_it_drops(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox.db", quota_bytes=1000)
    for number in range(20):
        outbox.put(bytes([number]) * 100)
    assert outbox.dropped == 10
    outbox.close()
    again = Outbox(tmp_path / "outbox.db", quota_bytes=1000)
    parcels = again.oldest()
    assert [parcel.payload[0] for parcel in parcels] == list(range(10, 20))
    assert again.dropped == 10
    again.confirmed(parcels[-1].seq)
    assert len(again) == 0
    assert again.put(b"next") == 21
    again.close()


async def until(condition: object, *, seconds: float = 20.0) -> None:
    assert callable(condition)
    for _ in range(int(seconds / 0.02)):
        if condition():
            return
        await asyncio.sleep(0.02)
    pytest.fail("it did not happen in time")
