"""The bench of the card process: its real host, sockets, shared memory and limiter, with the simulated card in real time."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from choroid.running.simulated_card import SimulatedCard, simulated_card
from nerves.cards.conformance.stage import CardStage, TruePulse
from nerves.cards.contract import CardState, FrameBlock, Frames
from nerves.cards.host import CardHost
from nerves.cards.limiter import LimiterLimits
from nerves.cards.remote import RemoteCard, socket_pair
from tests.nerves.cards.simulated_bench import SIMULATED, WitnessedArray


class HostedStage:
    """A card process without the process: the host runs in a thread, so that the truth is at hand."""

    def __init__(self, card: RemoteCard, inner: SimulatedCard, array: WitnessedArray) -> None:
        self.card = card
        self._inner, self._array = inner, array
        array.shift = lambda: inner._lost

    def truth(self, block: FrameBlock) -> Frames:
        """Return what the array gave under these numbers."""
        return self._array.truth(block.first_frame, block)

    def received(self) -> list[TruePulse]:
        """Return what the array received."""
        found = zip(self._array.received, self._array.moved, strict=True)
        return [TruePulse(electrode, frame + moved, phases) for (electrode, frame, phases), moved in found]

    def idle(self, seconds: float) -> None:
        """Read nothing for some time."""
        time.sleep(seconds)

    def fail(self, state: CardState, electrodes: tuple[int, ...]) -> None:
        """Cause a fault."""
        self._inner.fail(state, electrodes)

    def repair(self) -> None:
        """End all faults."""
        self._inner.repair()

    def true_impedances(self) -> tuple[float, ...]:
        """Return the culture's."""
        return self._array.impedances_kohm()


@contextmanager
def open_hosted() -> Iterator[CardStage]:
    """Open a hosted card of eight electrodes in real time."""
    array = WitnessedArray(8, 3)
    inner = SimulatedCard(array, simulated_card(electrodes=8, seed=3).info)
    pulses, far_pulses = socket_pair()
    calls, far_calls = socket_pair()
    patient = replace(LimiterLimits.of("Pt", 30.0), dead_man_us=5_000_000)  # a busy machine is not what is examined
    host = CardHost(inner, far_pulses, far_calls, limits=patient)
    thread = threading.Thread(target=host.serve)
    thread.start()
    card = RemoteCard(pulses, calls, os.getpid())
    try:
        yield HostedStage(card, inner, array)
    finally:
        card.close()
        thread.join()


HOSTED = replace(SIMULATED, name="card process", open=open_hosted, buffer_s=2.5, clock_s=3.0, ahead_s=0.2, fault_s=5.0)
