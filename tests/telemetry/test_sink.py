"""What all sinks share, on a disk that is full: the control loop is not held up, and nothing leaves in one giant message."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from controller.core.state import Reading, State
from controller.telemetry.batches import MAX_IN_MESSAGE, Taken, message
from controller.telemetry.outbox import Outbox
from controller.telemetry.sink import OutboxSink
from drivers.commands import Quality

MANY = 50_000
POINTS = 500


class FullDisk(Outbox):
    """An outbox whose disk is full until `full` is cleared."""

    full = True

    def put(self, payload: bytes) -> int:
        if self.full:
            raise sqlite3.OperationalError("database or disk is full")
        return super().put(payload)


class Counting(OutboxSink):
    """A sink that counts what it makes messages of; its other side raises `error`."""

    def __init__(self, outbox: Outbox) -> None:
        super().__init__("nowhere", outbox)
        self.made: list[int] = []
        self.error: Exception = OSError("away")

    def _encoded(self, readings: Sequence[Taken]) -> bytes:
        self.made.append(len(readings))
        return message(self._outbox.next_seq, readings, "")

    async def _serve(self) -> None:
        raise self.error

    def gather(self, at_s: float, first: int) -> None:
        """A snapshot with `POINTS` new readings, numbered from `first` on."""
        found = {f"p{n}.x": Reading(float(first + n), "g", Quality.GOOD, at_s) for n in range(POINTS)}
        self.offer(State(at_s, "2026-01-01T00:00:00.000Z", found, {}, {}, (), {}))


def values(outbox: Outbox) -> list[list[float]]:
    """The readings of each message; every one is taken out."""
    found = []
    while parcels := outbox.oldest():
        for parcel in parcels:
            body = json.loads(parcel.payload)
            assert body["seq"] == parcel.seq
            found.append([reading["value"] for reading in body["readings"]])
            outbox.confirmed(parcel.seq)
    return found


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[FullDisk]:
    with contextlib.closing(FullDisk(tmp_path / "o.db")) as made:
        yield made


def test_D2_what_a_full_disk_dams_up_is_made_into_a_message_once_and_leaves_in_pieces(outbox: FullDisk) -> None:
    sink = Counting(outbox)
    sink._batch_ends_s = 1e9  # nothing is tried before all of it is there
    for first in range(0, MANY, POINTS):
        sink.gather(first / POINTS, first)
    for _ in range(3):
        sink.flush()
        assert sink.made == [MAX_IN_MESSAGE]
    assert "full" in str(sink.problem)
    outbox.full = False
    sink.flush()
    assert sink.problem is None
    pieces = values(outbox)
    assert max(map(len, pieces)) <= MAX_IN_MESSAGE
    assert [value for piece in pieces for value in piece] == [float(number) for number in range(MANY)]
    assert sum(sink.made) == MANY


def test_D2_no_tick_makes_much_more_than_a_message_while_the_disk_is_full_nor_when_there_is_room(
    outbox: FullDisk,
) -> None:
    sink = Counting(outbox)
    ticks = MANY // POINTS
    for tick in range(ticks):
        sink.gather(float(tick), tick * POINTS)
    assert sum(sink.made) <= MAX_IN_MESSAGE
    outbox.full = False
    tick = ticks
    while sink._gathered:
        before = sum(sink.made)
        sink.gather(float(tick), tick * POINTS)
        assert sum(sink.made) - before <= 2 * MAX_IN_MESSAGE
        tick += 1
        assert tick < 3 * ticks, "the backlog never ends"
    pieces = values(outbox)
    assert max(map(len, pieces)) <= MAX_IN_MESSAGE
    assert [value for piece in pieces for value in piece] == [float(number) for number in range(tick * POINTS)]


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    "error", [OSError("away"), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no text"), KeyError("x")]
)
async def test_whatever_ends_the_connection_is_told(outbox: FullDisk, error: Exception) -> None:
    sink = Counting(outbox)
    sink.error = error
    sink._lost(error)
    assert "nowhere" in str(sink.problem)
    assert "Next:" in str(sink.problem)
    outbox.close()


def test_D2_readings_that_memory_does_not_hold_either_are_told_as_lost(
    outbox: FullDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.telemetry.batches.MAX_WAITING", 3 * POINTS)
    sink = Counting(outbox)
    for turn in range(3):
        sink.gather(10.0 * turn, turn * POINTS)
    assert sink.problem is not None
    assert "given up" not in sink.problem
    for turn in range(3, 12):
        sink.gather(10.0 * turn, turn * POINTS)
    assert sink.problem is not None
    assert "the oldest readings are given up" in sink.problem
