"""Latency of an agent of the grid: from a spike to the stimulation that answers it, through a hub, by the array's clock.

Hub and electrode engine are processes of their own; laboratory and agent share this one. The agent's line to the hub is
loopback, or has a fixed delay in each direction.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from choroid.client.errors import NervesError
from choroid.client.nerves import AsyncNervesClient
from choroid.client.nerves_terms import PulsePhase
from choroid.client.wire import nerves_pb2 as nerves_pb
from grid.clock import perf_s
from grid.commands.bench import admitted, hub_process
from grid.commands.slow_line import slow_line
from grid.errors import GridError
from grid.hub.owner import owned
from grid.lab.daemon import LabDaemon
from grid.lab.engine import AgentDesk, EngineAccess
from grid.member.membership import CERTIFICATE_FILE, Membership
from grid.member.tissue import GridClient

PULSE = (PulsePhase(100.0, -0.4), PulsePhase(100.0, 0.4))
ELECTRODES = (0, 1, 2, 3)
ANSWERS = 200
REQUESTS = 300
"""A measurement ends after so many requests: a machine that is too busy never gives the wanted number of answers."""
APART_FRAMES = 500
"""Frames from one answered spike to the next: at most fifty answers a second, below every budget."""
CALLS = 200
REFLEX_S = 30.0
BLOCK_FRAMES = 25
MAX_UPLOADS = 200
REFLEX = "benchmark of a reflex"
WAIT_S = 60.0
AFTER_S = 3.0


async def latency(engine: Path, desk: AgentDesk, reflex: bytes, delays_s: Sequence[float]) -> dict[str, Any]:
    """Measure agents whose lines to the hub have these delays.

    Args:
        engine: Data folder of the running electrode engine.
        desk: Issues its credentials.
        reflex: ONNX graph that asks for a pulse at electrode 0 in each block with a spike.
        delays_s: The delays (s, each way).

    Returns:
        The figures, named by the delay: round trip of a call to the engine; remote agent and uploaded reflex, each from the
        trough of a spike to the beginning of the pulse; time to upload the reflex.
    """
    with tempfile.TemporaryDirectory(prefix="choroid-grid-bench-") as text, hub_process(Path(text)) as (address, _):
        folder = Path(text)
        lab = Membership(folder / "lab", address, "lab", "lab")
        agents = [Membership(folder / f"agent{n}", address, f"agent{n}", "member") for n in range(len(delays_s))]
        with contextlib.closing(owned(folder / "hub")) as store:
            for each in (lab, *agents):
                await admitted(store, each)
        daemon = LabDaemon(lab, EngineAccess(engine, desk, "grid-"), "o1")
        serving = asyncio.create_task(daemon.run())
        figures: dict[str, Any] = {}
        try:
            for agent, delay_s in zip(agents, delays_s, strict=True):
                name = f"{delay_s * 1000:g}_ms" if delay_s else "loopback"
                async with _connected(agent, delay_s) as client:
                    figures |= {f"{key}_{name}": value for key, value in (await _over(client)).items()}
                    figures |= {f"{key}_{name}": value for key, value in (await _uploaded(client, reflex)).items()}
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
        return figures


@contextlib.asynccontextmanager
async def _connected(agent: Membership, delay_s: float) -> AsyncIterator[GridClient]:
    """Yield the client of an agent that was admitted; its line to the hub has the delay."""
    agent.save()
    path = agent.folder / CERTIFICATE_FILE
    port, _, rest = path.read_bytes().partition(b"\n")
    async with contextlib.AsyncExitStack() as stack:
        if delay_s:
            slow = await stack.enter_async_context(slow_line(agent.hub.host, int(port), delay_s))
            path.write_bytes(f"{slow}\n".encode() + rest)
        client = await stack.enter_async_context(GridClient(agent.folder))
        yield client


@contextlib.asynccontextmanager
async def _leased(client: GridClient) -> AsyncIterator[AsyncNervesClient]:
    """Hold a lease as soon as the laboratory offers its tissue."""
    async with asyncio.timeout(WAIT_S):
        while True:
            if any(each.offer.stimulation for each in await client.tissues()):
                break
            await asyncio.sleep(0.1)
    async with client.lease("lab", "o1", ELECTRODES, mode="stimulate", purpose="benchmark") as lease:
        try:
            async with lease.engine() as nerves:
                yield nerves
        except NervesError as error:
            await asyncio.sleep(AFTER_S)
            raise GridError(f"the benchmark was ended: {lease.info.reason or error}") from None


async def _over(client: GridClient) -> dict[str, Any]:
    """Return the round trip of a call to the engine, and the latency of an agent that answers spikes as they come."""
    async with _leased(client) as nerves:
        trips = []
        for _ in range(CALLS):
            start = perf_s()
            await nerves.status()
            trips.append(1000 * (perf_s() - start))
        latencies, unanswered = await _answers(nerves)
    return {
        **percentiles("round_trip", trips),
        **percentiles("remote", latencies),
        "remote_answers": len(latencies),
        "remote_unanswered": unanswered,
    }


async def _answers(nerves: AsyncNervesClient) -> tuple[list[float], int]:
    """Answer spikes; return the latencies (ms) and the number of spikes without an answer."""
    held = await nerves.acquire_lease(ELECTRODES, ttl_ms=10_000)
    rate_hz = (await nerves.info()).sample_rate_hz
    asked: list[asyncio.Task[float | None]] = []

    async def answer(frame: int, electrode: int) -> float | None:
        try:
            reply = await nerves.stimulate(held.lease, [electrode], PULSE, purpose="benchmark")
        except NervesError:
            return None
        if not reply.accepted or not reply.pulses[0].HasField("delivered_frame"):
            return None
        return 1000 * (reply.pulses[0].delivered_frame - frame) / rate_hz

    last = 0
    async with contextlib.aclosing(nerves.spikes()) as batches:
        async for batch in batches:
            frame = int(batch.frames[0])
            if frame - last < APART_FRAMES:
                continue
            last = frame
            asked.append(asyncio.create_task(answer(frame, ELECTRODES[len(asked) % len(ELECTRODES)])))
            done = sum(each.done() and each.result() is not None for each in asked)
            if done >= ANSWERS or len(asked) >= REQUESTS:
                break
    found = [each for each in await asyncio.gather(*asked) if each is not None]
    await nerves.release_lease(held.lease)
    return found, len(asked) - len(found)


async def _uploaded(client: GridClient, reflex: bytes) -> dict[str, Any]:
    """Return the time to upload a reflex until it runs, and its latency; after a gap of frames it is uploaded again."""
    loop = asyncio.get_running_loop()
    async with _leased(client) as nerves:
        rate_hz = (await nerves.info()).sample_rate_hz
        begins: list[int] = []
        spikes: list[int] = []
        reading = asyncio.create_task(_read(nerves, spikes))
        uploads: list[float] = []
        reports: list[nerves_pb.ReflexReport] = []
        end_at = loop.time() + REFLEX_S
        try:
            while loop.time() < end_at and len(uploads) < MAX_UPLOADS:
                begins.append((await nerves.status()).next_frame)
                upload_ms, report = await _run(nerves, reflex, end_at)
                uploads.append(upload_ms)
                reports.append(report)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        answers = [
            (record.frame, pulse.delivered_frame)
            async for record in nerves.ledger(limit=1000)
            if record.purpose == REFLEX and record.accepted and record.frame >= begins[0]
            for pulse in record.pulses
            if pulse.HasField("delivered_frame")
        ]
    return {
        "upload_ms": round(min(uploads), 1),
        "uploads": len(uploads),
        **percentiles("uploaded", first_spikes(np.array(spikes), answers, begins, rate_hz)),
        "uploaded_answers": len(answers),
        "uploaded_requests": sum(each.requests for each in reports),
        "uploaded_late_blocks": sum(each.late for each in reports),
        "uploaded_blocks": sum(each.calls for each in reports),
    }


async def _run(nerves: AsyncNervesClient, reflex: bytes, end_at: float) -> tuple[float, nerves_pb.ReflexReport]:
    """Run a reflex until its lease ends or the time has come; return the time to upload it (ms) and its last report."""
    held = await nerves.acquire_lease(ELECTRODES, ttl_ms=10_000)
    start = perf_s()
    running = await nerves.run_reflex(held.lease, reflex, [PULSE], purpose=REFLEX, min_interval_frames=APART_FRAMES)
    upload_ms = 1000 * (perf_s() - start)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(end_at):
            async for _ in running.reports():
                pass
    await running.stop()
    await nerves.release_lease(held.lease)
    return upload_ms, running.report


async def _read(nerves: AsyncNervesClient, into: list[int]) -> None:
    """Collect the frames of spikes until cancelled."""
    async for batch in nerves.spikes():
        into.extend(int(frame) for frame in batch.frames)


def first_spikes(
    spikes: np.ndarray[Any, Any], answers: Sequence[tuple[int, int]], begins: Sequence[int], rate_hz: float
) -> list[float]:
    """Return the latency (ms) of each answer but the first of an upload, from the first spike that it was free to answer.

    Args:
        spikes: Frames of all spikes, in order.
        answers: Frames of the decision and of the pulse of each answer, in order.
        begins: Frames at which an upload began, in order.
        rate_hz: Frames in a second.
    """
    found = []
    for (before, _), (decided, delivered) in pairwise(answers):
        if np.searchsorted(begins, before) != np.searchsorted(begins, decided):
            continue  # no reflex ran for a while
        at = int(np.searchsorted(spikes, before + APART_FRAMES - BLOCK_FRAMES))
        if at < len(spikes) and spikes[at] < delivered:
            found.append(1000 * (delivered - int(spikes[at])) / rate_hz)
    return found


def percentiles(name: str, values_ms: Sequence[float]) -> dict[str, float]:
    """Return p50 and p99."""
    p50, p99 = np.percentile(values_ms or [float("nan")], [50, 99])
    return {f"{name}_p50_ms": round(float(p50), 2), f"{name}_p99_ms": round(float(p99), 2)}
