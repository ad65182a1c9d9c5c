"""B1: no edge of `choroid run` that fails, at its start or later, ends or slows care. Each is a real one, made to fail."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from choroid.cameras import engines
from choroid.common.failure import UserError
from choroid.operating.remote import call, endpoint_of
from choroid.running import edges as run_edges
from choroid.running import listening, sinks
from choroid.running.edges import EdgePlan, RunEdges
from choroid.running.listening import EngineNerves
from choroid.running.sinks import sinks_of
from controller.core.clock import Clock
from controller.delivery.people import People, people_of
from controller.imaging.engine import WorkerEngine
from controller.process import edges
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.process.edges import AlarmedFailure, Edges, Pauses, Up
from controller.process.outside import with_cameras, with_nerves, with_notices, with_sink
from controller.process.parts.alarm_levels import AlarmLevels
from controller.rig.description import Rig
from controller.rig.loading import load_rig
from controller.telemetry.sink import OutboxSink
from dashboards.auth import Auth
from dashboards.outside import INSIDE, Outside
from drivers.commands import PumpStatus
from drivers.registry import MODELS
from sim.lab import SimulatedLab
from tests.browser.pages import free_port
from tests.dashboards.test_outside import certified, trusting

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "rigs"
SPEED = 10.0
"""Controller and laboratory run so much faster than life; the pauses of edges are real seconds."""
SINKS = """\
  mqtt: {broker: "127.0.0.1:1", prefix: choroid}
  influx: {url: "http://127.0.0.1:1", org: a, bucket: b}"""
NOTIFY = """
alarms:
  notify:
    channels:
      hook: {url_env: CHOROID_TEST_HOOK}
"""


class Scene:
    """A controller over a simulated lab in real time, with the edges that `choroid run` gives it."""

    def __init__(self, rig: Rig, data: Path) -> None:
        self.rig, self.data = rig, data
        self.lab = SimulatedLab(rig, seed=1)
        self.clock = Clock(follow_system=True)
        self.nerves = EngineNerves(rig, data, 3) if rig.nerves else None
        self.sinks = sinks_of(rig, data, "0c9b5a7f21de")
        self.port, self.health_port = free_port(), free_port()
        self.outside = INSIDE
        self.stop = asyncio.Event()

    async def begin(self) -> None:
        self.controller = Controller(
            rig=self.rig,
            opener=self.lab.opener,
            storage=Storage(self.data, durable=False),
            clock=self.clock,
            stimulator=self.nerves,
            parts=(
                with_nerves(self.nerves),
                *map(with_sink, self.sinks),
                with_cameras(engines.real_cameras(self.rig)),
            ),
        )
        plan = EdgePlan(
            data=self.data,
            auth=Auth(self.data, demo=False, utc=self.clock.utc),
            host="127.0.0.1",
            port=self.port,
            health_port=self.health_port,
            outside=self.outside,
            nerves=self.nerves,
            time_scale=SPEED,
            sinks=self.sinks,
            people=None
            if self.rig.alarms.notify is None
            else lambda: people_of(self.rig, self.data, self.clock, self.controller.journal.append),
        )
        await self.controller.start()
        RunEdges(self.controller, plan).start()
        self.running = asyncio.create_task(self.controller.run(self.stop))

    def alarms(self) -> dict[tuple[str, str], str]:
        return {(alarm.kind, alarm.source): alarm.detail for alarm in self.controller.alarms.active()}

    def causes(self) -> dict[tuple[str, str], str]:
        return self.controller.get(AlarmLevels).causes(self.controller.store.state)

    async def cared_for(self, ticks: int = 3) -> None:
        """The loop goes on ticking, and the heart beats."""
        before = self.controller._ticks
        await until(lambda: self.controller._ticks >= before + ticks or self.running.done())
        assert not self.running.done(), "an edge has ended the control loop"
        heart = self.controller.store.state.actuators["reglo.heart"].status
        assert isinstance(heart, PumpStatus)
        assert heart.running
        assert self.controller.health().ok

    async def end(self) -> None:
        self.stop.set()
        await self.running
        await self.controller.close(leave_running=True)
        if self.nerves is not None:
            await self.nerves.close()
        await self.lab.close()


async def until(true: Callable[[], bool]) -> None:
    """Wait for it; the test's own limit ends what never comes."""
    while not true():
        await asyncio.sleep(0.02)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """An edge is started again after a quarter of the usual pause."""
    monkeypatch.setattr(edges, "Pauses", partial(Pauses, first_s=0.25))


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Rig:
    """A rig with every edge."""
    text = (EXAMPLES / "bench_camera.yaml").read_text()
    assert "  mqtt: null" in text
    text = text.replace("  mqtt: null", SINKS)
    path = tmp_path_factory.mktemp("rig") / "rig.yaml"
    path.write_text(text if "\nalarms:" in text else text + NOTIFY)
    return load_rig(path, models=MODELS)


@asynccontextmanager
async def scene(rig: Rig, data: Path, **changes: Any) -> AsyncIterator[Scene]:
    made = Scene(rig.model_copy(update=changes), data)
    await made.begin()
    try:
        yield made
    finally:
        await made.end()


class Broken:
    """In the place of a part of an edge: fails until it is repaired."""

    def __init__(self, real: Callable[..., Any]) -> None:
        self.real = real
        self.broken = True

    def __call__(self, *words: Any, **options: Any) -> Any:
        if self.broken:
            raise RuntimeError("a defect")
        return self.real(*words, **options)


PARTS: dict[str, tuple[Any, str, tuple[str, str]]] = {
    "page": (run_edges, "create_app", ("edge_lost", "page")),
    "health port": (run_edges, "listen", ("edge_lost", "health port")),
    "electrode engine": (listening, "spawn_engine", ("edge_lost", "electrode engine")),
    "mqtt": (sinks, "MqttSink", ("telemetry_lost", "mqtt")),
    "influx": (sinks, "load_extra", ("telemetry_lost", "influx")),
    "delivery": (sys.modules[__name__], "people_of", ("channel_failed", "delivery")),
}
"""What is broken at the start of each edge, and its alarm."""


@pytest.mark.scaled_time(SPEED)
@pytest.mark.parametrize("edge", PARTS)
async def test_B1_an_edge_that_fails_at_its_start_is_an_alarm_and_is_tried_again(
    edge: str, rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, name, alarm = PARTS[edge]
    real = getattr(module, name)
    broken = Broken(real)
    if edge == "mqtt":  # its class is also named for its alarm
        broken.name = real.name  # type: ignore[attr-defined]
    monkeypatch.setattr(module, name, broken)
    changes = {} if edge == "electrode engine" else {"nerves": None}
    async with scene(rig, tmp_path, cameras={}, **changes) as made:
        await until(lambda: alarm in made.causes())
        detail = made.causes()[alarm]
        assert "tried again" in detail
        await made.cared_for()
        if edge == "electrode engine":  # its own start takes seconds
            return
        broken.broken = False
        await until(lambda: alarm not in made.controller.edges.causes)
        await made.cared_for(1)


LATER: dict[str, tuple[Any, str]] = {
    "page": (run_edges, "serve"),
    "health port": (run_edges, "serve_health"),
    "mqtt": (OutboxSink, "run"),
    "delivery": (People, "run"),
}
"""What fails in the middle of each edge; the electrode engine is killed, and a camera's process too."""


@pytest.mark.scaled_time(SPEED)
@pytest.mark.parametrize("edge", LATER)
async def test_B1_an_edge_that_fails_in_the_middle_is_an_alarm_and_is_started_again(
    edge: str, rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder, name = LATER[edge]
    real = getattr(holder, name)
    strikes: list[asyncio.Future[None]] = []

    async def struck(*words: Any, **options: Any) -> None:
        strike = asyncio.get_running_loop().create_future()
        if getattr(words[0], "name", edge) == edge:  # there are two sinks
            strikes.append(strike)
        work = asyncio.ensure_future(real(*words, **options))
        try:
            await asyncio.wait((work, strike), return_when=asyncio.FIRST_COMPLETED)
            if strike.done():
                raise RuntimeError("it broke in the middle")
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    monkeypatch.setattr(holder, name, struck)
    alarm = PARTS[edge][2]
    async with scene(rig, tmp_path, nerves=None, cameras={}) as made:
        await until(lambda: bool(strikes))
        await made.cared_for()
        assert alarm not in made.controller.edges.causes
        for number in range(2):
            lives = len(strikes)
            strikes[-1].set_result(None)
            await until(lambda: alarm in made.controller.edges.causes)
            assert "it broke in the middle" in made.causes()[alarm]
            await made.cared_for(1)
            await until(lambda: len(strikes) > lives and alarm not in made.controller.edges.causes)  # noqa: B023
            assert number < 2
        await made.cared_for(1)


@pytest.mark.scaled_time(SPEED)
async def test_B1_an_engine_that_is_killed_is_an_alarm_and_comes_back(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "FIRST_PAUSE_S", 0.2)
    async with scene(rig, tmp_path, cameras={}) as made:
        nerves = made.nerves
        assert nerves is not None
        await until(lambda: nerves.engine is not None)
        first = nerves.engine
        assert first is not None
        os.kill(first.pid, signal.SIGKILL)
        await until(lambda: ("edge_lost", "electrode engine") in made.causes())
        await made.cared_for(1)
        await until(lambda: nerves.engine not in (None, first) and not made.controller.edges.causes)


@pytest.mark.scaled_time(SPEED)
@pytest.mark.parametrize("how", ["missing", "crashing", "hanging"])
async def test_B1_cameras_that_fail_are_an_alarm_and_end_nothing(
    how: str, rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "missing":

        def extra(*_: object, **__: object) -> None:
            raise UserError("cameras need an extra. Next: install it")

        monkeypatch.setattr(engines, "load_extra", extra)
    else:
        program = {"crashing": "import os; os.abort()", "hanging": "import time; time.sleep(1000)"}[how]
        engine = WorkerEngine([sys.executable, "-P", "-c", program], reply_s=1.0)
        monkeypatch.setattr(engines, "WorkerEngine", lambda _: engine)
    async with scene(rig, tmp_path, nerves=None) as made:
        await until(lambda: any(kind == "camera_lost" for kind, _ in made.alarms()))
        await made.cared_for()


@pytest.mark.scaled_time(SPEED)
async def test_B1_a_taken_port_names_itself_and_its_holder_and_is_opened_when_it_is_free(
    rig: Rig, tmp_path: Path
) -> None:
    """The page's port once ended care: the devices were open, then the process ended."""
    made = Scene(rig.model_copy(update={"nerves": None, "cameras": {}}), tmp_path)
    with socket.create_server(("127.0.0.1", made.port)):
        await made.begin()
        alarm = ("edge_lost", "page")
        await until(lambda: alarm in made.alarms())
        detail = made.alarms()[alarm]
        assert f"127.0.0.1:{made.port}" in detail
        assert f"(process {os.getpid()})" in detail
        await made.cared_for()
    await until(lambda: alarm not in made.controller.edges.causes)
    socket.create_connection(("127.0.0.1", made.port)).close()
    await made.end()


@pytest.mark.scaled_time(SPEED)
async def test_B1_a_certificate_that_cannot_be_used_is_an_alarm_and_is_read_again(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It closes the page to browsers; commands on this machine go on."""
    monkeypatch.setattr(run_edges, "PAUSES", Pauses(0.1, 0.1))
    made = Scene(rig.model_copy(update={"nerves": None, "cameras": {}}), tmp_path / "data")
    made.data.mkdir()
    made.outside = Outside(certificate=tmp_path / "page.pem", key=tmp_path / "page.key")
    await made.begin()
    alarm = ("certificate_failed", "page")
    await until(lambda: alarm in made.alarms())
    assert "page.pem" in made.alarms()[alarm]
    await made.cared_for()
    endpoint = endpoint_of(made.data)
    assert endpoint["url"] == f"unix:{made.data / 'page.sock'}"
    assert (await asyncio.to_thread(call, endpoint, "GET", "/api/rig"))["role"] == "admin"
    tls = trusting(certified(tmp_path))
    await until(lambda: alarm not in made.controller.edges.causes)
    async with httpx.AsyncClient(verify=tls, timeout=60.0 * SPEED) as browser:
        assert (await browser.get(f"https://localhost:{made.port}/health")).status_code == 200
    await made.end()


# --- the supervisor itself --------------------------------------------------------------------------------


@pytest.mark.virtual_time
async def test_B1_pauses_double_to_their_maximum_and_start_again_after_steady_work() -> None:
    supervisor, begun_s, loop = Edges(), [], asyncio.get_running_loop()
    lives = [0.0, 1.0, 0.0, 0.0, 100.0, 0.0, 1e9]

    async def work(up: Up) -> None:
        begun_s.append(loop.time())
        up()
        await asyncio.sleep(lives[len(begun_s) - 1])
        raise RuntimeError("x")

    supervisor.keep("part", work, pauses=Pauses(1.0, 4.0, 60.0))
    await asyncio.sleep(1000.0)
    pauses = [after - before - life for before, after, life in zip(begun_s, begun_s[1:], lives, strict=False)]
    assert pauses == pytest.approx([1.0, 2.0, 4.0, 4.0, 1.0, 2.0])
    assert supervisor.causes == {}, "the last life works"
    await supervisor.close()


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    "error",
    [
        None,
        asyncio.CancelledError(),
        SystemExit(2),
        MemoryError(),
        OSError(28, "full"),
        ExceptionGroup("g", [OSError()]),
    ],
)
async def test_B1_whatever_ends_an_edge_it_is_an_alarm(error: BaseException | None) -> None:
    supervisor = Edges()

    async def work(up: Up) -> None:
        if error is not None:
            raise error

    supervisor.keep("part", work)
    await asyncio.sleep(0.5)
    assert ("edge_lost", "part") in supervisor.causes
    await supervisor.close()


@pytest.mark.virtual_time
async def test_an_edge_with_an_alarm_of_its_own_has_no_second_one() -> None:
    supervisor = Edges()

    async def work(up: Up) -> None:
        raise AlarmedFailure("the ledger is damaged")

    supervisor.keep("part", work)
    await asyncio.sleep(0.5)
    assert supervisor.causes == {}
    await supervisor.close()


@pytest.mark.virtual_time
async def test_B1_an_edge_that_does_not_end_delays_the_end_by_a_bounded_time() -> None:
    supervisor, loop = Edges(), asyncio.get_running_loop()
    ended = loop.create_future()

    async def work(up: Up) -> None:
        while not ended.done():
            try:
                await asyncio.shield(ended)
            except asyncio.CancelledError:
                continue

    task = supervisor.keep("part", work)
    await asyncio.sleep(0.0)
    before_s = loop.time()
    await supervisor.close()
    assert loop.time() - before_s == pytest.approx(5.0)
    ended.set_result(None)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.scaled_time(SPEED)
async def test_B1_an_edge_whose_causes_cannot_be_read_hides_no_other_alarm(rig: Rig, tmp_path: Path) -> None:
    async with scene(rig, tmp_path, nerves=None, cameras={}, telemetry=rig.telemetry) as made:

        class Spoiled:
            name = "spoiled"
            discarded = ()

            @property
            def causes(self) -> dict[str, str]:
                raise RuntimeError("a defect of a sink")

            def offer(self, state: object) -> None:
                """Take nothing."""

        made.controller.parts.attach(with_sink(Spoiled()))
        made.controller.parts.attach(with_notices({("hazard_accepted", "x"): "by anna"}))
        await until(lambda: ("hazard_accepted", "x") in made.alarms())
        await until(lambda: ("defect", "sink") in made.alarms())
        await made.cared_for(1)
