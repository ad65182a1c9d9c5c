"""What the members of a round tell each other before they exchange, and what follows from it: the same for every member."""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass

MAX_NORM_RATIO = 10.0
"""An update that is longer than so many times the median is not counted."""
MAX_PEAK_RATIO = 1.001
"""No number of an update is longer than the update; both are rounded."""
FORM = struct.Struct("=q32sqq?dddqd?")


@dataclass(frozen=True, slots=True)
class Figures:
    """What one member says.

    Attributes:
        outer: Outer steps that it has behind it.
        digest: SHA-256 of what all members have in common at that step.
        numbers: Numbers in its update.
        shapes: From the shapes of its parameters.
        contributes: Whether it has an update; one that has just come has none.
        norm: Length of its update.
        peak: Highest magnitude in it.
        loss: Mean loss of its local steps.
        sent: Bytes that it has sent since the job began.
        cpu_s: Processor time that it has used since the job began (s).
        over: Whether the time of the job is over by its clock.
    """

    outer: int
    digest: bytes
    numbers: int
    shapes: int
    contributes: bool
    norm: float
    peak: float
    loss: float
    sent: int
    cpu_s: float
    over: bool

    def packed(self) -> bytes:
        """Return them as bytes of one length."""
        return FORM.pack(*astuple(self))


def unpacked(data: bytes) -> Figures:
    """Return the figures that another member has packed."""
    return Figures(*FORM.unpack(data))


def form_of(found: Sequence[Figures]) -> tuple[int, int]:
    """Return numbers and shapes that most members have; of equal counts, the first."""
    return Counter((each.numbers, each.shapes) for each in found).most_common(1)[0][0]


def excluded(found: Sequence[Figures]) -> dict[int, str]:
    """Return which updates are not counted in this round, by place, each with the reason.

    An update is left out if it has another shape than most, if it is not finite, or if it is longer than ten times the
    (lower) median.
    """
    form = form_of(found)
    reasons: dict[int, str] = {}
    norms: dict[int, float] = {}
    for place, each in enumerate(found):
        if (each.numbers, each.shapes) != form:
            reasons[place] = f"its update has another shape: {each.numbers:,} numbers, most have {form[0]:,}"
        elif not each.contributes:
            continue
        elif not (math.isfinite(each.norm) and math.isfinite(each.peak)):
            reasons[place] = "its update is not finite"
        elif each.norm < 0 or not 0 <= each.peak <= MAX_PEAK_RATIO * each.norm:
            reasons[place] = "its highest number is larger than the whole update"
        else:
            norms[place] = each.norm
    if norms:
        median = sorted(norms.values())[(len(norms) - 1) // 2]
        for place, norm in norms.items():
            if norm > MAX_NORM_RATIO * median:
                reasons[place] = f"its update is {norm / max(median, 1e-300):.3g} times as long as the median"
    return reasons


def source_of(found: Sequence[Figures], outer_steps: int) -> tuple[int, list[int]]:
    """Return the place of the member whose state all take, and the places of those that have another one.

    It is the state after the most outer steps; of several at the same step, the one that most have. A member with more
    steps than the job has is one that has another state.
    """
    form = form_of(found)
    able = [
        place
        for place, each in enumerate(found)
        if (each.numbers, each.shapes) == form and 0 <= each.outer <= outer_steps
    ]
    if not able:
        raise RuntimeError("no member of the round has a state of this job")
    latest = max(found[place].outer for place in able)
    states = Counter(found[place].digest for place in able if found[place].outer == latest)
    digest = states.most_common(1)[0][0]
    source = next(place for place in able if (found[place].outer, found[place].digest) == (latest, digest))
    same = [place for place, each in enumerate(found) if (each.numbers, each.shapes) == form]
    return source, [place for place in same if (found[place].outer, found[place].digest) != (latest, digest)]


def used(totals: Mapping[int, tuple[int, float]]) -> tuple[int, float]:
    """Return bytes and processor time (s) of all ranks from the last figures of each."""
    return sum(sent for sent, _ in totals.values()), sum(cpu_s for _, cpu_s in totals.values())
