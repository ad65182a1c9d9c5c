"""How long a heater pulse may last while nobody can see what it does: the probe may have been stuck since its last change.

An interlock sees a stuck probe only after minutes (`Interlock.flat_s`), and a reading just inside its level lets every
pulse through meanwhile. Heat is therefore bounded by what it can do, not by what is shown. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import floor

from controller.safety.terms import Limits, View

PULSE_GRAIN_S = 0.1
"""Relays count in tenths of a second: what is left of a pulse is rounded down to whole ones."""


def heat_bounds(actuator: str, pulse_s: float, view: View, limits: Limits) -> Iterator[tuple[float, str]]:
    """Yield what bounds a heater pulse: how long it may last (s; 0: not at all), and why.

    The point could have risen at `Interlock.rise_per_s` ever since its reading last changed. The heat has to end before
    it could pass `Interlock.ceiling`, however many pulses are asked for meanwhile. A reading that cannot be trusted bounds
    nothing here: its interlock refuses all heat.
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
        # Not a number is no room either.
        yield (round(floor(room_s / PULSE_GRAIN_S) * PULSE_GRAIN_S, 1) if room_s >= PULSE_GRAIN_S else 0.0), why
