"""What the engine reports to its clients: ended leases, muted channels, gaps, permits, stops, alarms.

Numbers grow with each event and over restarts of the engine, so that a client resumes after the last number it has. The
real-time thread writes and never waits; readers hold a number and nothing else.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum

EVENTS_KEPT = 4096
EVENTS_OF_A_SESSION = 1 << 32


class EventKind(Enum):
    """What happened; the value is the name in `nerves.proto`."""

    ENGINE_STARTED = "ENGINE_STARTED"
    LEASE_ENDED = "LEASE_ENDED"
    CHANNEL_MUTED = "CHANNEL_MUTED"
    CHANNEL_RESTORED = "CHANNEL_RESTORED"
    GAP = "GAP"
    PERMIT_CLOSED = "PERMIT_CLOSED"
    PERMIT_OPENED = "PERMIT_OPENED"
    STIMULATION_STOPPED = "STIMULATION_STOPPED"
    STIMULATION_ALLOWED = "STIMULATION_ALLOWED"
    ALARM = "ALARM"
    REFLEX_LATE = "REFLEX_LATE"
    REFLEX_ENDED = "REFLEX_ENDED"


@dataclass(frozen=True, slots=True)
class EngineEvent:
    """One event. `requester` is the only agent that may see it; empty means all."""

    number: int
    kind: EventKind
    frame: int
    text: str = ""
    end_frame: int = 0
    lease: str = ""
    electrodes: tuple[int, ...] = ()
    requester: str = ""


class EventLog:
    """The last events. One thread adds; any thread reads."""

    def __init__(self, session: int) -> None:
        self._events: deque[EngineEvent] = deque(maxlen=EVENTS_KEPT)
        self._first = session * EVENTS_OF_A_SESSION + 1
        self.last = self._first - 1
        """The number of the latest event."""

    def add(
        self,
        kind: EventKind,
        frame: int,
        text: str = "",
        *,
        end_frame: int = 0,
        lease: str = "",
        electrodes: tuple[int, ...] = (),
        requester: str = "",
    ) -> None:
        """Add an event."""
        number = self.last + 1
        self._events.append(EngineEvent(number, kind, frame, text, end_frame, lease, electrodes, requester))
        self.last = number

    def read(self, after: int, requester: str | None) -> tuple[bool, list[EngineEvent], int]:
        """Return what came after a number.

        Args:
            after: Number of the last event that the reader has.
            requester: The reader; None sees everyone's events.

        Returns:
            Whether events just before these are lost to the reader; those it may see; the number to go on from.
        """
        kept = self._copy()
        oldest = kept[0].number if kept else self.last + 1
        news = [event for event in kept if event.number > after]
        seen = [event for event in news if requester is None or event.requester in ("", requester)]
        return after + 1 < oldest, seen, max(after, news[-1].number if news else after)

    def _copy(self) -> list[EngineEvent]:
        while True:
            try:
                return list(self._events)
            except RuntimeError:  # the real-time thread has added one meanwhile
                continue
