"""Random requests that reach every ceiling of stimulation: `python -m tests.nerves.campaign [REQUESTS [SEED [ordered]]]`.

The governor and its bookings run with the default envelope in virtual time; an independent judge (:mod:`tests.nerves.oracle`)
gets what is delivered, each pulse as late as chance and its tolerance say. A ceiling counts as reached when the governor has
refused for it and when, where it can be measured, delivered pulses have filled nine tenths of it.

It is shuffled: each request is for a random time ahead, waiting pulses are cancelled at random, and the engine ends at
random, by a stop or a kill, and begins again from its ledger. `ordered` leaves all that out.
"""

from __future__ import annotations

import heapq
import math
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from nerves.bookings import Bookings
from nerves.cards.contract import ArrayInfo, Impedance, Phase
from nerves.envelope import Envelope
from nerves.governor import GovernorView, Request, StimulationDecision, book, decide
from nerves.ledger import Fate, StimulationLedger
from nerves.permit import GENTLE, ORDINARY, Permit
from tests.nerves.oracle import Given, Oracle

RATE = 25_000
ELECTRODES = 16
INFO = ArrayInfo(
    "campaign", ELECTRODES, float(RATE), 0.195, "Pt", 30.0, 25, 5, 20.0, 0.01, 7.0, True, max_phases=7, skew_us=0.0
)
KOHM = [220.0] * 12 + [400.0, 8_000.0, None, 5.0]
AGENTS = ("anna", "ben", "cleo")
FILLED = 0.9
REFUSALS = frozenset(
    (
        *(
            "request",
            "waveform",
            "polarity",
            "phase_duration",
            "pulse_duration",
            "grid",
            "current",
            "charge",
            "density",
            "net_charge",
        ),
        *(
            "shannon_k",
            "impedance",
            "voltage",
            "time",
            "tolerance",
            "ahead",
            "lease",
            "fence",
            "rate",
            "at_once",
            "pending",
        ),
        *("duty", "rest", "load", "day", "response", "review"),
        *(f"{what}_budget:{whose}" for what in ("charge", "pulse") for whose in ("electrode", "agent", "organoid")),
    )
)
"""Every reason that a request can be refused for, but an engine in trouble and a key that names another request."""
CEILINGS = frozenset(
    (
        *(
            "density",
            "current",
            "voltage",
            "rate",
            "review",
            "at once",
            "duty",
            "rest",
            "session",
            "organoid hour",
            "organoid day",
        ),
        *(f"{whose} {time}" for whose in ("electrode", "requester", "organoid") for time in ("second", "minute")),
    )
)
"""What accepted pulses must have filled to nine tenths. Charge is not among them: on these electrodes density binds first."""


RESTARTS = 0.0006
"""How often the engine ends, for each request of a shuffled campaign."""
CANCELS = 0.01
"""How often waiting pulses are cancelled."""
HANDED = INFO.block_frames + INFO.lead_frames
"""How many frames before its own a pulse is handed to the array; what was handed may come after the end of the engine."""
AWAY_S = (0.02, 0.02, 1.0, 30.0, 290.0, 299.0, 301.0, 3000.0)
"""How long the engine may be away."""


@dataclass(order=True)
class Due:
    """A pulse that waits for the frame at which it will be delivered."""

    frame: int
    number: int
    planned: int = field(compare=False)
    given: Given = field(compare=False)


@dataclass
class Campaign:
    """The governor in virtual time, and its judge. With a folder for the ledger the campaign is shuffled."""

    seed: int = 1
    folder: Path | None = None
    oracle: Oracle = field(default_factory=lambda: Oracle(Envelope(), math.pi * 0.0015**2))
    refused: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    accepted: int = 0
    restarts: int = 0
    cancelled: int = 0
    begin_s: float = 0.0
    """When the present engine began."""
    ahead_s: float = 5.0
    """How far ahead pulses are asked for in a shuffled campaign."""

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.envelope = self.oracle.envelope
        self.bookings = Bookings(RATE, self.envelope.rest_s)
        self.now = 1
        self.permit: Permit = ORDINARY
        self.response_lost = False
        self.leased = frozenset(range(ELECTRODES))
        self._due: list[Due] = []
        self._forgotten = 0
        self._ledger: StimulationLedger | None = None
        self._numbers = 0

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += max(1, round(seconds * RATE))
        done: list[Fate] = []
        while self._due and self._due[0].frame < self.now:
            pulse = heapq.heappop(self._due)
            self.oracle.judge(pulse.given)
            done.append((pulse.number, "delivered", pulse.frame, ""))
        if self._ledger and done:
            self._ledger.fates(done)
        if self.now - self._forgotten >= RATE:
            self._forgotten = self.now
            self.bookings.forget_before(self.now)

    def begin(self, ahead_s: float) -> None:
        """Begin a scene after a day and a half of rest; shuffled, it asks so far ahead and has a new ledger."""
        self.wait(36 * 3600.0)
        self.ahead_s = ahead_s
        if self.folder:
            self.envelope = replace(self.oracle.envelope, ahead_s=max(ahead_s, self.oracle.envelope.ahead_s))
            if self._ledger:
                self._ledger.close()
            for file in self.folder.glob("stimulation.db*"):
                file.unlink()
            self._ledger = self._opened(self.folder)

    def _opened(self, folder: Path) -> StimulationLedger:
        return StimulationLedger(folder / "stimulation.db", INFO, "2026-01-01T00:00:00+00:00")

    def restart(self, folder: Path) -> None:
        """End the engine, and begin again from its ledger after some time."""
        assert self._ledger
        self.restarts += 1
        kill = self.chance.random() < 0.5
        handed = [pulse for pulse in self._due if pulse.planned <= self.now + HANDED]
        self._ledger.fates([(pulse.number, "handed", None, "") for pulse in handed])
        if not kill:
            waiting = [pulse for pulse in self._due if pulse.planned > self.now + HANDED]
            self._ledger.fates([(pulse.number, "cancelled", None, "") for pulse in waiting])
        self._ledger.close()
        for pulse in sorted(handed):
            if self.chance.random() < 0.7:  # the array goes on with what it was given
                self.oracle.judge(pulse.given)
        self.cancelled += len(self._due) - len(handed)
        self._due = []
        self.begin_s += self.now / RATE + self.chance.choice(AWAY_S) * (1.0 + self.chance.random() / 100)
        self.now, self._forgotten = 1, 0
        self._ledger = self._opened(folder)
        past = self._ledger.past(float(RATE))
        self.bookings = Bookings(RATE, self.envelope.rest_s)
        self.bookings.restore(past.pulses, past.seconds, past.minutes, past.stretches, past.restarts)

    def _cancel(self) -> None:
        """Cancel some of what waits and was not handed over."""
        assert self._ledger
        gone = {pulse.number for pulse in self._due if pulse.planned > self.now + HANDED and self.chance.random() < 0.5}
        self._ledger.fates([(number, "cancelled", None, "") for number in sorted(gone)])
        self._due = [pulse for pulse in self._due if pulse.number not in gone]
        heapq.heapify(self._due)
        self.cancelled += len(gone)

    def _shuffled(self, request: Request) -> Request:
        """Return the request for a random time ahead; what could never be accepted stays as it is."""
        lasts = request.period_frames * (request.pulses - 1)
        free = round(self.ahead_s * RATE) - lasts
        if free <= INFO.lead_frames or not 0 <= request.at_frame < self.now + 5 * RATE:
            return request
        at_frame = self.now + self.chance.randint(INFO.lead_frames, free)
        late = self.chance.choice((0, 0, 25, 250)) if request.pulses == 1 or request.period_frames > 1000 else 0
        return replace(request, at_frame=at_frame, not_after=at_frame + late)

    def ask(self, request: Request) -> bool:
        """Put a request before the governor, and its pulses, if it is accepted, before the judge."""
        self.requests += 1
        if self.folder:
            if self.chance.random() < RESTARTS:
                self.restart(self.folder)
            if self.chance.random() < CANCELS:
                self._cancel()
            request = self._shuffled(request)
        impedances = [None if kohm is None else Impedance(kohm, self.now) for kohm in KOHM]
        view = GovernorView(
            self.now, INFO, impedances, self.leased, self.bookings, len(self._due), self.response_lost,
            permit=self.permit, fence=7,
        )  # fmt: skip
        decision = decide(request, view, self.envelope)
        for reason in decision.reasons:
            scope = next((word for word in ("electrode", "organoid") if f"{word} " in reason.text), "agent")
            self.refused[f"{reason.limit}:{scope}" if reason.limit.endswith("_budget") else reason.limit] += 1
        if not decision.accepted:
            return False
        self.accepted += 1
        book(request, decision, self.bookings)
        numbers = self._numbered(request, decision)
        phases = tuple((phase.duration_us, phase.current_ua) for phase in request.phases)
        for start in decision.starts:
            for electrode in request.electrodes:
                frame = start + self.chance.randint(0, decision.tolerance)
                given = Given(
                    self.begin_s + frame / RATE, electrode, request.requester, phases, KOHM[electrode],
                    electrode in self.leased, self.response_lost, self.permit.level.charge_nc,
                )  # fmt: skip
                heapq.heappush(self._due, Due(frame, next(numbers), start, given))
        return True

    def _numbered(self, request: Request, decision: StimulationDecision) -> Iterator[int]:
        """Return numbers for the pulses of an accepted request: those of the ledger, if there is one."""
        if self._ledger:
            return iter([pulse.id for pulse in self._ledger.decided(request, decision, self.now)[1]])
        self._numbers += 10_000
        return iter(range(self._numbers, self._numbers + 10_000))

    def reached(self) -> tuple[set[str], set[str]]:
        """Reasons never given, and ceilings never filled."""
        never = {name for name in REFUSALS if not self.refused[name]}
        return never, {name for name in CEILINGS if self.oracle.fullest[name] < FILLED}


def pulse(us: float, ua: float) -> tuple[Phase, Phase]:
    return Phase(us, -ua), Phase(us, ua)


TINY, USUAL, FULL, STRONG = pulse(20.0, 0.1), pulse(200.0, 1.0), pulse(340.0, 1.0), pulse(100.0, 2.98)


def wild(campaign: Campaign) -> None:
    """Malformed and excessive requests, and times when nothing is allowed."""
    chance = campaign.chance
    odd = [0.0, -1.0, 5e-324, 1e308, math.inf, math.nan, 20.0, 200.0, 500.0, 520.0, 210.0, 0.005, 30.0]
    for _ in range(300):
        campaign.wait(chance.random() * 0.2)
        waves = chance.choice(
            [
                tuple(Phase(chance.choice(odd), chance.choice(odd)) for _ in range(chance.randint(0, 8))),
                (Phase(500.0, -40.0), Phase(500.0, -40.0), Phase(500.0, 40.0), Phase(500.0, 40.0)),
                pulse(100.0, 2.4),
                STRONG,
                FULL,
                (Phase(200.0, -1.0), Phase(200.0, 1.02)),
                (Phase(200.0, 1.0), Phase(200.0, -1.0)),
                USUAL,
                (Phase(100.0, -1.0), Phase(200.0, 1.0), Phase(100.0, -1.0)),
                (Phase(100.0, -1.0), Phase(60.0, 0.0), Phase(200.0, -0.5), Phase(200.0, 1.0)),
                (Phase(200.0, -1.0), Phase(60.0, 0.0), Phase(200.0, -1.0), Phase(400.0, 1.0)),
                (Phase(300.0, -1.0), Phase(20.0, 0.1), Phase(300.0, -1.0), Phase(480.0, 1.25)),
                USUAL * 2,
            ]
        )
        at = chance.choice([0, 0, campaign.now + 100, campaign.now + 10 * RATE, 1, 2**70])
        request = Request(
            chance.choice(AGENTS),
            "lease",
            tuple(chance.choices(range(-1, ELECTRODES + 1), k=chance.randint(0, 3))),
            waves,
            at_frame=at,
            not_after=chance.choice([0, 0, at - 1, at + 300, at + 200]) if at else 0,
            pulses=chance.choice([0, 1, 1, 3, 10**9]),
            period_frames=chance.choice([0, 250, 10**6]),
            fence=chance.choice([0, 7, 6]),
        )
        campaign.response_lost = chance.random() < 0.1
        campaign.leased = frozenset(range(8)) if chance.random() < 0.2 else frozenset(range(ELECTRODES))
        campaign.permit = Permit(2, GENTLE, "old") if chance.random() < 0.2 else ORDINARY
        campaign.ask(request)
        campaign.ask(replace(request, electrodes=(chance.randrange(ELECTRODES),), pulses=1, at_frame=0, not_after=0))
        campaign.wait(0.02)
    campaign.response_lost, campaign.leased, campaign.permit = False, frozenset(range(ELECTRODES)), ORDINARY
    for electrode, waves in ((0, pulse(100.0, 3.0)), (12, pulse(100.0, 2.24)), (3, pulse(340.0, 1.04))):
        campaign.wait(1.5)
        campaign.ask(Request("anna", "lease", (electrode,), waves))
    campaign.permit = Permit(2, GENTLE, "old")
    campaign.wait(1.5)
    campaign.ask(Request("anna", "lease", (0,), pulse(100.0, 1.0)))
    campaign.wait(5.0)
    campaign.permit = ORDINARY


def dense(campaign: Campaign) -> None:
    """Strong pulses as fast as they may come: the budgets of a second, the rate, electrodes at once."""
    chance = campaign.chance
    for turn in range(1500):
        campaign.wait(chance.random() * 0.012)
        electrodes = tuple(chance.sample(range(12), chance.choice([1, 1, 2, 4, 8, 9])))
        waves = chance.choice([USUAL, USUAL, FULL, pulse(60.0, 1.0)])
        soon = campaign.now + 5
        who = "anna" if turn < 500 else chance.choice(AGENTS)
        campaign.ask(Request(who, "lease", electrodes, waves, at_frame=soon, not_after=soon))


def many(campaign: Campaign) -> None:
    """Tiny pulses as fast as they may come, planned ahead: the budgets of a minute, pulses pending."""
    groups = [tuple((first + k) % 12 for k in range(8)) for first in (0, 4, 8)]
    for agents, sets in ((AGENTS[:2], groups), (AGENTS[:1], groups), (AGENTS, [(0,)])):
        start = campaign.now + 10
        for turn in range(400 if campaign.folder else 150):
            start = max(start, campaign.now + 10)
            request = Request(
                agents[turn % len(agents)], "lease", sets[turn % len(sets)], TINY,
                at_frame=start, not_after=start, pulses=32, period_frames=125,
            )  # fmt: skip
            if campaign.ask(request):
                start += 32 * 125
            else:
                campaign.wait(0.4)
        campaign.wait(70.0)


def long(campaign: Campaign) -> None:
    """Forty pulses every second for an hour and a half: session, rest, and duty."""
    for _ in range(5400):
        campaign.wait(0.98 + 0.04 * campaign.chance.random())
        electrodes = (campaign.chance.randrange(12),)
        campaign.ask(Request("ben", "lease", electrodes, USUAL, pulses=40, period_frames=2500))


def heavy(campaign: Campaign) -> None:
    """As much charge in each second as it may hold: the charge of an hour."""
    for turn in range(1300 if campaign.folder else 900):
        campaign.wait(1.06)
        for who, first in (("anna", 0), ("ben", 4)):
            electrodes = tuple(range(first, first + 4))
            at = campaign.now + 10 + first * 15
            campaign.ask(
                Request(
                    who, "lease", electrodes, FULL, at_frame=at, not_after=at, pulses=13, period_frames=1500 + turn % 3
                )
            )


def whole_day(campaign: Campaign) -> None:
    """A pulse every fifteen seconds for twenty minutes, and rests: the hours of a day."""
    for _ in range(28):
        for _ in range(78):
            campaign.wait(14.0 + 2.0 * campaign.chance.random())
            campaign.ask(Request("cleo", "lease", (campaign.chance.randrange(12),), USUAL))
        for _ in range(4):
            campaign.wait(305.0 + campaign.ahead_s + campaign.chance.random())
            campaign.ask(Request("cleo", "lease", (campaign.chance.randrange(12),), USUAL))


SCENES: tuple[tuple[Callable[[Campaign], None], float, int], ...] = (
    (wild, 5.0, 3), (dense, 0.5, 6), (many, 5.0, 1), (heavy, 0.5, 1), (long, 60.0, 1), (whole_day, 60.0, 6)
)  # fmt: skip
"""Each scene, how far ahead it asks in the first round of a shuffled campaign (s), and how often later rounds play it."""


def run(campaign: Campaign, requests: int) -> Iterator[int]:
    """Play the scenes in turn, each after a day and a half of rest, until there were so many requests."""
    first = True
    while campaign.requests < requests:
        for scene, ahead_s, times in SCENES:
            for _ in range(1 if first else times):
                campaign.begin(ahead_s if first else campaign.chance.choice((0.5, 5.0, 60.0)))
                scene(campaign)
        first = False
        yield campaign.requests
    campaign.wait(100.0)


def main(requests: int, seed: int, *, ordered: bool) -> int:
    """Run and print; the exit status says whether there was a violation or a ceiling that was not reached."""
    with tempfile.TemporaryDirectory() as folder:
        return _run(Campaign(seed, None if ordered else Path(folder)), requests)


def _run(campaign: Campaign, requests: int) -> int:
    for done in run(campaign, requests):
        print(
            f"{done} requests, {campaign.accepted} accepted, {campaign.restarts} restarts of the engine,"
            f" {campaign.cancelled} pulses cancelled, {campaign.oracle.violations.total()} violations",
            flush=True,
        )
    for name, count in sorted(campaign.refused.items()):
        print(f"  refused for {name}: {count}")
    for name, share in sorted(campaign.oracle.fullest.items()):
        print(f"  {name}: filled to {share:.3f}")
    never, unfilled = campaign.reached()
    print(
        f"never refused for {sorted(never)}; never filled {sorted(unfilled)}; violations {dict(campaign.oracle.violations)}"
    )
    return int(bool(never or unfilled or campaign.oracle.violations))


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:3]]
    sys.exit(main(*(numbers + [1_000_000, 1][len(numbers) :]), ordered="ordered" in sys.argv[3:]))
