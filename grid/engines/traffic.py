"""How many bytes an exchange sends: arithmetic without torch."""

from __future__ import annotations

BLOCK = 1024
"""Numbers that share a scale in the codec int8."""
BYTES = {"fp32": 4.0, "fp16": 2.0, "int8": 1.0 + 4.0 / BLOCK}
"""Bytes of a number by codec."""


def predicted_bytes(numbers: int, members: int, codec: str) -> float:
    """Return how many bytes each member sends for one mean: 2 (N - 1) / N of the update, as in a ring.

    Args:
        numbers: Parameters of the model.
        members: Members of the round.
        codec: fp32, fp16 or int8.
    """
    return 2.0 * (members - 1) / members * numbers * BYTES[codec]
