"""How long the interlocks need no new evaluation while nothing but time changes.

Between two readings only time can trip an interlock: a reading becomes stale or flat, a status too old. These moments are
known in advance, so a tick before the first of them, without any change, has the result of the tick before.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from controller.safety.interlocks import fresh_flow
from controller.safety.terms import Limits, View, Watch

EARLY_S = 1e-3
"""Margin (s) before a moment at which something may change: sums of times are rounded."""
QUIET = Watch()
"""Nothing is tripped, held, counted, awaited or remembered."""


def quiet_until_s(view: View, memory: Watch, limits: Limits) -> float:
    """Return until when (loop s) another evaluation can only repeat `memory`; `-inf` if each tick must evaluate.

    Args:
        view: what the kernel has just evaluated.
        memory: the result (:func:`controller.safety.interlocks.watch`).
        limits: the kernel's limits.
    """
    if memory != QUIET or view.underway or view.bypassed:
        return -inf
    return min(_moments(view, limits), default=inf) - EARLY_S


def _moments(view: View, limits: Limits) -> Iterator[float]:
    """Yield the moments from which on an input counts as unsafe unless a newer one comes; `-inf` if it is unclear."""
    for rule in limits.interlocks:
        newest = view.readings.get(rule.point)
        good = None if newest is None else newest.good
        if newest is None or good is None or newest.at_s > view.now_s or good.at_s > view.now_s:
            yield -inf
            continue
        yield good.at_s + rule.stale_s
        if rule.flat_s:
            yield good.same_since_s + rule.flat_s
    for heart in limits.hearts:
        seen = view.seen.get(heart.pump)
        yield -inf if seen is None else seen.at_s + heart.stale_s
    mixture = limits.mixture
    if mixture is None:
        return
    if fresh_flow(view, mixture.air, mixture) is None:
        yield -inf  # pH and time decide whether CO2 is shut
    for point in (mixture.air, mixture.co2, mixture.o2):
        newest = view.readings.get(point)
        good = None if newest is None else newest.good
        if good is not None and good.at_s > view.now_s:
            yield -inf
        elif fresh_flow(view, point, mixture) is not None and good is not None:
            yield good.at_s + mixture.stale_s
