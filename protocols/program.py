"""Recipes as data: steps that are carried out through the same verbs as a Python protocol, so with the same journal.

A recipe file becomes a :class:`Program` (controller/execution/recipe_file.py reads it); a program runs like any protocol
function. Nothing here looks at anything but the lab, so a program repeats itself after a restart.
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from protocols.expression import BOOL, GRADE, PLAIN, Expression, MissingValue
from protocols.grading import Letter
from protocols.language import Amount, Lab, Measurement, ProtocolError
from protocols.parameters import Param
from protocols.recycle import judge
from protocols.soft_sensor import MediaEstimate
from protocols.turns import first_turn, next_turn

VERSION = 1
"""Raised when a step changes its meaning: part of every recipe's hash, as is the text of this module."""

DEEPEST_CALL = 8
BURST = 10_000
"""Turns of a `while`, and steps without a reading or a wait, at the very most: a loop that only reckons would stop the
controller's own."""

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
    "filter.least_pressure": ("kPa", lambda lab: lab.immune.least_pressure_kpa),
    "least_dose": ("uL", lambda lab: lab.liver.min_dose_ul),
}
"""What an expression may name beside parameters and what steps have saved: its unit and where it comes from."""

DIALYSE = "kidney.dialyse"
MOVES: Mapping[str, Callable[[Lab], Callable[[float], Awaitable[Amount]]]] = {
    "kidney.draw": lambda lab: lab.kidney.draw,
    "kidney.give_back": lambda lab: lab.kidney.give_back,
    "kidney.discard": lambda lab: lab.kidney.discard,
    DIALYSE: lambda lab: lab.kidney.dialyse,
    "gut.feed": lambda lab: lab.gut.feed,
    "liver.add_glucose": lambda lab: lab.liver.add_glucose,
    "liver.add_base": lambda lab: lab.liver.add_base,
}
READS: Mapping[str, tuple[str, Callable[[Lab, float], Awaitable[Measurement]]]] = {
    "liver.acidity": (PLAIN, lambda lab, settle_s: lab.liver.acidity(settle_s)),
    "liver.conductivity": ("uS/cm", lambda lab, settle_s: lab.liver.conductivity(settle_s)),
    "lung.acidity": (PLAIN, lambda lab, settle_s: lab.lung.acidity(settle_s)),
    "lung.oxygen": ("%", lambda lab, settle_s: lab.lung.oxygen(settle_s)),
    "skin.temperature": ("degC", lambda lab, settle_s: lab.skin.temperature(settle_s)),
    "immune.pressure": ("kPa", lambda lab, settle_s: lab.immune.pressure()),
    "heart.pressure": ("kPa", lambda lab, settle_s: lab.heart.pressure(settle_s)),
    "heart.flow": ("uL/min", lambda lab, settle_s: lab.heart.flow()),
    "kidney.mass": ("g", lambda lab, settle_s: lab.kidney.mass(settle_s)),
}
"""Organ verbs that read: unit of the value, and the verb."""
ESTIMATED = ("glucose", "lactate", "ammonia")
"""What an estimate saves of `loop` and `spent` (mM): `name.loop.lactate`, with `.low` and `.high`."""


class _Ended(Exception):
    """The recipe's `end` step."""


@dataclass(frozen=True, slots=True)
class Policies:
    """What a recipe wants done where its text leaves it open."""

    missing: str = "ask"
    """A value could not be measured: "ask" (hold; then as go_on), "go_on" (the condition counts as not met, the volume
    as nothing), "end" (end the recipe)."""
    timeout: str = "ask"
    """A wait was in vain: "ask", "go_on" or "end"."""
    small_dose: str = "skip"
    """A computed volume is below what its pump gives: "skip" (move nothing) or "hold" (ask first; then move nothing)."""


@dataclass(slots=True)
class Now:
    """A program being carried out."""

    lab: Lab
    values: dict[str, Any]
    policies: Policies
    depth: int = 0
    idle: int = 0
    """Steps since the last one that took the lab's time."""

    def value(self, name: str) -> Any:
        """What an expression's name stands for now; None when it could not be had."""
        if name in self.values:
            return self.values[name]
        if name in NAMES:
            return NAMES[name][1](self.lab)
        raise ProtocolError(
            f"“{name}” is used before a step has saved it. Likely cause: that step was left out. Next: move it up"
        )

    async def number(self, expression: Expression, where: str, *, missing: float = 0.0) -> float:
        """The value of `expression`; what a missing value means is the recipe's policy."""
        return float(await self.valued(expression, where, missing))

    async def holds(self, condition: Expression, where: str) -> bool:
        """Whether a condition is met."""
        return bool(await self.valued(condition, where, False))

    async def valued(self, expression: Expression, where: str, missing: Any) -> Any:
        """The value of `expression`, whatever its kind; `missing` where it has none and the policy goes on."""
        try:
            value = expression.evaluate(self.value)
        except ZeroDivisionError:
            raise ProtocolError(f"{where}: “{expression.text}” divides by zero. Next: mend the recipe") from None
        except MissingValue as error:
            await self.decide(self.policies.missing, f"{where}: {error}. Next: look at its sensor, then resume")
            return missing
        if isinstance(value, float) and not math.isfinite(value):
            raise ProtocolError(f"{where}: “{expression.text}” is not a finite number. Next: mend the recipe")
        return value

    async def decide(self, policy: str, message: str) -> None:
        """Follow a policy: ask a person, go on, or end the recipe."""
        if policy == "ask":
            await self.lab.ask(message)
        elif policy == "end":
            raise _Ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step; `where` is its file and line."""

    where: str

    @property
    def place(self) -> str:
        """File and line without the folder: what the journal may hold."""
        return self.where.rpartition("/")[2]

    async def run(self, now: Now) -> None:
        """Do it."""
        raise NotImplementedError

    def inner(self) -> Iterator[Step]:
        """The steps inside it."""
        yield from ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Move(Step):
    """Move a volume (µL) by an organ's verb; saves the amount with `.low`, `.high` (µL) and `.peak_pressure` (kPa), of
    dialysate `.exchanged` (%, of the batch's small solutes) as well.
    """

    verb: str
    volume: Expression
    save: str | None

    async def run(self, now: Now) -> None:
        volume_ul = await now.number(self.volume, self.place)
        least_ul = now.lab.least_ul(self.verb)
        batch_ul = now.lab.volumes()["spent"].ul
        if volume_ul < least_ul:
            if now.policies.small_dose == "hold":
                await now.lab.ask(
                    f"{self.place}: {self.verb} of {volume_ul:g} µL is less than the {least_ul:g} µL that its pump gives."
                    " Likely cause: a computed volume came out too small. Next: look why; when you resume, nothing is moved"
                    " here and the recipe goes on"
                )
            moved = Amount(0.0, 0.0, 0.0)
        else:
            moved = await MOVES[self.verb](now.lab)(volume_ul)
        if self.save:
            now.values |= {
                self.save: moved.ul,
                f"{self.save}.low": moved.low,
                f"{self.save}.high": moved.high,
                f"{self.save}.peak_pressure": moved.peak_kpa,
            }
            if self.verb == DIALYSE:
                fibres = now.lab.kidney.dialyser
                share = 0.0 if fibres is None else fibres.exchanged(moved.ul, batch_ul)
                now.values[f"{self.save}.exchanged"] = 100.0 * share


@dataclass(frozen=True, slots=True, kw_only=True)
class Read(Step):
    """Take a settled reading, of an organ's verb or of any `device.point`."""

    verb: str
    point: str | None
    unit: str
    settle_s: Expression
    save: str | None

    async def run(self, now: Now) -> None:
        await self.taken(now)

    async def taken(self, now: Now) -> Measurement:
        """The reading, saved as well."""
        settle_s = await now.number(self.settle_s, self.place)
        if self.point is not None:
            reading = await now.lab.measure(self.point, settle_s)
        else:
            reading = await READS[self.verb][1](now.lab, settle_s)
        got = reading.interval
        unit = PLAIN if reading.unit == "pH" else reading.unit
        if got is not None and self.save and unit != self.unit:
            raise ProtocolError(
                f"{self.place}: {reading.point} is in {reading.unit}, the recipe says {self.unit or 'a plain number'}."
                f" Next: write unit: {reading.unit}"
            )
        if self.save:
            now.values |= {
                self.save: None if got is None else got.value,
                f"{self.save}.low": None if got is None else got.low,
                f"{self.save}.high": None if got is None else got.high,
            }
        return reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrate(Step):
    """Tell the batch's pH probe in what buffer it stands; saves what it reads then, `.before` and `.places`."""

    place_set: str
    ph: Expression
    valid_s: Expression
    save: str | None

    async def run(self, now: Now) -> None:
        ph, valid_s = await now.number(self.ph, self.place), await now.number(self.valid_s, self.place)
        found = await now.lab.liver.calibrate(self.place_set, ph, valid_s)
        if self.save:
            names = {"": found.after, ".before": found.before, ".places": float(found.places)}
            now.values |= {f"{self.save}{end}": value for end, value in names.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate(Step):
    """What the soft sensor makes of the latest readings."""

    save: str | None

    async def run(self, now: Now) -> None:
        estimate = await now.lab.estimate()
        if self.save:
            now.values |= _estimated(self.save, estimate)


def _estimated(name: str, estimate: MediaEstimate) -> dict[str, float]:
    values: dict[str, float] = {}
    for vessel, found in (("loop", estimate.loop), ("spent", estimate.spent)):
        for substance in ESTIMATED:
            interval = getattr(found, f"{substance}_mm")
            base = f"{name}.{vessel}.{substance}"
            values |= {base: interval.value, f"{base}.low": interval.low, f"{base}.high": interval.high}
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class GradeBatch(Step):
    """Grade what is in the spent vessel, as `recycle` does; writes the note `grade`."""

    settle_s: Expression
    save: str | None

    async def run(self, now: Now) -> None:
        estimate = await now.lab.estimate()
        acidity = await now.lab.liver.acidity(await now.number(self.settle_s, self.place))
        verdict = await judge(now.lab, estimate, acidity)
        await now.lab.note("grade", {"cycle": 0, **verdict.to_json(), "estimate": estimate.to_json()})
        if self.save:
            now.values |= {self.save: verdict.letter, f"{self.save}.sterility": verdict.of("sterility")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait(Step):
    """Wait for a time (s)."""

    time_s: Expression

    async def run(self, now: Now) -> None:
        seconds = await now.number(self.time_s, self.place)
        if seconds < 0:
            raise ProtocolError(f"{self.place}: “{self.time_s.text}” is {seconds:g} s. Next: wait for a time ≥ 0")
        await now.lab.sleep(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitUntil(Step):
    """Read again and again until a condition on `value` is met; `timeout_s` / `every_s` readings at most."""

    read: Read
    until: Expression
    every_s: Expression
    timeout_s: Expression
    on_timeout: str | None

    async def run(self, now: Now) -> None:
        every_s = max(await now.number(self.every_s, self.place), 1.0)
        times = max(1, math.ceil(await now.number(self.timeout_s, self.place) / every_s))
        asking = now
        for turn in range(times):
            if turn:
                await now.lab.sleep(every_s)
            await self.read.taken(now)
            # A reading that cannot be had is no reason to ask while there is time left: it may come back.
            if now.values[str(self.read.save)] is None:
                continue
            met = await asking.valued(self.until, self.place, None)
            if met:
                return
            if met is None:  # of what was saved before something is missing, and stays so: a person is asked once
                asking = replace(now, policies=replace(now.policies, missing="go_on"))
        await now.decide(
            self.on_timeout or now.policies.timeout,
            f"{self.place}: “{self.until.text}” has not come true of {self.read.point or self.read.verb} within"
            f" {self.timeout_s.text}. Next: look why, then resume or abort",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask(Step):
    """Hold until a person has read a text and resumed."""

    message: Template

    async def run(self, now: Now) -> None:
        await now.lab.ask(self.message.filled(now))


@dataclass(frozen=True, slots=True)
class Template:
    """A text with `{expression}` in it."""

    parts: tuple[str | Expression, ...]

    def filled(self, now: Now) -> str:
        """The text with its values."""
        return "".join(part if isinstance(part, str) else _shown(part, now) for part in self.parts)


def _shown(expression: Expression, now: Now) -> str:
    try:
        value = expression.evaluate(now.value)
    except (MissingValue, ZeroDivisionError):
        return "unknown"
    if expression.unit in (BOOL, GRADE):
        return str(value)
    if expression.unit == "uL":
        return f"{value / 1000.0:.4g} mL"
    return f"{value:.4g} {expression.unit}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Note(Step):
    """Write values to the journal, as kind `note.<kind>`."""

    kind: str
    data: Mapping[str, Expression | str]

    async def run(self, now: Now) -> None:
        values: dict[str, Any] = {}
        for name, what in self.data.items():
            try:
                values[name] = what if isinstance(what, str) else what.evaluate(now.value)
            except (MissingValue, ZeroDivisionError):
                values[name] = None
        await now.lab.note(self.kind, values)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetValues(Step):
    """Give names to values: numbers, conditions, grades. What is made of a missing value is missing as well."""

    values: Mapping[str, Expression]

    async def run(self, now: Now) -> None:
        for name, expression in self.values.items():
            now.values[name] = await now.valued(expression, self.place, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class If(Step):
    """Branch on a condition."""

    condition: Expression
    then: Sequence[Step]
    otherwise: Sequence[Step]

    async def run(self, now: Now) -> None:
        met = await now.holds(self.condition, self.place)
        await _run_all(self.then if met else self.otherwise, now)

    def inner(self) -> Iterator[Step]:
        yield from (*self.then, *self.otherwise)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat(Step):
    """Steps again and again: `times` of them (the constant 0, and none: until stopped), `every_s` apart, or while a
    condition holds. A number of times that is worked out never means for ever: below a half it is no turn.

    With `every_s`, the first turn is at once and each next one on the grid of the first; turns that were missed (the run
    was held) are left out, never made up for in a burst (:mod:`protocols.turns`). `count` saves the number of the turn,
    from 1.
    """

    times: Expression | None
    every_s: Expression | None
    condition: Expression | None
    at: tuple[str, str] | None
    """Time of day (HH:MM) and time zone, for once a day."""
    count: str | None
    steps: Sequence[Step]

    async def run(self, now: Now) -> None:
        times = float(BURST) if self.times is None and self.every_s is None and self.at is None else math.inf
        if self.times is not None:
            said = await now.number(self.times, self.place)
            times = math.inf if said == 0 and not self.times.names else math.floor(said + 0.5)
        every_s = None if self.every_s is None else max(await now.number(self.every_s, self.place), 1.0)
        begun_s = await first_turn(now.lab) if every_s is not None else 0.0
        turn = slot = 0
        due: str | None = None
        while turn < times:
            if every_s is not None and turn:
                slot = await next_turn(now.lab, begun_s, slot + 1, every_s)
            if self.at is not None:
                due = await now.lab.sleep_until_clock(self.at[0], self.at[1], after=due)
            if self.condition is not None and not await now.holds(self.condition, self.place):
                return
            turn += 1
            if self.count:
                now.values[self.count] = float(turn)
            await _run_all(self.steps, now)

    def inner(self) -> Iterator[Step]:
        yield from self.steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Together(Step):
    """Branches at the same time, by name. Each begins with the names that were saved before; what it saves is there for
    the others when all are through. An `end` in a branch ends that branch, and the recipe when all are through.
    """

    branches: Mapping[str, Sequence[Step]]

    async def run(self, now: Now) -> None:
        own = {name: replace(now, values=dict(now.values), idle=0) for name in self.branches}

        async def along(name: str) -> bool:
            try:
                await _run_all(self.branches[name], own[name])
            except _Ended:
                return True
            return False

        ended = await now.lab.together(*(along(name) for name in self.branches), names=tuple(self.branches))
        before = dict(now.values)
        for branch in own.values():
            now.values |= {key: value for key, value in branch.values.items() if before.get(key, _NOTHING) != value}
        now.idle = 0
        if any(ended):
            raise _Ended

    def inner(self) -> Iterator[Step]:
        for steps in self.branches.values():
            yield from steps


_NOTHING = object()
"""Equal to no value of a recipe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Step):
    """Carry out another recipe; its names are its own. `of` is a program, or a Python protocol."""

    name: str
    of: Program | Callable[[Lab, Mapping[str, float]], Awaitable[None]]
    params: Sequence[Param]
    given: Mapping[str, Expression]

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
    """The recipe is done here."""

    async def run(self, now: Now) -> None:
        raise _Ended


async def _run_all(steps: Sequence[Step], now: Now) -> None:
    for step in steps:
        if isinstance(step, Read | Estimate | GradeBatch | Wait | WaitUntil | Ask):
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
        """Run it as a protocol."""
        await self.run(lab, params)

    async def run(self, lab: Lab, params: Mapping[str, float], *, depth: int = 0) -> None:
        """Run it; `depth` counts the recipes around it."""
        if depth > DEEPEST_CALL:
            raise ProtocolError(f"recipes call each other more than {DEEPEST_CALL} deep. Next: flatten them")
        values: dict[str, Any] = {param.name: params[param.key] for param in self.params}
        try:
            await _run_all(self.steps, Now(lab, values, self.policies, depth))
        except _Ended:
            return

    def all_steps(self) -> Iterator[Step]:
        """Every step, also those inside others and of called recipes, in the order of the text."""
        waiting = list(reversed(self.steps))
        while waiting:
            step = waiting.pop()
            yield step
            waiting.extend(reversed(list(step.inner())))


_BRACES = re.compile(r"\{([^{}]*)\}")


def template(text: str, parse: Callable[[str], Expression]) -> Template:
    """Read a text with `{expression}` in it."""
    parts: list[str | Expression] = []
    for number, piece in enumerate(_BRACES.split(text)):
        parts.append(parse(piece) if number % 2 else piece)
    return Template(tuple(parts))


def saved_units(verb: str, name: str, unit: str) -> dict[str, str]:
    """The names, with units, that a step of `verb` saves under `name`."""
    if verb in MOVES:
        moved = {name: "uL", f"{name}.low": "uL", f"{name}.high": "uL", f"{name}.peak_pressure": "kPa"}
        return moved | ({f"{name}.exchanged": "%"} if verb == DIALYSE else {})
    if verb == "estimate":
        return {
            f"{name}.{vessel}.{substance}{end}": "mM"
            for vessel in ("loop", "spent")
            for substance in ESTIMATED
            for end in ("", ".low", ".high")
        }
    if verb == "liver.calibrate":
        return dict.fromkeys((name, f"{name}.before", f"{name}.places"), PLAIN)
    if verb == "grade":
        return {name: GRADE, f"{name}.sterility": GRADE}
    return {name: unit, f"{name}.low": unit, f"{name}.high": unit}


__all__ = ["Letter", "Policies", "Program", "Step", "saved_units", "template"]
