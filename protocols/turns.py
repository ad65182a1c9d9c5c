"""Periodic turns: each comes at its time; missed turns are neither repeated in a burst nor forgotten.

The period starts when the protocol first requests it, not when the run began: a recipe that waits for two days and
then calls `exchange` has missed nothing. An absent controller, a held run and a changed clock look the same here:
turns whose time is past. Of these at most one is done late, and only if the next one is still half a period away;
so the time between two turns is at least half a period, and after an absence no longer than that is waited.
"""

from __future__ import annotations

import math

from protocols.language import Lab


async def first_turn(lab: Lab) -> float:
    """Return the start of a period whose first turn is now (s since the run's start)."""
    return await lab.sleep_until(0.0)


async def next_turn(lab: Lab, begun_s: float, slot: int, every_s: float) -> int:
    """Wait for turn number `slot` (0 is the first) of a period of `every_s` > 0; return the number of the turn that
    is due.

    It is a later one if `slot` is past by more than half of `every_s`: the one nearest to now.
    """
    while missed := math.floor(await lab.sleep_until(begun_s + slot * every_s) / every_s + 0.5):
        slot += missed
    return slot
