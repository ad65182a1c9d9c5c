"""The writer as a process of its own, fed by a whole engine; and what a kill of either leaves."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import spikeinterface.core as si

from choroid.client.nerves import AsyncNervesClient
from choroid.running.nerves_handle import EngineHandle, spawn_engine
from controller.rig.loading import load_rig
from nerves.recording import service
from nerves.recording.layout import RecordingPlan
from nerves.recording.quota import RecordingRefused
from nerves.recording.recorded import ArrayRecording, recordings
from tests.processes import children_of, lives

BENCH = Path(__file__).resolve().parents[3] / "examples" / "rigs" / "bench.yaml"


@asynccontextmanager
async def recording_engine(folder: Path, **plan: object) -> AsyncIterator[EngineHandle]:
    planned = RecordingPlan(str(folder / "recordings"), min_free_bytes=0.0, **plan)  # type: ignore[arg-type]
    engine = await spawn_engine(load_rig(BENCH), folder, 3, recording=planned)
    try:
        yield engine
    finally:
        await engine.close()


async def until(true: Callable[[], bool]) -> None:
    """Wait for it; the test's own limit ends what never comes."""
    while not true():
        await asyncio.sleep(0.05)


def writer_of(engine: EngineHandle) -> int:
    """Return the process of the writer."""
    (pid,) = children_of(engine.pid, "writer_process")
    return pid


def check_continuous(recording: ArrayRecording) -> None:
    """Segments and gaps together leave no frame out."""
    segments = recording.segments
    covered = [(s.first_frame, s.end_frame) for s in segments if len(s.traces)]
    covered += [(int(first), int(end)) for first, end, _ in recording.table("gaps")]
    covered.sort()
    for (_, end), (first, _) in pairwise(covered):
        assert end == first


async def test_a_recording_is_begun_and_ended_while_the_engine_runs(tmp_path: Path) -> None:
    async with recording_engine(tmp_path) as engine:
        with pytest.raises(RecordingRefused, match="no recording is open"):
            await engine.record("stop", reason="")
        status = await engine.record("start", name="first", requester="ada", reason="a test")
        assert status["name"] == "first"
        with pytest.raises(RecordingRefused, match="first runs already"):
            await engine.record("start", name="second", requester="ada", reason="")
        await asyncio.sleep(1.0)
        await engine.record("stop", reason="enough")
        with pytest.raises(RecordingRefused, match="cannot name"):
            await engine.record("start", name="../up", requester="ada", reason="")
        with pytest.raises(RecordingRefused, match="exists"):
            await engine.record("start", name="first", requester="ada", reason="")
        (recording,) = recordings(tmp_path / "recordings")
        assert recording.complete
        check_continuous(recording)
        assert recording.frames > 10_000
        assert si.read_zarr(recording.path).get_total_samples() == recording.frames
        assert await engine.record("start", name="", requester="ada", reason="")
    names = [each.name for each in recordings(tmp_path / "recordings")]
    assert names[1].endswith("-ada")


@pytest.mark.long
@pytest.mark.parametrize("victim", ["engine", "writer"])
async def test_a_kill_leaves_a_recording_that_opens(tmp_path: Path, victim: str) -> None:
    async with recording_engine(tmp_path) as engine:
        await engine.record("start", name="one", requester="ada", reason="a test")
        async with (
            AsyncNervesClient(engine.address, engine.token) as client,
            aclosing(client.frames(0, 2500)) as frames,
        ):
            begun = await anext(frames)  # what agents received of the same frames
        writer = writer_of(engine)
        await asyncio.sleep(2.5)
        os.kill(engine.pid if victim == "engine" else writer, signal.SIGKILL)
        if victim == "writer":
            status = {"name": "one"}
            while status["name"]:
                await asyncio.sleep(0.1)
                status = await engine.record("status")
            assert "ended with status -9" in status["last"]
            async with (
                AsyncNervesClient(engine.address, engine.token) as client,
                aclosing(client.summaries(100)) as summaries,
            ):
                assert "with status -9" in (await anext(summaries)).recording_problem
                again = await engine.record("start", name="two", requester="ada", reason="")
                assert again["name"] == "two"
                while (await anext(summaries)).recording_problem:
                    pass
        await until(lambda: not lives(writer))
    recording = next(each for each in recordings(tmp_path / "recordings") if each.name == "one")
    assert recording.complete == (victim == "engine")  # the writer outlives the engine, and writes all that it had
    assert recording.frames >= 25_000
    check_continuous(recording)
    read = si.read_zarr(recording.path)
    traces = np.concatenate([read.get_traces(segment_index=n) for n in range(read.get_num_segments())])
    assert len(traces) == recording.frames
    samples = begun.samples  # type: ignore[union-attr]
    segment = recording.segments[0]
    assert np.array_equal(segment.read(begun.first_frame, begun.first_frame + len(samples)), samples)
    assert traces.std(axis=0).min() > 1.0  # no zeros in the place of samples


async def test_without_the_extra_the_engine_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert 'pip install "choroid[recording]"' in service.missing()
