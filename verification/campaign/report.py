"""A campaign's answer as text."""

from __future__ import annotations

from typing import Any

DAY_S = 86_400.0


def as_text(answer: dict[str, Any]) -> str:
    """Return the table by kind of fault, the figures, and each violation with the command that replays it."""
    lines = [
        f"{answer['runs']} trial(s), {answer['simulated_s'] / DAY_S:,.1f} days of life in {answer['wall_s']:.0f} s,"
        f" {answer['faults_injected']:,} faults, {answer['restarts']} restarts, {answer['cycles']} cycles of medium,"
        f" {answer['alarms']} alarms, {answer['checks']:,} checks",
        f"minimum viability {answer['min_viability']:.3f}; runs refused before they began: {answer['runs_refused']}",
        "",
        f"{'fault':<28}{'injected':>10}{'trials':>8}{'of these with violations':>26}",
    ]
    for kind, row in answer["by_kind"].items():
        lines.append(f"{kind:<28}{row['injected']:>10}{row['trials']:>8}{row['trials_with_violations']:>26}")
    lines.append("")
    if not answer["violations"]:
        lines.append("no violation")
    for failure in answer["violations"]:
        run = f"run {failure['run']}, " if "run" in failure else ""
        lines.append(f"VIOLATION  {run}{failure['at_s']:.0f} s: {failure['invariant']}: {failure['text']}")
        if "shrunk_to" in failure:
            lines.append(f"  shrunk to {failure['shrunk_to']} fault(s) in {failure['tries']} tries; replay it with")
            lines.append(f"  {failure['replay']}")
    if answer["violations"] and not any("shrunk_to" in failure for failure in answer["violations"]):
        lines.append(f"replay the first with\n  {answer['violations'][0]['replay']}")
    if "journal_sha256" in answer:
        lines.append(f"journal sha256 {answer['journal_sha256']}")
    return "\n".join(lines)
