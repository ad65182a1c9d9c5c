"""The controller of `choroid run` at a speed factor, in a process that kills itself at a journal row.

Only this module makes such a journal: neither an option nor an environment variable of `choroid run` does. The
process sends SIGKILL to itself, in :meth:`MortalJournal.append` or in the writer thread just after the commit;
another process could not hit the moment.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from choroid.running.run import keep
from choroid.simulation.simulate import EPOCH
from controller.core.clock import Clock
from controller.hazards.loading import load_checked_rig
from controller.journal.file import JournalFile
from controller.journal.journal import Journal
from controller.journal.terms import Row
from drivers.registry import MODELS
from drivers.transport.opener import open_real
from sim.virtual_time import MAX_SPEED, run_scaled


class MortalJournal(Journal):
    """A journal whose process dies at the run's `row`-th row, before it is queued or just after it is on the disk."""

    def __init__(self, path: Path, clock: Clock, *, row: int, before: bool) -> None:
        self._row = row
        self._before = before
        self._counted = OfRuns()
        super().__init__(path, clock, durable=True, threaded=True, file=MortalFile(path))

    def append(self, kind: str, body: Mapping[str, Any], *, run: str | None = None) -> int:
        """Append as :meth:`Journal.append`, unless the process dies here."""
        due = self._counted.counts(kind, body, run) and self._counted.rows == self._row
        if due and self._before:
            os.kill(os.getpid(), signal.SIGKILL)
        if due:
            assert isinstance(self.file, MortalFile)  # noqa: S101  (made above)
            self.file.dies_at = self.next_seq
        return super().append(kind, body, run=run)


class MortalFile(JournalFile):
    """A journal's file whose process dies, in the writer thread, as soon as row `dies_at` is committed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, durable=True, threaded=True)
        self.dies_at: int | None = None

    def commit(self, rows: Sequence[Row]) -> None:
        """Commit as :meth:`JournalFile.commit`; die after the deadly row, without those queued behind it."""
        dies_at = self.dies_at
        if dies_at is None or rows[-1].seq < dies_at:
            super().commit(rows)
            return
        super().commit([row for row in rows if row.seq <= dies_at])
        os.kill(os.getpid(), signal.SIGKILL)


class OfRuns:
    """Counts the rows of a run: its own, and the gate's about its commands. The regulators' rows fall between them
    at random.
    """

    def __init__(self) -> None:
        self.rows = 0
        self._actuators: set[str] = set()

    def counts(self, kind: str, body: Mapping[str, Any], run: str | None) -> bool:
        """Return whether a row counts, and count it."""
        if str(body.get("by", "")).startswith("run:"):
            self._actuators.add(body["actuator"])
        counts = run is not None or (kind.startswith("act") and body.get("actuator") in self._actuators)
        self.rows += counts
        return counts


def controller(served: Path, data: Path, *, speed: float, begun_s: float, row: int = 0, before: bool = False) -> None:
    """Run the rig file `served` until killed or asked to end; the whole of one process.

    Args:
        served: The rig file.
        data: Data folder.
        speed: Speed factor.
        begun_s: System time (s) of the trial's start, which is :data:`~choroid.simulation.simulate.EPOCH`.
        row: The run's row at which to die (0: none).
        before: Die before the row is written rather than just after.
    """
    rig = load_checked_rig(served, models=MODELS)
    data.mkdir(parents=True, exist_ok=True)
    since_s = (time.time() - begun_s) * speed  # noqa: TID251  (UTC continues between two processes)

    async def run() -> None:
        clock = Clock(follow_system=False, epoch=EPOCH + timedelta(seconds=since_s))
        journal = MortalJournal(data / "journal.db", clock, row=row, before=before)
        await keep(rig, data, "127.0.0.1", 0, open_real, clock=clock, journal=journal, time_scale=MAX_SPEED)

    if speed == 1.0:
        asyncio.run(run())
    else:
        run_scaled(run(), speed)
