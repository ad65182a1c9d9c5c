"""Reflexes that clients upload to a running engine process."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

from choroid import AsyncNervesClient, NervesClient, NervesError, NervesEvent, PulsePhase
from choroid.client.nerves_reflexes import AsyncRunningReflex
from choroid.client.wire import nerves_pb2 as pb
from tests.nerves.test_gateway import Engine, start, stop
from tests.nerves.test_reflexes import graph
from tests.processes import children_of
from tests.sandbox.models import constant, linear

DESIGNS = [[PulsePhase(100, -0.4), PulsePhase(100, 0.4)]]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    running = start(tmp_path_factory.mktemp("reflexes"))
    yield running
    assert stop(running) == 0


def workers(engine: Engine) -> int:
    """Return the number of sandboxes of an engine."""
    return len(children_of(engine.process.pid, "controller.sandbox.worker"))


def no_worker_left(engine: Engine) -> bool:
    until = time.monotonic() + 20
    while workers(engine) and time.monotonic() < until:
        time.sleep(0.05)
    return not workers(engine)


def test_N11_an_uploaded_graph_stimulates_under_its_lease_and_ends_with_it(engine: Engine) -> None:
    with NervesClient(engine.address, engine.agent_token) as nerves:
        lease = nerves.acquire_lease([0], 10_000).lease
        reflex = nerves.run_reflex(lease, graph(), DESIGNS, purpose="upload", min_interval_frames=500)
        assert reflex.report.running
        assert workers(engine) == 1
        accepted = 0
        for report in reflex.reports():
            accepted = report.accepted
            if accepted or not report.running:
                break
        assert accepted, report
        nerves.release_lease(lease)
        *_, last = reflex.reports()
        assert (last.running, last.ended) == (False, "its lease ended")
        assert no_worker_left(engine)
        records = [record for record in nerves.ledger(limit=1000) if record.purpose == "upload"]
        assert {record.tier for record in records} == {pb.LOOP_UPLOADED}
        assert any(record.accepted for record in records)


@pytest.mark.long
def test_N11_a_graph_in_short_blocks_runs_in_each_of_the_bins_that_it_declares(tmp_path: Path) -> None:
    detection = ["50 Hz", "ground", 60.0, None, "low-delay"]
    engine = start(tmp_path, block_frames=5, detection=detection)
    try:
        with NervesClient(engine.address, engine.agent_token) as nerves:
            assert nerves.info().reflex_latency_frames == 5
            lease = nerves.acquire_lease([0], 10_000).lease
            with pytest.raises(NervesError, match="longer than 1 s"):
                nerves.run_reflex(lease, graph(), DESIGNS, purpose="long", bin_frames=25_001)
            for bin_frames in (5, 50):
                reflex = nerves.run_reflex(lease, graph(), DESIGNS, purpose="fast", bin_frames=bin_frames)
                reports = reflex.reports()
                first = next(reports)
                began = nerves.status().next_frame
                *_, later = itertools.islice(reports, 2)
                frames = nerves.status().next_frame - began
                assert (later.blocks - first.blocks) * bin_frames == pytest.approx(frames, rel=0.3)
                reflex.stop()
    finally:
        assert stop(engine) == 0


def test_N11_a_stopped_call_ends_its_reflex(engine: Engine) -> None:
    with NervesClient(engine.address, engine.agent_token) as nerves:
        lease = nerves.acquire_lease([1], 10_000).lease
        reflex = nerves.run_reflex(lease, graph(), DESIGNS, purpose="stopped")
        reports = reflex.reports()
        next(reports)
        reflex.stop()
        assert list(reports) == [], "they end without an error"
        assert no_worker_left(engine)
        kinds = [(event.kind, event.text) for event in _events(nerves)]
        assert ("REFLEX_ENDED", "its agent ended it") in kinds


def _events(nerves: NervesClient) -> list[NervesEvent]:
    found: list[NervesEvent] = []
    stream = nerves.events(after=0)
    for event in stream:
        found.append(event)
        if event.kind == "REFLEX_ENDED" and event.text == "its agent ended it":
            break
    stream.close()
    return found


def test_N11_a_client_that_is_gone_leaves_no_sandbox(engine: Engine) -> None:
    nerves = NervesClient(engine.address, engine.agent_token)
    lease = nerves.acquire_lease([2], 10_000).lease
    nerves.run_reflex(lease, graph(), DESIGNS, purpose="gone")
    nerves.close()
    assert no_worker_left(engine)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (b"", "no operator|operator set"),
        (b"hello", "not allowed|no ONNX file"),
        (linear().SerializeToString(), "the input “spikes”"),
        (bytes(1 << 20 | 1), "more than 1048576 bytes"),
    ],
)
def test_N11_a_graph_that_is_no_reflex_is_refused_with_its_reason(engine: Engine, model: bytes, says: str) -> None:
    with NervesClient(engine.address, engine.agent_token) as nerves:
        lease = nerves.acquire_lease([3], 5_000).lease
        with pytest.raises(NervesError, match=f"no reflex: .*({says})"):
            nerves.run_reflex(lease, model, DESIGNS, purpose="refused")
        assert no_worker_left(engine)


async def test_N11_a_large_graph_comes_in_parts_with_asyncio(engine: Engine) -> None:
    large = pad(graph(), 900_000)
    async with AsyncNervesClient(engine.address, engine.agent_token) as nerves:
        lease = (await nerves.acquire_lease([4], 10_000)).lease
        reflex = await nerves.run_reflex(lease, large, DESIGNS, purpose="large")
        assert reflex.report.running
        await nerves.release_lease(lease)
        last = [report async for report in reflex.reports()][-1]
        assert last.ended == "its lease ended"
        lease = (await nerves.acquire_lease([4], 10_000)).lease
        reflex = await nerves.run_reflex(lease, graph(), DESIGNS, purpose="stopped")
        listening = asyncio.create_task(_all(reflex))
        while not reflex.report.calls:
            await asyncio.sleep(0.02)
        await reflex.stop()
        assert await listening, "they end without an error"
    assert no_worker_left(engine)


async def _all(reflex: AsyncRunningReflex) -> list[pb.ReflexReport]:
    return [report async for report in reflex.reports()]


def pad(model: bytes, size: int) -> bytes:
    """Return the same graph with a constant of `size` bytes that is not used."""
    padded = onnx.ModelProto.FromString(model)
    padded.graph.initializer.append(constant("unused", np.zeros(size // 4, np.float32)))
    made: bytes = padded.SerializeToString()
    return made
