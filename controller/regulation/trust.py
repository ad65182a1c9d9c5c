"""Which readings a regulator acts on."""

from __future__ import annotations

from math import isfinite

from controller.state import State
from drivers.commands import Quality


def trusted(state: State, point: str, stale_s: float) -> float | None:
    """The value of `point` when it is good or uncertain, finite and at most `stale_s` old; else None."""
    reading = state.readings.get(point)
    if reading is None or reading.quality is Quality.BAD or not isfinite(reading.value):
        return None
    return reading.value if 0.0 <= state.at_s - reading.at_s <= stale_s else None
