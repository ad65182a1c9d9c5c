"""Readings that a regulator may act on."""

from __future__ import annotations

from math import isfinite

from controller.core.state import State


def trusted(state: State, point: str, stale_s: float) -> float | None:
    """Return the newest good value of `point` if it is finite and at most `stale_s` old, else None.

    After a suspect or missing reading the last good one holds for `stale_s`. A probe known to be stuck is not trusted.
    """
    reading = state.readings.get(point)
    if reading is None or reading.stuck or (good := reading.good) is None or not isfinite(good.value):
        return None
    return good.value if 0.0 <= state.at_s - good.at_s <= stale_s else None
