"""Recordings of a program from an engine that loses frames, ends, or sends more spikes than are kept."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import choroid.client.cl as cl
from choroid.client.cl import feed as feeds
from choroid.client.cl.feed import EngineFeed
from choroid.client.cl.neurons import CulturedNeurons
from choroid.client.cl.records import NeuronsRecording
from choroid.client.errors import NervesError
from choroid.client.nerves_terms import FrameGap

FIRST, BLOCK, CHANNELS, RATE = 1000, 250, 4, 25_000.0


class Frames:
    """Yields frames, gaps and errors in their order."""

    def __init__(self, parts: list[Any]) -> None:
        self._parts = iter(parts)

    def __iter__(self) -> Iterator[Any]:
        for part in self._parts:
            if isinstance(part, Exception):
                raise part
            yield part

    def close(self) -> None:
        """End the stream, as the client does."""


def blocks(count: int) -> list[Any]:
    samples = np.ones((BLOCK, CHANNELS), np.int16)
    return [SimpleNamespace(first_frame=FIRST + BLOCK * each, samples=samples) for each in range(count)]


def spikes(*frames: int, next_frame: int, lost: int = 0) -> Any:
    found = np.array(frames, np.int64)
    return SimpleNamespace(next_frame=next_frame, frames=found, electrodes=np.zeros(len(found), np.int64), lost=lost)


class Culture:
    """Holds a connection with an engine of the test."""

    def __init__(self, frames: list[Any], batches: list[Any], now: int = FIRST, ends: bool = False) -> None:
        self.go_on, self.sent, self.over = threading.Event(), threading.Event(), threading.Event()
        self._batches, self._ends = batches, ends
        nerves: Any = SimpleNamespace(
            info=lambda: SimpleNamespace(
                electrodes=CHANNELS, sample_rate_hz=RATE, uv_per_unit=0.2, array="a", simulated=True
            ),
            status=lambda: SimpleNamespace(next_frame=now),
            spikes=self._spikes,
            frames=lambda **_: self._frames(frames),
            close=self.over.set,
        )
        self.neurons = CulturedNeurons(nerves, False, None, "test")

    def _spikes(self) -> Iterator[Any]:
        self.go_on.wait()
        yield from self._batches
        self.sent.set()
        if not self._ends:
            self.over.wait()

    def _frames(self, parts: list[Any]) -> Frames:
        self.go_on.set()
        self.sent.wait()
        return Frames(parts)


def record(culture: Culture, folder: Path, frames: int) -> NeuronsRecording:
    return culture.neurons.record(None, folder, from_timestamp=FIRST, stop_after_frames=frames)


@pytest.mark.parametrize(
    ("fault", "cause", "end_frame"),
    [
        (FrameGap(FIRST + 10 * BLOCK, FIRST + 10 * BLOCK + 5, "ARRAY"), "frames are lost", FIRST + 10 * BLOCK + 5),
        (NervesError("connection lost"), "connection lost", None),
        (None, "ended the stream", None),
    ],
)
def test_what_came_before_a_gap_is_kept(tmp_path: Path, fault: Any, cause: str, end_frame: int | None) -> None:
    parts = blocks(10) if fault is None else [*blocks(10), fault, *blocks(1)]
    end = FIRST + 10 * BLOCK
    culture = Culture(parts, [spikes(FIRST + 1, end + 1, next_frame=end + 200)], now=end + 200)
    recording = record(culture, tmp_path, 100 * BLOCK)
    with pytest.raises(cl.RecordingFailedError, match=f"is not whole: it ends before frame {end}.*{cause}.*Next:"):
        recording.wait_until_stopped()
    assert recording.status == "failed"
    with cl.RecordingView(recording.file["path"]) as view:
        assert view.samples.shape == (10 * BLOCK, CHANNELS)
        assert view.spikes.col("timestamp").tolist() == [1]
        assert view.attributes["gap"]["first_frame"] == end
        assert view.attributes["gap"]["end_frame"] == end_frame
        assert view.attributes["duration_frames"] == 10 * BLOCK
    culture.neurons.close()


def test_a_recording_without_a_frame_leaves_no_file(tmp_path: Path) -> None:
    culture = Culture([NervesError("connection lost")], [])
    recording = record(culture, tmp_path, BLOCK)
    with pytest.raises(cl.RecordingFailedError, match="was not written"):
        recording.wait_until_stopped()
    assert not list(tmp_path.iterdir())
    culture.neurons.close()


def test_the_end_of_the_engine_keeps_what_came(tmp_path: Path) -> None:
    culture = Culture(blocks(10), [spikes(FIRST + 1, next_frame=FIRST + 10 * BLOCK)], ends=True)
    recording = record(culture, tmp_path, 10 * BLOCK)
    with pytest.raises(cl.RecordingFailedError, match="no more spikes come"):
        recording.wait_until_stopped()
    with cl.RecordingView(recording.file["path"]) as view:
        assert len(view.samples) == 10 * BLOCK
        assert view.spikes.col("timestamp").tolist() == [1]
    culture.neurons.close()


def test_a_recording_keeps_more_spikes_than_the_feed_and_states_what_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "KEPT", 10)
    end = FIRST + 10 * BLOCK
    batches = [spikes(at, next_frame=at + 20) for at in range(FIRST, end, 25)]
    batches.append(spikes(next_frame=end + 200, lost=3))
    culture = Culture(blocks(10), batches, now=end + 200)
    recording = record(culture, tmp_path, 10 * BLOCK)
    recording.wait_until_stopped()
    with recording.open() as view:
        assert view.spikes.col("timestamp").tolist() == list(range(0, 10 * BLOCK, 25))
        assert view.attributes["spikes_lost"] == 3
    assert len(culture.neurons.feed.between(0, end)[0]) == 10
    culture.neurons.close()


def test_reading_waits_for_spikes_that_come_late() -> None:
    known, late = threading.Event(), threading.Event()

    def batches() -> Iterator[Any]:
        known.wait()
        late.wait(0.05)
        yield spikes(FIRST + 1, FIRST + 2, next_frame=FIRST + 2 * BLOCK)
        late.wait()

    nerves: Any = SimpleNamespace(
        spikes=batches, status=lambda: SimpleNamespace(next_frame=FIRST + 2 * BLOCK), close=late.set
    )
    feed = EngineFeed(nerves, RATE, lambda: None)
    known.set()
    feed.settle(FIRST + BLOCK)
    assert feed.between(FIRST, FIRST + BLOCK)[0] == [(FIRST + 1, 0), (FIRST + 2, 0)]
    feed.close()
    late.set()
    feed.join()


def test_what_hdf5_cannot_hold_is_refused_when_it_is_set(tmp_path: Path) -> None:
    culture = Culture(blocks(10), [spikes(next_frame=FIRST + 10 * BLOCK + 200)], now=FIRST + 10 * BLOCK + 200)
    neurons, large = culture.neurons, {"notes": "x" * 70_000}
    with pytest.raises(ValueError, match="Next: append large data to a data stream"):
        neurons.record(None, tmp_path, attributes=large)
    with pytest.raises(ValueError, match="Next:"):
        neurons.create_data_stream("large", large)
    with pytest.raises(ValueError, match="next: take letters"):
        neurons.create_data_stream("a\0b")
    stream = neurons.create_data_stream("scores", {"kept": "x" * 40_000})
    with pytest.raises(ValueError, match="Next:"):
        stream.set_attribute("more", "x" * 40_000)
    stream.set_attribute("notes", "\N{GREEK SMALL LETTER MU}" * 3000)
    recording = neurons.record(
        None, tmp_path, from_timestamp=FIRST, stop_after_frames=10 * BLOCK, attributes={"a": "x" * 63_000}
    )
    recording.wait_until_stopped()
    with recording.open() as view:
        assert view.data_streams is not None
        assert view.data_streams["scores"].attributes.application == stream.attributes
        assert len(view.attributes.application["a"]) == 63_000
    neurons.close()
