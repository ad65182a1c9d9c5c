"""What the array gave is what the recording holds; what it lacks, it says."""

from __future__ import annotations

import errno
import math
import os
import shutil
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import spikeinterface.core as si
import zarr

from choroid.evoked.psth import psth
from nerves.cards.contract import ArrayInfo, CardFault, CardState, Delivery, FrameBlock, Phase, Pulse
from nerves.commands import StimulateCommand
from nerves.detector import NO_SPIKES
from nerves.governor import Request
from nerves.recording import quota, service, store
from nerves.recording.layout import FateCode, GapCause
from nerves.recording.recorded import ArrayRecording, recordings
from tests.nerves.bench import PULSE
from tests.nerves.recording.record import BEGAN_US, IDENTITY, RecordedBench, recorded_bench


def gaps(recording: ArrayRecording) -> list[tuple[int, int, int]]:
    return [tuple(int(value) for value in row) for row in recording.table("gaps")]  # type: ignore[misc]


def check_whole(lab: RecordedBench, recording: ArrayRecording) -> None:
    """Every segment equals what the array gave, and between segments lie exactly the gaps."""
    segments = recording.segments
    for segment in segments:
        samples = segment.read(segment.first_frame, segment.end_frame)
        assert np.array_equal(samples, lab.truth(segment.first_frame, segment.end_frame))
    between = [(a.end_frame, b.first_frame) for a, b in pairwise(segments)]
    missing = {frame for first, end, _ in gaps(recording) for frame in range(first, end)}
    assert missing == {frame for first, end in between for frame in range(first, end)}


def test_N6_frames_are_recorded_without_loss_and_read_back_equal_by_spikeinterface(tmp_path: Path) -> None:
    with recorded_bench(tmp_path / "r") as lab:
        lab.run(0.01)
        lab.begin()
        lab.run(1.3)  # several chunks, the last one partial
        recording = lab.end()
        assert recording.complete
        assert gaps(recording) == []
        (segment,) = recording.segments
        assert segment.end_frame - segment.first_frame == recording.frames == round(1.3 * 25_000)
        check_whole(lab, recording)
        read = si.read_zarr(recording.path)
        assert read.get_num_segments() == 1
        assert read.get_sampling_frequency() == 25_000
        assert np.array_equal(read.get_traces(), lab.truth(segment.first_frame, segment.end_frame))
        assert np.allclose(read.get_channel_gains(), 0.195)
        group = zarr.open_group(str(recording.path), mode="r")
        assert np.array_equal(group["traces_seg0"][:], read.get_traces())
        assert recording.attributes["identity"] == IDENTITY
        assert recording.attributes["reason"] == "a test"
        assert recording.attributes["ended_why"] == "it is enough"


def test_spikes_states_stimulation_and_clock_are_recorded_as_the_core_saw_them(tmp_path: Path) -> None:
    with recorded_bench(tmp_path / "r", electrodes=8) as lab:
        lab.begin()
        lab.run(0.5)
        lease = lab.lab.lease(0, 1)
        lab.run(0.01)
        outcomes = []
        request = Request("agent", lease.id, (0, 1), PULSE, purpose="a test")
        for each in (request, replace(request, electrodes=(7,))):
            outcomes.append(lab.lab.ask(each))
        lab.run(1.5)
        first, session = lab.blocks[0].first_frame, lab.lab.core.session
        seen = lab.lab.core.spikes.read(0, 100_000)[1]
        live = [
            lab.lab.core.responses.of(e, (), 300.0, lab.lab.core.next_frame, (-20.0, 50.0), 1.0)[0] for e in range(8)
        ]
        recording = lab.end()
        around = psth(recording.path, window_ms=(-20.0, 50.0))
        assert around.trials == live[0].trials == 1
        assert np.array_equal(around.counts, np.concatenate([each.counts for each in live]))
        assert np.allclose(around.observed_s, np.concatenate([each.observed_s for each in live]))
        spikes = recording.table("spikes")
        assert len(spikes) >= 5
        assert np.array_equal(spikes["frame"], seen.frames)
        assert np.array_equal(spikes["electrode"], seen.electrodes)
        assert np.array_equal(spikes["uv"], seen.uv)
        pulses, fates = recording.table("pulses"), recording.table("fates")
        assert pulses["electrode"].tolist() == [0, 1]
        assert set(pulses["decision"]) == {outcomes[0].number}
        delivered = fates[fates["fate"] == FateCode.DELIVERED]
        assert sorted(delivered["pulse"]) == sorted(pulses["pulse"])
        assert delivered["frame"].tolist() == [frame for _, frame, _ in outcomes[0].fates.values()]
        asked = list(recording.log("stimulation"))
        assert [each["accepted"] for each in asked] == [True, False]
        assert asked[0]["phases"] == [[200.0, -1.0], [200.0, 1.0]]
        assert asked[1]["limiting"] == "lease"
        assert asked[0]["requester"] == "agent"
        blanks = recording.table("blanks")
        assert {0, 1, -1} <= set(blanks["electrode"].tolist())
        held = [each["held"] for each in recording.log("leases")]
        assert [len(each) for each in held] == [0, 1, 0]
        assert held[1][0]["lease"] == lease.id
        states = recording.table("states")
        assert len(states) >= 8
        assert recording.table("impedances")["electrode"].tolist() == list(range(8))
        assert recording.attributes["ledger_session"] == session
        clock = recording.clock
        assert clock.utc_us_at(first) == pytest.approx(BEGAN_US + first * 40, abs=2000)


def test_a_recording_that_begins_within_a_train_has_the_pulses_that_are_still_to_come(tmp_path: Path) -> None:
    """Their artefacts are in its frames."""
    with recorded_bench(tmp_path / "r") as lab:
        lab.run(0.3)
        lease = lab.lab.lease(1)
        now = lab.lab.core.next_frame
        train = Request("agent", lease.id, (1,), PULSE, at_frame=now + 500, pulses=4, period_frames=5000)
        lab.lab.core.submit(StimulateCommand(train, lambda _: None, lambda _: None, lambda: False))
        lab.run(0.3)
        lab.begin()
        lab.run(0.6)
        recording = lab.end()
        begun = [each.frame for block in lab.blocks for each in block.deliveries]
    assert len(begun) == 4
    fates = {int(row["pulse"]): int(row["frame"]) for row in recording.table("fates") if row["frame"] >= 0}
    pulses = recording.table("pulses")
    assert sorted(fates[int(row["pulse"])] for row in pulses) == begun[2:]
    (asked,) = recording.log("stimulation")
    assert {asked["decision"]} == {int(row["decision"]) for row in pulses}
    assert asked["pulses"] == 4


def test_pulses_of_a_replay_that_begins_again_keep_their_frames_and_waveforms(tmp_path: Path) -> None:
    weak = (Phase(100.0, -0.5), Phase(100.0, 0.5))

    def replayed(block: FrameBlock) -> FrameBlock:
        at = block.first_frame
        begun = [Pulse(-1, 0, PULSE, at, at), Pulse(-2, 2, weak, at, at)] if at in (500, 1000) else []
        return replace(block, deliveries=tuple(Delivery(pulse, at) for pulse in begun))

    with recorded_bench(tmp_path / "r") as lab:
        read = lab.lab.array.read
        lab.lab.array.read = lambda: replayed(read())  # type: ignore[method-assign]
        lab.begin()
        lab.run(0.1)
        recording = lab.end()
    phases = {each["decision"]: each["phases"] for each in recording.log("stimulation")}
    frames = {int(row["pulse"]): int(row["frame"]) for row in recording.table("fates")}
    assert sorted(
        (frames[int(row["pulse"])], int(row["electrode"]), phases[int(row["decision"])][0][1])
        for row in recording.table("pulses")
    ) == [(500, 0, -1.0), (500, 2, -0.5), (1000, 0, -1.0), (1000, 2, -0.5)]


def test_N5_frames_that_the_array_lost_are_a_gap_between_two_segments(tmp_path: Path) -> None:
    with recorded_bench(tmp_path / "r") as lab:
        lab.begin()
        lab.run(0.1)
        end = lab.blocks[-1].first_frame + 25
        lab.lab.crystal.stall(1.0)
        lab.run(0.1)
        recording = lab.end()
        (gap,) = gaps(recording)
        after = next(block.first_frame for block in lab.blocks if block.first_frame >= end)
        assert gap == (end, after, GapCause.ARRAY)
        assert [s.first_frame for s in recording.segments] == [lab.blocks[0].first_frame, after]
        read = si.read_zarr(recording.path)
        assert read.get_num_segments() == 2
        assert read.get_start_time(segment_index=1) == pytest.approx((after - lab.blocks[0].first_frame) / 25_000)


def test_N6_a_writer_that_falls_behind_costs_a_gap_that_is_told_and_never_stalls_the_engine(tmp_path: Path) -> None:
    with recorded_bench(tmp_path / "r", buffer_bytes=200_000) as lab:
        lab.begin()
        lab.run(0.3)
        lab.drained = False
        lab.run(2.0)  # 400 kB of frames for 200 kB of buffer
        lab.drained = True
        lab.run(0.5)
        recording = lab.end()
        (gap,) = gaps(recording)
        assert gap[2] == GapCause.WRITER
        assert 0 < gap[1] - gap[0] < 2.0 * 25_000
        check_whole(lab, recording)
        assert recording.frames + gap[1] - gap[0] == round(2.8 * 25_000)
        assert recording.attributes["lost_frames"] == gap[1] - gap[0]
        assert [text for text in lab.alarms() if f"loses frames from {gap[0]} on" in text]
        assert [text for text in lab.alarms() if f"gap from frame {gap[0]} to {gap[1]}" in text]


def test_D2_a_full_disk_is_waited_for_and_nothing_that_fits_the_buffer_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recorded_bench(tmp_path / "r") as lab:
        lab.begin()
        lab.run(0.3)
        full = True

        def replace_file(path: Path, content: bytes, *, sync: bool) -> None:
            if full:
                path.with_name(path.name + ".partial").write_bytes(content[: len(content) // 2])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            real(path, content, sync=sync)

        real = store.replace_file
        monkeypatch.setattr(store, "replace_file", replace_file)
        lab.drained = False
        lab.run(0.6)
        for _ in range(3):
            with pytest.raises(OSError, match="No space"):
                lab.drain()
            lab.run(0.2)
        full = False
        while True:  # as the writer's process does
            try:
                lab.drain()
                break
            except OSError:
                time.sleep(0.1)
        lab.drained = True
        lab.run(0.3)
        recording = lab.end()
        assert gaps(recording) == []
        check_whole(lab, recording)


def test_D2_on_a_disk_that_stays_full_the_recording_is_closed_with_its_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recorded_bench(tmp_path / "r") as lab:
        lab.begin()
        lab.run(0.7)
        real = store.ZarrArray.write_chunk

        def no_frames(self: store.ZarrArray, *args: object, **options: object) -> None:
            if self.path.name.startswith("traces"):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            real(self, *args, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(store.ZarrArray, "write_chunk", no_frames)
        lab.drained = False
        lab.run(1.0)
        with pytest.raises(OSError, match="No space"):
            lab.drain()
        end = lab.blocks[-1].first_frame + 25
        lab.writer.give_up("the disk did not take it", end)
        (recording,) = recordings(tmp_path / "r")
        assert recording.complete
        assert recording.frames
        assert gaps(recording) == [(recording.segments[-1].end_frame, end, GapCause.WRITER)]
        assert lab.said[-1]["event"] == "closed"


def test_a_recording_is_refused_before_its_quota_is_reached_and_ends_at_it(tmp_path: Path) -> None:
    with recorded_bench(tmp_path / "r", quota_bytes=13e6) as lab:
        (tmp_path / "r").mkdir()
        (tmp_path / "r" / "earlier").write_bytes(bytes(10_000_000))
        lab.begin()
        lab.run(0.1)
        assert lab.said[-1]["event"] == "refused"
        assert "quota of 0.013 GB" in lab.said[-1]["why"]
        assert "Next: export and remove some" in lab.said[-1]["why"]
        assert recordings(tmp_path / "r") == []
    shutil.rmtree(tmp_path / "r")
    # Room for a minute of frames is asked for, and noise compresses to about half of that.
    with recorded_bench(tmp_path / "r", quota_bytes=16.1e6) as lab:
        lab.begin()
        lab.run(0.1)
        assert lab.said[0] == {"event": "opened", "name": "one"}
        (tmp_path / "r" / "one.zarr" / "stray").write_bytes(b"")
        lab.writer._writer._used += 13_000_000  # type: ignore[union-attr]  # what another recording took meanwhile
        lab.run(0.1)
        assert lab.said[-1]["by_itself"]
        assert "quota" in lab.said[-1]["why"]
        (recording,) = recordings(tmp_path / "r")
        assert recording.complete
        check_whole(lab, recording)


def test_the_disk_keeps_the_room_that_is_not_for_recordings(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    with recorded_bench(tmp_path / "r") as lab:
        lab.tap._plan = replace(lab.tap._plan, min_free_bytes=2.0 * free)
        lab.begin()
        lab.run(0.1)
        assert lab.said[-1]["event"] == "refused"
        assert "not for recordings" in lab.said[-1]["why"]


def test_an_automatic_recording_lasts_from_the_first_lease_to_two_seconds_after_the_last(tmp_path: Path) -> None:
    with recorded_bench(tmp_path / "r", automatic="leases") as lab:
        lab.run(0.5)
        assert lab.tap.name == ""
        lease = lab.lab.lease(0, ttl_s=0.5)
        lab.run(0.02)
        assert lab.tap.name.endswith("-agent")
        lab.run(2.3)
        assert lab.tap.name
        lab.run(0.5)
        assert lab.tap.name == ""
        lab.drain()
        (recording,) = recordings(tmp_path / "r")
        assert recording.attributes["leases"][0]["lease"] == lease.id
        assert recording.attributes["ended_why"] == "the last lease has ended"
        assert recording.frames / 25_000 == pytest.approx(2.5, abs=0.1)


def test_without_frames_spikes_and_clock_are_recorded(tmp_path: Path) -> None:
    with recorded_bench(tmp_path / "r", frames=False, electrodes=8) as lab:
        lab.begin()
        lab.run(2.5)
        recording = lab.end()
        assert recording.frames == 0
        assert len(recording.table("spikes"))
        assert len(recording.table("clock")) >= 2


def test_a_damaged_chunk_is_named_and_the_rest_can_be_read(tmp_path: Path) -> None:
    with recorded_bench(tmp_path / "r") as lab:
        lab.begin()
        lab.run(1.3)
        recording = lab.end()
    (segment,) = recording.segments
    chunk = recording.path / "traces_seg0" / "1.0"
    chunk.write_bytes(chunk.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"traces_seg0/1.0 cannot be read"):
        segment.read(segment.first_frame, segment.end_frame)
    assert len(segment.read(segment.first_frame, segment.first_frame + 100)) == 100


def test_a_foreign_folder_and_a_newer_format_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.zarr").mkdir()
    (tmp_path / "x.zarr" / ".zattrs").write_text('{"choroid_recording": 99}')
    with pytest.raises(quota.RecordingRefused, match="format 99"):
        ArrayRecording(tmp_path / "x.zarr")
    with pytest.raises(quota.RecordingRefused, match="no recording that can be read"):
        ArrayRecording(tmp_path)
    assert recordings(tmp_path) == []


def test_a_block_without_frames_is_passed_over(tmp_path: Path) -> None:
    with recorded_bench(tmp_path / "r") as lab:
        lab.begin()
        lab.run(0.1)
        fault = CardFault(CardState.STALLED, (0, 1), "no frames arrive")
        empty = FrameBlock(lab.lab.core.next_frame, np.empty((0, 4), np.int16), faults=(fault,))
        for _ in range(3):
            lab.tap.take(empty, NO_SPIKES)
        lab.run(0.1)
        recording = lab.end()
        assert gaps(recording) == []
        check_whole(lab, recording)
        assert [each["faults"] for each in recording.log("faults")] == [
            [{"state": "stalled", "electrodes": [0, 1], "text": "no frames arrive"}],
            [],
        ]


def test_the_buffer_is_as_long_as_the_memory_allows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def of(electrodes: int, free_bytes: float) -> int:
        info = ArrayInfo("array", electrodes, 25_000.0, 0.2, "Pt", 30.0, 25, 25, 1.0, 1.0, 5.0, simulated=True)
        return service.buffer_bytes(info, free_bytes)

    assert of(32, 32e9) == 40 * 25_000 * 2 * 32
    assert of(4096, 32e9) == 512 << 20
    assert of(4096, 2e9) == 250_000_000
    assert of(1, 32e9) == of(4096, 1e6) == 16 << 20
    monkeypatch.setattr(service, "MEMORY", tmp_path / "meminfo")
    monkeypatch.setattr(service, "CONTAINER", tmp_path)
    assert service.free_memory_bytes() == math.inf
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:  2000 kB\n")
    (tmp_path / "memory.current").write_text("500\n")
    for limit, free in (("max", 2_048_000.0), ("1500", 1000.0)):
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        assert service.free_memory_bytes() == free
