"""Load a rig file for operation: valid in itself and to its drivers, without gaps in its hazard table."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from controller.hazards.table import gaps_of
from controller.links.settings import drivers_accept
from controller.rig.description import Rig
from controller.rig.loading import load_rig


def load_checked_rig(path: Path, *, models: Collection[str] | None = None) -> Rig:
    """Read and validate a rig file, its hazard table included.

    The table needs a rig that is valid in itself: its gaps are reported only if nothing else is wrong.

    Args:
        path: the rig file.
        models: the drivers' catalogue (ids); if given, unknown device models are problems too.

    Returns:
        The rig.

    Raises:
        RigError: something is wrong; it holds every problem found, with line and fix.
        OSError: the file cannot be read.
    """
    return load_rig(path, models=models, rules=(drivers_accept, gaps_of))
