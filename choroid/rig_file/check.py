"""`choroid check`: validate a rig file and the coverage of its hazards; every problem with line and fix."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from pathlib import Path
from typing import Any

from choroid.common.table import aligned
from controller.capabilities.catalogue import capabilities_of
from controller.hazards.loading import load_checked_rig
from controller.hazards.table import gaps_of, hazards_of
from controller.hazards.terms import Hazard, HazardVerdict
from controller.links.settings import cautions, coarse_flows, drivers_accept
from controller.recipes.catalogue import shipped
from controller.recipes.on_rig import lacking
from controller.rig.description import Rig
from controller.rig.loading import effective_hash
from controller.rig.loading import load_rig as load_described_rig
from controller.rig.problems import Problem, RigError
from drivers.registry import MODELS, load_third_party

UNPROVEN = "unproven"
"""Verdict on a hazard of a refused rig that the table would call covered."""
COLUMNS = ("hazard", "place", "sensor", "interlock", "acts on", "limits", "detected", "harm", "verdict")


def load_rig(path: Path | str) -> Rig:
    """Read and validate a rig file, with its hazard table, for every driver that is installed.

    Nothing is opened or moved.

    Args:
        path: The rig file.

    Returns:
        The rig, immutable.

    Raises:
        RigError: Something is wrong; `problems` holds everything that was found, each with file, line and fix.
        OSError: The file cannot be read.
    """
    load_third_party()
    return load_checked_rig(Path(path), models=MODELS)


def check_rig(path: Path | str) -> dict[str, Any]:
    """Validate a rig file, as `choroid check --json` does. Nothing is opened or moved.

    Args:
        path: The rig file.

    Returns:
        A dictionary for JSON: `ok`, `file`, `rig` (its name), `hash`, `problems`, `hazards`, `capabilities`, `recipes`
        (by name, what the rig lacks for each) and `warnings`. Warnings of a valid rig are texts: they change nothing,
        and a person should know them. No hazard of a refused rig counts as covered: what its rows rest on may be what
        is wrong.

    Raises:
        OSError: The file cannot be read.
    """
    path = Path(path)
    load_third_party()
    answer: dict[str, Any] = {
        "ok": False, "file": str(path), "rig": None, "hash": None, "problems": [], "hazards": None,
        "capabilities": None, "recipes": None, "warnings": [],
    }  # fmt: skip
    try:
        rig = load_described_rig(path, models=MODELS)
        answer["hazards"] = [_row(hazard) for hazard in hazards_of(rig)]
        answer["capabilities"] = [each.to_json() for each in capabilities_of(rig)]
        answer["recipes"] = {name: list(lacking(recipe, rig)) for name, recipe in sorted(shipped().items())}
        load_described_rig(path, models=MODELS, rules=(drivers_accept, gaps_of))
    except RigError as error:
        answer["problems"] = [_problem(problem) for problem in error.problems]
        for row in answer["hazards"] or ():
            row["verdict"] = UNPROVEN if row["verdict"] == HazardVerdict.COVERED else row["verdict"]
        return answer
    return answer | {
        "ok": True,
        "rig": rig.name,
        "hash": effective_hash(rig),
        "warnings": [*coarse_flows(rig), *cautions(rig)],
    }


def as_text(answer: dict[str, Any], *, hazards: bool = False, capabilities: bool = False) -> str:
    """Return the verdict as text; with `hazards` and `capabilities` preceded by these tables."""
    lines = _table(answer["hazards"]) if hazards else []
    if capabilities:
        lines += _functions(answer["capabilities"])
        lines += _recipes(answer["recipes"] or {})
    lines += _accepted(answer["hazards"] or ())
    lines += [f"WARNING: {text}" for text in answer["warnings"]]
    if answer["ok"]:
        lines.append(f"{answer['file']}: rig {answer['rig']} is valid (hash {answer['hash'][:12]})")
        return "\n".join(lines)
    lines += [f"{p['file']}:{p['line']}: {p['key']}: {p['what']}. {p['fix']}" for p in answer["problems"]]
    count = len(answer["problems"])
    return "\n".join([*lines, f"{count} problem{'s' * (count != 1)}; nothing was opened or moved"])


def _accepted(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Return a line for each hazard that a person has accepted."""
    return [
        f"ACCEPTED WITHOUT AN INTERLOCK: {row['hazard']} at {row['place']}: {row['accepted']['reason']}"
        f" ({row['accepted']['by']})"
        for row in rows
        if row["accepted"] is not None
    ]


def _problem(problem: Problem) -> dict[str, Any]:
    return {
        "file": str(problem.file), "line": problem.line, "key": problem.key, "what": problem.what, "fix": problem.fix,
    }  # fmt: skip


def _row(hazard: Hazard) -> dict[str, Any]:
    accepted = hazard.accepted if hazard.verdict is HazardVerdict.ACCEPTED else None
    return {
        "hazard": hazard.id,
        "place": hazard.place,
        "sensor": hazard.sensor,
        "interlock": hazard.interlock,
        "actuators": list(hazard.actuators),
        "limits": hazard.limits,
        "detection_s": round(hazard.detection_s, 1),
        "harm_s": round(hazard.harm_s, 1) if isfinite(hazard.harm_s) else None,
        "note": hazard.note,
        "verdict": hazard.verdict.value,
        "accepted": None if accepted is None else {"reason": accepted.reason, "by": accepted.by},
        "gaps": [{"key": ".".join(map(str, gap.place)), "what": gap.what, "fix": gap.fix} for gap in hazard.gaps],
    }


def _functions(rows: list[dict[str, Any]] | None) -> list[str]:
    """Return the functions of the rig: the available ones in a line, each other with what is lacking."""
    if rows is None:
        return ["no list of functions: the file is invalid", ""]
    has = ", ".join(row["title"] for row in rows if row["available"]) or "none of the optional ones"
    lines = [f"functions: {has}"]
    for row in rows:
        if not row["available"]:
            lines.append(f"no {row['title']}: {row['without']}. It needs {', '.join(row['lacks'])}")
    return lines


def _recipes(recipes: dict[str, list[str]]) -> list[str]:
    """Return the shipped recipes: those that the rig supports in a line, each other with what is lacking."""
    has = ", ".join(name for name, lacks in recipes.items() if not lacks) or "none of the shipped ones"
    return [
        f"recipes: {has}",
        *(f"not {name}: the rig has {', '.join(lacks)}" for name, lacks in recipes.items() if lacks),
        "",
    ]


def _table(rows: list[dict[str, Any]] | None) -> list[str]:
    """Return the table's lines with aligned columns; the basis of the estimates is below it."""
    if rows is None:
        return ["no hazard table: the file is invalid", ""]
    lines = aligned(COLUMNS, [_cells(row) for row in rows])
    notes = [f"{row['hazard']}: {row['note']}" for row in rows if row["verdict"] == HazardVerdict.RESIDUAL]
    verdicts = [*(verdict.value for verdict in HazardVerdict), UNPROVEN]
    counts = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in verdicts}
    told = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    return [*lines, "", f"{len(rows)} hazards: {told}", *(f"residual: {note}" for note in notes), ""]


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        row["hazard"], row["place"], row["sensor"], row["interlock"], ", ".join(row["actuators"]), row["limits"],
        f"{row['detection_s']:g} s" if row["detection_s"] else "-",
        "hours" if row["harm_s"] is None else f"{row['harm_s']:g} s",
        row["verdict"].upper() if row["verdict"] != HazardVerdict.COVERED else row["verdict"],
    ]  # fmt: skip
