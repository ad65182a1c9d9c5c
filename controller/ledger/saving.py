"""Fresh medium saved against the scheduled exchange, and the least that mass balance permits.

The share of reused medium in what entered the loop says little: a rig that moved 2 mL in two quiet days has "recycled" all
of it. What counts is the fresh medium that the scheduled exchange would have used in the same time.
"""

from __future__ import annotations

from protocols.exchange import PARAMS

DAY_S = 86_400.0
_DEFAULTS = {param.name: float(param.default) for param in PARAMS}
SCHEDULED_UL_D = _DEFAULTS["volume"] * DAY_S / _DEFAULTS["every"]
"""Fresh medium of the protocol `exchange` with its default parameters (µL/day)."""
MIN_DAYS = 1.0
"""Shortest time for which a saving is stated."""


def scheduled_ul(days: float) -> float:
    """Return the fresh medium (µL) that the scheduled exchange uses in this time."""
    return SCHEDULED_UL_D * max(days, 0.0)


def saved_fraction(fresh_ul: float, days: float) -> float | None:
    """Return the share of the scheduled fresh medium that was not used; negative if more was used, None in the first day."""
    return None if days < MIN_DAYS else 1.0 - fresh_ul / scheduled_ul(days)


def bound_ul(lactate_made_umol: float, limit_mm: float, circulating_ul: float) -> float:
    """Return the least fresh medium (µL) that keeps lactate within a limit without a dialyser: the mass balance.

    Args:
        lactate_made_umol: Lactate that the tissue made.
        limit_mm: Highest permitted concentration.
        circulating_ul: Medium in the loop and its chambers, which may fill up to the limit.
    """
    return max(1000.0 * lactate_made_umol / limit_mm - circulating_ul, 0.0)
