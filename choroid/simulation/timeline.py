"""What a run did, told from its journal: the steps with volumes and grades, and what was refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.process.controller import Controller
from controller.rig.description import Rig
from controller.runs.grading import rules_of
from controller.steps.branches import spoken
from protocols.grading import Letter, RuleSet
from protocols.interval import Interval
from protocols.language import MEASURE, SLEEP, TOGETHER
from protocols.table import VERBS
from protocols.verbs import Policy

ML = 1000.0


def story(controller: Controller, rig: Rig, *, after: int = 0) -> dict[str, Any]:
    """Everything since journal row `after` (default: the journal's beginning), as plain data.

    `timeline` (at_s, kind, text); `steps` (verb, begin_s, end_s, and for transfers ml, line, from, to); `grades`; and
    `volumes` (mL: start_ml, end_ml, in_ml, out_ml) by vessel, where the start is the end less what went in and out.
    """
    rules = rules_of(rig)
    timeline: list[dict[str, Any]] = []
    steps: dict[int, dict[str, Any]] = {}
    grades: list[dict[str, Any]] = []
    into, out = dict.fromkeys(rig.vessels, 0.0), dict.fromkeys(rig.vessels, 0.0)
    begun_s: float | None = None
    for row in controller.journal.entries(after=after):
        begun_s = row.at_s if begun_s is None else begun_s
        at_s = round(row.at_s - begun_s, 1)
        text: str | None = None
        kind = "step"
        body = row.body
        if row.kind == "moved":
            line = rig.lines[body["line"]]
            step = steps.get(body.get("n", 0))
            text = f"{body['line']}: {body['ul'] / ML:.2f} ± {3 * body['sd_ul'] / ML:.2f} mL, {line.from_} → {line.to}"
            text = within(step["branch"] if step else "", text)
            into[line.to] += body["ul"]
            out[line.from_] += body["ul"]
            if step is not None:
                step |= {"line": body["line"], "from": line.from_, "to": line.to}
                step["ml"] = round(step.get("ml", 0.0) + body["ul"] / ML, 3)
        elif row.kind == "step":
            branch = spoken(body.get("at", ""))
            words = _words(body)
            text = None if words is None else within(branch, words)
            steps[body["n"]] = {
                "n": body["n"],
                "branch": branch,
                "verb": body["verb"],
                "begin_s": at_s,
                "end_s": at_s,
                "text": words or "",
            }
        elif row.kind == "step.done" and body["n"] in steps:
            steps[body["n"]]["end_s"] = at_s
        elif row.kind == "note.grade":
            kind, text = "grade", f"grade {body['grade']}, limited by {body['limiting']}"
            best = at_best(body, rules)
            grades.append({"at_s": at_s, "grade": body["grade"], "at_best": best, "limiting": body["limiting"]})
            grades[-1]["confidence"] = body["confidence"]
        elif row.kind == "act.refused" and str(body.get("by", "")).startswith("protocol"):
            kind, text = "refused", f"refused: {body['actuator']}: {'; '.join(body['reasons'])}"
        elif row.kind == "run.message":
            asked = body["text"].startswith("step ")
            kind, text = ("ask" if asked else "refused"), body["text"]
        elif row.kind == "safety.trip":
            kind, text = "trip", f"interlock {body['interlock']}: {body['detail']}"
        if text is not None:
            timeline.append({"at_s": at_s, "kind": kind, "text": text})
    ended_s = timeline[-1]["at_s"] if timeline else 0.0
    for step in steps.values():
        if step["end_s"] == step["begin_s"] and VERBS[step["verb"]].policy is Policy.DEADLINE:
            step["end_s"] = max(ended_s, step["begin_s"])  # it still waits
    volumes = {}
    for name in rig.vessels:
        end_ul = controller.ledger.volumes()[name].ul
        volumes[name] = {
            "start_ml": round((end_ul - into[name] + out[name]) / ML, 3),
            "end_ml": round(end_ul / ML, 3),
            "in_ml": round(into[name] / ML, 3),
            "out_ml": round(out[name] / ML, 3),
        }
    return {"timeline": timeline, "steps": list(steps.values()), "grades": grades, "volumes": volumes}


def within(branch: str, text: str) -> str:
    """What a step of a branch did, with the branch's name."""
    return f"[{branch}] {text}" if branch else text


def _words(body: Mapping[str, Any]) -> str | None:
    """A step that moves nothing, for the timeline; transfers tell their own when they are done."""
    args = body["args"]
    if body["verb"] == MEASURE.name:
        return f"measure {args['point']}"
    if body["verb"] == SLEEP.name:
        return f"wait {args['seconds']:g} s"
    if body["verb"] == TOGETHER.name:
        return f"together: {', '.join(args['branches'])}"
    return None


def at_best(note: Mapping[str, Any], rules: RuleSet) -> str:
    """The grade that a `note.grade` would have by its best values; the grade itself is that of the pessimistic ends."""
    order = tuple(Letter)
    worst = Letter.A
    for name, finding in note["variables"].items():
        letter = Letter.A if finding["grade"] is None else Letter(finding["grade"])
        rule = rules.rule(name)
        if rule is not None and isinstance(finding["input"], dict):
            letter = rule.judged(Interval.from_json(finding["input"]))[1]
        worst = max(worst, letter, key=order.index)
    return worst.value
