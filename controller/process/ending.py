"""The orderly end: every output comes to its basal state."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from controller.gate.gate import Gate

logger = logging.getLogger(__name__)

FALL_BACK_S = 10.0
"""How long an orderly end waits for devices that do not answer."""


async def fell_back(gate: Gate, min_doses_ul: Mapping[str, float]) -> bool:
    """Bring every output to its basal state. Return whether each is there; else the guard has to go on.

    Args:
        gate: The gate.
        min_doses_ul: The smallest dose of each pump.
    """
    ending = gate.ending(min_doses_ul)
    within_s = FALL_BACK_S + max(ending.values(), default=0.0)
    try:
        async with asyncio.timeout(within_s):
            owing = await gate.fall_back("the controller ends", ending)
    except TimeoutError:
        logger.warning("not every output could be brought to its basal state within %g s: the guard goes on", within_s)
        return False
    if owing:
        logger.warning("could not be brought to the basal state: %s; the guard goes on", ", ".join(owing))
    return not owing
