"""Notification of people: the notifier and the heartbeat to an external monitor, as one part of the controller.

The monitor is a service on another machine (healthchecks.io, Uptime Kuma and many others) that expects a request at a fixed
interval and notifies people if none comes, because this computer, its network or its control loop has stopped. The heartbeat
stops if the control loop does not tick, so that silence raises an alarm (L6).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from controller.alarms.states import Alarms
from controller.core.clock import Clock
from controller.delivery.channels import DeliveryOutcome, channels_of, ping
from controller.delivery.notifier import Notifier
from controller.delivery.store import NoticeStore
from controller.rig.description import Rig
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


class People:
    """The notifier and the heartbeat to an external monitor."""

    def __init__(self, notifier: Notifier, monitor: Monitor | None) -> None:
        self._notifier = notifier
        self._monitor = monitor

    def update(self, alarms: Alarms) -> None:
        """Follow the alarms. Called at each tick; returns at once."""
        if self._monitor is not None:
            self._monitor.ticked()
        self._notifier.update(alarms)

    def causes(self) -> dict[tuple[str, str], str]:
        """Return the alarms about delivery itself: detail by (kind, source)."""
        causes = self._notifier.causes()
        if self._monitor is not None and self._monitor.problem is not None:
            causes["monitor_lost", "monitor"] = self._monitor.problem
        return causes

    def status(self) -> list[dict[str, Any]]:
        """Return every channel, for people."""
        return self._notifier.status()

    async def test(self, user: str) -> list[dict[str, Any]]:
        """Send the test message over every channel now."""
        return await self._notifier.test(user)

    async def run(self) -> None:
        """Deliver and ping until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._notifier.run(), name="alarms to people")
            if self._monitor is not None:
                group.create_task(self._monitor.run(), name="heartbeat to the external monitor")


def people_of(rig: Rig, data: Path, clock: Clock, record: Callable[[str, Mapping[str, Any]], object]) -> People:
    """Return the notification that the rig file asks for. `record` writes to the journal.

    Raises:
        ValueError: It asks for none.
    """
    spec = rig.alarms.notify
    if spec is None:
        raise ValueError(f"the rig file of {rig.name} has no alarms.notify")
    notifier = Notifier(
        spec,
        rig=rig.name,
        zone=ZoneInfo(rig.time_zone),
        channels=channels_of(rig),
        store=NoticeStore(data / "notices.db"),
        clock=clock,
        record=record,
    )
    monitor = None if spec.monitor is None else Monitor(spec.monitor, now_s=clock.now_s, ping=ping)
    return People(notifier, monitor)
