"""The InfluxDB sink against a real VictoriaMetrics that is stopped, killed and started again, and against refusals."""

from __future__ import annotations

import asyncio
import gzip
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from choroid.common.failure import UserError
from choroid.running.sinks import sinks_of
from controller.core.state import Reading, State
from controller.rig.loading import load_rig
from controller.rig.sinks import Influx
from controller.telemetry import sink
from controller.telemetry.influx import InfluxSink
from controller.telemetry.outbox import Outbox
from drivers.commands import Quality
from tests.telemetry.service import until
from tests.telemetry.victoria import Victoria

RIG_ID = "0c9b5a7f21de"
FIRST_MS = 1767225600000
"""2026-01-01T00:00:00Z"""
RIG = Path(__file__).parents[2] / "examples" / "rigs" / "bench.yaml"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "FIRST_PAUSE_S", 0.05)
    monkeypatch.setattr(sink, "LONGEST_PAUSE_S", 0.3)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Victoria]:
    server = Victoria(tmp_path)
    yield server
    server.close()


class Fed:
    """A sink on its outbox, fed with one reading a message: the value is the reading's number."""

    def __init__(self, url: str, folder: Path, **config: Any) -> None:
        self.outbox = Outbox(folder / "outbox-influx.db")
        self.sink = InfluxSink(Influx(url=url, org="lab", bucket="choroid", **config), "bench", RIG_ID, self.outbox)
        self._task = asyncio.create_task(self.sink.run())
        self.offered = 0

    def offer(
        self, count: int = 1, point: str = "balance.mass", quality: Quality = Quality.GOOD, *, stable: bool = True
    ) -> None:
        for _ in range(count):
            at_s = self.offered * sink.BATCH_S
            utc = f"2026-01-01T00:{int(at_s) // 60:02d}:{at_s % 60:06.3f}Z"
            value = float(self.offered) if quality is Quality.GOOD else float("nan")
            reading = Reading(value, "g", quality, at_s, stable=stable)
            self.sink.offer(State(at_s, utc, {point: reading}, {}, {}, (), {}))
            self.offered += 1

    def all_through(self) -> bool:
        return not len(self.outbox)

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        assert self._task.cancelled()
        self.outbox.close()


@asynccontextmanager
async def fed(url: str, folder: Path, **config: Any) -> AsyncIterator[Fed]:
    rig = Fed(url, folder, **config)
    try:
        yield rig
    finally:
        await rig.close()


@pytest.mark.needs("victoria-metrics")
async def test_D1_readings_arrive_with_their_value_time_and_tags(database: Victoria, tmp_path: Path) -> None:
    await database.start()
    async with fed(database.url, tmp_path) as rig:
        rig.offer(3)
        rig.offer(1, "ph loop,left.ph")  # what the protocol itself is made of
        rig.offer(1, quality=Quality.SUSPECT)
        rig.offer(1, "scale.mass", stable=False)
        await until(rig.all_through)
        tags = {"rig": "bench", "rig_id": RIG_ID, "point": "balance.mass", "unit": "g"}
        good = [(FIRST_MS + 5000 * number, float(number)) for number in range(3)]
        await until(lambda: database.samples(**tags) == good)
        assert database.samples(point="ph loop,left.ph") == [(FIRST_MS + 15000, 3.0)]
        assert database.samples("readings_missing", quality="suspect", **tags) == [(FIRST_MS + 20000, 1.0)]
        await until(lambda: database.samples(point="scale.mass") == [(FIRST_MS + 25000, 5.0)])
        assert database.samples("readings_stable", quality="good", point="scale.mass") == [(FIRST_MS + 25000, 0.0)]
        assert database.samples("readings_stable", **tags) == []
        assert (rig.sink.connected, rig.sink.problem, rig.sink.refused_readings) == (True, None, 0)


@pytest.mark.needs("victoria-metrics")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGSTOP])
async def test_D1_a_database_away_in_mid_stream_loses_no_reading(
    how: signal.Signals, database: Victoria, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.telemetry.influx.TIMEOUT_MS", 1000)
    await database.start()
    async with fed(database.url, tmp_path) as rig:
        rig.offer(20)
        await until(rig.all_through)
        database.stop() if how is signal.SIGTERM else database.freeze()
        rig.offer(300)
        await until(lambda: rig.sink.problem is not None)
        assert database.url in str(rig.sink.problem)
        assert not rig.sink.connected
        assert len(rig.outbox) == 300
        await database.start() if how is signal.SIGTERM else database.thaw()
        await until(rig.all_through)
        assert rig.sink.problem is None
        every = [(FIRST_MS + 5000 * number, float(number)) for number in range(320)]
        await until(lambda: sorted(set(database.samples())) == every)


@pytest.mark.needs("victoria-metrics")
async def test_D1_what_waits_outlives_the_process(database: Victoria, tmp_path: Path) -> None:
    async with fed(database.url, tmp_path) as rig:
        rig.offer(5)
    await database.start()
    async with fed(database.url, tmp_path) as again:
        await until(again.all_through)
        await until(lambda: [value for _, value in database.samples()] == [0.0, 1.0, 2.0, 3.0, 4.0])


@asynccontextmanager
async def answering(answer: Callable[[str], web.Response]) -> AsyncIterator[str]:
    """A server whose answer depends on the lines that it gets."""

    async def write(request: web.Request) -> web.Response:
        assert (request.query["org"], request.query["bucket"], request.query["precision"]) == ("lab", "choroid", "ms")
        body = await request.read()
        return answer((gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body).decode())

    app = web.Application()
    app.router.add_post("/api/v2/write", write)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_what_a_database_refuses_holds_up_nothing_else(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    taken: list[str] = []

    def answer(lines: str) -> web.Response:
        if "poison" in lines:
            return web.json_response({"code": "invalid", "message": "field type conflict"}, status=400)
        taken.extend(lines.splitlines())
        return web.Response(status=204)

    async with answering(answer) as url, fed(url, tmp_path) as rig:
        rig.offer(10)
        rig.offer(1, "poison.level")
        rig.offer(10)
        await until(rig.all_through)
        assert len(set(taken)) == 20, "ten before it and ten after"
        assert (rig.sink.refused_readings, rig.sink.delivered) == (1, 21)
        assert "field type conflict" in caplog.text


async def test_Q6_a_database_that_refuses_everything_gets_it_later_and_an_alarm_has_the_count(tmp_path: Path) -> None:
    """Its outbox was emptied without a word: delivered 0, `connected` true, no alarm."""
    status = [422]
    taken: list[str] = []
    requests = [0]

    def answer(lines: str) -> web.Response:
        requests[0] += 1
        if status[0] == 204:
            taken.extend(lines.splitlines())
            return web.Response(status=204)
        return web.json_response({"code": "unprocessable entity", "message": "bucket is read-only"}, status=status[0])

    async with answering(answer) as url, fed(url, tmp_path) as rig:
        rig.offer(5)
        await until(lambda: "5 messages" in str(rig.sink.problem))
        cause = rig.sink.causes["telemetry_lost"]
        assert "bucket is read-only" in cause
        assert "Next: read why" in cause
        assert not rig.sink.connected
        assert (len(rig.outbox), rig.sink.delivered, rig.sink.refused_readings) == (5, 0, 0)
        rig.offer(600)
        await until(lambda: "605 messages" in str(rig.sink.problem))
        before = requests[0]
        await asyncio.sleep(1.5)  # five pauses of 0.3 s
        assert requests[0] - before < 7 * 25, "a database that refuses everything is not flooded"
        assert rig.sink.refused_readings == 0
        status[0] = 204
        await until(rig.all_through)
        assert rig.sink.causes == {}
        assert len(set(taken)) == 605
        assert not any(each.count for each in rig.sink.discarded)


async def test_Q6_readings_that_a_database_refuses_in_every_message_are_given_up_and_the_others_go_through(
    tmp_path: Path,
) -> None:
    """One point has another type of field in the bucket: every message holds it."""
    taken: list[str] = []

    def answer(lines: str) -> web.Response:
        if "poison" in lines:
            return web.json_response({"code": "invalid", "message": "field type conflict"}, status=422)
        taken.extend(lines.splitlines())
        return web.Response(status=204)

    async with answering(answer) as url, fed(url, tmp_path) as rig:
        for number in range(30):
            at_s = number * sink.BATCH_S
            points = ("a.x", "b.x", "poison.x", "c.x", "d.x")
            readings = {point: Reading(float(number), "g", Quality.GOOD, at_s) for point in points}
            rig.sink.offer(State(at_s, f"2026-01-01T00:{number:02d}:00.000Z", readings, {}, {}, (), {}))
        await until(rig.all_through)
        assert len(set(taken)) == 30 * 4
        assert rig.sink.refused_readings == 30
        assert [each.count for each in rig.sink.discarded] == [0, 0, 30]
        assert rig.sink.problem is None


async def test_Q6_old_messages_that_are_refused_whole_do_not_hold_up_younger_ones(tmp_path: Path) -> None:
    """Such as those of a device that was removed since: the newest message shows that the database accepts others."""

    def answer(lines: str) -> web.Response:
        return web.Response(status=400 if "poison" in lines else 204)

    async with answering(answer) as url, fed(url, tmp_path) as rig:
        rig.offer(40, "poison.level")
        await until(lambda: rig.sink.problem is not None)
        assert len(rig.outbox) == 40
        rig.offer(3)
        await until(rig.all_through)
        assert rig.sink.refused_readings == 40


async def test_a_wrong_token_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old\n")
    status = [401]
    async with (
        answering(lambda _: web.Response(status=status[0])) as url,
        fed(url, tmp_path, token_file=str(tmp_path / "token")) as rig,
    ):
        rig.offer(4)
        await until(lambda: rig.sink.problem is not None)
        assert "401" in str(rig.sink.problem)
        assert "token" in str(rig.sink.problem)
        status[0] = 204
        await until(rig.all_through)
        assert rig.sink.delivered == 4


async def test_a_token_file_that_is_no_text_is_told_like_any_other_trouble(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is no outage, but the alarm list must show it, and the log must contain it once."""
    (tmp_path / "token").write_bytes(b"\xff\xfe")
    async with (
        answering(lambda _: web.Response(status=204)) as url,
        fed(url, tmp_path, token_file=str(tmp_path / "token")) as rig,
    ):
        rig.offer(3)
        await until(lambda: rig.sink.problem is not None)
        assert "UnicodeDecodeError" in str(rig.sink.problem)
        assert "Next:" in str(rig.sink.problem)
        await asyncio.sleep(0.5)
        assert [record.exc_info is not None for record in caplog.records] == [True]
        (tmp_path / "token").write_text("good")
        await until(rig.all_through)
        assert rig.sink.problem is None


async def test_B1_a_rig_that_wants_it_without_the_package_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> Any:
        if name == "controller.telemetry.influx":
            raise ModuleNotFoundError("no such thing", name="influxdb_client")
        return import_module(name)

    influx = "influx: {url: 'http://127.0.0.1:8086', org: lab, bucket: choroid}"
    text = RIG.read_text().replace("mqtt: null", f"mqtt: {{broker: '127.0.0.1:1'}}\n  {influx}")
    (tmp_path / "rig.yaml").write_text(text)
    monkeypatch.setattr("choroid.common.extras.import_module", missing)
    _, sink = sinks_of(load_rig(tmp_path / "rig.yaml"), tmp_path, RIG_ID)
    with pytest.raises(UserError, match=r"telemetry.influx needs the package influxdb_client.*choroid\[influx\]"):
        await sink.live(lambda: None)
