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
from numba.core import cgutils
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])
A = TypeVar("A")


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


def inlined(function: F) -> F:
    """Compile `function` into the very place of each call: for small ones that are called for each line."""
    return cast(F, numba.njit(nogil=True, error_model="numpy", forceinline=True)(function))


def kept(function: F) -> F:
    """Compile `function` and keep it on disk; it must close over :data:`SOURCES` or call nothing in other files."""
    return cast(F, numba.njit(nogil=True, error_model="numpy", cache=True)(function))


def _borrowed(_context: Any, array: Any) -> Any:
    tools = cast(Any, cgutils)

    def lower(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        bare = tools.create_struct_proxy(array)(context, builder, value=arguments[0])
        bare.meminfo = tools.get_null_value(bare.meminfo.type)
        bare.parent = tools.get_null_value(bare.parent.type)
        return bare._getvalue()

    return array(array), lower


borrowed = cast(Callable[[A], A], intrinsic(_borrowed))
"""Return an array without its reference count, for compiled code that runs while Python holds the array.

Each view of a counted array (a row, a record) costs two atomic operations: a quarter of the step of a large rig.
"""
