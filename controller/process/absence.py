"""Whether a rig was unattended for too long for its runs to go on by themselves (B5)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from controller.journal.journal import Journal
from controller.ledger.witnesses import K
from controller.memory.history import History
from controller.rig.description import Rig
from controller.safety.terms import KernelVolume

MAX_ABSENCE_S = 6 * 3600.0
"""Longest time (s) after which a run goes on by itself: medium evaporates, drips and is handled while no one records it."""


def last_record_utc(journal: Journal, history: History) -> str | None:
    """Return when a controller last recorded a row or a reading; None if never."""
    row = next(journal.entries(newest_first=True), None)
    read = history.last_at()
    times = [] if row is None else [datetime.fromisoformat(row.utc)]
    times += [] if read is None else [datetime.fromtimestamp(read, UTC)]
    return max(times).isoformat() if times else None


def absence_doubt(rig: Rig, last_utc: str | None, now: datetime, volumes: Mapping[str, KernelVolume]) -> str:
    """Return why the runs of a rig must wait for a person after a restart; empty when they may go on.

    Args:
        rig: The rig.
        last_utc: When the controller before last recorded anything (UTC); None if never.
        now: The present UTC.
        volumes: The books' volumes at present.
    """
    away_s = 0.0 if last_utc is None else (now - datetime.fromisoformat(last_utc)).total_seconds()
    lost = [name for name, each in volumes.items() if _beyond(each, rig.vessels[name].capacity_ul)]
    if away_s <= MAX_ABSENCE_S and not lost:
        return ""
    why = [f"no controller recorded anything for {away_s / 3600:.0f} h"] if away_s > MAX_ABSENCE_S else []
    if lost:
        why.append(f"the books do not know what is in {', '.join(sorted(lost))}")
    return (
        f"{' and '.join(why)}. Likely cause: the rig was off or unattended. Next: look at each vessel"
        f" ({', '.join(sorted(volumes))}) and at the tissue, correct the books if they differ, then resume or abort the run"
    )


def _beyond(volume: KernelVolume, capacity_ul: float) -> bool:
    """Return whether a volume is impossible, or less certain than its whole vessel."""
    doubt_ul = K * volume.sd_ul
    return volume.ul < -doubt_ul or volume.ul > capacity_ul + doubt_ul or doubt_ul > capacity_ul
