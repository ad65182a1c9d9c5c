"""Check how much room recordings may take: a quota for all of them, and a part of the disk that stays free."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from nerves.recording.layout import RecordingPlan

MIN_S = 60.0
"""A recording is begun only with room for this time (s) of uncompressed frames."""
CLOSING_BYTES = 4_000_000
"""Room that is kept for the last rows of a recording."""


class RecordingRefused(Exception):
    """A recording cannot be begun, ended or read: what, likely cause, next action."""


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(base, name)).st_size
            except FileNotFoundError:
                continue  # replaced meanwhile
    return total


def room_bytes(plan: RecordingPlan, used: int) -> tuple[float, str]:
    """Return the room for recordings in bytes, and what bounds it, for people.

    Args:
        plan: Folder and limits.
        used: Bytes that all recordings take now.
    """
    by_quota = plan.quota_bytes - used
    by_disk = shutil.disk_usage(plan.folder).free - plan.min_free_bytes
    if by_quota <= by_disk:
        return by_quota, (
            f"the recordings in {plan.folder} take {used / 1e9:.2f} GB of their quota of {plan.quota_bytes / 1e9:g} GB."
            " Likely cause: earlier recordings were kept. Next: export and remove some, or raise the quota in the rig file"
        )
    return by_disk, (
        f"the disk of {plan.folder} has {(by_disk + plan.min_free_bytes) / 1e9:.2f} GB free, and"
        f" {plan.min_free_bytes / 1e9:g} GB are not for recordings. Likely cause: the disk is nearly full. Next: make room"
    )


def require_room(plan: RecordingPlan, used: int, bytes_s: float) -> None:
    """Refuse a recording that has no room for :data:`MIN_S` seconds. Raises :class:`RecordingRefused`."""
    room, why = room_bytes(plan, used)
    if room < bytes_s * MIN_S + CLOSING_BYTES:
        raise RecordingRefused(f"no room for a recording of {bytes_s / 1e6:.1f} MB/s: {why}")
