"""A core on a simulated array in virtual time: what the tests of the nerves put their questions to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from choroid.running.simulated_card import SimulatedCard, simulated_card
from nerves.brake import Brake
from nerves.cards.contract import FrameBlock, Phase
from nerves.cards.geometry import ArrayGeometry
from nerves.commands import LeaseCommand, StimulateCommand, StimulationOutcome
from nerves.core import Core
from nerves.detections import Spikes
from nerves.detector import Detection
from nerves.envelope import Envelope
from nerves.governor import Request
from nerves.leases import Lease, LeaseRefused
from nerves.ledger import StimulationLedger
from nerves.permit import Tissue
from nerves.reflexes import WAIT_S

PULSE = (Phase(200.0, -1.0), Phase(200.0, 1.0))
"""0.2 nC, balanced, negative first: well inside the envelope of a 30 µm platinum electrode."""


class VirtualCrystal:
    """A clock that sleeping moves; `stall` moves it without anyone having slept."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += max(seconds, 1e-7)

    def stall(self, seconds: float) -> None:
        self.now_s += seconds


class Bench:
    """A core with its array, stepped by hand."""

    def __init__(
        self,
        ledger: Path,
        *,
        electrodes: int = 32,
        seed: int = 7,
        envelope: Envelope | None = None,
        tissue: Tissue | None = None,
        brake: Brake | None = None,
        reflex_wait_s: float = WAIT_S,
        crystal: VirtualCrystal | None = None,
        block_frames: int = 25,
        detection: Detection | None = None,
        geometry: ArrayGeometry | None = None,
    ) -> None:
        self.crystal = crystal or VirtualCrystal()
        self.array: SimulatedCard = simulated_card(
            electrodes=electrodes,
            seed=seed,
            block_frames=block_frames,
            geometry=geometry,
            clock=self.crystal,
            sleep=self.crystal.sleep,
        )
        self.core = Core(
            self.array,
            StimulationLedger(ledger, self.array.info, "2026-01-01T00:00:00Z"),
            envelope or Envelope(),
            tissue,
            brake,
            reflex_wait_s=reflex_wait_s,
            detection=detection,
        )
        self.blocks: list[FrameBlock] = []

    def run(self, seconds: float) -> list[Spikes]:
        """Step for so many seconds of the array; returns each block's spikes."""
        found = []
        end = self.core.next_frame + round(seconds * self.array.info.sample_rate_hz)
        while self.core.next_frame < end:
            block = self.array.read()
            self.blocks.append(block)
            found.append(self.core.step(block))
        return found

    def lease(self, *electrodes: int, requester: str = "agent", ttl_s: float = 1.0) -> Lease:
        """Acquire a lease, which must be granted."""
        answers: list[Lease | LeaseRefused] = []
        self.core.submit(LeaseCommand("acquire", requester, answers.append, electrodes=electrodes, ttl_s=ttl_s))
        self.run(0.001)
        assert isinstance(answers[0], Lease), answers
        return answers[0]

    def command(self, verb: str, lease: Lease) -> Lease | LeaseRefused:
        """Renew or release."""
        answers: list[Lease | LeaseRefused] = []
        self.core.submit(LeaseCommand(verb, lease.requester, answers.append, lease=lease.id))  # type: ignore[arg-type]
        self.run(0.001)
        return answers[0]

    def ask(self, request: Request) -> StimulationOutcome:
        """Submit a request and step until it is decided."""
        answers: list[StimulationOutcome] = []
        self.core.submit(StimulateCommand(request, answers.append, lambda _: None, lambda: False))
        self.run(0.001)
        return answers[0]

    def begun(self) -> list[int]:
        """Frames at which the array has begun pulses so far."""
        return [delivery.frame for block in self.blocks for delivery in block.deliveries if delivery.frame is not None]


@contextmanager
def bench(ledger: Path, **options: object) -> Iterator[Bench]:
    """A bench that is closed at the end."""
    made = Bench(ledger, **options)  # type: ignore[arg-type]
    try:
        yield made
    finally:
        made.core.close()
