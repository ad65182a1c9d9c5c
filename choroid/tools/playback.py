"""Replay of one link of a capture in virtual time: the same events, in the same order, at the same times.

Events that affected the driver (line opened or lost, bytes received, calls of the driver begun and cancelled)
are repeated. Actions of the driver (bytes sent, calls ended) are waited for: much happens at one loop time, and
the order of a new call and the end of another decides which bytes are sent first.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from drivers.commands import Command, Dispense, Level, Run, Stop, Switch
from drivers.conformance.peer import Peer
from drivers.device import Device
from drivers.errors import DeviceError
from drivers.transport.opener import Streams
from drivers.transport.url import LineSettings, LinkUrl

COMMANDS: Mapping[str, type[Command]] = {each.__name__: each for each in (Run, Dispense, Switch, Level, Stop)}
PATIENCE = 30
"""Maximum number of loop rounds, at one loop time, to wait for an action of the driver."""
LEEWAY_S = 1e-9


class ReplayedDevice:
    """The far end of the line: opens, sends and breaks as in the capture, and records each request with its time."""

    def __init__(self) -> None:
        self.sent: list[tuple[float, bytes]] = []
        self._peer = Peer(lambda request: None)
        self._openings: asyncio.Queue[bool] = asyncio.Queue()
        self._waiting: dict[int, list[tuple[float, Callable[[], None]]]] = {}
        """By the number of an outstanding request: what followed it, and after which time (s)."""

    async def open(self, url: LinkUrl, line: LineSettings) -> Streams:
        """Open, or fail to open, when the capture does."""
        if not await self._openings.get():
            raise ConnectionRefusedError("it could not be opened when this was captured")
        reader, writer = await self._peer.open(url, line)
        plain = writer.write

        def write(data: bytes | bytearray | memoryview) -> None:
            self._note_sent(bytes(data))
            plain(data)

        writer.write = write  # type: ignore[method-assign]
        return reader, writer

    def opened(self, could: bool) -> None:
        """Record whether the line could be opened."""
        self._openings.put_nowait(could)

    def after(self, request: int, delay_s: float, data: bytes | None) -> None:
        """Send `data`, or break the line (None): now, or `delay_s` after the request of that number if it is late."""

        def do() -> None:
            if data is None:
                self._peer.hang_up()
            else:
                self._peer.say(data)

        if len(self.sent) >= request:
            do()
        else:
            self._waiting.setdefault(request, []).append((delay_s, do))

    def _note_sent(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        self.sent.append((loop.time(), data))
        for delay_s, do in self._waiting.pop(len(self.sent), ()):
            loop.call_later(delay_s, do)


class Playback:
    """Replays the rows of one link; `far` is the link's far end, `devices` are its drivers by name."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], far: ReplayedDevice, devices: Mapping[str, Device]) -> None:
        self._rows = deque(rows)
        self._far = far
        self._devices = devices
        self._loop = asyncio.get_running_loop()
        self._finished = self._loop.create_future()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._ended: set[int] = set()
        self._requests = 0
        """Number of the capture's requests up to the present row."""
        self._requested_s = rows[0]["t"] if rows else 0.0
        self._rounds = 0
        self._looking = False
        """Whether the next loop round is awaited."""
        # Timers of one loop time run in the order of their creation: these precede all timers of the drivers.
        for moment_s in dict.fromkeys(row["t"] for row in rows):
            self._loop.call_at(moment_s, self._at)

    async def play(self) -> None:
        """Return when the last row has been played."""
        if self._rows:
            await self._finished
        await asyncio.sleep(LEEWAY_S)

    async def close(self) -> None:
        """Cancel the running calls."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _at(self) -> None:
        """Play all rows up to now, unless an action of the driver is missing: then check again in the next round."""
        if self._looking:
            return
        while self._rows and self._rows[0]["t"] <= self._loop.time():
            if not self._happened(self._rows[0]) and self._rounds < PATIENCE:
                self._rounds += 1
                self._looking = True
                self._loop.call_soon(self._look)
                return
            self._rounds = 0
            self._do(self._rows.popleft())
        if not self._rows and not self._finished.done():
            self._finished.set_result(None)

    def _look(self) -> None:
        self._looking = False
        self._at()

    def _happened(self, row: Mapping[str, Any]) -> bool:
        """Return whether the driver has done what this row records; True for rows of events that affect it."""
        if ">" in row:
            return len(self._far.sent) > self._requests
        return "ended" not in row or row["ended"] in self._ended

    def _do(self, row: Mapping[str, Any]) -> None:
        if ">" in row:
            self._requests += 1
            self._requested_s = row["t"]
        elif "open" in row:
            self._far.opened(row["open"])
        elif "<" in row or "lost" in row:
            data = bytes.fromhex(row["<"]) if "<" in row else None
            self._far.after(self._requests, row["t"] - self._requested_s, data)
        elif "call" in row:
            self._tasks[row["call"]] = self._loop.create_task(self._made(row))
        elif "dropped" in row and row["dropped"] in self._tasks:
            self._tasks[row["dropped"]].cancel()

    async def _made(self, row: Mapping[str, Any] | None) -> None:
        """Make a call, and all those that were made at the same time at which the previous one ended.

        A program that waits for one call makes the next in the same step of its task. A separate task would make
        it after everything else that the end of the first one has woken.
        """
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  (a coroutine runs in a task)
        while row is not None:
            self._tasks[row["call"]] = task
            with suppress(DeviceError):  # it may also have failed then: the bytes decide
                await self._perform(row)
            self._ended.add(row["call"])
            row = self._next(row["call"])
        self._at()

    def _next(self, ended: int) -> Mapping[str, Any] | None:
        """Consume the rows that record the end of `ended` and a call made at that time; return the latter."""
        rows = self._rows
        if not rows or rows[0].get("ended") != ended:
            return None
        rows.popleft()
        self._rounds = 0
        return rows.popleft() if rows and "call" in rows[0] and rows[0]["t"] <= self._loop.time() else None

    async def _perform(self, row: Mapping[str, Any]) -> None:
        device = self._devices[row["device"]]
        match row["do"]:
            case "read":
                await device.sensors[row["point"]].read()
            case "health":
                health = device.health
                if health is not None:  # a later driver may report none: the bytes decide
                    await health.read()
            case "status":
                await device.actuators[row["point"]].status()
            case "apply":
                words = dict(row["command"])
                await device.actuators[row["point"]].apply(COMMANDS[words.pop("command")](**words))
