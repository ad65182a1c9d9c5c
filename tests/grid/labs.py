"""A laboratory on a real engine process: its credentials are changed as the rig's controller changes them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from grid.hub.hub import Hub
from grid.lab.daemon import LabDaemon
from grid.lab.engine import EngineAccess
from nerves.credentials import AgentCredentials, AgentRole
from nerves.envelope import AgentBudget
from tests.grid.world import approved, running, until
from tests.nerves.test_gateway import Engine

PREFIX = "grid-"


class EngineDesk:
    """Issues credentials in the engine's file and lets the engine read it, as the controller does."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._credentials = AgentCredentials(engine.data, lambda: "2026-01-01T00:00:00Z")

    async def issue(self, name: str, role: str, electrodes: list[int] | None, budget: Mapping[str, float]) -> str:
        chosen = None if electrodes is None else tuple(electrodes)
        token = self._credentials.issue(name, AgentRole(role), electrodes=chosen, budget=AgentBudget(**budget))
        await self._reload()
        return token

    async def revoke(self, name: str) -> None:
        if (await self.names()).get(name):
            self._credentials.revoke(name)
            await self._reload()

    async def names(self) -> dict[str, bool]:
        return {each.name: not each.revoked_utc for each in self._credentials.every()}

    async def _reload(self) -> None:
        assert await asyncio.to_thread(self._order, {"agents": 1}) == {"done": 1}

    def _order(self, message: dict[str, Any]) -> Any:
        assert self._engine.process.stdin is not None
        assert self._engine.process.stdout is not None
        self._engine.process.stdin.write(json.dumps(message).encode() + b"\n")
        self._engine.process.stdin.flush()
        return json.loads(self._engine.process.stdout.readline())


@contextlib.asynccontextmanager
async def a_lab(folder: Path, hub: Hub, engine: Engine, name: str = "lab") -> AsyncIterator[LabDaemon]:
    """An approved laboratory that offers the organoid o1."""
    access = EngineAccess(engine.data, EngineDesk(engine), PREFIX)
    daemon = LabDaemon(await approved(folder, hub, name, "lab"), access, "o1")
    async with running(daemon.run()) as task:
        await until(
            lambda: task.done() or any(t.connected and t.offer.stimulation for t in hub.dispatch.tissues().tissues)
        )
        if task.done():
            task.result()
        yield daemon
