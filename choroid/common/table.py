"""Tables of texts: for a terminal, as CSV, and as Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

Row = Sequence[str]


def aligned(header: Row, rows: Sequence[Row]) -> list[str]:
    """Return header and rows as lines, with the cells of a column at the same place."""
    every = [header, *rows]
    widths = [max(len(row[column]) for row in every) for column in range(len(header))]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in every]


def as_csv(header: Row, rows: Sequence[Row]) -> str:
    """Return CSV by RFC 4180, without the last line end."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue().removesuffix("\r\n")
