"""Time of training: synchronisation on a link, local steps between two of them, and the share of time that it takes.

A ring all-reduce has 2 (N − 1) phases. Its bytes follow each other on the link of each member; each phase adds one way of
latency.
"""

from __future__ import annotations

import math

from grid.planning.traffic import ring_bytes

MAX_SHARE = 0.1
"""Most of the time that synchronisation may take."""
MAX_PROVEN_LOCAL_STEPS = 500
"""Above so many local steps the quality of DiLoCo is not proven (Douillard et al. 2023 went to 500 without a large loss)."""

FIRST_WINDOW_BYTES = 14_480
"""Ten segments, with which TCP begins (RFC 6928) and begins again after a pause (RFC 5681)."""


def transfer_s(size_bytes: float, bits_s: float) -> float:
    """Return how long bytes take on a link of `bits_s` bit/s, without latency (s)."""
    return 8.0 * size_bytes / bits_s


def ring_s(size_bytes: float, members: int, bits_s: float, round_trip_s: float = 0.0) -> float:
    """Return how long a ring all-reduce takes (s).

    Args:
        size_bytes: Bytes that are reduced.
        members: How many take part.
        bits_s: Slowest link of the ring (bit/s).
        round_trip_s: Largest round trip of the ring (s).
    """
    if members < 2:
        return 0.0
    phases = 2 * (members - 1)
    return transfer_s(ring_bytes(size_bytes, members), bits_s) + phases * round_trip_s / 2


def ramp_s(size_bytes: float, bits_s: float, round_trip_s: float) -> float:
    """Return what TCP's slow start adds to a transfer after a pause (s): its window doubles each round trip.

    Args:
        size_bytes: Bytes of the transfer.
        bits_s: Rate of the link (bit/s).
        round_trip_s: Its round trip (s).
    """
    window = min(bits_s / 8.0 * round_trip_s, size_bytes)
    rounds = math.log2(window / FIRST_WINDOW_BYTES) if window > FIRST_WINDOW_BYTES else 0.0
    return max(rounds - 1.0, 0.0) * round_trip_s  # what it sends meanwhile would take one round trip at the full rate


def local_steps(sync_s: float, step_s: float, max_share: float = MAX_SHARE) -> int:
    """Return the least number of local steps for which synchronisation takes at most a share of the time.

    Args:
        sync_s: One synchronisation (s).
        step_s: One local step (s).
        max_share: The share, above 0 and below 1.
    """
    least = sync_s * (1.0 - max_share) / (max_share * step_s)
    return max(1, math.ceil(least - 1e-9))


def sync_share(sync_s: float, step_s: float, steps: int) -> float:
    """Return the share of the time that synchronisation takes after each `steps` local steps (0 to 1)."""
    return sync_s / (sync_s + steps * step_s)


def split_s(whole_s: float, hop_s: float, devices: int) -> float:
    """Return the time of a model that is cut over devices in a row: one hop less than devices (s).

    Args:
        whole_s: Time on one device (s).
        hop_s: What each hop adds (s).
        devices: How many devices.
    """
    return whole_s + (devices - 1) * hop_s
