"""Sizes of the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Size:
    """One size of the model.

    `slots` is the number of rows of the table of electrode embeddings, `unit_width` their width.
    """

    width: int
    layers: int
    heads: int
    latents: int
    slots: int
    unit_width: int


SIZES: Mapping[str, Size] = {
    "tiny": Size(width=64, layers=2, heads=4, latents=16, slots=4096, unit_width=16),
    "small": Size(width=192, layers=4, heads=6, latents=24, slots=8192, unit_width=24),
    "base": Size(width=512, layers=5, heads=8, latents=48, slots=65_536, unit_width=32),
    "large": Size(width=1024, layers=6, heads=16, latents=64, slots=65_536, unit_width=32),
}
"""By name of the preset."""
PARAMETERS: Mapping[str, int] = {"tiny": 300_000, "small": 3_000_000, "base": 25_000_000, "large": 100_000_000}
"""Size that each preset is meant to have; it has this number of parameters within 15 %."""
