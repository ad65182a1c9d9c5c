"""Bytes that training sends, by engine and codec, counted at one member in one direction.

Sources: Patarasuk and Yuan 2009 (ring all-reduce); Rajbhandari et al. 2020 (stage 3 moves 1.5 times the bytes); Vogels et al.
2019 (PowerSGD, arXiv:1905.13727); Douillard et al. 2023 (DiLoCo, arXiv:2311.08105).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

CODEC_BYTES: Mapping[str, float] = {"fp32": 4.0, "fp16": 2.0, "int8": 1.0, "int4": 0.5}
"""Bytes of a number on the wire; the few scales of int8 and int4 are not counted."""
STAGE_3_FACTOR = 1.5
"""Parameters are gathered forwards and backwards and gradients scattered: three transfers of a ring's two."""
MIN_COMPRESSION = 2.0
"""PowerSGD sends a matrix as it is unless its factors are smaller by more than this (torch's `min_compression_rate`)."""


def ring_bytes(size_bytes: float, members: int) -> float:
    """Return what each member sends in one ring all-reduce: 2 (N − 1) / N times the size (bytes)."""
    return 2.0 * (members - 1) / members * size_bytes


def power_sgd_numbers(shapes: Sequence[Sequence[int]], rank: int) -> tuple[int, int, int]:
    """Return how many numbers PowerSGD reduces a step in its three all-reduces: as they are, left and right factors.

    Args:
        shapes: Shape of each parameter; the first axis is the rows, the others together the columns.
        rank: Rank of the factors.

    Returns:
        Numbers sent as they are, of the left factors, of the right factors.
    """
    plain = left = right = 0
    for shape in shapes:
        rows = shape[0] if shape else 1
        columns = math.prod(shape[1:])
        kept = min(rows, columns, rank)
        if (rows + columns) * kept * MIN_COMPRESSION < rows * columns:
            left, right = left + rows * kept, right + columns * kept
        else:
            plain += rows * columns
    return plain, left, right
