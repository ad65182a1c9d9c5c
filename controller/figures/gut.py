"""Figures of the gut: accuracy of doses, remaining stock, and run-out time."""

from __future__ import annotations

import math

from controller.figures.figure import Z95, Figure, FigureLimits, FigureStatus, figure, missing
from controller.figures.sources import Sources
from controller.figures.transfers import ML, accuracy, volume

RUN_OUT_D = FigureLimits(7.0, 2.0, upward=False)
"""A week's notice to order and thaw, two days to come in and refill (d)."""


def gut(sources: Sources) -> list[Figure]:
    """Return every figure of the gut; none on a rig without one."""
    organ = sources.rig.organs.gut
    if organ is None:
        return []
    feed = organ.feed
    some = sources.moved(feed)
    vessel = sources.rig.lines[feed].from_
    return [
        volume("fresh", "fresh medium given", some, sources.days),
        accuracy("dose_error", "dose against balance", some),
        *stock(sources, vessel, "fresh medium", feed),
    ]


def stock(sources: Sources, vessel: str, what: str, line: str) -> list[Figure]:
    """Return what is left of a stock above its floor at the period's end, and how long it lasts at the period's rate."""
    keys = (f"{vessel}_left", f"{what} left", "mL"), (f"{vessel}_run_out", f"{what} runs out in", "d")
    booked = sources.ledger_end
    if booked is None or vessel not in booked.volumes:
        why = "the journal holds no ledger before the period's end"
        return [missing(*keys[0], why), missing(*keys[1], why)]
    held = booked.volumes[vessel]
    left = max(held.ul - sources.rig.vessels[vessel].floor_ul, 0.0) / ML
    basis = f"ledger of {vessel} at the period's end, above its floor"
    figures = [figure(*keys[0], left, sd=held.sd_ul / ML, basis=basis)]
    used = sum(each.ul for each in sources.moved(line)) / ML
    if used <= 0:
        figures.append(missing(*keys[1], "none was used in the period, so nothing tells how fast it goes"))
        return figures
    rate = used / sources.days
    # The future use is uncertain because the doses are few: their number is Poisson distributed.
    rel = math.hypot(1.0 / math.sqrt(len(sources.moved(line))), held.sd_ul / ML / left if left > 0 else 0.0)
    days = left / rate
    low, high = days / (1 + Z95 * rel), (days / (1 - Z95 * rel) if Z95 * rel < 1 else None)
    verdict: FigureStatus = RUN_OUT_D.judge(days)
    basis = f"at {rate:.3g} mL/d as in the period, {len(sources.moved(line))} doses"
    figures.append(Figure(*keys[1], days, low, high, None, verdict, RUN_OUT_D.text("d"), basis))
    return figures
