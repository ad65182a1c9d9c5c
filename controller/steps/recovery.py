"""What to do when a step cannot simply go on: a pure policy from problem to advice (E8).

Only what passes by itself is waited out, and only for a while; everything else holds the run for a person, with a message
that says what happened, why, and what to do. The policy never skips a step and never guesses an outcome.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Trouble(StrEnum):
    """Kinds of problem."""

    REFUSED = "refused"
    """The gate would not pass the command."""
    FAILED = "failed"
    """The device did not take it, or did not answer."""
    WORN = "worn"
    """A probe took its calibration and is not fit for use."""
    SHORT = "short"
    """The pump stopped before its volume was delivered."""
    OVERTIME = "overtime"
    """The pump still ran when it should long have ended."""
    UNKNOWN = "unknown"
    """What was delivered is only known as an interval."""
    SILENT = "silent"
    """A device that must be asked does not answer."""
    SHORTFALL = "shortfall"
    """Less than requested was delivered, and the rest cannot be given."""
    EXCESS = "excess"
    """More than requested was delivered."""


@dataclass(frozen=True, slots=True)
class StepProblem:
    """Describes a failed attempt of a step: the kind of trouble, where (`device.point`), and the reasons given."""

    trouble: Trouble
    where: str
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Advice:
    """Try again `after_s` seconds, or hold the run (`after_s` None) with `message`."""

    after_s: float | None
    message: str

    @property
    def hold(self) -> bool:
        """Whether a person is needed."""
        return self.after_s is None


PATIENCE: dict[Trouble, tuple[float, ...]] = {
    Trouble.REFUSED: (5.0, 10.0, 20.0, 40.0, 60.0),
    Trouble.FAILED: (5.0, 15.0, 30.0),
    Trouble.WORN: (),
    Trouble.SHORT: (0.0, 5.0),
    Trouble.OVERTIME: (),
    Trouble.UNKNOWN: (),
    Trouble.SILENT: (10.0, 30.0, 60.0),
    Trouble.SHORTFALL: (),
    Trouble.EXCESS: (),
}
"""Seconds to wait before the first, second, … further try; after the last one the run is held."""

PASSING = (
    "stale",
    "s old",
    "never read",
    "reading failed",
    "one at a time",
    "running on the same vessel",
    "is not known",
    "no_heart_flow",
    "over_pressure",
)
"""Words in a refusal's reason that say that it may pass by itself; every reason has to, else a person is needed.

A bubble that trips the filter's pressure frees itself often enough; what does not, is latched by the kernel."""
LASTING = ("reset", "latched")
"""Words that say that it will not, whatever else the reason says."""

_WHAT = {
    Trouble.REFUSED: ("the safety gate refuses", "an interlock stands", "remove the cause the reasons name"),
    Trouble.FAILED: ("the device did not do it", "its link or the device itself", "look at the device and its cable"),
    Trouble.WORN: ("the probe was not calibrated", "it is worn or fouled", "do what the reason names"),
    Trouble.SHORT: (
        "the pump stopped before its volume was delivered",
        "a person or an interlock stopped it",
        "look at the pump, its tubing and the alarms",
    ),
    Trouble.OVERTIME: (
        "the pump ran longer than its volume takes, and was stopped",
        "a wrong tubing setting or a slipping rotor",
        "check the tubing and calibrate the pump",
    ),
    Trouble.UNKNOWN: (
        "what was delivered is not known for certain",
        "the pump lost power in the middle of it, its tube slipped off, or the vessel was handled meanwhile",
        "look at the tube and the balance, compare the vessels with the recorded interval, tell the books what is there",
    ),
    Trouble.SILENT: ("the device does not answer", "its link is down", "look at its cable and power"),
    Trouble.SHORTFALL: (
        "less than requested was delivered, and the rest cannot be given",
        "the dose was cut short and its rest is below the pump's minimum, or the pump delivers less than its calibration"
        " says",
        "check the pump and its tube; resuming accepts the delivered volume as it is, aborting gives the run up",
    ),
    Trouble.EXCESS: (
        "more than requested was delivered",
        "the tubing setting or the calibration of the pump is wrong",
        "check the pump and its tube; resuming accepts the delivered volume as it is, aborting gives the run up",
    ),
}


def advise(problem: StepProblem, tries: int) -> Advice:
    """Decide whether to repeat a step after a problem, or to hold the run. `tries` is the number of earlier attempts."""
    what, cause, action = _WHAT[problem.trouble]
    reasons = f" ({'; '.join(problem.reasons)})" if problem.reasons else ""
    message = (
        f"{problem.where}: {what}{reasons}. Likely cause: {cause}. Next: {action}, then resume the run or abort it"
    )
    waits = PATIENCE[problem.trouble]
    if problem.trouble is Trouble.REFUSED and not all(_passing(reason) for reason in problem.reasons):
        waits = ()
    if tries < len(waits):
        return Advice(waits[tries], message)
    return Advice(None, message)


def _passing(reason: str) -> bool:
    return any(word in reason for word in PASSING) and not any(word in reason for word in LASTING)
