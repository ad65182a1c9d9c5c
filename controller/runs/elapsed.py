"""How long ago a run began, by its journal rows and the clock."""

from __future__ import annotations

from datetime import datetime

from controller.core.clock import Clock
from controller.core.run_states import RunEvent
from controller.journal.journal import Journal
from controller.journal.terms import Entry


def elapsed_s(journal: Journal, clock: Clock, run_id: str) -> float:
    """Return how long ago a run began (s), by its rows and the present clock.

    Within a process the monotonic clock tells, so a step of UTC counts for nothing (E7). From the last row of one process
    to the first of the next only UTC can tell: one that was set back counts as no time at all. Else the turns to come
    would move away by as much as a dead battery put the clock back.
    """
    gone_s = 0.0
    before: Entry | None = None
    for row in journal.entries(run=run_id):
        if before is not None:
            new_process = row.kind == "run.state" and row.body["event"] in (RunEvent.START, RunEvent.RECOVER)
            gone_s += max(_apart_s(before.utc, row.utc) if new_process else row.at_s - before.at_s, 0.0)
        before = row
    return gone_s if before is None else gone_s + max(_apart_s(before.utc, clock.utc_text()), 0.0)


def _apart_s(sooner: str, later: str) -> float:
    return (datetime.fromisoformat(later) - datetime.fromisoformat(sooner)).total_seconds()
