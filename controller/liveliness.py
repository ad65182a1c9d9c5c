"""Is a probe alive? One whose last digits have always moved and then stand still is stuck, whatever it says (I2).

How lively a probe is depends on its noise and on the digits that it is read with, so it is learned: the time that
passes between two changes of its reading, on average. Nothing is said of one that has never been seen to be lively, such
as a coarse gauge: a flat line is then its usual one.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.rig.description import Rig
from controller.rig.families import points_of

QUANTITIES = frozenset(("pH", "oxygen", "pressure", "redox potential", "conductivity"))
"""What is judged. Temperature has an interlock of its own; a balance, a gas flow or a switch may rest at one value."""
FLAT_S = 300.0
FLAT_INTERVALS = 30.0
"""A reading is flat that has not changed for so long, and for so many times what it usually takes. Where changes come
at random, e⁻³⁰ of all pauses are as long."""
CHANGES = 20
"""So many changes are seen before anything is said, and the average is over about twice as many."""
GAIN = 1.0 / 40.0


@dataclass(slots=True)
class _Pulse:
    value: float
    since_s: float
    changes: int = 0
    interval_s: float = 0.0


class Liveliness:
    """The points of one rig that are judged."""

    def __init__(self, rig: Rig) -> None:
        self._points = frozenset(
            point for point, what in points_of(rig).items() if what.kind == "sensor" and what.quantity in QUANTITIES
        )
        self._pulses: dict[str, _Pulse] = {}

    def flat(self, point: str, value: float, now_s: float) -> str | None:
        """Take in a reading of the moment; says why it cannot be live, or None."""
        if point not in self._points:
            return None
        pulse = self._pulses.get(point)
        if pulse is None:
            self._pulses[point] = _Pulse(value, now_s)
            return None
        pause_s = now_s - pulse.since_s
        if value == pulse.value:
            if pulse.changes < CHANGES or pause_s <= max(FLAT_S, FLAT_INTERVALS * pulse.interval_s):
                return None
            return f"flat: exactly {value:g} for {pause_s:.0f} s, and changed every {pulse.interval_s:.0f} s before"
        pulse.changes += 1
        pulse.interval_s += (pause_s - pulse.interval_s) * max(GAIN, 1.0 / pulse.changes)
        pulse.value, pulse.since_s = value, now_s
        return None
