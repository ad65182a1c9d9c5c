"""What an engine learns of the past when it starts: all of the last day, and at a cost that no ledger's size can raise."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import floor
from pathlib import Path

import pytest

from choroid.running.simulated_card import simulated_card
from nerves import ledger
from nerves.bookings import Bookings
from nerves.envelope import Envelope
from nerves.governor import Reason, Request, StimulationDecision
from nerves.ledger import StimulationLedger
from nerves.past import Past
from tests.nerves.bench import PULSE, Bench, bench

RATE = 25_000
INFO = simulated_card(electrodes=32, seed=1).info
HOUR = 3600 * RATE


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "stimulation.db"


def begin(path: Path) -> StimulationLedger:
    return StimulationLedger(path, INFO, "2026-01-01T00:00:00+00:00")


def live(path: Path, chance: random.Random, length: int, decisions: int, *, killed: bool) -> None:
    """One session: decisions at random frames, most accepted, each pulse with some fate, or none if it was killed."""
    book = begin(path)
    for frame in sorted(chance.randrange(length) for _ in range(decisions)):
        request = Request(chance.choice(["anna", "ben"]), "lease-1", (chance.randrange(32),), PULSE)
        if chance.random() < 0.2:
            book.decided(request, StimulationDecision(False, (Reason("rate", "too soon"),)), frame)
            continue
        starts = tuple(frame + 5 + k * chance.choice([250, RATE]) for k in range(chance.choice([1, 1, 4])))
        _, pulses = book.decided(
            request, StimulationDecision(True, (), starts, 25, 10, chance.choice([0.1, 0.4])), frame
        )
        for pulse in pulses:
            last = killed and frame > length - 300 * RATE
            state = chance.choice(["handed", "planned"] if last else ["delivered", "delivered", "unknown", "dropped"])
            if state != "planned":
                book.fates([(pulse.id, "handed", None, "")])
            if state == "delivered":
                book.fates([(pulse.id, "delivered", pulse.at_frame + chance.randrange(25), "")])
            elif state == "unknown":
                book.fates([(pulse.id, "unknown", chance.choice([None, pulse.at_frame]), "")])
            elif state == "dropped":
                book.fates([(pulse.id, "dropped", None, "")])
    book.close()


def sessions(path: Path, seed: int) -> None:
    """A past of many sessions: long, short and without a pulse."""
    chance = random.Random(seed)
    for _ in range(8):
        length = chance.choice([20 * RATE, 90 * RATE, HOUR // 2, 3 * HOUR, 9 * HOUR])
        live(path, chance, length, chance.choice([0, 1, 30, 200]), killed=chance.random() < 0.5)
    live(path, chance, HOUR, 60, killed=True)


def plain(path: Path, session: int) -> Past:
    """The past, counted over every row there is and sharing nothing with the engine."""
    db = sqlite3.connect(path)
    rows = db.execute(
        "SELECT session, coalesce(fate.frame, pulse.at_frame), requester, electrode, charge_nc FROM fate"
        " JOIN pulse ON pulse.id = fate.pulse JOIN decision ON decision.id = pulse.decision"
        " WHERE state IN ('delivered', 'unknown')"
    ).fetchall()
    db.close()
    ended = 0
    past = Past([], [], {}, [])
    seconds, stretches = set(), set()
    for number in range(session - 1, 0, -1):
        given = [row[1:] for row in rows if row[0] == number]
        if not given or -ended > 24 * HOUR:
            continue
        shift = ended - max(frame for frame, *_ in given) - 1
        for old, requester, electrode, nc in given:
            frame = old + shift
            if frame >= -24 * HOUR:
                stretches.add(floor(frame / (600 * RATE)))
            if frame >= -HOUR:
                seconds.add(floor(frame / RATE))
            if frame >= -60 * RATE:
                past.pulses.append((frame, requester, electrode, nc))
            elif frame >= -HOUR:
                minute = floor(frame / (60 * RATE))
                past.minutes[minute] = past.minutes.get(minute, 0.0) + nc
        ended = shift
    return replace(past, pulses=sorted(past.pulses), seconds=sorted(seconds), stretches=sorted(stretches))


@pytest.mark.parametrize("seed", range(12))
def test_N1_the_past_is_that_of_a_plain_count_over_the_whole_ledger(path: Path, seed: int) -> None:
    sessions(path, seed)
    book = begin(path)
    found, expected = book.past(RATE), plain(path, book.session)
    book.close()
    assert expected.pulses
    assert len(expected.stretches) > 3
    assert (found.pulses, found.seconds, found.stretches) == (expected.pulses, expected.seconds, expected.stretches)
    assert found.minutes == pytest.approx(expected.minutes)


@pytest.mark.parametrize("seed", range(4))
def test_N4_every_pulse_of_any_session_has_its_last_word_after_the_next_start(path: Path, seed: int) -> None:
    sessions(path, seed)
    db = sqlite3.connect(path)
    last = "SELECT state, count(*) FROM pulse LEFT JOIN fate ON fate.id = (SELECT max(id) FROM fate WHERE pulse = pulse.id)"
    before = dict(db.execute(f"{last} GROUP BY state").fetchall())
    assert before["handed"]
    assert before[None]
    book = begin(path)
    book.close()
    after = dict(db.execute(f"{last} GROUP BY state").fetchall())
    db.close()
    assert book.unknown == before["handed"]
    assert after["unknown"] == before["unknown"] + before["handed"]
    assert after["cancelled"] == before.get("cancelled", 0) + before[None]
    assert not after.keys() & {"handed", None}


@contextmanager
def asked_of_the_database(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Every statement that is put to SQLite meanwhile, with its values."""
    connect = sqlite3.connect
    asked: list[str] = []

    def watched(*arguments: object, **options: object) -> sqlite3.Connection:
        db: sqlite3.Connection = connect(*arguments, **options)  # type: ignore[call-overload]
        db.set_trace_callback(asked.append)
        return db

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", watched)
        yield asked


def test_no_question_of_the_start_goes_through_the_whole_ledger(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions(path, 3)
    db = sqlite3.connect(path)
    with asked_of_the_database(monkeypatch) as asked:
        Bench(path).core.close()
    questions = [statement for statement in asked if statement.lstrip().startswith("SELECT")]
    assert sum("fate" in question for question in questions) > 5
    for question in questions:
        plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {question}")]
        assert plan
        assert not [step for step in plan if step.startswith("SCAN") and step != "SCAN session"], question
        if "LIMIT 1" in question:
            assert not [step for step in plan if "TEMP B-TREE" in step], question
    db.close()


def swallow_confirmations(lab: Bench) -> None:
    read = lab.array.read
    lab.array.read = lambda: replace(read(), deliveries=())  # type: ignore[method-assign]


def test_N1_pulses_of_unknown_fate_count_against_the_budgets_after_a_restart(path: Path) -> None:
    """An array that swallows its confirmations: what it was handed may have come, and is no budget to spend again."""
    envelope = Envelope(electrode_pulses_min=10)
    accepted = []
    for _ in range(2):
        with bench(path, envelope=envelope) as lab:
            swallow_confirmations(lab)
            lease = lab.lease(0, ttl_s=10.0)
            count = 0
            for _ in range(8):
                count += lab.ask(Request("agent", lease.id, (0,), PULSE)).decision.accepted
                lab.run(0.02)
            lab.run(2.1)  # until the engine has given up waiting
            accepted.append(count)
    states = [pulse.state for record in ledger.read(path) for pulse in record.pulses]
    assert states == ["unknown"] * 10
    assert accepted == [8, 2]


def _copy(path: Path, copy: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db, contextlib.closing(sqlite3.connect(copy)) as other:
        db.backup(other)


@pytest.mark.parametrize("how", ["removed", "rolled back", "another one"])
def test_F7_a_ledger_without_the_last_session_is_refused(how: str, path: Path) -> None:
    """A blank ledger would give the tissue its whole charge budget again, and no one would notice."""
    begin(path).close()
    older = path.with_name("older.db")
    _copy(path, older)
    begin(path).close()
    begin(path).close()  # the same ledger goes on
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    if how == "rolled back":
        older.rename(path)
    elif how == "another one":
        for day in range(1, 4):
            StimulationLedger(path.with_name("other.db"), INFO, f"2026-02-0{day}T00:00:00+00:00").close()
        path.with_name("other.db").rename(path)
    with pytest.raises(sqlite3.DatabaseError, match="session 3"):
        begin(path)
    path.with_name(path.name + ".head").unlink()  # a person decides
    begin(path).close()


@pytest.mark.parametrize("text", ["", "garbage", "[]", '{"session": null}'])
def test_F7_a_head_file_that_cannot_be_read_stops_no_engine(text: str, path: Path) -> None:
    begin(path).close()
    path.with_name(path.name + ".head").write_text(text)
    begin(path).close()


def test_N9_time_that_a_restart_leaves_out_counts_as_stimulation_without_a_rest(path: Path) -> None:
    chance, envelope = random.Random(1), Envelope()
    for _ in range(3):
        live(path, chance, 60 * RATE, 30, killed=False)
    book = begin(path)
    found = book.past(RATE)
    book.close()
    assert len(found.restarts) == 3
    firsts = []
    for restarts in ([], found.restarts):
        bookings = Bookings(RATE, envelope.rest_s)
        bookings.restore(found.pulses, found.seconds, found.minutes, found.stretches, restarts=restarts)
        firsts.append(bookings.session_with([1])[0])
    assert firsts[0] - firsts[1] == 3 * envelope.rest_s
    assert 1 - firsts[1] < envelope.session_s
