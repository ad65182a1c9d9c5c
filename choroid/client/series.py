"""Series of a controller's history: how a period is asked for, and the result as NumPy, pandas or Arrow."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from choroid.client import calls
from choroid.client.answers import StateInfo
from choroid.client.errors import ClientError, optional
from choroid.client.transport import ApiCall

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import pyarrow as pa

MAX_ROWS = 4000
"""Maximum number of rows in one answer of the controller."""
MAX_SECONDS = 31 * 86_400.0
"""Longest period of one request (s); the controller takes 32 d."""
SPARE_ROWS = 2
"""One at each end of a period."""
MAX_REQUESTS = 5000
"""A period that takes more requests than this is refused: `choroid export` is the way to read it."""


@dataclass(frozen=True, eq=False)
class HistorySeries:
    """Holds one series of the history, as read from a controller.

    Attributes:
        point: Name of the series, such as `ph_loop.ph`.
        unit: Unit of mean, min and max.
        at_utc_s: Time of each row, shape (rows,): UTC, seconds since 1970.
        mean: Mean of the readings that a row stands for, shape (rows,).
        min: Smallest of them, shape (rows,).
        max: Largest of them, shape (rows,).
    """

    point: str
    unit: str
    at_utc_s: np.ndarray[Any, np.dtype[np.float64]]
    mean: np.ndarray[Any, np.dtype[np.float64]]
    min: np.ndarray[Any, np.dtype[np.float64]]
    max: np.ndarray[Any, np.dtype[np.float64]]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.at_utc_s)

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame with the columns mean, min and max over a UTC DatetimeIndex.

        `attrs` of the frame holds `point` and `unit`.

        Raises:
            MissingPackage: pandas is not installed.
        """
        pandas: Any = optional("pandas", "data", "history as a DataFrame")
        index = pandas.to_datetime(self._nanoseconds(), unit="ns", utc=True)
        frame = pandas.DataFrame({"mean": self.mean, "min": self.min, "max": self.max}, index=index.rename("utc"))
        frame.attrs.update(point=self.point, unit=self.unit)
        found: pd.DataFrame = frame
        return found

    def to_arrow(self) -> pa.Table:
        """Return an Arrow table with the columns utc, mean, min and max; each value column names its unit.

        Raises:
            MissingPackage: pyarrow is not installed.
        """
        arrow: Any = optional("pyarrow", "data", "history as an Arrow table")
        of_value = {"unit": self.unit, "point": self.point}
        schema = arrow.schema(
            [
                arrow.field("utc", arrow.timestamp("ns", tz="UTC")),
                *(arrow.field(name, arrow.float64(), metadata=of_value) for name in ("mean", "min", "max")),
            ]
        )
        table: pa.Table = arrow.table(
            {"utc": self._nanoseconds(), "mean": self.mean, "min": self.min, "max": self.max}, schema=schema
        )
        return table

    def _nanoseconds(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the times as whole nanoseconds; readings are stored to the millisecond."""
        import numpy

        return numpy.round(self.at_utc_s * 1e3).astype(numpy.int64) * 1_000_000


def asked(
    point: str,
    *,
    days: float | None,
    begin: datetime | str | None,
    end: datetime | str | None,
    every_s: float | None,
) -> Generator[ApiCall[Any], Any, HistorySeries]:
    """Ask for a series of any length, in as many requests as it takes.

    A generator: it yields each call and is sent its answer.

    Args:
        point: Name of the series.
        days: Length of the period (d), one day by default; not together with `begin`.
        begin: Begin of the period, with its time zone.
        end: End of the period, with its time zone; by default the controller's present.
        every_s: Time between two rows (s). By default the whole period comes in at most 4000 rows. Shorter than the time
            between two readings: every reading.

    Returns:
        The series.

    Raises:
        ClientError: The period is empty, too long for this resolution, or a time has no zone.
    """
    if end is None:
        end_s = _seconds((yield calls.get("/api/state", StateInfo)).utc, "the state's time") + 1.0
    else:
        end_s = _seconds(end, "end")
    if begin is not None and days is not None:
        raise ClientError("history takes either days or begin, not both")
    begin_s = _seconds(begin, "begin") if begin is not None else end_s - 86_400.0 * (1.0 if days is None else days)
    rows: list[list[float]] = []
    unit = ""
    for first_s, last_s, max_points in _windows(begin_s, end_s, every_s):
        query = {"point": point, "seconds": last_s - first_s, "max_points": max_points, "end_utc_s": last_s}
        answer = yield ApiCall("GET", f"/api/history?{urlencode(query)}", dict)
        unit = answer["unit"]
        # A row stands for readings around its time; the one at a border comes with both neighbours.
        rows += [row for row in answer["rows"] if not rows or row[0] > rows[-1][0]]
    import numpy

    table = numpy.array(rows, dtype=numpy.float64).reshape(-1, 4)
    return HistorySeries(point, unit, *table.T)


def _windows(begin_s: float, end_s: float, every_s: float | None) -> list[tuple[float, float, int]]:
    """Divide a period into requests: begin and end (UTC s) and the number of rows of each."""
    span_s = end_s - begin_s
    if not (math.isfinite(span_s) and span_s > 0.0):
        raise ClientError("the period of history is empty: its end is not after its begin")
    if every_s is not None and not every_s > 0.0:
        raise ClientError(f"every_s is {every_s}; it must be a positive number of seconds")
    width_s = min(MAX_SECONDS, span_s if every_s is None else (MAX_ROWS - SPARE_ROWS) * every_s / 2)
    count = math.ceil(span_s / width_s)
    if count > MAX_REQUESTS:
        raise ClientError(
            f"{span_s / 86_400:.1f} days in steps of {every_s:g} s take {count} requests, the limit is {MAX_REQUESTS}."
            " Next: take a longer step, or read the files with `choroid export`"
        )
    edges = [begin_s + span_s * n / count for n in range(count)] + [end_s]
    rows = MAX_ROWS // count if every_s is None else math.ceil(span_s / count / every_s) + SPARE_ROWS
    return [(first, last, max(2, rows)) for first, last in pairwise(edges)]


def _seconds(moment: datetime | str, name: str) -> float:
    try:
        found = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    except ValueError:
        raise ClientError(f"{name} is “{moment}”; write a datetime or ISO 8601 text") from None
    offset: timedelta | None = found.utcoffset()
    if offset is None:
        raise ClientError(f"{name} ({moment}) has no time zone. Next: add one, such as datetime(…, tzinfo=UTC)")
    return found.timestamp()
