"""Score of the conformance kit: every broken driver must be caught by the property that is meant for it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from choroid.common.progress import counted
from choroid.tools.conformance.benches import all_benches
from choroid.tools.conformance.table import in_virtual_time
from drivers.conformance.bench import Bench
from drivers.conformance.examine import Runner, examine
from drivers.conformance.properties import PROPERTIES
from verification.conformance.broken import GENERIC, WRITTEN
from verification.conformance.broken.making import Broken, points_of
from verification.conformance.broken.modbus_device import modbus_bench
from verification.conformance.broken.text_device import text_bench

MAX_TRIAL_S = 60.0
SLIP = re.compile(r"(AttributeError|NameError|TypeError|SyntaxError|ImportError|IndexError)\b")
"""A broken driver that fails by a programming error proves nothing."""


@dataclass(frozen=True, slots=True)
class Caught:
    """Verdict on one broken driver; `others` are properties that caught it instead of the expected one."""

    name: str
    what: str
    model: str
    property: str
    outcome: Literal["caught", "missed"]
    told: str = ""
    others: tuple[str, ...] = ()


def pairs(benches: Sequence[Bench], broken: Sequence[Broken], *, every: bool) -> Iterator[tuple[Broken, Bench]]:
    """Yield each broken driver with one bench that it fits, another one each time; with `every`, with all that it
    fits.
    """
    points = {id(bench): points_of(bench) for bench in benches}
    for number, one in enumerate(broken):
        fitting = [bench for bench in benches if one.name not in bench.no_worse and one.fits(bench, points[id(bench)])]
        if every:
            yield from ((one, bench) for bench in fitting)
        elif fitting:
            yield one, fitting[number % len(fitting)]


def try_broken(one: Broken, bench: Bench, run: Runner) -> Caught:
    """Break a sound driver in one way and return whether the property that is meant for the defect catches it."""
    spoilt = one.spoil(bench)
    (verdict,) = examine(spoilt, run, {one.property: PROPERTIES[one.property]}, max_s=MAX_TRIAL_S)
    told = verdict.told
    if verdict.outcome == "fail" and not SLIP.match(told):
        return Caught(one.name, one.what, bench.model, one.property, "caught", told)
    rest = {name: each for name, each in PROPERTIES.items() if name != one.property}
    others = tuple(each.property for each in examine(spoilt, run, rest, max_s=MAX_TRIAL_S) if each.outcome == "fail")
    return Caught(one.name, one.what, bench.model, one.property, "missed", told, others)


def trials(models: Sequence[str] = (), *, every: bool = False) -> list[tuple[Broken, Bench]]:
    """Return the trials: every broken driver once, or with `models` (or `every`) on each bench that it fits."""
    found = list(pairs(all_benches(list(models) or None), GENERIC, every=every or bool(models)))
    return found if models else [*found, *pairs([text_bench(), modbus_bench()], WRITTEN, every=every)]


def score(models: Sequence[str] = (), *, every: bool = False) -> dict[str, Any]:
    """Try the broken drivers, and the sound drivers that they were made from.

    Returns:
        `broken` (each with its outcome), `caught` and `of` (counts), and `sound`: failures of unbroken drivers.
    """
    tried = trials(models, every=every)
    outcomes = [try_broken(one, bench, in_virtual_time) for one, bench in counted(tried, lambda each: each[0].name)]
    benches = {bench.model: bench for _, bench in tried}
    wrong = {model: _failures(bench) for model, bench in benches.items()}
    return {
        "broken": [asdict(each) for each in outcomes],
        "caught": sum(each.outcome == "caught" for each in outcomes),
        "of": len(outcomes),
        "sound": {model: failures for model, failures in wrong.items() if failures},
        "no_worse": {model: dict(bench.no_worse) for model, bench in benches.items() if bench.no_worse},
    }


def _failures(bench: Bench) -> dict[str, str]:
    """Return what each property that an unbroken driver fails has found."""
    return {each.property: each.told for each in examine(bench, in_virtual_time) if each.outcome == "fail"}


def as_text(answer: dict[str, Any]) -> str:
    """Return the table as text: what is broken, on which driver, and what caught it."""
    rows = answer["broken"]
    name, model = (max((len(each[key]) for each in rows), default=4) for key in ("name", "model"))
    lines = [f"{'broken driver':<{name}}  {'model':<{model}}  caught by"]
    for each in rows:
        if each["outcome"] == "caught":
            lines.append(f"{each['name']:<{name}}  {each['model']:<{model}}  {each['property']}")
    missed = [each for each in rows if each["outcome"] == "missed"]
    if missed:
        lines += ["", "MISSED"]
    lines += [f"{each['name']:<{name}}  {each['model']:<{model}}  {_why_missed(each)}" for each in missed]
    lines += _bench_lines(answer)
    lines += ["", f"{answer['caught']} of {answer['of']} broken drivers caught"]
    return "\n".join(lines)


def _why_missed(row: dict[str, Any]) -> str:
    why = row["told"] or "the property holds"
    others = f"; caught by {', '.join(row['others'])} instead" if row["others"] else "; no property caught it"
    return f"{row['what']}. Expected: {row['property']} catches it. Seen: {why}{others}"


def _bench_lines(answer: dict[str, Any]) -> list[str]:
    """Return the broken drivers that were not tried, and the failures of unbroken drivers."""
    lines: list[str] = []
    for model_id, reasons in answer["no_worse"].items():
        lines += [f"not tried: {broken} on {model_id}, because {why}" for broken, why in reasons.items()]
    for model_id, failures in answer["sound"].items():
        lines += [f"✗ the unbroken {model_id} fails {prop}: {told}" for prop, told in failures.items()]
    return lines
