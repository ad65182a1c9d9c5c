"""History: nothing is lost, peaks are kept however far away one looks, and a full disk stops no control loop."""

from __future__ import annotations

import contextlib
import math
import random
import sqlite3
from collections import defaultdict
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.core.state import Reading
from controller.memory.file import open_database
from controller.memory.history import FLUSH_S, RETRY_S, History, SeriesPoint
from controller.memory.history_format import LEVELS_S
from drivers.commands import Quality
from verification.bench.standing_clock import StandingClock

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
BEGIN = EPOCH.timestamp()


def reading(value: float, at_s: float, quality: Quality = Quality.GOOD, unit: str = "kPa") -> Reading:
    return Reading(value, unit, quality, at_s)


def values(history: History, point: str = "a.x", begin: float = 0.0, end: float = 2e9) -> list[float]:
    return [stretch.mean for stretch in history.query(point, begin, end, 100_000)]


def raw_rows(path: Path) -> list[tuple[int, float, float]]:
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        return db.execute("SELECT series, at, value FROM raw ORDER BY series, at").fetchall()


def test_only_what_is_new_is_kept_and_at_the_time_it_was_taken(tmp_path: Path) -> None:
    clock = StandingClock(EPOCH, 1000.0)
    history = History(tmp_path / "h.db", clock)
    for tick in range(10):
        clock.at_s = 1000.0 + tick
        taken_s = 999.5 + tick - tick % 3  # a fresh reading every third tick
        history.add(clock.at_s, "", {"a.x": reading(float(tick), taken_s)})
    kept = history.query("a.x", 0, 2e9)
    assert [stretch.mean for stretch in kept] == [0.0, 3.0, 6.0, 9.0]
    assert [stretch.at for stretch in kept] == pytest.approx([BEGIN + 999.5 + tick for tick in (0, 3, 6, 9)], abs=2e-3)
    history.close()


def test_I9_only_good_readings_are_drawn_and_suspect_ones_are_kept_apart(tmp_path: Path) -> None:
    history = History(tmp_path / "h.db", StandingClock(EPOCH, 1000.0))
    history.add(
        1001.0,
        "",
        {
            "a.x": reading(1.0, 1000.0, Quality.MISSING),
            "b.x": reading(math.nan, 1000.0),
            "c.x": reading(1.0, 1000.0, unit=""),
            "d.x": reading(math.inf, 1000.0),
            "e.x": reading(5.0, 1000.0, Quality.SUSPECT),
        },
    )
    assert history.series() == {"e.x": "kPa"}
    assert values(history, "e.x") == []
    assert [(value, quality) for _, value, quality in history.doubted("e.x", -1e12, 1e12)] == [(5.0, "suspect")]
    assert values(history, "nothing.here") == []
    history.close()


def test_it_is_written_every_minute_and_survives_a_restart(tmp_path: Path) -> None:
    path, clock = tmp_path / "h.db", StandingClock(EPOCH, 1000.0)
    history = History(path, clock)
    for tick in range(int(FLUSH_S) + 1):
        clock.at_s = 1000.0 + tick
        history.add(clock.at_s, "", {"a.x": reading(float(tick), clock.at_s)})
    assert len(raw_rows(path)) == FLUSH_S + 1  # on the disk, although it was not closed
    again = History(path, clock)
    assert values(again) == [float(tick) for tick in range(int(FLUSH_S) + 1)]
    assert again.series() == {"a.x": "kPa"}
    again.add(1100.0, "", {"a.x": reading(-1.0, 1100.0), "b.x": reading(7.0, 1100.0)})
    assert values(again)[-1] == -1.0
    assert values(again, "b.x") == [7.0]
    again.close()
    history.close()


def test_a_series_that_changes_its_unit_is_another_series(tmp_path: Path) -> None:
    history = History(tmp_path / "h.db", StandingClock(EPOCH, 1000.0))
    history.insert("a.x", "bar", [(BEGIN, 1.0)])
    history.insert("a.x", "kPa", [(BEGIN + 1, 100.0)])
    assert history.series() == {"a.x": "kPa"}
    assert values(history) == [100.0]
    history.close()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32),
    count=st.integers(1, 400),
    cuts=st.lists(st.integers(0, 400), max_size=6),
    span_s=st.sampled_from([50.0, 5_000.0, 500_000.0]),
)
def test_the_levels_say_what_the_raw_points_say_however_they_were_flushed(
    tmp_path: Path, seed: int, count: int, cuts: list[int], span_s: float
) -> None:
    path = tmp_path / f"{seed}-{count}-{len(cuts)}-{span_s}.db"
    path.unlink(missing_ok=True)
    dice = random.Random(seed)
    points = sorted({(round(BEGIN + dice.random() * span_s, 3), dice.gauss(0, 10)) for _ in range(count)})
    history = History(path, StandingClock(EPOCH, 1000.0))
    edges = sorted({0, len(points), *(min(cut, len(points)) for cut in cuts)})
    for first, last in pairwise(edges):
        history.insert("a.x", "kPa", points[first:last])
    history.close()
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        for level in LEVELS_S:
            wanted: dict[int, list[float]] = defaultdict(list)
            for at, value in points:
                wanted[int(at // level)].append(value)
            rows = db.execute("SELECT bucket, n, total, least, most FROM rollup WHERE level=?", (level,)).fetchall()
            assert {bucket for bucket, *_ in rows} == set(wanted)
            for bucket, n, total, least, most in rows:
                within = wanted[bucket]
                assert (n, least, most) == (len(within), min(within), max(within))
                assert total == pytest.approx(sum(within), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("max_points", [2, 10, 300, 1000, 7000])
@pytest.mark.parametrize("days", [0.01, 1, 7, 30])
def test_a_drawing_is_small_ordered_and_loses_no_peak(tmp_path: Path, max_points: int, days: float) -> None:
    history = History(tmp_path / "h.db", StandingClock(EPOCH, 1000.0))
    end = BEGIN + days * 86400
    step = max(1.0, days * 86400 / 12_000)
    points = [(BEGIN + n * step, math.sin(n / 50)) for n in range(int(days * 86400 / step))]
    points[len(points) // 3] = (points[len(points) // 3][0], 99.0)
    points[len(points) // 2] = (points[len(points) // 2][0], -99.0)
    history.insert("a.x", "kPa", points)
    drawn = history.query("a.x", BEGIN, end, max_points)
    assert max_points / 6 < len(drawn) <= max_points or len(drawn) == len(points)
    assert [stretch.at for stretch in drawn] == sorted(stretch.at for stretch in drawn)
    assert all(BEGIN <= stretch.at <= end for stretch in drawn)
    assert max(stretch.most for stretch in drawn) == 99.0
    assert min(stretch.least for stretch in drawn) == -99.0
    assert all(stretch.least <= stretch.mean <= stretch.most for stretch in drawn)
    history.close()


def test_a_young_series_is_drawn_finely_in_a_wide_window(tmp_path: Path) -> None:
    """Ten minutes of data in a view of thirty days are not squeezed into one stretch."""
    history = History(tmp_path / "h.db", StandingClock(EPOCH, 1000.0))
    history.insert("a.x", "kPa", [(BEGIN + n, float(n)) for n in range(600)])
    assert len(history.query("a.x", BEGIN - 30 * 86400, BEGIN + 3600, 1000)) == 600
    history.close()


def test_an_empty_or_backward_period_is_empty(tmp_path: Path) -> None:
    history = History(tmp_path / "h.db", StandingClock(EPOCH, 1000.0))
    history.insert("a.x", "kPa", [(BEGIN, 1.0)])
    assert history.query("a.x", BEGIN + 10, BEGIN + 20) == []
    assert history.query("a.x", BEGIN + 10, BEGIN - 10) == []
    assert history.query("a.x", BEGIN - 1, BEGIN + 1) == [SeriesPoint(BEGIN, 1.0, 1.0, 1.0)]
    history.close()


def test_D2_a_full_disk_stops_no_caller_and_nothing_is_lost_when_there_is_room_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, clock = tmp_path / "h.db", StandingClock(EPOCH, 1000.0)
    history = History(path, clock)
    history.insert("a.x", "kPa", [(BEGIN, -1.0)])
    (pages,) = history._db.execute("PRAGMA page_count").fetchone()
    history._db.execute(f"PRAGMA max_page_count={pages}")
    for tick in range(3000):
        clock.at_s = 2000.0 + tick
        history.add(clock.at_s, "", {f"{name}.x": reading(float(tick), clock.at_s) for name in "abc"})
    assert history.problem is not None
    assert "full" in history.problem
    assert history.given_up == 0
    assert len(caplog.records) == 1  # said once, not at every attempt
    there = values(history)  # what is there can still be read
    assert there == [-1.0, *map(float, range(3000))][: len(there)]
    assert 1 <= len(there) < 1000
    history._db.execute("PRAGMA max_page_count=1000000")
    clock.at_s += RETRY_S + 1
    history.add(clock.at_s, "", {})
    assert history.problem is None
    assert values(history) == [-1.0, *map(float, range(3000))]
    history.close()


def test_D2_a_file_that_cannot_be_opened_stops_no_start_and_its_series_keep_their_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, clock = tmp_path / "h.db", StandingClock(EPOCH, 1000.0)
    before = History(path, clock)
    before.insert("a.x", "kPa", [(BEGIN, -1.0)])
    before.insert("b.x", "kPa", [(BEGIN, -2.0)])
    before.close()

    def full(*_: object, **__: object) -> sqlite3.Connection:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("controller.memory.history.open_database", full)
    history = History(path, clock)
    assert "full" in str(history.problem)
    for tick in range(100):
        clock.at_s = 1001.0 + tick
        history.add(clock.at_s, "", {f"{name}.x": reading(ord(name) + tick, clock.at_s) for name in "cb"})
    assert history.query("b.x", 0.0, 2e9) == []
    assert history.problem is not None
    monkeypatch.setattr("controller.memory.history.open_database", open_database)
    clock.at_s += RETRY_S + 1
    history.add(clock.at_s, "", {})
    assert history.problem is None
    assert values(history, "a.x") == [-1.0]
    assert values(history, "b.x") == [-2.0, *(ord("b") + tick for tick in range(100))]
    assert values(history, "c.x") == [ord("c") + tick for tick in range(100)]
    assert history.series() == {"a.x": "kPa", "b.x": "kPa", "c.x": "kPa"}
    history.close()


def test_D2_a_file_that_another_program_holds_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    History(path, StandingClock(EPOCH, 1000.0)).close()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        history = History(path, StandingClock(EPOCH, 1000.0))
        assert history.problem is None
        history.close()


def test_D2_what_waits_for_a_full_disk_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.memory.history.MAX_WAITING", 100)
    clock = StandingClock(EPOCH, 1000.0)
    history = History(tmp_path / "h.db", clock)
    history.insert("a.x", "kPa", [(BEGIN, -1.0)])
    (pages,) = history._db.execute("PRAGMA page_count").fetchone()
    history._db.execute(f"PRAGMA max_page_count={pages}")
    history.insert("a.x", "kPa", [(BEGIN + n, float(n)) for n in range(5000)])
    assert history.given_up == 4900
    history._db.execute("PRAGMA max_page_count=1000000")
    history.flush()
    assert values(history) == [-1.0, *map(float, range(4900, 5000))]
    history.close()


@pytest.mark.parametrize("damage", [b"not a database at all, but long enough to look at" * 50, None])
def test_a_file_that_cannot_be_used_is_renamed_not_deleted(tmp_path: Path, damage: bytes | None) -> None:
    path = tmp_path / "h.db"
    if damage is None:
        with contextlib.closing(sqlite3.connect(path)) as db, db:
            db.execute("CREATE TABLE of_another_time (x)")
            db.execute("PRAGMA user_version=77")
    else:
        path.write_bytes(damage)
    before = path.read_bytes()
    history = History(path, StandingClock(EPOCH, 1000.0))
    history.insert("a.x", "kPa", [(BEGIN, 1.0)])
    assert values(history) == [1.0]
    assert (tmp_path / "h.db.quarantined-1").read_bytes() == before
    history.close()


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError):
        History(tmp_path / "no" / "h.db", StandingClock(EPOCH, 1000.0))
