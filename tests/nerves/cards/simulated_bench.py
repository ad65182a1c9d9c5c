"""The bench of the simulated card: a virtual crystal, and an array that writes down what it gave and received."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from choroid.running.simulated_card import BUFFER_FRAMES, SimulatedCard, simulated_card
from nerves.cards.conformance.stage import CardBench, CardStage, TruePulse
from nerves.cards.contract import CardState, FrameBlock, Frames, Phase
from sim.neurons.array import SAMPLE_RATE_HZ, SimulatedArray
from tests.nerves.bench import VirtualCrystal


class WitnessedArray(SimulatedArray):
    """The simulated array with a record of what it gave and received, at the crystal's time."""

    crystal: VirtualCrystal

    def __init__(self, electrodes: int, seed: int) -> None:
        super().__init__(electrodes, seed)
        self.given: list[tuple[int, NDArray[np.int16]]] = []
        self._by_number: dict[int, NDArray[np.int16]] = {}
        self.shift: Callable[[], int] = lambda: 0
        """Returns by how much the card's numbers are ahead: a busy machine loses frames more than once."""
        self.received: list[tuple[int, int, tuple[Phase, ...]]] = []
        self.moved: list[int] = []
        """By how much the card's numbers were ahead when each pulse was received."""
        self.lost = 0

    def generate(self, frames: int) -> NDArray[np.int16]:
        """Generate, and write it down by number."""
        first = self.next_frame + self.shift()
        out = super().generate(frames)
        self.given.append((first, out.copy()))
        if frames:
            self._by_number[first] = self.given[-1][1]
        return out

    def truth(self, first: int, block: FrameBlock) -> NDArray[np.int16]:
        """Return what was given last from this number on, in one look: a reader must not fall behind by a search.

        Args:
            first: Number of the first frame as the array counts it.
            block: The block to judge.

        Returns:
            The samples; if none were given, values that no block has.
        """
        none = np.full((len(block.samples), self.electrodes), 32_767, np.int16)
        return self._by_number.get(first, none) if len(block.samples) else none

    def stimulate(self, electrode: int, at_frame: int, phases: Sequence[tuple[float, float]]) -> None:
        """Stimulate, and write it down."""
        super().stimulate(electrode, at_frame, phases)
        self.received.append((electrode, at_frame, tuple(Phase(us, ua) for us, ua in phases)))
        self.moved.append(self.shift())


class SimulatedStage:
    """The simulated card in virtual time. Numbers of lost frames follow from the crystal alone."""

    def __init__(self, card: SimulatedCard, array: WitnessedArray, crystal: VirtualCrystal) -> None:
        self.card = card
        self._array, self._crystal = array, crystal
        self._lost = 0
        self._stalled_at: int | None = None

    def truth(self, block: FrameBlock) -> Frames:
        """Return what the array gave under these numbers."""
        return self._array.truth(block.first_frame - self._lost, block)

    def received(self) -> list[TruePulse]:
        """Return what the array received, by the crystal's numbers."""
        return [TruePulse(electrode, frame + self._lost, phases) for electrode, frame, phases in self._array.received]

    def idle(self, seconds: float) -> None:
        """Let the crystal run on; beyond the hardware's buffer the oldest frames are lost."""
        self._crystal.stall(seconds)
        waiting = self._crystal_frame() - (self._array.next_frame + self._lost) - self.card.info.block_frames
        if waiting > BUFFER_FRAMES:
            self._lost += waiting

    def _crystal_frame(self) -> int:
        return int(self._crystal.now_s * SAMPLE_RATE_HZ)

    def fail(self, state: CardState, electrodes: tuple[int, ...]) -> None:
        """Cause a fault."""
        self.card.fail(state, electrodes)
        if state is CardState.STALLED:
            self._stalled_at = self._array.next_frame

    def repair(self) -> None:
        """End it; a stall has lost the frames of its time."""
        self.card.repair()
        if self._stalled_at is not None:
            waiting = self._crystal_frame() - (self._array.next_frame + self._lost) - self.card.info.block_frames
            self._lost += max(0, waiting)
            self._stalled_at = None

    def true_impedances(self) -> tuple[float, ...]:
        """Return the culture's."""
        return self._array.impedances_kohm()


@contextmanager
def open_simulated() -> Iterator[CardStage]:
    """Open a simulated card of eight electrodes in virtual time."""
    crystal = VirtualCrystal()
    card = simulated_card(electrodes=8, seed=3, clock=crystal, sleep=crystal.sleep)
    array = WitnessedArray(8, 3)
    card = SimulatedCard(array, card.info, clock=crystal, sleep=crystal.sleep)
    crystal.now_s += 1e-5  # in the middle of a frame: no rounding decides
    yield SimulatedStage(card, array, crystal)
    card.close()


SIMULATED = CardBench(
    "simulated array",
    open_simulated,
    faults=(
        (CardState.HEADSTAGE_UNPLUGGED, (0, 1, 2, 3)),
        (CardState.DEAD, (4, 5)),
        (CardState.STALLED, ()),
    ),
    buffer_s=BUFFER_FRAMES / SAMPLE_RATE_HZ,
)
