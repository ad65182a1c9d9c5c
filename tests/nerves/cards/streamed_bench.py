"""The benches of the cards that read streams: a publisher as Open Ephys has one, and an outlet of LSL, in real time."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from nerves.cards.conformance.stage import CardBench, CardStage, TruePulse
from nerves.cards.contract import CardState, ElectrodeCard, FrameBlock, Frames
from nerves.cards.lsl import LslCard
from nerves.cards.open_ephys import OpenEphysCard
from nerves.cards.streamed import StreamedCard
from sim.lsl import LslOutlet
from sim.neurons.array import SAMPLE_RATE_HZ, compiled
from sim.open_ephys import ZmqInterface
from sim.streaming import StreamingBoard
from tests.nerves.cards.simulated_bench import WitnessedArray

ELECTRODES = 4


class StreamedStage:
    """A stream and what the array gave. LSL has no numbers: the first block says where in the array it began."""

    def __init__(self, card: StreamedCard, board: StreamingBoard, array: WitnessedArray) -> None:
        self.card: ElectrodeCard = card
        self._board, self._array = board, array
        self._begin: int | None = None

    def truth(self, block: FrameBlock) -> Frames:
        """Return what the array gave under these numbers."""
        given = np.concatenate([samples for _, samples in list(self._array.given)])
        if self._begin is None and len(block.samples):
            windows = np.lib.stride_tricks.sliding_window_view(given, block.samples.shape).reshape(
                -1, block.samples.size
            )
            where = np.flatnonzero((windows == block.samples.reshape(-1)).all(axis=1))
            self._begin = int(where[0]) - block.first_frame if len(where) else 0
        first = block.first_frame + (self._begin or 0)
        found: Frames = given[first : first + len(block.samples)]
        return found if len(found) == len(block.samples) else np.full_like(block.samples, 32_767)

    def received(self) -> list[TruePulse]:
        """Nothing receives pulses."""
        return []

    def idle(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    def fail(self, state: CardState, electrodes: tuple[int, ...]) -> None:
        """Stop sending."""
        self._board.stall(True)

    def repair(self) -> None:
        """Go on."""
        self._board.stall(False)

    def true_impedances(self) -> tuple[float, ...]:
        """Return nothing: none is known."""
        return ()


@contextmanager
def open_open_ephys() -> Iterator[CardStage]:
    """Open a card on a new publisher."""
    compiled()
    array = WitnessedArray(ELECTRODES, 3)
    server = ZmqInterface(array, SAMPLE_RATE_HZ)
    card = OpenEphysCard("127.0.0.1", server.port, electrodes=ELECTRODES, stream=server.stream, simulated=True)
    try:
        yield StreamedStage(card, server.board, array)
    finally:
        card.close()
        server.close()


@contextmanager
def open_lsl() -> Iterator[CardStage]:
    """Open a card on a new outlet."""
    compiled()
    array = WitnessedArray(ELECTRODES, 3)
    name = f"choroid test {os.getpid()} {id(array)}"
    outlet = LslOutlet(array, SAMPLE_RATE_HZ, name)
    card = LslCard(name, simulated=True)
    try:
        yield StreamedStage(card, outlet.board, array)
    finally:
        card.close()
        outlet.close()


OPEN_EPHYS = CardBench(
    "Open Ephys through ZMQ Interface", open_open_ephys, faults=((CardState.STALLED, ()),), clock_s=5.0, fault_s=5.0
)
LSL = CardBench("LSL", open_lsl, faults=((CardState.STALLED, ()),), clock_s=5.0, fault_s=5.0)
