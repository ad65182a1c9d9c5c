"""A store-and-forward sink: readings go into an outbox on disk and leave it when the other side has confirmed them (D1).

The subclass connects to the other side, a broker or a database. Batching, back-off after failures and messages to people are
the same for all.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from controller.core.discarded import Discarded
from controller.core.disk import remedy
from controller.core.state import State
from controller.telemetry.batches import MAX_IN_MESSAGE, ReadingBatch, Taken
from controller.telemetry.outbox import Outbox

logger = logging.getLogger(__name__)

BATCH_S = 5.0
"""Readings of this time (s) are collected into one message; further messages follow at the next ticks."""
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0


class OutboxSink(ABC):
    """A sink for :class:`controller.process.controller.Controller`. Start `run` as a separate task, in real time.

    Neither the other side nor a full disk can make it fail: it reports the cause in `problem` and retries.
    """

    name = "sink"
    """Its name in alarms."""
    outages: tuple[type[Exception], ...] = (OSError, sqlite3.Error)
    """Exceptions of an outage of the other side; any other is logged with its traceback."""

    def __init__(self, where: str, outbox: Outbox) -> None:
        """`where` names the other side, for people."""
        self._where = where
        self._outbox = outbox
        self._batch = ReadingBatch()
        self._made: tuple[bytes, int] | None = None
        """The message that the disk has not taken yet, and its number of readings: it is not encoded again."""
        self._batch_ends_s = 0.0
        self._news = asyncio.Event()
        self.connected = False
        self.delivered = 0
        """Number of messages that the other side has confirmed since the start."""
        self.connections = 0
        self.refused_readings = 0
        """Number of readings since the start that the other side refused for what they say; they were given up."""
        self._contested = False
        """Whether another program ends the connection again and again: then the pauses grow although messages get through."""
        self._away: str | None = None
        self._full: str | None = None
        """The problem of the other side, and of the outbox's disk."""

    @property
    def problem(self) -> str | None:
        """Why no readings get through at present, for people; None if they do."""
        return self._away or self._full

    @property
    def causes(self) -> Mapping[str, str]:
        """The causes of alarms, by kind."""
        return {} if self.problem is None else {"telemetry_lost": self.problem}

    @property
    def discarded(self) -> tuple[Discarded, ...]:
        """What was discarded, for every reason."""
        return (
            Discarded(self.name, "messages over the quota of the outbox", self._outbox.dropped),
            Discarded(self.name, "readings for which neither disk nor memory had room", self._batch.given_up),
            Discarded(self.name, "readings that the other side refused", self.refused_readings),
        )

    @property
    def waiting(self) -> int:
        """Number of messages that wait in the outbox."""
        return len(self._outbox)

    @abstractmethod
    def _encoded(self, readings: Sequence[Taken]) -> bytes:
        """Encode readings as the next message for the other side."""

    @abstractmethod
    async def _serve(self) -> None:
        """Connect and send until the connection is lost; then raise one of `outages`."""

    def offer(self, state: State) -> None:
        """Accept a snapshot; every few seconds its readings become a message in the outbox.

        The control loop waits for this. The backlog of a full disk is written in pieces, about one a tick.
        """
        self._batch.take(state)
        if not self._gathered or state.at_s < self._batch_ends_s:
            return
        put = 0
        while self._gathered and put < MAX_IN_MESSAGE:
            kept = self._put_away()
            put += kept
            if not kept:
                break
        if not put or not self._gathered:
            self._batch_ends_s = state.at_s + BATCH_S

    def flush(self) -> None:
        """Put all collected readings into the outbox; those that the disk does not take stay collected."""
        while self._gathered and self._put_away():
            pass

    @property
    def _gathered(self) -> bool:
        return self._made is not None or len(self._batch) > 0

    def _put_away(self) -> int:
        """Put the next message into the outbox. Return its number of readings; 0 if the disk did not take it."""
        if self._made is None:
            readings = self._batch.cut()
            self._made = (self._encoded(readings), len(readings))
        payload, count = self._made
        try:
            self._outbox.put(payload)
        except sqlite3.Error as error:
            text = f"the outbox cannot be written: {error}. {remedy(error, self._outbox.folder)}"
            if self._batch.given_up:
                text += "; what waits in memory is too much already, and the oldest readings are given up for this sink"
            self._full = self._noted(text, before=self._full)
            return 0
        self._full = None
        self._made = None
        self._news.set()
        return count

    async def run(self) -> None:
        """Connect, send, and reconnect with growing pauses. Ends only by cancellation, after a flush."""
        pause_s = FIRST_PAUSE_S
        try:
            while True:
                before = self.delivered
                try:
                    await self._serve()
                except Exception as error:
                    self._end_if_cancelled()  # a failing disconnect must not swallow the cancellation that caused it
                    self._lost(error)
                finally:
                    self.connected = False
                pause_s = FIRST_PAUSE_S if self.delivered > before and not self._contested else pause_s
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
        finally:
            self.flush()

    def _came_up(self) -> None:
        if self.connected:
            return
        self.connected = True
        self.connections += 1
        if self._away is not None or self.connections == 1:
            logger.info("%s: connected; %d messages wait", self._where, len(self._outbox))
        self._away = None

    def _lost(self, error: Exception) -> None:
        if isinstance(error, self.outages):
            remedy = getattr(error, "remedy", "see whether it runs")
            text = f"{self._where}: {error}. Readings wait in the outbox. Next: {remedy}"
            self._away = self._noted(text, before=self._away)
        else:
            text = (
                f"{self._where}: {type(error).__name__}: {error}. Readings wait in the outbox. Likely cause: a setting or a"
                " file of it that makes no sense (its token, password or certificate), or a defect. Next: look at the"
                " traceback in the log"
            )
            if text != self._away:
                logger.error(text, exc_info=error)
            self._away = text

    @staticmethod
    def _noted(problem: str, *, before: str | None) -> str:
        """Return the problem, logged only when it is new."""
        if before is None:
            logger.warning(problem)
        return problem

    @staticmethod
    def _end_if_cancelled() -> None:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError
