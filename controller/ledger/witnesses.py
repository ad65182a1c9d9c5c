"""How much did a transfer move? Two witnesses, each an interval: the pump's own total and the balance. Pure.

The pump counts nominal volume, so its calibration widens what it says; its counter has a step. The balance under the
spent vessel sees every line of the rig that touches it, to some hundredths of a gram. Where the two contradict each
other, or the pump's counter went back, nobody knows for certain, and that is what is said (F2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

DENSITY_UL_PER_G = 1000.0
DENSITY_REL_SD = 0.002
"""Medium at 37 °C: water 0.993 g/mL and about 1 % of salts and sugar."""
K = 3.0
"""Bounds of a witness, in standard deviations."""
NOBODY = "nobody"
"""Who said so, when neither did."""


@dataclass(frozen=True, slots=True)
class Weight:
    """A settled mass (g) and its standard deviation."""

    g: float
    sd_g: float


@dataclass(frozen=True, slots=True)
class Moved:
    """What a transfer moved (µL): best value, bounds, who said so, and whether it is certain.

    `counted` is by how much the pump's own counter has gone on (by its calibration), `counter_step` its step: what it
    claims at least is never given again, whatever the balance says.
    """

    ul: float
    low: float
    high: float
    source: str
    certain: bool = True
    counted: float = 0.0
    counter_step: float = 0.0

    @property
    def claimed_ul(self) -> float:
        """What the pump claims to have moved at the least."""
        return max(self.counted - self.counter_step, 0.0)

    @property
    def charged_ul(self) -> float:
        """How much of what was asked is taken as given."""
        return max(self.high, self.claimed_ul)

    @property
    def sd_ul(self) -> float:
        """Standard deviation: a :data:`K`-th of the half width where it was measured, that of anywhere between else."""
        width = self.high - self.low
        return width / (2 * K) if self.certain else width / math.sqrt(12.0)


def by_balance(before: Weight | None, after: Weight | None, *, sign: int, greatest_ul: float) -> Moved | None:
    """From the balance; `sign` is +1 for a line that fills the weighed vessel, -1 for one that empties it."""
    if before is None or after is None:
        return None
    ul = sign * (after.g - before.g) * DENSITY_UL_PER_G
    sd = math.hypot(math.hypot(before.sd_g, after.sd_g) * DENSITY_UL_PER_G, DENSITY_REL_SD * ul)
    return _clipped(ul, ul - K * sd, ul + K * sd, greatest_ul, "balance")


def by_pump(
    before_ul: float | None, after_ul: float | None, *, step_ul: float, rel_sd: float, greatest_ul: float
) -> Moved | None:
    """From the pump's own totals; None when one is missing, or the pump may have lost power since.

    A counter that went back was zeroed by a power cycle. One that stood at zero and still stands there does not tell one:
    a pump that moved something and then lost power looks the same as one that moved nothing.
    """
    if before_ul is None or after_ul is None or went_back(before_ul, after_ul):
        return None
    if before_ul <= 0.0 and after_ul <= 0.0:
        return None
    ul = after_ul - before_ul
    margin = K * rel_sd
    return _clipped(ul, (ul - step_ul) * (1 - margin), (ul + step_ul) * (1 + margin), greatest_ul, "pump")


def went_back(before_ul: float, after_ul: float) -> bool:
    """Whether the pump's counter was zeroed in between; it never counts down."""
    return after_ul < before_ul - 1e-6


def against(moved: Moved, *, seen_ul: float, counted_ul: float, rel_sd: float) -> Moved:
    """A dose of several, held against what all of them together have come to: `seen_ul` at the most by who saw the others
    move, `counted_ul` by the pump's counter, this dose included.

    One short dose says little to a counter of whole millilitres, and many of them would hide that nothing arrives.
    """
    least_ul = (counted_ul - moved.counter_step) * max(0.0, 1 - K * rel_sd)
    missing_ul = least_ul - seen_ul - moved.high
    if missing_ul <= 0.0:
        return moved
    return replace(moved, high=moved.high + missing_ul, source="contradiction", certain=False)


def by_command(asked_ul: float, *, rel_sd: float) -> Moved:
    """Nobody watched, but the pump said that it finished what it was asked."""
    return Moved(asked_ul, asked_ul * max(0.0, 1 - K * rel_sd), asked_ul * (1 + K * rel_sd), "command")


def agreed(balance: Moved | None, pump: Moved | None, *, asked_ul: float) -> Moved:
    """The narrowest that both witnesses allow; uncertain when they contradict each other or both are silent."""
    if balance is not None and pump is not None:
        low, high = max(balance.low, pump.low), min(balance.high, pump.high)
        if low > high:
            return Moved(
                balance.ul, min(balance.low, pump.low), max(balance.high, pump.high), "contradiction", certain=False
            )
        return Moved(min(max(balance.ul, low), high), low, high, "balance and pump")
    only = balance or pump
    if only is not None:
        return only
    return Moved(asked_ul / 2, 0.0, asked_ul, NOBODY, certain=False)


def _clipped(ul: float, low: float, high: float, greatest_ul: float, source: str) -> Moved | None:
    """Within what is possible at all: from nothing to the pump's volume with its calibration error."""
    if low > greatest_ul or high < 0:
        low, high = min(max(low, 0.0), greatest_ul), max(min(high, greatest_ul), 0.0)
        return Moved(min(max(ul, 0.0), greatest_ul), 0.0, greatest_ul, f"{source}, out of all reason", certain=False)
    low, high = max(low, 0.0), min(high, greatest_ul)
    return Moved(min(max(ul, low), high), low, high, source)
