"""The heartbeat to an external monitor. It stops if the control loop does not tick, so that silence raises an alarm (L6).

The monitor is a service on another machine (healthchecks.io, Uptime Kuma and many others) that expects a request at a fixed
interval and notifies people if none comes, because this computer, its network or its control loop has stopped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from controller.delivery.channels import DeliveryOutcome
from controller.rig.notify import MonitorSpec

logger = logging.getLogger(__name__)

STALE_S = 5.0
"""Maximum time (s) since the last tick of a live control loop (D6)."""


class Monitor:
    """Pings while the control loop ticks. Start `run` as a separate task, and call `ticked` at each tick."""

    def __init__(
        self,
        spec: MonitorSpec,
        *,
        now_s: Callable[[], float],
        ping: Callable[[MonitorSpec], Awaitable[DeliveryOutcome]],
    ) -> None:
        self._spec = spec
        self._now_s = now_s
        self._ping = ping
        self._ticked_s = float("-inf")
        self.pings = 0
        """Number of confirmed pings since the start."""
        self.problem: str | None = None

    def ticked(self) -> None:
        """Record a tick of the control loop."""
        self._ticked_s = self._now_s()

    async def run(self) -> None:
        """Ping until cancelled."""
        while True:
            if self._now_s() - self._ticked_s <= STALE_S:
                outcome = await self._ping(self._spec)
                self.pings += outcome.ok
                if not outcome.ok and self.problem is None:
                    logger.warning("the external monitor was not reached: %s", outcome.detail)
                self.problem = None if outcome.ok else outcome.detail
                await asyncio.sleep(self._spec.every_s)
            else:
                await asyncio.sleep(1.0)
