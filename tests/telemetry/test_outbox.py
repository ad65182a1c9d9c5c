"""The outbox: a queue that outlives the process, keeps order and count, and says what it had to give up."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from controller.telemetry.outbox import Outbox


def numbers(outbox: Outbox) -> list[int]:
    return [parcel.seq for parcel in outbox.oldest(10_000)]


def test_D1_what_waits_outlives_the_process_in_order(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "o.db")
    for number in range(1, 21):
        assert outbox.next_seq == number
        assert outbox.put(f"message {number}".encode()) == number
    for number in range(1, 6):
        outbox.confirmed(number)
    outbox.close()
    again = Outbox(tmp_path / "o.db")
    assert len(again) == 15
    assert [parcel.payload for parcel in again.oldest()] == [f"message {number}".encode() for number in range(6, 21)]
    assert [parcel.seq for parcel in again.oldest(2)] == [6, 7]
    again.close()


def test_numbers_never_repeat_although_everything_was_sent(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "o.db")
    outbox.put(b"one")
    outbox.confirmed(1)
    outbox.close()
    again = Outbox(tmp_path / "o.db")
    assert (len(again), again.next_seq) == (0, 2)
    assert again.put(b"two") == 2
    again.close()


def test_D1_beyond_the_quota_the_oldest_go_and_are_counted(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "o.db", quota_bytes=1000)
    for _ in range(20):
        outbox.put(b"x" * 100)
    assert numbers(outbox) == list(range(11, 21))
    assert outbox.dropped == 10
    outbox.put(b"y" * 5000)  # more than the quota alone: it is kept, since the newest matters most
    assert numbers(outbox) == [21]
    assert outbox.dropped == 20
    outbox.close()
    with closing(Outbox(tmp_path / "o.db")) as again:
        assert again.dropped == 20


def test_no_more_is_taken_out_at_once_than_one_can_send(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.telemetry.outbox.AT_ONCE_BYTES", 250)
    outbox = Outbox(tmp_path / "o.db")
    for size in (100, 100, 100, 1000, 1):
        outbox.put(b"x" * size)
    taken = []
    while parcels := outbox.oldest():
        taken.append([parcel.seq for parcel in parcels])
        for parcel in parcels:
            outbox.confirmed(parcel.seq)
    assert taken == [[1, 2], [3], [4], [5]]
    outbox.close()


def test_D2_a_full_disk_leaves_the_queue_as_it_was(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "o.db")
    outbox.put(b"small")
    (pages,) = outbox._db.execute("PRAGMA page_count").fetchone()
    outbox._db.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        outbox.put(b"x" * 100_000)
    assert (numbers(outbox), len(outbox), outbox.next_seq) == ([1], 1, 2)
    outbox._db.execute("PRAGMA max_page_count=100000")
    assert outbox.put(b"x" * 100_000) == 2
    outbox.close()


class Queue(RuleBasedStateMachine):
    """Any order of putting, confirming and restarting gives what a plain list would."""

    folder: Path
    made = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).made += 1
        self.path = self.folder / f"{self.made}.db"
        self.outbox = Outbox(self.path, quota_bytes=200)
        self.model: list[tuple[int, bytes]] = []
        self.count = 0
        self.dropped = 0

    sent = Bundle("sent")

    @rule(target=sent, payload=st.binary(min_size=1, max_size=80))
    def put(self, payload: bytes) -> int:
        self.count += 1
        assert self.outbox.put(payload) == self.count
        self.model.append((self.count, payload))
        while sum(len(waiting) for _, waiting in self.model) > 200:
            self.model.pop(0)
            self.dropped += 1
        return self.count

    @precondition(lambda self: self.model)
    @rule()
    def confirm_the_oldest(self) -> None:
        self.outbox.confirmed(self.model.pop(0)[0])

    @rule(seq=sent)
    def confirm_any_twice(self, seq: int) -> None:
        for _ in range(2):
            self.outbox.confirmed(seq)
        self.model = [entry for entry in self.model if entry[0] != seq]

    @rule()
    def restart(self) -> None:
        self.outbox.close()
        self.outbox = Outbox(self.path, quota_bytes=200)

    @invariant()
    def it_is_what_the_list_is(self) -> None:
        assert [(parcel.seq, parcel.payload) for parcel in self.outbox.oldest()] == self.model
        assert len(self.outbox) == len(self.model)
        assert self.outbox.dropped == self.dropped

    def teardown(self) -> None:
        self.outbox.close()


def test_D1_any_order_of_events_keeps_order_and_count(tmp_path: Path) -> None:
    Queue.folder = tmp_path
    run_state_machine_as_test(
        Queue,
        settings=settings(
            max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
