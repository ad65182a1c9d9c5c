"""The CL API in front of a running engine: programs in its documented shapes, with only the import changed."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import h5py
import numpy as np
import pytest
import tables

import choroid.client.cl as cl
from choroid.client.cl import util
from choroid.client.cl.clock import ArrayClock
from choroid.client.cl.data_streams import DataStream
from choroid.client.cl.queues import IN_TIME, ChannelQueues, Placed, StimOperation
from choroid.client.cl.recording_file import write_recording
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
    changed = re.sub(r"^from cl\b", "from choroid.client.cl", text, flags=re.MULTILINE)
    script.write_text(changed.replace("import cl\n", "import choroid.client.cl as cl\n", 1), encoding="utf-8")
    own = {"CHOROID_NERVES": str(engine.data / "nerves.json"), "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg"}
    environment = os.environ | own
    done = subprocess.run(
        [sys.executable, "-P", str(script), *words], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_closed_loop_of_the_cl_api_runs_with_only_the_import_changed(engine: Engine, tmp_path: Path) -> None:
    ticks, spikes, file = run_program(engine, "closed_loop.py", tmp_path, str(tmp_path)).split()
    assert ticks == "100"
    assert int(spikes) > 0
    with cl.RecordingView(file) as recorded:
        attributes, streams = recorded.attributes, recorded.data_streams
        samples, stims, found = recorded.samples[:], recorded.stims[:], recorded.spikes[:]
        assert streams is not None
        answers = dict(streams.answers.items())
        assert streams.answers.attributes.application == {"unit": "spikes"}
    assert attributes.application == {"experiment": "closed loop"}
    assert samples.shape == (attributes["duration_frames"], 32)
    assert samples.std() > 0
    assert attributes["duration_seconds"] >= 2.0
    assert len(found) > 0
    first, end = attributes["start_timestamp"], attributes["end_timestamp"]
    assert found["timestamp"].min() >= 0
    assert found["timestamp"].max() < end - first
    assert np.abs(found["samples"].mean(axis=1)).max() < 0.01
    assert set(stims["channel"].tolist()) <= {0, 1, 2}
    assert answers
    assert all(set(entry) == {"spikes"} for entry in answers.values())
    with NervesClient(engine.address, engine.token) as auditor:
        asked = [record for record in auditor.ledger(limit=1000) if record.purpose == "CL program"]
    assert len(asked) == len(answers)
    delivered = [p.delivered_frame for record in asked for p in record.pulses if p.HasField("delivered_frame")]
    assert sorted((stims["timestamp"] + first).tolist()) == sorted(at for at in delivered if first <= at < end)


def test_plans_bursts_and_reading_of_the_cl_api_run_with_only_the_import_changed(
    engine: Engine, tmp_path: Path
) -> None:
    at, _, delivered = run_program(engine, "plans.py", tmp_path).partition(" ")
    assert int(at) > 0
    stims = eval(delivered)  # noqa: S307  (printed by our own program)
    starts = sorted({frame for frame, _ in stims})
    assert {channel for _, channel in stims} <= {4, 5}
    assert [channel for frame, channel in stims].count(4) >= 3
    assert starts[0] == 2  # the lead time of 80 µs, to the frame


def test_spikes_of_the_cl_api_with_only_the_import_changed(engine: Engine, tmp_path: Path) -> None:
    said = run_program(engine, "spikes.py", tmp_path).splitlines()
    assert re.fullmatch(r"late loop: took [\d.]+ µs", said[0])
    assert said[1:] == ["failed in the 1st turn, more than 0.02 s behind: True", "True True"]


def test_recordings_of_the_cl_api_with_only_the_import_changed(engine: Engine, tmp_path: Path) -> None:
    assert run_program(engine, "streams.py", tmp_path, str(tmp_path)).split()[:3] == [str(RATE), "32", "1.0"]


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
    with recording.open() as recorded:
        assert recorded.samples.shape == (1.5 * RATE, 32)
        assert recorded.spikes is None
    assert recording.status == "stopped"
    lost = neurons.record("lost", tmp_path, from_timestamp=1, stop_after_frames=100)
    if neurons.timestamp() > 6 * RATE:
        with pytest.raises(cl.RecordingFailedError, match="lost"):
            lost.wait_until_stopped()
    with pytest.raises(ValueError, match="plain name"):
        neurons.record("../up", tmp_path)


def test_data_streams_go_forward_only_and_hold_plain_values(neurons: cl.CulturedNeurons) -> None:
    stream = neurons.create_data_stream("scores")
    stream.append(10, {"a": [1, 2]})
    with pytest.raises(RuntimeError, match="not after"):
        stream.append(10, 1)
    with pytest.raises(TypeError):
        stream.append(11, object())
    stream.set_attribute("unit", np.array([1.5]))
    stream.update_attributes({"task": "pong"})
    assert stream.attributes == {"unit": [1.5], "task": "pong"}
    with pytest.raises(TypeError, match="no form in JSON"):
        stream.set_attribute("unit", object())
    with pytest.raises(ValueError, match="already"):
        neurons.create_data_stream("scores")
    for name in ("", "a/b", ".."):
        with pytest.raises(ValueError, match="cannot name"):
            neurons.create_data_stream(name)


def test_a_recording_holds_values_of_numpy_and_attributes_that_were_set_later(
    neurons: cl.CulturedNeurons, tmp_path: Path
) -> None:
    chosen, other = neurons.create_data_stream("chosen"), neurons.create_data_stream("other")
    recording = neurons.record("numpy", tmp_path, stop_after_seconds=1.0, include_data_streams=["chosen"])
    now = neurons.timestamp()
    large = np.array([2**64 - 1, 2**64 - 2], np.uint64)
    values = ["text", 1.5, None, [1, "a"], {"k": b"bytes"}, large, np.float32(0.5), np.zeros((2, 3), bool)]
    for n, value in enumerate(values):
        chosen.append(now + n, value)
    other.append(now, 1)
    chosen.set_attribute("score", np.int64(2))
    recording.set_attribute("subject", "organoid 7")
    with pytest.raises(cl.UnsafeOperationError, match="still being recorded"):
        recording.open()
    assert not recording.has_stopped()
    recording.wait_until_stopped()
    assert recording.has_stopped()
    with pytest.raises(cl.UnsafeOperationError, match="is written"):
        recording.set_attribute("subject", "none")
    assert Path(recording.file["path"]) == tmp_path.resolve() / recording.file["name"]
    with recording.open() as view:
        assert view.attributes.application == {"subject": "organoid 7"}
        assert view.attributes["file_format"]["stim_and_spike_timestamps_relative_to_start"] is True
        streams = view.data_streams
        assert streams is not None
        assert streams.keys() == ["chosen"]
        assert "other" not in streams
        stream = streams["chosen"]
        assert stream.attributes.application == {"score": 2}
        assert len(stream) == len(values)
        for (at, found), value in zip(stream, values, strict=True):
            assert np.array_equal(found, value), (at, found)  # type: ignore[arg-type]
            assert type(found) is type(value)
        assert stream.keys_for_range(now + 1, now + 3) == [now + 1, now + 2]
        assert list(stream.values_for_range(now, now + 2)) == list(stream[now : now + 2]) == values[:2]
        assert dict(stream.items_for_range(now + 3, now + 4)) == {now + 3: [1, "a"]}
        assert stream[now + 2] is None
        with pytest.raises(KeyError):
            stream[now + len(values)]
        with pytest.raises(AttributeError, match="no data stream"):
            streams.other  # noqa: B018
        rows = view.spikes.get_where_list("(channel >= 0) & (timestamp < 1000)")
        assert (view.spikes[rows]["timestamp"] < 1000).all()


def test_a_file_with_python_objects_is_not_opened(tmp_path: Path) -> None:
    ran = tmp_path / "ran"

    class Attack:
        def __reduce__(self) -> tuple[object, tuple[object, ...]]:
            return Path.touch, (ran,)

    with h5py.File(tmp_path / "pickled.h5", "w") as file:
        file.create_group("data_stream").attrs["application"] = np.bytes_(pickle.dumps({"a": Attack()}, 0))
    with pytest.raises(cl.UnsafeOperationError, match=r"/data_stream, application: a pickle that names"):
        cl.RecordingView(tmp_path / "pickled.h5")
    with tables.open_file(tmp_path / "objects.h5", "w") as file:
        file.create_vlarray("/", "objects", tables.ObjectAtom()).append(Attack())
    with pytest.raises(cl.UnsafeOperationError, match="Python objects"):
        cl.RecordingView(tmp_path / "objects.h5")
    assert not ran.exists()


def test_no_form_of_a_pickle_in_a_foreign_file_is_run(tmp_path: Path) -> None:
    ran = tmp_path / "ran"

    class Attack:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(ran),)

    attack = pickle.dumps(Attack(), 0)

    def made(name: str) -> Path:
        file = tmp_path / name
        facts = {"start_timestamp": 0, "end_timestamp": 10, "uV_per_sample_unit": 1.0}
        parts = dict.fromkeys(("raw_samples", "spikes", "stims", "data_streams"), True)
        write_recording(file, facts, np.zeros((10, 3), np.int16), parts, [], [], [DataStream("s", None)])
        return file

    def spoil(name: str, write: Callable[[h5py.File], object]) -> Path:
        file = made(name)
        with h5py.File(file, "a") as opened:
            write(opened)
        return file

    def after_nul(file: h5py.File) -> None:
        """Write a fixed length that ends with the first NUL to h5py, and does not to PyTables."""
        data = b"U\x01\x000" + attack
        kind = h5py.h5t.C_S1.copy()
        kind.set_size(len(data))
        attribute = h5py.h5a.create(file.id, b"x", kind, h5py.h5s.create(h5py.h5s.SCALAR))
        attribute.write(np.array(data, f"V{len(data)}"), mtype=kind)

    def objects(file: h5py.File) -> None:
        """Write Python objects, and hide the name of their type in a pickle."""
        kind = h5py.vlen_dtype(np.uint8)
        del file["data_stream/s/data"]
        data = file.create_dataset("data_stream/s/data", (1,), kind, maxshape=(None,))
        data[0] = np.frombuffer(pickle.dumps(Attack()), np.uint8)
        facts = {"CLASS": b"VLARRAY", "VERSION": b"1.4", "TITLE": b"", "PSEUDOATOM": pickle.dumps("object", 0)}
        for key, value in facts.items():
            data.attrs[key] = np.bytes_(value)

    text = attack.decode()
    with h5py.File(tmp_path / "elsewhere.h5", "w") as file:
        file.create_dataset("samples", data=np.zeros((1, 3), np.int16)).attrs["x"] = np.bytes_(attack)

    def link(file: h5py.File) -> None:
        del file["samples"]
        file["samples"] = h5py.ExternalLink("elsewhere.h5", "/samples")

    variable = h5py.string_dtype("ascii")
    forms: dict[str, Callable[[h5py.File], object]] = {
        "variable length": lambda file: file.attrs.create("x", text, dtype=variable),
        "variable length of a node": lambda file: file["samples"].attrs.create("x", text, dtype=variable),
        "latin1": lambda file: file.attrs.__setitem__("x", np.bytes_(b"U\x01\xe90" + attack)),
        "after NUL": after_nul,
        "hidden type": objects,
        "link": link,
    }
    for name, write in forms.items():
        file = spoil(f"{name}.h5", write)
        with pytest.raises(cl.UnsafeOperationError, match="Next: ask its author"):
            cl.RecordingView(file)
        assert not ran.exists(), name
    with tables.open_file(tmp_path / "after NUL.h5") as opened:  # each form would be run by PyTables alone
        assert "x" in opened.root._v_attrs
        opened.root._v_attrs["x"]
    assert ran.exists()


def test_texts_that_look_like_pickles_stay_texts(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "texts.h5", "w") as file:
        file.attrs["marked"] = "culture 3\nDIV 14\n."
        file.attrs["sentence"] = np.bytes_(b"This is a sentence.")
        file.attrs["number"] = 3
    with cl.RecordingView(tmp_path / "texts.h5") as view:
        assert dict(view.attributes) == {
            "marked": "culture 3\nDIV 14\n.",
            "sentence": "This is a sentence.",
            "number": 3,
        }


def test_plots_of_a_recording(neurons: cl.CulturedNeurons, tmp_path: Path) -> None:
    from matplotlib import pyplot

    recording = neurons.record("plots", tmp_path)
    reads = (neurons.read(RATE, analysis=True).spikes for _ in range(60))
    found = next(filter(len, reads))
    recording.stop()
    recording.wait_until_stopped()
    with recording.open() as view:
        view.plot_spikes_and_stims(save_path=str(tmp_path / "events.png"), limit_to_channels=[1, 2])
        view.plot_spike(view.spikes[0], save_path=str(tmp_path / "spike.png"))
        _, axes = pyplot.subplots()
        view.plot_spike(found[0], ax=axes)
        assert axes.get_title().startswith("channel ")
        pyplot.close()
    for name in ("events", "spike"):
        assert (tmp_path / f"{name}.png").stat().st_size > 1000


def test_a_balanced_pulse_of_three_phases_is_delivered(neurons: cl.CulturedNeurons) -> None:
    neurons.stim(6, cl.StimDesign(100, -1.0, 200, 1.0, 100, -1.0))
    assert [stim.channel for stim in neurons.wait_for_stims()] == [6], neurons.refused


def test_control_is_handed_over_while_a_program_goes_on_reading(neurons: cl.CulturedNeurons, engine: Engine) -> None:
    assert neurons.has_control()
    neurons.stim(5, cl.StimDesign(160, -0.5))
    with pytest.warns(cl.StimulationRefused):
        neurons.wait_for_stims()
    neurons.release_control()
    assert not neurons.has_control()
    with pytest.raises(cl.ControlRequiredError):
        neurons.stim(5, BALANCED)
    with cl.open(source=engine.data / "nerves.json", channels=range(16)) as other:
        with pytest.raises(cl.ControlRequestError, match="held"):
            neurons.take_control()
        assert other.has_control()
    neurons.take_control()
    neurons.stim(5, BALANCED)
    assert [stim.channel for stim in neurons.wait_for_stims()] == [5], neurons.refused
    assert len(neurons.refused) == 1


def test_readiness_and_what_a_program_cannot_do_to_the_engine(neurons: cl.CulturedNeurons) -> None:
    assert neurons.has_started()
    assert neurons.is_readable()
    assert neurons.is_recordable()
    neurons.wait_until_readable()
    neurons.start()
    for refused in (neurons.stop, neurons.restart):
        with pytest.raises(cl.UnsafeOperationError, match="cannot stop the engine"):
            refused()
    assert neurons.read(10).shape == (10, 32)


def test_a_loop_knows_its_beginning_and_length(neurons: cl.CulturedNeurons) -> None:
    loop = neurons.loop(100, stop_after_ticks=5, ignore_jitter=True)
    for tick in loop:
        first = loop.start_timestamp + tick.iteration * 250
        assert (tick.timestamp, tick.iteration_timestamp, tick.iteration_next_timestamp) == (
            first,
            first + 250,
            first + 500,
        )
        assert tick.analysis.timestamp == first
        assert tick.analysis.stop_timestamp == tick.iteration_timestamp
        assert (loop.duration_ticks, loop.duration_frames) == (tick.iteration + 1, (tick.iteration + 1) * 250)
    assert loop.approximate_duration_seconds() == 0.05
    assert len(list(neurons.loop(RATE, stop_after_seconds=0.02, ignore_jitter=True))) == 500
    for options in ({"stop_after_ticks": 0}, {"stop_after_ticks": 1, "stop_after_seconds": 1}):
        with pytest.raises(ValueError, match="give"):
            neurons.loop(100, **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one for each frame"):
        neurons.loop(RATE + 1)


async def test_reading_in_an_event_loop(neurons: cl.CulturedNeurons) -> None:
    assert (await neurons.read_async(50)).shape == (50, 32)
    assert (await neurons.read_async(50, neurons.timestamp(), analysis=True)).stop_timestamp > 0


def test_a_plan_interrupts_from_its_beginning_on(neurons: cl.CulturedNeurons, engine: Engine) -> None:
    begin = neurons.timestamp() + RATE
    at = begin + RATE
    neurons.read(1, from_ts=neurons.timestamp())
    for first, channel, pulses in ((begin, 11, 3), (begin, 12, 3), (begin, 13, 30), (at + RATE // 2, 11, 3)):
        plan = neurons.create_stim_plan()
        plan.stim(channel, BALANCED, cl.BurstDesign(pulses, 10))
        plan.run(first)
    plan = neurons.create_stim_plan()
    plan.interrupt(13)
    plan.interrupt_then_stim(11, BALANCED)
    plan.channels_to_interrupt = None
    plan.run(at)
    with pytest.raises(cl.TransactionRejected, match="has run already"):
        plan.interrupt(11)
    stims = [(stim.channel, stim.timestamp) for stim in neurons.wait_for_stims()]
    assert [frame for channel, frame in stims if channel == 11] == [begin + 2 + k * 2500 for k in range(3)] + [at + 2]
    assert len([1 for channel, _ in stims if channel == 12]) == 3, neurons.refused
    with NervesClient(engine.address, engine.token) as auditor:
        (cut,) = [record for record in auditor.ledger(limit=1000) if [p.electrode for p in record.pulses[:1]] == [13]]
    delivered = [p.delivered_frame for p in cut.pulses if p.HasField("delivered_frame")]
    assert delivered[:10] == [begin + 2 + k * 2500 for k in range(10)]  # a request that began before is cut off there
    assert len(delivered) < 30


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
    [
        (),
        (160,),
        (160, -1, 160),
        (10, -1),
        (30, -1),
        (160, -3.1),
        (2000, -2.0),
        (160, -1, 160, -1),
        (160, -1) * 4,
        (np.inf, -1),
        (np.nan, -1),
    ],
)
def test_designs_out_of_range_are_refused(terms: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"terms|µs|µA|sign"):
        cl.StimDesign(*terms)


def test_designs_and_bursts() -> None:
    assert cl.StimDesign(160, -1.0, 40, 0.0, 160, 1.0).duration_us == 360
    assert cl.BurstDesign(3, 30).interval_us() == 33_340
    for count, rate in ((-1, 10), (1, 0), (1, 201), (2.5, 10), (np.inf, 10), (np.nan, 10)):
        with pytest.raises(ValueError, match=r"burst|Hz"):
            cl.BurstDesign(count, rate)  # type: ignore[arg-type]


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


def test_the_margin_shrinks_again_after_requests_in_time() -> None:
    queues = ChannelQueues(25_000.0, 200)
    late = Placed((1,), BALANCED, 1000, 1, 125, fixed=True)
    for _ in range(2):
        queues.again(late, 2000)
    for _ in range(IN_TIME - 1):
        queues.note_in_time()
    queues.again(late, 2000)
    margins = []
    for _ in range(4):
        for _ in range(IN_TIME):
            queues.note_in_time()
        margins.append(queues.margin_frames)
    assert margins == [800, 400, 200, 200]


def test_the_steps_of_a_plan_keep_their_distances_whatever_time_passes_between_them() -> None:
    queues = ChannelQueues(25_000.0, 200)
    leads_us = (80, 80, 400, 12_000)
    steps = [StimOperation(cl.ChannelSet(k), BALANCED, None, lead_us) for k, lead_us in enumerate(leads_us)]
    placed_at = [queues.place(step, 9000 + 150 * k, 9100) for k, step in enumerate(steps)]
    assert [each and (each.at_frame - 9100, each.fixed) for each in placed_at] == [
        (2, True),
        (2, True),
        (10, True),
        (300, True),
    ]


def test_the_clock_is_set_by_the_fastest_message_and_stops_with_the_engine() -> None:
    clock = ArrayClock(25_000.0)
    for second in range(10):
        clock.note(second * 25_000, second + (0.001 if second == 3 else 0.02))
    assert clock.at(9.001) == 225_000
    assert clock.at(9.101) == 227_500
    assert clock.at(100.0) == 225_000 + 6_250
    for second in range(10, 60):  # the least delayed message is forgotten
        clock.note(second * 25_000, second + 0.04)
    shown = clock.at(59.05)
    assert shown == 25_000 * 59 + 250
    for second in range(60, 110):
        clock.note(second * 25_000 - 20_000, second + 0.04)
    assert clock.at(59.06) == shown


def test_helpers_of_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert [util.ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 112, 1003)] == [
        *("1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "112th", "1003rd")
    ]
    assert util.seconds_to_minimum_frames(0.1, RATE) == 2500
    assert util.seconds_to_minimum_frames(0.10001, RATE) == 2501
    assert util.frames_to_approximate_seconds(1, 30_000) == 0.00003
    with util.Benchmark("sums"):
        sum(range(10))
    with util.Benchmark("quick", report_threshold_us=10**9):
        pass
    util.benchmark_disable()
    with util.Benchmark("unmeasured"):
        pass
    util.benchmark_enable()
    assert re.fullmatch(r"sums: took [\d.]+ µs\n", capsys.readouterr().out)
