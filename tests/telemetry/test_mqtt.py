"""The MQTT sink against a real Mosquitto that is stopped, killed, cut off, and started again."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiomqtt
import pytest

from controller.core.state import Reading, State
from controller.rig.sinks import Mqtt
from controller.telemetry import mqtt, sink
from controller.telemetry.mqtt import MqttSink
from controller.telemetry.outbox import Outbox
from drivers.commands import Quality
from tests.telemetry.mosquitto import Consumer, Mosquitto, retained_status
from tests.telemetry.service import until

RIG_ID = "0c9b5a7f21de"
OTHER_ID = "ffeeddccbbaa"
pytestmark = pytest.mark.needs("mosquitto")


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "FIRST_PAUSE_S", 0.05)
    monkeypatch.setattr(sink, "LONGEST_PAUSE_S", 0.3)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    server = Mosquitto(tmp_path)
    yield server
    server.close()


class Rig:
    """A sink on its outbox, fed with one reading a message: the value is the reading's number."""

    def __init__(self, broker: Mosquitto, outbox: Path, rig_id: str = RIG_ID, **config: Any) -> None:
        self.outbox = Outbox(outbox)
        self.sink = MqttSink(Mqtt(broker=broker.address, **config), "bench", rig_id, self.outbox)
        self._task = asyncio.create_task(self.sink.run())
        self.offered = 0

    def offer(self, count: int = 1, *, start: int | None = None) -> None:
        self.offered = self.offered if start is None else start
        for _ in range(count):
            at_s = self.offered * sink.BATCH_S
            reading = Reading(float(self.offered), "g", Quality.GOOD, at_s)
            self.sink.offer(State(at_s, "2026-01-01T00:00:00.000Z", {"balance.mass": reading}, {}, {}, (), {}))
            self.offered += 1

    def all_through(self) -> bool:
        return not len(self.outbox)

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        assert self._task.cancelled()
        self.outbox.close()


@asynccontextmanager
async def rig_and_consumer(broker: Mosquitto, folder: Path, **config: Any) -> AsyncIterator[tuple[Rig, Consumer]]:
    rig, consumer = Rig(broker, folder / "outbox.db", **config), Consumer(broker)
    try:
        yield rig, consumer
    finally:
        await rig.close()
        await consumer.close()


async def test_D1_C4_a_broker_stopped_in_mid_stream_loses_no_reading(
    broker: Mosquitto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outages in a stream: every reading arrives, in order, the count is right, and hardly one is sent twice."""
    sent: list[int] = []
    publish = aiomqtt.Client.publish

    async def counted(client: aiomqtt.Client, topic: str, payload: Any, **how: Any) -> None:
        if topic.endswith("/readings"):
            sent.append(json.loads(payload)["seq"])
        await publish(client, topic, payload, **how)

    monkeypatch.setattr(aiomqtt.Client, "publish", counted)
    await broker.start()
    async with rig_and_consumer(broker, tmp_path) as (rig, consumer):
        await consumer.ready.wait()
        for outage in range(3):
            for _ in range(40):
                rig.offer()
                await asyncio.sleep(0.001)
            broker.stop()
            for _ in range(40):
                rig.offer()
                await asyncio.sleep(0)
            await until(lambda: not rig.sink.connected)
            assert rig.sink.problem is not None
            assert len(rig.outbox) >= 40
            await broker.start()
            await until(lambda outage=outage: rig.sink.connections == outage + 2)  # type: ignore[misc]
        await until(rig.all_through)
        await until(lambda: len(set(consumer.seqs)) == 240)
        assert rig.sink.problem is None
        assert consumer.values == [float(number) for number in range(240)]
        first_received = list(dict.fromkeys(consumer.seqs))
        assert first_received == list(range(1, 241))
        # At most the one message in flight is sent again after each outage. The broker itself repeats
        # messages to a consumer whose answer the outage cut off; so messages sent are counted, not messages received.
        assert 240 <= len(sent) <= 240 + 3
        assert rig.outbox.dropped == 0


async def test_D1_a_broker_that_is_down_from_the_start_gets_everything_later(broker: Mosquitto, tmp_path: Path) -> None:
    rig = Rig(broker, tmp_path / "outbox.db")
    rig.offer(50)
    await asyncio.sleep(0.3)
    assert len(rig.outbox) == 50
    await broker.start()
    await asyncio.sleep(0)
    consumer = Consumer(broker)
    await rig.close()  # the controller itself is restarted meanwhile
    await consumer.ready.wait()
    again = Rig(broker, tmp_path / "outbox.db")
    again.offer(10, start=50)
    await until(again.all_through)
    missed_before_subscribing = 50 - len([value for value in consumer.values if value < 50])
    await until(lambda: len(set(consumer.seqs)) == 60 - missed_before_subscribing)
    assert consumer.values == [float(number) for number in range(missed_before_subscribing, 60)]
    assert consumer.seqs == list(range(missed_before_subscribing + 1, 61))
    await again.close()
    await consumer.close()


async def test_D1_what_was_gathered_when_the_controller_ends_is_sent_after_its_restart(
    broker: Mosquitto, tmp_path: Path
) -> None:
    await broker.start()
    consumer = Consumer(broker)
    await consumer.ready.wait()
    rig = Rig(broker, tmp_path / "outbox.db")
    await until(lambda: rig.sink.connected)
    rig.offer()
    reading = Reading(1.0, "g", Quality.GOOD, 0.5)
    rig.sink.offer(
        State(0.5, "2026-01-01T00:00:00.500Z", {"balance.mass": reading}, {}, {}, (), {})
    )  # its batch is young
    await until(lambda: consumer.values == [0.0])
    await rig.close()
    again = Rig(broker, tmp_path / "outbox.db")
    await until(lambda: consumer.values == [0.0, 1.0])
    await again.close()
    await consumer.close()


SINK = """
import asyncio, sys
from pathlib import Path
from controller.rig.sinks import Mqtt
from controller.telemetry import mqtt, sink
from controller.telemetry.outbox import Outbox
async def main():
    await mqtt.MqttSink(Mqtt(broker=sys.argv[1]), "bench", "0c9b5a7f21de", Outbox(Path(sys.argv[2]))).run()
asyncio.run(main())
"""


async def test_C4_the_last_will_is_armed_again_after_the_broker_was_killed(broker: Mosquitto, tmp_path: Path) -> None:
    await broker.start()
    sink = subprocess.Popen(
        [sys.executable, "-c", SINK, broker.address, str(tmp_path / "o.db")], stderr=subprocess.DEVNULL
    )
    consumer = Consumer(broker)
    try:
        await until(lambda: "online" in consumer.statuses)
        broker.stop(signal.SIGKILL)
        consumer.statuses.clear()
        await broker.start()
        await until(lambda: "online" in consumer.statuses)
        sink.kill()  # no goodbye: only the will can speak now
        await until(lambda: consumer.statuses[-1] == "offline")
        assert await retained_status(broker) == "offline"
    finally:
        sink.kill()
        sink.wait()
        await consumer.close()


async def test_a_good_end_says_offline(broker: Mosquitto, tmp_path: Path) -> None:
    await broker.start()
    rig = Rig(broker, tmp_path / "outbox.db")
    await until(lambda: rig.sink.connected)
    assert await retained_status(broker) == "online"
    await rig.close()
    assert await retained_status(broker) == "offline"


async def test_an_end_while_the_broker_hangs_is_quick(
    broker: Mosquitto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mqtt, "TIMEOUT_S", 2.0)
    await broker.start()
    rig = Rig(broker, tmp_path / "outbox.db")
    await until(lambda: rig.sink.connected)
    broker.freeze()
    async with asyncio.timeout(mqtt.GOODBYE_S + 5):
        await rig.close()


async def test_C4_a_half_open_connection_does_not_speak_up_after_we_came_back(
    broker: Mosquitto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network cuts us off but not the broker: its old connection must not declare us offline a while later."""
    monkeypatch.setattr(mqtt, "KEEPALIVE_S", 1)
    await broker.start()
    async with proxy(broker.port) as network:
        config = Mqtt(broker=f"127.0.0.1:{network.port}")
        outbox = Outbox(tmp_path / "outbox.db")
        sink = MqttSink(config, "bench", RIG_ID, outbox)
        running = asyncio.create_task(sink.run())
        await until(lambda: sink.connections == 1)
        network.cut_our_side()
        await until(lambda: sink.connections == 2)
        await asyncio.sleep(9)  # Mosquitto looks for lapsed keepalives every five seconds
        assert sink.connections == 2
        assert await retained_status(broker) == "online"
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        outbox.close()


class Proxy:
    """Carries bytes to the broker; can cut its clients off without the broker noticing."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._clients: list[asyncio.StreamWriter] = []
        self._brokers: list[asyncio.StreamWriter] = []
        self._cut: set[asyncio.StreamWriter] = set()
        self.port = 0

    def cut_our_side(self) -> None:
        for writer in self._clients:
            self._cut.add(writer)
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        self._clients.append(writer)
        self._brokers.append(far_writer)
        back = asyncio.create_task(self._carry(far_reader, writer))
        await self._carry(reader, far_writer)
        if writer not in self._cut:
            far_writer.close()
        await asyncio.gather(back, return_exceptions=True)
        writer.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
        except ConnectionError:
            pass

    def close(self) -> None:
        for writer in [*self._clients, *self._brokers]:
            writer.transport.abort()


@asynccontextmanager
async def proxy(target: int) -> AsyncIterator[Proxy]:
    network = Proxy(target)
    server = await asyncio.start_server(network.serve, "127.0.0.1", 0)
    network.port = server.sockets[0].getsockname()[1]
    try:
        yield network
    finally:
        network.close()
        server.close()
        await server.wait_closed()
        await asyncio.sleep(0.05)


async def test_S1_no_message_from_the_broker_reaches_the_rig(broker: Mosquitto, tmp_path: Path) -> None:
    """Retained or not, on our topics or others: the sink takes in its own heartbeat only, and raises an alarm at most."""
    await broker.start()
    async with aiomqtt.Client("127.0.0.1", broker.port) as other:
        await other.publish("choroid/bench/command", "heart 0", qos=1, retain=True)
        rig = Rig(broker, tmp_path / "outbox.db")
        await until(lambda: rig.sink.connected)
        await other.publish("choroid/bench/readings", "heart 0", qos=1)
        for rubbish in (b"", b"heart 0", b"[]", b'{"rig_id": 7}', b"\xff", b"x" * 100_000):
            await other.publish("choroid/bench/heartbeat", rubbish, qos=1)
        await asyncio.sleep(0.2)
    log = (tmp_path / "mosquitto.log").read_text()
    assert f"choroid-{RIG_ID}" in log
    assert rig.sink.problem is None
    await rig.close()


async def test_S4_a_password_opens_the_broker_and_is_in_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    passwords, secret = tmp_path / "passwords", tmp_path / "secret"
    subprocess.run(["mosquitto_passwd", "-b", "-c", str(passwords), "lab", "rosebud"], check=True, capture_output=True)
    broker = Mosquitto(tmp_path, ["allow_anonymous false", f"password_file {passwords}"])
    await broker.start()
    rig = Rig(broker, tmp_path / "outbox.db", user="lab", password_file=str(secret))
    rig.offer(3)
    await until(lambda: rig.sink.problem is not None)  # there is no such file yet
    secret.write_text("sledge\n")
    await asyncio.sleep(0.5)
    assert not rig.sink.connected
    secret.write_text("rosebud\n")
    await until(rig.all_through)
    await rig.close()
    broker.close()
    assert caplog.text
    assert "rosebud" not in caplog.text
    assert "sledge" not in caplog.text
    assert b"rosebud" not in (tmp_path / "outbox.db").read_bytes()


@pytest.mark.needs("openssl")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # paho leaves a refused socket to the GC
async def test_S1_a_broker_with_another_certificate_is_not_believed(tmp_path: Path) -> None:
    for name in ("own", "foreign"):
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
             "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{tmp_path}/{name}.key", "-out", f"{tmp_path}/{name}.crt"],
            check=True, capture_output=True,
        )  # fmt: skip
    tls = [f"certfile {tmp_path}/own.crt", f"keyfile {tmp_path}/own.key", "allow_anonymous true"]
    broker = Mosquitto(tmp_path, tls)
    await broker.start()
    rig = Rig(broker, tmp_path / "outbox.db", tls=True, ca_file=str(tmp_path / "foreign.crt"))
    rig.offer()
    await until(lambda: rig.sink.problem is not None)
    assert "certificate" in str(rig.sink.problem).lower()
    assert rig.sink.connections == 0
    await rig.close()
    rig = Rig(broker, tmp_path / "outbox.db", tls=True, ca_file=str(tmp_path / "own.crt"))
    await until(rig.all_through)
    await rig.close()
    broker.close()


async def test_D2_a_full_disk_is_told_and_what_was_gathered_is_sent_when_there_is_room(
    broker: Mosquitto, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await broker.start()
    async with rig_and_consumer(broker, tmp_path) as (rig, consumer):
        await consumer.ready.wait()
        await until(lambda: rig.sink.connected)
        put, rig.outbox.put = rig.outbox.put, no_room  # type: ignore[method-assign]
        rig.offer(5)
        assert "full" in str(rig.sink.problem)
        assert len([record for record in caplog.records if "full" in record.message]) == 1
        rig.outbox.put = put  # type: ignore[method-assign]
        rig.offer()
        assert rig.sink.problem is None, "the broker was there all the time"
        await until(lambda: len(consumer.values) == 6)
        assert consumer.values == [float(number) for number in range(6)]
        assert consumer.seqs == [1, 2]  # the one that the disk did not take, and what has come since


def no_room(payload: bytes) -> int:
    raise sqlite3.OperationalError("database or disk is full")


async def test_L6_the_heartbeat_is_retained_and_stops_when_the_control_loop_does_not_tick(
    broker: Mosquitto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mqtt, "HEARTBEAT_S", 0.2)
    await broker.start()
    async with rig_and_consumer(broker, tmp_path) as (rig, consumer):
        await consumer.ready.wait()
        for _ in range(200):
            if len(consumer.beats) >= 3:
                break
            rig.offer()  # a tick
            await asyncio.sleep(0.1)
        await asyncio.sleep(0.5)
        silent = len(consumer.beats)
        assert silent >= 3
        await asyncio.sleep(1.0)  # the loop stands; the connection lasts
        assert len(consumer.beats) == silent
        assert rig.sink.connected
        newcomer = Consumer(broker, "newcomer")
        try:
            await until(lambda: len(newcomer.beats) == 1)
        finally:
            await newcomer.close()


async def test_two_rigs_of_one_name_keep_their_connections_and_both_raise_an_alarm(
    broker: Mosquitto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were one client to the broker: 46 takeovers in 51 s, readings mixed, no alarm."""
    monkeypatch.setattr(mqtt, "HEARTBEAT_S", 0.2)
    await broker.start()
    consumer = Consumer(broker)
    await consumer.ready.wait()
    one, two = Rig(broker, tmp_path / "one.db"), Rig(broker, tmp_path / "two.db", OTHER_ID)
    try:
        await _both_alarmed(one, two)
        assert OTHER_ID in one.sink.causes["name_shared"]
        assert RIG_ID in two.sink.causes["name_shared"]
        assert "another `name:`" in one.sink.causes["name_shared"]
        assert (one.sink.connections, two.sink.connections) == (1, 1)
        assert one.sink.problem is None
        await until(lambda: one.all_through() and two.all_through())
        await until(lambda: len(consumer.messages) >= one.offered + two.offered)
        by_rig = {rig: [m["seq"] for m in consumer.messages if m["rig_id"] == rig] for rig in (RIG_ID, OTHER_ID)}
        assert {rig: sorted(set(seqs)) for rig, seqs in by_rig.items()} == {
            RIG_ID: list(range(1, one.offered + 1)),
            OTHER_ID: list(range(1, two.offered + 1)),
        }
    finally:
        await one.close()
        await two.close()
        await consumer.close()


async def test_a_copy_of_the_data_folder_is_named_and_does_not_take_over_again_and_again(
    broker: Mosquitto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mqtt, "HEARTBEAT_S", 0.2)
    await broker.start()
    one, two = Rig(broker, tmp_path / "one.db"), Rig(broker, tmp_path / "two.db")
    try:
        await _both_alarmed(one, two)
        assert "copy of this data folder" in one.sink.causes["name_shared"]
        monkeypatch.setattr(sink, "LONGEST_PAUSE_S", 60.0)
        before = one.sink.connections + two.sink.connections
        for _ in range(60):
            one.offer()
            two.offer()
            await asyncio.sleep(0.05)
        assert one.sink.connections + two.sink.connections - before <= 8, "their pauses double"
    finally:
        await one.close()
        await two.close()


async def _both_alarmed(one: Rig, two: Rig) -> None:
    for _ in range(600):
        if "name_shared" in one.sink.causes and "name_shared" in two.sink.causes:
            return
        one.offer()  # a tick, without which there is no heartbeat
        two.offer()
        await asyncio.sleep(0.05)
    pytest.fail("no alarm on both rigs")


def _connected_times(rig: Rig, count: int) -> bool:
    return rig.sink.connections == count


async def test_a_restart_of_one_rig_is_no_second_rig(
    broker: Mosquitto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its former heartbeat is retained; an outage of the broker brings its own one back."""
    monkeypatch.setattr(mqtt, "HEARTBEAT_S", 0.2)
    monkeypatch.setattr(mqtt, "OTHER_FOR_S", 1000.0)
    await broker.start()
    for _ in range(2):
        rig = Rig(broker, tmp_path / "outbox.db")
        for outage in range(2):
            await until(partial(_connected_times, rig, outage + 1))
            for _ in range(20):
                rig.offer()
                await asyncio.sleep(0.05)
            if not outage:
                broker.stop()
                await asyncio.sleep(0.5)
                await broker.start()
        assert rig.sink.causes == {}
        await rig.close()
