"""The nerves of a rig in real time: a `NervesSource` over the electrode engine's process, started in the background.

The page and the perfusion never wait for the engine: until it is ready, and whenever it is gone, there is simply no
summary, which lowers the coverage of scores.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

from choroid.nerves_process import ENDPOINT, EngineHandle, spawn_engine
from controller.nerves.client import GatewayNerves
from controller.nerves.summary import NervesSummary
from controller.rig.description import Rig
from sim.plant.plant import Plant

logger = logging.getLogger(__name__)


class EngineNerves:
    """The engine's process and the connection to its door, as one source."""

    def __init__(self, rig: Rig, data_dir: Path, seed: int) -> None:
        self._rig = rig
        self._data_dir = data_dir
        self._seed = seed
        self._engine: EngineHandle | None = None
        self._gateway: GatewayNerves | None = None

    @property
    def engine(self) -> EngineHandle | None:
        """The engine's process once it is ready: address and token of the door."""
        return self._engine

    async def start(self) -> None:
        """Start the engine and connect; a failure is logged and leaves the rig without nerves, never without care."""
        try:
            self._engine = await spawn_engine(self._rig, self._data_dir, self._seed)
            self._gateway = GatewayNerves(self._engine.address, self._engine.token)
            print(
                f"Nerves: the door for agents is {self._engine.address}; {self._data_dir / ENDPOINT} holds a token",
                file=sys.stderr,
                flush=True,
            )
        except Exception:
            logger.exception("the electrode engine did not start; the rig goes on without nerves")

    async def summary(self) -> NervesSummary | None:
        """The latest firing summary, or None while the engine is not there."""
        return await self._gateway.summary() if self._gateway else None

    def recent_spikes(self) -> list[tuple[float, int]]:
        """The last seconds' spikes (seconds, electrode)."""
        return self._gateway.recent_spikes() if self._gateway else []

    async def close(self) -> None:
        """Disconnect and end the engine's process."""
        if self._gateway is not None:
            await self._gateway.close()
        if self._engine is not None:
            await self._engine.close()


async def follow_health(nerves: EngineNerves, plant: Plant, stop: asyncio.Event) -> None:
    """Tell the simulated array, once a second of real life or so, how lively the plant's tissue is.

    This is the simulator's own back channel (tissue to electrodes); the controller has no part in it.
    """
    while not stop.is_set():
        if nerves.engine is not None:
            nerves.engine.set_health(plant.firing_scale)
        await asyncio.sleep(60.0)
