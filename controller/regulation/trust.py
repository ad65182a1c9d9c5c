"""Which readings a regulator acts on."""

from __future__ import annotations

from math import isfinite

from controller.core.state import State


def trusted(state: State, point: str, stale_s: float) -> float | None:
    """Return the newest good value of `point` when it is finite and at most `stale_s` old; else None.

    A reading that is suspect or could not be taken leaves the last good one in force for `stale_s`. A probe that is stuck
    is not trusted from the moment that this is known.
    """
    reading = state.readings.get(point)
    if reading is None or reading.stuck or (good := reading.good) is None or not isfinite(good.value):
        return None
    return good.value if 0.0 <= state.at_s - good.at_s <= stale_s else None
