"""Sum the charge that the tissue received in a period or a session, from the stimulation ledger; the engine may run."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from controller.core.database import open_to_read

# A frame's UTC is its session's beginning and the frames since; each pulse counts by its last word.
_GIVEN = """
SELECT last.state, count(*), total(abs(decision.charge_nc)) FROM pulse
JOIN decision ON decision.id = pulse.decision JOIN session ON session.id = decision.session
JOIN fate AS last ON last.id = (SELECT max(id) FROM fate WHERE fate.pulse = pulse.id)
WHERE julianday(session.utc) + coalesce(last.frame, pulse.at_frame) / session.sample_rate_hz / 86400.0
      BETWEEN julianday(:begin) AND julianday(:end)
GROUP BY last.state
"""
_REFUSED = """
SELECT count(*) FROM decision JOIN session ON session.id = decision.session
WHERE NOT accepted AND julianday(session.utc) + decision.frame / session.sample_rate_hz / 86400.0
      BETWEEN julianday(:begin) AND julianday(:end)
"""


def charge_between(path: Path, begin_utc: str, end_utc: str) -> tuple[int, float, int, int]:
    """Return the pulses delivered or of unknown fate, their charge (nC), how many of unknown fate, and requests refused.

    Raises:
        sqlite3.Error: The file cannot be read.
    """
    of = {"begin": begin_utc, "end": end_utc}
    with closing(open_to_read(path, busy_s=0.5)) as db:
        found = {state: (count, charge) for state, count, charge in db.execute(_GIVEN, of)}
        (refused,) = db.execute(_REFUSED, of).fetchone()
    given = [found[state] for state in ("delivered", "unknown") if state in found]
    unknown = found.get("unknown", (0, 0.0))[0]
    return sum(count for count, _ in given), sum(charge for _, charge in given), unknown, int(refused)


_SESSIONS = """
SELECT session.id, session.utc, session.sample_rate_hz,
       (SELECT count(*) FROM decision WHERE decision.session = session.id AND NOT accepted) FROM session ORDER BY session.id
"""
_OF_SESSION = """
SELECT last.state, count(*), total(abs(decision.charge_nc)), max(coalesce(last.frame, pulse.at_frame)) FROM pulse
JOIN decision ON decision.id = pulse.decision
JOIN fate AS last ON last.id = (SELECT max(id) FROM fate WHERE fate.pulse = pulse.id)
WHERE decision.session = ? GROUP BY last.state
"""


@dataclass(frozen=True, slots=True)
class StimulationSession:
    """What one session of the engine gave: pulses delivered or of unknown fate, and their charge (nC). Times in UTC s."""

    id: int
    begin: float
    end: float
    """When the last pulse was given."""
    pulses: int
    charge_nc: float
    unknown: int
    refused: int


def sessions(path: Path) -> list[StimulationSession]:
    """Return the sessions in which a pulse was asked for, in order.

    Raises:
        sqlite3.Error: The file cannot be read.
    """
    found = []
    with closing(open_to_read(path, busy_s=0.5)) as db:
        for number, utc, rate_hz, refused in db.execute(_SESSIONS).fetchall():
            states = {row[0]: row[1:] for row in db.execute(_OF_SESSION, (number,))}
            given = [states[state] for state in ("delivered", "unknown") if state in states]
            if not given and not refused:
                continue
            begin = datetime.fromisoformat(utc).timestamp()
            last = max((frame or 0 for _, _, frame in given), default=0)
            pulses, charge = sum(count for count, _, _ in given), float(sum(nc for _, nc, _ in given))
            unknown = states.get("unknown", (0, 0.0, 0))[0]
            found.append(
                StimulationSession(number, begin, begin + last / rate_hz, pulses, charge, unknown, int(refused))
            )
    return found
