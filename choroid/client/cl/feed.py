"""What comes from the engine in the background: its clock, spikes, and the fate of stimulations."""

from __future__ import annotations

import contextlib
import threading
from array import array
from collections import deque
from collections.abc import Callable, Iterable
from itertools import chain

import grpc
import numpy as np
from numpy.typing import NDArray

from choroid.client.cl.clock import ArrayClock, local_s
from choroid.client.errors import NervesError
from choroid.client.nerves import NervesClient
from choroid.client.nerves_terms import SpikeBatch

CLOCK_S = 0.05
KEPT = 200_000
"""So many spikes are kept for reading back; a recording collects its own."""

SETTLED_S = 0.004
"""After this time every spike of a frame has been reported: 0.8 ms of the filter, a block, the way."""

SPIKES_WITHIN_S = 0.25
"""Longest wait for a message with spikes: of a silent tissue none comes."""

Sample = tuple[int, int]


class Collection:
    """Collects every spike and delivered pulse of a recording, as long as it runs."""

    def __init__(self, spikes: Iterable[Sample], stims: Iterable[Sample], lost: int) -> None:
        """Begin with those that are known already; `lost` is what the feed has lost before."""
        self._parts = (array("q"), array("q"))
        self._lost_before = lost
        self.add(spikes, stims)

    def add(self, spikes: Iterable[Sample], stims: Iterable[Sample]) -> None:
        """Add what became known.

        Args:
            spikes: Frame and channel of each spike.
            stims: The same of each delivered pulse.
        """
        for part, found in zip(self._parts, (spikes, stims), strict=True):
            part.extend(chain.from_iterable(found))

    def between(self, first: int, end: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return spikes and pulses of a range of frames.

        Args:
            first: The first frame.
            end: The frame after the last.

        Returns:
            The spikes and the pulses, each as rows of frame and channel in ascending order.
        """
        rows = [np.array(part, np.int64).reshape(-1, 2) for part in self._parts]
        rows = [found[(found[:, 0] >= first) & (found[:, 0] < end)] for found in rows]
        spikes, stims = (found[np.lexsort((found[:, 1], found[:, 0]))] for found in rows)
        return spikes, stims

    def lost(self, lost: int) -> int:
        """Return how many spikes were lost since the beginning.

        Args:
            lost: What the feed has lost until now.

        Returns:
            The number of spikes.
        """
        return lost - self._lost_before


class EngineFeed:
    """Receives spikes and delivered pulses as (frame, channel), in the order in which they become known.

    Attributes:
        clock: The array's clock.
        lost: Spikes that were lost because this process read too slowly.
    """

    def __init__(self, nerves: NervesClient, rate_hz: float, every_turn: Callable[[], None]) -> None:
        """Begin to receive; `every_turn` is called in the background every 50 ms."""
        self.clock = ArrayClock(rate_hz)
        self.lost = 0
        self._nerves = nerves
        self._rate_hz = rate_hz
        self._every_turn = every_turn
        self._spikes: deque[Sample] = deque(maxlen=KEPT)
        self._stims: deque[Sample] = deque(maxlen=KEPT)
        self._new: tuple[list[Sample], list[Sample]] = ([], [])
        self._collections: list[Collection] = []
        self._spikes_until = 0
        """The array's clock when the last message with spikes was sent."""
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._ended: NervesError | None = None
        """Why there are no more spikes; None while they come, and when the program has closed the connection."""
        self._note_clock()
        self._stream = nerves.spikes()
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._receive, self._keep_time)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop; the channel of the client is closed by its owner afterwards, which ends the stream."""
        self._closed.set()

    def join(self) -> None:
        """Wait for the threads, after the channel was closed."""
        for thread in self._threads:
            thread.join(timeout=5.0)

    def now(self) -> int:
        """Return the array's clock; raise as :meth:`take`."""
        self._require_spikes()
        return self.clock.at(local_s())

    def delivered(self, stims: list[Sample]) -> None:
        """Add delivered pulses to those that are kept.

        Args:
            stims: Frame and channel of each.
        """
        with self._lock:
            self._stims.extend(stims)
            self._new[1].extend(stims)
            for each in self._collections:
                each.add((), stims)

    def take(self) -> tuple[list[Sample], list[Sample]]:
        """Return the spikes and pulses that became known since the last call.

        Raises:
            NervesError: There are no more: the engine stopped, or the connection was lost.
        """
        self._require_spikes()
        with self._lock:
            taken, self._new = self._new, ([], [])
        return sorted(taken[0]), sorted(taken[1])

    def between(self, first: int, end: int) -> tuple[list[Sample], list[Sample]]:
        """Return the known spikes and pulses of a range of frames.

        Args:
            first: The first frame.
            end: The frame after the last.

        Returns:
            The spikes and the pulses, each as (frame, channel) in ascending order.

        Raises:
            NervesError: No more spikes come: the engine stopped, or the connection was lost.
        """
        self._require_spikes()
        with self._lock:
            found = [[each for each in kept if first <= each[0] < end] for kept in (self._spikes, self._stims)]
        return sorted(found[0]), sorted(found[1])

    def collect(self, first: int) -> Collection:
        """Collect spikes and pulses for a recording until :meth:`forget`.

        Args:
            first: The first frame, which may have passed.

        Returns:
            The collection, to which the feed adds.
        """
        with self._lock:
            kept = [[each for each in kept if each[0] >= first] for kept in (self._spikes, self._stims)]
            collection = Collection(kept[0], kept[1], self.lost)
            self._collections.append(collection)
        return collection

    def forget(self, collection: Collection) -> None:
        """Add to a collection no more.

        Args:
            collection: One that :meth:`collect` has returned.
        """
        with self._lock:
            self._collections.remove(collection)

    def settle(self, end: int) -> None:
        """Wait until every spike before a frame has come.

        Args:
            end: The frame. 4 ms after it by the array's clock, the next message with spikes proves that they are whole; if
                none comes within 0.25 s, the tissue is taken to be silent.

        Raises:
            NervesError: No more spikes come: the engine stopped, or the connection was lost.
        """
        settled = end + round(SETTLED_S * self._rate_hz)
        pause = threading.Event()
        while (ahead := settled - self.now()) > 0:
            pause.wait(ahead / self._rate_hz)
        until = local_s() + SPIKES_WITHIN_S
        while self._spikes_until < settled and local_s() < until:
            self._require_spikes()
            pause.wait(0.002)

    def _require_spikes(self) -> None:
        """Raise :class:`NervesError` if no more spikes come: silence would look like that of the tissue."""
        if self._ended is not None:
            raise NervesError(
                f"no more spikes come: {self._ended}. Next: see whether the engine runs, and open the connection again",
                code=self._ended.code,
            )

    def _receive(self) -> None:
        ended = NervesError("the engine has ended the stream")
        try:
            for batch in self._stream:
                self._take_in(batch)
        except NervesError as error:
            ended = error
        except (grpc.RpcError, ValueError) as error:  # a channel that was closed raises ValueError
            ended = NervesError(str(error) or type(error).__name__)
        if not self._closed.is_set():
            self._ended = ended

    def _take_in(self, batch: SpikeBatch) -> None:
        self.clock.note(batch.next_frame, local_s())
        spikes = list(zip(batch.frames.tolist(), batch.electrodes.tolist(), strict=True))
        with self._lock:
            self.lost += batch.lost
            self._spikes.extend(spikes)
            self._new[0].extend(spikes)
            for each in self._collections:
                each.add(spikes, ())
            self._spikes_until = batch.next_frame
            if len(self._new[0]) > KEPT:  # no loop takes them
                del self._new[0][:-KEPT]

    def _keep_time(self) -> None:
        while not self._closed.wait(CLOCK_S):
            with contextlib.suppress(
                NervesError, grpc.RpcError, ValueError
            ):  # without an engine the spikes end as well
                self._note_clock()
                self._every_turn()

    def _note_clock(self) -> None:
        status = self._nerves.status()
        self.clock.note(status.next_frame, local_s())
