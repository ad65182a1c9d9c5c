"""Steps of a recipe that contain others: if, repeat, together, call; and the step that ends the recipe."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from protocols.calendar import ClockTime
from protocols.expression import Expression
from protocols.language import EXCLUDED, WEEKDAYS, ZONE, Lab
from protocols.parameters import Param
from protocols.program import BURST, Ended, Now, Program, Step, run_all, walked
from protocols.turns import first_turn, next_turn
from protocols.verbs import MAX_WAIT_S, Argument, StepForm

MAX_TURNS = 1e9
"""Maximum number of turns that a repeat may name."""
IF = StepForm(
    "if",
    "branch on a measured value or a grade",
    {
        "condition": Argument("condition", "for example: verdict >= B and ph > 7.2", required=True),
        "then": Argument("steps", "steps if the condition is met", required=True),
        "else": Argument("steps", "steps if it is not met"),
    },
)
REPEAT = StepForm(
    "repeat",
    "repeat steps",
    {
        "steps": Argument("steps", "what to repeat", required=True),
        "times": Argument(
            "quantity",
            "number of turns; the number 0: until stopped (needs every or daily_at)",
            minimum=0.0,
            maximum=MAX_TURNS,
        ),
        "every": Argument(
            "quantity", "time from one turn to the next; missed turns are left out", "s", maximum=MAX_WAIT_S
        ),
        "daily_at": Argument("clock", "once a day at this local time, for example “09:00”"),
        "zone": ZONE,
        "days": WEEKDAYS,
        "except": EXCLUDED,
        "while": Argument("condition", "continue while this is true, checked before each turn"),
        "count": Argument("name", "save the number of the turn, from 1, under this name"),
    },
)
TOGETHER = StepForm(
    "together",
    "branches at the same time: a name and steps for each; doses through the same vessel take turns",
    any_names="steps",
)
CALL = StepForm(
    "call",
    "carry out another recipe",
    {
        "recipe": Argument("recipe", "name of a shipped recipe, or a file in the same folder", required=True),
        "with": Argument("values", "its parameters", None),
    },
    "recipe",
)
END = StepForm("end", "end the recipe")
BLOCKS = (IF, REPEAT, TOGETHER, CALL, END)
"""Forms of the steps that are declared here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class If(Step):
    """Branch on a condition."""

    condition: Expression
    then: Sequence[Step]
    otherwise: Sequence[Step]

    async def run(self, now: Now) -> None:
        met = await now.holds(self.condition, self.place)
        await run_all(self.then if met else self.otherwise, now)

    def inner(self) -> Iterator[Step]:
        yield from (*self.then, *self.otherwise)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat(Step):
    """Repeat steps: `times` turns (the constant 0, or None: until stopped), `every_s` apart, or while a condition holds.
    A computed number of turns never means “until stopped”: below one half it means no turn.

    With `every_s`, the first turn is at once and each next one on the time grid of the first. Turns that were missed while
    the run was held are skipped, never repeated in a burst (:mod:`protocols.turns`). `count` saves the number of the turn,
    from 1.
    """

    times: Expression | None
    every_s: Expression | None
    condition: Expression | None
    at: ClockTime | None
    """Time of day, for at most once a day."""
    count: str | None
    steps: Sequence[Step]

    async def run(self, now: Now) -> None:
        max_turns = await self._max_turns(now)
        every_s = None if self.every_s is None else max(await now.number(self.every_s, self.place), 1.0)
        begun_s = await first_turn(now.lab) if every_s is not None else 0.0
        turn = slot = 0
        due: str | None = None
        while turn < max_turns:
            if every_s is not None and turn:
                slot = await next_turn(now.lab, begun_s, slot + 1, every_s)
            if self.at is not None:
                clock = self.at
                due = await now.lab.sleep_until_clock(clock.at, clock.zone, after=due, calendar=clock.calendar)
            if self.condition is not None and not await now.holds(self.condition, self.place):
                return
            turn += 1
            if self.count:
                now.values[self.count] = float(turn)
            await run_all(self.steps, now)

        if self.unpaced:
            await self._still_true(now)

    @property
    def unpaced(self) -> bool:
        """Whether only a condition ends it, and nothing sets the time between its turns."""
        return self.times is None and self.every_s is None and self.at is None

    @property
    def endless(self) -> bool:
        """Whether a turn can change nothing that its condition depends on, and takes no time."""
        if not self.unpaced or self.condition is None:
            return False
        changed = {self.count}
        for step in walked(self.steps):
            if step.takes_time or step.acts:
                return False
            changed |= step.sets
        return not self.condition.names & changed

    async def _still_true(self, now: Now) -> None:
        """Decide what follows a condition that is still true after the maximum number of turns."""
        if self.condition is not None and await now.holds(self.condition, self.place):
            await now.decide(
                now.policies.timeout,
                f"{self.place}: “{self.condition.text}” is still true after {BURST} turns. Likely cause: it does not become"
                " false. Next: look why; when you resume, the recipe goes on after the repeat",
            )

    async def _max_turns(self, now: Now) -> float:
        """Return the number of turns; infinite if the repeat has no number, or the constant 0."""
        if self.times is None:
            return float(BURST) if self.unpaced else math.inf
        times = await now.number(self.times, self.place)
        return math.inf if times == 0 and not self.times.names else math.floor(times + 0.5)

    def inner(self) -> Iterator[Step]:
        yield from self.steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Together(Step):
    """Run branches at the same time, by name. Each begins with the names that were saved before. What it saves is visible
    to the others when all branches have ended. An `end` in a branch ends that branch, and the recipe after all branches.
    """

    branches: Mapping[str, Sequence[Step]]

    async def run(self, now: Now) -> None:
        own = {name: replace(now, values=dict(now.values), idle=0) for name in self.branches}

        async def along(name: str) -> bool:
            try:
                await run_all(self.branches[name], own[name])
            except Ended:
                return True
            return False

        ended = await now.lab.together(*(along(name) for name in self.branches), names=tuple(self.branches))
        before = dict(now.values)
        for branch in own.values():
            now.values |= {key: value for key, value in branch.values.items() if before.get(key, _NOTHING) != value}
        now.idle = 0
        if any(ended):
            raise Ended

    def inner(self) -> Iterator[Step]:
        for steps in self.branches.values():
            yield from steps


_NOTHING = object()
"""Equal to no value of a recipe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Step):
    """Carry out another recipe, which has its own names. `of` is a program, or a Python protocol."""

    name: str
    of: Program | Callable[[Lab, Mapping[str, float]], Awaitable[None]]
    params: Sequence[Param]
    given: Mapping[str, Expression]

    @property
    def acts(self) -> bool:
        return True

    async def run(self, now: Now) -> None:
        values = {}
        for param in self.params:
            given = self.given.get(param.name)
            value = param.default if given is None else await now.number(given, self.place)
            values[param.key] = param.checked(value)
        if isinstance(self.of, Program):
            await self.of.run(now.lab, values, depth=now.depth + 1)
        else:
            await self.of(now.lab, values)

    def inner(self) -> Iterator[Step]:
        if isinstance(self.of, Program):
            yield from self.of.steps


@dataclass(frozen=True, slots=True, kw_only=True)
class End(Step):
    """End the recipe."""

    async def run(self, now: Now) -> None:
        raise Ended
