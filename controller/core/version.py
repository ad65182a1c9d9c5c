"""Which release of Choroid this is, for the record."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def software_version() -> str:
    """The installed release, as `pip show choroid` tells it; "unknown" for a bare folder of sources."""
    try:
        return version("choroid")
    except PackageNotFoundError:
        return "unknown"
