"""The log as static resources (C2SP tlog-tiles): hashes in tiles of 256, rows in bundles of 256."""

from __future__ import annotations

import re
import struct

from grid.errors import GridError
from grid.log.ledger import GridLog

WIDTH = 256
HEIGHT = 8
MAX_ROW_BYTES = 65_535
PATH = re.compile(r"tile/(?P<level>entries|\d{1,2})/(?P<index>(?:x\d{3}/)*\d{3})(?:\.p/(?P<width>\d{1,3}))?")


def tile(log: GridLog, path: str) -> bytes | None:
    """Return the resource at `path` (such as tile/0/000 or tile/entries/000.p/17), or None when there is none.

    Raises:
        GridError: A row is too long for this form.
    """
    found = PATH.fullmatch(path)
    if found is None:
        return None
    index = int(found["index"].replace("x", "").replace("/", ""))
    width = WIDTH if found["width"] is None else int(found["width"])
    if not 0 < width <= WIDTH or (found["width"] is not None and width == WIDTH) or index_path(index) != found["index"]:
        return None
    if index * WIDTH >= log.size:
        return None
    if found["level"] == "entries":
        return _entries(log, index, width)
    level = int(found["level"])
    try:
        return b"".join(log.node(level * HEIGHT, index * WIDTH + each) for each in range(width))
    except KeyError:
        return None


def index_path(index: int) -> str:
    """Return the index of a tile in the form of its path, such as x001/x234/067."""
    parts = [f"{index % 1000:03d}"]
    while index >= 1000:
        index //= 1000
        parts.insert(0, f"x{index % 1000:03d}")
    return "/".join(parts)


def _entries(log: GridLog, index: int, width: int) -> bytes | None:
    rows = log.rows(index * WIDTH, width)
    if len(rows) < width:
        return None
    for number, body in rows:
        if len(body) > MAX_ROW_BYTES:
            raise GridError(
                f"row {number} of the log has {len(body)} bytes, and the form of tiles allows {MAX_ROW_BYTES}. Likely cause:"
                " the log was damaged. Next: `choroid grid log export` has it"
            )
    return b"".join(struct.pack(">H", len(body)) + body for _, body in rows)
