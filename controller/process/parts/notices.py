"""Notices that hold for the whole run of a rig: not commissioned, accepted hazards, renamed files."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from controller.commissioning.record import Rows, not_commissioned
from controller.memory.quarantine import quarantined_files
from controller.process.core import ControllerCore
from controller.process.part import Part, TickStage
from controller.process.registry import part
from controller.rig.description import Rig


def notices(rig: Rig, journal: Rows, now: datetime, data: Path) -> dict[tuple[str, str], str]:
    """Return the notices of the controller's start: detail by (alarm kind, source)."""
    found = {
        ("hazard_accepted", hazard): f"{accepted.reason} ({accepted.by})"
        for hazard, accepted in rig.safety.accepted.items()
    }
    if (why := not_commissioned(rig, journal, now)) is not None:
        found[("not_commissioned", rig.name)] = why
    if renamed := quarantined_files(data):
        found["file_quarantined", "data folder"] = f"in {data}: {', '.join(renamed)}"
    return found


@part(TickStage.BOOK)
def standing(core: ControllerCore) -> Part:
    """Make the alarms that stand as long as this process lives."""
    found = notices(core.rig, core.journal, core.clock.utc(), core.storage.folder)
    return Part("notices", causes=lambda: found)
