"""The roofline of chips: peak, memory bandwidth, their ratio, and performance per watt (Williams et al. 2009)."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

CHIPS = Path(__file__).with_name("chips.csv")


@dataclass(frozen=True, slots=True)
class Chip:
    """A chip as its manufacturer states it.

    `flop_s` is the peak in single precision (flop/s), `bytes_s` the memory bandwidth (byte/s), `watts` the power of the whole
    card or package, None where it is not stated. `source` says where the figures stand.
    """

    name: str
    flop_s: float
    bytes_s: float
    watts: float | None
    source: str

    @property
    def ridge_flop_byte(self) -> float:
        """Return the arithmetic intensity from which the chip is limited by its peak (flop/byte)."""
        return self.flop_s / self.bytes_s

    @property
    def flop_j(self) -> float | None:
        """Return the operations of a joule (flop/J); None where the power is not stated."""
        return None if self.watts is None else self.flop_s / self.watts


def chips() -> list[Chip]:
    """Return the chips of the shipped table, in its order."""
    with CHIPS.open(encoding="utf-8", newline="") as file:
        return [
            Chip(
                row["chip"],
                float(row["fp32_tflop_s"]) * 1e12,
                float(row["memory_gb_s"]) * 1e9,
                float(row["watts"]) if row["watts"] else None,
                row["source"],
            )
            for row in csv.DictReader(file)
        ]


def attainable_flop_s(flop_s: float, bytes_s: float, intensity_flop_byte: float) -> float:
    """Return what a kernel can reach at most (flop/s).

    Args:
        flop_s: Peak of the machine (flop/s).
        bytes_s: Its memory bandwidth (byte/s).
        intensity_flop_byte: Operations of the kernel for each byte that it moves (flop/byte).
    """
    return min(flop_s, intensity_flop_byte * bytes_s)
