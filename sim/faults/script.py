"""Read a YAML file of faults: each at a time, on a condition, or at random with a mean rate."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from controller.rig.description import Rig
from controller.rig.document import Document, read_document
from controller.rig.families import points_of
from controller.rig.problems import Finding, Place, Problem, RigError, nearest
from controller.rig.quantities import QuantityError, parse_quantity, quantity_text
from sim.faults.chance import DAY_S, draw_one
from sim.faults.conditions import Conditional, PointBeyond, StepBegun
from sim.faults.kinds import KINDS, Kind, Magnitude
from sim.faults.schedule import Fault, Schedule
from sim.faults.targets import targets

ANY = "any"
_KEYS = ("fault", "on", "at", "when", "rate", "for", "amount", "again")
_EXAMPLE = "Start from examples/faults/bad_night.yaml"
_LINE = re.compile(
    r"(?P<fault>\S+)(?:\s+(?!(?:for|amount)\s)(?P<on>\S+))?(?:\s+for\s+(?P<for>.+?))?(?:\s+amount\s+(?P<amount>.+))?"
)
_PLAIN = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?")
_RATE = re.compile(r"(?P<count>[0-9]+(?:\.[0-9]+)?)\s*/\s*(?P<period>[a-z]+)")


class FaultsError(Exception):
    """The faults file has errors; `problems` lists all of them, by line."""

    def __init__(self, path: Path, problems: Sequence[Problem]) -> None:
        self.path = path
        self.problems = sorted(problems, key=lambda problem: (problem.line, problem.key))
        count = f"{len(problems)} problem{'s' * (len(problems) != 1)}"
        listed = "\n".join(f"  {problem}" for problem in self.problems)
        super().__init__(f"the faults file has {count}; no fault was injected\n{listed}")


@dataclass(frozen=True, slots=True)
class Chance:
    """A random fault: `per_day` on average, on any of `on`; a duration or amount of None is drawn from the kind's range."""

    kind: Kind
    on: tuple[str, ...]
    per_day: float
    for_s: float | None
    amount: float | None

    def draw(self, rng: np.random.Generator, days: float) -> list[Fault]:
        """Draw the faults of `days`."""
        faults = []
        for at_s in np.sort(rng.uniform(0.0, days * DAY_S, int(rng.poisson(self.per_day * days)))):
            target = self.on[int(rng.integers(len(self.on)))]
            drawn = draw_one(rng, self.kind, target, round(float(at_s), 3))
            for_s = drawn.for_s if self.for_s is None else self.for_s
            faults.append(Fault(drawn.kind, target, drawn.at_s, for_s, self.amount or drawn.amount))
        return faults


@dataclass(frozen=True, slots=True)
class Script:
    """The content of a file of faults."""

    timed: Schedule
    conditions: tuple[Conditional, ...]
    chances: tuple[Chance, ...]

    def schedule(self, rng: np.random.Generator, days: float) -> Schedule:
        """Return the timed faults and the random ones drawn for `days`, sorted by time."""
        drawn = [fault for chance in self.chances for fault in chance.draw(rng, days)]
        return Schedule(sorted((*self.timed, *drawn), key=lambda fault: fault.at_s))


def read_script(path: Path, rig: Rig, *, with_host: bool = False) -> Script:
    """Read a file of faults for `rig`.

    `with_host` allows faults of the controller's computer and its network. Raises :class:`FaultsError` with every
    problem found, OSError when the file cannot be read.
    """
    try:
        document = read_document(path)
    except RigError as error:
        raise FaultsError(path, [_of_faults(problem) for problem in error.problems]) from None
    reader = _Reader(document, rig, with_host)
    script = reader.script()
    if document.problems:
        raise FaultsError(path, document.problems)
    return script


def read_line(text: str, rig: Rig) -> Fault:
    """Read a typed fault that begins now: `unplug sim:gas for 30 s`, `offset ph_loop.ph amount 0.1 pH`.

    Raises ValueError that says what is wrong and how to correct it.
    """
    match = _LINE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"“{text.strip()}” is not a fault. Write “unplug sim:gas for 30 s”")
    entry = {name: value for name, value in match.groupdict().items() if value is not None} | {"at": "0 s"}
    try:
        found = _Reader(Document(Path("typed")), rig, with_host=False).one(entry, ())
    except _Wrong as wrong:
        raise ValueError(f"{wrong.finding.what}. {wrong.finding.fix}") from None
    assert isinstance(found, Fault)  # noqa: S101  (what has a time is no condition and no chance)
    return found


def _of_faults(problem: Problem) -> Problem:
    """Return a problem of the file's form with the text for a file of faults."""
    fix = _EXAMPLE if "examples/rigs" in problem.fix else problem.fix
    what = "is not a mapping with a list “faults:”" if "mapping of sections" in problem.what else problem.what
    return Problem(problem.file, problem.line, problem.key, what, fix)


class _Wrong(Exception):
    """An entry cannot be used: where, what, how to correct it."""

    def __init__(self, place: Place, what: str, fix: str) -> None:
        super().__init__(what)
        self.finding = Finding(place, what, fix)


class _Reader:
    def __init__(self, document: Document, rig: Rig, with_host: bool) -> None:
        self._document = document
        self._rig = rig
        self._with_host = with_host
        self._points = points_of(rig)

    def script(self) -> Script:
        timed: list[Fault] = []
        conditions: list[Conditional] = []
        chances: list[Chance] = []
        for number, entry in enumerate(self._entries()):
            try:
                found = self.one(entry, ("faults", number))
            except _Wrong as wrong:
                self._document.problems.append(self._document.problem(wrong.finding))
                continue
            if isinstance(found, Fault):
                timed.append(found)
            elif isinstance(found, Conditional):
                conditions.append(found)
            else:
                chances.append(found)
        return Script(Schedule(timed), tuple(conditions), tuple(chances))

    def _entries(self) -> list[Any]:
        data = self._document.data
        for key in data:
            if key != "faults":
                self._note((key,), f"“{key}” is nothing a faults file has", nearest(key, ["faults"], "keys"))
        entries = data.get("faults")
        if not isinstance(entries, list) or not entries:
            self._note(("faults",), "there is no list of faults", _EXAMPLE)
            return []
        return entries

    def _note(self, place: Place, what: str, fix: str) -> None:
        self._document.problems.append(self._document.problem(Finding(place, what, fix)))

    # --- one fault --------------------------------------------------------------------------------------

    def one(self, entry: Any, place: Place) -> Fault | Conditional | Chance:
        """Return the fault that an entry describes. Raises :class:`_Wrong` for the first problem."""
        self._check_keys(entry, place)
        kind = self._kind(entry, place)
        start = self._start(entry, place)
        allowed = self._allowed(kind, place)
        for_s = self._for(entry, kind, place)
        if start == "rate":
            on = allowed if entry.get("on", ANY) == ANY else (self._on(entry, kind, allowed, place),)
            amount = self._amount(entry, kind, on[0], place) if "amount" in entry else None
            return Chance(kind, on, self._rate(entry["rate"], (*place, "rate")), for_s, amount)
        target = self._on(entry, kind, allowed, place)
        amount = self._amount(entry, kind, target, place)
        if start == "at":
            return Fault(kind.name, target, self._at(entry["at"], (*place, "at")), for_s or 0.0, amount)
        fault = Fault(kind.name, target, 0.0, for_s or 0.0, amount)
        return Conditional(fault, self._when(entry["when"], (*place, "when")), self._again(entry, place))

    def _check_keys(self, entry: Any, place: Place) -> None:
        """Raise :class:`_Wrong` if an entry is not a mapping, or has a key that a fault does not have."""
        if not isinstance(entry, Mapping):
            raise _Wrong(place, "is not a fault", "Write “- fault: unplug” and below it “on:” and “at:”")
        for key in entry:
            if key not in _KEYS:
                raise _Wrong((*place, key), f"“{key}” is not a key of a fault", f"It has: {', '.join(_KEYS)}")

    def _at(self, value: Any, place: Place) -> float:
        """Return the time of a fault (s since the start)."""
        at_s = self._quantity(value, "s", place)
        if at_s < 0:
            raise _Wrong(place, "is before the start", "Times count from the start: write “at: 2 h”")
        return at_s

    def _start(self, entry: Mapping[str, Any], place: Place) -> str:
        """Return the key that says when the fault happens: at, when or rate."""
        starts = [key for key in ("at", "when", "rate") if key in entry]
        if len(starts) != 1:
            said = f"has both “{starts[0]}” and “{starts[1]}”" if starts else "does not say when it happens"
            raise _Wrong(
                (*place, starts[1]) if starts else place, said, "Write one of “at: 2 h”, “when:”, “rate: 3 / day”"
            )
        if "again" in entry and starts != ["when"]:
            raise _Wrong((*place, "again"), "“again” belongs to “when”", "Remove it, or write “rate: 3 / day”")
        return starts[0]

    def _kind(self, entry: Mapping[str, Any], place: Place) -> Kind:
        if "fault" not in entry:
            raise _Wrong(place, "does not say which fault", "Write “fault: unplug”, or another of docs/faults.md")
        name = str(entry["fault"])
        if name not in KINDS:
            raise _Wrong((*place, "fault"), f"“{name}” is not a fault", nearest(name, KINDS, "faults"))
        kind = KINDS[name]
        if kind.group in ("host", "network") and not self._with_host:
            raise _Wrong(
                (*place, "fault"),
                f"“{name}” is a fault of the controller's computer, which is not part of the simulated lab",
                "Leave it out here; `choroid verify campaign` has such a computer",
            )
        return kind

    def _allowed(self, kind: Kind, place: Place) -> tuple[str, ...]:
        allowed = targets(kind.name, self._rig)
        if not allowed:
            fix = f"Leave it out: it takes a {kind.target} of another rig"
            raise _Wrong((*place, "fault"), f"nothing of rig {self._rig.name} can have a {kind.name}", fix)
        return allowed

    def _on(self, entry: Mapping[str, Any], kind: Kind, allowed: tuple[str, ...], place: Place) -> str:
        if "on" not in entry:
            if len(allowed) == 1:
                return allowed[0]
            raise _Wrong(place, f"does not say on which {kind.target}", f"Write “on: {allowed[0]}”")
        target = str(entry["on"])
        if kind.target == "link" and (spec := self._rig.devices.get(target)) is not None and spec.link in allowed:
            target = spec.link  # the line on which a device is may be named by the device
        if target == ANY:
            raise _Wrong(
                (*place, "on"), "“any” is for faults by chance", "Name one, or write “rate:” in place of the time"
            )
        if target not in allowed:
            fix = nearest(target, allowed, f"targets of {kind.name}")
            raise _Wrong((*place, "on"), f"{kind.name} cannot occur on “{target}”", fix)
        return target

    def _for(self, entry: Mapping[str, Any], kind: Kind, place: Place) -> float | None:
        if "for" not in entry:
            return None
        if kind.momentary:
            raise _Wrong((*place, "for"), f"a {kind.name} is over at once", "Remove “for”")
        for_s = self._quantity(entry["for"], "s", (*place, "for"))
        if for_s <= 0:
            raise _Wrong(
                (*place, "for"), "is no length of time", "Write “for: 5 min”, or leave it out: then it lasts for good"
            )
        return for_s

    def _rate(self, value: Any, place: Place) -> float:
        match = _RATE.fullmatch(str(value).strip())
        if match is None:
            raise _Wrong(place, f"“{value}” is no rate", "Write “rate: 3 / day”")
        return _rounded(float(match["count"]) / self._quantity(f"1 {match['period']}", "day", place))

    def _again(self, entry: Mapping[str, Any], place: Place) -> bool:
        again = entry.get("again", False)
        if not isinstance(again, bool):
            raise _Wrong((*place, "again"), "is neither true nor false", "Write “again: true”")
        return again

    # --- amounts and conditions -------------------------------------------------------------------------

    def _amount(self, entry: Mapping[str, Any], kind: Kind, target: str, place: Place) -> float:
        if "amount" not in entry:
            return 0.0
        place = (*place, "amount")
        if kind.amount is None:
            raise _Wrong(place, f"a {kind.name} is there or not, and has no amount", "Remove “amount”")
        value = entry["amount"]
        if kind.name == "wrong_medium":
            return self._medium(str(value), place)
        amount = self._magnitude(value, kind, kind.amount, target, place)
        if not kind.amount.minimum <= amount <= kind.amount.maximum:
            low, high = (self._shown(each, kind.amount) for each in (kind.amount.minimum, kind.amount.maximum))
            raise _Wrong(place, f"“{value}” is not from {low} to {high}", f"It is the {kind.amount.meaning}")
        if amount == 0:
            raise _Wrong(place, "an amount of 0 is not a fault", "Leave “amount” out for the usual one")
        return amount

    def _magnitude(self, value: Any, kind: Kind, amount: Magnitude, target: str, place: Place) -> float:
        if kind.name == "drift":
            return self._drift(str(value), self._points[target].unit, place)
        if kind.target == "point" and kind.name != "noise":
            return _rounded(self._quantity(str(value).strip(), self._points[target].unit, place))
        if amount.unit:
            return self._quantity(value, amount.unit, place)
        if isinstance(value, str):
            plain = _PLAIN.fullmatch(value)
            return float(value) if plain else self._quantity(value, "%", place) / 100.0
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise _Wrong(place, f"“{value}” is not a number", f"Write a number: the {amount.meaning}")
        return float(value)

    def _drift(self, value: str, unit: str, place: Place) -> float:
        """Return a drift such as “0.1 pH / h” in the unit a day."""
        text, slash, period = value.rpartition("/")
        if not slash:
            raise _Wrong(place, f"“{value}” does not say in what time", f"Write “amount: 0.1 {unit} / day”")
        days = self._quantity(f"1 {period.strip()}", "day", place)
        return _rounded(self._quantity(text.strip(), unit, place) / days)

    def _shown(self, value: float, amount: Magnitude) -> str:
        return quantity_text(value, amount.unit) if amount.unit else f"{value:g}"

    def _medium(self, name: str, place: Place) -> float:
        media = list(self._rig.media)
        if name not in media:
            raise _Wrong(place, f"“{name}” is no medium of rig {self._rig.name}", nearest(name, media, "media"))
        return float(media.index(name) + 1)

    def _when(self, value: Any, place: Place) -> PointBeyond | StepBegun:
        keys = sorted(value) if isinstance(value, Mapping) else []
        if keys == ["run", "step"]:
            return StepBegun(str(value["run"]), str(value["step"]))
        if "point" not in keys or not set(keys) <= {"point", "above", "below"} or len(keys) < 2:
            fix = "Write “when: {point: balance.mass, above: 10 g}” or “when: {run: recycle, step: kidney.draw}”"
            raise _Wrong(place, "is no condition", fix)
        return self._point_beyond(value, place)

    def _point_beyond(self, value: Mapping[str, Any], place: Place) -> PointBeyond:
        """Return the condition that a reading is above or below a bound."""
        point = str(value["point"])
        sensors = [name for name, what in self._points.items() if what.kind in ("sensor", "level")]
        if point not in sensors:
            raise _Wrong((*place, "point"), f"“{point}” is no reading", nearest(point, sensors, "readings"))
        unit = self._points[point].unit
        bounds = {name: self._bound(value[name], unit, (*place, name)) for name in ("above", "below") if name in value}
        return PointBeyond(point, **bounds)

    def _bound(self, value: Any, unit: str, place: Place) -> float:
        """Return a bound in `unit`; a pH may be written without a unit."""
        if unit == "pH" and isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        return self._quantity(value, unit, place)

    def _quantity(self, value: Any, unit: str, place: Place) -> float:
        text = value if isinstance(value, str) else f"{value}"
        try:
            return parse_quantity(text, unit)
        except QuantityError as error:
            what, _, fix = str(error).partition("; ")
            raise _Wrong(place, what, fix[:1].upper() + fix[1:]) from None


def _rounded(value: float) -> float:
    """Round to nine digits, so that 0.5 an hour is exactly 12 a day."""
    return float(f"{value:.9g}")
