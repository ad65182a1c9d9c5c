"""Idempotency keys: a request that is repeated after a broken connection gets the first answer, and no second pulse."""

from __future__ import annotations

import hashlib
from collections import OrderedDict

from nerves.cards.contract import Pulse
from nerves.commands import StimulationOutcome
from nerves.governor import Reason, Request, StimulationDecision
from nerves.ledger import StimulationLedger, StimulationRecord

RECENT = 1024
"""Outcomes kept in memory, with the fates still to come; earlier ones are read from the ledger."""


class KeyReused(Exception):
    """The key names another request; the message says which."""


class Repeats:
    """Outcomes by requester and key. The real-time thread alone uses it."""

    def __init__(self, ledger: StimulationLedger) -> None:
        self._ledger = ledger
        self._recent: OrderedDict[tuple[str, str], tuple[str, StimulationOutcome]] = OrderedDict()

    def find(self, request: Request) -> StimulationOutcome | None:
        """Return the outcome of the earlier request with this key; None for a new key, or none.

        Raises:
            KeyReused: The earlier request asked for something else.
            sqlite3.Error: The ledger cannot be read.
        """
        if not request.idempotency_key:
            return None
        known = self._recent.get((request.requester, request.idempotency_key)) or self._kept(request)
        if known is None:
            return None
        digest, outcome = known
        if digest != request_digest(request):
            raise KeyReused(
                f"the key “{request.idempotency_key}” names another request, decision {outcome.number} of the ledger."
                " Next: give each new request a key of its own"
            )
        return outcome

    def keep(self, request: Request, outcome: StimulationOutcome) -> None:
        """Remember the outcome of a request that has a key."""
        if request.idempotency_key:
            digest = request_digest(request)
            self._ledger.name(request.requester, request.idempotency_key, digest, outcome.number)
            self._recent[request.requester, request.idempotency_key] = digest, outcome
            while len(self._recent) > RECENT:
                self._recent.popitem(last=False)

    def forget(self, outcomes: list[StimulationOutcome]) -> None:
        """Forget outcomes that could not be committed: their requests were never accepted."""
        gone = {id(outcome) for outcome in outcomes}
        for key in [key for key, (_, outcome) in self._recent.items() if id(outcome) in gone]:
            del self._recent[key]

    def _kept(self, request: Request) -> tuple[str, StimulationOutcome] | None:
        named = self._ledger.named(request.requester, request.idempotency_key)
        return None if named is None else (named[0], _outcome(named[1]))


def request_digest(request: Request) -> str:
    """Return a digest of what is asked for: the pulse, where and when; a repeat may come under a newer lease."""
    phases = [(phase.duration_us, phase.current_ua) for phase in request.phases]
    asked = (request.electrodes, phases, request.at_frame, request.not_after, request.pulses, request.period_frames)
    return hashlib.sha256(repr(asked).encode()).hexdigest()[:32]


def _outcome(record: StimulationRecord) -> StimulationOutcome:
    """Return the outcome that the ledger tells; what it has no word of is unknown."""
    reasons = tuple(Reason(record.limiting or "", text) for text in record.reasons)
    outcome = StimulationOutcome(StimulationDecision(record.accepted, reasons), record.frame, record.id)
    for number, pulse in enumerate(record.pulses):
        outcome.pulses.append(Pulse(number, pulse.electrode, (), pulse.at_frame, pulse.at_frame))
        outcome.fates[number] = (pulse.state, pulse.delivered_frame, pulse.detail)
    return outcome
