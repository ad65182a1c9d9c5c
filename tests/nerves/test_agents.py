"""Agents of a running engine: each with a credential, leases and records of its own; the array is silent when one dies."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import numpy as np
import pytest

from choroid import AsyncNervesClient, NervesClient, NervesError, PulsePhase
from choroid.client.wire import nerves_pb2 as pb
from nerves import ledger
from nerves.credentials import AgentCredentials, AgentRole, CredentialsProblem, UnknownAgent
from nerves.envelope import AgentBudget
from tests.nerves.kill_latency import kill_once
from tests.nerves.test_gateway import ROOT, Engine, held, start, stop

PULSE = [PulsePhase(200, -1.0), PulsePhase(200, 1.0)]
SMALL = [PulsePhase(100, -0.2), PulsePhase(100, 0.2)]
RATE = 25_000


def utc() -> str:
    return "2026-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    running = start(tmp_path_factory.mktemp("agents"))
    yield running
    assert stop(running) == 0


def order(engine: Engine, message: dict[str, Any]) -> Any:
    """Say something over the parent's pipe; return the confirmation."""
    assert engine.process.stdin is not None
    assert engine.process.stdout is not None
    engine.process.stdin.write(json.dumps(message).encode() + b"\n")
    engine.process.stdin.flush()
    return json.loads(engine.process.stdout.readline())


def added(engine: Engine, name: str, role: AgentRole = AgentRole.AGENT, **more: Any) -> str:
    token = AgentCredentials(engine.data, utc).issue(name, role, **more)
    assert order(engine, {"agents": 1}) == {"done": 1}
    return token


def test_only_hashes_are_kept_and_a_revoked_name_is_not_given_again(tmp_path: Path) -> None:
    credentials = AgentCredentials(tmp_path, utc)
    token = credentials.issue("anna", AgentRole.AGENT, electrodes=(1, 2), budget=AgentBudget(nc_s=5.0))
    text = credentials.path.read_text()
    assert token not in text
    assert credentials.path.stat().st_mode & 0o777 == 0o600
    (kept,) = credentials.every()
    assert (kept.name, kept.electrodes, kept.budget) == ("anna", (1, 2), AgentBudget(nc_s=5.0))
    assert credentials.renew("anna") != token
    credentials.revoke("anna")
    assert credentials.grants() == {}
    for name in ("anna", "controller", "", "a/b", "x" * 61, "ä"):
        with pytest.raises(CredentialsProblem):
            credentials.issue(name, AgentRole.AGENT)
    with pytest.raises(UnknownAgent):
        credentials.renew("anna")
    credentials.path.write_text("{")
    with pytest.raises(CredentialsProblem, match="cannot be read"):
        credentials.issue("ben", AgentRole.READER)
    assert credentials.path.read_text() == "{"  # evidence


def test_S2_an_agent_cannot_see_use_renew_or_release_anothers_lease(engine: Engine) -> None:
    with (
        NervesClient(engine.address, added(engine, "anna")) as anna,
        NervesClient(engine.address, added(engine, "ben")) as ben,
    ):
        lease = anna.acquire_lease([1, 2])
        assert anna.status().leases == 1
        assert ben.status().leases == 0
        with pytest.raises(NervesError) as taken:
            ben.acquire_lease([2])
        assert "anna" not in str(taken.value)
        assert lease.lease not in str(taken.value)
        used = ben.stimulate(lease.lease, [1], PULSE, purpose="theft")
        assert used.limiting == "lease"
        with pytest.raises(NervesError, match="no living lease of ben"):
            ben.renew_lease(lease.lease)
        ben.release_lease(lease.lease)
        assert anna.stimulate(lease.lease, [1], PULSE, purpose="own").accepted
        assert {record.requester for record in ben.ledger()} == {"ben"}
        assert {record.requester for record in anna.ledger(limit=1000)} == {"anna"}
    assert {"anna", "ben"} <= {record.requester for record in ledger.read(engine.data / "stimulation.db")}


def test_an_agents_electrodes_and_budget_are_its_own(engine: Engine) -> None:
    token = added(engine, "cleo", electrodes=(4,), budget=AgentBudget(pulses_min=3.0))
    with NervesClient(engine.address, token) as cleo:
        with pytest.raises(NervesError, match="does not reach"):
            cleo.acquire_lease([4, 5])
        lease = cleo.acquire_lease([4]).lease
        refused = cleo.stimulate(lease, [4], SMALL, purpose="", pulses=4, period_frames=250)
        assert refused.limiting == "pulse_budget"
        assert cleo.stimulate(lease, [4], SMALL, purpose="", pulses=3, period_frames=250).accepted


def test_a_revoked_agent_is_out_at_once_with_its_leases_and_streams(engine: Engine) -> None:
    with NervesClient(engine.address, added(engine, "dora")) as dora:
        lease = dora.acquire_lease([6]).lease
        train = dora.stimulate(lease, [6], SMALL, purpose="", pulses=100, period_frames=250, reply_at_decision=True)
        spikes = dora.spikes()
        next(spikes)
        AgentCredentials(engine.data, utc).revoke("dora")
        assert order(engine, {"agents": 2}) == {"done": 2}
        with pytest.raises(NervesError, match="does not know this token") as refused:
            dora.status()
        assert refused.value.code == "UNAUTHENTICATED"
        with pytest.raises(NervesError):
            list(spikes)
    (record,) = ledger.read(engine.data / "stimulation.db", after=train.decision - 1, limit=1)
    assert record.pulses[-1].state == "cancelled"
    assert "may not stimulate any more" in record.pulses[-1].detail


def test_N3_the_array_is_silent_soon_after_its_client_is_killed(tmp_path: Path) -> None:
    """The reproduction: 121 pulses in 4.2 s. `python -m tests.nerves.kill_latency` measures many kills."""
    engine = start(tmp_path)
    try:
        with NervesClient(engine.address, engine.token) as observer:
            late_ms = [kill_once(engine.data, observer) for _ in range(3)]
    finally:
        stop(engine)
    assert min(late_ms) <= 50.0, late_ms
    assert max(late_ms) <= 500.0, late_ms  # a loaded machine is late to tell of the death


def test_a_stopped_client_is_silent_too(tmp_path: Path) -> None:
    """It is not dead, and its connection stays: only its heartbeats stop."""
    engine = start(tmp_path)
    agent = subprocess.Popen(
        [sys.executable, "-m", "tests.nerves.killed_agent", str(engine.data / "nerves.json")],
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    try:
        assert agent.stdout is not None
        for _ in range(4):
            agent.stdout.readline()
        with NervesClient(engine.address, engine.token) as observer:
            agent.send_signal(signal.SIGSTOP)
            time.sleep(0.15)
            delivered = observer.status().pulses_delivered
            time.sleep(0.1)
            assert observer.status().pulses_delivered == delivered
    finally:
        agent.kill()
        agent.wait()
        assert agent.stdout is not None
        agent.stdout.close()
        stop(engine)


async def test_a_held_lease_ends_with_its_call_and_says_why(engine: Engine) -> None:
    async with engine.stub() as stub:
        async with held(stub, engine, 8) as given:
            assert given.fence > 0
        await asyncio.sleep(0.05)
        async with held(stub, engine, 8) as again:
            assert again.fence > given.fence
            assert again.lease != given.lease


async def test_an_async_client_holds_its_lease_and_lets_go(engine: Engine) -> None:
    nerves = AsyncNervesClient(engine.address, engine.agent_token)
    try:
        lease = await nerves.acquire_lease([9], ttl_ms=1_000)
        await asyncio.sleep(1.5)
        assert (await nerves.stimulate(lease.lease, [9], PULSE, purpose="")).accepted
        await nerves.release_lease(lease.lease)
        with pytest.raises(NervesError, match="no living lease"):
            await nerves.renew_lease(lease.lease)
        await nerves.acquire_lease([9])
    finally:
        await nerves.close()


@pytest.mark.parametrize("ended", [False, True])
async def test_S2_a_lease_is_released_while_a_heartbeat_is_on_its_way_and_after_the_engine_ended_it(
    engine: Engine, ended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AsyncNervesClient(engine.address, engine.agent_token) as nerves:
        lease = (await nerves.acquire_lease([11])).lease
        call = nerves._held[lease]._call
        writing, write = asyncio.Event(), call.write

        async def seen(beat: Any) -> None:
            writing.set()
            await write(beat)

        monkeypatch.setattr(call, "write", seen)
        if ended:
            await asyncio.to_thread(order, engine, {"order": 5, "stopped": "smoke"})
        else:
            await writing.wait()
        releasing = asyncio.create_task(nerves.release_lease(lease))
        await asyncio.wait([releasing])
        assert not releasing.cancelled()
        await releasing
        assert (await nerves.status()).leases == 0
        await nerves.release_lease(lease)  # a second time: nothing happens
    if ended:
        order(engine, {"order": 6, "stopped": ""})


def test_events_are_pushed_and_resumed(engine: Engine) -> None:
    with (
        NervesClient(engine.address, engine.agent_token) as mine,
        NervesClient(engine.address, added(engine, "eve")) as eve,
    ):
        lease = mine.acquire_lease([10]).lease
        mine.release_lease(lease)
        events = mine.events(after=0)
        first = next(events)
        assert (first.kind, first.frame, first.lost_before) == ("ENGINE_STARTED", 0, True)
        ended = next(event for event in events if event.lease == lease)
        assert (ended.kind, ended.electrodes, ended.text) == ("LEASE_ENDED", (10,), "the lease was released")
        events.close()
        order(engine, {"order": 5, "stopped": "smoke"})
        order(engine, {"order": 6, "stopped": ""})
        resumed = mine.events(after=ended.number)
        kinds = [next(resumed).kind for _ in range(2)]
        resumed.close()
        assert kinds == ["STIMULATION_STOPPED", "STIMULATION_ALLOWED"]
        others = eve.events(after=0)
        seen = []
        for event in others:
            seen.append(event)
            if event.kind == "STIMULATION_ALLOWED":
                break
        others.close()
        assert not [event for event in seen if event.kind == "LEASE_ENDED"]


def test_spikes_from_a_frame_on_with_waveforms_and_a_filter(engine: Engine) -> None:
    with NervesClient(engine.address, engine.agent_token) as nerves:
        while (now := nerves.status().next_frame) < 2 * RATE:
            time.sleep(0.1)
        first = now - RATE
        plain = nerves.spikes(100, from_frame=first)
        batch = next(filter(len, plain))
        plain.close()
        assert first <= int(batch.frames[0]) < now
        chosen = int(batch.electrodes[0])
        some = nerves.spikes(from_frame=first, electrodes=[chosen], waveforms=True)
        cut = next(filter(len, some))
        some.close()
        assert set(cut.electrodes.tolist()) == {chosen}
        assert int(cut.frames[0]) == int(batch.frames[0])
        assert cut.waveforms is not None
        assert cut.waveforms.shape == (len(cut), 75)
        assert cut.waveform_before == 25
        around = nerves.frames(from_frame=int(cut.frames[0]) - 25, frames=75)
        raw = next(around)
        around.close()
        assert np.array_equal(raw.samples[:, chosen], cut.waveforms[0])  # type: ignore[union-attr]
        with pytest.raises(NervesError, match="has not come yet"):
            next(nerves.spikes(from_frame=now + 10 * RATE))
        with pytest.raises(NervesError, match="no electrode 99"):
            next(nerves.spikes(electrodes=[99]))


def test_a_repeat_over_a_new_connection_and_a_new_engine_stimulates_no_second_time(tmp_path: Path) -> None:
    engine = start(tmp_path)
    try:
        with NervesClient(engine.address, engine.agent_token) as nerves:
            lease = nerves.acquire_lease([1]).lease
            first = nerves.stimulate(lease, [1], PULSE, purpose="", idempotency_key="pulse 1")
            assert first.accepted
        with NervesClient(engine.address, engine.agent_token) as nerves:
            lease = nerves.acquire_lease([1]).lease
            again = nerves.stimulate(lease, [1], PULSE, purpose="", idempotency_key="pulse 1")
            assert again.repeated
            assert again.decision == first.decision
            assert again.pulses[0].delivered_frame == first.pulses[0].delivered_frame
            with pytest.raises(NervesError, match="at most 64"):
                nerves.stimulate(lease, [1], PULSE, purpose="", idempotency_key="x" * 65)
    finally:
        stop(engine)
    same = start(tmp_path)
    try:
        assert (same.address, same.agent_token) == (engine.address, engine.agent_token)
        with NervesClient(engine.address, engine.agent_token) as nerves:
            lease = nerves.acquire_lease([1]).lease
            again = nerves.stimulate(lease, [1], PULSE, purpose="", idempotency_key="pulse 1")
            assert again.repeated
            assert again.decision == first.decision
            assert nerves.status().pulses_delivered == 0
    finally:
        stop(same)
    assert len(ledger.read(tmp_path / "stimulation.db")) == 1


async def test_a_deadline_withdraws_or_cuts_off_what_is_not_done(engine: Engine) -> None:
    async with engine.stub() as stub:
        request = pb.AcquireLeaseRequest(electrodes=[12], ttl_ms=5_000)
        lease = (await stub.AcquireLease(request, metadata=engine.agent)).lease
        small = [pb.Phase(duration_us=100, current_ua=-0.2), pb.Phase(duration_us=100, current_ua=0.2)]
        train = pb.StimulateRequest(
            lease=lease, electrodes=[12], phases=small, pulses=100, period_frames=250, purpose="late"
        )
        with pytest.raises(grpc.aio.AioRpcError) as late:
            await stub.Stimulate(train, metadata=engine.agent, timeout=0.2)
        assert late.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        await asyncio.sleep(0.2)
    (record,) = [each for each in ledger.read(engine.data / "stimulation.db", limit=1000) if each.purpose == "late"]
    states = [pulse.state for pulse in record.pulses]
    assert states.count("delivered") < 60
    assert states[-1] == "cancelled"


def test_a_damaged_file_of_credentials_admits_no_one_and_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "nerves-credentials.json").write_text("garbage")
    engine = start(tmp_path)
    try:
        assert engine.agent_token == ""
        with NervesClient(engine.address, engine.token) as controller:
            assert controller.status().next_frame >= 0
        with pytest.raises(NervesError, match="has no token"):
            NervesClient.from_file(tmp_path / "nerves.json")
    finally:
        stop(engine)
    assert (tmp_path / "nerves-credentials.json").read_text() == "garbage"
