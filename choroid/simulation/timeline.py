"""What a run did, told from its journal: the steps with volumes and grades, and what was refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.ledger.flow_paths import FlowPaths
from controller.process.controller import Controller
from controller.rig.description import Rig
from controller.runs.grading import rules_of
from controller.steps.branches import spoken
from controller.steps.schedule import local_text
from protocols.grading import Letter, RuleSet
from protocols.interval import Interval
from protocols.language import TOGETHER, Lab
from protocols.table import VERBS
from protocols.verbs import Policy

ML = 1000.0
DAY_S = 86_400.0


def story(controller: Controller, rig: Rig, *, after: int = 0) -> dict[str, Any]:
    """Everything since journal row `after` (default: the journal's beginning), as plain data.

    `timeline` (at_s, kind, text); `steps` (verb, begin_s, end_s, and for transfers ml, line, from, to); `grades`; and
    `volumes` (mL: start_ml, end_ml, in_ml, out_ml) by vessel, where the start is the end less what went in and out.
    """
    found = _Story(rig)
    begun_s: float | None = None
    for row in controller.journal.entries(after=after):
        begun_s = row.at_s if begun_s is None else begun_s
        found.add(row.kind, row.body, round(row.at_s - begun_s, 1))
    found.end_waiting_steps()
    ends_ul = {name: volume.ul for name, volume in controller.ledger.volumes().items()}
    return {
        "timeline": found.timeline,
        "steps": list(found.steps.values()),
        "grades": found.grades,
        "volumes": found.volumes(ends_ul),
    }


class _Story:
    """What a journal's rows tell, added row by row in their order."""

    def __init__(self, rig: Rig) -> None:
        self.timeline: list[dict[str, Any]] = []
        self.steps: dict[int, dict[str, Any]] = {}
        self.grades: list[dict[str, Any]] = []
        self._rig = rig
        self._paths = FlowPaths(rig)
        self._rules = rules_of(rig)
        self._in_ul, self._out_ul = dict.fromkeys(rig.vessels, 0.0), dict.fromkeys(rig.vessels, 0.0)
        self._kinds = {
            "moved": self._moved,
            "step": self._step,
            "step.done": self._step_done,
            "note.grade": self._grade,
            "act.refused": self._refused,
            "run.message": self._message,
            "step.answered": self._answered,
            "safety.trip": self._trip,
        }

    def add(self, kind: str, body: Mapping[str, Any], at_s: float) -> None:
        """Add a row at `at_s` (s since the first row); other kinds of rows are ignored."""
        if (tell := self._kinds.get(kind)) is not None and (entry := tell(body, at_s)) is not None:
            self.timeline.append({"at_s": at_s, "kind": entry[0], "text": entry[1]})

    def end_waiting_steps(self) -> None:
        """Let steps that still wait for their deadline last until the last row."""
        ended_s = self.timeline[-1]["at_s"] if self.timeline else 0.0
        for step in self.steps.values():
            if step["end_s"] == step["begin_s"] and VERBS[step["verb"]].policy is Policy.DEADLINE:
                step["end_s"] = max(ended_s, step["begin_s"])

    def volumes(self, ends_ul: Mapping[str, float]) -> dict[str, dict[str, float]]:
        """Return the volumes by vessel (mL) from those at the end (µL)."""
        return {
            name: {
                "start_ml": round((ends_ul[name] - self._in_ul[name] + self._out_ul[name]) / ML, 3),
                "end_ml": round(ends_ul[name] / ML, 3),
                "in_ml": round(self._in_ul[name] / ML, 3),
                "out_ml": round(self._out_ul[name] / ML, 3),
            }
            for name in self._rig.vessels
        }

    def _moved(self, body: Mapping[str, Any], at_s: float) -> tuple[str, str] | None:
        ports, ul = body.get("ports"), body.get("liquid_ul", body["ul"])  # beyond its straw a pump moves air
        source, target = self._paths.ends(body["line"], ports)
        for name, share in self._paths.full(body["line"], ports).items():
            (self._in_ul if share > 0.0 else self._out_ul)[name] += abs(share) * ul
        if "heart" in body:
            return None  # it moves all the time
        step = self.steps.get(body.get("n", 0))
        text = f"{body['line']}: {ul / ML:.2f} ± {3 * body['sd_ul'] / ML:.2f} mL, {source} → {target}"
        if step is not None:
            step |= {"line": body["line"], "from": source, "to": target}
            step["ml"] = round(step.get("ml", 0.0) + ul / ML, 3)
        return "step", within(step["branch"] if step else "", text)

    def _step(self, body: Mapping[str, Any], at_s: float) -> tuple[str, str] | None:
        branch, words = spoken(body.get("at", "")), _words(body)
        self.steps[body["n"]] = {
            "n": body["n"],
            "branch": branch,
            "verb": body["verb"],
            "begin_s": at_s,
            "end_s": at_s,
            "text": words or "",
        }
        return None if words is None else ("step", within(branch, words))

    def _step_done(self, body: Mapping[str, Any], at_s: float) -> None:
        if body["n"] in self.steps:
            self.steps[body["n"]]["end_s"] = at_s

    def _grade(self, body: Mapping[str, Any], at_s: float) -> tuple[str, str]:
        self.grades.append(
            {
                "at_s": at_s,
                "grade": body["grade"],
                "at_best": at_best(body, self._rules),
                "limiting": body["limiting"],
                "confidence": body["confidence"],
            }
        )
        return "grade", f"grade {body['grade']}, limited by {body['limiting']}"

    def _refused(self, body: Mapping[str, Any], at_s: float) -> tuple[str, str] | None:
        if not str(body.get("by", "")).startswith("protocol"):
            return None
        return "refused", f"refused: {body['actuator']}: {'; '.join(body['reasons'])}"

    def _message(self, body: Mapping[str, Any], at_s: float) -> tuple[str, str]:
        return ("ask" if body["text"].startswith("step ") else "refused"), body["text"]

    def _answered(self, body: Mapping[str, Any], at_s: float) -> tuple[str, str]:
        return "answer", f"step {body['n']}: answer {body['text']} by {body['user']}"

    def _trip(self, body: Mapping[str, Any], at_s: float) -> tuple[str, str]:
        return "trip", f"interlock {body['interlock']}: {body['detail']}"


def within(branch: str, text: str) -> str:
    """What a step of a branch did, with the branch's name."""
    return f"[{branch}] {text}" if branch else text


def _words(body: Mapping[str, Any]) -> str | None:
    """A step that moves nothing, for the timeline; transfers tell their own when they are done."""
    args = body["args"]
    if body["verb"] == Lab.measure.name:
        return f"measure {args['point']}"
    if body["verb"] == Lab.sleep.name:
        seconds = args["seconds"]
        return f"wait {seconds / DAY_S:g} d" if seconds >= 2 * DAY_S else f"wait {seconds:g} s"
    if body["verb"] == Lab.sleep_until_clock.name:
        return f"wait until {local_text(body['until'], args['zone'])}"
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
