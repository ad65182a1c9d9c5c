"""Waiting for what comes back by itself: a hub that is away, a laboratory that is not connected, a lease that was lost."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import TypeVar

from choroid.client.errors import NervesError
from grid.errors import GridError, GridRefused, LeaseEnded

T = TypeVar("T")

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0


def spread(pause_s: float) -> float:
    """Return a pause of 50 to 150 % of `pause_s` at random, so that many clients do not come back at the same moment."""
    return pause_s * (0.5 + secrets.randbelow(1000) / 1000)


async def patiently(attempt: Callable[[], Awaitable[T]], say: Callable[[str], None]) -> T:
    """Repeat `attempt` until it succeeds, without a limit, after pauses that grow from 0.5 to 30 s.

    Repeated are attempts that fail because the hub, the laboratory or its electrode engine cannot be reached, or because a
    lease was not granted or has ended. Each attempt should open its own clients, which also renews the certificate.

    Args:
        attempt: What to do.
        say: Takes what is waited for, whenever that changes.

    Returns:
        What the attempt that succeeded returned.

    Raises:
        GridRefused: The hub refuses, which time does not change: the identity was revoked, the request is malformed.
    """
    pause_s, said = FIRST_PAUSE_S, ""
    while True:
        try:
            return await attempt()
        except (GridError, NervesError) as error:
            if isinstance(error, GridRefused) and not isinstance(error, LeaseEnded):
                raise
            reason = str(error)
        if reason != said:
            said = reason
            say(f"waiting: {reason}")
        await asyncio.sleep(spread(pause_s))
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
