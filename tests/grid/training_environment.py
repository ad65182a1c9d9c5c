"""The training environment of the tests: made once, by the process that needs it first; the others wait."""

from __future__ import annotations

import fcntl
import os
from functools import cache
from pathlib import Path

from grid.jobs.environment import VARIABLE, default_folder, interpreter, prepare


@cache
def torch_python() -> Path:
    """Return the Python of the training environment (CHOROID_TORCH names another one)."""
    if not os.environ.get(VARIABLE):
        folder = default_folder()
        folder.parent.mkdir(parents=True, exist_ok=True)
        with folder.with_name(f"{folder.name}.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            prepare(folder, say=print)
    return interpreter()
