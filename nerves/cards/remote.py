"""The engine's end of the card process: an electrode card whose hardware another process holds."""

from __future__ import annotations

import json
import os
import select
import socket
import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from controller.children.patience import Patience, wait_readable
from nerves.cards.block_queue import BlockQueue, Told
from nerves.cards.contract import (
    MAX_WAIT_S,
    ArrayInfo,
    CardRefused,
    CardState,
    Delivery,
    FrameBlock,
    Impedance,
    Phase,
    Pulse,
    SelfCheck,
    worst,
)
from nerves.cards.geometry import ArrayGeometry

MAX_MESSAGE = 1 << 20
MAX_SAID = 60_000
"""Longest message to the card process (bytes)."""
CALL_WITHIN_S = 60.0
"""Longest time in which the card process could have answered a call (s)."""


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Return both ends of a connection of whole messages."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class RemoteCard:
    """Reaches a card at the other end of two sockets, with its frames in shared memory, as an :class:`ElectrodeCard`.

    `pid` is the process at the other end, whose time is counted while a call waits for it.

    Raises:
        CardRefused: The card process cannot open its card.
        OSError: The card process ended before it had a card; its standard error has the reason.
    """

    def __init__(self, pulses: socket.socket, calls: socket.socket, pid: int) -> None:
        self._pulses, self._calls, self._pid = pulses, calls, pid
        greeting, descriptors, _, _ = socket.recv_fds(calls, MAX_MESSAGE, 2)
        if not greeting:
            raise ConnectionError("the card process ended before its card was connected; see its messages above")
        said = json.loads(greeting)
        if "refused" in said:
            raise CardRefused(said["refused"])
        if said["geometry"] is not None:
            said["geometry"] = ArrayGeometry.unpacked(said["geometry"])
        self.info = ArrayInfo(**said)
        shape = (self.info.electrodes, self.info.block_frames, self.info.sample_rate_hz)
        self._queue = BlockQueue(descriptors[0], *shape)
        os.close(descriptors[0])  # the queue has it mapped
        self._wake = descriptors[1]
        self._poller = select.poll()
        self._poller.register(self._wake, select.POLLIN)
        self._poller.register(pulses, select.POLLIN)
        self._handed: dict[int, Pulse] = {}
        self._dropped: list[Delivery] = []
        self._calling = threading.Lock()
        self._next_frame = 0
        self._begun = False
        self._closed = False
        self.state = CardState.CONNECTED

    def now_frame(self) -> int:
        """Return the card's clock, which goes on between blocks."""
        frame, at_ns = self._queue.clock()
        since_s = (time.monotonic_ns() - at_ns) * 1e-9 if at_ns else 0.0
        return frame + int(since_s * self.info.sample_rate_hz)

    def read(self) -> FrameBlock:
        """Wait for the next block.

        Raises:
            ConnectionError: The card process has ended.
        """
        if self._closed:
            raise ConnectionError("the card is closed")
        if not self._begun:
            self._skip_backlog()
        while (found := self._queue.take()) is None and self._wait():
            pass
        if found is None:
            empty = np.empty((0, self.info.electrodes), np.int16)
            return FrameBlock(self._next_frame, empty, self._fates([]))
        block, told = found
        self._begun = True
        self._next_frame = block.first_frame + len(block.samples)
        self.state = worst(block.faults)
        return FrameBlock(block.first_frame, block.samples, self._fates(told), block.faults)

    def _skip_backlog(self) -> None:
        """Begin with the present: what came before the first read is no gap."""
        while self._queue.take() is not None:
            self._begun = True

    def _wait(self) -> bool:
        """Wait until the card process has put something into the queue since the last wait; return whether it has in time."""
        ready = self._poller.poll(MAX_WAIT_S * 1000)
        for descriptor, _ in ready:
            if descriptor == self._wake:
                os.eventfd_read(self._wake)
            elif not self._pulses.recv(1):
                raise ConnectionError("the card process has ended")
        return bool(ready)

    def _fates(self, told: list[Told]) -> tuple[Delivery, ...]:
        dropped, self._dropped = self._dropped, []
        known = [(self._handed.pop(each[0], None) or _replayed(each), each[1], each[2]) for each in told]
        return (*dropped, *(Delivery(pulse, frame, why) for pulse, frame, why in known if pulse is not None))

    def stimulate(self, pulse: Pulse) -> None:
        """Hand a pulse to the card process; a block reports its fate.

        Args:
            pulse: The pulse.
        """
        self.stimulate_together((pulse,))

    def stimulate_together(self, pulses: tuple[Pulse, ...]) -> None:
        """Hand pulses that begin in one frame to the card process, as one message.

        Args:
            pulses: The pulses; all are taken or none.
        """
        self._handed |= {pulse.id: pulse for pulse in pulses}
        said = [
            (
                pulse.id,
                pulse.electrode,
                [(phase.duration_us, phase.current_ua) for phase in pulse.phases],
                pulse.at_frame,
                pulse.not_after,
            )
            for pulse in pulses
        ]
        if not self._tell({"pulses": said}):
            for pulse in pulses:
                del self._handed[pulse.id]
                self._dropped.append(Delivery(pulse, None, "the card process does not take it"))

    def cancel(self) -> None:
        """Drop every pulse that has not begun."""
        self._tell({"cancel": True})

    def configure(self, setting: Mapping[str, Any]) -> None:
        """Set something that only this kind of card has.

        Args:
            setting: Names and values, as the card process of this kind of card understands them.
        """
        self._tell({"configure": dict(setting)})

    def _tell(self, said: dict[str, Any]) -> bool:
        message = json.dumps(said).encode()
        if len(message) > MAX_SAID:
            return False
        try:
            self._pulses.send(message, socket.MSG_DONTWAIT)
        except OSError:
            return False
        return True

    def impedances(self) -> tuple[Impedance | None, ...]:
        """Return the latest known impedances."""
        return self._queue.impedances()

    def measure_impedances(self) -> tuple[Impedance | None, ...]:
        """Measure all impedances now."""
        return tuple(each and Impedance(*each) for each in self._call("measure"))

    def self_test(self) -> tuple[SelfCheck, ...]:
        """Test the hardware."""
        return tuple(SelfCheck(*each) for each in self._call("self-test"))

    def _call(self, what: str) -> Any:
        with self._calling:
            self._calls.send(json.dumps({"call": what}).encode())
            wait_readable(self._calls, Patience(self._pid, CALL_WITHIN_S))
            answer = self._calls.recv(MAX_MESSAGE)
        if not answer:
            raise ConnectionError(f"the card process ended during “{what}”")
        return json.loads(answer)

    def close(self) -> None:
        """Let the card process go; it closes its card by itself."""
        if not self._closed:
            self._closed = True
            for connection in (self._pulses, self._calls):
                connection.close()
            os.close(self._wake)


def _replayed(told: Told) -> Pulse | None:
    """Return a pulse of a recording; None for one that this engine had asked for, and has given up."""
    number, frame, _, what = told
    if what is None or frame is None:
        return None
    electrode, phases = what
    return Pulse(number, electrode, tuple(Phase(us, ua) for us, ua in phases), frame, frame)
