"""What the journal knows of a run's steps: the record from which a run is fed when it runs again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.core.run_states import RunEvent
from controller.journal.terms import Entry
from controller.ledger.witnesses import Moved

PORTION = "portion"
"""How a dose ended that its pump ended by itself, with more of the step to come."""


@dataclass(slots=True)
class Act:
    """One dose as it was about to be given: enough to find out afterwards what came of it."""

    n: int
    act: int
    line: str
    ul: float
    flow_ul_min: float
    total_ul: float | None
    mass_g: float | None
    mass_sd_g: float
    host_counted: bool = False
    """Whether `total_ul` is counted in this process, and starts anew in the next one."""

    def to_json(self) -> dict[str, Any]:
        """Plain data for the journal."""
        return {
            "n": self.n,
            "act": self.act,
            "line": self.line,
            "ul": self.ul,
            "flow_ul_min": self.flow_ul_min,
            "total_ul": None if self.host_counted else self.total_ul,
            "mass_g": self.mass_g,
            "mass_sd_g": self.mass_sd_g,
        }


@dataclass(slots=True)
class StepRecord:
    """One step: what was asked, what was moved so far, and its result once it has one."""

    n: int
    verb: str
    args: Mapping[str, Any]
    at: str
    """Its place: branch and number within it (:mod:`controller.steps.branches`)."""
    parts: list[Moved] = field(default_factory=list)
    charged_ul: float = 0.0
    """How much of what was asked is taken as given; the rest may still be given."""
    best_ul: float = 0.0
    """The best value of what was given; what a person has accepted counts as `charged_ul`."""
    error_ul: float = 0.0
    """The uncertainty of `best_ul` (k = 3)."""
    doubt: tuple[str, ...] = ()
    """Why it is in doubt what the last dose moved; empty if it is certain, or a person has accepted it."""
    accepted: bool = False
    """A person has accepted what was delivered so far, and nothing was given since."""
    counted_ul: float = 0.0
    """By how much its pump's counter has gone on in the doses after which it was asked."""
    acts: int = 0
    open_act: Act | None = None
    unvouched: tuple[str, ...] = ()
    """Why the outcome of the open dose is for a person to judge, whatever pump and balance say."""
    until: str | None = None
    """A sleep's deadline (UTC, ISO 8601)."""
    deadline_s: float | None = None
    """The same in loop time, when it was set in this process."""
    peak_kpa: float | None = None
    """Highest pressure before the sterile filter that this process saw while the step ran (kPa gauge)."""
    noted: bool = False
    """Its note is in the journal."""
    finished: bool = False
    """The pump ended its dose by itself, as it should: what it moved is the step's amount, exact or not."""
    done: bool = False
    result: Any = None
    volumes: Mapping[str, Any] | None = None

    @property
    def moved_ul(self) -> tuple[float, float, float]:
        """Best value and bounds (µL) of everything moved so far."""
        parts = self.parts
        return sum(p.ul for p in parts), sum(p.low for p in parts), sum(p.high for p in parts)

    def accept(self) -> None:
        """Take over a person's decision: what may have been delivered counts as delivered."""
        self.best_ul, self.error_ul = self.charged_ul, 0.0
        self.doubt, self.accepted = (), True

    def booked(self, moved: Moved, end: str, doubt: tuple[str, ...] = ()) -> None:
        """A dose has its outcome. A portion that the pump ended by itself counts as what it is best known to be; of one
        that was cut short, so much as it may have been at the most. What the pump's counter claims, of this dose or of
        all together, is given in any case: a tube that has slipped off its vessel fills nothing, and drains the loop.
        """
        self.parts.append(moved)
        self.counted_ul += moved.counted
        part_ul = max(moved.ul, moved.claimed_ul) if end == PORTION else moved.charged_ul
        self.charged_ul = max(self.charged_ul + part_ul, self.counted_ul - moved.counter_step)
        self.best_ul += moved.ul
        self.error_ul = math.hypot(self.error_ul, max(moved.high - moved.ul, moved.ul - moved.low))
        self.doubt, self.accepted, self.unvouched = doubt, False, ()
        self.open_act = None
        self.finished = end == "done"


def records_of(entries: Iterable[Entry]) -> dict[str, StepRecord]:
    """The steps of one run from its journal rows, by place, in the order in which they were begun."""
    steps: dict[int, StepRecord] = {}
    for entry in entries:
        body = entry.body
        if entry.kind == "step":
            place = body.get("at", str(body["n"]))  # rows of releases that had no branches
            steps[body["n"]] = StepRecord(body["n"], body["verb"], body["args"], place, until=body.get("until"))
        elif entry.kind == "step.act":
            step = steps[body["n"]]
            step.acts = body["act"]
            step.open_act = Act(**body)
        elif entry.kind == "step.doubted":
            steps[body["n"]].unvouched = (body["why"],)
        elif entry.kind == "step.refused":
            steps[body["n"]].open_act = None
        elif entry.kind == "moved":
            # Rows of releases that did not write the step have it taken off the count already.
            step_ul = body.get("counter_step", 0.0)
            moved = Moved(
                body["ul"], body["low"], body["high"], body["source"], counted=body["counted"], counter_step=step_ul
            )
            doubt = tuple(body.get("doubt", ()))
            if body["end"] == "unknown" and not doubt:  # rows of releases that did not write the doubt
                doubt = (f"between {moved.low / 1000:.2f} and {moved.high / 1000:.2f} mL moved, by {moved.source}",)
            steps[body["n"]].booked(moved, body["end"], doubt)
            steps[body["n"]].peak_kpa = body.get("peak_kpa", steps[body["n"]].peak_kpa)
        elif entry.kind == "step.accepted":
            steps[body["n"]].accept()
        elif entry.kind.startswith("note."):
            steps[body["step"]].noted = True
        elif entry.kind == "step.done":
            step = steps[body["n"]]
            step.done, step.result, step.volumes = True, body["result"], body["volumes"]
    return {step.at: step for step in steps.values()}


def answered_of(entries: Iterable[Entry]) -> set[str]:
    """The messages of one run after which a person has resumed it. One that was told right before a crash, and that
    nobody has answered, is not among them.
    """
    told: set[str] = set()
    answered: set[str] = set()
    for entry in entries:
        if entry.kind == "run.message":
            told.add(entry.body["text"])
        elif entry.kind == "run.state" and entry.body["event"] == RunEvent.RESUME:
            answered |= told
    return answered
