"""The bench of the playback card: noise that is known in full, replayed in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from nerves.cards.conformance.stage import CardBench, CardStage, TruePulse
from nerves.cards.contract import CardState, Delivery, FrameBlock, Frames
from nerves.cards.geometry import ArrayGeometry
from nerves.cards.playback import PlaybackCard, ReplayStretch
from tests.nerves.bench import VirtualCrystal

RATE = 20_000.0
ELECTRODES = 8


@dataclass
class KnownRecording:
    """Samples in memory, by default of one stretch; `broken` is a disk that is gone."""

    samples: Frames
    spans: tuple[tuple[int, int], ...] = ()
    name: str = "noise"
    electrodes: int = ELECTRODES
    sample_rate_hz: float = RATE
    uv_per_unit: float = 0.195
    simulated: bool = False
    broken: bool = False
    geometry: ArrayGeometry | None = None
    deliveries: tuple[Delivery, ...] = ()

    @property
    def stretches(self) -> tuple[ReplayStretch, ...]:
        """One stretch, or one for each span."""
        return tuple(ReplayStretch(first, end, self.read) for first, end in self.spans or [(0, len(self.samples))])

    def read(self, first: int, end: int) -> Frames:
        """Return samples."""
        if self.broken:
            raise OSError("no such disk")
        return self.samples[first:end].copy()

    def close(self) -> None:
        """Nothing is open."""


def noise(seconds: float, seed: int = 5) -> Frames:
    """Return reproducible noise that fills the whole range."""
    rng = np.random.default_rng(seed)
    return rng.integers(-32_768, 32_768, (round(seconds * RATE), ELECTRODES), np.int16)


class PlaybackStage:
    """A replay and its recording."""

    def __init__(self, card: PlaybackCard, recording: KnownRecording, crystal: VirtualCrystal) -> None:
        self.card = card
        self._recording, self._crystal = recording, crystal

    def truth(self, block: FrameBlock) -> Frames:
        """Return the recording's frames of these numbers."""
        return self._recording.samples[block.first_frame : block.first_frame + len(block.samples)]

    def received(self) -> list[TruePulse]:
        """Nothing receives pulses."""
        return []

    def idle(self, seconds: float) -> None:
        """Let time pass; a replay loses nothing."""
        self._crystal.stall(seconds)

    def fail(self, state: CardState, electrodes: tuple[int, ...]) -> None:
        """Take the disk away."""
        self._recording.broken = True

    def repair(self) -> None:
        """Give it back."""
        self._recording.broken = False

    def true_impedances(self) -> tuple[float, ...]:
        """Return nothing: none is known."""
        return ()


@contextmanager
def open_playback() -> Iterator[CardStage]:
    """Open a replay of 30 s in virtual time."""
    crystal = VirtualCrystal()
    recording = KnownRecording(noise(30.0))
    card = PlaybackCard(recording, clock=crystal, sleep=crystal.sleep)
    crystal.now_s += 1e-5
    yield PlaybackStage(card, recording, crystal)
    card.close()


PLAYBACK = CardBench(
    "playback", open_playback, faults=((CardState.DEAD, ()),), fault_s=2.5
)  # two pieces are read before the disk is missed
