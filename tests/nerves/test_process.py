"""The engine as the controller starts it: spawned, informed of the tissue's health, and ended with its parent."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from choroid.client.nerves import AsyncNervesClient
from choroid.client.nerves_terms import PulsePhase
from choroid.running import listening, nerves_process
from choroid.running.listening import FIRST_PAUSE_S, LONGEST_PAUSE_S, STEADY_S, EngineNerves
from choroid.running.nerves_handle import EngineHandle, spawn_engine
from choroid.running.nerves_orders import Orders
from choroid.running.nerves_source import GatewayNerves
from controller.process.edges import Edges
from controller.rig.loading import load_rig
from nerves.ledger import read as read_ledger
from sim.neurons.conditions import TissueConditions

BENCH = Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml"


async def test_health_of_the_tissue_reaches_the_electrodes(tmp_path: Path) -> None:
    engine = await spawn_engine(load_rig(BENCH), tmp_path, 3)
    nerves = GatewayNerves(engine.address, engine.token)
    try:
        while len(nerves.recent_spikes()) < 30:
            await asyncio.sleep(0.05)
        engine.set_conditions(TissueConditions(alive=0.0))
        await asyncio.sleep(0.3)
        before = len(nerves.recent_spikes())
        await asyncio.sleep(1.0)
        after = nerves.recent_spikes()
        assert len(after) <= before + 5  # noise alone crosses now and then
    finally:
        await nerves.close()
        await engine.close()
    engine.set_conditions(TissueConditions())  # a dead engine is no concern of the tissue
    assert not (tmp_path / "nerves.json").exists()


async def test_the_filter_of_reflexes_is_that_of_the_rig_file(tmp_path: Path) -> None:
    fast = tmp_path / "fast.yaml"
    text = BENCH.read_text(encoding="utf-8")
    fast.write_text(text.replace("  electrodes: 32\n", "  electrodes: 32\n  reflex_filter: low-delay\n"))
    for rig, frames in ((BENCH, 19), (fast, 5)):
        engine = await spawn_engine(load_rig(rig), tmp_path / rig.stem, 3)
        try:
            async with AsyncNervesClient(engine.address, engine.agent_token) as agent:
                assert (await agent.info()).reflex_latency_frames == frames
        finally:
            await engine.close()


async def test_S2_an_operator_ends_the_leases_of_an_agent_which_may_acquire_new_ones(tmp_path: Path) -> None:
    engine = await spawn_engine(load_rig(BENCH), tmp_path, 3)
    try:
        async with AsyncNervesClient(engine.address, engine.agent_token) as agent:
            await agent.acquire_lease([0, 1], ttl_ms=5000)
            assert len((await agent.leases()).leases) == 1
            assert await engine.end_leases("another", "a test")
            assert len((await agent.leases()).leases) == 1
            assert await engine.end_leases("agent", "a test")
            assert not (await agent.leases()).leases
            assert (await agent.acquire_lease([0, 1])).granted
    finally:
        await engine.close()


async def test_N2_an_open_electrode_is_refused_on_the_whole_path_with_its_reason_in_the_ledger(tmp_path: Path) -> None:
    """From an agent over the API, the engine's governor and the card to the record, each in its own process."""
    engine = await spawn_engine(load_rig(BENCH), tmp_path, 3)
    try:
        assert await engine.order("")
        async with AsyncNervesClient(engine.address, engine.agent_token) as agent:
            known = (await agent.info()).impedance_kohm
            broken = max(range(len(known)), key=lambda electrode: known[electrode])
            sound = min(range(len(known)), key=lambda electrode: known[electrode])
            lease = await agent.acquire_lease([broken, sound], ttl_ms=5000)
            phases = [PulsePhase(200.0, -1.0), PulsePhase(200.0, 1.0)]
            refused = await agent.stimulate(lease.lease, [broken], phases, purpose="a test")
            assert not refused.accepted
            assert refused.limiting == "impedance"
            assert any(reason.limit == "impedance" and "kΩ" in reason.text for reason in refused.reasons)
            assert not refused.pulses
            both = await agent.stimulate(lease.lease, [sound, broken], phases, purpose="a test")
            assert not both.accepted, "one open electrode refuses the whole request"
    finally:
        await engine.close()
    records = list(read_ledger(tmp_path / "stimulation.db"))
    assert [(each.accepted, each.limiting, each.pulses) for each in records] == [(False, "impedance", ())] * 2


async def test_a_rig_without_an_array_is_an_error(tmp_path: Path) -> None:
    rig = load_rig(BENCH)
    with pytest.raises(ValueError, match="no electrode array"):
        await spawn_engine(rig.model_copy(update={"nerves": None}), tmp_path, 1)


async def test_an_engine_that_cannot_start_says_so(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(RuntimeError, match="before it was ready"):
        await spawn_engine(load_rig(BENCH), blocked, 1)


@pytest.mark.parametrize("how", ["removed", "damaged"])
async def test_A11_F7_a_ledger_that_is_refused_is_named_and_the_engine_starts_when_it_is_repaired(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "FIRST_PAUSE_S", 0.5)
    head = tmp_path / "stimulation.db.head"
    head.write_text(json.dumps({"session": 7, "utc": "2026-01-01T00:00:00+00:00"}))
    if how == "damaged":
        (tmp_path / "stimulation.db").write_bytes(b"garbage" * 1000)
    nerves = EngineNerves(load_rig(BENCH), tmp_path, 3)
    try:
        nerves.start(Edges())
        await until(lambda: bool(nerves.ledger_problem))
        assert str(tmp_path / "stimulation.db") in nerves.ledger_problem
        assert "Next: " in nerves.ledger_problem
        assert nerves.engine is None
        head.unlink()
        (tmp_path / "stimulation.db").unlink()
        await until(lambda: nerves.engine is not None)
        assert nerves.ledger_problem == ""
    finally:
        await nerves.close()


async def until(true: Callable[[], bool]) -> None:
    """Wait for it; the test's own limit ends what never comes."""
    while not true():
        await asyncio.sleep(0.02)


def test_an_engine_says_that_it_has_compiled_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a slow machine the first start compiled for longer than 60 s, was ended, and compiled again for ever."""
    seen: list[str] = []

    async def serve(*_: object, **__: object) -> None:
        assert json.loads(capsys.readouterr().out) == {"compiled": True}
        seen.append("serve")

    async def follow(*_: object) -> None:
        """Read no standard input: it is pytest's."""

    card = SimpleNamespace(info=SimpleNamespace(electrodes=4, sample_rate_hz=25_000.0, geometry=None))
    monkeypatch.setattr(Orders, "follow", follow)
    monkeypatch.setattr(nerves_process, "CardProcess", lambda _: card)
    monkeypatch.setattr(nerves_process, "compile_engine", lambda *_: seen.append("compile"))
    monkeypatch.setattr(nerves_process, "serve", serve)
    monkeypatch.setattr(signal, "setitimer", lambda *_: None)
    config = {"card": {"material": "Pt"}, "data_dir": str(tmp_path)}
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        assert nerves_process.main(["--config", json.dumps(config)]) == 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert seen == ["compile", "serve"]


async def test_an_engine_that_is_killed_comes_back_at_an_address_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "FIRST_PAUSE_S", 0.5)
    nerves = EngineNerves(load_rig(BENCH), tmp_path, 3)
    address_file = tmp_path / "nerves.json"
    try:
        nerves.start(Edges())
        await until(lambda: bool(nerves.recent_spikes()))
        assert await nerves.summary() is not None
        first = nerves.engine
        assert first is not None
        os.kill(first.pid, signal.SIGKILL)
        await until(lambda: nerves.engine is None)
        assert await nerves.summary() is None
        assert nerves.recent_spikes() == []
        await until(lambda: not address_file.exists())  # no client is sent to an address where nothing listens
        await until(lambda: bool(nerves.recent_spikes()))
        again = nerves.engine
        assert again is not None
        assert again.pid != first.pid
        assert json.loads(address_file.read_text())["address"] == again.address
        assert capsys.readouterr().err.count("the address for agents is") == 2
    finally:
        await nerves.close()
    assert nerves.engine is None
    with pytest.raises(ProcessLookupError):
        os.kill(again.pid, 0)
    assert not address_file.exists()


class Unkillable:
    """A process that a hung disk holds in the kernel: a kill takes effect when the disk answers, if ever."""

    pid, stdin, returncode, kills = 1, None, None, 0

    def __init__(self) -> None:
        self.stdout = asyncio.StreamReader()

    def kill(self) -> None:
        self.kills += 1

    async def wait(self) -> int:
        never: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        return await never


@pytest.mark.virtual_time
async def test_A9_a_stop_does_not_wait_for_an_engine_that_cannot_die() -> None:
    process = Unkillable()
    handle = EngineHandle("", "", "", 1, process)  # type: ignore[arg-type]
    nerves = EngineNerves(load_rig(BENCH), Path(), 3)
    nerves._engine = handle
    begun_s = asyncio.get_running_loop().time()
    assert (await nerves.stop_stimulation("smoke")).endswith("it is not dead yet")
    assert asyncio.get_running_loop().time() - begun_s < 2.0
    assert process.kills == 1
    handle._receiving.cancel()
    await asyncio.gather(handle._receiving, return_exceptions=True)


class Handle:
    """An engine that lives for a given time."""

    address, token = "127.0.0.1:1", "no-token"

    def __init__(self, lives_s: float) -> None:
        self._lives_s = lives_s

    async def order(self, stopped: str) -> bool:
        return True

    async def ended(self) -> int:
        await asyncio.sleep(self._lives_s)
        return -9

    async def close(self) -> None:
        pass


class Unreachable:
    """In the place of the connection."""

    def __init__(self, address: str, token: str) -> None:
        pass

    async def close(self) -> None:
        pass


@pytest.mark.virtual_time
async def test_an_engine_that_keeps_ending_is_started_ever_more_seldom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each start and end, and the pause before the next; a long life makes the next pause short again."""
    lives: list[float | Exception] = [5.0, RuntimeError("it did not start"), *[1.0] * 8, STEADY_S + 1.0, 1.0]
    begun_s: list[float] = []

    async def spawn(*_: Any) -> Handle:
        begun_s.append(asyncio.get_running_loop().time())
        life = lives[len(begun_s) - 1] if len(begun_s) <= len(lives) else 1e9
        if isinstance(life, Exception):
            raise life
        return Handle(life)

    monkeypatch.setattr(listening, "spawn_engine", spawn)
    monkeypatch.setattr(listening, "GatewayNerves", Unreachable)
    nerves = EngineNerves(load_rig(BENCH), tmp_path, 3)
    nerves.start(Edges())
    await asyncio.sleep(10_000.0)
    await nerves.close()
    lived = [0.0 if isinstance(life, Exception) else life for life in lives]
    pauses = [after - before - life for before, after, life in zip(begun_s, begun_s[1:], lived, strict=False)]
    doubling = [min(FIRST_PAUSE_S * 2**k, LONGEST_PAUSE_S) for k in range(10)]
    assert pauses == pytest.approx([*doubling, FIRST_PAUSE_S, 2 * FIRST_PAUSE_S])
    assert len(begun_s) == len(lives) + 1
