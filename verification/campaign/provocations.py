"""Faults that provoke the harm which each interlock prevents.

Random faults rarely meet an interlock: a clogged filter matters only while medium flows through it. Each trial
therefore gets some of these faults in addition to the random ones, a different selection each time. A campaign
without one of the interlocks must then detect the harm within a stated number of trials (docs/campaign.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.rig.description import Rig
from controller.rig.graph import lines_of_heart
from controller.safety.terms import Interlock, Limits
from sim.faults.kinds import survivable
from sim.faults.schedule import Fault

SPECIAL = ("volumes", "mixture", "one_at_a_time", "heart_flow")
"""Interlocks of the kernel that are not levels on one point; a rig has those that it has parts for."""
PER_TRIAL = 4
"""Maximum number of provocations per trial."""
FREE_S = 60.0
"""Earliest start (s): the controller has connected by then."""


@dataclass(frozen=True, slots=True)
class Provocation:
    """Provocation of one interlock: a kind of fault, its target, and the ranges of its duration (s) and amount.

    `after_batch_s` is the range of its start relative to the start of a batch (s); None: at any time. With
    `returning`, only a protocol that returns medium to the loop meets the interlock.
    """

    kind: str
    target: str
    for_s: tuple[float, float]
    amount: tuple[float, float] = (0.0, 0.0)
    after_batch_s: tuple[float, float] | None = None
    returning: bool = False


def provocations(rig: Rig, limits: Limits) -> dict[str, Provocation]:
    """Return a provocation for every interlock of `rig`, by the names that `--without` takes."""
    of_level = {rule.name: _of_level(rule, rig) for rule in limits.interlocks}
    found = {**of_level, "volumes": _too_much(rig), "mixture": _unmixed(rig), "one_at_a_time": _two_at_a_time(rig)}
    for name in rig.organs.hearts:
        what = Provocation("heart_occlusion", name, (200.0, 300.0), (1.0, 1.0), (10.0, 30.0))
        found["heart_flow" if len(rig.organs.hearts) == 1 else f"heart_flow.{name}"] = what
    return {name: each for name, each in found.items() if each is not None}


def special(rig: Rig) -> tuple[str, ...]:
    """Return the interlocks of :data:`SPECIAL` that a rig has."""
    hearts = ("heart_flow",) if rig.organs.hearts else ()
    found = {"volumes": _too_much(rig), "mixture": _unmixed(rig), "one_at_a_time": _two_at_a_time(rig)}
    return tuple(name for name in SPECIAL if name in hearts or found.get(name) is not None)


def _transfer_pumps(rig: Rig) -> dict[str, str]:
    """Return the pumps of the lines that doses go through, by line; those of the kidney's discard and the gut come first."""
    hearts = {line for name in rig.organs.hearts for line in lines_of_heart(rig, name)}
    kidney, gut = rig.organs.kidney, rig.organs.gut
    first = [*([] if kidney is None else [kidney.discard]), *([] if gut is None else [gut.feed])]
    lines = dict.fromkeys((*first, *rig.lines))
    return {name: rig.lines[name].pump or "" for name in lines if rig.lines[name].pump and name not in hearts}


def _too_much(rig: Rig) -> Provocation | None:
    pump = next(iter(_transfer_pumps(rig).values()), None)
    return None if pump is None else Provocation("careless", pump, (300.0, 600.0))


def _unmixed(rig: Rig) -> Provocation | None:
    lung = rig.organs.lung
    return None if lung is None else Provocation("careless", lung.air, (600.0, 1200.0))


def _two_at_a_time(rig: Rig) -> Provocation | None:
    kidney, gut, pumps = rig.organs.kidney, rig.organs.gut, _transfer_pumps(rig)
    if kidney is None:
        return None
    pump = pumps[kidney.discard] if gut is None else pumps[gut.feed]
    return Provocation("careless", pump, (300.0, 600.0), after_batch_s=(0.0, 30.0))


def _of_level(rule: Interlock, rig: Rig) -> Provocation | None:
    """Return what leads to the limit of an interlock; None if nothing of the rig can exceed it."""
    organs = rig.organs
    if organs.skin is not None and organs.skin.heater in rule.trips:
        return Provocation("careless", organs.skin.heater, (900.0, 1200.0))
    name = next((name for name, heart in organs.hearts.items() if rule.point == heart.pressure), None)
    if name is not None:
        return Provocation("heart_occlusion", name, (50.0, 60.0), (1.0, 1.0))
    if organs.immune is None or rule.point != organs.immune.pressure:
        return None
    return Provocation(
        "clogged_filter",
        organs.immune.filter,
        (900.0, 1800.0),
        (30.0, 40.0),
        after_batch_s=(180.0, 300.0),
        returning=True,
    )


def provoke(
    rng: np.random.Generator, known: dict[str, Provocation], *, every_s: float, end_s: float, returns: bool, mild: bool
) -> list[Fault]:
    """Draw up to :data:`PER_TRIAL` provocations that end before `end_s`.

    Args:
        rng: Source of randomness.
        known: The rig's provocations.
        every_s: Period of the trial's batches (s); the first starts at once.
        end_s: Time by which the last fault must have ended (s).
        returns: Whether the trial's protocol returns medium to the loop.
        mild: Whether only survivable faults are allowed.

    Returns:
        The faults in the order of drawing.
    """
    faults: list[Fault] = []
    for name in rng.permutation(sorted(known)):
        if len(faults) == PER_TRIAL:
            break
        provocation = known[str(name)]
        for_s = round(float(rng.uniform(*provocation.for_s)), 1)
        amount = float(f"{rng.uniform(*provocation.amount):.3g}")
        at_s = _begin_s(rng, provocation, for_s, every_s, end_s)
        fault = Fault(provocation.kind, provocation.target, at_s, for_s, amount)
        if at_s + for_s > end_s or (provocation.returning and not returns) or (mild and not survivable(fault)):
            continue
        faults.append(fault)
    return faults


def _begin_s(rng: np.random.Generator, provocation: Provocation, for_s: float, every_s: float, end_s: float) -> float:
    if provocation.after_batch_s is None:
        return round(float(rng.uniform(FREE_S, max(FREE_S, end_s - for_s))), 3)
    batches = max(1, int((end_s - for_s - provocation.after_batch_s[1]) / every_s) + 1)
    return round(float(rng.integers(batches)) * every_s + float(rng.uniform(*provocation.after_batch_s)), 3)
