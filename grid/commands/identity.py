"""`choroid grid identity show`: the identity of a data folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grid.data.sealing import as_reader
from grid.identity.keys import IdentityKey


def identity(data: Path) -> dict[str, Any]:
    """Return the identity in `data`; make its key if there is none."""
    key = IdentityKey.in_folder(data)
    return {"id": key.id, "public_key": key.public.hex(), "reader": as_reader(key.public), "data": str(data)}
