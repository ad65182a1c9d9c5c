"""The compiler of this package: without the interpreter's lock, so that a figure never delays the real-time thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Compile `function` at its first call, and keep the result on the disk. A division by zero gives NaN or infinity."""
    return cast(F, numba.njit(nogil=True, error_model="numpy", cache=True)(function))
