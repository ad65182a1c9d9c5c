"""Requests for several electrodes to the engine, in real time: `python -m tests.nerves.one_frame [REQUESTS [LOAD]]`.

Each stimulating card is tried: the simulated one in the engine's process and behind the host of the card process, and the
RHX card at the simulated RHX server. `LOAD` busy loops of ordinary priority run meanwhile, and end with it. What counts is
the record of the array at the far end: all pulses of a request begin in one frame there, or none does.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from choroid.running.simulated_card import SimulatedCard, simulated_card
from nerves.cards.conformance.stage import TruePulse
from nerves.cards.contract import ElectrodeCard, Phase
from nerves.commands import LeaseCommand, StimulateCommand, StimulationOutcome
from nerves.core import Core
from nerves.envelope import Envelope
from nerves.governor import Request
from nerves.leases import Lease, LeaseRefused
from nerves.ledger import StimulationLedger
from nerves.precedence import take_precedence
from tests.nerves.cards.hosted_bench import open_hosted
from tests.nerves.cards.rhx_bench import open_rhx
from tests.nerves.cards.simulated_bench import WitnessedArray

PULSE = (Phase(120.0, -0.4), Phase(120.0, 0.4))
GROUPS = ((0, 1), (0, 2), (1, 2), (0, 1, 2)), ((3, 4), (3, 5), (4, 5), (3, 4, 5))
"""Electrodes of the requests, in turn of the one and the other half of six that may be stimulated; RHX has a key for each."""
ENVELOPE = Envelope(
    organoid_pulses_min=1e6, requester_pulses_min=1e6, electrode_pulses_min=1e6, organoid_nc_s=1e3, requester_nc_s=1e3,
    organoid_nc_h=1e9, duty=0.9, session_s=3600.0,
)  # fmt: skip
"""So many requests within a minute are beyond the shipped limits."""
APART_S = 0.012
LATE = 250
"""Tolerance of the pulses (frames): 10 ms, the most that there is."""


class Stage(Protocol):
    """A card, and what its electrodes received."""

    @property
    def card(self) -> ElectrodeCard: ...
    def received(self) -> list[TruePulse]: ...


class PlainStage:
    """The simulated card in the engine's own process, in real time."""

    def __init__(self) -> None:
        self.array = WitnessedArray(8, 3)
        self.card = SimulatedCard(self.array, simulated_card(electrodes=8, seed=3).info)
        self.array.shift = lambda: self.card._lost

    def received(self) -> list[TruePulse]:
        """Return what the array received, by the card's numbers."""
        found = zip(self.array.received, self.array.moved, strict=True)
        return [TruePulse(electrode, frame + moved, phases) for (electrode, frame, phases), moved in found]


@contextmanager
def open_plain() -> Iterator[Stage]:
    """Open it."""
    stage = PlainStage()
    yield stage
    stage.card.close()


CARDS: dict[str, Callable[[], AbstractContextManager[Stage]]] = {
    "simulated": open_plain,
    "card process": open_hosted,
    "intan-rhx": open_rhx,
}


@contextmanager
def load(loops: int) -> Iterator[None]:
    """Run busy loops meanwhile."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


class Asked:
    """The engine with a card, and the outcomes of requests for several electrodes."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        self._stage = stage
        self._card = stage.card
        self._core = Core(self._card, StimulationLedger(folder / "stimulation.db", self._card.info, ""), ENVELOPE)
        self._chance = random.Random(1)
        self._lease: Lease | None = None
        self._usable = [e for e, kohm in enumerate(self._core.impedances()) if kohm and 10.0 <= kohm <= 2000.0]
        self.outcomes: list[StimulationOutcome] = []

    def run(self, requests: int) -> None:
        """Put the requests, and wait for their pulses."""
        rate = self._card.info.sample_rate_hz
        take_precedence()
        self._step(2.0)
        due = self._core.next_frame
        while len(self.outcomes) < requests:
            if self._core.next_frame >= due and self._held():
                due = self._core.next_frame + round(APART_S * rate)
                soon = self._chance.random() < 0.5
                at = 0 if soon else self._core.next_frame + self._card.info.lead_frames + self._chance.randint(50, 150)
                request = Request(
                    "agent", self._lease.id if self._lease else "",
                    tuple(self._usable[n] for n in self._chance.choice(GROUPS[len(self.outcomes) % 2])), PULSE,
                    at_frame=at, not_after=at and at + LATE,
                )  # fmt: skip
                self._core.submit(StimulateCommand(request, self.outcomes.append, lambda _: None, lambda: False))
            self._core.step(self._card.read())
        self._step(2.5)

    def _step(self, seconds: float) -> None:
        end = self._core.next_frame + round(seconds * self._card.info.sample_rate_hz)
        while self._core.next_frame < end:
            self._core.step(self._card.read())

    def _held(self) -> bool:
        """Return whether there is a lease; without one it is acquired, and one is renewed."""
        living = self._core.living_leases("agent")
        if not living:
            self._lease = None
            self._core.submit(LeaseCommand("acquire", "agent", self._note, electrodes=tuple(range(8)), ttl_s=10.0))
        elif living[0].until_frame - self._core.next_frame < 5 * self._card.info.sample_rate_hz:
            self._core.submit(LeaseCommand("renew", "agent", self._note, lease=living[0].id))
        return self._lease is not None

    def _note(self, answer: Lease | LeaseRefused) -> None:
        if isinstance(answer, Lease):
            self._lease = answer

    def counted(self) -> Counter[str]:
        """Count the requests by what became of them, and what the electrodes received beyond the reports."""
        found: Counter[str] = Counter()
        reported: Counter[tuple[int, int]] = Counter()
        unknown = 0
        for outcome in self.outcomes:
            if not outcome.decision.accepted:
                found["refused"] += 1
                found[f"refused for {outcome.decision.limiting}"] += 1
                continue
            fates = [outcome.fates.get(pulse.id, ("none", None, "")) for pulse in outcome.pulses]
            for pulse, (state, frame, _) in zip(outcome.pulses, fates, strict=True):
                if state == "delivered" and frame is not None:
                    reported[pulse.electrode, frame] += 1
                unknown += state == "unknown"
            states = {(state, None if state == "unknown" else frame) for state, frame, _ in fates}
            ((state, _), *others) = states
            found["PARTED" if others else {"delivered": "in one frame"}.get(state, f"{state} whole")] += 1
        true = Counter((pulse.electrode, pulse.frame) for pulse in self._stage.received())
        found["REPORTED AND NOT TRUE"] = (reported - true).total()
        found["TRUE AND NOT REPORTED"] = max(0, (true - reported).total() - unknown)
        return found


def measure(name: str, requests: int, loops: int) -> Counter[str]:
    """Put requests to the engine with a card, under a load."""
    with tempfile.TemporaryDirectory() as folder, CARDS[name]() as stage:
        asked = Asked(stage, Path(folder))
        with load(loops):
            asked.run(requests)
        return asked.counted()


def main(requests: int, loops: int, *names: str) -> int:
    """Measure and print; the exit status says whether a request was parted."""
    parted = 0
    for name in names or CARDS:
        began = time.monotonic()
        found = measure(name, requests, loops)
        parted += sum(count for what, count in found.items() if what.isupper())
        print(f"{name}, {requests} requests, load {loops}, {time.monotonic() - began:.0f} s: {dict(found)}", flush=True)
    return int(parted > 0)


if __name__ == "__main__":
    words = sys.argv[1:]
    sys.exit(main(int((words + ["10000"])[0]), int((words[1:] + ["0"])[0]), *words[2:]))
