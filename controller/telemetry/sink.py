"""A sink that stores and forwards: readings go into an outbox on disk first and leave it when the other side has them (D1).

What the other side is — a broker, a database — is the subclass's part; how readings are gathered, how long one waits after a
failure and what people are told is the same for all.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Sequence

from controller.core.state import State
from controller.telemetry.batches import MOST_IN_MESSAGE, ReadingBatch, Taken
from controller.telemetry.outbox import Outbox

logger = logging.getLogger(__name__)

BATCH_S = 5.0
"""Readings are gathered so long into one message; if they are too many for one, the others follow tick by tick."""
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0


class OutboxSink(ABC):
    """A sink for :class:`controller.process.controller.Controller`; `run` it as a task of its own, in real time.

    Neither the other side nor a full disk can make it fail: it says what is wrong in `problem` and goes on trying.
    """

    name = "sink"
    """What alarms call it."""
    outages: tuple[type[Exception], ...] = (OSError, sqlite3.Error)
    """What is raised when the other side is away; anything else is logged with its traceback."""

    def __init__(self, where: str, outbox: Outbox) -> None:
        """`where` names the other side, for people."""
        self._where = where
        self._outbox = outbox
        self._batch = ReadingBatch()
        self._made: tuple[bytes, int] | None = None
        """The message that the disk did not take yet, and how many readings it holds: it is not made again."""
        self._batch_ends_s = 0.0
        self._news = asyncio.Event()
        self.connected = False
        self.delivered = 0
        """Messages that the other side has confirmed since the start."""
        self.connections = 0
        self._away: str | None = None
        self._full: str | None = None
        """What is wrong with the other side, and with the outbox's disk."""

    @property
    def problem(self) -> str | None:
        """Why nothing gets through at present, for people."""
        return self._away or self._full

    @abstractmethod
    def _encoded(self, readings: Sequence[Taken]) -> bytes:
        """Readings as the next message for the other side."""

    @abstractmethod
    async def _serve(self) -> None:
        """Connect and send what waits until the connection is lost; raises one of `outages` then."""

    def offer(self, state: State) -> None:
        """Take what is new in a snapshot; every few seconds it becomes a message in the outbox.

        The control loop waits for this. What a full disk has dammed up goes in pieces, at each tick about one.
        """
        self._batch.take(state)
        if not self._gathered or state.at_s < self._batch_ends_s:
            return
        put = 0
        while self._gathered and put < MOST_IN_MESSAGE:
            kept = self._put_away()
            put += kept
            if not kept:
                break
        if not put or not self._gathered:
            self._batch_ends_s = state.at_s + BATCH_S

    def flush(self) -> None:
        """Put all that is gathered into the outbox now; what the disk does not take stays gathered."""
        while self._gathered and self._put_away():
            pass

    @property
    def _gathered(self) -> bool:
        return self._made is not None or len(self._batch) > 0

    def _put_away(self) -> int:
        """Put the next message into the outbox; returns how many readings it holds, none if the disk did not take it."""
        if self._made is None:
            readings = self._batch.cut()
            self._made = (self._encoded(readings), len(readings))
        payload, count = self._made
        try:
            self._outbox.put(payload)
        except sqlite3.Error as error:
            told = f"the outbox cannot be written: {error}. Likely cause: the disk is full. Next: free some space"
            if self._batch.given_up:
                told += "; what waits in memory is too much already, and the oldest readings are given up for this sink"
            self._full = self._noted(told, before=self._full)
            return 0
        self._full = None
        self._made = None
        self._news.set()
        return count

    async def run(self) -> None:
        """Connect, send, reconnect with growing pauses; ends only by cancellation, having put everything away."""
        pause_s = FIRST_PAUSE_S
        try:
            while True:
                before = self.delivered
                try:
                    await self._serve()
                except Exception as error:
                    self._end_if_cancelled()  # a failing goodbye must not swallow the cancellation that caused it
                    self._lost(error)
                finally:
                    self.connected = False
                pause_s = FIRST_PAUSE_S if self.delivered > before else pause_s
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
            told = f"{self._where}: {error}. Readings wait in the outbox. Next: see whether it runs"
            self._away = self._noted(told, before=self._away)
        else:
            told = (
                f"{self._where}: {type(error).__name__}: {error}. Readings wait in the outbox. Likely cause: a setting or a"
                " file of it that makes no sense (its token, password or certificate), or a defect. Next: look at the"
                " traceback in the log"
            )
            if told != self._away:
                logger.error(told, exc_info=error)
            self._away = told

    @staticmethod
    def _noted(problem: str, *, before: str | None) -> str:
        """What is wrong, logged once and not at every attempt."""
        if before is None:
            logger.warning(problem)
        return problem

    @staticmethod
    def _end_if_cancelled() -> None:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError
