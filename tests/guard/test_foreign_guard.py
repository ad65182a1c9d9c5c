"""The guard of another rig at a rig's addresses, in real processes: it commands nothing and gives the links back (B4)."""

from __future__ import annotations

import asyncio
import signal
from functools import partial
from pathlib import Path

import yaml

from choroid.common.child import python
from choroid.simulation.lab import pointing_at
from sim.lab import SimulatedLab
from sim.serving import TcpClient
from tests.guard.plants import BENCH, RIG, Watched
from tests.guard.scene import Scene, scene

GIVES_WAY_S = 60.0
"""Time within which the other rig's guard leaves the links (docs/safety.md)."""
START_S = 40.0
"""Time of a controller's start on a busy machine."""


async def another_laboratory(at: Scene) -> tuple[SimulatedLab, Watched]:
    """Put another laboratory, with other serial numbers, at the addresses of the scene's one."""
    plant = Watched()
    lab = SimulatedLab(RIG, seed=6, plant=plant, identity="another")
    for link, endpoint in at.endpoints.items():
        client = partial(TcpClient, lab.lines[link])
        server = await asyncio.get_running_loop().create_server(client, "127.0.0.1", int(endpoint.rpartition(":")[2]))
        lab._servers.append(server)
    return lab, plant


async def test_B4_a_foreign_guard_commands_nothing_and_the_rigs_own_controller_starts(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        await at.guard()
        first = await at.puppet()
        await at.lab.close()
        first.send_signal(signal.SIGKILL)
        await at.until(lambda: "bringing rig" in at.log(), 40.0)
        await asyncio.sleep(2.0)
        lab, plant = await another_laboratory(at)
        await asyncio.sleep(5.0)
        assert plant.order == [], "nothing of the other laboratory was commanded"
        own = tmp_path / "own.yaml"
        described = yaml.safe_load(pointing_at(BENCH, at.endpoints))
        described.pop("nerves", None)
        own.write_text(yaml.safe_dump(described, sort_keys=False, allow_unicode=True))
        at.start(*python("choroid", "run", str(own), "--data", str(tmp_path / "own"), "--port", "0", "--no-restart"))
        await at.until(lambda: plant.told.get("reglo.heart", 0.0) > 1900.0, GIVES_WAY_S + START_S)
        assert "another rig answers" in at.log()
        await lab.close()
