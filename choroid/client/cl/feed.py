"""What comes from the engine in the background: its clock, spikes, and the fate of stimulations."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable

import grpc

from choroid.client.cl.clock import ArrayClock, local_s
from choroid.client.errors import NervesError
from choroid.client.nerves import NervesClient
from choroid.client.nerves_terms import SpikeBatch

CLOCK_S = 0.05
KEPT = 200_000
SETTLED_S = 0.004
"""After this time every spike of a frame has been reported: 0.8 ms of the filter, a block, the way."""

Sample = tuple[int, int]


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
        self._every_turn = every_turn
        self._spikes: deque[Sample] = deque(maxlen=KEPT)
        self._stims: deque[Sample] = deque(maxlen=KEPT)
        self._new: tuple[list[Sample], list[Sample]] = ([], [])
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
