"""History as CSV, row by row: ten million rows take no more memory than ten (D5)."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

HEADER = "utc,point,value,unit\r\n"
ROWS_A_CHUNK = 2000
"""Some 100 kB: what is made, and held, at a time; whoever streams it can let the loop breathe in between."""

_ROWS = """
SELECT at, point, value, unit FROM raw JOIN series ON series.id = raw.series
WHERE at BETWEEN ? AND ? ORDER BY series.id, at
"""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an export held, to be kept beside it; `sha256` is of its bytes."""

    begin_utc: str
    end_utc: str
    rows: int
    units: dict[str, str]
    sha256: str


class CsvExport:
    """Iterate over its chunks (UTF-8 bytes); when the last is out, :attr:`manifest` says what they were.

    It reads the file as it was when the iteration began, over a connection of its own: what is written meanwhile
    neither waits nor shows. Columns: utc (ISO 8601, ms), point, value, unit; by series, then by time.
    """

    def __init__(self, path: Path, begin: float, end: float) -> None:
        self._path = path
        self._begin, self._end = begin, end
        self.manifest: Manifest | None = None

    def __iter__(self) -> Iterator[bytes]:
        digest = hashlib.sha256(HEADER.encode())
        count, units = 0, dict[str, str]()
        yield HEADER.encode()
        db = sqlite3.connect(f"{self._path.resolve().as_uri()}?mode=ro", uri=True)
        try:
            cursor = db.execute(_ROWS, (self._begin, self._end))
            while rows := cursor.fetchmany(ROWS_A_CHUNK):
                count += len(rows)
                units.update((point, unit) for _, point, _, unit in rows)
                chunk = "".join(f"{_utc(at)},{point},{value!r},{unit}\r\n" for at, point, value, unit in rows).encode()
                digest.update(chunk)
                yield chunk
        finally:
            db.close()
        self.manifest = Manifest(_utc(self._begin), _utc(self._end), count, units, digest.hexdigest())


def _utc(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
