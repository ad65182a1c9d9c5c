"""Media grades A to D: the worst variable decides, each judged by the pessimistic end of its interval.

A: reuse. B: condition, then reuse. C: replace at least half. D: discard. The edges come from a rule file: the
shipped one is `protocols/grading.yaml` (biology.md §3.2, a proposal based on the limits published there); a
laboratory names its own in the rig file. Pure; a grade contains its inputs, their limits, its reasons, the deciding
variable, and the version and hash of the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from protocols.interval import Interval


class Letter(StrEnum):
    """Grades, best first."""

    A = "A"
    B = "B"
    C = "C"
    D = "D"


_ORDER = tuple(Letter)


@dataclass(frozen=True, slots=True)
class Rule:
    """Rule for one variable. `edges` bound A, B and C from the good side outwards; beyond the last is D.

    `sense`: "high" is worse the higher, "low" is worse the lower, "band" has (low, high) pairs as edges. An edge
    value itself belongs to the better grade, for a strict rule to the worse. `required`: without it the grade is at
    most C.
    """

    name: str
    unit: str
    sense: Literal["high", "low", "band"]
    edges: tuple[Any, Any, Any]
    required: bool
    strict: bool = False
    source: str = ""

    def letter(self, worst: float) -> Letter:
        """Return the grade of one value."""
        for letter, edge in zip(_ORDER, self.edges, strict=False):
            if self.sense == "high":
                good = worst < edge if self.strict else worst <= edge
            elif self.sense == "low":
                good = worst > edge if self.strict else worst >= edge
            else:
                good = edge[0] <= worst <= edge[1]
            if good:
                return letter
        return Letter.D

    def judged(self, interval: Interval) -> tuple[Letter, Letter]:
        """Return the grades of the pessimistic end and of the best value."""
        if self.sense == "high":
            worst = self.letter(interval.high)
        elif self.sense == "low":
            worst = self.letter(interval.low)
        else:
            worst = max(self.letter(interval.low), self.letter(interval.high), key=_ORDER.index)
        return worst, self.letter(interval.value)

    def limits(self) -> str:
        """Return the edges as text."""
        if self.sense == "band":
            return "; ".join(f"{letter} {lo:g} to {hi:g}" for letter, (lo, hi) in zip("ABC", self.edges, strict=True))
        sign = {"high": "<" if self.strict else "≤", "low": ">" if self.strict else "≥"}[self.sense]
        return "; ".join(f"{letter} {sign} {edge:g}" for letter, edge in zip("ABC", self.edges, strict=True))


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules of one rule file; `sha256` is the hash of their meaning."""

    version: str
    sha256: str
    rules: tuple[Rule, ...]

    def rule(self, name: str) -> Rule | None:
        """Return the rule of one variable, if it has one."""
        return next((rule for rule in self.rules if rule.name == name), None)


class Turbidity(StrEnum):
    """Visible particles."""

    NONE = "none"
    PARTICLES = "particles"
    CLOUDY = "cloudy"
    MICROBIAL = "microbial"


_TURBIDITY = {
    Turbidity.NONE: Letter.A,
    Turbidity.PARTICLES: Letter.B,
    Turbidity.CLOUDY: Letter.C,
    Turbidity.MICROBIAL: Letter.D,
}


@dataclass(frozen=True, slots=True)
class Sample:
    """Known variables of a batch; None is missing. `sterile` False is a veto, None counts as a missing reading."""

    lactate_mm: Interval | None = None
    ammonia_mm: Interval | None = None
    glucose_share: Interval | None = None
    glucose_mm: Interval | None = None
    ph: Interval | None = None
    osmolality_change_pct: Interval | None = None
    oxygen_pct: Interval | None = None
    passes: Interval | None = None
    age_d: Interval | None = None
    ldh_ratio: Interval | None = None
    insulin_share: Interval | None = None
    turbidity: Turbidity | None = None
    sterile: bool | None = None


@dataclass(frozen=True, slots=True)
class VariableGrade:
    """Grade of one variable. `letter` is None when an advisory variable is missing."""

    variable: str
    letter: Letter | None
    inputs: Interval | str | None
    limits: str
    reason: str


@dataclass(frozen=True, slots=True)
class Grade:
    """Grade of a batch. `confidence` (0..1): share of variables known, less those whose bounds cross an edge."""

    letter: Letter
    limiting: str
    reasons: tuple[str, ...]
    findings: tuple[VariableGrade, ...]
    missing: tuple[str, ...]
    confidence: float
    version: str
    rules_sha256: str

    def to_json(self) -> dict[str, Any]:
        """Return plain data for the journal."""
        return {
            "grade": self.letter.value,
            "limiting": self.limiting,
            "reasons": list(self.reasons),
            "missing": list(self.missing),
            "confidence": self.confidence,
            "version": self.version,
            "rules_sha256": self.rules_sha256,
            "variables": {finding.variable: _finding_json(finding) for finding in self.findings},
        }

    def of(self, variable: str) -> Letter | None:
        """Return the grade of one variable."""
        return next((finding.letter for finding in self.findings if finding.variable == variable), None)


def _finding_json(finding: VariableGrade) -> dict[str, Any]:
    inputs = finding.inputs.to_json() if isinstance(finding.inputs, Interval) else finding.inputs
    letter = None if finding.letter is None else finding.letter.value
    return {"grade": letter, "input": inputs, "limits": finding.limits, "reason": finding.reason}


def _of_rule(rule: Rule, interval: Interval | None) -> tuple[VariableGrade, bool]:
    """Return the grade of one variable, and whether both ends of its interval agree."""
    if interval is None:
        letter = Letter.C if rule.required else None
        reason = "missing: no better than C" if rule.required else "missing: lowers confidence"
        return VariableGrade(rule.name, letter, None, rule.limits(), reason), False
    worst, best = rule.judged(interval)
    reason = f"{interval.value:.3g} ({interval.low:.3g} to {interval.high:.3g}) {rule.unit}: {worst}"
    if worst is not best:
        reason += f" by its pessimistic end, {best} by its best value"
    return VariableGrade(rule.name, worst, interval, rule.limits(), reason), worst is best


def grade(sample: Sample, rules: RuleSet) -> Grade:
    """Return the grade of a batch by these rules."""
    known = _graded_variables(sample, rules)
    findings = tuple(finding for finding, _ in known)
    sure = sum(certain for _, certain in known)
    letter = max((finding.letter for finding in findings if finding.letter), key=_ORDER.index)
    deciding = _deciding(findings, letter)
    return Grade(
        letter=letter,
        limiting=deciding[0].variable if deciding else "none",
        reasons=tuple(f"{finding.variable} {finding.reason}" for finding in deciding),
        findings=findings,
        missing=tuple(finding.variable for finding in findings if finding.inputs is None),
        confidence=round(sure / len(findings), 3),
        version=rules.version,
        rules_sha256=rules.sha256,
    )


def _graded_variables(sample: Sample, rules: RuleSet) -> list[tuple[VariableGrade, bool]]:
    """Return the grade of each variable, and whether it is certain."""
    known = [_of_rule(rule, getattr(sample, rule.name)) for rule in rules.rules]
    known += [
        (finding, finding.inputs is not None) for finding in (_turbidity(sample.turbidity), _sterility(sample.sterile))
    ]
    return known


def _deciding(findings: Sequence[VariableGrade], letter: Letter) -> list[VariableGrade]:
    """Return the findings that keep a batch of grade `letter` from a better grade; none for grade A."""
    return [] if letter is Letter.A else [finding for finding in findings if finding.letter is letter]


def _turbidity(turbidity: Turbidity | None) -> VariableGrade:
    limits = "A none; B particles; C cloudy; D microbial"
    if turbidity is None:
        return VariableGrade("turbidity", None, None, limits, "missing: lowers confidence")
    letter = _TURBIDITY[turbidity]
    return VariableGrade("turbidity", letter, turbidity.value, limits, f"{turbidity}: {letter}")


def _sterility(sterile: bool | None) -> VariableGrade:
    limits = "veto: D and quarantine when the barrier failed"
    if sterile is None:
        return VariableGrade("sterility", Letter.C, None, limits, "missing: no better than C")
    if sterile:
        return VariableGrade("sterility", Letter.A, "barrier intact", limits, "barrier intact: A")
    return VariableGrade(
        "sterility", Letter.D, "barrier failed", limits, "the sterile barrier failed: D, quarantine the batch"
    )
