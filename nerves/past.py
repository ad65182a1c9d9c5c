"""Read the ledger for an engine that starts: settle pulses that a killed engine left open; sum what the tissue received.

A ledger grows by millions of pulses a day, and the start of the engine must not: every query here uses an index, from the
accepted decisions of one session between two frames to their pulses and fates, newest first, and stops after a day.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil, floor

from nerves.bookings import STRETCH_S
from nerves.envelope import HARD

INDEX = "CREATE INDEX IF NOT EXISTS decision_accepted ON decision (session, frame) WHERE accepted;\n"
"""What the questions need."""

DAY_S = 86_400.0
REACH_S = 2.0 * HARD["ahead_s"]
"""Maximum time from a decision to its pulse: twice as far ahead as any envelope allows."""
SETTLE_S = 600.0
"""Time within which a running engine records the fate of a pulse; so only the end of a session is looked through."""

_DECIDED = """
FROM decision INDEXED BY decision_accepted CROSS JOIN pulse ON pulse.decision = decision.id
LEFT JOIN fate ON fate.pulse = pulse.id
WHERE session = :session AND accepted AND decision.frame >= :since
"""
_AT = "coalesce(fate.frame, pulse.at_frame)"
"""A pulse of unknown fate may have come, and counts as if it had, when it was planned."""
_GIVEN = f"{_DECIDED} AND state IN ('delivered', 'unknown')"
_WITHIN = f"{_GIVEN} AND decision.frame < :end AND {_AT} >= :begin AND {_AT} < :end"

_PULSES = f"SELECT {_AT}, requester, electrode, charge_nc {_WITHIN}"
_ANY = f"SELECT 1 {_WITHIN} ORDER BY decision.frame DESC LIMIT 1"
_NEWEST_GIVEN = f"SELECT decision.frame {_GIVEN} ORDER BY decision.frame DESC LIMIT 1"
_LAST_FRAME = f"SELECT max({_AT}) {_GIVEN}"
_UNSETTLED = f"""
SELECT pulse.id, pulse.at_frame, coalesce(max(state = 'handed'), 0) {_DECIDED} GROUP BY pulse.id
HAVING coalesce(max(state IN ('delivered', 'dropped', 'cancelled', 'unknown')), 0) = 0
"""
_NEWEST_ACCEPTED = "SELECT max(frame) FROM decision INDEXED BY decision_accepted WHERE accepted AND session = :session"
_SESSION_BEFORE = "SELECT max(session) FROM decision INDEXED BY decision_accepted WHERE accepted AND session < :session"


@dataclass(frozen=True, slots=True)
class Past:
    """Holds what the tissue received before this session: the last minute's pulses (frame, requester, electrode, nC), the
    last hour's seconds with stimulation, the charge (nC) of its earlier minutes, and the last day's stretches
    (:data:`~nerves.bookings.STRETCH_S`) with stimulation; all counted back from frame 0.
    """

    pulses: list[tuple[int, str, int, float]]
    seconds: list[int]
    minutes: dict[int, float]
    stretches: list[int]
    restarts: list[int] = field(default_factory=list)
    """Frames, within the last hour, before which time of unknown length without an engine was left out."""


@dataclass(frozen=True, slots=True)
class _Session:
    """An earlier session, read as if its last pulse had come just before what followed it."""

    db: sqlite3.Connection
    number: int
    rate: float
    shift: int = 0
    """Offset from this session's frames to the frames of the present session."""

    def given(self, begin: int, end: int) -> Iterator[tuple[int, str, int, float]]:
        """Yield the pulses from our frame `begin` to before `end`: (our frame, requester, electrode, nC)."""
        for frame, requester, electrode, charge_nc in self.db.execute(_PULSES, self._between(begin, end)):
            yield frame + self.shift, requester, electrode, charge_nc

    def any_given(self, begin: int, end: int) -> bool:
        """Return whether there is a pulse from our frame `begin` to before `end`."""
        return self.db.execute(_ANY, self._between(begin, end)).fetchone() is not None

    def last_frame(self) -> int | None:
        """Return the session's own frame of its last pulse; None when it gave none."""
        newest = _one(self.db, _NEWEST_GIVEN, session=self.number, since=0)
        if newest is None:
            return None
        return _one(self.db, _LAST_FRAME, session=self.number, since=newest - self._reach)

    @property
    def _reach(self) -> int:
        return round(REACH_S * self.rate)

    def _between(self, begin: int, end: int) -> dict[str, int]:
        first = begin - self.shift
        return {"session": self.number, "since": first - self._reach, "begin": first, "end": end - self.shift}


def past(db: sqlite3.Connection, session: int, sample_rate_hz: float) -> Past:
    """Return what earlier sessions gave the tissue, as if the last of them had ended just before frame 0 of this one."""
    minute, hour, day = (round(seconds * sample_rate_hz) for seconds in (60.0, 3600.0, DAY_S))
    stretch = STRETCH_S * sample_rate_hz
    pulses: list[tuple[int, str, int, float]] = []
    seconds: set[int] = set()
    minutes: dict[int, float] = {}
    stretches: set[int] = set()
    restarts: list[int] = []
    number: int | None = session
    ended = 0
    while -ended <= day and (number := _one(db, _SESSION_BEFORE, session=number)) is not None:
        last = _Session(db, number, sample_rate_hz).last_frame()
        if last is None:
            continue
        shift = ended - last - 1
        if ended >= -hour:
            restarts.append(ended)
        earlier = _Session(db, number, sample_rate_hz, shift)
        for pulse in earlier.given(-hour, ended):
            frame, _, _, charge_nc = pulse
            seconds.add(floor(frame / sample_rate_hz))
            if frame >= -minute:
                pulses.append(pulse)
            else:
                of = floor(frame / (60 * sample_rate_hz))
                minutes[of] = minutes.get(of, 0.0) + charge_nc
        for k in range(floor(max(shift, -day) / stretch), floor((ended - 1) / stretch) + 1):
            if k not in stretches and earlier.any_given(max(ceil(k * stretch), -day), ceil((k + 1) * stretch)):
                stretches.add(k)
        ended = shift
    return Past(sorted(pulses), sorted(seconds), minutes, sorted(stretches), sorted(restarts))


def settle(db: sqlite3.Connection, sample_rate_hz: float) -> int:
    """Give every pulse that a killed engine left behind its last word; returns how many have an unknown fate.

    Only the last session is looked through: those before were settled when it began.
    """
    session = _one(db, "SELECT max(id) FROM session")
    newest = _one(db, _NEWEST_ACCEPTED, session=session)
    if newest is None:
        return 0
    since = newest - round(SETTLE_S * sample_rate_hz)
    left = db.execute(_UNSETTLED, {"session": session, "since": since}).fetchall()
    db.execute("BEGIN")
    db.executemany(
        "INSERT INTO fate (pulse, state, frame, detail) VALUES (?, ?, ?, ?)",
        [
            (pulse, "unknown", at, "handed to the array; the engine ended before it was confirmed")
            if handed
            else (pulse, "cancelled", None, "the engine ended before it was handed to the array")
            for pulse, at, handed in left
        ],
    )
    db.execute("COMMIT")
    return sum(handed for _, _, handed in left)


def _one(db: sqlite3.Connection, query: str, **named: int | None) -> int | None:
    row = db.execute(query, named).fetchone()
    return None if row is None else row[0]
