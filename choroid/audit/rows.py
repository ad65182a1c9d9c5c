"""The journal's rows as leaves of a tree: from its database, or from an export. Each leaf is one line of canonical JSON."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from choroid.common.failure import UserError
from controller.core.database import open_to_read
from controller.journal.terms import Row, chain, encode

_EVERY = "SELECT seq, at_s, utc, kind, run, body, hash FROM entries ORDER BY seq"


def rows_of(source: Path) -> Iterator[tuple[bytes, Row]]:
    """Yield (leaf, row) of a journal (`journal.db`) or of the rows of an export (`rows.jsonl`), in order.

    Raises:
        UserError: The file cannot be read.
    """
    try:
        if source.suffix == ".jsonl":
            with source.open("rb") as lines:
                for line in lines:
                    said = json.loads(line)
                    yield line.rstrip(b"\n"), Row(**(said | {"body": encode(said["body"])}))
            return
        with closing(open_to_read(source)) as db:
            for values in db.execute(_EVERY):
                row = Row._make(values)
                yield encode(row._asdict() | {"body": json.loads(row.body)}).encode(), row
    except (OSError, sqlite3.Error, ValueError, TypeError, KeyError) as error:
        raise UserError(
            f"{source} cannot be read as rows of a journal ({error}). Likely cause: another folder, or a damaged file. Next:"
            " name a data folder, or a folder that `choroid audit export` has made"
        ) from None


def chain_fault(row: Row, seq: int, head: str) -> str:
    """Return what is wrong with row number `seq` after the one with hash `head`; empty if nothing is."""
    if row.seq != seq:
        return f"row {seq} is missing; row {row.seq} follows"
    return "" if chain(head, *row[:-1]) == row.hash else f"the hash of row {seq} does not fit it and the row before"
