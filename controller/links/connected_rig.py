"""The connected rig: devices on supervised links, each sampled at its own period into the state.

Each link has one plan: its devices take turns, so a slow one delays its neighbours by its own time-out at most (C3), and all
channels of a device are read in one turn. Links are independent of each other, but all periods count from one moment: what is
due at the same time on several links is read at the same time, and most ticks have nothing new to judge. The actuators are
handed to the gate once, and their status is read through it.

A device is read at its full rate, unless the caller confirms at each tick that the rig is at rest
(:meth:`ConnectedRig.rest`). Without this confirmation, whatever the cause, sampling returns to the full rate.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType

from controller.core.state import StateStore
from controller.links.connect import Connected, Failure, connect
from controller.rig.description import Rig
from drivers.commands import PumpStatus
from drivers.device import Actuator, Calibrator, Identity, Sensor
from drivers.errors import BadReply, DeviceError
from drivers.probe_health import ProbeHealth
from drivers.results import ResultSource
from drivers.transport.opener import Opener

logger = logging.getLogger(__name__)

SOON_S = 0.25
"""Delay of a repeated read (s): longer than any driver reuses one reply for several points."""
MAX_READS = 3
"""Maximum number of reads of a point within one turn, if a reading was garbled or needs confirmation (I9)."""

ROUNDING = 1e-6
"""Share of a period by which a turn may begin early, because times are rounded, and still count as in time."""

_next_s = attrgetter("next_s")

Poll = Callable[[str], Awaitable[None]]
"""Reads the status of one actuator; see :meth:`controller.gate.gate.Gate.poll`."""


@dataclass(slots=True)
class _Work:
    """The sampling of one device.

    Its periods at full rate and at rest (s), the times of its last and next turn (loop s), its sensors and actuators.
    """

    every_s: float
    rest_s: float
    last_s: float
    next_s: float
    sensors: list[tuple[str, Sensor]]
    actuators: list[str]


class ConnectedRig:
    """A connected rig. Create it with :meth:`connect`."""

    def __init__(self, rig: Rig, connected: Connected, store: StateStore) -> None:
        self.rig = rig
        self._works: dict[str, list[_Work]] = {}
        self._pauses: dict[str, asyncio.Future[None]] = {}
        self._rest_until_s = float("-inf")
        self._begun_s = 0.0
        """When sampling began (loop s): all periods count from here."""
        self.failures: list[Failure] = connected.failures
        self._links = connected.links
        self._devices = connected.devices
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
        self.results: Mapping[str, ResultSource] = {
            name: device.results for name, device in connected.devices.items() if device.results is not None
        }
        """Results of samples, by analyser; no sampling asks for them."""
        self.health: Mapping[str, ProbeHealth] = {
            name: device.health for name, device in connected.devices.items() if device.health is not None
        }
        """The health that probes report of themselves, by device; it is asked for seldom."""
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
        """Number of requests on all links so far."""
        return sum(link.transactions for link in self._links.values())

    def verified(self) -> dict[str, Identity]:
        """Return the identity of each device that is verified now: on a link that is open, and was not lost since."""
        return {
            name: device.identity
            for name, device in self._devices.items()
            if device.conversation.verified and device.identity is not None
        }

    def counted(self) -> dict[str, float]:
        """Return the volume that each pump itself had counted when it last answered (µL); of those that count."""
        statuses = ((name, view.status) for name, view in self._store.actuators.items())
        return {
            name: status.delivered_ul
            for name, status in statuses
            if isinstance(status, PumpStatus) and not status.host_counted
        }

    def hand_over_actuators(self) -> dict[str, Actuator]:
        """Return every actuator by `device.point`, once: to the gate. None is kept here."""
        actuators, self._actuators = self._actuators, None
        if actuators is None:
            raise RuntimeError("the actuators were handed over already; only the gate may hold them")
        return actuators

    def hand_over_calibrators(self) -> dict[str, Calibrator]:
        """Return every probe's calibrator by `device.point`, once: to the gate. None is kept here."""
        calibrators, self._calibrators = self._calibrators, None
        if calibrators is None:
            raise RuntimeError("the calibrators were handed over already; only the gate may hold them")
        return calibrators

    async def begin(self, poll: Poll, rest_s: Mapping[str, float] = MappingProxyType({})) -> None:
        """Start sampling. Return when every device has been sampled once.

        Args:
            poll: reads the status of an actuator.
            rest_s: the period at rest of each device (s); a device without one is always read at its full rate.
        """
        now_s = self._begun_s = asyncio.get_running_loop().time()
        first: list[asyncio.Event] = []
        for link in self._links:
            works = [
                _Work(
                    spec.every_s,
                    rest_s.get(name, spec.every_s),
                    now_s,
                    now_s,
                    self._sensors[name],
                    [point for point in self._actuator_names if point.partition(".")[0] == name],
                )
                for name, spec in self.rig.devices.items()
                if spec.link == link
            ]
            done = asyncio.Event()
            first.append(done)
            self._works[link] = works
            self._tasks.append(asyncio.create_task(self._sample(link, works, poll, done), name=f"sampling {link}"))
        for done in first:
            await done.wait()
        self.see_links()

    def see_links(self) -> None:
        """Record the state of the links."""
        for name, link in self._links.items():
            self._store.link(name, link.state.value)

    def count_from(self, at_s: float) -> None:
        """Count all periods from `at_s` (loop s), the first tick: what is asked right after a tick is there at the next."""
        self._begun_s = at_s

    def rest(self, until_s: float) -> None:
        """Let devices be read at their periods at rest until `until_s` (loop s). The caller renews it at each tick."""
        self._rest_until_s = until_s

    def read_at_full_rate(self) -> None:
        """End the rest: every device that is due at its full rate is read now."""
        self._rest_until_s = float("-inf")
        for link, works in self._works.items():
            for work in works:
                work.next_s = min(work.next_s, work.last_s + work.every_s)
            pause = self._pauses.get(link)
            if pause is not None and not pause.done():
                pause.set_result(None)

    async def _sample(self, link: str, works: list[_Work], poll: Poll, first: asyncio.Event) -> None:
        for work in works:
            work.next_s += work.every_s
            await self._turn(work, poll)
        first.set()
        loop = asyncio.get_running_loop()
        while True:
            work = min(works, key=_next_s)
            if work.next_s > loop.time():
                await self._pause(link, work.next_s)
                continue  # another device, or the same one sooner, may be due after :meth:`read_at_full_rate`
            now_s = loop.time()
            period_s = work.rest_s if now_s < self._rest_until_s else work.every_s
            work.last_s = work.next_s
            # A late turn is not made up for.
            work.next_s = self._begun_s + period_s * (int((now_s - self._begun_s) / period_s + ROUNDING) + 1)
            await self._turn(work, poll)

    async def _pause(self, link: str, until_s: float) -> None:
        """Return at `until_s` (loop s), or sooner when :meth:`read_at_full_rate` is called."""
        loop = asyncio.get_running_loop()
        self._pauses[link] = pause = loop.create_future()
        timer = loop.call_at(until_s, _end, pause)
        try:
            await pause
        finally:
            timer.cancel()

    async def _turn(self, work: _Work, poll: Poll) -> None:
        for point, sensor in work.sensors:
            again = False
            for reads in range(MAX_READS):
                if reads:
                    await asyncio.sleep(SOON_S)
                again = await self._read(point, sensor, again)
                if not again:
                    break
        for name in work.actuators:
            await poll(name)

    async def _read(self, point: str, sensor: Sensor, again: bool) -> bool:
        """Read a sensor once and record the result. Return whether to read it again at once.

        `again` is the answer of the read before, within the same turn.
        """
        try:
            value = await sensor.read()
        except DeviceError as error:
            self._store.failed(point, sensor.unit, str(error))
            # A garbled reply may be followed by a good one; a silent device would only delay others.
            return again or isinstance(error, BadReply)
        except Exception as error:
            # A defect in one driver must cost only that driver's readings (C3).
            logger.exception("driver of %s failed while it was read", point)
            self._store.failed(point, sensor.unit, f"its driver fails: {error!r}")
            return False
        at_s = asyncio.get_running_loop().time()
        return self._store.read(point, value, sensor.unit, sensor.quality, at_s, stable=sensor.stable)

    async def close(self) -> None:
        """Stop sampling and close the links. Outputs keep the state that the gate has commanded."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await asyncio.gather(*(link.close() for link in self._links.values()))


def _end(pause: asyncio.Future[None]) -> None:
    if not pause.done():
        pause.set_result(None)
