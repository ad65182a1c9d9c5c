"""The playback card: a recording is replayed at the rate of its own clock, through the same interface as any array.

The pulses that the recording knows of are reported as deliveries, so that the engine blanks and judges responses as it did.

Frames keep their distances: a gap of the recording is a gap of the replay, of the same length. The data sheet says that it is
a replay. A reader that is late loses nothing. A thread reads ahead, so that a slow disk does not delay a block.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from nerves.cards.contract import MAX_WAIT_S, CardState, Delivery, FrameBlock, Frames, SelfCheck
from nerves.cards.geometry import ArrayGeometry
from nerves.cards.input_only import InputOnlyCard, input_info

BLOCK_S = 0.001
PIECE_S = 1.0
"""How much is read at once (s)."""


@dataclass(frozen=True, slots=True)
class ReplayStretch:
    """Holds consecutive frames of a recording, from `first_frame` up to (not including) `end_frame` of its clock."""

    first_frame: int
    end_frame: int
    read: Callable[[int, int], Frames]
    """Return raw samples from one frame up to another, by the numbers of the recording."""


class Replayable(Protocol):
    """Declares a recording that can be replayed."""

    name: str
    electrodes: int
    sample_rate_hz: float
    uv_per_unit: float
    simulated: bool

    @property
    def geometry(self) -> ArrayGeometry | None:
        """Where the electrodes are; None where it is not known."""
        ...

    @property
    def deliveries(self) -> Sequence[Delivery]:
        """The pulses that began in its frames, by its own clock and in order; their ids are negative."""
        ...

    @property
    def stretches(self) -> Sequence[ReplayStretch]:
        """Its frames, in order; gaps lie between them. Never empty."""
        ...

    def close(self) -> None:
        """Close its files."""
        ...


class PlaybackCard(InputOnlyCard):
    """Replays a recording as an :class:`~nerves.cards.contract.ElectrodeCard`. It cannot stimulate, and says so.

    With `loop` it begins again after its last frame, at higher numbers and without a gap; otherwise it stalls there.
    `clock` (seconds) and `sleep` are those of the machine, or of a test.
    """

    def __init__(
        self,
        recording: Replayable,
        *,
        material: str = "Pt",
        diameter_um: float = 30.0,
        loop: bool = False,
        clock: Callable[[], float] = time.monotonic,  # noqa: TID251  (stands for the crystal of an amplifier)
        sleep: Callable[[float], None] = time.sleep,  # noqa: TID251  (on the card's own thread)
    ) -> None:
        rate = recording.sample_rate_hz
        super().__init__(
            input_info(
                f"replay of {recording.name}", recording.electrodes, rate, recording.uv_per_unit,
                block_frames=max(1, round(BLOCK_S * rate)), material=material, diameter_um=diameter_um,
                simulated=recording.simulated, replay=True, geometry=recording.geometry,
            )
        )  # fmt: skip
        self._recording = recording
        self._stretches = recording.stretches
        self._loop = loop
        self._clock, self._sleep = clock, sleep
        self._start_s = clock()
        self._shift = -self._stretches[0].first_frame
        """Number of a frame of the replay minus its number in the recording."""
        self._at = 0
        """The stretch that is replayed."""
        self._next = self._stretches[0].first_frame
        """The next frame, by its number in the recording."""
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="replay")
        self._ahead: tuple[int, int, Future[Frames]] | None = None
        self._piece: tuple[int, int, Frames] | None = None
        self._closed = False
        self._read_ahead(0, self._next)

    def now_frame(self) -> int:
        """Return the frame that is due now."""
        return int((self._clock() - self._start_s) * self.info.sample_rate_hz)

    def read(self) -> FrameBlock:
        """Wait until the next block is due, and return it."""
        if self._closed:
            raise ConnectionError("the replay is closed")
        stretch = self._stretches[self._at]
        if self._next >= stretch.end_frame and not self._go_on():
            self._everywhere(CardState.STALLED, f"the {self.info.name} has ended; write loop: true to repeat it")
            self._sleep(MAX_WAIT_S / 5.0)
            return self._block(self._next + self._shift)
        stretch = self._stretches[self._at]
        end = min(self._next + self.info.block_frames, stretch.end_frame)
        wait_s = (end + self._shift - self.now_frame()) / self.info.sample_rate_hz
        if wait_s > MAX_WAIT_S:  # a gap of the recording
            self._sleep(MAX_WAIT_S / 5.0)
            return self._block(self._next + self._shift)
        while (ahead := end + self._shift - self.now_frame()) > 0:
            self._sleep(ahead / self.info.sample_rate_hz)
        try:
            samples = self._taken(self._next, end)
        except (OSError, ValueError) as error:
            self._everywhere(
                CardState.DEAD, f"the {self.info.name} cannot be read: {error}; see whether its disk is there"
            )
            samples = None
        else:
            self._faults = ()
        first, self._next = self._next + self._shift, end
        block = self._block(first, samples)
        return replace(block, deliveries=(*block.deliveries, *self._begun(first - self._shift, end)))

    def _begun(self, first: int, end: int) -> Iterator[Delivery]:
        """Yield the pulses of the recording that began from one of its frames up to another, by the clock of the replay."""
        low, high = (bisect_left(self._recording.deliveries, frame, key=_frame) for frame in (first, end))
        for each in self._recording.deliveries[low:high]:
            at = _frame(each) + self._shift
            yield Delivery(replace(each.pulse, at_frame=at, not_after=at), at)

    def _go_on(self) -> bool:
        """Go to the next stretch, or to the first one again; return whether there is one."""
        if self._at + 1 < len(self._stretches):
            self._at += 1
        elif self._loop:
            self._shift += self._next - self._stretches[0].first_frame
            self._at = 0
        else:
            return False
        self._next = self._stretches[self._at].first_frame
        return True

    def _taken(self, first: int, end: int) -> Frames:
        """Return frames of the present stretch, which are of one piece or of two."""
        if self._piece is None or self._piece[0] != self._at or not self._covers(first):
            self._piece = self._fetched(first)
        _, start, samples = self._piece
        found: Frames = samples[first - start : end - start]
        if first + len(found) < end:
            self._piece = self._fetched(first + len(found))
            rest = self._piece[2][: end - self._piece[1]]
            joined: Frames = np.concatenate([found, rest])
            return joined
        return found.copy()

    def _covers(self, frame: int) -> bool:
        return self._piece is not None and 0 <= frame - self._piece[1] < len(self._piece[2])

    def _fetched(self, first: int) -> tuple[int, int, Frames]:
        """Return the piece that begins at a frame, and have the one after it read."""
        if self._ahead is None or self._ahead[:2] != (self._at, first):
            self._read_ahead(self._at, first)
        assert self._ahead is not None  # noqa: S101  (for the type)
        at, start, coming = self._ahead
        self._ahead = None
        samples = coming.result()
        end = start + len(samples)
        if end < self._stretches[at].end_frame:
            self._read_ahead(at, end)
        elif at + 1 < len(self._stretches):
            self._read_ahead(at + 1, self._stretches[at + 1].first_frame)
        elif self._loop:
            self._read_ahead(0, self._stretches[0].first_frame)
        return at, start, samples

    def _read_ahead(self, at: int, first: int) -> None:
        stretch = self._stretches[at]
        end = min(first + max(self.info.block_frames, round(PIECE_S * self.info.sample_rate_hz)), stretch.end_frame)
        self._ahead = (at, first, self._reader.submit(stretch.read, first, end))

    def self_test(self) -> tuple[SelfCheck, ...]:
        """Report how much of the recording there is, and the present faults."""
        frames = sum(stretch.end_frame - stretch.first_frame for stretch in self._stretches)
        seconds = frames / self.info.sample_rate_hz
        return (
            SelfCheck("recording", bool(frames), f"{seconds:g} s of {self.info.electrodes} electrodes"),
            *super().self_test(),
        )

    def close(self) -> None:
        """End the replay and close its files."""
        if not self._closed:
            self._closed = True
            self._reader.shutdown()
            self._recording.close()


def _frame(delivery: Delivery) -> int:
    """Return the frame at which a pulse of a recording began."""
    return delivery.pulse.at_frame
