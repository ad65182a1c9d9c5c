"""The card's end of the card process: it reads the card, checks every pulse with the limiter, and watches the engine.

Three threads: one reads frames into shared memory, one takes pulses and watches for signs of life, one answers slow calls.
When the engine is gone or silent, what has not begun is cancelled.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from nerves.cards.block_queue import BlockQueue, Told
from nerves.cards.contract import Delivery, ElectrodeCard, FrameBlock, Phase, Pulse, data_sheet, dropped, hand_over
from nerves.cards.geometry import ArrayGeometry
from nerves.cards.limiter import LimiterLimits, StimulationLimiter
from nerves.precedence import LightPrecedence, take_precedence

logger = logging.getLogger(__name__)

WATCH_MS = 1
MAX_MESSAGE = 65_536
MAX_TOLD = 100_000


def _steady_ns() -> int:
    return time.monotonic_ns()  # the timer of the limiter runs on real time


class CardHost:
    """Serves one card to one engine over two sockets of whole messages (SOCK_SEQPACKET): pulses, and slow calls."""

    def __init__(
        self,
        card: ElectrodeCard,
        pulses: socket.socket,
        calls: socket.socket,
        configure: Callable[[Mapping[str, Any]], None] = lambda _: None,
        limits: LimiterLimits | None = None,
        geometry: ArrayGeometry | None = None,
    ) -> None:
        """Take a card; `geometry` is that of its array, where the card itself does not know it."""
        info = data_sheet(card)
        info = self._info = replace(info, geometry=geometry or info.geometry)
        self._card = card
        self._pulses = pulses
        self._calls = calls
        self._configure = configure
        self._queue = BlockQueue.create(info.electrodes, info.block_frames, info.sample_rate_hz)
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        limits = limits or LimiterLimits.of(info.material, info.diameter_um)
        self._limiter = StimulationLimiter(limits, info.electrodes)
        self._refused: deque[Delivery] = deque()
        """Left by the thread that takes pulses, for the one that reads."""
        self._told: list[Told] = []
        self._engine_gone = threading.Event()
        self._next_measured = 0
        self.last_begun: int | None = None
        """The frame of the last pulse that the card began."""

    def serve(self) -> None:
        """Greet the engine and serve until it is gone; then the card is closed."""
        descriptors = [self._queue.descriptor, self._wake]
        fields = {name: getattr(self._info, name) for name in type(self._info).__slots__}
        if self._info.geometry is not None:
            fields["geometry"] = self._info.geometry.packed()
        self._queue.set_impedances(self._card.impedances())
        socket.send_fds(self._calls, [json.dumps(fields).encode()], descriptors)
        os.close(self._queue.descriptor)  # it stays mapped
        threads = [
            threading.Thread(target=self._take_pulses, name="pulses", daemon=True),
            threading.Thread(target=self._answer_calls, name="calls", daemon=True),
        ]
        for thread in threads:
            thread.start()
        precedence = LightPrecedence()
        try:
            while not self._engine_gone.is_set():
                self._pass_on(self._card.read())
                precedence.judge()
        except OSError:
            logger.exception("the card is gone")
        finally:
            self._card.close()
            self._last_words()
            self._pulses.close()
            self._calls.close()
            os.close(self._wake)

    def stop(self) -> None:
        """End after the present block."""
        self._engine_gone.set()

    def _last_words(self) -> None:
        """Note what the closed card still had begun."""
        with contextlib.suppress(OSError):
            self._note(self._card.read())

    def _note(self, block: FrameBlock) -> None:
        begun = [each.frame for each in block.deliveries if each.frame is not None]
        self.last_begun = max(begun, default=self.last_begun)

    def _pass_on(self, block: FrameBlock) -> None:
        """Put a block into the queue, with all that is not told yet."""
        self._note(block)
        refused = [self._refused.popleft() for _ in range(len(self._refused))]
        self._told += [_told(each) for each in (*block.deliveries, *refused)]
        del self._told[:-MAX_TOLD]
        end = block.first_frame + len(block.samples)
        self._queue.set_clock(self._card.now_frame(), _steady_ns())
        taken = self._queue.put(block, self._told)
        if taken is not None:
            del self._told[:taken]
            os.eventfd_write(self._wake, 1)
        if end >= self._next_measured:
            self._next_measured = end + round(self._info.sample_rate_hz)
            self._queue.set_impedances(self._card.impedances())

    def _take_pulses(self) -> None:
        """Take pulses, and cancel what waits when the engine is gone or silent."""
        take_precedence()
        poller = select.poll()
        poller.register(self._pulses, select.POLLIN)
        read, silent = -1, False
        while True:
            ready = poller.poll(WATCH_MS)
            now_us = _steady_ns() // 1000
            if self._queue.read != read:
                read = self._queue.read
                self._limiter.alive(now_us)
            if ready and not self._take_one(now_us):
                break
            if self._limiter.silent(now_us) != silent:
                silent = not silent
                if silent:
                    self._card.cancel()
        self._card.cancel()
        self._engine_gone.set()

    def _take_one(self, now_us: int) -> bool:
        """Obey one message; return False at the end of the engine."""
        try:
            message = self._pulses.recv(MAX_MESSAGE)
        except OSError:
            return False
        if not message:
            return False
        said = json.loads(message)
        if "pulses" in said:
            pulses = [
                Pulse(number, electrode, tuple(Phase(us, ua) for us, ua in phases), at_frame, not_after)
                for number, electrode, phases, at_frame, not_after in said["pulses"]
            ]
            self._admit(pulses, now_us)
        elif "cancel" in said:
            self._card.cancel()
        else:
            self._configure(said["configure"])
        return True

    def _admit(self, pulses: list[Pulse], now_us: int) -> None:
        """Hand pulses that belong together to the card if the limiter admits each of them."""
        why = [self._refusal(pulse, now_us) for pulse in pulses]
        if any(why):
            self._refused += dropped(pulses, why)
        else:
            hand_over(self._card, pulses)

    def _refusal(self, pulse: Pulse, now_us: int) -> str:
        """Return why the limiter refuses a pulse; one that it admits counts, delivered or not."""
        frame_us = 1e6 / self._info.sample_rate_hz
        phases = [(phase.duration_us, phase.current_ua) for phase in pulse.phases]
        earliest, latest = round(pulse.at_frame * frame_us), round(pulse.not_after * frame_us)
        return self._limiter.admit(pulse.electrode, phases, earliest, latest, now_us)

    def _answer_calls(self) -> None:
        """Answer slow calls, one at a time."""
        while message := _received(self._calls):
            said = json.loads(message)["call"]
            if said == "measure":
                measured = self._card.measure_impedances()
                self._queue.set_impedances(measured)
                answer: Any = [each and (each.kohm, each.at_frame) for each in measured]
            else:
                answer = [(check.name, check.passed, check.detail) for check in self._card.self_test()]
            try:
                self._calls.send(json.dumps(answer).encode())
            except OSError:
                return


def _received(connection: socket.socket) -> bytes:
    """Return the next message; empty at the end."""
    try:
        return connection.recv(MAX_MESSAGE)
    except OSError:
        return b""


def _told(delivery: Delivery) -> Told:
    """Return a report for the engine, which knows its own pulses, but not those of a recording."""
    pulse = delivery.pulse
    what = None
    if pulse.id < 0:
        what = (pulse.electrode, [(phase.duration_us, phase.current_ua) for phase in pulse.phases])
    return pulse.id, delivery.frame, delivery.why, what
