"""The program of a recipe file: steps that use the same verbs as a Python protocol and write the same journal.

controller/recipes/file.py makes one; it runs like any protocol function. Single steps are in :mod:`protocols.steps`, steps
that contain others in :mod:`protocols.blocks`. A program takes all its inputs from the lab, so it repeats itself after a
restart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from protocols.expression import PLAIN, Expression, MissingValue
from protocols.host import ProtocolError
from protocols.language import Lab
from protocols.parameters import Param
from protocols.results import ChamberFacts

VERSION = 1
"""Increased when a run that began before must not go on under the present steps: part of every recipe's hash."""

DEEPEST_CALL = 8
BURST = 10_000
"""Maximum number of turns of a `while`, and of steps without a reading or a wait: a loop that only computes would block the
controller."""

NAMES: Mapping[str, tuple[str, Callable[[Lab], float]]] = {
    "loop.volume": ("uL", lambda lab: lab.volumes()["loop"].ul),
    "spent.volume": ("uL", lambda lab: lab.volumes()["spent"].ul),
    "waste.volume": ("uL", lambda lab: lab.volumes()["waste"].ul),
    "spent.passes": (PLAIN, lambda lab: lab.volumes()["spent"].passes),
    "loop.target": ("uL", lambda lab: lab.targets.loop_ul),
    "loop.spare": ("uL", lambda lab: lab.targets.loop_spare_ul),
    "spent.target": ("uL", lambda lab: lab.targets.spent_ul),
    "spent.floor": ("uL", lambda lab: lab.targets.spent_floor_ul),
    "spent.room": ("uL", lambda lab: lab.targets.spent_room_ul),
    "ph.target": (PLAIN, lambda lab: lab.targets.ph),
    "fresh.glucose": ("mM", lambda lab: lab.targets.glucose_mm),
    "filter.max_pressure": ("kPa", lambda lab: lab.immune.max_pressure_kpa),
    "filter.min_pressure": ("kPa", lambda lab: lab.immune.min_pressure_kpa),
    "liver.min_dose": ("uL", lambda lab: lab.liver.min_dose_ul),
}
"""Predefined names of expressions: unit and source. Parameters and saved results have names as well."""
CHAMBER_VOLUME_NAME = "chamber.volume"
CHAMBER_NAMES: Mapping[str, Callable[[ChamberFacts], float] | None] = {
    CHAMBER_VOLUME_NAME: None,
    "chamber.capacity": lambda facts: facts.capacity_ul,
    "chamber.target": lambda facts: facts.target_ul,
    "chamber.floor": lambda facts: facts.floor_ul,
    "chamber.limit": lambda facts: facts.limit_ul,
}
"""Predefined names (µL) of the chamber of a `for_each`. The volume is read when a turn begins, and after its doses (None)."""


class Ended(Exception):
    """The recipe's `end` step."""


class ChamberFailed(Exception):
    """Ends the dose of one chamber after a failure; the other chambers are dosed as planned."""

    def __init__(self, chamber: str, why: str) -> None:
        super().__init__(f"{chamber}: {why}")
        self.why = why


@dataclass(frozen=True, slots=True)
class Policies:
    """Decisions for cases that the steps of a recipe leave open."""

    missing: str = "ask"
    """A value could not be measured: "ask" (hold, then as go_on), "go_on" (the condition is not met, the volume is 0), "end"
    (end the recipe)."""
    timeout: str = "ask"
    """A wait has timed out: "ask", "go_on" or "end"."""
    small_dose: str = "skip"
    """A computed volume is below the minimum of its pump: "skip" (move nothing) or "hold" (ask, then move nothing)."""


@dataclass(slots=True)
class Now:
    """State of a running program."""

    lab: Lab
    values: dict[str, Any]
    policies: Policies
    depth: int = 0
    idle: int = 0
    """Steps since the last reading or wait."""
    chamber: str = ""
    """The chamber of the turn, in a `for_each`."""
    saved_by: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Values that the steps of each chamber have saved."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Chambers that are left out, with the reason."""

    def value(self, name: str) -> Any:
        """Return the present value of a name; None if it is missing."""
        if name in self.values:
            return self.values[name]
        if name in NAMES:
            return NAMES[name][1](self.lab)
        if self.chamber and (of_facts := CHAMBER_NAMES.get(name)) is not None:
            return of_facts(self.lab.chambers[self.chamber].facts)
        raise ProtocolError(
            f"“{name}” is used before a step has saved it. Likely cause: that step was skipped. Next: move it up"
        )

    async def number(self, expression: Expression, where: str, *, missing: float = 0.0) -> float:
        """Return the value of `expression`; the recipe's policy decides about a missing value."""
        return float(await self.valued(expression, where, missing))

    async def holds(self, condition: Expression, where: str) -> bool:
        """Return whether a condition is met."""
        return bool(await self.valued(condition, where, False))

    async def valued(self, expression: Expression, where: str, missing: Any) -> Any:
        """Return the value of an expression of any kind; `missing` if a reading in it has no value and the policy is to go
        on.
        """
        try:
            value = expression.evaluate(self.value)
        except ZeroDivisionError:
            raise ProtocolError(f"{where}: “{expression.text}” divides by zero. Next: correct the recipe") from None
        except MissingValue as error:
            await self.decide(self.policies.missing, f"{where}: {error}. Next: check its sensor, then resume")
            return missing
        if isinstance(value, float) and not math.isfinite(value):
            raise ProtocolError(f"{where}: “{expression.text}” is not a finite number. Next: correct the recipe")
        return value

    async def decide(self, policy: str, message: str) -> None:
        """Apply a policy: ask a person, go on, or end the recipe."""
        if policy == "ask":
            await self.lab.ask(message)
        elif policy == "end":
            raise Ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step; `where` is its file and line."""

    where: str

    @property
    def takes_time(self) -> bool:
        """Whether it reads, waits or asks: a loop with such a step does not block others."""
        return False

    @property
    def acts(self) -> bool:
        """Whether it can move medium or carry out another recipe."""
        return False

    @property
    def sets(self) -> set[str]:
        """Names that it sets without taking time."""
        return set()

    @property
    def place(self) -> str:
        """File and line without the folder, for the journal."""
        return self.where.rpartition("/")[2]

    async def run(self, now: Now) -> None:
        """Carry out the step."""
        raise NotImplementedError

    def inner(self) -> Iterator[Step]:
        """Yield the steps inside it."""
        yield from ()


def names_used(step: Step) -> set[str]:
    """Return the names in the expressions of one step, without those of the steps inside it."""
    return {name for entry in fields(step) for name in _names_in(getattr(step, entry.name))}


def _names_in(value: Any) -> Iterator[str]:
    if isinstance(value, Expression):
        yield from value.names
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _names_in(each)
    elif is_dataclass(value) and not isinstance(value, Step | type):
        for entry in fields(value):
            yield from _names_in(getattr(value, entry.name))
    elif isinstance(value, tuple):
        for each in value:
            yield from _names_in(each)


async def run_all(steps: Sequence[Step], now: Now) -> None:
    """Carry out `steps` one after the other."""
    for step in steps:
        if step.takes_time:
            now.idle = 0
        now.idle += 1
        if now.idle > BURST:
            raise ProtocolError(
                f"{step.place}: {BURST} steps without a reading or a wait. Likely cause: a repeat that does nothing."
                " Next: add a wait, or fewer times"
            )
        await step.run(now)


@dataclass(frozen=True, slots=True)
class Program:
    """A recipe, ready to run."""

    params: tuple[Param, ...]
    steps: Sequence[Step]
    policies: Policies = field(default_factory=Policies)

    async def __call__(self, lab: Lab, params: Mapping[str, float]) -> None:
        """Run the program as a protocol."""
        await self.run(lab, params)

    async def run(self, lab: Lab, params: Mapping[str, float], *, depth: int = 0) -> None:
        """Run the program; `depth` is the number of recipes that call it."""
        if depth > DEEPEST_CALL:
            raise ProtocolError(f"recipes call each other more than {DEEPEST_CALL} deep. Next: nest them less")
        values: dict[str, Any] = {param.name: params[param.key] for param in self.params}
        try:
            await run_all(self.steps, Now(lab, values, self.policies, depth))
        except Ended:
            return

    def all_steps(self) -> Iterator[Step]:
        """Yield every step, those inside others and of called recipes included, in the order of the text."""
        yield from walked(self.steps)


def walked(steps: Sequence[Step]) -> Iterator[Step]:
    """Yield `steps` and the steps inside them, in the order of the text."""
    waiting = list(reversed(steps))
    while waiting:
        step = waiting.pop()
        yield step
        waiting.extend(reversed(list(step.inner())))
