"""How much an organoid of this age may be stimulated, and whose review says so (N9; biology.md §4).

Three tiers, after the table of Koplin & Savulescu 2019: below 20 weeks (tier 1) ordinary rules; from 20 weeks' in-vivo
equivalent on (tier 2), tissue might be conscious, so a reviewer must weigh the benefits; with advanced capacity
(tier 3, declared in the rig file) err toward over-estimating. Above tier 1 a review is required: its date, by whom, for
how long. Without one that is valid, no more is allowed than the level below: at tier 2 the gentle level, enough to see
whether the tissue still answers; at tier 3 nothing. The tiers' numbers are proposals [P]; age in culture is taken for
in-vivo age, which over-estimates.

Pure, and counted on the array's own clock: no one's calendar can be set back to revive a review while the engine runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final, Literal

DAY_S = 86_400.0
TIER_2_AGE_D = 140.0
"""20 weeks (Koplin & Savulescu 2019, PMC7433685 table 1)."""


@dataclass(frozen=True, slots=True)
class PermitLevel:
    """Limits stimulation by the tissue's age and review. The limits of the envelope hold as well; the stricter one counts."""

    name: str
    charge_nc: float
    """Charge of one phase."""
    duty: float
    """Share of the seconds of any hour with stimulation."""


OPEN: Final = PermitLevel("envelope", math.inf, 1.0)
"""Tier 1: what the envelope allows."""
CAREFUL: Final = PermitLevel("careful", 0.6, 0.2)
"""Above tier 1 with a review: ≤ 0.6 nC a phase, ≤ 20 % of each hour (biology.md §4 [P])."""
GENTLE: Final = PermitLevel("gentle", 0.1, 0.02)
"""FinalSpark's default pulse, 1 µA × 100 µs, in at most 72 s of an hour [P]."""
NONE: Final = PermitLevel("none", 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class PermitReview:
    """Holds a review of the tissue. Its period, `begins_d` to `ends_d`, is in days from the start of the engine; negative
    is past.
    """

    by: str
    on: str
    begins_d: float
    ends_d: float


@dataclass(frozen=True, slots=True)
class Tissue:
    """Holds what a permit depends on: age (days) at the start of the engine, declared capacity, and review."""

    age_d: float = 0.0
    capacity: Literal["ordinary", "advanced"] = "ordinary"
    review: PermitReview | None = None


@dataclass(frozen=True, slots=True)
class Permit:
    """States the level of stimulation that is permitted now. `reason` says why the level is no higher and what to do;
    empty at tier 1.
    """

    tier: int
    level: PermitLevel
    reason: str = ""


ORDINARY: Final = Permit(1, OPEN)


def tissue_at(said: Mapping[str, Any], now: datetime, since: datetime) -> Tissue:
    """Return the tissue as it is at the start of the engine.

    Args:
        said: Entries of the rig file: age_d, age_on (a date as text; None: the age was true at `since`), capacity,
            review (None, or by, on, valid_d).
        now: Start of the engine (aware UTC).
        since: Begin of the stimulation ledger (aware UTC).

    Returns:
        The tissue, with age and review counted to `now`.
    """
    counted_from = since if said["age_on"] is None else _midnight(said["age_on"])
    review = None
    if said["review"] is not None:
        on = said["review"]["on"]
        begins_d = (_midnight(on) - now).total_seconds() / DAY_S
        review = PermitReview(said["review"]["by"], on, begins_d, begins_d + said["review"]["valid_d"])
    age_d = said["age_d"] + max((now - counted_from).total_seconds() / DAY_S, 0.0)
    return Tissue(age_d, said["capacity"], review)


def _midnight(day: str) -> datetime:
    return datetime.combine(date.fromisoformat(day), datetime.min.time(), UTC)


def permit(tissue: Tissue, elapsed_d: float) -> Permit:
    """Return the permit some days after the engine started.

    Args:
        tissue: The tissue at the start of the engine.
        elapsed_d: Time since then (days).

    Returns:
        The tier, the level of stimulation, and the reason for it.
    """
    age_d = tissue.age_d + elapsed_d
    if tissue.capacity == "advanced":
        tier, why = 3, "its capacity is declared advanced (tier 3)"
    elif age_d >= TIER_2_AGE_D:
        tier, why = 2, f"it is {age_d:.0f} d old, {TIER_2_AGE_D:.0f} d or more (tier 2)"
    else:
        return ORDINARY
    fault = _fault(tissue.review, elapsed_d)
    if not fault:
        return Permit(tier, CAREFUL, why)
    level = GENTLE if tier == 2 else NONE
    return Permit(tier, level, f"{why} and {fault}; have it reviewed and write it under “tissue” in the rig file")


def _fault(review: PermitReview | None, elapsed_d: float) -> str:
    """Return why a review is not valid now; empty if it is valid."""
    if review is None:
        return "no review is on record"
    if elapsed_d < review.begins_d:
        return f"the review by {review.by} is dated {review.on}, which has not come yet"
    if elapsed_d >= review.ends_d:
        return f"the review by {review.by} of {review.on} ran out {elapsed_d - review.ends_d:.0f} d ago"
    return ""
