"""The CL API in front of a running engine: programs in its documented shapes, with only the import changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import choroid.client.cl as cl
from choroid.client.cl.clock import ArrayClock
from choroid.client.cl.queues import ChannelQueues, Placed, StimOperation
from choroid.client.errors import NervesError
from choroid.client.nerves import NervesClient
from tests.nerves.test_gateway import ROOT, Engine, start, stop

PROGRAMS = Path(__file__).parent / "cl_programs"
RATE = 25_000
BALANCED = cl.StimDesign(160, -0.5, 160, 0.5)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    running = start(tmp_path_factory.mktemp("cl"))
    yield running
    assert stop(running) == 0


@pytest.fixture
def neurons(engine: Engine) -> Iterator[cl.CulturedNeurons]:
    with (
        warnings.catch_warnings(),
        cl.open(source=engine.data / "nerves.json", channels=range(16)) as opened,
    ):
        warnings.simplefilter("ignore", cl.StimulationRefused)
        yield opened


def run_program(engine: Engine, name: str, folder: Path, *words: str) -> str:
    """Run a program of the CL API with only its import changed; return what it prints."""
    text = (PROGRAMS / name).read_text(encoding="utf-8")
    assert "choroid" not in text
    script = folder / name
    script.write_text(text.replace("import cl\n", "import choroid.client.cl as cl\n", 1), encoding="utf-8")
    environment = os.environ | {"CHOROID_NERVES": str(engine.data / "nerves.json"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(script), *words], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_closed_loop_of_the_cl_api_runs_with_only_the_import_changed(engine: Engine, tmp_path: Path) -> None:
    ticks, spikes, file = run_program(engine, "closed_loop.py", tmp_path, str(tmp_path)).split()
    assert ticks == "100"
    assert int(spikes) > 0
    with np.load(file) as recorded:
        attributes = json.loads(str(recorded["attributes"]))
        samples, stims, found = recorded["samples"], recorded["stims"], recorded["spikes"]
        streams = json.loads(str(recorded["data_streams"]))
    assert attributes["experiment"] == "closed loop"
    assert samples.shape == (attributes["duration_frames"], 32)
    assert samples.std() > 0
    assert attributes["duration_seconds"] >= 2.0
    assert len(found) > 0
    first, end = attributes["start_timestamp"], attributes["end_timestamp"]
    assert found[:, 0].min() >= first
    assert found[:, 0].max() < end
    assert set(stims[:, 1].tolist()) <= {0, 1, 2}
    assert streams["answers"]["attributes"] == {"unit": "spikes"}
    assert streams["answers"]["entries"]
    with NervesClient(engine.address, engine.token) as auditor:
        asked = [record for record in auditor.ledger(limit=1000) if record.purpose == "CL program"]
    assert len(asked) == len(streams["answers"]["entries"])
    delivered = [p.delivered_frame for record in asked for p in record.pulses if p.HasField("delivered_frame")]
    assert sorted(stims[:, 0].tolist()) == sorted(frame for frame in delivered if first <= frame < end)


def test_plans_bursts_and_reading_of_the_cl_api_run_with_only_the_import_changed(
    engine: Engine, tmp_path: Path
) -> None:
    at, _, delivered = run_program(engine, "plans.py", tmp_path).partition(" ")
    assert int(at) > 0
    stims = eval(delivered)  # noqa: S307  (printed by our own program)
    starts = sorted({frame for frame, _ in stims})
    assert {channel for _, channel in stims} <= {4, 5}
    assert [channel for frame, channel in stims].count(4) >= 3
    assert all(abs(frame - wanted) <= 25 for frame, wanted in zip(starts[:1], [2], strict=True))


def test_a_governor_refusal_is_a_warning_and_is_kept(neurons: cl.CulturedNeurons) -> None:
    neurons.stim(0, cl.StimDesign(160, -0.5, 160, 0.1))
    with pytest.warns(cl.StimulationRefused, match="channels 0"):
        neurons.wait_for_stims()
    (refused,) = neurons.refused
    assert "what stays in the tissue" in refused


def test_N3_an_interrupt_cancels_what_waits_on_a_channel_and_nothing_else(neurons: cl.CulturedNeurons) -> None:
    begin = neurons.timestamp()
    neurons.stim(1, BALANCED, cl.BurstDesign(10, 10))
    neurons.stim(2, BALANCED, cl.BurstDesign(10, 10))
    neurons.read(RATE // 4, from_ts=begin)
    neurons.interrupt(1)
    neurons.wait_for_stims()
    _, stims = neurons.feed.between(begin, neurons.timestamp())
    channels = [channel for _, channel in stims]
    assert channels.count(2) >= 8, neurons.refused
    assert channels.count(1) == 0  # a call that was cut off reports nothing; the ledger has its delivered pulses


def test_stims_on_one_channel_follow_each_other(neurons: cl.CulturedNeurons) -> None:
    neurons._queues.margin_frames = RATE // 4  # a busy machine may take that long to send four requests
    begin = neurons.timestamp()
    for _ in range(4):
        neurons.stim(3, BALANCED)
    frames = [stim.timestamp for stim in neurons.wait_for_stims() if stim.channel == 3]
    assert len(frames) == 4, neurons.refused
    assert np.diff(frames).min() >= 120
    # The feed of events is another stream than the answers: it may come later.
    while len(seen := [each for each in neurons.feed.between(begin, frames[-1] + 1)[1] if each[1] == 3]) < 4:
        time.sleep(0.005)
    assert [frame for frame, _ in seen] == frames


def test_a_body_that_is_late_ends_the_loop_and_can_recover(neurons: cl.CulturedNeurons) -> None:
    def dawdle(until: int) -> None:
        while neurons.timestamp() < until:
            time.sleep(0.001)

    late = neurons.loop(100)
    with pytest.raises(TimeoutError, match="frames late"):
        late.run(lambda tick: dawdle(tick.iteration_next_timestamp + RATE // 5))
    missed: list[int] = []
    for turn, tick in enumerate(neurons.loop(20, stop_after_ticks=30, ignore_jitter=True)):
        if turn == 0:
            dawdle(tick.iteration_next_timestamp + RATE // 2)
            tick.loop.recover_from_jitter(lambda tick: missed.append(tick.iteration))
        if turn == 2:
            tick.loop.stop()
    assert len(missed) >= 8
    assert missed == list(range(1, 1 + len(missed)))


def test_ticks_share_out_every_spike_once(neurons: cl.CulturedNeurons) -> None:
    spikes: list[tuple[int, int]] = []
    ends = []
    for tick in neurons.loop(50, stop_after_seconds=1.5, ignore_jitter=True):
        spikes += [(spike.timestamp, spike.channel) for spike in tick.analysis.spikes]
        ends.append((tick.iteration_timestamp, tick.iteration_next_timestamp))
    assert all(before[1] == after[0] for before, after in pairwise(ends))
    assert len(set(spikes)) == len(spikes) > 0
    kept, _ = neurons.feed.between(ends[0][0] + 500, ends[-1][0] - 2500)
    assert set(kept) <= set(spikes)


def test_frames_and_waveforms_are_those_of_the_array(neurons: cl.CulturedNeurons) -> None:
    result = neurons.read(RATE, analysis=True)
    spike = result.spikes[0]
    samples = spike.samples
    assert samples.dtype == np.float32
    assert abs(float(samples.mean())) < 1e-2
    raw = neurons.read(75, from_ts=spike.timestamp - 25)
    assert np.allclose(raw[:, spike.channel] * neurons.uv_per_unit - spike.channel_mean_sample, samples, atol=1e-2)
    for tick in neurons.loop(100, stop_after_ticks=2, ignore_jitter=True):
        assert tick.frames.shape == (250, 32)


def test_control_is_exclusive_and_reading_needs_none(neurons: cl.CulturedNeurons, engine: Engine) -> None:
    source = engine.data / "nerves.json"
    with pytest.raises(cl.ControlRequestError, match="held"):
        cl.open(source=source)
    with cl.open(take_control=False, source=source) as watching:
        assert watching.read(25).shape == (25, 32)
        with pytest.raises(cl.ControlRequiredError):
            watching.stim(1, BALANCED)


async def test_the_same_with_asyncio(engine: Engine) -> None:
    async with cl.open_async(source=engine.data / "nerves.json", channels=[9]) as neurons:
        ticks = [tick async for tick in neurons.loop(50, stop_after_ticks=5, ignore_jitter=True)]
        assert [tick.iteration for tick in ticks] == list(range(5))
        neurons.now.stim(9, BALANCED)
        await neurons.wait_for_stims()
        assert (await neurons.read(100)).shape == (100, 32)


def test_facts_about_the_system(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHOROID_NERVES", str(engine.data / "nerves.json"))
    assert cl.is_simulator()
    assert cl.get_system_attributes()["channel_count"] == 32
    monkeypatch.delenv("CHOROID_NERVES")
    with pytest.raises(NervesError, match="CHOROID_NERVES"):
        cl.open()


def test_recording_from_the_past_and_its_errors(neurons: cl.CulturedNeurons, tmp_path: Path) -> None:
    while neurons.timestamp() < 3 * RATE:
        time.sleep(0.01)
    recording = neurons.record("past", tmp_path, from_seconds_ago=1.0, stop_after_seconds=1.5, include_spikes=False)
    recording.wait_until_stopped()
    with np.load(recording.file) as recorded:
        assert recorded["samples"].shape == (1.5 * RATE, 32)
        assert "spikes" not in recorded
    assert recording.status == "stopped"
    lost = neurons.record("lost", tmp_path, from_timestamp=1, stop_after_frames=100)
    if neurons.timestamp() > 6 * RATE:
        with pytest.raises(cl.RecordingFailedError, match="lost"):
            lost.wait_until_stopped()
    with pytest.raises(ValueError, match="plain name"):
        neurons.record("../up", tmp_path)


def test_data_streams_go_forward_only_and_hold_json(neurons: cl.CulturedNeurons) -> None:
    stream = neurons.create_data_stream("scores")
    stream.append(10, {"a": [1, 2]})
    with pytest.raises(ValueError, match="not after"):
        stream.append(10, 1)
    with pytest.raises(TypeError):
        stream.append(11, object())
    stream.set_attribute("unit", "points")
    stream.update_attributes({"task": "pong"})
    assert stream.attributes == {"unit": "points", "task": "pong"}
    with pytest.raises(ValueError, match="already"):
        neurons.create_data_stream("scores")


def test_sets_of_channels() -> None:
    some = cl.ChannelSet(1, [2, 3])
    assert list(some | cl.ChannelSet(0)) == [0, 1, 2, 3]
    assert list(some & cl.ChannelSet(2, 9)) == [2]
    assert list(some ^ cl.ChannelSet(2, 9)) == [1, 3, 9]
    assert len(~some) == 61
    some |= cl.ChannelSet(7)
    some &= cl.ChannelSet(1, 7)
    some ^= cl.ChannelSet(1)
    assert list(some) == [7]
    assert cl.ChannelSet(5) == cl.ChannelSet([5])
    with pytest.raises(ValueError, match="no channel -1"):
        cl.ChannelSet(-1)
    with pytest.raises(TypeError):
        cl.ChannelSet([1.5])  # type: ignore[list-item]


@pytest.mark.parametrize(
    "terms",
    [(), (160,), (160, -1, 160), (10, -1), (30, -1), (160, -3.1), (2000, -2.0), (160, -1, 160, -1), (160, -1) * 4],
)
def test_designs_out_of_range_are_refused(terms: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"terms|µs|µA|sign"):
        cl.StimDesign(*terms)


def test_designs_and_bursts() -> None:
    assert cl.StimDesign(160, -1.0, 40, 0.0, 160, 1.0).duration_us == 360
    assert cl.BurstDesign(3, 30).interval_us() == 33_340
    for count, rate in ((-1, 10), (1, 0), (1, 201)):
        with pytest.raises(ValueError, match=r"burst|Hz"):
            cl.BurstDesign(count, rate)


def placed(queues: ChannelQueues, now: int, channels: cl.ChannelSet, burst: cl.BurstDesign | None = None) -> Placed:
    found = queues.place(StimOperation(channels, BALANCED, burst, 80), now)
    assert found is not None
    return found


def test_queues_place_stimulations_one_after_another() -> None:
    queues = ChannelQueues(25_000.0, 200)
    both = cl.ChannelSet(1, 2)
    first = placed(queues, 1000, both)
    assert (first.channels, first.at_frame, first.pulses) == ((1, 2), 0, 1)
    assert placed(queues, 1001, both).at_frame == 1200 + 125 + 125
    burst = placed(queues, 1001, cl.ChannelSet(2, 3), cl.BurstDesign(4, 100))
    assert (burst.channels, burst.at_frame, burst.period_frames, burst.pulses) == ((2, 3), 1600, 250, 4)
    assert queues.place(StimOperation(cl.ChannelSet(1, 3)), 1001) is None
    assert placed(queues, 1001, cl.ChannelSet(1)).at_frame == 1600 + 1000 + 25
    queues.interrupt(cl.ChannelSet(1))
    assert placed(queues, 1001, cl.ChannelSet(1)).at_frame == 0
    with pytest.raises(cl.ChannelQueueFull):
        placed(queues, 1001, cl.ChannelSet(4), cl.BurstDesign(1000, 1))
    assert queues.place(StimOperation(cl.ChannelSet(5), BALANCED, cl.BurstDesign(0, 1), 80), 1001) is None


def test_a_stimulation_that_came_too_late_is_planned_again_unless_the_program_set_its_frame() -> None:
    queues = ChannelQueues(25_000.0, 200)
    placed(queues, 1000, cl.ChannelSet(1))
    late = placed(queues, 1001, cl.ChannelSet(1))
    again = queues.again(late, 2000)
    assert again is not None
    assert again.at_frame == 2400
    assert placed(queues, 2001, cl.ChannelSet(1)).at_frame == 2525
    for _ in range(3):
        again = queues.again(again, 3000)
        assert again is not None
    assert queues.again(again, 3000) is None
    fixed = queues.place(StimOperation(cl.ChannelSet(7), BALANCED, None, 80), 3000, 9000)
    assert fixed is not None
    assert (fixed.at_frame, queues.again(fixed, 9001)) == (9002, None)


def test_the_clock_is_set_by_the_fastest_message_and_stops_with_the_engine() -> None:
    clock = ArrayClock(25_000.0)
    for second in range(10):
        clock.note(second * 25_000, second + (0.001 if second == 3 else 0.02))
    assert clock.at(9.001) == 225_000
    assert clock.at(9.101) == 227_500
    assert clock.at(100.0) == 225_000 + 6_250
