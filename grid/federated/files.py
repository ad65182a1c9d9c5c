"""What the processes of a rank share: files by name in its folder, how a file appears whole, that they end together."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

FIRST, GIVEN, ANSWER = "first.safetensors", "given.safetensors", "answer.safetensors"
"""The first weights; what the node gives to the trainer; what the trainer answers."""
UPDATE = "update"


PR_SET_PDEATHSIG = 1


def end_with(parent: int) -> None:
    """Let the kernel end this process with its parent: a member waits until no process holds the pipe of its rank.

    Args:
        parent: Number of the process that has started it.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that appears when it is complete and on the disk. Raises OSError."""
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
