"""The controller's end of the guard's socket: beats, the watch over the guard, orders from it, and a goodbye.

The watch goes both ways. The guard answers each beat; one that does not, or that is stopped, is lost: an alarm says so, and
`restore` brings another one (:mod:`choroid.guarding` starts it or waits for the service manager).
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from controller.guard.liveness import Liveness
from controller.guard.processes import WatchedProcess
from controller.guard.wire import Message, peer_of, receive, send

logger = logging.getLogger(__name__)

BEAT_S = 0.2
"""How often the guard hears that this process lives (s)."""
GUARD_SILENCE_S = 0.8
"""A guard that could run and has answered nothing for this long (s) is lost."""
END_MOST_S = 20.0
"""How long an orderly end may take (s): beats go on for this long, though control does not tick any more."""
RESTORE_AGAIN_S = 5.0
"""How often (s) another guard is asked for when none could be had."""

Restore = Callable[[], Awaitable[socket.socket]]
"""Bring another guard and return the connection to it."""


@dataclass(frozen=True, slots=True)
class GuardConnection:
    """What connects a controller with its guard.

    Args:
        connection: a socket on which the guard has said welcome.
        restore: how another guard is got when this one is lost; None: not at all.
        now_s: seconds of real time. The loop's time may run faster than life, the guard's never does.
    """

    connection: socket.socket
    restore: Restore | None
    now_s: Callable[[], float]


class Heartbeat:
    """Beats for the guard, if there is one. `ticks` returns how many ticks of control are done.

    `lost` hears why the guard is lost. `stop` carries out an emergency stop (who, reason). `end` hears why the controller is
    to end in order.
    """

    def __init__(
        self,
        guard: GuardConnection | None,
        *,
        ticks: Callable[[], int],
        lost: Callable[[str], None],
        stop: Callable[[str, str], Awaitable[None]],
        end: Callable[[str], None],
    ) -> None:
        self._guard = guard
        self._connection = guard.connection if guard else None
        self._ticks = ticks
        self._lost = lost
        self._stop = stop
        self._end = end
        self._number = 0
        self._ending_s: float | None = None
        self._extra = 0
        """Signs of progress beyond the ticks: an orderly end goes on without these."""
        self._process: WatchedProcess | None = None
        self._liveness: Liveness | None = None
        self._due_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._orders: set[asyncio.Task[None]] = set()
        self._restoring: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Begin to beat, and to watch the guard."""
        if self._guard is None or self._connection is None:
            return
        self._watch(self._connection)
        self._due_s = self._guard.now_s()
        self._beat()

    def ending(self) -> None:
        """Control has stopped ticking because this process ends in order."""
        if self._ending_s is None and self._guard is not None:
            self._ending_s = self._guard.now_s()

    def goodbye(self) -> None:
        """Say that every output is at rest, so that the guard has nothing to do."""
        self._say({"goodbye": True})
        self._close()

    def leave(self) -> None:
        """Say that the links are free and some output is not at rest. Without effect after a goodbye."""
        self._say({"leave": True})
        self._close()

    async def close(self) -> None:
        """End whatever is under way here."""
        self._close()
        tasks = [*self._orders, *([self._restoring] if self._restoring else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- the beat ---------------------------------------------------------------------------------------

    def _beat(self) -> None:
        """Beat, hear, look at the guard; then again."""
        guard = self._guard
        if guard is None or self._connection is None:
            return
        self._timer = asyncio.get_running_loop().call_later(BEAT_S, self._beat)
        now_s = guard.now_s()
        if now_s < self._due_s:
            return  # the loop's time runs faster than life
        lag_s, self._due_s = now_s - self._due_s, now_s + BEAT_S / 2
        lag_s = max(0.0, lag_s - BEAT_S / 2)
        if self._ending_s is not None and now_s - self._ending_s < END_MOST_S:
            self._extra += 1
        self._number += 1
        self._say({"beat": self._number, "tick": self._ticks() + self._extra})
        if self._connection is not None and self._process is not None and self._liveness is not None:
            verdict = self._liveness.look(self._process.look(now_s, lag_s))
            if verdict is not None:
                self._lose(str(verdict), stuck=not self._process.gone)

    def _hear(self) -> None:
        """Take in what the guard says."""
        if self._connection is None or self._guard is None:
            return
        messages = receive(self._connection)
        if messages is None:
            self._lose("its connection has ended", stuck=False)
            return
        if self._liveness is not None:
            self._liveness.heard(self._guard.now_s())
        for message in messages:
            match message:
                case {"stop": str(reason), "number": int(number)}:
                    self._obey(number, str(message.get("who", "the guard")), reason)
                case {"end": str(why)}:
                    self._end(why)

    def _obey(self, number: int, who: str, reason: str) -> None:
        """Carry out an emergency stop, and confirm it."""

        async def stop() -> None:
            try:
                await self._stop(who, reason)
            except Exception as error:  # the guard must hear of it, whatever it is, for it acts itself then
                logger.error("an emergency stop failed: %r; the guard takes over", error)
                self._say({"unstopped": number, "why": repr(error)})
            else:
                self._say({"stopped": number})

        task = asyncio.create_task(stop(), name="emergency stop")
        self._orders.add(task)
        task.add_done_callback(self._orders.discard)

    def _say(self, message: Message) -> None:
        if self._connection is None:
            return
        try:
            send(self._connection, message)  # a guard that does not read is found out by its silence
        except OSError as error:
            self._lose(str(error), stuck=False)

    # --- the guard is lost ------------------------------------------------------------------------------

    def _watch(self, connection: socket.socket) -> None:
        if self._guard is None:
            return
        self._connection = connection
        with suppress(OSError):
            self._process = WatchedProcess(peer_of(connection).pid)
        self._liveness = Liveness(self._guard.now_s(), silence_s=GUARD_SILENCE_S, ticks=False)
        asyncio.get_running_loop().add_reader(connection, self._hear)

    def _lose(self, why: str, *, stuck: bool) -> None:
        logger.error("the guard is lost (%s)", why)
        if stuck and self._process is not None:
            self._process.kill()  # a stopped guard that goes on later would act on a rig that has another one
        self._close()
        if self._ending_s is not None:
            return
        self._lost(why)
        if self._guard is not None and self._guard.restore is not None:
            self._restoring = asyncio.create_task(self._restore(self._guard.restore), name="restore the guard")

    async def _restore(self, restore: Restore) -> None:
        while True:
            try:
                connection = await restore()
            except Exception as error:  # without a guard the rig still lives; another try may do
                logger.error("no guard could be had: %s", error)
                await asyncio.sleep(RESTORE_AGAIN_S)
                continue
            break
        logger.warning("another guard watches this controller")
        self._watch(connection)
        self._beat()

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if self._timer is not None:
            self._timer.cancel()
        if connection is not None:
            with suppress(Exception):
                asyncio.get_running_loop().remove_reader(connection)
            connection.close()
        if self._process is not None:
            self._process.close()
            self._process = None


