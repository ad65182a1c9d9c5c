"""Hashes that the previous release gave to protocols: a run that began under it goes on after the update.

That release hashed the texts of its own modules as well (commit c0b9dcd). `earlier.json` has its hash of each shipped
protocol, with today's hash of the protocol that goes on with such a run; `earlier.txt.xz` has the texts that it hashed with
a laboratory's own protocol. Both files and this module may be removed in the release after this one.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

HASHES = Path(__file__).with_name("earlier.json")
TEXTS = Path(__file__).with_name("earlier.txt.xz")


def of_shipped(name: str, today: str) -> str | None:
    """Return the earlier hash of a shipped protocol; None for one that has another course today."""
    earlier, goes_on_as = _hashes().get(name, ("", ""))
    return earlier if goes_on_as == today else None


def of_python(source: str) -> str:
    """Return the earlier hash of a laboratory's own Python protocol."""
    return _sha256(source)


def of_recipe(text: str, called: Iterable[str | None]) -> str | None:
    """Return the earlier hash of a laboratory's own recipe file; `called` are those of the recipes that it calls."""
    parts = list(called)
    if None in parts:
        return None
    return _sha256("\n".join([text, _texts()[0], *(part for part in parts if part is not None)]))


def _sha256(source: str) -> str:
    return hashlib.sha256((source + _texts()[1]).encode()).hexdigest()


@lru_cache(maxsize=1)
def _hashes() -> dict[str, tuple[str, str]]:
    return {name: (pair[0], pair[1]) for name, pair in json.loads(HASHES.read_text(encoding="utf-8")).items()}


@lru_cache(maxsize=1)
def _texts() -> tuple[str, str]:
    """Texts that the earlier release hashed: those of recipes' steps, and those of the language."""
    steps, language = lzma.decompress(TEXTS.read_bytes()).decode().split("\0")
    return steps, language
