"""The bench of the RHX card: the real RHX server over TCP, in front of an array that writes down what it gives."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from nerves.cards.conformance.stage import CardBench, CardStage, TruePulse
from nerves.cards.contract import CardState, FrameBlock, Frames
from nerves.cards.rhx import RhxCard
from nerves.cards.rhx_connection import RhxAddress
from sim.neurons.array import SAMPLE_RATE_HZ, compiled
from sim.rhx.server import RhxServer, channel_names
from tests.nerves.cards.simulated_bench import WitnessedArray

ELECTRODES = 40
"""One port of 32 channels and a part of the next."""


class RhxStage:
    """An RHX card with its server."""

    def __init__(self, card: RhxCard, server: RhxServer, array: WitnessedArray) -> None:
        self.card = card
        self._server, self._array = server, array

    def _shift(self) -> int:
        return self.card._offset - self._server._first_frame

    def truth(self, block: FrameBlock) -> Frames:
        """Return what the array gave under these numbers."""
        return self._array.truth(block.first_frame - self._shift(), block)

    def received(self) -> list[TruePulse]:
        """Return what the array received."""
        shift = self._shift()
        return [TruePulse(electrode, frame + shift, phases) for electrode, frame, phases in self._array.received]

    def idle(self, seconds: float) -> None:
        """Read nothing for some time."""
        time.sleep(seconds)

    def fail(self, state: CardState, electrodes: tuple[int, ...]) -> None:
        """Unplug a headstage, stop a chip, or stop sending."""
        if state is CardState.STALLED:
            self._server.stall(True)
        else:
            self._server.unplug(electrodes)

    def repair(self) -> None:
        """End all faults."""
        self._server.stall(False)
        self._server.unplug(())

    def true_impedances(self) -> tuple[float, ...]:
        """Return the culture's."""
        return self._array.impedances_kohm()


@contextmanager
def open_rhx() -> Iterator[CardStage]:
    """Open a card on a new server."""
    compiled()
    array = WitnessedArray(ELECTRODES, 3)
    server = RhxServer(array, SAMPLE_RATE_HZ)
    with TemporaryDirectory() as folder:
        channels = tuple(channel_names(ELECTRODES))
        address = RhxAddress("127.0.0.1", server.command_port, server.waveform_port, channels, str(Path(folder)))
        card = RhxCard(address, simulated=True, stalled_after_s=1.5)  # a busy machine is not what is examined
        try:
            yield RhxStage(card, server, array)
        finally:
            card.close()
            server.close()


RHX = CardBench(
    "Intan RHX over TCP",
    open_rhx,
    faults=(
        (CardState.HEADSTAGE_UNPLUGGED, tuple(range(32))),
        (CardState.DEAD, tuple(range(16, 32))),
        (CardState.STALLED, ()),
    ),
    exact=False,
    within_s=0.5,
    ahead_s=0.3,
    clock_s=3.0,
    fault_s=5.0,
)
