"""`python -m choroid.kills.host`: what `choroid run` keeps, faster than life, in a process that kills itself at a row.

The only way to such a journal is this module: neither an option nor a variable of the environment leads there from
`choroid run`. The process gets SIGKILL from itself, in :meth:`MortalJournal.append`, so that no instant lies between the
row and the end; another process could only aim.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from choroid.run import keep
from controller.clock import Clock
from controller.execution.journal import Journal
from controller.rig.loading import load_rig
from drivers.registry import MODELS
from drivers.transport.opener import open_real
from sim.virtual_time import MAX_SPEED, run_scaled


class MortalJournal(Journal):
    """A journal whose process dies at the run's `row`-th row, before it is written or right after."""

    def __init__(self, path: Path, clock: Clock, *, row: int, before: bool) -> None:
        super().__init__(path, clock, durable=True)
        self._row = row
        self._before = before
        self._counted = OfRuns()

    def append(self, kind: str, body: Mapping[str, Any], *, run: str | None = None) -> int:
        """As :meth:`Journal.append`, once at the most."""
        due = self._counted.counts(kind, body, run) and self._counted.rows == self._row
        if due and self._before:
            os.kill(os.getpid(), signal.SIGKILL)
        seq = super().append(kind, body, run=run)
        if due:
            os.kill(os.getpid(), signal.SIGKILL)
        return seq


class OfRuns:
    """Counts the rows that come of a run: its own, and the gate's about what the run commands. The regulators' rows fall
    between them at no fixed place.
    """

    def __init__(self) -> None:
        self.rows = 0
        self._actuators: set[str] = set()

    def counts(self, kind: str, body: Mapping[str, Any], run: str | None) -> bool:
        """Whether a row counts; it has been counted then."""
        if str(body.get("by", "")).startswith("run:"):
            self._actuators.add(body["actuator"])
        counts = run is not None or (kind.startswith("act") and body.get("actuator") in self._actuators)
        self.rows += counts
        return counts


def main() -> None:
    """Run until killed."""
    parser = argparse.ArgumentParser(prog="python -m choroid.kills.host")
    parser.add_argument("rig", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--speed", type=float, required=True)
    parser.add_argument("--epoch", required=True, help="UTC (ISO 8601) when the trial began")
    parser.add_argument("--begun", type=float, required=True, help="system time (s) when it began")
    parser.add_argument("--row", type=int, default=0, help="the run's row at which to die (0: none)")
    parser.add_argument("--before", action="store_true", help="before the row is written, rather than right after")
    words = parser.parse_args()
    rig = load_rig(words.rig, models=MODELS)
    words.data.mkdir(parents=True, exist_ok=True)
    since_s = (time.time() - words.begun) * words.speed  # noqa: TID251  (UTC runs on between two processes of a trial)

    async def run() -> None:
        clock = Clock(follow_system=False, epoch=datetime.fromisoformat(words.epoch) + timedelta(seconds=since_s))
        journal = MortalJournal(words.data / "journal.db", clock, row=words.row, before=words.before)
        await keep(rig, words.data, "127.0.0.1", 0, open_real, clock=clock, journal=journal, time_scale=MAX_SPEED)

    if words.speed == 1.0:
        asyncio.run(run())
    else:
        run_scaled(run(), words.speed)


if __name__ == "__main__":
    main()
