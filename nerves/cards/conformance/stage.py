"""A bench and its stage: how a card is made, and what is true at its far end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from nerves.cards.contract import CardState, ElectrodeCard, FrameBlock, Frames, Phase


@dataclass(frozen=True, slots=True)
class TruePulse:
    """Holds what the electrodes truly received: the frame at which it began, and every phase."""

    electrode: int
    frame: int
    phases: tuple[Phase, ...]


class CardStage(Protocol):
    """Declares a card with its far end: an amplifier, or a simulation of one, whose truth is known without the card."""

    @property
    def card(self) -> ElectrodeCard:
        """The card that is examined."""
        ...

    def truth(self, block: FrameBlock) -> Frames:
        """Return what the far end sampled in the frames of a block.

        Args:
            block: A block that the card has read.

        Returns:
            Samples of the shape of the block's.
        """
        ...

    def received(self) -> list[TruePulse]:
        """Return every pulse that the electrodes received so far."""
        ...

    def idle(self, seconds: float) -> None:
        """Let the far end go on for some time while nothing reads.

        Args:
            seconds: How long (s).
        """
        ...

    def fail(self, state: CardState, electrodes: tuple[int, ...]) -> None:
        """Cause a fault at the far end.

        Args:
            state: The fault. STALLED always concerns all electrodes.
            electrodes: The electrodes that it concerns.
        """
        ...

    def repair(self) -> None:
        """End all faults."""
        ...

    def true_impedances(self) -> tuple[float, ...]:
        """Return the magnitude at 1 kHz of each electrode (kΩ)."""
        ...


@dataclass(frozen=True)
class CardBench:
    """Holds one kind of card with everything that its examination needs.

    `open` makes a card with its far end and closes both at the end.
    """

    name: str
    open: Callable[[], AbstractContextManager[CardStage]]
    electrode: int = 0
    """An electrode that may be stimulated."""
    others: tuple[int, ...] = (1, 2, 3)
    """Electrodes that may be stimulated together with it."""
    phases: tuple[Phase, ...] = (Phase(200.0, -1.0), Phase(200.0, 1.0))
    """A pulse that the card can deliver."""
    faults: tuple[tuple[CardState, tuple[int, ...]], ...] = ()
    """Faults that the stage can cause, with the electrodes that each one concerns (empty: all)."""
    buffer_s: float = 0.0
    """Time for which nothing may read before the far end loses frames (s); 0 where it cannot lose any."""
    exact: bool = True
    """Whether the card hits the exact frame of a pulse; otherwise it begins it after its frame."""
    within_s: float = 0.05
    """The longest time from the frame of a pulse to its beginning where it is not exact (s)."""
    ahead_s: float = 0.03
    """How far ahead pulses are planned (s); more than the examiner may be delayed."""
    clock_s: float = 0.02
    """How far the card's clock may lie ahead of the end of the block that was read last (s)."""
    fault_s: float = 0.6
    """The longest time until a fault is reported (s of frames, or of waiting)."""

    def __str__(self) -> str:
        return self.name
