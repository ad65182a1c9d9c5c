"""The controller's side of the watch: heartbeats to the guard, a watch over the guard, its orders, and the goodbye.

The watch is mutual. The guard answers each beat. A guard that does not answer, or is stopped, is lost: an alarm is raised and
`restore` provides another one (:mod:`choroid.running.guarding` starts it, or waits for the service manager).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from controller.guard.channel import GuardChannel
from controller.guard.liveness import Liveness
from controller.guard.wire import MAX_DEVICES, Message
from drivers.device import Identity

logger = logging.getLogger(__name__)

BEAT_S = 0.1
"""Time between two beats (s)."""
BEATS_PER_LIST = 10
"""Number of beats from one list of the verified devices to the next."""
GUARD_SILENCE_S = 0.8
"""Maximum time (s) without an answer of a guard that could run; then it is lost."""
MAX_END_S = 25.0
"""Maximum duration of an orderly end (s): beats go on for this time although control has stopped ticking."""
RESTORE_AGAIN_S = 5.0
"""Time (s) between two attempts to get another guard."""


@dataclass(frozen=True, slots=True)
class Guarded:
    """The guard of a controller: the channel to it, and how to get another one if it is lost."""

    channel: GuardChannel
    restore: Callable[[], Awaitable[GuardChannel]]


class Heartbeat:
    """Sends heartbeats to the guard, if there is one.

    Args:
        guarded: the guard.
        ticks: returns the number of completed control ticks.
        devices: returns the devices that are verified now.
        counts: returns the volume that each pump itself has counted, where it does (µL).
        lost: called with the reason when the guard is lost.
        stop: carries out an emergency stop (who, reason).
        end: called with the reason when the controller has to end in order.
    """

    def __init__(
        self,
        guarded: Guarded | None,
        *,
        ticks: Callable[[], int],
        devices: Callable[[], Mapping[str, Identity]],
        counts: Callable[[], Mapping[str, float]],
        lost: Callable[[str], None],
        stop: Callable[[str, str], Awaitable[None]],
        end: Callable[[str], None],
    ) -> None:
        self._channel = guarded.channel if guarded else None
        self._restore = guarded.restore if guarded else None
        self._ticks = ticks
        self._devices = devices
        self._counts = counts
        self._lost = lost
        self._stop = stop
        self._end = end
        self._number = 0
        self._ending = False
        self._ending_s: float | None = None
        self._extra = 0
        """Progress beyond the ticks: an orderly end goes on without ticks."""
        self._liveness: Liveness | None = None
        self._due_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._orders: set[asyncio.Task[None]] = set()
        self._restoring: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start the heartbeat and the watch over the guard."""
        if self._channel is not None:
            self._watch(self._channel)

    def ending(self) -> None:
        """Go on with the heartbeat although control has stopped ticking: this process ends in order."""
        self._ending = True

    def goodbye(self) -> None:
        """Report that every output is at rest, so that the guard has nothing to do."""
        self._say({"goodbye": True})
        self._hang_up()

    def leave(self) -> None:
        """Report that the links are free and some output is not at rest. Without effect after a goodbye."""
        self._say({"leave": True})
        self._hang_up()

    async def close(self) -> None:
        """Cancel all tasks of the heartbeat."""
        self._hang_up()
        tasks = [*self._orders, *([self._restoring] if self._restoring else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- the beat ---------------------------------------------------------------------------------------

    def _watch(self, channel: GuardChannel) -> None:
        now_s = channel.now_s()
        self._channel = channel
        self._liveness = Liveness(now_s, silence_s=GUARD_SILENCE_S, ticks=False)
        self._due_s = now_s
        self._number = 0  # a new guard knows no device yet
        channel.listen(self._receive)
        self._beat(channel, self._liveness)

    def _beat(self, channel: GuardChannel, liveness: Liveness) -> None:
        """Send a beat, check the guard, and schedule the next beat."""
        if channel is not self._channel:
            return
        self._timer = asyncio.get_running_loop().call_later(BEAT_S, self._beat, channel, liveness)
        now_s = channel.now_s()
        if now_s < self._due_s:
            return  # the loop's time runs faster than real time
        lag_s = max(0.0, now_s - self._due_s - BEAT_S / 2)
        self._due_s = now_s + BEAT_S / 2
        if self._ending:
            self._ending_s = now_s if self._ending_s is None else self._ending_s
            self._extra += now_s - self._ending_s < MAX_END_S
        if self._number % BEATS_PER_LIST == 0:
            self._list_devices()
        self._number += 1
        self._say({"beat": self._number, "tick": self._ticks() + self._extra})
        if channel is self._channel and (verdict := liveness.judge(channel.observe(now_s, lag_s))) is not None:
            channel.kill()  # a stopped guard that goes on later would act on a rig that another guard watches
            self._lose(f"it is {verdict}")

    def _list_devices(self) -> None:
        """Tell the guard who is verified: it may command no device of which it does not know this."""
        verified = {name: [found.model, found.serial] for name, found in self._devices().items()}
        for key, told in (("counted", self._counts()), ("verified", verified)):
            listed = iter(told.items())
            while some := dict(itertools.islice(listed, MAX_DEVICES)):
                self._say({key: some})

    def _receive(self, messages: list[Message] | None) -> None:
        """Process messages of the guard."""
        if self._channel is None or self._liveness is None:
            return
        if messages is None:
            self._lose("its connection has ended")
            return
        self._liveness.beat(self._channel.now_s())
        for message in messages:
            match message:
                case {"stop": str(reason), "number": int(number)}:
                    self._obey(number, str(message.get("who", "the guard")), reason)
                case {"end": str(why)}:
                    self._end(why)

    def _obey(self, number: int, who: str, reason: str) -> None:
        """Carry out an emergency stop. Report that it has begun, and how it ended."""

        async def stop() -> None:
            try:
                await self._stop(who, reason)
            except Exception as error:  # the guard must know of any failure, because it then acts itself
                logger.error("the emergency stop failed: %r; the guard takes over", error)
                self._say({"unstopped": number, "why": repr(error)})
            else:
                self._say({"stopped": number})

        task = asyncio.create_task(stop(), name="emergency stop")
        self._orders.add(task)
        task.add_done_callback(self._orders.discard)
        asyncio.get_running_loop().call_soon(self._say, {"stopping": number})  # after the task's first step

    def _say(self, message: Message) -> None:
        if self._channel is None:
            return
        try:
            self._channel.say(message)
        except OSError as error:
            self._lose(str(error))

    # --- the guard is lost ------------------------------------------------------------------------------

    def _lose(self, why: str) -> None:
        logger.error("the guard is lost: %s", why)
        self._hang_up()
        if self._ending or self._restore is None:
            return
        self._lost(why)
        self._restoring = asyncio.create_task(self._restored(self._restore), name="restore the guard")

    async def _restored(self, restore: Callable[[], Awaitable[GuardChannel]]) -> None:
        while True:
            try:
                channel = await restore()
            except Exception as error:  # the rig goes on without a guard; the next attempt may succeed
                logger.error("no guard could be started: %s", error)
                await asyncio.sleep(RESTORE_AGAIN_S)
                continue
            logger.warning("another guard watches this controller")
            self._watch(channel)
            return

    def _hang_up(self) -> None:
        channel, self._channel = self._channel, None
        if self._timer is not None:
            self._timer.cancel()
        if channel is not None:
            channel.close()
