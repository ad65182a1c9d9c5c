"""The frame and spike rings: nothing lost or reordered without a record (N5), a slow reader alone pays
(N6).
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nerves.detections import Spikes
from nerves.ring import FrameRing, Gap, SpikeRing


def frames(first: int, count: int) -> np.ndarray:
    """Frames that carry their own number, so that any loss or reordering shows."""
    return (np.arange(first, first + count, dtype=np.int64)[:, None] + [0, 1]).astype(np.int16)


@settings(max_examples=200, deadline=None)
@given(
    capacity=st.integers(1, 60),
    events=st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.integers(1, 90)),
            st.tuples(st.just("lose"), st.integers(1, 40)),
            st.tuples(st.just("read"), st.integers(1, 50)),
        ),
        max_size=40,
    ),
)
def test_N5_every_frame_is_read_in_order_or_named_in_a_gap(capacity: int, events: list[tuple[str, int]]) -> None:
    ring = FrameRing(capacity, 2)
    written = 0
    lost: set[int] = set()
    position = 0
    ring.append(0, frames(0, 1))
    written = 1
    for verb, n in events:
        if verb == "write":
            ring.append(written, frames(written, n))
            written += n
        elif verb == "lose":
            lost |= set(range(written, written + n))
            written += n
            ring.append(written, frames(written, 1))
            written += 1
        else:
            gaps, stretch, following = ring.read(position, n)
            for gap in gaps:
                assert gap.first_frame == position
                if gap.cause == "array":
                    assert set(range(gap.first_frame, gap.end_frame)) <= lost
                position = gap.end_frame
            if stretch is not None:
                assert stretch.first_frame == position
                assert not set(range(position, position + len(stretch.samples))) & lost
                np.testing.assert_array_equal(stretch.samples, frames(position, len(stretch.samples)))
                position += len(stretch.samples)
            assert position == following


def test_N5_frames_are_never_replaced_or_reordered() -> None:
    ring = FrameRing(100, 2)
    assert ring.append(10, frames(10, 5)) is None
    assert ring.append(20, frames(20, 5)) == Gap(15, 20, "array")
    with pytest.raises(ValueError, match="counter was reset"):
        ring.append(24, frames(24, 5))


def test_N6_a_slow_reader_loses_its_own_frames_and_a_fast_one_none() -> None:
    ring = FrameRing(100, 2)
    fast = slow = 0
    for start in range(0, 1_000, 25):
        ring.append(start, frames(start, 25))
        gaps, stretch, fast = ring.read(fast, 1_000)
        assert not gaps
        assert stretch is not None
    gaps, stretch, slow = ring.read(slow, 1_000)
    assert gaps == [Gap(0, 900, "reader")]
    assert stretch is not None
    assert stretch.first_frame == 900
    assert slow == 1_000


def test_N6_a_slow_reader_of_spikes_learns_how_many_it_lost() -> None:
    ring = SpikeRing(8)
    for k in range(20):
        ring.append(Spikes(np.array([k]), np.array([k % 4], np.int32), np.array([-30.0], np.float32)))
    lost, spikes, number = ring.read(0, 100)
    assert lost == 12
    assert spikes.frames.tolist() == list(range(12, 20))
    assert number == 20
    assert ring.read(number, 100)[0] == 0
