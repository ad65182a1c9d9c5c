"""Checkpoints of the journal while a controller runs: signed by a child process, at the start and then every hour.

The child reads the journal as any reader does, at a low priority. Whatever happens to it is an alarm; the rig is cared for
without it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from choroid.common.child import python
from controller.process.edges import Up
from controller.rig.audit import AuditSpec

EVERY_S = 3600.0
RETRY_S = 300.0
NICENESS = 10
"""Of the child: the controller goes first."""


class Notary:
    """Asks for checkpoints of one data folder. No failure ends it."""

    def __init__(self, data: Path, rig: str, places: AuditSpec) -> None:
        words = ["audit", "witness", "--json", "--data", str(data), "--rig-name", rig]
        words += ["--key", places.key] if places.key else []
        words += [word for each in places.witnesses for word in ("--to", each)]
        words += [word for each in places.hubs for word in ("--hub", each.key, each.at)]
        if places.time_stamps is not None:
            words += ["--time-stamps", places.time_stamps.url, places.time_stamps.certificates]
        self._command = python("choroid", *words)
        self.causes: Mapping[tuple[str, str], str] = {}
        """The present causes of alarms."""
        self.rounds = 0

    async def run(self, up: Up) -> None:
        """Ask until cancelled; the first time at once. A round may take as long as the machine is busy."""
        up()
        while True:
            self.causes = await self._round()
            self.rounds += 1
            await asyncio.sleep(RETRY_S if self.causes else EVERY_S)

    async def _round(self) -> Mapping[tuple[str, str], str]:
        try:
            child = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            return _failed(f"no process can be started ({error})")
        with contextlib.suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, child.pid, NICENESS)
        try:
            output, errors = await child.communicate()
        except asyncio.CancelledError:
            child.kill()
            await child.wait()
            raise
        try:
            answer = json.loads(output)
            faults, troubles = list(answer["faults"]), list(answer["troubles"])
        except (ValueError, KeyError, TypeError):
            return _failed(
                errors.decode(errors="replace").strip()[-1000:] or f"it ended with status {child.returncode}"
            )
        if faults:
            return {("journal_contradicted", "journal"): "; ".join(map(str, faults))}
        return _failed("; ".join(map(str, troubles))) if troubles else {}


def _failed(why: str) -> Mapping[tuple[str, str], str]:
    return {("checkpoint_failed", "journal"): why.removeprefix("choroid: ")}
