"""Is a probe alive? One whose last digits have always moved and then stand still is stuck, whatever it says (I2).

How lively a probe is depends on its noise and on the digits that it is read with, so it is learned: the time that
passes between two changes of its reading, on average. Time in which nothing was read is none of it: an outage says nothing
about the probe. Nothing is said of one that has never been seen to be lively, such as a coarse gauge: a flat line is then
its usual one.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.rig.description import Rig
from controller.rig.families import points_of
from controller.safety.probe_rules import oldest_s

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
    read_s: float
    """When it was last read."""
    same_s: float = 0.0
    """For how long it has been read as `value`, outages left out."""
    changes: int = 0
    interval_s: float = 0.0


class Liveliness:
    """The points of one rig that are judged."""

    def __init__(self, rig: Rig) -> None:
        self._most_s = {
            point: oldest_s(rig.devices[point.partition(".")[0]].every_s)
            for point, what in points_of(rig).items()
            if what.kind == "sensor" and what.quantity in QUANTITIES
        }
        """By point: so much of the time (s) between two readings counts; the rest was an outage."""
        self._pulses: dict[str, _Pulse] = {}

    def flat(self, point: str, value: float, now_s: float) -> str | None:
        """Take in a reading of the moment; says why it cannot be live, or None."""
        most_s = self._most_s.get(point)
        if most_s is None:
            return None
        pulse = self._pulses.get(point)
        if pulse is None:
            self._pulses[point] = _Pulse(value, now_s)
            return None
        pulse.same_s += min(now_s - pulse.read_s, most_s)
        pulse.read_s = now_s
        if value == pulse.value:
            if pulse.changes < CHANGES or pulse.same_s <= max(FLAT_S, FLAT_INTERVALS * pulse.interval_s):
                return None
            return (
                f"flat: exactly {value:g} for {pulse.same_s:.0f} s, and changed every {pulse.interval_s:.0f} s before"
            )
        pulse.changes += 1
        pulse.interval_s += (pulse.same_s - pulse.interval_s) * max(GAIN, 1.0 / pulse.changes)
        pulse.value, pulse.same_s = value, 0.0
        return None
