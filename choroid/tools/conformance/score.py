"""`choroid conformance --score`: the broken drivers, and the property that caught each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from choroid.tools.conformance.benches import all_benches
from choroid.tools.conformance.table import in_virtual_time
from drivers.conformance.bench import Bench
from drivers.conformance.broken import GENERIC, WRITTEN
from drivers.conformance.broken.making import Broken
from drivers.conformance.broken.modbus_device import modbus_bench
from drivers.conformance.broken.text_device import text_bench
from drivers.conformance.examine import examine
from drivers.conformance.score import pairs, try_broken


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
    outcomes = [try_broken(one, bench, in_virtual_time) for one, bench in tried]
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
