"""A lab on TCP in this process, and a guard with a controller, or a puppet of one, in processes of their own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from choroid.common.child import python
from choroid.simulation.lab import pointing_at
from controller.guard.guarding import guard_plan
from controller.guard.wire import LOG, PLAN, connect, receive, send
from controller.links.connect import connect as connect_rig
from controller.links.ownership import OWNER, holders
from controller.rig.loading import load_rig
from drivers.registry import MODELS
from drivers.transport.opener import open_real
from sim.lab import SimulatedLab
from tests.guard.plants import BENCH, RIG, Watched
from tests.processes import waited_s

PUPPET = Path(__file__).with_name("puppet.py")
BUSY = 4.0
"""Limits are those of a quiet machine; a busy one gets so many times as long before a test fails."""


class Scene:
    """See the module. What is started here is ended with the scene."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.rig = folder / "lab.yaml"
        self.plant = Watched()
        self.lab = SimulatedLab(RIG, seed=5, plant=self.plant)
        self.processes: list[subprocess.Popen[bytes]] = []
        self.endpoints: dict[str, str] = {}
        self._folder = folder

    async def begin(self) -> None:
        self.data.mkdir()
        self.endpoints = await self.lab.serve_tcp()
        described: dict[str, Any] = yaml.safe_load(pointing_at(BENCH, self.endpoints))
        described.pop("nerves", None)  # its engine is a process of its own
        self.rig.write_text(yaml.safe_dump(described, sort_keys=False, allow_unicode=True))
        rig = load_rig(self.rig, models=MODELS)
        (self.data / PLAN).write_text(guard_plan(rig).to_json())
        connected = await connect_rig(rig, open_real)  # what a controller would know of its devices; for the puppet
        assert not connected.failures, connected.failures
        known = {name: each.identity for name, each in connected.devices.items() if each.identity is not None}
        told = {name: [identity.model, identity.serial] for name, identity in known.items()}
        (self.data / "known.json").write_text(json.dumps(told))
        await asyncio.gather(*(link.close() for link in connected.links.values()))

    def start(self, *words: str, cwd: Path | None = None) -> subprocess.Popen[bytes]:
        with (self._folder / "processes.log").open("ab") as log:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=cwd)
        self.processes.append(process)
        return process

    async def guard(self, *words: str, before: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
        process = self.start(*before, *python("controller.guard", str(self.data / PLAN), *words))
        await self.until(lambda: self.status() is not None, 20.0)
        return process

    async def puppet(self, *words: str) -> subprocess.Popen[bytes]:
        process = self.start(sys.executable, str(PUPPET), str(self.data), *words)
        await self.until(lambda: (self.status() or {}).get("controller") == process.pid, 20.0)
        await asyncio.sleep(0.3)  # its control ticks
        return process

    async def own_guard(self, *words: str) -> tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]:
        """A guard that belongs to a puppet, which is there first; and the puppet."""
        puppet = self.start(sys.executable, str(PUPPET), str(self.data), *words)
        await self.until(lambda: bool(holders(self.data / OWNER)), 20.0)
        guard = await self.guard("--own")
        await self.until(lambda: (self.status() or {}).get("controller") == puppet.pid, 20.0)
        await asyncio.sleep(0.3)
        return guard, puppet

    async def controller(
        self, *words: str, before: tuple[str, ...] = (), restart: str = "--no-restart"
    ) -> subprocess.Popen[bytes]:
        """A real one, when its heart beats at its set-point and its heater has been on."""
        words = ("run", str(self.rig), "--data", str(self.data), "--port", "0", restart, *words)
        process = self.start(*before, *python("choroid", *words))
        await self.until(lambda: (self.data / "endpoint.json").exists() and self.at_work(), 60.0)
        return process

    def at_work(self) -> bool:
        return self.plant.told.get("reglo.heart", 0.0) > 1900.0 and not self.plant.at_basal()

    def status(self) -> dict[str, Any] | None:
        """What the guard says of itself; None when there is none, or it does not answer."""
        answer: dict[str, Any] | None = self.ask({"status": True}, "status")
        return answer

    def ask(self, message: dict[str, Any], answer: str, *, seconds: float = 1.0) -> Any:
        """Say something to the guard as the command line does."""
        try:
            connection = connect(self.data)
        except OSError:
            return None
        with connection, suppress(OSError):
            send(connection, message)
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                for said in receive(connection) or []:
                    return said.get(answer)
                time.sleep(0.01)
        return None

    async def basal(self, seconds: float = 15.0) -> float:
        """How long it takes until the rig is at its basal state (s), less the time in which this lab had no processor."""
        starved_s = waited_s()
        return await self.until(self.plant.at_basal, seconds) - (waited_s() - starved_s)

    async def until(self, true: Callable[[], bool], seconds: float) -> float:
        begun = time.monotonic()
        while not true():
            if time.monotonic() - begun > BUSY * seconds:
                pytest.fail(
                    f"it did not happen within {BUSY * seconds:g} s\n{self.log()}\n{self.said()}\n{self.plant.told}"
                )
            await asyncio.sleep(0.02)
        return time.monotonic() - begun

    def alarms(self) -> list[str]:
        """The alarms that the journal names."""
        database = sqlite3.connect(f"file:{self.data / 'journal.db'}?mode=ro", uri=True)
        try:
            return [body for (body,) in database.execute("SELECT body FROM entries WHERE kind LIKE 'alarm.%'")]
        finally:
            database.close()

    def log(self) -> str:
        path = self.data / LOG
        return path.read_text() if path.is_file() else ""

    def said(self) -> str:
        return (self._folder / "processes.log").read_text()

    async def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        # A detached guard is no child of this process; a test may have given a controller another folder of data.
        for words in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if os.fsencode(self._folder) in words.read_bytes():
                    os.kill(int(words.parent.name), signal.SIGKILL)
        await self.lab.close()


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Scene]:
    made = Scene(folder)
    await made.begin()
    try:
        yield made
    finally:
        await made.end()
