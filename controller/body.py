"""The body: devices on supervised links, sampled each on its own period into the state store.

The devices on one link take turns, so a slow one delays its neighbours by its own time-out and no more (C3); links do not
wait for each other at all. The actuators are handed to the gate once and kept by nobody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from controller.connect import Connected, Failure, connect
from controller.rig.description import Rig
from controller.state import StateStore
from drivers.device import Actuator, DeviceError, Quality, Sensor, Status
from drivers.transport.opener import Opener


@dataclass(slots=True)
class _Work:
    """One device's turn: what is read, how often, when next."""

    device: str
    every_s: float
    next_s: float
    sensors: list[tuple[str, Sensor]]
    actuators: list[tuple[str, Actuator]]


class Body:
    """A connected rig. Make it with :meth:`connect`."""

    def __init__(self, rig: Rig, connected: Connected, store: StateStore) -> None:
        self.rig = rig
        self.failures: list[Failure] = connected.failures
        self._connected = connected
        self._store = store
        self._tasks: list[asyncio.Task[None]] = []
        self._given = False

    @classmethod
    async def connect(cls, rig: Rig, opener: Opener, store: StateStore) -> Body:
        """Connect every device of `rig`; see :func:`controller.connect.connect`."""
        return cls(rig, await connect(rig, opener), store)

    @property
    def transactions(self) -> int:
        """Requests on all links so far."""
        return sum(link.transactions for link in self._connected.links.values())

    def hand_over_actuators(self) -> dict[str, Actuator]:
        """Every actuator by `device.point`, once: to the gate."""
        if self._given:
            raise RuntimeError("the actuators were handed over already; only the gate may hold them")
        self._given = True
        return {
            f"{name}.{point}": actuator
            for name, device in self._connected.devices.items()
            for point, actuator in device.actuators.items()
        }

    def begin(self, saw: Callable[[str, Status], None]) -> None:
        """Start sampling; `saw` hears every actuator's status."""
        loop = asyncio.get_running_loop()
        for link_name in self._connected.links:
            works = []
            for name, spec in self.rig.devices.items():
                if spec.link == link_name:
                    device = self._connected.devices[name]
                    sensors = [(f"{name}.{point}", sensor) for point, sensor in device.sensors.items()]
                    actuators = [(f"{name}.{point}", actuator) for point, actuator in device.actuators.items()]
                    works.append(_Work(name, spec.every_s, loop.time(), sensors, actuators))
            self._tasks.append(asyncio.create_task(self._sample(works, saw), name=f"sampling {link_name}"))
        self.see_links()

    def see_links(self) -> None:
        """Tell the store how the links stand."""
        for name, link in self._connected.links.items():
            self._store.link(name, link.state.value)

    def tick(self) -> None:
        """Once a second: how the links stand."""
        self.see_links()

    async def _sample(self, works: list[_Work], saw: Callable[[str, Status], None]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            work = min(works, key=lambda each: each.next_s)
            wait_s = work.next_s - loop.time()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            begun_s = loop.time()
            # Periods are kept on their grid; a turn that came late is not made up for.
            work.next_s += work.every_s * max(1, int((begun_s - work.next_s) / work.every_s) + 1)
            await self._turn(work, saw)

    async def _turn(self, work: _Work, saw: Callable[[str, Status], None]) -> None:
        store = self._store
        loop = asyncio.get_running_loop()
        for point, sensor in work.sensors:
            try:
                value = await sensor.read()
            except DeviceError as error:
                store.failed(point, sensor.unit, str(error))
            else:
                store.read(point, value, sensor.unit, sensor.quality, loop.time())
        for name, actuator in work.actuators:
            try:
                saw(name, await actuator.status())
            except DeviceError as error:
                store.failed(f"{name}.status", "", str(error))
            else:
                store.read(f"{name}.status", 0.0, "", Quality.GOOD, loop.time())

    async def close(self, *, leave_running: bool) -> None:
        """Stop sampling and close the links; unless `leave_running`, turn every output off first (A3)."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        if not leave_running:
            for device in self._connected.devices.values():
                try:
                    async with asyncio.timeout(2.0):
                        await device.close()
                except (DeviceError, TimeoutError):
                    continue  # it is already out of reach; the others still have to be turned off
        await asyncio.gather(*(link.close() for link in self._connected.links.values()))
