"""Draw random faults, from a given generator only."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from controller.rig.description import Rig
from sim.faults.kinds import KINDS, Kind
from sim.faults.schedule import Fault, Schedule
from sim.faults.targets import drawn_targets

DAY_S = 86_400.0


def draw(rng: np.random.Generator, rig: Rig, days: float, rate: float, *, survivable: bool = False) -> Schedule:
    """Draw faults over all kinds that this rig has targets for: about `rate` a day for `days`, by time.

    Each kind is as likely as its weight says, each of its targets as any other; lengths and amounts come from the kind's
    ranges, short ones as often as long ones. Every fault that is not momentary ends. With `survivable` all of them are such
    as tissue must live through: no kind that may kill it, none for longer than its kind is survivable.
    """
    kinds = [kind for kind in KINDS.values() if drawn_targets(kind.name, rig) and (kind.survivable or not survivable)]
    weights = np.array([kind.weight for kind in kinds])
    shares = np.cumsum(weights / weights.sum())
    times = np.sort(rng.uniform(0.0, days * DAY_S, int(rng.poisson(rate * days))))
    faults = []
    for at_s in times:
        kind = kinds[min(int(np.searchsorted(shares, rng.random(), side="right")), len(kinds) - 1)]
        whom = drawn_targets(kind.name, rig)
        fault = draw_one(rng, kind, whom[int(rng.integers(len(whom)))], round(float(at_s), 3))
        if survivable and not kind.momentary:
            fault = replace(fault, for_s=min(fault.for_s, kind.survivable_for_s))
        faults.append(fault)
    return Schedule(faults)


def draw_one(rng: np.random.Generator, kind: Kind, target: str, at_s: float) -> Fault:
    """Draw a fault of a kind, with its duration (s) and amount."""
    for_s = 0.0 if kind.momentary else round(_log_uniform(rng, *kind.drawn_s), 1)
    amount = 0.0
    if kind.amount is not None:
        low, high = kind.amount.drawn
        drawn = _log_uniform(rng, low, high) if low > 0 else float(rng.uniform(low, high))
        # A row of a journal is counted whole; three digits are enough of anything else, and easier to read again.
        amount = float(math.ceil(drawn)) if kind.name == "kill" else float(f"{drawn:.3g}")
    return Fault(kind.name, target, at_s, for_s, amount)


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(math.exp(rng.uniform(math.log(low), math.log(high))))
