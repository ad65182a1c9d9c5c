"""Interval estimates of a moved volume, from the pump's own total and from the balance. Pure.

The pump counts nominal volume: its calibration widens the interval, and its counter has a resolution. The balance under the
spent vessel sees every line that touches it, within some hundredths of a gram. If the two contradict each other, or the
pump's counter was reset, the result is uncertain and is reported as such (F2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

DENSITY_UL_PER_G = 1000.0
DENSITY_REL_SD = 0.002
"""Relative uncertainty of the density at 37 °C: water 0.993 g/mL, and about 1 % of salts and sugar."""
K = 3.0
"""Half width of an interval, in standard deviations."""
UNMEASURED = "no measurement"
"""Source of a volume that neither the pump nor the balance has measured."""
BY_COUNT = "pump"
"""Source of a volume that only the pump's counter has measured."""
BY_PUMP_ALONE = frozenset((BY_COUNT, "command"))
"""Sources of volumes whose scale is the pump's calibration."""


@dataclass(frozen=True, slots=True)
class Weight:
    """A settled mass (g) and its standard deviation."""

    g: float
    sd_g: float


@dataclass(frozen=True, slots=True)
class Moved:
    """The volume moved by a transfer (µL): best value, bounds, source, and whether it is certain.

    `counted` is the advance of the pump's own counter (by its calibration), `counter_step` its resolution. What the counter
    claims at least is never given again, whatever the balance shows.
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
        """Minimum volume by the pump's counter (µL)."""
        return max(self.counted - self.counter_step, 0.0)

    @property
    def charged_ul(self) -> float:
        """Volume of a dose cut short that counts as given (µL).

        By the counter alone it is what that may have missed, without the error of the calibration, which is the same in the
        rest of the dose.
        """
        if self.source == BY_COUNT:
            return min(max(self.ul, self.counted) + self.counter_step, self.high)
        return max(self.high, self.claimed_ul)

    @property
    def sd_ul(self) -> float:
        """Standard deviation (µL): of a normal distribution if it was measured, of a uniform one if it is uncertain."""
        width = self.high - self.low
        return width / (2 * K) if self.certain else width / math.sqrt(12.0)


def by_balance(before: Weight | None, after: Weight | None, *, sign: int, max_ul: float) -> Moved | None:
    """Return the volume by the balance; `sign` is +1 for a line that fills the weighed vessel, -1 if it empties it."""
    if before is None or after is None:
        return None
    ul = sign * (after.g - before.g) * DENSITY_UL_PER_G
    sd = math.hypot(math.hypot(before.sd_g, after.sd_g) * DENSITY_UL_PER_G, DENSITY_REL_SD * ul)
    return _clipped(ul, ul - K * sd, ul + K * sd, max_ul, "balance")


def by_pump(
    before_ul: float | None, after_ul: float | None, *, step_ul: float, rel_sd: float, max_ul: float
) -> Moved | None:
    """Return the volume by the pump's totals; None if one is missing or the pump may have lost power in between.

    A counter that went back was reset by a power cycle. A counter that is zero before and after is no evidence: a pump that
    moved something and then lost power looks the same as one that moved nothing.
    """
    if before_ul is None or after_ul is None or went_back(before_ul, after_ul):
        return None
    if before_ul <= 0.0 and after_ul <= 0.0:
        return None
    ul = after_ul - before_ul
    margin = K * rel_sd
    return _clipped(ul, (ul - step_ul) * (1 - margin), (ul + step_ul) * (1 + margin), max_ul, BY_COUNT)


def went_back(before_ul: float, after_ul: float) -> bool:
    """Return whether the pump's counter was reset in between; it never counts down."""
    return after_ul < before_ul - 1e-6


def against(moved: Moved, *, seen_ul: float, counted_ul: float, rel_sd: float) -> Moved:
    """Compare a dose with the sum of all doses of its step, and put it in doubt if they do not add up.

    One short dose is within the resolution of a counter of whole millilitres, and many of them could hide that nothing
    arrives.

    Args:
        moved: this dose.
        seen_ul: upper bound of the other doses (µL).
        counted_ul: advance of the pump's counter over all doses, this one included (µL).
        rel_sd: relative uncertainty of the pump.
    """
    min_ul = (counted_ul - moved.counter_step) * max(0.0, 1 - K * rel_sd)
    missing_ul = min_ul - seen_ul - moved.high
    if missing_ul <= 0.0:
        return moved
    return replace(moved, high=moved.high + missing_ul, source="contradiction", certain=False)


def by_command(asked_ul: float, *, rel_sd: float) -> Moved:
    """Return the volume of a dose that the pump reported as finished and nothing else measured."""
    return Moved(asked_ul, asked_ul * max(0.0, 1 - K * rel_sd), asked_ul * (1 + K * rel_sd), "command")


def agreed(balance: Moved | None, pump: Moved | None, *, asked_ul: float) -> Moved:
    """Return the intersection of both intervals; uncertain if they contradict each other or both are missing."""
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
    return Moved(asked_ul / 2, 0.0, asked_ul, UNMEASURED, certain=False)


def _clipped(ul: float, low: float, high: float, max_ul: float, source: str) -> Moved | None:
    """Clip an interval to what is possible: from zero to the pump's volume with its calibration error."""
    if low > max_ul or high < 0:
        return Moved(min(max(ul, 0.0), max_ul), 0.0, max_ul, f"{source}, out of all reason", certain=False)
    low, high = max(low, 0.0), min(high, max_ul)
    return Moved(min(max(ul, low), high), low, high, source)
