"""Turns on a grid of time: what is due every so often comes at its time, is not made up for in a burst, and not forgotten.

The grid begins when the protocol asks for it first, not when the run began: a recipe that waits for two days and then
calls `exchange` has missed nothing. A controller that was away, a run that was held and a clock that was set all look the
same from here: turns whose time is past. Of these at most one is done, late, and only where the next one is still half an
interval off; so between two turns there is never less than that, and after an absence no more than that is waited.
"""

from __future__ import annotations

import math

from protocols.language import Lab


async def first_turn(lab: Lab) -> float:
    """Return where a grid begins that has its first turn now (s since the run's start)."""
    return await lab.sleep_until(0.0)


async def next_turn(lab: Lab, begun_s: float, slot: int, every_s: float) -> int:
    """Wait for turn number `slot` (0 is the first) of a grid of `every_s` > 0; returns the one whose turn it is.

    That is a later one where `slot` is past by more than half of `every_s`: the one nearest to now.
    """
    while missed := math.floor(await lab.sleep_until(begun_s + slot * every_s) / every_s + 0.5):
        slot += missed
    return slot
