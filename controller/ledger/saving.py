"""Fresh medium saved against the scheduled exchange, and the least that mass balance permits.

The share of reused medium in what entered the loop says little: a rig that moved 2 mL in two quiet days has "recycled" all
of it. What counts is the fresh medium that the scheduled exchange would have used in the same time.
"""

from __future__ import annotations

from controller.rig.description import Rig
from protocols.exchange import PARAMS, SCHEDULED_SHARE_D

DAY_S = 86_400.0
_DEFAULTS = {param.name: float(param.default) for param in PARAMS}
SCHEDULED_UL_D = _DEFAULTS["volume"] * DAY_S / _DEFAULTS["every"]
"""Fresh medium of the protocol `exchange` with its default parameters (µL/day): half of a loop of 40 mL."""
LACTATE_LETTER = 1
"""The limit of the mass balance is that of grade B."""
MIN_DAYS = 1.0
"""Shortest time for which a saving is stated."""


def scheduled_ul(rig: Rig, days: float) -> float:
    """Return the fresh medium (µL) that the scheduled exchange of this rig uses: by the volume of its loop, if it has one."""
    per_day = SCHEDULED_UL_D if rig.loop is None else SCHEDULED_SHARE_D * rig.vessels[rig.loop].volume_ul
    return per_day * max(days, 0.0)


def saved_fraction(rig: Rig, fresh_ul: float, days: float) -> float | None:
    """Return the share of the scheduled fresh medium that was not used; negative if more was used, None in the first day."""
    return None if days < MIN_DAYS else 1.0 - fresh_ul / scheduled_ul(rig, days)


def lactate_limit_mm(rig: Rig) -> float | None:
    """Return the highest lactate of grade B by the rig's rules (mM); None without such a rule."""
    edges = next((each.edges for each in rig.grading.variables if each.name == "lactate_mm"), None)
    limit = None if edges is None else edges[LACTATE_LETTER]
    return float(limit) if isinstance(limit, int | float) else None


def bound_ul(lactate_made_umol: float, limit_mm: float, circulating_ul: float, held_umol: float = 0.0) -> float:
    """Return the mass-balance bound: the least fresh medium (µL) that keeps lactate within a limit without a dialyser.

    Args:
        lactate_made_umol: Lactate that the tissue made.
        limit_mm: Highest permitted concentration.
        circulating_ul: Medium in the loop and its chambers, which may fill up to the limit.
        held_umol: Lactate in that medium at the beginning.
    """
    return max(1000.0 * (lactate_made_umol + held_umol) / limit_mm - circulating_ul, 0.0)
