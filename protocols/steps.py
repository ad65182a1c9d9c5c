"""The single steps of a recipe: move, read, calibrate, estimate, grade, wait, ask, note, set; and what each saves."""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from protocols.expression import BOOL, GRADE, PLAIN, Expression, MissingValue
from protocols.language import NOTHING, Amount, Lab, Measurement, ProtocolError
from protocols.program import Now, Step
from protocols.recycle import judge
from protocols.soft_sensor import MediaEstimate

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
            await now.lab.note("not_moved", {"verb": self.verb, "requested_ul": volume_ul, "least_ul": least_ul})
            moved = NOTHING
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

    TAKES_TIME = True

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

    TAKES_TIME = True

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

    TAKES_TIME = True

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

    TAKES_TIME = True

    time_s: Expression

    async def run(self, now: Now) -> None:
        seconds = await now.number(self.time_s, self.place)
        if seconds < 0:
            raise ProtocolError(f"{self.place}: “{self.time_s.text}” is {seconds:g} s. Next: wait for a time ≥ 0")
        await now.lab.sleep(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitUntil(Step):
    """Read again and again until a condition on `value` is met; `timeout_s` / `every_s` readings at most."""

    TAKES_TIME = True

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

    TAKES_TIME = True

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


_BRACES = re.compile(r"\{([^{}]*)\}")


def template(text: str, parse: Callable[[str], Expression]) -> Template:
    """Read a text with `{expression}` in it."""
    parts: list[str | Expression] = []
    for number, piece in enumerate(_BRACES.split(text)):
        parts.append(parse(piece) if number % 2 else piece)
    return Template(tuple(parts))


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
