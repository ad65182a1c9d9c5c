"""The service of a running engine process: which clients are accepted, what they get, what a kill leaves (N3, N4, N6, S1
to S4).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import numpy as np
import pytest

from choroid.client.errors import NervesError
from choroid.client.nerves import AsyncNervesClient
from choroid.client.nerves_terms import PulsePhase
from choroid.client.wire import nerves_pb2 as pb
from choroid.client.wire import nerves_pb2_grpc as pb_grpc
from choroid.running.nerves_handle import END_WITHIN_S
from choroid.running.nerves_source import GatewayNerves
from nerves import ledger
from nerves.admission import SCOPES
from nerves.server import MAX_MESSAGE_BYTES

ROOT = Path(__file__).resolve().parents[2]
PULSE = [pb.Phase(duration_us=200, current_ua=-1.0), pb.Phase(duration_us=200, current_ua=1.0)]
METHODS = sorted(method.name for method in pb.DESCRIPTOR.services_by_name["Nerves"].methods)


@dataclass
class Engine:
    """A real engine process."""

    process: subprocess.Popen[bytes]
    address: str
    token: str
    agent_token: str
    data: Path
    said: str

    @property
    def agent(self) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self.agent_token}"),)

    @property
    def controller(self) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self.token}"),)

    @contextlib.asynccontextmanager
    async def stub(self, **options: int) -> AsyncIterator[pb_grpc.NervesAsyncStub]:
        named = [(f"grpc.{name}", value) for name, value in options.items()]
        async with grpc.aio.insecure_channel(self.address, options=named) as channel:
            yield pb_grpc.NervesStub(channel)


def start(
    data: Path,
    *,
    seed: int = 7,
    patient: bool = True,
    program: tuple[str, ...] = (),
    block_frames: int = 25,
    **more: Any,
) -> Engine:
    """Start an engine; `patient`: its array waits for it, so that a busy machine makes no pulse late."""
    module = "tests.nerves.patient_engine" if patient else "choroid.running.nerves_process"
    program = program or ("-m", module)
    card: dict[str, Any] = {"electrodes": 32, "material": "Pt", "diameter_um": 30.0, "seed": seed}
    if block_frames != 25:
        card["block_frames"] = block_frames  # of the patient card
    config = {"card": card, "data_dir": str(data), **more}
    process = subprocess.Popen(
        [sys.executable, *program, "--config", json.dumps(config)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stdout is not None
    said: dict[str, str] = {}
    while "address" not in said:  # the first line says that the engine is compiled
        line = process.stdout.readline().decode()
        assert line, "the engine ended before it was ready"
        said = json.loads(line)
    return Engine(process, said["address"], said["token"], said["agent_token"], data, line)


def stop(engine: Engine) -> int:
    assert engine.process.stdin is not None
    assert engine.process.stdout is not None
    if not engine.process.stdin.closed:
        engine.process.stdin.close()
    status = engine.process.wait(timeout=10)
    engine.process.stdout.close()
    return status


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    running = start(tmp_path_factory.mktemp("engine"))
    yield running
    assert stop(running) == 0


async def lease(stub: pb_grpc.NervesAsyncStub, engine: Engine, *electrodes: int, ttl_ms: int = 5_000) -> str:
    request = pb.AcquireLeaseRequest(electrodes=electrodes, ttl_ms=ttl_ms)
    reply = await stub.AcquireLease(request, metadata=engine.agent)
    assert reply.granted, reply.reason
    return reply.lease


@contextlib.asynccontextmanager
async def held(stub: pb_grpc.NervesAsyncStub, engine: Engine, *electrodes: int) -> AsyncIterator[pb.LeaseReply]:
    """A lease with a heartbeat stream."""
    call: Any = stub.HoldLease(metadata=engine.agent)  # type: ignore[call-arg]
    await call.write(pb.HoldRequest(electrodes=electrodes, ttl_ms=5_000))
    given = await call.read()
    assert given.granted, given.reason

    async def beat() -> None:
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            while True:
                await asyncio.sleep(0.005)
                await call.write(pb.HoldRequest())

    beating = asyncio.create_task(beat())
    try:
        yield given
    finally:
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
        call.cancel()
        await call.code()


async def release(stub: pb_grpc.NervesAsyncStub, engine: Engine, name: str) -> None:
    await stub.ReleaseLease(pb.ReleaseLeaseRequest(lease=name), metadata=engine.agent)


async def end(stream: grpc.aio.UnaryStreamCall[Any, Any]) -> None:
    """Hang up, and wait until that has been taken in."""
    stream.cancel()
    await stream.code()


async def passed(stub: pb_grpc.NervesAsyncStub, engine: Engine, frames: int) -> pb.StatusReply:
    """Wait until so many frames have gone by; return the status then."""
    status = await stub.Status(pb.StatusRequest(), metadata=engine.agent)
    end_frame = status.next_frame + frames
    while status.next_frame < end_frame:
        await asyncio.sleep(0.02)
        status = await stub.Status(pb.StatusRequest(), metadata=engine.agent)
    return status


async def call(engine: Engine, method: str, metadata: tuple[tuple[str, str], ...], payload: bytes = b"") -> None:
    """Call any method by its name, with raw bytes."""
    async with grpc.aio.insecure_channel(engine.address) as channel:
        path = f"/choroid.nerves.v1.Nerves/{method}"
        streaming = any(
            m.name == method and m.server_streaming for m in pb.DESCRIPTOR.services_by_name["Nerves"].methods
        )
        if streaming:
            await channel.unary_stream(path, None, None)(payload, metadata=metadata, timeout=60).read()
        else:
            await channel.unary_unary(path, None, None)(payload, metadata=metadata, timeout=60)


def test_S1_every_call_of_the_proto_declares_its_scope() -> None:
    assert sorted(SCOPES) == [f"/choroid.nerves.v1.Nerves/{method}" for method in METHODS]
    assert all(SCOPES.values())


@pytest.mark.parametrize("method", [*METHODS, "NoSuchCall"])
@pytest.mark.parametrize(
    "metadata",
    [
        (),
        (("authorization", "Bearer wrong"),),
        (("authorization", "Bearer "),),
        (("authorization", "Basic abc"),),
        (("authorization", "Bearer a"), ("authorization", "Bearer b")),
    ],
    ids=["none", "wrong", "empty", "basic", "two"],
)
async def test_S1_no_call_without_a_valid_token(
    engine: Engine, method: str, metadata: tuple[tuple[str, str], ...]
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call(engine, method, metadata)
    assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize("method", ["AcquireLease", "RenewLease", "ReleaseLease", "Stimulate"])
async def test_S2_a_readers_token_cannot_stimulate(engine: Engine, method: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call(engine, method, engine.controller)
    assert refused.value.code() == grpc.StatusCode.PERMISSION_DENIED
    assert "stimulate" in (refused.value.details() or "")


async def test_an_unknown_call_is_unimplemented_for_a_known_caller(engine: Engine) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call(engine, "NoSuchCall", engine.agent)
    assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED


async def test_S3_oversized_and_malformed_messages_are_errors(engine: Engine) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as oversized:
        await call(engine, "Stimulate", engine.agent, b"\x0a" + b"\xff" * (MAX_MESSAGE_BYTES + 1))
    assert oversized.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    with pytest.raises(grpc.aio.AioRpcError) as malformed:
        await call(engine, "Stimulate", engine.agent, b"\xff\xff\xff garbage")
    assert malformed.value.code() in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN)
    async with engine.stub() as stub:
        assert (await stub.Status(pb.StatusRequest(), metadata=engine.agent)).next_frame > 0


async def test_S3_garbage_and_silence_on_the_port_disturb_no_client(engine: Engine) -> None:
    host, port = engine.address.split(":")
    garbage = np.random.default_rng(0).bytes(200_000)
    async with engine.stub() as stub:
        before = await stub.Status(pb.StatusRequest(), metadata=engine.agent)
        idle = [socket.create_connection((host, int(port))) for _ in range(20)]
        for opening in (b"", b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
            with socket.create_connection((host, int(port))) as connection, contextlib.suppress(OSError):
                connection.sendall(opening + garbage)
        after = await passed(stub, engine, 7_500)
        for connection in idle:
            connection.close()
    assert (after.gaps, after.lost_frames) == (before.gaps, before.lost_frames)
    assert engine.process.poll() is None


async def test_N1_a_pulse_that_is_not_balanced_is_refused_and_nothing_is_delivered(engine: Engine) -> None:
    async with engine.stub() as stub:
        name = await lease(stub, engine, 1)
        before = await stub.Status(pb.StatusRequest(), metadata=engine.agent)
        phases = [pb.Phase(duration_us=200, current_ua=-1.0), pb.Phase(duration_us=200, current_ua=0.8)]
        request = pb.StimulateRequest(lease=name, electrodes=[1], phases=phases)
        reply = await stub.Stimulate(request, metadata=engine.agent)
        assert not reply.accepted
        assert reply.limiting == "net_charge"
        assert "pC" in reply.reasons[0].text
        after = await passed(stub, engine, 1_250)
        await release(stub, engine, name)
    assert after.pulses_delivered == before.pulses_delivered
    assert after.pulses_pending == 0


async def test_N1_numbers_that_are_none_are_refused(engine: Engine) -> None:
    async with engine.stub() as stub:
        name = await lease(stub, engine, 1)
        for us, ua in ((float("nan"), -1.0), (200.0, float("inf")), (1e308, 1e308), (-200.0, -1.0)):
            phases = [pb.Phase(duration_us=us, current_ua=ua), pb.Phase(duration_us=200, current_ua=1.0)]
            request = pb.StimulateRequest(lease=name, electrodes=[1], phases=phases)
            assert not (await stub.Stimulate(request, metadata=engine.agent)).accepted
        request = pb.StimulateRequest(
            lease=name, electrodes=[2**32 - 1], phases=PULSE, at_frame=2**64 - 1, not_after=2**64 - 1, pulses=2**32 - 1
        )
        assert not (await stub.Stimulate(request, metadata=engine.agent)).accepted
        await release(stub, engine, name)
        assert not (await stub.Status(pb.StatusRequest(), metadata=engine.agent)).trouble


async def test_N4_a_pulse_at_a_sample_index_is_delivered_there_and_stands_in_the_ledger(engine: Engine) -> None:
    async with engine.stub() as stub:
        name = await lease(stub, engine, 2, 3)
        for _ in range(5):
            now = (await stub.Status(pb.StatusRequest(), metadata=engine.agent)).next_frame
            request = pb.StimulateRequest(
                lease=name, electrodes=[2, 3], phases=PULSE, at_frame=now + 5_000, not_after=now + 5_200, purpose="N4"
            )
            reply = await stub.Stimulate(request, metadata=engine.agent)
            assert reply.accepted, reply.reasons
            if reply.pulses[0].state != pb.PulseFate.DROPPED:  # a busy machine may be too late now and then
                break
        assert [fate.state for fate in reply.pulses] == [pb.PulseFate.DELIVERED] * 2
        assert all(now + 5_000 <= fate.delivered_frame <= now + 5_200 for fate in reply.pulses)
        await release(stub, engine, name)
        query = pb.LedgerRequest(after=reply.decision - 1, limit=1)
        (record,) = [record async for record in stub.Ledger(query, metadata=engine.agent)]
    assert (record.decision, record.requester, record.purpose) == (reply.decision, "agent", "N4")
    assert [fate.delivered_frame for fate in record.pulses] == [fate.delivered_frame for fate in reply.pulses]
    assert record.charge_nc == pytest.approx(0.4)


async def test_responses_to_the_latest_pulses_are_served(engine: Engine) -> None:
    nerves = GatewayNerves(engine.address, engine.token)
    phases = [PulsePhase(phase.duration_us, phase.current_ua) for phase in PULSE]
    try:
        async with AsyncNervesClient(engine.address, engine.agent_token) as client:
            async with asyncio.timeout(60.0):
                while True:  # a busy machine loses frames: leases end, and nothing is observed for 0.2 s
                    name = (await client.acquire_lease([20])).lease
                    await client.stimulate(name, [20], phases, purpose="responses")
                    await client.release_lease(name)
                    found = await client.responses(20, stimulated=[20], window_ms=(-5.0, 15.0))
                    if all(found.observed_s[k] > 0.0 for k in (0, 1, 2, 3, -1)):
                        break
            assert list(found.edges_ms) == list(range(-5, 16))
            assert found.observed_s[6] == found.observed_s[8] == found.counts[6] == 0
            assert found.trials >= 1
            assert found.HasField("baseline_high_hz")
            seen = await nerves.responses(20)
            assert seen is not None
            assert (seen.electrode, len(seen.edges_ms)) == (20, 71)
            assert math.isnan(seen.rate_hz[20 + 1])
            assert await nerves.responses(32) is None
            for wrong in ({"bin_ms": 0.01}, {"window_ms": (5.0, -5.0)}, {"seconds": math.inf}, {"stimulated": [32]}):
                with pytest.raises(NervesError):
                    await client.responses(0, **wrong)
    finally:
        await nerves.close()


async def test_N3_an_agent_that_falls_silent_stimulates_no_more(engine: Engine) -> None:
    async with engine.stub() as stub:
        reply = await stub.AcquireLease(pb.AcquireLeaseRequest(electrodes=[4], ttl_ms=200), metadata=engine.agent)
        small = [pb.Phase(duration_us=100, current_ua=-0.4), pb.Phase(duration_us=100, current_ua=0.4)]
        train = pb.StimulateRequest(lease=reply.lease, electrodes=[4], phases=small, pulses=100, period_frames=250)
        outcome = await stub.Stimulate(train, metadata=engine.agent)  # waits for the last pulse; no client renews
    assert outcome.accepted
    delivered = [fate.delivered_frame for fate in outcome.pulses if fate.state == pb.PulseFate.DELIVERED]
    assert 1 <= len(delivered) < 30
    assert max(delivered) <= reply.until_frame + 250
    assert outcome.pulses[-1].state == pb.PulseFate.CANCELLED


async def test_N5_streamed_frames_are_whole_and_in_order(engine: Engine) -> None:
    async with engine.stub() as stub:
        position = None
        received = 0
        stream = stub.StreamFrames(pb.StreamFramesRequest(frames=100), metadata=engine.agent)
        async for reply in stream:
            first = reply.gap.first_frame if reply.HasField("gap") else reply.frames.first_frame
            assert position in (None, first)
            if reply.HasField("gap"):
                position = reply.gap.end_frame
                continue
            samples = np.frombuffer(reply.frames.samples, "<i2").reshape(reply.frames.count, reply.frames.electrodes)
            assert samples.shape[1] == 32
            assert 5.0 < float(np.median(samples.std(axis=0))) * 0.195 < 100.0
            position = first + len(samples)
            received += len(samples)
            if received >= 5_000:
                break
        await end(stream)
    assert received >= 5_000


async def test_N6_a_stalled_reader_delays_no_other_and_gets_a_gap_report(engine: Engine) -> None:
    narrow = {"http2.bdp_probe": 0, "use_local_subchannel_pool": 1}  # the reader's window does not grow
    async with engine.stub(**narrow) as stalled, engine.stub() as lively:
        status = await lively.Status(pb.StatusRequest(), metadata=engine.agent)
        start = max(status.next_frame - 120_000, 1)  # nearly all that is kept
        stream = stalled.StreamFrames(pb.StreamFramesRequest(from_frame=start, frames=25_000), metadata=engine.agent)
        await stream.read()  # and then nothing, while 32 × 2 × 25,000 bytes a second wait to be sent
        name = await lease(lively, engine, 6)
        deadline = start + 25_000 * 9
        worst = 0.0
        while status.next_frame < deadline:
            began = time.perf_counter()
            status = await lively.Status(pb.StatusRequest(), metadata=engine.agent)
            worst = max(worst, time.perf_counter() - began)
            await lively.RenewLease(pb.RenewLeaseRequest(lease=name), metadata=engine.agent)
            await asyncio.sleep(0.1)
        reply = await lively.Stimulate(
            pb.StimulateRequest(lease=name, electrodes=[6], phases=PULSE), metadata=engine.agent
        )
        assert reply.accepted
        await release(lively, engine, name)
        gaps = []
        position = None
        for _ in range(40):
            read = await stream.read()
            assert isinstance(read, pb.FramesReply)
            if read.HasField("gap"):
                assert position == read.gap.first_frame
                gaps.append(read.gap)
                if read.gap.cause == pb.Gap.READER:
                    break
                position = read.gap.end_frame  # on a loaded machine the array itself loses frames, and says so
                continue
            position = read.frames.first_frame + read.frames.count
        await end(stream)
    assert [gap.cause for gap in gaps][-1:] == [pb.Gap.READER]
    assert worst < 0.5


async def test_the_controllers_source_has_a_summary_and_recent_spikes(engine: Engine) -> None:
    nerves = GatewayNerves(engine.address, engine.token)
    try:
        for _ in range(100):
            summary = await nerves.summary()
            if summary is not None and nerves.recent_spikes():
                break
            await asyncio.sleep(0.05)
        assert summary is not None
        assert summary.electrodes == 32 == len(summary.rates_hz)
        assert summary.active_electrodes > 10
        assert 0.5 < summary.firing_rate_hz < 50.0
        spikes = nerves.recent_spikes()
        assert spikes == sorted(spikes, key=lambda spike: spike[0])
        assert spikes[-1][0] - spikes[0][0] <= 5.0
        assert all(0 <= electrode < 32 for _, electrode in spikes)
    finally:
        await nerves.close()


async def test_the_page_gets_electrodes_waveforms_and_leases(engine: Engine) -> None:
    nerves = GatewayNerves(engine.address, engine.token)
    try:
        async with engine.stub() as stub:
            name = await lease(stub, engine, 4, 5)
            table = await nerves.electrodes()
            held = await nerves.leases()
            await release(stub, engine, name)
        assert table is not None
        assert held is not None
        assert len(table.states) == len(table.rates_hz) == len(table.amplitudes_uv) == len(table.bursts_min) == 32
        assert sorted(set(table.x_um)) == sorted(set(table.y_um)) == [200.0 * number for number in range(6)]
        assert "positions: assumed" in table.geometry
        assert [(each.requester, each.electrodes, each.held) for each in held[0]] == [("agent", (4, 5), False)]
        assert 0.0 < held[0][0].ends_in_s <= 5.0
        rates = np.nan_to_num(table.rates_hz)
        found = await nerves.waveforms(int(np.argmax(rates)))
        assert found is not None
        assert 0 < len(found.traces_uv) <= 24
        assert {len(trace) for trace in found.traces_uv} == {75}
        mean = np.mean(found.traces_uv, axis=0)
        assert abs(int(np.argmin(mean)) - found.before) <= 3
        assert await nerves.waveforms(32) is None
    finally:
        await nerves.close()


async def test_S2_leases_are_listed_to_their_holder_and_to_auditors_only(engine: Engine) -> None:
    async with engine.stub() as stub:
        name = await lease(stub, engine, 4, 5)
        mine = await stub.Leases(pb.LeasesRequest(), metadata=engine.agent)
        every = await stub.Leases(pb.LeasesRequest(), metadata=engine.controller)
        assert [(each.lease, list(each.electrodes), each.held) for each in mine.leases] == [(name, [4, 5], False)]
        assert [each.lease for each in every.leases] == [name]
        whose = {each.requester for each in every.budgets}
        assert "" in whose
        assert {each.requester for each in mine.budgets} <= {"", "agent"}
        limits = {each.name: (each.used, each.limit, each.unit) for each in every.budgets if not each.requester}
        assert limits["time of the last day"][1:] == (16.0, "h")
        assert all(0.0 <= used <= limit for used, limit, _ in limits.values())
        await release(stub, engine, name)
        assert not (await stub.Leases(pb.LeasesRequest(), metadata=engine.controller)).leases


async def test_the_controllers_source_is_silent_when_the_engine_is_gone() -> None:
    nerves = GatewayNerves("127.0.0.1:1", "no-token")
    await asyncio.sleep(0.1)
    assert await nerves.summary() is None
    assert nerves.recent_spikes() == []
    await nerves.close()


async def test_the_example_agent_speaks_with_the_engine(engine: Engine) -> None:
    agent = await asyncio.create_subprocess_exec(
        sys.executable,
        str(ROOT / "examples" / "agent.py"),
        str(engine.data / "nerves.json"),
        "6",
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    out, _ = await asyncio.wait_for(agent.communicate(), 30)
    text = out.decode()
    assert agent.returncode == 0, text
    assert "lease on electrodes" in text
    assert text.count("spike on electrode") == 6
    assert "accepted, delivered" in text


def test_S4_the_agents_address_file_is_for_its_owner_and_the_ledger_keeps_no_token(engine: Engine) -> None:
    address_file = engine.data / "nerves.json"
    assert address_file.stat().st_mode & 0o777 == 0o600
    local = engine.data / "nerves-local.json"
    assert local.stat().st_mode & 0o777 == 0o600
    for file in engine.data.iterdir():
        if file not in (address_file, local):
            assert engine.agent_token.encode() not in file.read_bytes()
            assert engine.token.encode() not in file.read_bytes()


def test_D4_the_ledger_cannot_be_edited(engine: Engine) -> None:
    db = sqlite3.connect(engine.data / "stimulation.db")
    for table in ("decision", "pulse", "fate", "session"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            db.execute(f"DELETE FROM {table}")
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        db.execute("UPDATE decision SET requester = 'another agent'")
    db.close()


async def test_N4_the_ledger_survives_a_kill_and_names_what_is_unknown(tmp_path: Path) -> None:
    engine = await asyncio.to_thread(start, tmp_path)
    small = [pb.Phase(duration_us=100, current_ua=-0.4), pb.Phase(duration_us=100, current_ua=0.4)]
    async with engine.stub() as stub, held(stub, engine, 1) as given:
        train = pb.StimulateRequest(
            lease=given.lease,
            electrodes=[1],
            phases=small,
            pulses=100,
            period_frames=250,
            purpose="killed",
            reply_at_decision=True,
        )
        reply = await stub.Stimulate(train, metadata=engine.agent)
        assert reply.accepted
        await asyncio.sleep(0.3)
        engine.process.send_signal(signal.SIGKILL)
    await asyncio.to_thread(engine.process.wait)
    assert engine.process.stdin is not None
    assert engine.process.stdout is not None
    engine.process.stdin.close()
    engine.process.stdout.close()
    (record,) = ledger.read(tmp_path / "stimulation.db")
    assert (record.requester, record.purpose, record.accepted) == ("agent", "killed", True)
    before = [pulse.state for pulse in record.pulses]
    assert before.count("delivered") >= 1
    again = await asyncio.to_thread(start, tmp_path)
    assert await asyncio.to_thread(stop, again) == 0
    (record,) = ledger.read(tmp_path / "stimulation.db")
    after = [pulse.state for pulse in record.pulses]
    assert set(after) <= {"delivered", "unknown", "cancelled", "dropped"}  # a busy machine drops a late pulse
    assert after.count("delivered") == before.count("delivered")
    assert after.count("unknown") == before.count("handed") <= 2


async def test_the_engine_ends_with_its_parent_and_ignores_what_it_does_not_understand(tmp_path: Path) -> None:
    engine = await asyncio.to_thread(start, tmp_path)
    assert engine.process.stdin is not None
    engine.process.stdin.write(b'{"health": 0.5}\nnonsense\n{"health": "x"}\n{"other": 1}\n[]\n')
    engine.process.stdin.flush()
    async with engine.stub() as stub:
        await stub.Info(pb.InfoRequest(), metadata=engine.controller)
    assert await asyncio.to_thread(stop, engine) == 0
    assert not (tmp_path / "nerves.json").exists()


SLOW_TEARDOWN = f"""
import atexit, runpy, time
atexit.register(time.sleep, {END_WITHIN_S + 3.0})
runpy.run_module("tests.nerves.patient_engine", run_name="__main__", alter_sys=True)
"""
"""An engine whose interpreter takes longer to tear itself down than an engine may take to end, as on a busy machine."""


async def test_the_end_of_an_engine_does_not_wait_for_the_interpreter(tmp_path: Path) -> None:
    engine = await asyncio.to_thread(start, tmp_path, program=("-c", SLOW_TEARDOWN))
    assert await asyncio.to_thread(stop, engine) == 0
    assert ledger.read(tmp_path / "stimulation.db") == []
    with contextlib.closing(sqlite3.connect(tmp_path / "stimulation.db")) as closed, closed:
        assert closed.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_metrics_and_cross_correlation_of_the_last_minute_are_served(engine: Engine) -> None:
    """The last test of this file: metrics need twenty seconds of the engine, which have passed by now."""
    async with AsyncNervesClient(engine.address, engine.agent_token) as client:
        async with asyncio.timeout(60.0):
            while not (found := await client.metrics()).HasField("array"):
                await asyncio.sleep(0.2)
        assert found.array.seconds >= 20.0
        assert found.array.spikes > 300
        assert len(found.rate_hz) == len(found.amplitude_uv) == len(found.fano) == 32
        assert (await client.summary()).metrics.end_frame >= found.array.end_frame
        busiest, next_one = np.argsort(np.nan_to_num(found.rate_hz))[-2:].tolist()
        both = await client.cross_correlation(busiest, next_one, bin_ms=5.0, max_lag=40)
        counts = np.array(both.counts)
        assert len(counts) == 81
        assert both.reference_spikes > 20
        together, apart = counts[38:43].astype(float), counts[[0, 1, 2, 78, 79, 80]].astype(float)
        standard_error = math.sqrt(together.mean() / len(together) + apart.mean() / len(apart))
        assert together.mean() - apart.mean() > 5.0 * standard_error, "network bursts are shared"
        back = await client.cross_correlation(next_one, busiest, bin_ms=5.0, max_lag=40)
        assert abs(int(np.sum(back.counts)) - int(counts.sum())) < 0.5 * counts.sum()
        for target, bin_ms, max_lag in ((32, 1.0, 5), (1, 2000.0, 5), (1, 1.0, 1001), (1, float("nan"), 5)):
            with pytest.raises(NervesError):
                await client.cross_correlation(0, target, bin_ms=bin_ms, max_lag=max_lag)
