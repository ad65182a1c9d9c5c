"""When recycling asks for an assay of LDH, which dying cells release: the early sign that medium harms, or that it does not.

The first one, a day after the start, is the baseline. From then on one is asked for when the estimate of the tissue begins to
expect a loss, before it is suspected: the result ends a false suspicion, or confirms a loss, days before other signals
(docs/recycling.md). Nothing waits for it.
"""

from __future__ import annotations

from typing import Any

from protocols.assay import LDH
from protocols.assay_requests import ASSAY_WANTED, TISSUE
from protocols.language import Lab
from protocols.tissue_loss import TissueLoss

CONCERN = 0.04
"""Expected loss (0..1) from which LDH is asked for; a loss is suspected from 0.07 [P]."""
SETTLED_D = 1.0
"""Time (days) after the start from which a baseline is asked for: handling harms some cells, and a short run needs none."""
AGAIN_H = 24.0
"""Minimum age (h) of the newest sample, and of the newest request, for another one."""
DAY_H, WEEK_D = 24.0, 7.0


class LdhRequests:
    """Decides at each look of a run whether LDH is asked for."""

    def __init__(self, max_per_week: float) -> None:
        """`max_per_week` is the maximum number of requests in a week; 0: none."""
        self._max = max_per_week
        self._asked_d: list[float] = []

    def request(self, seen: TissueLoss | None, now_d: float) -> dict[str, Any] | None:
        """Return the data of the note that asks for it; None if nothing is asked for. :meth:`made` counts it.

        Args:
            seen: What the estimate of the tissue says.
            now_d: Time since the run's start (days).
        """
        if seen is None or seen.ldh is None or not seen.known:
            return None
        asked_d = [at_d for at_d in self._asked_d if at_d > now_d - WEEK_D]
        why = _why(seen, now_d)
        recent = bool(asked_d) and now_d < asked_d[-1] + AGAIN_H / DAY_H
        return None if not why or recent or len(asked_d) >= self._max else ldh_note(why)

    def made(self, now_d: float) -> None:
        """Count a request that was made."""
        self._asked_d.append(now_d)

    async def ask(self, lab: Lab, seen: TissueLoss | None, now_d: float) -> None:
        """Ask for LDH if :meth:`request` does; the decision is a step of the run, which a restart follows."""
        if seen is None or seen.ldh is None:
            return
        asked = await lab.decide("ldh", lambda: self.request(seen, now_d))
        if asked is not None:
            self.made(now_d)
            await lab.note(ASSAY_WANTED, asked)


def ldh_note(why: str) -> dict[str, Any]:
    """Return the data of the note that asks for LDH."""
    return {"analytes": [LDH], "where": "loop", "purpose": TISSUE, "text": f"assay LDH of the loop: {why}"}


def _why(seen: TissueLoss, now_d: float) -> str:
    age_h = None if seen.ldh is None else seen.ldh.age_h
    if age_h is None:
        baseline = "it is the baseline with which later results of this culture are compared"
        return baseline if now_d >= SETTLED_D else ""
    if seen.lost < CONCERN or age_h < AGAIN_H:
        return ""
    return f"the estimate expects a loss of {seen.lost:.0%} of the viability, which LDH confirms or excludes"
