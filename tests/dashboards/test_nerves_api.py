"""Routes of the electrode array: figures, waveforms, leases and the stimulation ledger; who may end leases."""

from __future__ import annotations

import asyncio
import math
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dashboards.app import create_app
from dashboards.auth import Auth, Role
from nerves.budgets import BudgetUse
from nerves.inspection import ElectrodeTable, LeaseSeen, ResponseSeen, Waveforms
from nerves.ledger import PulseRecord, StimulationRecord, latest
from tests.dashboards.fake_rig import FakeController
from tests.dashboards.world import World
from tests.nerves.bench import PULSE, bench
from tests.nerves.test_core import ask

RECORD = StimulationRecord(
    7, 1, "2026-01-01T00:00:00Z", 25_000.0, 50_000, "pong", "lease", "a test", (3,), ((200.0, -1.0), (200.0, 1.0)), 0, 0,
    True, (), None, 0.4, (PulseRecord(3, 50_100, "delivered", 50_101, ""), PulseRecord(3, 50_900, "planned", None, "")),
)  # fmt: skip


class Array:
    """An inspector that counts what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[object] = []
        self.answers = True

    async def electrodes(self) -> ElectrodeTable | None:
        self.asked.append("electrodes")
        await asyncio.sleep(0.01)
        if not self.answers:
            return None
        known = (1.0, math.nan, 3.0)
        muted = {"artefact": (0.5, math.nan, 0.0), "flat": (0.0, 90.0, 0.0)}
        return ElectrodeTable(
            ("ok", "dead", "ok"), known, known, (4.0,) * 3, (80.0, math.nan, 90.0), known, (0.5, 90.0, 0.0), muted,
            (0.0, 200.0, 0.0), (0.0, 0.0, 200.0), "chip; positions: rig file",
        )  # fmt: skip

    async def waveforms(self, electrode: int) -> Waveforms | None:
        self.asked.append(electrode)
        return Waveforms(electrode, 25_000.0, 25, ((0.0, -50.0, 0.0),)) if self.answers else None

    async def responses(self, electrode: int) -> ResponseSeen | None:
        nan = math.nan
        seen = ResponseSeen(electrode, 9.0, 2, 0, (-1.0, 0.0, 1.0), (1, 0), (0.002, 0.0), (500.0, nan), nan, nan, nan)
        return seen if self.answers else None

    async def leases(self) -> tuple[tuple[LeaseSeen, ...], tuple[BudgetUse, ...]] | None:
        lease = LeaseSeen("pong", (1, 2), True, 0.5, 0.01)
        return ((lease,), (BudgetUse("", "time of the last day", 1.0, 16.0, "h"),)) if self.answers else None

    async def end_leases(self, requester: str, why: str) -> bool:
        self.asked.append((requester, why))
        return True

    async def records(
        self, *, before: int | None, limit: int, requester: str | None, electrode: int | None
    ) -> list[StimulationRecord]:
        self.asked.append((before, limit, requester, electrode))
        if not self.answers:
            raise sqlite3.OperationalError("the file is locked")
        return [RECORD]


@asynccontextmanager
async def served(array: Array | None) -> AsyncIterator[World]:
    controller = FakeController()
    auth = Auth(None, demo=False, utc=controller.clock.utc)
    tokens = {role: auth.issue(f"a {role.word}", role) for role in Role}
    app = create_app(controller.as_controller(), auth, array=array)
    try:
        yield World(app, controller, auth, tokens)
    finally:
        await controller.close()


async def test_S2_a_viewer_reads_everything_and_ends_nothing() -> None:
    array = Array()
    async with served(array) as world, world.http(Role.VIEWER) as viewer, world.http() as unknown:
        world.controller.electrode_deviations = (0.5, math.nan, -2.0)
        table = (await viewer.get("/api/nerves/electrodes")).json()
        assert table["rates_hz"] == [1.0, None, 3.0]
        assert table["states"] == ["ok", "dead", "ok"]
        assert table["deviation"] == [0.5, None, -2.0]
        assert table["muted_pct"] == [0.5, 90.0, 0.0]
        assert table["muted_by"] == {"artefact": [0.5, None, 0.0], "flat": [0.0, 90.0, 0.0]}
        assert (table["x_um"], table["y_um"]) == ([0.0, 200.0, 0.0], [0.0, 0.0, 200.0])
        assert table["geometry"] == "chip; positions: rig file"
        waves = (await viewer.get("/api/nerves/waveforms/3")).json()
        assert waves == {"electrode": 3, "sample_rate_hz": 25_000.0, "before": 25, "traces_uv": [[0.0, -50.0, 0.0]]}
        seen = (await viewer.get("/api/nerves/responses/3")).json()
        assert (seen["counts"], seen["rate_hz"], seen["baseline_hz"]) == ([1, 0], [500.0, None], None)
        held = (await viewer.get("/api/nerves/leases")).json()
        assert held["answers"] is True
        assert held["leases"][0] | {"ends_in_s": 0, "silent_s": 0} == {
            "requester": "pong", "electrodes": [1, 2], "held": True, "ends_in_s": 0, "silent_s": 0,
        }  # fmt: skip
        found = (await viewer.get("/api/nerves/stimulation", params={"requester": "pong", "electrode": 3})).json()
        assert found["records"][0]["at_s"] == 2.0
        assert found["records"][0]["pulses"] == {"delivered": 1, "planned": 1}
        assert array.asked[-1] == (None, 25, "pong", 3)
        refused = await viewer.post("/api/nerves/leases/end", json={"requester": "pong", "reason": "a test"})
        assert refused.status_code == 403
        assert [each for each in array.asked if isinstance(each, tuple) and len(each) == 2] == []
        for path in ("electrodes", "waveforms/1", "responses/1", "leases", "stimulation"):
            assert (await unknown.get(f"/api/nerves/{path}")).status_code == 401


async def test_S2_an_operator_ends_leases_with_a_reason_and_a_row_tells_of_it() -> None:
    array = Array()
    async with served(array) as world, world.http(Role.OPERATOR) as operator:
        assert (await operator.post("/api/nerves/leases/end", json={"requester": "pong"})).status_code == 422
        done = await operator.post("/api/nerves/leases/end", json={"requester": "pong", "reason": "too much"})
        assert done.json() == {"confirmed": True}
        assert array.asked == [("pong", "ended by a operator: too much")]
        row = world.controller.journal.rows[-1]
        assert (row.kind, row.body["name"], row.body["reason"]) == ("agents.leases_ended", "pong", "too much")


async def test_S3_many_pages_ask_the_engine_once() -> None:
    array = Array()
    async with served(array) as world, world.http(Role.VIEWER) as viewer:
        await asyncio.gather(*(viewer.get("/api/nerves/electrodes") for _ in range(20)))
        assert array.asked == ["electrodes"]
        for electrode in range(100):
            await viewer.get(f"/api/nerves/waveforms/{electrode % 32}")
        assert len(array.asked) <= 1 + 100
        assert len(world.app.state.array._answers) <= 64


async def test_without_an_engine_or_an_array_the_answers_say_so() -> None:
    array = Array()
    array.answers = False
    async with served(array) as world, world.http(Role.VIEWER) as viewer:
        assert (await viewer.get("/api/nerves/electrodes")).json()["states"] == []
        assert (await viewer.get("/api/nerves/leases")).json() == {
            "answers": False, "agents": [], "leases": [], "budgets": [],
        }  # fmt: skip
        assert (await viewer.get("/api/nerves/waveforms/0")).status_code == 503
        assert (await viewer.get("/api/nerves/waveforms/32")).status_code == 404
        assert (await viewer.get("/api/nerves/stimulation")).status_code == 503
    async with served(None) as world, world.http(Role.VIEWER) as viewer:
        assert (await viewer.get("/api/nerves/electrodes")).status_code == 404


def test_N4_the_latest_records_of_the_ledger_come_first_and_are_filtered(tmp_path: Path) -> None:
    path = tmp_path / "stimulation.db"
    with bench(path) as lab:
        first, second = lab.lease(0, 1, requester="anna"), lab.lease(2, requester="ben")
        for lease, who, electrode in ((first, "anna", 0), (second, "ben", 2), (first, "anna", 1), (first, "anna", 0)):
            lab.ask(ask(lease.id, electrode, requester=who, phases=PULSE))
            lab.run(0.02)
    every = latest(path)
    assert [each.id for each in every] == [4, 3, 2, 1]
    assert [each.id for each in latest(path, requester="anna")] == [4, 3, 1]
    assert [each.id for each in latest(path, electrode=0)] == [4, 1]
    assert [each.id for each in latest(path, electrode=0, requester="ben")] == []
    assert [each.id for each in latest(path, before=3, limit=1)] == [2]
    assert every[0].pulses[0].state == "delivered"


@pytest.mark.parametrize("query", ["before=0", "electrode=-1", "limit=0", "limit=101", "before=99999999999999999999"])
async def test_queries_out_of_range_are_refused(query: str) -> None:
    async with served(Array()) as world, world.http(Role.VIEWER) as viewer:
        assert (await viewer.get(f"/api/nerves/stimulation?{query}")).status_code == 422
