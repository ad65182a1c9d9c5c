"""Maximum duration of a heater pulse when the temperature probe may be stuck. Pure.

An interlock detects a stuck probe only after minutes (`Interlock.flat_s`), and until then a reading just inside its limit
lets every pulse through. Heat is therefore bounded by the energy it can deliver, not only by the reading.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import floor

from controller.safety.terms import Limits, View

PULSE_GRAIN_S = 0.1
"""Relays count in tenths of a second: the rest of a pulse is rounded down to this grain (s)."""


def heat_bounds(actuator: str, pulse_s: float, view: View, limits: Limits) -> Iterator[tuple[float, str]]:
    """Yield the bounds on a heater pulse: maximum duration (s; 0 forbids the pulse) and reason.

    The point could have risen at `Interlock.rise_per_s` since its reading last changed. The heat must end before the
    point could pass `Interlock.ceiling`, however many pulses are requested meanwhile. An untrusted reading gives no bound
    here: its interlock refuses all heat.
    """
    for rule in limits.interlocks:
        if rule.rise_per_s <= 0.0 or actuator not in rule.trips or rule.name in view.bypassed:
            continue
        newest = view.readings.get(rule.point)
        reading = None if newest is None else newest.good
        if reading is None:
            continue
        same_s = max(view.now_s - reading.same_since_s, 0.0)
        room_s = (rule.ceiling - reading.value) / rule.rise_per_s - same_s
        if pulse_s <= room_s:
            continue
        why = (
            f"heat: {rule.point} has shown {reading.value:g} for {same_s:.0f} s;"
            f" {pulse_s:g} s at full power could pass {rule.ceiling:g}"
        )
        # NaN fails this comparison and leaves no room.
        yield (round(floor(room_s / PULSE_GRAIN_S) * PULSE_GRAIN_S, 1) if room_s >= PULSE_GRAIN_S else 0.0), why
