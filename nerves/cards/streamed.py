"""A card whose frames come as a stream of pieces of any length: numbers them, cuts them into blocks, reports a stall."""

from __future__ import annotations

from collections import deque

from nerves.cards.arrival_clock import ArrivalClock, steady_s
from nerves.cards.contract import MAX_WAIT_S, ArrayInfo, CardState, FrameBlock, Frames
from nerves.cards.input_only import InputOnlyCard

STALLED_AFTER_S = 0.5
BLOCK_S = 0.01


class StreamedCard(InputOnlyCard):
    """Numbers the frames of a stream, cuts them into blocks and reports a stall, for Open Ephys and LSL. A subclass has
    :meth:`_piece`, :meth:`close` and the text of a stall.

    Pieces are numbered by the far end (`first` of a piece). When it counts from a lower number again, its frames go on at a
    higher one.
    """

    stalled = "no frames arrive"
    """What to see when no frames arrive."""

    def __init__(self, info: ArrayInfo, stalled_after_s: float = STALLED_AFTER_S) -> None:
        super().__init__(info)
        self._clock = ArrivalClock(info.sample_rate_hz)
        self._stalled_after_s = stalled_after_s
        self._blocks: deque[tuple[int, Frames]] = deque()
        self._next = 0
        self._offset: int | None = None
        self._silent_since_s: float | None = None
        self._closed = False

    def now_frame(self) -> int:
        """Return the frame that is sampled now, estimated from the pieces that came with the least delay."""
        return self._clock.now_frame()

    def read(self) -> FrameBlock:
        """Return the next block; without frames while none arrive."""
        if self._closed:
            raise ConnectionError(f"the input of {self.info.name} is closed")
        if not self._blocks:
            piece = self._piece(MAX_WAIT_S)
            if piece is None:
                return self._nothing()
            self._take(*piece)
        first, samples = self._blocks.popleft()
        return self._block(first, samples)

    def _piece(self, within_s: float) -> tuple[int, Frames] | None:
        """Return the far end's number of the next frame, and frames; None when none came in time."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of the stream. A subclass ends its connection."""
        self._closed = True

    def _take(self, number: int, samples: Frames) -> None:
        if self._offset is None:
            self._offset = -number
        first = number + self._offset
        if first < self._next:  # it counts from another number
            self._offset += max(self._next, self.now_frame()) - first
            first = number + self._offset
            self._clock.restart()
        self._next = first + len(samples)
        self._clock.arrived(self._next)
        self._silent_since_s = None
        self._faults = ()
        size = self.info.block_frames
        self._blocks.extend((first + cut, samples[cut : cut + size]) for cut in range(0, len(samples), size))

    def _nothing(self) -> FrameBlock:
        now_s = steady_s()
        self._silent_since_s = self._silent_since_s or now_s
        if now_s - self._silent_since_s >= self._stalled_after_s - MAX_WAIT_S:
            self._everywhere(CardState.STALLED, self.stalled)
        return self._block(self._next)
