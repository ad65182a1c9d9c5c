"""The journal's record of a run's steps, which is fed to the run when it is replayed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.core.run_states import RunEvent
from controller.journal.terms import Entry
from controller.ledger.witnesses import BY_PUMP_ALONE, Moved

PORTION = "portion"
"""How a dose ended if its pump ended it and more of the step is to come."""

PAUSED = "paused"
"""What holds a run that a person has paused."""


@dataclass(slots=True)
class Act:
    """Records one dose before it is given, with all that is needed to determine afterwards what was delivered."""

    n: int
    act: int
    line: str
    ul: float
    flow_ul_min: float
    total_ul: float | None
    mass_g: float | None
    mass_sd_g: float
    host_counted: bool = False
    """Whether `total_ul` is counted in this process and starts again at zero in the next one."""
    ports: Mapping[str, int] = field(default_factory=dict)
    """Positions of the selectors on its path, by name."""

    def to_json(self) -> dict[str, Any]:
        """Return plain data for the journal."""
        return {
            **({"ports": dict(self.ports)} if self.ports else {}),
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
    """One step: its request, what was moved so far, and its result."""

    n: int
    verb: str
    args: Mapping[str, Any]
    at: str
    """Its position: branch and number within it (:mod:`controller.steps.branches`)."""
    parts: list[Moved] = field(default_factory=list)
    charged_ul: float = 0.0
    """How much of the requested volume counts as given; the rest may still be given."""
    best_ul: float = 0.0
    """Best value of the given volume; what a person has accepted counts as `charged_ul`."""
    error_ul: float = 0.0
    """Uncertainty of `best_ul` (k = 3)."""
    pumped_ul: float = 0.0
    """The part of `best_ul` that only the pump has measured: the error of its calibration is common to all of it."""
    doubt: tuple[str, ...] = ()
    """Why the result of the last dose is in doubt; empty if it is certain or a person has accepted it."""
    accepted: bool = False
    """Whether a person has accepted the delivered volume and nothing was given since."""
    counted_ul: float = 0.0
    """How much the pump's counter has advanced in the doses after which it was read."""
    acts: int = 0
    open_act: Act | None = None
    unvouched: tuple[str, ...] = ()
    """Why a person must judge the outcome of the open dose, whatever pump and balance show."""
    until: str | None = None
    """A sleep's deadline (UTC, ISO 8601)."""
    deadline_s: float | None = None
    """The deadline in loop time (s), if it was set in this process."""
    peak_kpa: float | None = None
    """Highest pressure before the sterile filter while the step ran in this process (kPa gauge)."""
    noted: bool = False
    """Whether its note is in the journal."""
    answer: float | str | None = None
    """A person's answer to its question, in the internal unit."""
    reply: Mapping[str, Any] = field(default_factory=dict)
    """What the journal has of that answer."""
    finished: bool = False
    """Whether the pump ended its last dose as commanded: the moved volume is the step's, exact or not."""
    done: bool = False
    result: Any = None
    volumes: Mapping[str, Any] | None = None

    @property
    def moved_ul(self) -> tuple[float, float, float]:
        """Best value and bounds (µL) of everything moved so far."""
        parts = self.parts
        return sum(p.ul for p in parts), sum(p.low for p in parts), sum(p.high for p in parts)

    def accept(self) -> None:
        """Count what may have been delivered as delivered: a person has accepted it."""
        self.best_ul, self.error_ul = self.charged_ul, 0.0
        self.doubt, self.accepted = (), True

    def booked(self, moved: Moved, end: str, doubt: tuple[str, ...] = ()) -> None:
        """Add the outcome of a dose.

        A portion that the pump ended itself counts with its best value, one that was cut short with its upper bound. If
        only the counter measured the latter, its bound is the counter's: the error of the calibration is the same in the
        remainder. A dose in doubt counts with all that it may have moved. What the pump's counter claims, of this dose or of
        all together, counts as given in any case: a tube that has slipped off its vessel fills nothing, and drains the loop.
        """
        self.parts.append(moved)
        self.counted_ul += moved.counted
        part_ul = moved.ul if end == PORTION else moved.high if doubt else moved.charged_ul
        part_ul = max(part_ul, moved.claimed_ul)
        self.charged_ul = max(self.charged_ul + part_ul, self.counted_ul - moved.counter_step)
        self.best_ul += moved.ul
        self.pumped_ul += moved.ul if moved.source in BY_PUMP_ALONE else 0.0
        self.error_ul = math.hypot(self.error_ul, max(moved.high - moved.ul, moved.ul - moved.low))
        self.doubt, self.accepted, self.unvouched = doubt, False, ()
        self.open_act = None
        self.finished = end == "done"


def _begin_act(step: StepRecord, body: Mapping[str, Any]) -> None:
    step.acts = body["act"]
    step.open_act = Act(**body)


def _doubted(step: StepRecord, body: Mapping[str, Any]) -> None:
    step.unvouched = (body["why"],)


def _refused(step: StepRecord, _: Mapping[str, Any]) -> None:
    step.open_act = None


def _moved(step: StepRecord, body: Mapping[str, Any]) -> None:
    counted, step_ul = body["counted"], body["counter_step"]
    moved = Moved(body["ul"], body["low"], body["high"], body["source"], counted=counted, counter_step=step_ul)
    step.booked(moved, body["end"], tuple(body.get("doubt", ())))
    step.peak_kpa = body.get("peak_kpa", step.peak_kpa)


def _accepted(step: StepRecord, _: Mapping[str, Any]) -> None:
    step.accept()


def _answered(step: StepRecord, body: Mapping[str, Any]) -> None:
    step.answer, step.reply = body["value"], body


def _done(step: StepRecord, body: Mapping[str, Any]) -> None:
    step.done, step.result, step.volumes = True, body["result"], body["volumes"]


_TAKE: Mapping[str, Callable[[StepRecord, Mapping[str, Any]], None]] = {
    "step.act": _begin_act,
    "step.doubted": _doubted,
    "step.refused": _refused,
    "moved": _moved,
    "step.accepted": _accepted,
    "step.answered": _answered,
    "step.done": _done,
}


def records_of(entries: Iterable[Entry]) -> dict[str, StepRecord]:
    """Return the steps of one run from its journal rows, by position, in the order in which they began."""
    steps: dict[int, StepRecord] = {}
    for entry in entries:
        body = entry.body
        if entry.kind == "step":
            place = body["at"]
            steps[body["n"]] = StepRecord(body["n"], body["verb"], body["args"], place, until=body.get("until"))
        elif (take := _TAKE.get(entry.kind)) is not None:
            take(steps[body["n"]], body)
        elif entry.kind == "assay" and "step" in body and body["used"]:
            # The answer's own row follows it; a crash may come in between.
            steps[body["step"]].answer, steps[body["step"]].reply = body["value"], body
        elif entry.kind.startswith("note."):
            steps[body["step"]].noted = True
    return {step.at: step for step in steps.values()}


def answered_of(entries: Iterable[Entry]) -> set[str]:
    """Return the messages of one run that a person has answered by resuming it.

    A message written right before a crash without an answer is not among them.
    """
    messages: set[str] = set()
    answered: set[str] = set()
    for entry in entries:
        if entry.kind == "run.message":
            messages.add(entry.body["text"])
        elif entry.kind == "run.state" and entry.body["event"] == RunEvent.RESUME:
            answered |= messages
    return answered


def held_for_of(entries: Iterable[Entry]) -> set[str]:
    """Return the messages that hold one run since a person resumed it last, and :data:`PAUSED` for a pause."""
    messages: set[str] = set()
    for entry in entries:
        if entry.kind == "run.message" and entry.body.get("hold", True):
            messages.add(entry.body["text"])
        elif entry.kind == "run.state" and entry.body["event"] == RunEvent.RESUME:
            messages.clear()
        elif entry.kind == "run.state" and entry.body["event"] == RunEvent.PAUSE:
            messages.add(PAUSED)
    return messages
