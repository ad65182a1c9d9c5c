"""The arithmetic of a round: which updates count, their mean, and the step of the common weights. Only numpy."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TOLERANCE = 1.01
"""An update may be so many times as long as the bound: it is rounded when it is sent in 16 bits."""
VOID_S = 60.0
"""A round in which too few answer is given up after this time; each time in a row the time is doubled."""
MAX_LOSS = 1e30
MAX_SCORES, MAX_NAME, MAX_REASON = 64, 80, 300
Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """What a node says of itself with an answer.

    Attributes:
        loss: Mean loss of its local steps.
        refused: Why it sends no update; empty if it sends one.
        scores: Of the common weights, on its own held-out data.
        sent: Bytes that it has sent since the job began.
        cpu_s: Processor time that it has used since the job began (s).
    """

    loss: float
    refused: str
    scores: Mapping[str, float]
    sent: int
    cpu_s: float


def figures_of(said: Mapping[str, object]) -> NodeFigures:
    """Return the figures of an answer, which another member has written.

    Args:
        said: As they came.

    Raises:
        ValueError: One is missing, or no number that can be: it would end the job of all, or lift its budget.
    """
    refused = said.get("refused")
    if not isinstance(refused, str):
        raise ValueError(f"refused is {refused!r:.80}, not a text")
    sent = said.get("sent")
    if not isinstance(sent, int) or sent < 0:
        raise ValueError(f"sent is {sent!r:.80}, not a number of bytes")
    loss, cpu_s = _number("loss", said.get("loss")), _number("cpu_s", said.get("cpu_s"))
    if cpu_s < 0.0:
        raise ValueError(f"cpu_s is {cpu_s:g}, less than 0")
    return NodeFigures(loss, refused[:MAX_REASON], _scores(said.get("scores")), sent, cpu_s)


def _number(name: str, value: object) -> float:
    if not isinstance(value, int | float) or not abs(value) <= MAX_LOSS:  # also true for NaN
        raise ValueError(f"{name} is {value!r:.80}, not a number")
    return float(value)


def _scores(said: object) -> dict[str, float]:
    try:
        found = json.loads(str(said))
    except (ValueError, RecursionError):
        raise ValueError("scores are no JSON") from None
    if not isinstance(found, dict) or len(found) > MAX_SCORES or any(len(name) > MAX_NAME for name in found):
        raise ValueError(f"scores are not at most {MAX_SCORES} numbers by name")
    return {name: _number("one of the scores", value) for name, value in found.items()}


def refused(update: NDArray[np.floating], numbers: int, clip: float) -> str:
    """Return why an update cannot be counted; empty if it can.

    Args:
        update: As it came.
        numbers: How many numbers the weights are.
        clip: Largest length of an update.
    """
    if update.dtype not in (np.float32, np.float16) or update.shape != (numbers,):
        return f"its update has another shape: {update.shape} of {update.dtype}, not {numbers:,} numbers"
    norm = float(np.linalg.norm(update.astype(np.float64)))
    if not math.isfinite(norm):
        return "its update is not finite"
    if norm > TOLERANCE * clip:
        return f"its update has the length {norm:.3g}, more than {clip:g}"
    return ""


def over_budget(budget: Mapping[str, float], sent: int, cpu_s: float, left_s: float | None, elapsed_s: float) -> str:
    """Return which bound of its budget a job has reached; empty if none.

    Args:
        budget: Of the manifest: bytes, core_hours.
        sent: Bytes that were sent since the job began.
        cpu_s: Processor time that was used since the job began (s).
        left_s: Time until the latest end of the job (s), as it was when this process began; None: there is none.
        elapsed_s: Time since then (s).
    """
    if left_s is not None and elapsed_s > left_s:
        return "its time is over"
    if sent > budget["bytes"]:
        return f"its budget of bytes is used ({sent:,})"
    if cpu_s > 3600.0 * budget["core_hours"]:
        return f"its budget of processor time is used ({cpu_s / 3600.0:.2f} core-hours)"
    return ""


@dataclass(slots=True)
class Common:
    """What all nodes have in common.

    Attributes:
        outer: Rounds that are behind it.
        shared: The weights.
        momentum: Of the rounds (Nesterov).
    """

    outer: int
    shared: Vector
    momentum: Vector

    def advance(self, updates: Mapping[int, NDArray[np.floating]], rate: float, momentum: float) -> None:
        """Move the weights by the mean of updates, in which each node counts the same.

        Args:
            updates: By rank; not empty.
            rate: Of the step.
            momentum: Share of the last steps that is kept.
        """
        total = np.zeros(self.shared.shape, np.float64)
        for _, update in sorted(updates.items()):  # the order of the sum does not depend on who was first
            total += update
        mean = (total / len(updates)).astype(np.float32)
        self.momentum = mean if self.outer == 0 else (momentum * self.momentum + mean).astype(np.float32)
        self.shared = (self.shared - rate * (mean + momentum * self.momentum)).astype(np.float32)
        self.outer += 1


@dataclass(slots=True)
class RoundWait:
    """When a round ends, in terms of the machines that take part: a busy one is slow for all.

    Attributes:
        asked: Nodes that were asked.
        required: So many have to answer.
        patience: It ends after so many times the time that the required ones took.
        quorum_s: That time; infinite until they have answered.
    """

    asked: int
    required: int
    patience: float
    quorum_s: float = math.inf

    def over(self, answered: int, elapsed_s: float, failed: int = 0) -> bool:
        """Return whether the round ends now.

        Args:
            answered: Nodes that have answered.
            elapsed_s: Time since they were asked (s).
            failed: Nodes that have answered with an error.
        """
        if answered >= self.required:
            self.quorum_s = min(self.quorum_s, elapsed_s)
        return answered + failed >= self.asked or elapsed_s >= self.patience * self.quorum_s
