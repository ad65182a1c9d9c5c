"""Sum the charge that the tissue received in a period, from the stimulation ledger. The engine may run meanwhile."""

from __future__ import annotations

from contextlib import closing
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
