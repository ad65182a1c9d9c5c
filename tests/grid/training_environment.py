"""The environments of the tests: each made once, by the process that needs it first; the others wait."""

from __future__ import annotations

import fcntl
import os
from functools import cache
from pathlib import Path

from grid.jobs.environment import FEDERATED, TRAIN, JobEnvironment, default_folder, interpreter, prepare


@cache
def torch_python() -> Path:
    """Return the Python of the training environment (CHOROID_TORCH names another one)."""
    return _made(TRAIN)


@cache
def flower_python() -> Path:
    """Return the Python of the environment of federated jobs."""
    return _made(FEDERATED)


def _made(kind: JobEnvironment) -> Path:
    if not (kind.variable and os.environ.get(kind.variable)):
        folder = default_folder(kind)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with folder.with_name(f"{folder.name}.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            prepare(folder, say=print, kind=kind)
    return interpreter(kind=kind)
