"""A script connects to a controller: everything that the API tells, in typed objects, and its refusals in its own words."""

from __future__ import annotations

import asyncio
import json
import math
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import aclosing
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar, assert_type, get_args, get_type_hints

import pytest

import choroid
from choroid.client import answers
from controller.memory.history import History
from dashboards.auth import Role
from tests.api import make_answers
from tests.dashboards.test_server import free_port, serving
from tests.dashboards.world import World, world

T = TypeVar("T")

ANSWERS = {
    "/health": answers.HealthInfo,
    "/api/rig": answers.RigInfo,
    "/api/state": answers.StateInfo,
    "/api/protocols": answers.RecipeInfo,
    "/api/runs/{run_id}": answers.RunInfo,
    "/api/alarms": answers.AlarmsInfo,
    "/api/ledger": answers.LedgerInfo,
    "/api/audit": answers.EntryInfo,
}


async def in_thread(work: Callable[[], T]) -> T:
    """Run blocking client code in a thread, while the server continues in this loop."""
    return await asyncio.to_thread(work)


def address(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def inner(kind: Any) -> list[type[Any]]:
    """The dataclasses in an annotation."""
    if isinstance(kind, type) and is_dataclass(kind):
        return [kind]
    return [found for each in get_args(kind) for found in inner(each)]


def compare(kind: type[Any], schema: dict[str, Any], schemas: dict[str, Any], seen: set[type[Any]]) -> None:
    """Check that the controller sends every field of the client, at every level."""
    text = json.dumps(schema)
    while "properties" not in schema:  # a reference, a list of it, or one that may be null
        schema = schemas[text.partition("#/components/schemas/")[2].partition('"')[0]]
        text = json.dumps(schema)
    properties = schema["properties"]
    if len(properties) == 1 and kind in (answers.RecipeInfo, answers.EntryInfo):
        return compare(kind, next(iter(properties.values())), schemas, seen)  # a list in an object
    seen.add(kind)
    hints = get_type_hints(kind)
    expected = {each.metadata.get("key", each.name): hints[each.name] for each in fields(kind)}
    assert expected.keys() <= properties.keys(), kind.__name__  # further keys of the controller are ignored
    for name, of in expected.items():
        for each in inner(of):
            compare(each, properties[name], schemas, seen)
    return None


def test_the_answers_are_those_of_the_models() -> None:
    assert make_answers.TARGET.read_text(encoding="utf-8") == make_answers.generate(), "run `make types`"


async def test_every_answer_has_the_form_that_the_controller_sends() -> None:
    async with world() as w:
        described = w.app.openapi()
    seen: set[type[Any]] = set()
    for path, kind in ANSWERS.items():
        schema = described["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        compare(kind, schema, described["components"]["schemas"], seen)
    assert seen == {kind for kind in vars(answers).values() if isinstance(kind, type) and is_dataclass(kind)}


async def test_state_runs_recipes_and_alarms_as_a_script_sees_them() -> None:
    async with serving() as (w, port):
        token = w.tokens[Role.OPERATOR]
        w.controller.alarms.event("no_heart_flow", "reglo.heart", "the heart stands since 12 s")

        def script() -> None:
            with choroid.connect(address(port), token=token) as rig:
                assert rig.rig().role == "operator"
                state = rig.state()
                assert_type(state, choroid.StateInfo)
                assert_type(rig.live(), Generator[choroid.LiveUpdate])
                reading = state.readings["ph_loop.ph"]
                assert (reading.unit, reading.quality) == ("pH", "good")
                assert state.actuators["reglo.heart"].guarantee in ("device", "guard", "host")
                assert rig.health().ok
                assert rig.ledger().vessels
                recipe = next(each for each in rig.recipes() if each.name == "recycle")
                assert recipe.params
                run = rig.start_run("recycle", reason="a test", seen=state.utc)
                assert rig.run(run.id).protocol == "recycle"
                assert rig.pause_run(run.id, reason="look").state in ("holding", "held")
                assert rig.abort_run(run.id).state in ("aborting", "aborted")
                assert [each.id for each in rig.runs()] == [run.id]
                alarm = rig.alarms().alarms[0]
                assert rig.acknowledge_alarm(alarm.id, reason="seen").acknowledged_by == "a operator"
                assert [each.id for each in rig.shelve_alarm(alarm.id, "30 min", reason="x").suppressed] == [alarm.id]
                assert rig.return_alarm(alarm.id).suppressed == []
                assert "a test" in str(rig.emergency_stop("a test"))
                assert rig.reset_stop("over") is None
                assert rig.journal(5, everything=True)[0].seq > 0
                assert rig.request("GET", "/api/vessels")["vessels"]
                with pytest.raises(choroid.ClientError, match="slash"):
                    rig.request("GET", "evil.example")

        await in_thread(script)


async def test_the_same_with_asyncio() -> None:
    async with serving() as (w, port):
        token = w.tokens[Role.OPERATOR]
        async with await choroid.connect_async(f"{address(port)}/#token={token}") as rig:
            state, recipes = await asyncio.gather(rig.state(), rig.recipes())
            assert_type(state, choroid.StateInfo)
            assert_type(rig.live(), AsyncGenerator[choroid.LiveUpdate])
            assert state.readings
            run = await rig.start_run(recipes[0].name)
            assert (await rig.run(run.id)).id == run.id
            assert len(await rig.history("ph_loop.ph", days=0.01)) > 10
            with pytest.raises(choroid.RequestRefused) as refused:
                await rig.run("nonsense")
            assert refused.value.status == 404


async def test_a_refusal_carries_the_controllers_words() -> None:
    async with serving() as (w, port):
        viewer = w.tokens[Role.VIEWER]

        def script() -> None:
            with pytest.raises(choroid.RequestRefused) as unknown:
                choroid.connect(address(port), token="wrong")
            assert unknown.value.status == 401
            rig = choroid.connect(address(port), token=viewer)
            with pytest.raises(choroid.RequestRefused, match="a viewer may not do this") as refused:
                rig.start_run("recycle")
            assert refused.value.status == 403
            assert "operator" in refused.value.action
            assert "Next: " in str(refused.value)
            with pytest.raises(choroid.RequestRefused, match="choose among"):
                rig.history("ph_lop.ph")

        before = w.changes()
        await in_thread(script)
        assert w.changes() == before


async def test_a_command_on_an_old_state_is_refused() -> None:
    async with serving() as (w, port):
        rig = await in_thread(lambda: choroid.connect(address(port), token=w.tokens[Role.OPERATOR]))
        old = (datetime.fromisoformat(w.controller.store.state.utc) - timedelta(minutes=5)).isoformat()
        with pytest.raises(choroid.RequestRefused, match="s old"):
            await in_thread(lambda: rig.start_run("recycle", seen=old))


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Callable[[World], tuple[float, float]]]:
    """Three weeks of pH, a reading each half minute, in a real history behind the API; begin and end (UTC s)."""
    opened: list[History] = []

    def fill(w: World) -> tuple[float, float]:
        end = w.controller.clock.utc().timestamp()
        begin = end - 21 * 86_400
        history = History(tmp_path / "history.db", w.controller.clock)
        opened.append(history)
        history.insert(
            "ph_loop.ph", "pH", ((at, 7.3 + 0.1 * math.sin(at / 9000)) for at in range(int(begin), int(end), 30))
        )
        history.insert("ph_loop.ph", "pH", [(begin + 86_400.5, 6.1)])  # a dip that no thinning may lose
        w.controller.history = history  # type: ignore[assignment]
        return begin, end

    yield fill
    for history in opened:
        history.close()


async def test_three_weeks_of_history(filled: Callable[[World], tuple[float, float]]) -> None:
    async with serving() as (w, port):
        begin, end = filled(w)
        rig = await in_thread(lambda: choroid.connect(address(port), token=w.tokens[Role.VIEWER]))
        series = await in_thread(lambda: rig.history("ph_loop.ph", days=21))
        assert series.unit == "pH"
        assert 2500 <= len(series) <= 4000
        assert begin - 1 <= series.at_utc_s[0] < series.at_utc_s[-1] <= end + 1
        assert (series.at_utc_s[1:] > series.at_utc_s[:-1]).all()
        assert series.min.min() == 6.1
        assert series.max.max() == pytest.approx(7.4, abs=0.001)
        first = datetime.fromtimestamp(begin + 86_400, UTC)
        day = await in_thread(lambda: rig.history("ph_loop.ph", begin=first, end=first + timedelta(days=1), every_s=10))
        assert len(day) == 2881, "every reading: one each half minute, and the dip"
        assert (day.mean == day.min).all()
        assert day.at_utc_s[0] >= first.timestamp()
        assert day.at_utc_s[-1] <= first.timestamp() + 86_400
        coarse = await in_thread(lambda: rig.history("ph_loop.ph", days=21, every_s=3600))
        assert 500 <= len(coarse) <= 1200
        assert coarse.min.min() == 6.1
        for wrong, words in (
            ({"begin": "2026-01-01T00:00"}, "no time zone"),
            ({"begin": first, "days": 1}, "either days or begin"),
            ({"begin": first, "end": first}, "empty"),
            ({"begin": "yesterday"}, "ISO 8601"),
            ({"days": 300, "every_s": 0.5}, "choroid export"),
            ({"days": 1, "every_s": 0}, "positive"),
        ):
            with pytest.raises(choroid.ClientError, match=words):
                await in_thread(lambda wrong=wrong: rig.history("ph_loop.ph", **wrong))  # type: ignore[misc]


async def test_history_as_pandas_and_arrow(filled: Callable[[World], tuple[float, float]]) -> None:
    async with serving() as (w, port):
        filled(w)
        rig = await in_thread(lambda: choroid.connect(address(port), token=w.tokens[Role.VIEWER]))
        series = await in_thread(lambda: rig.history("ph_loop.ph", days=21))
    frame = series.to_pandas()
    assert list(frame.columns) == ["mean", "min", "max"]
    assert frame.attrs == {"point": "ph_loop.ph", "unit": "pH"}
    assert str(frame.index.tz) == "UTC"
    assert frame.index[0].timestamp() == pytest.approx(series.at_utc_s[0], abs=0.001)
    assert len(frame.resample("1D").mean()) in (21, 22)
    table = series.to_arrow()
    assert table.num_rows == len(series)
    assert table.schema.field("mean").metadata[b"unit"] == b"pH"
    assert table.column("utc")[0].as_py().timestamp() == pytest.approx(series.at_utc_s[0], abs=0.001)
    assert table.column("min").to_pylist() == series.min.tolist()


def test_without_pandas_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    nothing = np.zeros(0)
    series = choroid.HistorySeries("a.b", "pH", nothing, nothing, nothing, nothing)
    for package, ask in (("pandas", series.to_pandas), ("pyarrow", series.to_arrow)):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, package, None)
            with pytest.raises(choroid.MissingPackage, match=f"pip install {package}"):
                ask()
    assert len(series.to_pandas()) == series.to_arrow().num_rows == 0


async def test_the_live_feed_is_the_state_again_and_again() -> None:
    async with serving() as (w, port):
        rig = await in_thread(lambda: choroid.connect(address(port), token=w.tokens[Role.VIEWER]))

        def script() -> list[choroid.LiveUpdate]:
            found = []
            updates = rig.live()
            for update in updates:
                found.append(update)
                if update.state.at_s > found[0].state.at_s:
                    break
            updates.close()
            return found

        ticking = asyncio.create_task(w.controller.live())
        try:
            found = await in_thread(script)
            assert found[-1].state.at_s > found[0].state.at_s
            assert found[-1].state.readings.keys() == found[0].state.readings.keys()
            assert found[0].health.ok
            assert found[0].ledger.vessels
            client = await choroid.connect_async(address(port), token=w.tokens[Role.VIEWER])
            async with aclosing(client.live()) as updates:
                async for update in updates:
                    assert update.state.utc >= found[-1].state.utc
                    break
            await client.close()
        finally:
            ticking.cancel()
            await asyncio.gather(ticking, return_exceptions=True)


async def test_the_live_feed_tells_why_it_ends() -> None:
    async with serving() as (w, port):
        token = w.auth.issue("a guest", Role.VIEWER)
        client = await choroid.connect_async(address(port), token=token)
        updates = client.live()
        await anext(updates)
        w.auth.revoke("a guest")
        with pytest.raises(choroid.RequestRefused, match="Next: sign in with a token") as unknown:
            await anext(client.live())
        assert unknown.value.status == 401
        with pytest.raises(choroid.RequestRefused) as refused:
            async for _ in updates:
                pass
        assert refused.value.status == 401
        await client.close()


def test_what_does_not_answer_is_told() -> None:
    port = free_port()
    with pytest.raises(choroid.ConnectionFailed, match=f"127.0.0.1:{port} does not answer"):
        choroid.connect(address(port))
    for wrong in ("127.0.0.1:8090/#token=secret", "ftp://rig", "http://", "http://rig:port", ""):
        with pytest.raises(choroid.ClientError) as error:
            choroid.connect(wrong)
        assert "secret" not in str(error.value)


async def foreign(answer: bytes) -> tuple[asyncio.Server, int]:
    """A foreign server that gives one answer to everything."""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{"name": "a rig"}'[:-2],
        b"",
    ],
)
async def test_another_program_at_the_address_is_told(answer: bytes) -> None:
    server, port = await foreign(answer)
    try:
        with pytest.raises(choroid.ConnectionFailed):
            await choroid.connect_async(address(port), token="secret")
    finally:
        server.close()
        await server.wait_closed()


async def test_no_proxy_of_the_environment_receives_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    async with serving() as (w, port):
        client = await choroid.connect_async(address(port), token=w.tokens[Role.VIEWER])
        async with aclosing(client.live()) as updates:
            await anext(updates)
        await client.close()


async def test_the_data_folder_names_the_controller(tmp_path: Path) -> None:
    with pytest.raises(choroid.ClientError, match="`choroid run` is not running"):
        choroid.connect(data=tmp_path)
    (tmp_path / "endpoint.json").write_text("{")
    with pytest.raises(choroid.ClientError, match="cannot be read"):
        choroid.connect(data=tmp_path)
    with pytest.raises(choroid.ClientError, match="either"):
        choroid.connect("http://127.0.0.1:1", data=tmp_path)
    async with serving() as (w, port):
        (tmp_path / "endpoint.json").write_text(json.dumps({"url": address(port), "token": w.tokens[Role.ADMIN]}))
        rig = await in_thread(lambda: choroid.connect(data=tmp_path))
        assert rig.url == address(port)
        assert (await in_thread(rig.rig)).role == "admin"
