"""Detection of stuck probes: a probe whose last digits have always moved and then stand still is stuck (I2).

The liveliness of a probe depends on its noise and resolution, so it is learned: the average time between two changes of its
reading. An outage does not count: it says nothing about the probe. A probe that was never seen to be lively, such as a
coarse gauge, is not judged: a flat line is normal for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.rig.description import Rig
from controller.rig.families import points_of
from controller.safety.probe_rules import max_age_s

QUANTITIES = frozenset(("pH", "oxygen", "pressure", "redox potential", "conductivity"))
"""The judged quantities. Temperature has its own interlock; a balance, a gas flow or a switch may rest at one value."""
FLAT_S = 300.0
FLAT_INTERVALS = 30.0
"""A reading is flat if it has not changed for `FLAT_S` and for this many average intervals. With random changes only e⁻³⁰ of
all pauses are as long."""
CHANGES = 20
"""Minimum number of changes before a probe is judged; the average covers about twice as many."""
GAIN = 1.0 / 40.0


@dataclass(slots=True)
class _Pulse:
    value: float
    read_s: float
    """Time of the last reading (loop s)."""
    same_s: float = 0.0
    """Time for which it has read `value`, without outages (s)."""
    changes: int = 0
    interval_s: float = 0.0


class Liveliness:
    """The judged points of one rig."""

    def __init__(self, rig: Rig) -> None:
        self._max_gap_s = {
            point: max_age_s(rig.devices[point.partition(".")[0]].every_s)
            for point, what in points_of(rig).items()
            if what.kind == "sensor" and what.quantity in QUANTITIES
        }
        """By point: the maximum time (s) between two readings; more counts as an outage."""
        self._pulses: dict[str, _Pulse] = {}

    def flat(self, point: str, value: float, now_s: float) -> str | None:
        """Take in a reading. Return why it cannot be live, or None."""
        max_gap_s = self._max_gap_s.get(point)
        if max_gap_s is None:
            return None
        pulse = self._pulses.get(point)
        if pulse is None:
            self._pulses[point] = _Pulse(value, now_s)
            return None
        pulse.same_s += min(now_s - pulse.read_s, max_gap_s)
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
