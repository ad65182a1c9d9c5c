"""Writers of one table: CSV, and Parquet with pyarrow. Both take rows in chunks, so that memory does not grow."""

from __future__ import annotations

import csv
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from choroid.client.errors import optional
from choroid.export.tables import Cell, Column, ColumnType, Table, utc_text

CHUNK_ROWS = 20_000
"""Rows in memory at a time, and rows of one row group of a Parquet file: some megabytes."""
READ_BYTES = 65_536


class TableWriter(ABC):
    """Writes one table to one file."""

    format: str

    @abstractmethod
    def write(self, rows: Sequence[tuple[Cell, ...]]) -> None:
        """Add rows."""

    @abstractmethod
    def close(self) -> None:
        """Finish the file."""


class CsvWriter(TableWriter):
    """CSV by RFC 4180 in UTF-8: a header, commas, CRLF. An absent value is empty; a number is written with all its digits."""

    format = "csv"

    def __init__(self, path: Path, table: Table) -> None:
        self._file = path.open("w", encoding="utf-8", newline="")
        self._writer = csv.writer(self._file, lineterminator="\r\n")
        self._writer.writerow(column.name for column in table.columns)
        self._times = [n for n, column in enumerate(table.columns) if column.type == "time"]

    def write(self, rows: Sequence[tuple[Cell, ...]]) -> None:
        """Add rows."""
        for row in rows:
            cells = list(row)
            for n in self._times:
                if (at := cells[n]) is not None:
                    cells[n] = utc_text(float(at))
            self._writer.writerow(cells)

    def close(self) -> None:
        """Finish the file."""
        self._file.close()


class ParquetWriter(TableWriter):
    """Parquet, compressed with Zstandard; each field's metadata holds its `unit` and `meaning`."""

    format = "parquet"

    def __init__(self, path: Path, table: Table) -> None:
        self._arrow: Any = optional("pyarrow", "data", "an export as Parquet")
        parquet: Any = optional("pyarrow.parquet", "data", "an export as Parquet")
        self._columns = table.columns
        self._schema = self._arrow.schema([self._field(column) for column in table.columns])
        self._writer = parquet.ParquetWriter(path, self._schema, compression="zstd")

    def _field(self, column: Column) -> Any:
        arrow = self._arrow
        types: dict[ColumnType, Any] = {
            "time": arrow.timestamp("ms", tz="UTC"),
            "number": arrow.float64(),
            "integer": arrow.int64(),
            "text": arrow.string(),
        }
        return arrow.field(column.name, types[column.type], metadata={"unit": column.unit, "meaning": column.meaning})

    def write(self, rows: Sequence[tuple[Cell, ...]]) -> None:
        """Add rows as one row group."""
        columns = [
            [None if cell is None else round(float(cell) * 1000) for cell in cells] if column.type == "time" else cells
            for column, cells in zip(self._columns, zip(*rows, strict=True), strict=True)
        ]
        arrays = [self._arrow.array(cells, type=field.type) for field, cells in zip(self._schema, columns, strict=True)]
        self._writer.write_batch(self._arrow.record_batch(arrays, schema=self._schema))

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()


WRITERS: dict[str, type[CsvWriter] | type[ParquetWriter]] = {"csv": CsvWriter, "parquet": ParquetWriter}


def sha256_of(path: Path) -> str:
    """Return the hash of a file (hex)."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(READ_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
