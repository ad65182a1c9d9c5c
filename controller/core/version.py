"""Which release of Choroid this is, for the record."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def software_version() -> str:
    """Return the installed release, as `pip show choroid` does; "unknown" for a bare folder of sources."""
    try:
        return version("choroid")
    except PackageNotFoundError:
        return "unknown"
