"""What the processes of a rank share: files by name in its folder, how a file appears whole, that they end together."""

from __future__ import annotations

import ctypes
import json
import math
import os
import signal
import sys
from pathlib import Path

FIRST, GIVEN, ANSWER = "first.safetensors", "given.safetensors", "answer.safetensors"
"""The first weights; what the node gives to the trainer; what the trainer answers."""
UPDATE = "update"
USED = "used.json"
"""Bytes that a rank has sent and processor time that it has used (s) since the job began."""


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


def read_used(folder: Path) -> tuple[int, float]:
    """Return what a rank has used since the job began: bytes and processor time (s).

    Args:
        folder: Of the rank.

    Raises:
        ValueError: The file is damaged.
    """
    path = folder / USED
    try:
        sent, cpu_s = json.loads(path.read_bytes())
        if not (isinstance(sent, int) and sent >= 0 and math.isfinite(cpu_s) and cpu_s >= 0.0):
            raise ValueError("a number that cannot be")
        return sent, float(cpu_s)
    except FileNotFoundError:
        return 0, 0.0
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{path} is damaged ({error}), so it is not known how much of the job's budget is used. Next: remove the job"
        ) from None


def write_used(folder: Path, sent: int, cpu_s: float) -> None:
    """Keep what a rank has used: after a restart the budget of the job goes on.

    Args:
        folder: Of the rank.
        sent: Bytes that it has sent.
        cpu_s: Processor time that it has used (s).

    Raises:
        OSError: The disk is full.
    """
    write_whole(folder / USED, json.dumps([sent, cpu_s]).encode())
