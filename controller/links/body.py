"""The body: devices on supervised links, sampled each on its own period into the state store.

The devices on one link take turns, so a slow one delays its neighbours by its own time-out and no more (C3); links do not
wait for each other at all. The actuators are handed to the gate once, and their status is asked for through it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from controller.core.state import StateStore
from controller.links.connect import Connected, Failure, connect
from controller.rig.description import Rig
from drivers.device import Actuator, Calibrator, Sensor
from drivers.errors import BadReply, DeviceError
from drivers.transport.opener import Opener

logger = logging.getLogger(__name__)

SOON_S = 0.25
"""So soon is a point read again: later than any driver serves several points from one reply."""
READS_MOST = 3
"""So often is a point read within one turn of its device, when a reading was garbled or waits to be confirmed (I9)."""

Poll = Callable[[str], Awaitable[None]]
"""Asks one actuator how it stands; see :meth:`controller.gate.gate.Gate.poll`."""


@dataclass(slots=True)
class _Work:
    """One device's turn: what is read, how often (s), when next (loop seconds)."""

    every_s: float
    next_s: float
    sensors: list[tuple[str, Sensor]]
    actuators: list[str]


class ConnectedRig:
    """A connected rig. Make it with :meth:`connect`."""

    def __init__(self, rig: Rig, connected: Connected, store: StateStore) -> None:
        self.rig = rig
        self.failures: list[Failure] = connected.failures
        self._links = connected.links
        self._store = store
        self._tasks: list[asyncio.Task[None]] = []
        self._sensors = {
            name: [(f"{name}.{point}", sensor) for point, sensor in device.sensors.items()]
            for name, device in connected.devices.items()
        }
        self._actuators: dict[str, Actuator] | None = {
            f"{name}.{point}": actuator
            for name, device in connected.devices.items()
            for point, actuator in device.actuators.items()
        }
        self._actuator_names = tuple(self._actuators)
        self._calibrators: dict[str, Calibrator] | None = {
            f"{name}.{point}": calibrator
            for name, device in connected.devices.items()
            for point, calibrator in device.calibrators.items()
        }

    @classmethod
    async def connect(cls, rig: Rig, opener: Opener, store: StateStore) -> ConnectedRig:
        """Connect every device of `rig`; see :func:`controller.links.connect.connect`."""
        return cls(rig, await connect(rig, opener), store)

    @property
    def transactions(self) -> int:
        """Requests on all links so far."""
        return sum(link.transactions for link in self._links.values())

    def hand_over_actuators(self) -> dict[str, Actuator]:
        """Every actuator by `device.point`, once: to the gate. The body keeps none."""
        actuators, self._actuators = self._actuators, None
        if actuators is None:
            raise RuntimeError("the actuators were handed over already; only the gate may hold them")
        return actuators

    def hand_over_calibrators(self) -> dict[str, Calibrator]:
        """Every probe's calibration by `device.point`, once: to the gate. The body keeps none."""
        calibrators, self._calibrators = self._calibrators, None
        if calibrators is None:
            raise RuntimeError("the calibrators were handed over already; only the gate may hold them")
        return calibrators

    async def begin(self, poll: Poll) -> None:
        """Start sampling; returns when every device has had its first turn."""
        now_s = asyncio.get_running_loop().time()
        first: list[asyncio.Event] = []
        for link in self._links:
            works = [
                _Work(
                    spec.every_s,
                    now_s,
                    self._sensors[name],
                    [point for point in self._actuator_names if point.partition(".")[0] == name],
                )
                for name, spec in self.rig.devices.items()
                if spec.link == link
            ]
            done = asyncio.Event()
            first.append(done)
            self._tasks.append(asyncio.create_task(self._sample(works, poll, done), name=f"sampling {link}"))
        for done in first:
            await done.wait()
        self.see_links()

    def see_links(self) -> None:
        """Tell the store how the links stand."""
        for name, link in self._links.items():
            self._store.link(name, link.state.value)

    async def _sample(self, works: list[_Work], poll: Poll, first: asyncio.Event) -> None:
        for work in works:
            work.next_s += work.every_s
            await self._turn(work, poll)
        first.set()
        loop = asyncio.get_running_loop()
        while True:
            work = min(works, key=lambda each: each.next_s)
            wait_s = work.next_s - loop.time()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            # Periods are kept on their grid; a turn that came late is not made up for.
            work.next_s += work.every_s * max(1, int((loop.time() - work.next_s) / work.every_s) + 1)
            await self._turn(work, poll)

    async def _turn(self, work: _Work, poll: Poll) -> None:
        store = self._store
        loop = asyncio.get_running_loop()
        for point, sensor in work.sensors:
            again = False
            for reads in range(READS_MOST):
                if reads:
                    await asyncio.sleep(SOON_S)
                try:
                    value = await sensor.read()
                except DeviceError as error:
                    store.failed(point, sensor.unit, str(error))
                    # One that answers badly may answer well at once; one that is silent would only keep others waiting.
                    again = again or isinstance(error, BadReply)
                except Exception as error:
                    # A defect in one driver costs that driver's readings and nobody else's (C3).
                    logger.exception("reading %s", point)
                    store.failed(point, sensor.unit, f"its driver fails: {error!r}")
                    break
                else:
                    again = store.read(point, value, sensor.unit, sensor.quality, loop.time(), stable=sensor.stable)
                if not again:
                    break
        for name in work.actuators:
            await poll(name)

    async def close(self) -> None:
        """Stop sampling and close the links. Outputs stay as the gate has left them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await asyncio.gather(*(link.close() for link in self._links.values()))
