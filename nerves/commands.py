"""What the service asks of the core: commands for the next block, and the outcomes of stimulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from nerves.cards.contract import Pulse
from nerves.governor import Request, StimulationDecision
from nerves.leases import Lease, LeaseRefused
from nerves.ledger import State


class Busy(Exception):
    """The engine has too much to decide already; ask again later."""


@dataclass(slots=True)
class StimulationOutcome:
    """A decision and, as they become known, the fates of its pulses."""

    decision: StimulationDecision
    frame: int
    """The first frame not yet read when it was decided."""
    number: int = 0
    """The decision's number in the ledger."""
    pulses: list[Pulse] = field(default_factory=list)
    fates: dict[int, tuple[State, int | None, str]] = field(default_factory=dict)
    """By the number of the pulse: its last state, the frame of its delivery, and why it was not delivered."""

    listeners: list[Callable[[StimulationOutcome], None]] = field(default_factory=list)
    """Called once, when the fate of every pulse is known."""

    @property
    def finished(self) -> bool:
        """Whether the fate of every pulse is known."""
        return len(self.fates) == len(self.pulses)


OutcomeCallback = Callable[[StimulationOutcome], None]
LeaseCallback = Callable[[Lease | LeaseRefused], None]


@dataclass(slots=True)
class StimulateCommand:
    """Decide a request; `decided` receives the decision, and `finished` the outcome after the last pulse.

    A command whose client has disconnected before the decision is `withdrawn` and never decided.
    """

    request: Request
    decided: OutcomeCallback
    finished: OutcomeCallback
    withdrawn: Callable[[], bool]
    awaited: bool = True
    """Whether the client's call stays open until the last pulse, so that its end is noticed."""
    repeated: bool = False
    """Set by the core: the request repeats an earlier one, whose outcome it receives."""
    outcome: StimulationOutcome | None = None
    """Set by the core with the decision."""


@dataclass(frozen=True, slots=True)
class LeaseCommand:
    """Acquire, renew or release a lease; `answered` receives the lease, or the reason for the refusal."""

    verb: Literal["acquire", "renew", "release"]
    requester: str
    answered: LeaseCallback
    lease: str = ""
    electrodes: tuple[int, ...] = ()
    ttl_s: float = 0.0
    held: bool = False
    why: str = "the lease was released"
    """Of a release: what is recorded for the pulses that it cancels."""


@dataclass(frozen=True, slots=True)
class CutOffCommand:
    """The call that waited for an outcome has ended: without a heartbeat its pulses end with it."""

    command: StimulateCommand


@dataclass(frozen=True, slots=True)
class RevokeCommand:
    """End every lease of a requester; `done` confirms it, `why` is recorded for the pulses that this cancels."""

    requester: str
    done: Callable[[], None]
    why: str


Command = StimulateCommand | LeaseCommand | CutOffCommand | RevokeCommand


def ends_something(command: Command) -> bool:
    """Return whether a command only ends leases or pulses; such a one is never turned away."""
    return isinstance(command, CutOffCommand | RevokeCommand) or (
        isinstance(command, LeaseCommand) and command.verb == "release"
    )
