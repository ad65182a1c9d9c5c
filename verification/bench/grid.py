"""Latency of agents of the grid, cost of the sandbox, a hub with many members; see `grid.commands.latency` and `bench`."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from choroid.common.examples import bench_rig
from choroid.common.extras import load_extra
from choroid.running.nerves_handle import EngineHandle, spawn_engine
from controller.core.clock import Clock
from controller.rig.loading import load_rig
from nerves.credentials import AgentCredentials, AgentRole
from nerves.envelope import AgentBudget
from verification.bench.reflex import spike_graph
from verification.bench.sandbox import bench_sandbox

MEMBERS = 1000
DELAYS_S = (0.0, 0.02)


def bench_grid() -> dict[str, Any]:
    """Run all of them; takes some minutes. Keys carry the unit."""
    return {
        **asyncio.run(_latencies()),
        **{f"sandbox_{name}": value for name, value in bench_sandbox().items()},
        **{f"hub_{name}": value for name, value in _part("bench").bench(MEMBERS).items()},
    }


class _Desk:
    """Issues credentials of a running engine, as the controller does."""

    def __init__(self, engine: EngineHandle, data: Path) -> None:
        self._engine = engine
        self._credentials = AgentCredentials(data, Clock(follow_system=True).utc_text)

    async def issue(self, name: str, role: str, electrodes: list[int] | None, budget: Mapping[str, float]) -> str:
        """Add an agent; return its token."""
        chosen = None if electrodes is None else tuple(electrodes)
        token = self._credentials.issue(name, AgentRole(role), electrodes=chosen, budget=AgentBudget(**budget))
        await self._engine.apply_agents()
        return token

    async def revoke(self, name: str) -> None:
        """Revoke an agent."""
        if (await self.names()).get(name):
            self._credentials.revoke(name)
            await self._engine.apply_agents()

    async def names(self) -> dict[str, bool]:
        """Return every agent's name, and whether it is valid."""
        return {each.name: not each.revoked_utc for each in self._credentials.every()}


async def _latencies() -> dict[str, Any]:
    rig = load_rig(bench_rig())
    with tempfile.TemporaryDirectory() as text:
        data = Path(text)
        engine = await spawn_engine(rig, data, 1)
        try:
            graph = spike_graph(rig.nerves.electrodes if rig.nerves else 0)
            figures: dict[str, Any] = await _part("latency").latency(data, _Desk(engine, data), graph, DELAYS_S)
            return figures
        finally:
            await engine.close()


def _part(name: str) -> Any:
    return load_extra(
        f"grid.commands.{name}", "grid", needed_for="the benchmark “grid”", otherwise="run the others by name"
    )
