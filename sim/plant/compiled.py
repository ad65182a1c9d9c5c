"""How this package is compiled: numba, without the interpreter, kept on disk.

numba renews what it kept of a function when *its own* file changes, not when a function that it calls does. The step of
the plant calls into a dozen files; it therefore closes over :data:`SOURCES`, which numba counts as part of its key.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def _sources() -> int:
    digest = sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return int.from_bytes(digest.digest()[:7], "big")


SOURCES = _sources()
"""A number that changes with any file of this package."""


def compiled(function: F) -> F:
    """Compile `function` as part of what calls it (floating point as in numpy: no exception on division by zero)."""
    return cast(F, numba.njit(nogil=True, error_model="numpy")(function))


def kept(function: F) -> F:
    """Compile `function` and keep it on disk; it must close over :data:`SOURCES` or call nothing in other files."""
    return cast(F, numba.njit(nogil=True, error_model="numpy", cache=True)(function))
