"""Export: all of it, with units and a checksum, in the memory of a few rows (D5)."""

from __future__ import annotations

import csv
import hashlib
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path

from controller.memory.history import History
from tests.memory.test_history import BEGIN, Ticking


def filled(path: Path, rows: int) -> History:
    history = History(path, Ticking())
    half = rows // 2
    history.insert("balance.mass", "g", ((BEGIN + n, n / 8) for n in range(half)))
    history.insert("p_heart.pressure", "kPa", ((BEGIN + n, n * 1.5) for n in range(rows - half)))
    return history


def test_D5_an_export_is_whole_and_says_what_it_is(tmp_path: Path) -> None:
    history = filled(tmp_path / "h.db", 9001)
    export = history.export_csv(BEGIN, BEGIN + 1e6)
    assert export.manifest is None
    data = b"".join(export)
    rows = list(csv.DictReader(data.decode().splitlines()))
    assert len(rows) == 9001
    assert rows[8] == {"utc": "2026-01-01T00:00:08.000Z", "point": "balance.mass", "value": "1.0", "unit": "g"}
    assert [float(row["value"]) for row in rows[4500:]] == [n * 1.5 for n in range(4501)]
    for row in rows:
        assert datetime.fromisoformat(row["utc"]).tzinfo is UTC
    assert export.manifest is not None
    assert export.manifest.rows == 9001
    assert export.manifest.units == {"balance.mass": "g", "p_heart.pressure": "kPa"}
    assert export.manifest.sha256 == hashlib.sha256(data).hexdigest()
    history.close()


def test_an_export_shows_the_moment_it_began_although_writing_goes_on(tmp_path: Path) -> None:
    history = filled(tmp_path / "h.db", 10_000)
    chunks = iter(history.export_csv(BEGIN, BEGIN + 1e6))
    first = next(chunks) + next(chunks)
    history.insert("balance.mass", "g", [(BEGIN + 5000.5, -1.0)])
    text = (first + b"".join(chunks)).decode()
    assert text.count("\r\n") == 10_001
    assert ",-1.0," not in text
    history.close()


def test_an_export_may_be_given_up_half_way(tmp_path: Path) -> None:
    history = filled(tmp_path / "h.db", 10_000)
    export = history.export_csv(BEGIN, BEGIN + 1e6)
    chunks = iter(export)
    next(chunks), next(chunks)
    del chunks
    assert export.manifest is None
    history.close()


def test_D5_memory_does_not_grow_with_the_export(tmp_path: Path) -> None:
    peaks = []
    for rows in (20_000, 200_000):
        history = filled(tmp_path / f"{rows}.db", rows)
        tracemalloc.start()
        size = sum(len(chunk) for chunk in history.export_csv(BEGIN, BEGIN + 1e6))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert size > rows * 30
        history.close()
    assert peaks[1] < 1.2 * peaks[0]
    assert peaks[1] < 2_000_000
