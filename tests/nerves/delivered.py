"""Pulses that an array has delivered, against every ceiling: `python -m tests.nerves.delivered [PULSES [SEED]]`.

The whole engine runs with the simulated array in virtual time. Three requesters acquire, exchange and lose leases, repeat
requests under old keys, and use leases that have ended; the engine is stopped and killed, and starts again at once or later,
with the same ledger and an array whose frames begin at 0. What counts is the record of the array itself: electrode, frame and
phases of what it was stimulated with. Requesters are distinguished by the lengths of their phases and requests with a key by
their currents, never by the ledger. The judge (:mod:`tests.nerves.oracle`) counts windows over all restarts; this module adds
leases and repeats.
"""

from __future__ import annotations

import gc
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from nerves.cards.contract import Phase
from nerves.commands import LeaseCommand, StimulateCommand, StimulationOutcome
from nerves.envelope import Envelope, disc_area_cm2
from nerves.governor import Request
from nerves.leases import Lease, LeaseRefused
from tests.nerves.bench import Bench
from tests.nerves.oracle import Given, Oracle

RATE = 25_000
ELECTRODES = 32
PHASE_US = {"anna": 200.0, "ben": 220.0, "cleo": 240.0}
"""Length of the phases of each requester's pulses: how the array's record says whose a pulse is."""
ENVELOPE = Envelope(
    requester_nc_s=30.0,
    organoid_nc_s=50.0,
    electrode_pulses_min=900.0,
    requester_pulses_min=4000.0,
    organoid_pulses_min=8000.0,
    session_s=40.0,
    rest_s=6.0,
)
"""Limits of a minute and of a session that are reached within minutes; the others are the shipped ones."""
CEILINGS = ("electrode second", "requester second", "organoid second", "rate", "at once", "session", "rest")
MINUTES = ("electrode minute", "requester minute", "organoid minute")
PLAIN_UA = (0.6, 1.0, 1.5)
"""Currents of requests without a key."""
KEYED_UA = tuple(each / 100 for each in range(61, 150) if each != 100)
"""Currents of requests with a key, one after the other: how the array's record says whose a pulse is."""
SILENCE_S = 0.01
"""How long a pulse may begin after its lease has ended (N3)."""
Delivered = tuple[int, int, tuple[tuple[float, float], ...]]
End = Literal["stop", "kill"]


@dataclass
class Held:
    """A lease as its holder knows it; times in seconds over all runs of the engine."""

    lease: Lease
    from_s: float
    until_s: float = float("inf")


@dataclass
class DeliveredPulses:
    """The campaign and its count."""

    ledger: Path
    seed: int = 1
    envelope: Envelope = ENVELOPE
    oracle: Oracle = field(init=False)
    excess: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    given: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    repeats: int = 0
    begin_s: float = 0.0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.oracle = Oracle(self.envelope, disc_area_cm2(30.0))
        self.held: dict[str, list[Held]] = {who: [] for who in PHASE_US}
        self.asked: list[Request] = []
        """Requests with a key that were accepted: they are repeated."""
        self._keys = 0
        self._accepted: set[str] = set()
        self._promised: Counter[tuple[str, float]] = Counter()
        """Pulses of requests with a key that were accepted, by requester and current."""
        self._seen: Counter[tuple[str, float]] = Counter()

    @property
    def delivered(self) -> int:
        """Pulses in the array's record so far."""
        return self.given.total()

    def run(self, pulses: int, run_s: float = 25.0) -> None:
        """Run engines one after the other until so many pulses were delivered."""
        while self.delivered < pulses:
            self.engine(run_s * (0.4 + self.chance.random()), self.chance.choice(("stop", "kill")))

    def engine(self, seconds: float, end: End) -> None:
        """Run one engine to its end, and judge what its array has recorded."""
        self.runs += 1
        bench, record = Bench(self.ledger, electrodes=ELECTRODES, seed=self.seed, envelope=self.envelope), []
        array = bench.array._array
        stimulate, offset = array.stimulate, 0

        def recorded(electrode: int, at_frame: int, phases: Sequence[tuple[float, float]]) -> None:
            record.append((at_frame, electrode, tuple(phases)))
            stimulate(electrode, at_frame, phases)

        array.stimulate = recorded  # type: ignore[method-assign]
        kohm = array.impedances_kohm()
        for holds in self.held.values():
            holds.clear()
        steps = round(seconds * 1000)
        burst = 0
        for _ in range(steps):
            if burst == 0 and self.chance.random() < 0.002:
                burst = self.chance.choice((300, 2000))
            burst = max(0, burst - 1)
            self._act(bench, dense=burst > 0)
            bench.core.step(bench.array.read())
            if len(record) - offset >= 5000:
                offset += self._judge(record[offset:], kohm)
        if end == "kill":
            for _ in range(10):  # the array goes on with what it was given
                bench.array.read()
            bench.core._ledger.abandon()
            bench.core._ledger._db.close()
        else:
            bench.core.close()
        self._judge(record[offset:], kohm)
        self.begin_s += max(bench.array.now_frame(), array.next_frame) / RATE
        self.begin_s += self.chance.choice((0.0, 0.02, 1.0))
        del bench, array
        gc.collect()

    def _act(self, bench: Bench, *, dense: bool) -> None:
        chance = self.chance
        now_s = self.begin_s + bench.core.next_frame / RATE
        for who, holds in self.held.items():
            living = [each for each in holds if now_s < each.until_s]
            if len(living) < 2 and chance.random() < 0.05:
                electrodes = tuple(chance.sample(range(ELECTRODES), chance.choice((4, 8, 12))))
                answered = partial(self._leased, who, now_s)
                bench.core.submit(LeaseCommand("acquire", who, answered, electrodes=electrodes, ttl_s=2.0))
            elif living and chance.random() < 0.001:
                each = chance.choice(living)
                each.until_s = now_s
                bench.core.submit(LeaseCommand("release", who, lambda _: None, lease=each.lease.id))
            elif living and chance.random() < 0.01:
                each = chance.choice(living)
                bench.core.submit(LeaseCommand("renew", who, partial(self._renewed, each, now_s), lease=each.lease.id))
            if holds and chance.random() < (0.5 if dense else 0.06):
                self._ask(bench, who, chance.choice(living) if living and chance.random() < 0.97 else holds[-1])

    def _leased(self, who: str, now_s: float, answer: Lease | LeaseRefused) -> None:
        if isinstance(answer, Lease):
            self.held[who].append(Held(answer, now_s))

    def _renewed(self, each: Held, now_s: float, answer: Lease | LeaseRefused) -> None:
        if isinstance(answer, LeaseRefused):  # it has ended by its time, at the latest now
            each.until_s = min(each.until_s, now_s)

    def _ask(self, bench: Bench, who: str, held: Held) -> None:
        chance, lease = self.chance, held.lease
        if self.asked and chance.random() < 0.05:  # again, of this run or an earlier one
            request = chance.choice(self.asked[-400:])
        else:
            us, ua = PHASE_US[who], chance.choice(PLAIN_UA)
            electrodes = tuple(
                chance.sample(sorted(lease.electrodes), chance.choice((1, 2, min(4, len(lease.electrodes)))))
            )
            key = ""
            if chance.random() < 0.3:
                key, ua = f"k{self._keys}", KEYED_UA[self._keys % len(KEYED_UA)]
                self._keys += 1
            count = chance.choice((1, 1, 2, 8))
            request = Request(
                who, lease.id, electrodes, (Phase(us, -ua), Phase(us, ua)), pulses=count,
                period_frames=chance.choice((130, 250, 700)) if count > 1 else 0, fence=lease.fence, idempotency_key=key,
            )  # fmt: skip
        bench.core.submit(
            StimulateCommand(request, partial(self._decided, request), lambda _: None, lambda: False, awaited=True)
        )

    def _decided(self, request: Request, outcome: StimulationOutcome) -> None:
        """Count what the first answer to a request promises; a repeat promises nothing more."""
        if not outcome.decision.accepted:
            self.refused.update(reason.limit for reason in outcome.decision.reasons)
            return
        pulses = len(request.electrodes) * request.pulses
        if request.idempotency_key:
            if request.idempotency_key in self._accepted:
                self.repeats += 1
                return
            self._accepted.add(request.idempotency_key)
            self._promised[request.requester, _ua(request.phases[0].current_ua)] += pulses
            self.asked.append(request)
        self.accepted[request.requester] += pulses

    def _judge(self, record: Sequence[Delivered], kohm: Sequence[float]) -> int:
        """Judge pulses of the array's record in the order of their frames; return their number."""
        for frame, electrode, phases in sorted(record, key=lambda each: each[0]):
            at_s = self.begin_s + frame / RATE
            who = next((name for name, us in PHASE_US.items() if us == phases[0][0]), "unknown")
            leased = any(
                electrode in each.lease.electrodes and each.from_s <= at_s <= each.until_s + SILENCE_S
                for each in self.held.get(who, ())
            )
            self.oracle.judge(Given(at_s, electrode, who, phases, kohm[electrode], leased, False, float("inf")))
            self.given[who] += 1
            own = who, _ua(phases[0][1])
            self._seen[own] += 1
            if own[1] in KEYED_UA and self._seen[own] > self._promised[own]:
                self.excess["beyond what requests with a key asked for"] += 1
        for who, count in self.given.items():
            if count > self.accepted[who]:
                self.excess[f"beyond what was accepted for {who}"] = count - self.accepted[who]
        return len(record)

    @property
    def violations(self) -> dict[str, int]:
        """Excess by name; empty if there is none."""
        return dict(self.oracle.violations + self.excess)

    def unfilled(self, names: Sequence[str]) -> set[str]:
        """Ceilings that the delivered pulses have not filled to nine tenths."""
        return {name for name in names if self.oracle.fullest[name] < 0.9}


def _ua(current_ua: float) -> float:
    return round(abs(current_ua), 2)


def main(pulses: int, seed: int) -> int:
    """Run and print; the exit status says whether there was excess, or a ceiling that was not reached."""
    with tempfile.TemporaryDirectory() as folder:
        campaign = DeliveredPulses(Path(folder) / "stimulation.db", seed)
        while campaign.delivered < pulses:
            campaign.run(min(pulses, campaign.delivered + 10_000))
            print(
                f"{campaign.delivered} delivered in {campaign.runs} runs of the engine, {campaign.begin_s:.0f} s;"
                f" {campaign.repeats} repeats answered; excess {sum(campaign.violations.values())}",
                flush=True,
            )
    for name, share in sorted(campaign.oracle.fullest.items()):
        print(f"  {name}: filled to {share:.3f}")
    for name, count in sorted(campaign.refused.items()):
        print(f"  refused for {name}: {count}")
    unfilled = campaign.unfilled((*CEILINGS, *MINUTES))
    print(f"never filled {sorted(unfilled)}; excess {campaign.violations}")
    return int(bool(unfilled or campaign.violations))


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    sys.exit(main(*(numbers + [100_000, 1][len(numbers) :])))
